//! A session with a process tree of its own: others neither see nor signal it, nor it them.

use sandshell_client::Client;
use sandshell_client::types::{
    ErrorCode, IsolationPolicy, IsolationSpec, ProcessRequest, SandboxId, SandboxSpec, SessionId,
    SessionRequest,
};
use sandshell_testkit::{Agent, Hub, UnprivilegedUser, alive_with_marker};

use super::{run, session};
use crate::calls::{env, exec, in_time, marker, process_of, skipped};

async fn private(client: &Client, mark: &str) -> Option<SessionId> {
    let request = SessionRequest {
        private_processes: true,
        env: env(&[("MARKER", Some(mark))]),
        ..Default::default()
    };
    match in_time(client.create_session(&request)).await {
        Ok(record) => {
            assert!(record.private_processes);
            Some(record.id)
        }
        Err(error) => {
            assert_eq!(error.status(), Some(422), "{error}");
            skipped(&format!("no process tree of its own can be had: {error}"));
            None
        }
    }
}

/// Agents by themselves, and those of sandboxes, each with its name.
async fn everywhere() -> Vec<(&'static str, Client, Keeper)> {
    let mut places = Vec::new();
    for (name, options) in [
        ("an agent", &[][..]),
        ("an agent without groups", &["--without", "cgroup"][..]),
    ] {
        let agent = Agent::builder().args(options).start();
        places.push((name, agent.client(), Keeper::Agent(agent)));
    }
    let user = UnprivilegedUser::get();
    let hubs = [
        user.is_some()
            .then(|| ("a sandbox of root's", Hub::start())),
        Some((
            "a sandbox of a user's",
            user.map_or_else(Hub::start, Hub::of),
        )),
    ];
    for (name, hub) in hubs.into_iter().flatten() {
        let spec = SandboxSpec {
            isolation: Some(IsolationSpec {
                policy: IsolationPolicy::BestEffort,
                ..IsolationSpec::default()
            }),
            ..SandboxSpec::default()
        };
        let made = in_time(hub.client().create_sandbox(&spec)).await.unwrap();
        let inside = hub.client().sandbox(&made.id);
        places.push((name, inside, Keeper::Sandbox(hub, made.id)));
    }
    places
}

/// What holds a place.
enum Keeper {
    Agent(Agent),
    Sandbox(Hub, SandboxId),
}

impl Keeper {
    async fn end(self) {
        match self {
            Self::Agent(agent) => drop(agent),
            Self::Sandbox(hub, id) => {
                in_time(hub.client().destroy_sandbox(&id)).await.unwrap();
            }
        }
    }
}

/// A process cannot be started out of a private session: all others would see it.
#[tokio::test]
async fn a_process_is_not_started_from_a_private_session() {
    let agent = Agent::builder().start();
    let client = agent.client();
    let mark = marker();
    let Some(id) = private(&client, &mark).await else {
        return;
    };
    let request = ProcessRequest {
        session: Some(id.clone()),
        ..process_of("sleep 600")
    };
    let refused = in_time(client.create_process(&request)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest));
    let problem = refused.problem().unwrap();
    assert_eq!(problem.pointer.as_deref(), Some("/session"), "{problem:?}");
    assert!(problem.detail.contains("private"), "{problem:?}");
    // Its own commands start what they like, in its tree.
    let own = run(&client, &id, "sleep 600 & echo $!").await;
    assert_eq!(own.exit_code, 0, "{own:?}");
}

#[tokio::test]
async fn a_private_session_sees_only_itself_and_nobody_sees_it() {
    for (place, client, keeper) in everywhere().await {
        let (ours, theirs) = (marker(), marker());
        let Some(id) = private(&client, &ours).await else {
            continue;
        };
        let other = session(
            &client,
            &SessionRequest {
                env: env(&[("MARKER", Some(&theirs))]),
                ..Default::default()
            },
        )
        .await;
        let looks = |mark: &str| {
            format!(
                "sleep 1000 & cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c '{mark}'; :"
            )
        };
        let seen = run(&client, &other, &looks(&ours)).await;
        assert_eq!(seen.stdout, "0\n", "{place}: {seen:?}");
        let seen = run(&client, &id, &looks(&theirs)).await;
        assert_eq!(seen.stdout, "0\n", "{place}: {seen:?}");
        // PID 1 is ours, the shell is the first after it, and the job follows.
        let count = run(&client, &id, "echo $$; all=(/proc/[0-9]*); echo ${#all[@]}").await;
        assert_eq!(count.stdout, "2\n3\n", "{count:?}");

        // All that either can name it may signal, and hits nobody but itself.
        run(&client, &other, "trap '' TERM; kill -TERM -1; trap - TERM").await;
        let lives = run(&client, &id, "kill -0 $! && echo lives").await;
        assert_eq!(lives.stdout, "lives\n", "{place}");
        let killed = run(&client, &id, "kill -KILL 1; [ -d /proc/1 ] && echo lives").await;
        assert_eq!(killed.stdout, "lives\n");

        // It survives its shell, and goes as a whole.
        let left = run(&client, &id, "exit 3").await;
        assert_eq!(
            (left.exit_code, left.session_state.as_str()),
            (3, "restored")
        );
        assert_eq!(run(&client, &id, "echo $$").await.stdout, "2\n");
        assert_eq!(alive_with_marker(&ours).len(), 1, "the job");
        in_time(client.delete_session(&id)).await.unwrap();
        assert_eq!(alive_with_marker(&ours), Vec::<i32>::new(), "{place}");
        assert_eq!(exec(&client, "echo ok").await.stdout, "ok\n");

        // Whatever is left goes with the place.
        if let Some(id) = private(&client, &ours).await {
            // A program has no environment to look at while it is being loaded.
            let loaded = "until read c </proc/$p/comm && [ $c = sleep ] && \
                 grep -q MARKER /proc/$p/environ; do :; done";
            let both = format!(
                "sh -c 'sleep 1000 & a=$!; setsid sleep 1000 & for p in $a $!; do {loaded}; done'"
            );
            run(&client, &id, &both).await;
            assert_eq!(alive_with_marker(&ours).len(), 2, "in {place}");
        }
        keeper.end().await;
        assert_eq!(alive_with_marker(&ours), Vec::<i32>::new(), "{place}");
    }
}

#[tokio::test]
async fn commands_of_a_private_session_are_like_any_other() {
    for (place, client, _keeper) in everywhere().await {
        if let Some(id) = private(&client, &marker()).await {
            run_commands(place, &client, &id).await;
        }
    }
}

async fn run_commands(place: &str, client: &Client, id: &SessionId) {
    let result = run(client, id, "printf out; printf err >&2; (exit 7)").await;
    assert_eq!(
        (result.stdout.as_str(), result.stderr.as_str()),
        ("out", "err")
    );
    assert_eq!(result.exit_code, 7, "in {place}");
    // A timeout interrupts, whichever namespace the foreground is in.
    let request = sandshell_client::types::SessionExecRequest {
        command: "sleep 1000".to_owned(),
        timeout_ms: Some(200),
        ..Default::default()
    };
    let result = in_time(client.session_exec(id, &request)).await.unwrap();
    assert!(result.timed_out);
    assert_eq!(result.session_state, "kept");
    let detailed = in_time(client.session(id)).await.unwrap();
    assert_eq!(detailed.stats.unwrap().processes, 1);
    // What was killed inside is replaced.
    let killed = run(client, id, "kill -9 $$").await;
    assert_eq!(killed.session_state, "restored_before");
    assert_eq!(run(client, id, "echo back").await.stdout, "back\n");
}
