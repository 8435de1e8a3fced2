//! A hub that runs out of descriptors: what cannot be done is refused, nothing is left of it, and no
//! sandbox is given up.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandshell_client::types::{ErrorCode, ExecRequest, SandboxState};
use sandshell_testkit::{Hub, find_binary, open_fds};
use tokio::process::Command;

use super::exhausted::Room;
use super::{Dice, agent_of, full, id_of, processes_of, sandbox, say, spec_of};
use crate::calls::{DEADLINE, exec, exec_of, in_time, process_of, start, wait_for_text};

/// Most descriptors that the hub needs at a time for a sandbox.
const ENOUGH: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_for_descriptors_a_sandbox_is_made_or_not_at_all() {
    let mut dice = Dice::new();
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "first").await;
    exec(&inside, "true").await;
    let (mut refused, mut tried) = (0, 0);
    let before = processes_of(&hub).len();
    for more in 0..ENOUGH {
        // With room for none a sandbox cannot be made, so that one is always tried.
        if !full() && more > 0 && dice.below(3) > 0 {
            continue;
        }
        tried += 1;
        let client = hub.client();
        in_time(client.healthz()).await.unwrap();
        let room = Room::of(hub.pid(), more);
        let made = in_time(client.create_sandbox(&spec_of("another"))).await;
        let answered = in_time(client.sandbox(&id_of("first")).exec(&exec_of("echo in"))).await;
        drop(room);
        match answered {
            Ok(done) => assert_eq!(done.stdout, "in\n"),
            Err(error) => {
                assert_eq!(
                    error.code(),
                    Some(ErrorCode::Unavailable),
                    "room for {more}: {error:?}"
                );
            }
        }
        if let Err(error) = made {
            refused += 1;
            assert!(
                matches!(
                    error.code(),
                    Some(ErrorCode::Unavailable | ErrorCode::NoSpace)
                ),
                "room for {more}: {error:?}"
            );
            sandbox(&client, "another").await;
        }
        in_time(client.destroy_sandbox(&id_of("another")))
            .await
            .unwrap();
        let first = in_time(client.get_sandbox(&id_of("first"))).await.unwrap();
        assert_eq!(first.state, SandboxState::Ready);
        assert_eq!(exec(&inside, "echo still").await.stdout, "still\n");
        let gone = async {
            while processes_of(&hub).len() > before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let gone = tokio::time::timeout(DEADLINE, gone).await;
        assert!(
            gone.is_ok(),
            "room for {more}: {:?} are left",
            processes_of(&hub)
        );
    }
    say(&format!(
        "{tried} tried, {refused} refused, {} descriptors",
        open_fds(hub.pid())
    ));
    assert!(refused > 0);
}

