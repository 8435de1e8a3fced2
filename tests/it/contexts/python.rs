//! What only Python has: figures, tables, tracebacks through several runs.

use base64::Engine as _;
use sandshell_client::types::{KernelChoice, Language, RunReply, RunStatus};
use sandshell_testkit::Agent;

use super::scenario::{python_environment, with_packages};
use super::{code_of, context_of, create, main_text, run};
use crate::calls::in_time;

fn picture(reply: &RunReply, mime: &str) -> Vec<u8> {
    let text = reply
        .results
        .iter()
        .find_map(|result| result.data.get(mime)?.as_str())
        .unwrap_or_else(|| panic!("no {mime}: {reply:?}"));
    base64::engine::general_purpose::STANDARD
        .decode(text.replace('\n', ""))
        .unwrap()
}

#[tokio::test]
async fn figures_are_pictures_and_tables_are_html() {
    let Some(venv) = python_environment() else {
        return;
    };
    let agent = Agent::start();
    let client = agent.client();
    for kernel in [KernelChoice::Builtin, KernelChoice::Auto] {
        let request = sandshell_client::types::ContextRequest {
            kernel,
            ..with_packages(&venv)
        };
        let record = in_time(client.create_context(&request)).await.unwrap();
        // What is installed is used, unless the driver is asked for.
        let expected = match kernel {
            KernelChoice::Auto => KernelChoice::Jupyter,
            other => other,
        };
        assert_eq!(record.kernel, expected);
        let id = record.id;
        let import = code_of("import matplotlib.pyplot as plt, pandas as pd, numpy as np");
        // The first import builds a cache of fonts, which takes a while.
        let reply = in_time(client.run_code(&id, &import)).await.unwrap();
        assert_eq!(reply.end.status, RunStatus::Ok);
        let reply = run(
            &client,
            &id,
            "plt.plot(np.arange(5)); plt.title('t');\nplt.show()\nprint('after')",
        )
        .await;
        assert!(picture(&reply, "image/png").starts_with(b"\x89PNG\r\n\x1a\n"));
        assert_eq!(
            (reply.stdout.as_str(), reply.stderr.as_str()),
            ("after\n", "")
        );
        // Also without a show, and only once.
        let reply = run(
            &client,
            &id,
            "fig, ax = plt.subplots()\nax.bar([1, 2], [3, 4]);",
        )
        .await;
        assert!(picture(&reply, "image/png").starts_with(b"\x89PNG"));
        assert_eq!(reply.results.len(), 1);
        assert!(run(&client, &id, "pass").await.results.is_empty());
        let reply = run(&client, &id, "pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})").await;
        assert!(main_text(&reply).unwrap().contains("a  b"), "{reply:?}");
        let html = reply.results[0].data["text/html"].as_str().unwrap();
        assert!(
            html.contains("<table") && html.contains("<td>x</td>"),
            "{html}"
        );
        in_time(client.delete_context(&id)).await.unwrap();
    }
}

#[tokio::test]
async fn a_traceback_shows_the_lines_of_every_run_it_goes_through() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    run(&client, &id, "def inner(d):\n    return d['missing']").await;
    let reply = run(&client, &id, "def outer():\n    try:\n        inner({})\n    except KeyError as e:\n        raise RuntimeError('wrapped') from e\nouter()").await;
    let error = reply.error.unwrap();
    assert_eq!(
        (error.name.as_str(), error.value.as_str()),
        ("RuntimeError", "wrapped")
    );
    let text = error.traceback.join("\n");
    for line in [
        "File \"<run-1>\", line 2, in inner",
        "return d['missing']",
        "KeyError: 'missing'",
        "direct cause",
        "raise RuntimeError('wrapped') from e",
        "File \"<run-2>\", line 6, in <module>",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("driver"), "{text}");
    let reply = run(&client, &id, "import inspect; inspect.getsource(inner)").await;
    assert!(main_text(&reply).unwrap().contains("missing"));
}

#[tokio::test]
async fn bundles_raw_displays_and_odd_values() {
    let agent = Agent::start();
    let client = agent.client();
    let id = create(&client, &context_of(Language::Python)).await.id;
    let code = "class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n        return {'text/x-own': 'own', 'application/json': {'k': [1]}}, {}\nB()";
    let reply = run(&client, &id, code).await;
    let data = &reply.results[0].data;
    assert_eq!(data["text/x-own"], "own");
    assert_eq!(data["application/json"], serde_json::json!({"k": [1]}));
    let reply = run(&client, &id, "display({'text/html': '<i>'}, raw=True)").await;
    assert_eq!(reply.results[0].data["text/html"], "<i>");
    assert!(!reply.results[0].is_main);
    let reply = run(
        &client,
        &id,
        "class Bad:\n    def __repr__(self): raise OSError('no')\nBad()",
    )
    .await;
    assert_eq!(reply.error.unwrap().name, "OSError");
    let reply = run(
        &client,
        &id,
        "class E(Exception):\n    def __str__(self): raise OSError\nraise E",
    )
    .await;
    assert_eq!(reply.error.unwrap().name, "E");
    let reply = run(&client, &id, "'\\ud800'").await;
    assert_eq!(main_text(&reply), Some("'\\ud800'"));
    let reply = run(
        &client,
        &id,
        "import pickle\nclass P: pass\npickle.loads(pickle.dumps(P())).__class__ is P",
    )
    .await;
    assert_eq!(main_text(&reply), Some("True"));
}
