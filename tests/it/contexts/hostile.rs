//! Code that breaks what the drivers stand on: the context goes on, with its state.

use sandshell_client::types::{ContextOutcome, Language, RunStatus};
use sandshell_testkit::Agent;

use super::{code_of, context_of, create, main_text, run};
use crate::calls::in_time;
use crate::signs::Bell;

#[tokio::test]
async fn threads_display_side_by_side() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    let code = "import threading\n\
        def show():\n    for i in range(50): display(i)\n\
        threads = [threading.Thread(target=show) for _ in range(4)]\n\
        for t in threads: t.start()\n\
        for t in threads: t.join()\n\
        'all'";
    let reply = run(&client, &id, code).await;
    assert_eq!(reply.end.status, RunStatus::Ok, "{:?}", reply.error);
    assert_eq!(main_text(&reply), Some("'all'"));
    let mut shown: Vec<u32> = reply
        .results
        .iter()
        .filter(|result| !result.is_main)
        .map(|result| {
            let text = result.data["text/plain"].as_str().unwrap();
            text.parse().unwrap()
        })
        .collect();
    shown.sort_unstable();
    let expected: Vec<u32> = (0..50).flat_map(|n| [n; 4]).collect();
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn threads_that_outlive_their_run_leave_later_runs_alone() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    let code = "import threading\n\
        over = threading.Event()\n\
        def show():\n    while not over.is_set(): display('late')\n\
        threads = [threading.Thread(target=show) for _ in range(3)]\n\
        for t in threads: t.start()";
    assert_eq!(run(&client, &id, code).await.end.status, RunStatus::Ok);
    for n in 0..30 {
        let reply = run(&client, &id, &format!("display('mine'); {n}")).await;
        assert_eq!(reply.end.status, RunStatus::Ok, "{:?}", reply.error);
        assert_eq!(main_text(&reply), Some(n.to_string().as_str()));
        let mine = |result: &&_| {
            let result: &sandshell_client::types::RunResult = result;
            result.data["text/plain"] == "'mine'"
        };
        assert_eq!(reply.results.iter().filter(mine).count(), 1);
    }
    // An interrupt goes to the code, whoever of the threads is displaying.
    let request = sandshell_client::types::RunRequest {
        timeout_ms: Some(300),
        ..code_of("while True: display(1)")
    };
    let reply = in_time(client.run_code(&id, &request)).await.unwrap();
    assert_eq!(reply.end.status, RunStatus::TimedOut);
    assert_eq!(reply.end.context, ContextOutcome::Kept);
    // All of them end: none waits for an answer that another took.
    let end = "over.set()\nfor t in threads: t.join()\n'joined'";
    assert_eq!(main_text(&run(&client, &id, end).await), Some("'joined'"));
    let reply = run(&client, &id, "1").await;
    assert_eq!(reply.results.len(), 1, "{:?}", reply.results);
}

#[tokio::test]
async fn a_display_between_runs_comes_with_the_next() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    let mut bell = Bell::hang(&agent.work_dir());
    let gate = agent.work_dir().join("gate");
    let code = format!(
        "import os, threading\nos.mkfifo('{}')\n\
         def show():\n    open('{}').read()\n    open('{}', 'w').write('!')\n    display('late')\n\
         thread = threading.Thread(target=show)\nthread.start()",
        gate.display(),
        gate.display(),
        bell.path()
    );
    assert!(run(&client, &id, &code).await.results.is_empty());
    std::fs::write(gate, "x\n").unwrap();
    bell.rung(1).await;
    let reply = run(&client, &id, "thread.join()").await;
    assert_eq!(reply.end.status, RunStatus::Ok, "{:?}", reply.error);
    assert_eq!(reply.results.len(), 1);
    assert_eq!(reply.results[0].data["text/plain"], "'late'");
}

