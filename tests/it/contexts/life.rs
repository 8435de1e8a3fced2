//! The life of contexts: making, queueing, ending, and what they leave behind.

use http::{HeaderMap, Method};
use sandshell_client::Page;
use sandshell_client::types::{
    ContextOutcome, ContextRequest, ContextState, ErrorCode, KernelChoice, Language, Problem,
    RunEvent, RunRequest, RunStatus, SessionRequest,
};
use sandshell_testkit::{Agent, alive_with_marker, wait_until_gone};

use super::{code_of, context_of, create, main_text, run};
use crate::calls::{DEADLINE, code_of as refusal_of, env, exec, in_time, marker, text};
use crate::signs::Bell;

fn named(id: &str, language: Language) -> ContextRequest {
    ContextRequest {
        id: Some(id.parse().unwrap()),
        ..context_of(language)
    }
}

#[tokio::test]
async fn one_id_makes_one_context() {
    let agent = Agent::start();
    let client = agent.client();
    let request = named("one", Language::Python);
    let (a, b, c) = tokio::join!(
        client.create_context(&request),
        client.create_context(&request),
        client.create_context(&request),
    );
    let pids = [a, b, c].map(|made| made.unwrap().pid);
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let other = client.create_context(&named("one", Language::Bash)).await;
    let problem = other.unwrap_err().problem().unwrap().clone();
    assert_eq!(problem.code, ErrorCode::IdConflict);
    assert_eq!(problem.pointer.as_deref(), Some("/language"));
    let listed = client.list_contexts(&Page::default()).await.unwrap().items;
    assert_eq!(listed.len(), 1);
    in_time(client.delete_context(&listed[0].id)).await.unwrap();
    let gone = client.context(&listed[0].id).await;
    assert_eq!(refusal_of(gone), ErrorCode::ContextNotFound);
}

#[tokio::test]
async fn contexts_run_side_by_side_and_share_nothing() {
    let agent = Agent::start();
    let client = agent.client();
    let mut made = Vec::new();
    for _ in 0..4 {
        made.push(create(&client, &context_of(Language::Python)).await.id);
    }
    made.push(create(&client, &context_of(Language::Javascript)).await.id);
    // Each waits for a file of the others: only side by side can they end.
    let dir = agent.work_dir();
    let runs = made.iter().enumerate().map(|(n, id)| {
        let code = if n == 4 {
            format!("const fs = require('fs'); var mine = {n}; fs.writeFileSync('{d}/{n}', ''); \
                     while (fs.readdirSync('{d}').filter((f) => f.length === 1).length < 5);", d = dir.display())
        } else {
            format!("import os, time\nmine = {n}\nopen('{d}/{n}', 'w').close()\n\
                     while len([f for f in os.listdir('{d}') if len(f) == 1]) < 5: time.sleep(0.001)", d = dir.display())
        };
        let (client, id) = (client.clone(), id.clone());
        async move { run(&client, &id, &code).await }
    });
    let replies = futures_join(runs).await;
    for reply in replies {
        assert_eq!(reply.end.status, RunStatus::Ok, "{reply:?}");
    }
    for (n, id) in made.iter().enumerate() {
        let reply = run(&client, id, "mine").await;
        assert_eq!(main_text(&reply), Some(n.to_string().as_str()));
    }
}

async fn futures_join<F: Future + Send + 'static>(
    futures: impl Iterator<Item = F>,
) -> Vec<F::Output>
where
    F::Output: Send + 'static,
{
    let tasks: Vec<_> = futures.map(tokio::spawn).collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}

