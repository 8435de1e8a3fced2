//! What a program in a sandbox tries on those who start programs there.

use futures_util::future::join_all;
use sandshell_client::types::{ErrorCode, ExecRequest, KillRequest, ProcessRequest};
use sandshell_client::{Client, FileQuery, ReadOptions};
use sandshell_testkit::Hub;

use super::sandbox;
use crate::calls::{exec, in_time, start, wait_for_text};

fn program(argv: &[&str], user: Option<&str>) -> ExecRequest {
    ExecRequest {
        argv: Some(argv.iter().map(|word| (*word).to_owned()).collect()),
        user: user.map(str::to_owned),
        ..Default::default()
    }
}

/// As root: everything that may be stopped is, again and again.
const STOPS: &str = "
import os, signal, time
print('up', flush=True)
end = time.monotonic() + 3
while time.monotonic() < end:
    os.kill(-1, signal.SIGSTOP)
    time.sleep(0.0002)
print('done', flush=True)
time.sleep(1000)
";

/// A child that was stopped between its last change of ids and its program kept init waiting for good, and nothing
/// more was started or answered.
#[tokio::test]
async fn a_start_that_is_stopped_on_its_way_goes_on_or_ends() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "stopped").await;
    let storm = ProcessRequest {
        argv: Some(["python3", "-c", STOPS].map(str::to_owned).to_vec()),
        user: Some("root".to_owned()),
        ..Default::default()
    };
    let storm = start(&inside, &storm).await;
    wait_for_text(&inside, &storm, "up").await;
    let starts = (0..20).map(|_| async {
        let request = ExecRequest {
            timeout_ms: Some(2000),
            ..program(&["/bin/true"], None)
        };
        in_time(inside.exec(&request)).await
    });
    for answer in join_all(starts).await {
        if let Err(error) = answer {
            assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error}");
        }
    }
    wait_for_text(&inside, &storm, "done").await;
    let after = in_time(inside.exec(&program(&["echo", "on"], None))).await;
    assert_eq!(after.unwrap().stdout, "on\n");
    let now = KillRequest { grace_ms: Some(0) };
    in_time(inside.kill_process(&storm, &now)).await.unwrap();
}

async fn refused_as(inside: &Client, user: &str) {
    let argv = ["python3", "-c", "import os; os.kill(1, 0)"];
    let run = in_time(inside.exec(&program(&argv, Some(user)))).await;
    let asked = FileQuery {
        user: Some(user.to_owned()),
        ..FileQuery::new("/root/s")
    };
    let read = in_time(inside.read_file(&asked, &ReadOptions::default())).await;
    for error in [run.unwrap_err(), read.map(|_| ()).unwrap_err()] {
        let code = error.code();
        assert_eq!(code, Some(ErrorCode::UserNotFound), "{user}: {error}");
    }
}

/// The agent has a number, too, and rights that go with it. No command has them, whatever is called like that.
#[tokio::test]
async fn nobody_runs_as_the_agent() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "numbers").await;
    let root = program(
        &["sh", "-c", "echo s > /root/s; chmod 600 /root/s"],
        Some("root"),
    );
    in_time(inside.exec(&root)).await.unwrap();
    for user in ["65536", "65535", "65536:0", "0:65536", "4294967295"] {
        refused_as(&inside, user).await;
    }
    let rename = "sed -i 's/^sandbox:x:1000:/sandbox:x:65536:/' /etc/passwd; \
        echo 'agent:x:65536:' >> /etc/group; echo 'like:x:65536:sandbox,daemon' >> /etc/group";
    let renamed = program(&["sh", "-c", rename], Some("root"));
    assert_eq!(in_time(inside.exec(&renamed)).await.unwrap().exit_code, 0);
    for user in ["sandbox", "daemon:agent"] {
        refused_as(&inside, user).await;
    }
    let groups = in_time(inside.exec(&program(&["id", "-G"], Some("daemon"))))
        .await
        .unwrap();
    assert!(!groups.stdout.contains("65536"), "{groups:?}");
    // The one that commands have by themselves was found before.
    assert_eq!(exec(&inside, "id -u").await.stdout, "1000\n");
}