#[tokio::test]
async fn the_python_driver_survives_what_code_breaks() {
    let agent = Agent::start();
    let client = agent.client();
    for code in [
        "import sys; del sys.stdout",
        "import sys; del sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__; display(1)",
        "import sys\nclass S:\n    def write(self, text): pass\n    def flush(self): raise SystemExit(3)\nsys.stdout = S()\ndisplay(1)",
        "class M(type):\n    __name__ = property(lambda self: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E('x')",
        "class M(type):\n    __name__ = property(lambda self: exit())\nclass E(Exception, metaclass=M):\n    def __str__(self): exit()\nraise E('x')",
        "class M(type):\n    __name__ = 5\nclass E(Exception, metaclass=M): pass\nraise E('x')",
        "class E(SystemExit):\n    code = property(lambda self: 1 / 0)\nraise E(1)",
        "class S(str):\n    def encode(self, *_): raise OSError\n    __str__ = lambda self: self\nclass R:\n    def __repr__(self): return S('r')\ndisplay(R())\nclass E(Exception):\n    def __str__(self): return S('e')\nraise E",
        "import os; os.close(1); print(1)",
        "import os; os.close(1); os.close(2)",
        "import sys; sys.stdout.close()",
        "import sys; sys.stdout.detach()",
        "import os; os.environ = None",
        "import os; os.getpid = os._exit = os.chdir = None",
        "import builtins; builtins.str = builtins.len = builtins.isinstance = None",
        "import sys; sys.modules.clear()",
        "import traceback; traceback.TracebackException = None",
        "import threading; threading.Lock = threading.RLock = None",
    ] {
        let id = create(&client, &context_of(Language::Python)).await.id;
        run(&client, &id, "kept = 41").await;
        let reply = run(&client, &id, code).await;
        assert_eq!(reply.end.context, ContextOutcome::Kept, "{code}: {reply:?}");
        for _ in 0..2 {
            let reply = run(&client, &id, "kept + 1").await;
            assert_eq!(main_text(&reply), Some("42"), "{code}: {reply:?}");
        }
        // A run with variables, and an error.
        let mut request = code_of("raise KeyError('k')");
        request.env.insert("A".to_owned(), Some("b".to_owned()));
        let reply = in_time(client.run_code(&id, &request)).await.unwrap();
        assert_eq!(reply.end.context, ContextOutcome::Kept, "{code}: {reply:?}");
        in_time(client.delete_context(&id)).await.unwrap();
    }
}

#[tokio::test]
async fn the_node_driver_keeps_what_it_uses() {
    let agent = Agent::start();
    let client = agent.client();
    for code in [
        "Buffer.concat = () => { throw 1 }; 1",
        "Buffer.from = Buffer.alloc = Buffer.isBuffer = () => { throw 1 }; 1",
        "Buffer = undefined; 1",
        "JSON.stringify = () => { throw 1 }; [1]",
        "JSON = Atomics = Object = Symbol = String = Math = setImmediate = undefined; 1",
        "Object.entries = Object.getPrototypeOf = Symbol.for = Atomics.load = Atomics.wait = () => { throw 1 }; 1",
        "Buffer.prototype.writeUInt32BE = Buffer.prototype.readUInt32BE = Buffer.prototype.subarray = () => { throw 1 }; 1",
        "Array.prototype.push = Array.prototype.slice = Array.prototype.flatMap = Array.prototype.map = () => { throw 1 }; 1",
        "require('fs').writeSync = () => { throw 1 }; 1",
        "require('util').inspect = () => { throw 1 }; 1",
        "process.reallyExit = process.chdir = process.cwd = () => { throw 1 }; 1",
    ] {
        let id = create(&client, &context_of(Language::Javascript)).await.id;
        run(&client, &id, "let kept = 41").await;
        let reply = run(&client, &id, code).await;
        assert_eq!(reply.end.context, ContextOutcome::Kept, "{code}: {reply:?}");
        for _ in 0..2 {
            let reply = run(&client, &id, "kept + 1").await;
            assert_eq!(main_text(&reply), Some("42"), "{code}: {reply:?}");
        }
        let reply = run(&client, &id, "throw new Error('e')").await;
        assert_eq!(reply.end.context, ContextOutcome::Kept, "{code}: {reply:?}");
        in_time(client.delete_context(&id)).await.unwrap();
    }
}