#[tokio::test]
async fn runs_take_their_turn_and_the_queue_has_a_bound() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    let gate = agent.work_dir().join("gate");
    let wait = format!(
        "import os, time\norder = []\nprint('on', flush=True)\nwhile not os.path.exists('{}'): time.sleep(0.001)",
        gate.display()
    );
    let mut first = client.run_code_stream(&id, &code_of(&wait)).await.unwrap();
    while !matches!(in_time(first.next()).await, Some(Ok(RunEvent::Stdout(_)))) {}
    let mut waiting = Vec::new();
    for n in 0..100 {
        let request = code_of(&format!("order.append({n})"));
        // The answer to a streamed run begins when it is queued.
        waiting.push(client.run_code_stream(&id, &request).await.unwrap());
    }
    let record = client.context(&id).await.unwrap();
    assert_eq!(
        (record.state, record.queue_length),
        (ContextState::Busy, 100)
    );
    let refused = client.run_code(&id, &code_of("1")).await;
    assert_eq!(refusal_of(refused), ErrorCode::ContextBusy);
    std::fs::write(&gate, "").unwrap();
    for mut events in waiting {
        while in_time(events.next()).await.is_some() {}
    }
    let reply = run(&client, &id, "order == list(range(100))").await;
    assert_eq!(main_text(&reply), Some("True"));
}

#[tokio::test]
async fn a_restart_drops_the_present_run_and_those_that_wait() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    let mut present = client
        .run_code_stream(&id, &code_of("print(1, flush=True)\nwhile True: pass"))
        .await
        .unwrap();
    while !matches!(in_time(present.next()).await, Some(Ok(RunEvent::Stdout(_)))) {}
    let mut waiting = client.run_code_stream(&id, &code_of("2")).await.unwrap();
    let record = in_time(client.restart_context(&id)).await.unwrap();
    assert_eq!((record.state, record.restarts), (ContextState::Idle, 1));
    for events in [&mut present, &mut waiting] {
        let mut last = None;
        while let Some(event) = in_time(events.next()).await {
            last = Some(event.unwrap());
        }
        let Some(RunEvent::End(end)) = last else {
            panic!("{last:?}");
        };
        assert_eq!(end.status, RunStatus::Interrupted);
        assert_eq!(end.context, ContextOutcome::Lost);
    }
    assert_eq!(main_text(&run(&client, &id, "3").await), Some("3"));
}

#[tokio::test]
async fn nothing_is_left_after_a_delete_or_the_agents_end() {
    let agent = Agent::start();
    let client = agent.client();
    let mark = marker();
    let mut bell = Bell::hang(&agent.work_dir());
    // Children that want to stay: in a session of their own, deaf to TERM. A run may well be over
    // before they are what they become, so they say when they are.
    let stay = format!(
        "setsid sh -c 'trap \"\" TERM; echo >{}; while :; do sleep 1000; done; : {mark}' >/dev/null 2>&1 &",
        bell.path()
    );
    let python = create(&client, &context_of(Language::Python)).await;
    let node = create(&client, &context_of(Language::Javascript)).await;
    let bash = create(&client, &context_of(Language::Bash)).await;
    let in_python = format!("import os\nos.system({stay:?})");
    assert_eq!(
        run(&client, &python.id, &in_python).await.end.status,
        RunStatus::Ok
    );
    let in_node = format!("require('child_process').execSync({stay:?}, {{ stdio: 'inherit' }})");
    assert_eq!(
        run(&client, &node.id, &in_node).await.end.status,
        RunStatus::Ok
    );
    assert_eq!(
        run(&client, &bash.id, &stay).await.end.status,
        RunStatus::Ok
    );
    bell.rung(3).await;
    assert!(alive_with_marker(&mark).len() >= 3);
    // One is busy when it is deleted.
    let busy = client
        .run_code_stream(&python.id, &code_of("while True: pass"))
        .await
        .unwrap();
    for context in [&python, &node, &bash] {
        in_time(client.delete_context(&context.id)).await.unwrap();
    }
    drop(busy);
    assert_eq!(alive_with_marker(&mark), Vec::<i32>::new());
    let sessions = client.list_sessions(&Page::default()).await.unwrap();
    assert!(sessions.items.is_empty());
    let last = create(&client, &context_of(Language::Python)).await;
    run(&client, &last.id, &in_python).await;
    bell.rung(1).await;
    assert!(!alive_with_marker(&mark).is_empty());
    assert!(agent.stop_gracefully().success());
    let left = wait_until_gone(&mark, DEADLINE);
    assert_eq!(left, Vec::<i32>::new());
}