/// Starts a hub that may have so many descriptors. Ends it and gives `None` once it serves; otherwise, what it said
/// before it gave up.
async fn started_with(files: u32, hub: &Hub) -> Option<String> {
    let run = format!(
        "ulimit -n {files}; exec \"$0\" serve --listen 127.0.0.1:0 --state-dir \"$1\" --ready-file \"$2\""
    );
    let (ready, said) = (hub.dir().join("few.json"), hub.dir().join("few.log"));
    let mut few = Command::new("sh")
        .args(["-c", &run])
        .arg(find_binary())
        .args([&hub.state_dir(), &ready])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&said).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ended = in_time(async {
        loop {
            if let Some(ended) = few.try_wait().unwrap() {
                return Some(ended);
            }
            if ready.exists() {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let Some(ended) = ended else {
        let pid = i32::try_from(few.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        assert!(in_time(few.wait()).await.unwrap().success());
        return None;
    };
    let said = std::fs::read_to_string(said).unwrap();
    assert!(!ended.success(), "{files}: {said}");
    Some(said)
}

/// With too few descriptors to find its sandboxes again, a hub does not start; it buries nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_started_with_few_descriptors_gives_up_no_sandbox() {
    let mut hub = Hub::start();
    for n in 0..6 {
        let inside = sandbox(&hub.client(), &format!("box-{n}")).await;
        exec(&inside, "echo kept > /tmp/kept").await;
    }
    hub.kill_hard();
    let (mut told, mut last) = (0, None);
    for files in 8..60 {
        if !full() && files % 3 > 0 {
            continue;
        }
        let Some(said) = started_with(files, &hub).await else {
            last = Some(files);
            break;
        };
        told += u32::from(said.contains("cannot take over") && said.contains("hint:"));
    }
    say(&format!(
        "{told} starts could not take over; with {last:?} files it started"
    ));
    assert!(told > 0);
    assert!(last.is_some(), "it never started");
    hub.restart();
    for n in 0..6 {
        let inside = hub.client().sandbox(&id_of(&format!("box-{n}")));
        assert_eq!(exec(&inside, "cat /tmp/kept").await.stdout, "kept\n");
    }
}

/// What no record names has ids that nobody knows: a hub that cannot end it does not start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_started_with_few_descriptors_leaves_no_leftover_alive() {
    let mut hub = Hub::with(&["--warm", "1"]);
    let client = hub.client();
    let full_pool = async {
        while !in_time(client.metrics())
            .await
            .unwrap()
            .contains("sandshell_sandboxes_warm 1")
        {
            tokio::task::yield_now().await;
        }
    };
    in_time(full_pool).await;
    let mut places = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    let socket = places.next().unwrap().unwrap().path().join("agent.sock");
    hub.kill_hard();
    let alive = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    assert!(alive());
    let (mut told, mut last) = (0, None);
    for files in 8..60 {
        let Some(said) = started_with(files, &hub).await else {
            last = Some(files);
            break;
        };
        let of_leftovers = ["cannot end what is left", "cannot look for what is left"];
        let told_so = of_leftovers.iter().any(|words| said.contains(words));
        told += u32::from(told_so && said.contains("hint:"));
    }
    say(&format!(
        "{told} starts could not end it; with {last:?} files one started"
    ));
    assert!(last.is_some(), "it never started");
    assert!(!alive(), "with {last:?} files it started beside a leftover");
}

/// Sends descriptors to itself that it never takes, far more than it may have open.
const UNDER_WAY: &str = r#"
import array, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
kept = []
try:
    for _ in range(40):
        a, b = socket.socketpair()
        kept += [a, b]
        for _ in range(8):
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 200))])
except OSError as error:
    print(error, flush=True)
print("under way", flush=True)
time.sleep(1000)
"#;

/// The kernel counts descriptors under way by user. Init has the same as its commands and none of the
/// rights that would excuse it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn descriptors_under_way_keep_no_start_waiting() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "box").await;
    let hoarder = start(
        &inside,
        &process_of(&format!("python3 - <<'END'\n{UNDER_WAY}END")),
    )
    .await;
    wait_for_text(&inside, &hoarder, "under way").await;
    let program = ExecRequest {
        argv: Some(vec!["/bin/echo".to_owned(), "started".to_owned()]),
        ..Default::default()
    };
    let mut refused = 0;
    for _ in 0..8 {
        match in_time(inside.exec(&program)).await {
            Ok(done) => assert_eq!(done.stdout, "started\n"),
            Err(error) => {
                refused += 1;
                assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
            }
        }
    }
    say(&format!("{refused} of 8 refused"));
    in_time(inside.delete_process(&hoarder)).await.unwrap();
    assert_eq!(
        in_time(inside.exec(&program)).await.unwrap().stdout,
        "started\n"
    );
    assert_eq!(exec(&inside, "echo again").await.stdout, "again\n");
}

/// What an agent says first may be that it has no descriptor left; its log must be open by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_descriptors_can_still_say_so() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "box").await;
    let mut places = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    let place = places.next().unwrap().unwrap().path();
    let agent = agent_of(&place);
    let room = Room::of(agent, 0);
    // More at a time than there are connections to the agent already.
    let crowd: Vec<_> = (0..8)
        .map(|_| {
            let inside = inside.clone();
            tokio::spawn(async move { inside.exec(&exec_of("true")).await })
        })
        .collect();
    let log = place.join("agent/agent.log");
    let told = async {
        while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains("cannot accept")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(told).await;
    drop(room);
    for one in crowd {
        if let Err(error) = in_time(one).await.unwrap() {
            assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
        }
    }
    assert_eq!(exec(&inside, "echo again").await.stdout, "again\n");
}