/// A child that has the channel too must not hide the end of the interpreter.
#[tokio::test]
async fn the_end_of_an_interpreter_ends_the_run_at_once() {
    let agent = Agent::start();
    let client = agent.client();
    let python = "import os, subprocess\nos.set_inheritable(14, True)\nsubprocess.Popen(['sleep', '1000'], close_fds=False)\nos._exit(5)";
    let node = "setTimeout(() => process.kill(process.pid, 'SIGKILL'), 10); await new Promise((ok) => setTimeout(ok, 600000))";
    for (language, code) in [(Language::Python, python), (Language::Javascript, node)] {
        let id = create(&client, &context_of(language)).await.id;
        let request = code_of(code);
        let reply = in_time(client.run_code(&id, &request)).await.unwrap();
        assert_eq!(reply.end.context, ContextOutcome::Ended, "{reply:?}");
        in_time(client.delete_context(&id)).await.unwrap();
    }
}

#[tokio::test]
async fn a_result_beyond_any_bound_is_dropped() {
    let agent = Agent::start();
    let client = agent.client();
    for (language, cases) in [
        (
            Language::Python,
            [
                "'v' * 70_000_000",
                "display('v' * 70_000_000)",
                "display('v' * 50_000_000)",
            ],
        ),
        (
            Language::Javascript,
            [
                "({ toHtml: () => 'v'.repeat(70_000_000) })",
                "display('v'.repeat(70_000_000))",
                "display('v'.repeat(50_000_000))",
            ],
        ),
    ] {
        let id = create(&client, &context_of(language)).await.id;
        run(
            &client,
            &id,
            if language == Language::Python {
                "kept = 41"
            } else {
                "let kept = 41"
            },
        )
        .await;
        for code in cases {
            let reply = run(&client, &id, code).await;
            assert_eq!(
                reply.end.context,
                ContextOutcome::Kept,
                "{code}: {:?}",
                reply.error
            );
            assert_eq!(
                (reply.end.status, reply.end.dropped_results),
                (RunStatus::Ok, 1),
                "{code}"
            );
            assert!(reply.results.is_empty());
        }
        assert_eq!(main_text(&run(&client, &id, "kept + 1").await), Some("42"));
        // An error of that size is cut instead.
        let raise = if language == Language::Python {
            "raise ValueError('v' * 70_000_000)"
        } else {
            "throw new Error('v'.repeat(70_000_000))"
        };
        let reply = run(&client, &id, raise).await;
        assert_eq!(reply.end.context, ContextOutcome::Kept);
        assert!(reply.error.is_some());
        assert_eq!(main_text(&run(&client, &id, "kept + 1").await), Some("42"));
        in_time(client.delete_context(&id)).await.unwrap();
    }
}

/// Node's own inspector ends Node when a string has too much to escape.
#[tokio::test]
async fn long_strings_of_javascript_are_shown_whole_or_dropped() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Javascript)).await.id;
    run(&client, &id, "let kept = 41").await;
    for code in [
        "display('\\n'.repeat(40_000_000))",
        "'v'.repeat(50_000_000)",
    ] {
        let reply = run(&client, &id, code).await;
        assert_eq!(reply.end.context, ContextOutcome::Kept, "{code}");
        assert_eq!(
            (reply.end.status, reply.end.dropped_results),
            (RunStatus::Ok, 1),
            "{code}"
        );
    }
    // Longer than what is quoted at a time: the same as Node shows where nothing is cut.
    for text in [
        "'ab\\n\\u0001é😀'.repeat(400_000)",
        "`it's `.repeat(400_000)",
        "`'\"`.repeat(600_000)",
        "`'\"\\``.repeat(600_000)",
    ] {
        let code = format!(
            "display({text}); require('util').inspect({text}, {{ maxStringLength: null, breakLength: Infinity }}).length"
        );
        let reply = run(&client, &id, &code).await;
        let shown = reply.results[0].data["text/plain"].as_str().unwrap();
        let length = shown.encode_utf16().count().to_string();
        assert_eq!(main_text(&reply), Some(length.as_str()), "{text}");
    }
    assert_eq!(main_text(&run(&client, &id, "kept + 1").await), Some("42"));
}