#[tokio::test]
async fn an_idle_context_ends_by_itself() {
    let agent = Agent::start();
    let client = agent.client();
    let mut bell = Bell::hang(&agent.work_dir());
    let mut ran = None;
    // It may be over before the code comes to it, on a machine that stands still.
    for idle in [300, 3000, 30_000] {
        let request = ContextRequest {
            idle_timeout_ms: Some(idle),
            ..context_of(Language::Python)
        };
        let id = create(&client, &request).await.id;
        // Longer than that, but not idle.
        let code = format!(
            "import time; time.sleep({idle} / 1000 + 0.2); held = open('{}', 'w'); held.write('!'); held.flush()",
            bell.path()
        );
        match in_time(client.run_code(&id, &code_of(&code))).await {
            Ok(reply) => {
                ran = Some((id, reply));
                break;
            }
            Err(error) => assert_eq!(error.code(), Some(ErrorCode::ContextNotFound), "{error}"),
        }
    }
    let (id, reply) = ran.expect("a context that did not end before its code came");
    assert_eq!(reply.end.status, RunStatus::Ok);
    bell.rung(1).await;
    bell.let_go().await;
    // It ended by itself; whoever comes in between waits until it is forgotten.
    if let Err(error) = in_time(client.delete_context(&id)).await {
        assert_eq!(error.code(), Some(ErrorCode::ContextNotFound));
    }
    assert_eq!(
        refusal_of(client.context(&id).await),
        ErrorCode::ContextNotFound
    );
}

