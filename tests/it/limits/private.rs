//! A session with a process tree of its own: others neither see nor signal it, nor it them.

use sandshell_client::Client;
use sandshell_client::types::SessionRequest;
use sandshell_testkit::{Agent, alive_with_marker};

use super::{run, session};
use crate::calls::{env, exec, in_time, marker, skipped};

async fn private(client: &Client, mark: &str) -> Option<sandshell_client::types::SessionId> {
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

#[tokio::test]
async fn a_private_session_sees_only_itself_and_nobody_sees_it() {
    for options in [&[][..], &["--without", "cgroup"][..]] {
        let agent = Agent::builder().args(options).start();
        let client = agent.client();
        let (ours, theirs) = (marker(), marker());
        let Some(id) = private(&client, &ours).await else {
            return;
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
        assert_eq!(seen.stdout, "0\n", "{options:?}: {seen:?}");
        let seen = run(&client, &id, &looks(&theirs)).await;
        assert_eq!(seen.stdout, "0\n", "{options:?}: {seen:?}");
        // PID 1 is ours, the shell is the first after it, and the job follows.
        let count = run(&client, &id, "echo $$; all=(/proc/[0-9]*); echo ${#all[@]}").await;
        assert_eq!(count.stdout, "2\n3\n", "{count:?}");

        // All that either can name it may signal, and hits nobody but itself.
        run(&client, &other, "trap '' TERM; kill -TERM -1; trap - TERM").await;
        let lives = run(&client, &id, "kill -0 $! && echo lives").await;
        assert_eq!(lives.stdout, "lives\n", "{options:?}");
        let killed = run(&client, &id, "kill -KILL 1; kill -0 1 && echo lives").await;
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
        assert_eq!(alive_with_marker(&ours), Vec::<i32>::new(), "{options:?}");
        assert_eq!(exec(&client, "echo ok").await.stdout, "ok\n");
    }
}

#[tokio::test]
async fn commands_of_a_private_session_are_like_any_other() {
    let agent = Agent::start();
    let client = agent.client();
    let Some(id) = private(&client, &marker()).await else {
        return;
    };
    let result = run(&client, &id, "printf out; printf err >&2; (exit 7)").await;
    assert_eq!(
        (result.stdout.as_str(), result.stderr.as_str()),
        ("out", "err")
    );
    assert_eq!(result.exit_code, 7);
    // A timeout interrupts, whichever namespace the foreground is in.
    let request = sandshell_client::types::SessionExecRequest {
        command: "sleep 1000".to_owned(),
        timeout_ms: Some(200),
        ..Default::default()
    };
    let result = in_time(client.session_exec(&id, &request)).await.unwrap();
    assert!(result.timed_out);
    assert_eq!(result.session_state, "kept");
    let detailed = in_time(client.session(&id)).await.unwrap();
    assert_eq!(detailed.stats.unwrap().processes, 1);
    // What was killed inside is replaced.
    let killed = run(&client, &id, "kill -9 $$").await;
    assert_eq!(killed.session_state, "restored_before");
    assert_eq!(run(&client, &id, "echo back").await.stdout, "back\n");
}