#[tokio::test]
async fn what_does_not_respond_is_killed_and_that_is_said() {
    let agent = Agent::start();
    let client = agent.client();
    let fifo = agent.work_dir().join("fifo");
    let fifo = fifo.display();
    exec(&client, &format!("mkfifo {fifo}")).await;
    for (language, code) in [
        (
            Language::Python,
            "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        ),
        (
            Language::Javascript,
            // Nobody writes to it. Node could end a loop, or a wait of its own, but not a call of the kernel's.
            &format!("require('fs').readFileSync('{fifo}')"),
        ),
    ] {
        let context = create(&client, &context_of(language)).await;
        let mut last = None;
        // On a machine that stands still the time may be over before the code comes to what cannot be interrupted.
        for timeout in [100, 3000, 30_000] {
            let request = RunRequest {
                timeout_ms: Some(timeout),
                ..code_of(code)
            };
            let reply = in_time(client.run_code(&context.id, &request))
                .await
                .unwrap();
            assert_eq!(reply.end.status, RunStatus::TimedOut, "{reply:?}");
            last = Some(reply.end.context);
            if last != Some(ContextOutcome::Kept) {
                break;
            }
        }
        assert_eq!(last, Some(ContextOutcome::Lost), "{language:?}");
        let now = client.context(&context.id).await.unwrap();
        assert_eq!((now.state, now.restarts), (ContextState::Idle, 1));
        assert_ne!(now.pid, context.pid);
        assert_eq!(main_text(&run(&client, &context.id, "5").await), Some("5"));
    }
}

#[tokio::test]
async fn a_missing_interpreter_is_named_with_the_way_to_get_it() {
    let agent = Agent::start();
    let client = agent.client();
    for (language, package) in [
        (Language::Python, "apt-get install python3"),
        (Language::Javascript, "apt-get install nodejs"),
        (Language::Typescript, "apt-get install nodejs"),
    ] {
        let request = ContextRequest {
            env: env(&[("PATH", Some("/nonexistent"))]),
            ..context_of(language)
        };
        let refused = in_time(client.create_context(&request)).await.unwrap_err();
        let problem = refused.problem().unwrap();
        assert_eq!(problem.code, ErrorCode::InterpreterNotFound);
        assert!(
            problem.hint.as_ref().unwrap().contains(package),
            "{problem:?}"
        );
    }
    let request = ContextRequest {
        kernel: KernelChoice::Jupyter,
        env: env(&[
            ("PATH", Some("/nonexistent")),
            ("HOME", Some("/nonexistent")),
        ]),
        ..context_of(Language::Python)
    };
    let refused = in_time(client.create_context(&request)).await.unwrap_err();
    let problem = refused.problem().unwrap();
    assert_eq!(problem.code, ErrorCode::InterpreterNotFound);
    assert!(problem.hint.as_ref().unwrap().contains("ipykernel"));
    assert!(
        client
            .list_contexts(&Page::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn contexts_start_where_and_as_they_are_told() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().canonicalize().unwrap();
    let dir = dir.display().to_string();
    let session = SessionRequest {
        cwd: Some(dir.clone()),
        env: env(&[("OF_SESSION", Some("s"))]),
        ..Default::default()
    };
    let session = in_time(client.create_session(&session)).await.unwrap().id;
    in_time(client.session_exec(&session, &text("export LATER=l")))
        .await
        .unwrap();
    // The first starts its own interpreter, the second takes one that waits.
    for _ in 0..2 {
        for (language, code) in [
            (Language::Python, "import os; print(os.getcwd(), end='')"),
            (Language::Javascript, "process.stdout.write(process.cwd())"),
            (Language::Bash, "printf %s \"$PWD\""),
        ] {
            let request = ContextRequest {
                cwd: Some(dir.clone()),
                ..context_of(language)
            };
            let context = create(&client, &request).await;
            assert_eq!(run(&client, &context.id, code).await.stdout, dir);
            assert_eq!(context.cwd, dir);
            let missing = ContextRequest {
                cwd: Some("/nonexistent".to_owned()),
                ..context_of(language)
            };
            let refused = in_time(client.create_context(&missing)).await;
            assert_eq!(refusal_of(refused), ErrorCode::InvalidCwd, "{language:?}");
        }
    }
    for (language, code) in [
        (
            Language::Python,
            "import os; print(os.getcwd(), os.environ['OF_SESSION'], os.environ['LATER'], os.environ['OWN'], end='')",
        ),
        (
            Language::Javascript,
            "const {env} = process; process.stdout.write([process.cwd(), env.OF_SESSION, env.LATER, env.OWN].join(' '))",
        ),
        (Language::Bash, "printf %s \"$PWD $OF_SESSION $LATER $OWN\""),
    ] {
        let request = ContextRequest {
            session: Some(session.clone()),
            env: env(&[("OWN", Some("o"))]),
            ..context_of(language)
        };
        let context = create(&client, &request).await;
        let reply = run(&client, &context.id, code).await;
        assert_eq!(
            reply.stdout,
            format!("{dir} s l o"),
            "{language:?}: {reply:?}"
        );
    }
}

#[tokio::test]
async fn a_run_that_is_sent_again_is_not_run_again() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    run(&client, &id, "n = 0").await;
    let keyed = client.idempotent("once").unwrap();
    for _ in 0..3 {
        let reply = run(&keyed, &id, "n += 1; print(n); n").await;
        assert_eq!(
            (main_text(&reply), reply.stdout.as_str()),
            (Some("1"), "1\n")
        );
    }
    // Also as events, from the start.
    let mut events = keyed
        .run_code_stream(&id, &code_of("n += 1; print(n); n"))
        .await
        .unwrap();
    let first = in_time(events.next()).await.unwrap().unwrap();
    assert!(matches!(first, RunEvent::Started(_)));
}

#[tokio::test]
async fn what_a_json_answer_leaves_out_is_said() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    let request = RunRequest {
        max_output_bytes: Some(1000),
        ..code_of("print('h' * 5000, end='')")
    };
    let reply = in_time(client.run_code(&id, &request)).await.unwrap();
    assert_eq!(reply.stdout.len(), 1000);
    assert_eq!(reply.truncated.unwrap().stdout_bytes, 4000);
    // Values have a bound of their own.
    let big = "for _ in range(5): display('v' * 9_000_000)";
    let reply = in_time(client.run_code(&id, &code_of(big))).await.unwrap();
    assert_eq!((reply.results.len(), reply.end.dropped_results), (3, 2));
}

#[tokio::test]
async fn output_between_runs_comes_with_the_next() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    let mut bell = Bell::hang(&agent.work_dir());
    let gate = agent.work_dir().join("gate");
    let code = format!(
        "import os, subprocess\nos.mkfifo('{0}')\n\
         p = subprocess.Popen('read x <{0}; head -c 300000 /dev/zero; echo >{1}', shell=True)",
        gate.display(),
        bell.path()
    );
    let reply = run(&client, &id, &code).await;
    assert_eq!(reply.stdout, "");
    std::fs::write(gate, "x\n").unwrap();
    // More than a pipe holds: it is taken although no code runs.
    bell.rung(1).await;
    let reply = run(&client, &id, "print('next')").await;
    assert_eq!(reply.stdout.len(), 300_000 + "next\n".len());
    assert!(reply.stdout.ends_with("next\n"));
}

#[tokio::test]
async fn nothing_of_ours_is_in_the_way() {
    let agent = Agent::start();
    let client = agent.client();
    let python = create(&client, &context_of(Language::Python)).await.id;
    let reply = run(
        &client,
        &python,
        "sorted(n for n in dir() if not n.startswith('__'))",
    )
    .await;
    assert_eq!(main_text(&reply), Some("[]"));
    let fds =
        "import subprocess; subprocess.check_output(['sh', '-c', 'echo /proc/self/fd/*']).decode()";
    let reply = run(&client, &python, fds).await;
    let shown = main_text(&reply).unwrap().to_owned();
    assert!(
        ["/12", "/13", "/14"].iter().all(|fd| !shown.contains(fd)),
        "{shown}"
    );
    // A fork that comes back ends, and disturbs nothing.
    let reply = run(
        &client,
        &python,
        "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n'parent' if pid else 'child'",
    )
    .await;
    assert_eq!(main_text(&reply), Some("'parent'"));
    assert_eq!(main_text(&run(&client, &python, "6").await), Some("6"));
    let node = create(&client, &context_of(Language::Javascript)).await.id;
    let plain = std::process::Command::new("node")
        .args([
            "-e",
            "console.log(JSON.stringify(Object.keys(globalThis).sort()))",
        ])
        .output()
        .unwrap();
    let reply = run(
        &client,
        &node,
        "console.log(JSON.stringify(Object.keys(globalThis).sort()))",
    )
    .await;
    assert_eq!(reply.stdout.as_bytes(), plain.stdout);
    let fds = "require('child_process').execSync('echo /proc/self/fd/*').toString()";
    let reply = run(&client, &node, fds).await;
    let shown = main_text(&reply).unwrap().to_owned();
    assert!(
        ["/12", "/13", "/14"].iter().all(|fd| !shown.contains(fd)),
        "{shown}"
    );
}

/// Method and path, body, then status, code and pointer.
const REFUSED: &[(&str, &str, u16, &str, Option<&str>)] = &[
    (
        "POST /v1/contexts",
        "{}",
        400,
        "invalid_request",
        Some("/language"),
    ),
    ("POST /v1/contexts", "", 400, "invalid_request", None),
    (
        "POST /v1/contexts",
        r#"{"language": "cobol"}"#,
        400,
        "invalid_request",
        Some("/language"),
    ),
    (
        "POST /v1/contexts",
        r#"{"language": 5}"#,
        400,
        "invalid_request",
        None,
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "more": 1}"#,
        400,
        "invalid_request",
        Some("/more"),
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "id": "a/b"}"#,
        400,
        "invalid_request",
        Some("/id"),
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "kernel": "x"}"#,
        400,
        "invalid_request",
        Some("/kernel"),
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "env": {"A=B": "1"}}"#,
        400,
        "invalid_request",
        Some("/env/A=B"),
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "env": {"A": "\u0000"}}"#,
        400,
        "invalid_request",
        Some("/env/A"),
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "timeout_ms": -1}"#,
        400,
        "invalid_request",
        Some("/timeout_ms"),
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "user": "nobody-of-that-name"}"#,
        400,
        "user_not_found",
        Some("/user"),
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "session": "none"}"#,
        404,
        "session_not_found",
        None,
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "bash", "session": "none"}"#,
        404,
        "session_not_found",
        None,
    ),
    (
        "POST /v1/contexts",
        r#"{"language": "python", "cwd": "a\u0000b"}"#,
        400,
        "invalid_request",
        Some("/cwd"),
    ),
    (
        "GET /v1/contexts?limit=0",
        "",
        400,
        "invalid_request",
        Some("/limit"),
    ),
    (
        "GET /v1/contexts?unknown=1",
        "",
        400,
        "invalid_request",
        Some("/unknown"),
    ),
    ("GET /v1/contexts/none", "", 404, "context_not_found", None),
    (
        "DELETE /v1/contexts/none",
        "",
        404,
        "context_not_found",
        None,
    ),
    (
        "POST /v1/contexts/none/run",
        r#"{"code": "1"}"#,
        404,
        "context_not_found",
        None,
    ),
    (
        "POST /v1/contexts/none/interrupt",
        "",
        404,
        "context_not_found",
        None,
    ),
    (
        "POST /v1/contexts/none/restart",
        "",
        404,
        "context_not_found",
        None,
    ),
    (
        "POST /v1/contexts/there/run",
        "{}",
        400,
        "invalid_request",
        Some("/code"),
    ),
    (
        "POST /v1/contexts/there/run",
        r#"{"code": 1}"#,
        400,
        "invalid_request",
        Some("/code"),
    ),
    (
        "POST /v1/contexts/there/run",
        r#"{"code": "a\u0000b"}"#,
        400,
        "invalid_request",
        Some("/code"),
    ),
    (
        "POST /v1/contexts/there/run",
        "{\"code\": \"\\ud800\"}",
        400,
        "invalid_request",
        None,
    ),
    (
        "POST /v1/contexts/there/run",
        r#"{"code": "1", "env": {"": "1"}}"#,
        400,
        "invalid_request",
        Some("/env/"),
    ),
    (
        "POST /v1/contexts/there/run",
        r#"{"code": "1", "more": 1}"#,
        400,
        "invalid_request",
        Some("/more"),
    ),
    (
        "POST /v1/contexts/there/run",
        r#"{"code": "1", "encoding": "x"}"#,
        400,
        "invalid_request",
        Some("/encoding"),
    ),
    (
        "POST /v1/contexts/there/interrupt",
        r#"{"more": 1}"#,
        400,
        "invalid_request",
        Some("/more"),
    ),
    (
        "POST /v1/contexts/there/restart",
        r#"{"more": 1}"#,
        400,
        "invalid_request",
        Some("/more"),
    ),
    (
        "PUT /v1/contexts/there",
        "",
        405,
        "method_not_allowed",
        None,
    ),
];

#[tokio::test]
async fn bad_requests_are_refused_and_change_nothing() {
    let agent = Agent::start();
    let client = agent.client();
    create(&client, &named("there", Language::Bash)).await;
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    let mut wrong = Vec::new();
    for (line, body, status, code, pointer) in REFUSED {
        let (method, path) = line.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let (_, _, answer) = in_time(client.raw(method, path, &headers, (*body).to_owned()))
            .await
            .unwrap();
        let Ok(problem) = serde_json::from_slice::<Problem>(&answer) else {
            wrong.push(format!("{line} {body}: {answer:?}"));
            continue;
        };
        let got = (
            problem.status,
            problem.code.as_str(),
            problem.pointer.as_deref(),
        );
        let pointer_fits = pointer.is_none() || got.2 == *pointer;
        if (got.0, got.1) != (*status, *code) || !pointer_fits {
            wrong.push(format!("{line} {body}: {got:?} {}", problem.detail));
        }
    }
    // Text that is not UTF-8.
    let broken = b"{\"code\": \"\xff\"}".to_vec();
    let (status, _, _) = client
        .raw(Method::POST, "/v1/contexts/there/run", &headers, broken)
        .await
        .unwrap();
    assert_eq!(status.as_u16(), 400);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let all = client.list_contexts(&Page::default()).await.unwrap().items;
    assert_eq!((all.len(), all[0].execution_count), (1, 0));
    let sessions = client.list_sessions(&Page::default()).await.unwrap();
    assert_eq!(sessions.items.len(), 1);
}
