//! A private process tree in a sandbox: behind the same walls as its other programs, door by door and
//! figure by figure. What differs is the processes it sees, and nothing else.

use std::time::Duration;

use sandshell_client::types::{
    IsolationPolicy, IsolationSpec, SandboxSpec, SessionExecRequest, SessionId, SessionRequest,
};
use sandshell_client::{Client, FileQuery, WriteOptions};
use sandshell_testkit::{Hub, UnprivilegedUser};

use super::bait::Bait;
use super::places::{Level, intruder};
use super::{Findings, open, parse};
use crate::calls::{in_time, skipped};

/// Rights, limits, namespaces, groups and mounts, as /proc tells them.
const FACTS: &str = r"
    grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status
    cat /proc/self/limits /proc/self/uid_map /proc/self/gid_map
    for n in cgroup ipc net uts user; do readlink /proc/self/ns/$n; done
    sed 's:[^/]*$::' /proc/self/cgroup
    cut -d' ' -f4- /proc/self/mountinfo | sort
    umask; pwd; env | grep -v -e '^BASH' -e '^_=' | sort
";

/// A few system calls wait for a second each; the rest is quick.
const PATIENCE: Duration = Duration::from_secs(150);

async fn run(client: &Client, id: &SessionId, command: &str) -> String {
    let request = SessionExecRequest {
        command: command.to_owned(),
        ..SessionExecRequest::default()
    };
    let ran = tokio::time::timeout(PATIENCE, client.session_exec(id, &request)).await;
    let ran = ran.expect("it ends").unwrap();
    assert_eq!(ran.exit_code, 0, "{command}: {ran:?}");
    ran.stdout
}

async fn explore(client: &Client, id: &SessionId, bait: &Bait) -> Findings {
    let mut found = parse(&run(client, id, "/tmp/intruder doors").await);
    assert!(found.len() > 100, "the intruder was cut short: {found:?}");
    let sights = format!("/tmp/intruder sights {}", bait.words());
    found.extend(parse(&run(client, id, &sights).await));
    found
}

async fn like_any_other(level: Level, user: Option<&str>) {
    let hub = match (level, UnprivilegedUser::get()) {
        (Level::Root, None) => return skipped("the test does not run as root"),
        (Level::User, Some(user)) => Hub::of(user),
        _ => Hub::start(),
    };
    let spec = SandboxSpec {
        isolation: Some(IsolationSpec {
            policy: IsolationPolicy::BestEffort,
            ..IsolationSpec::default()
        }),
        ..SandboxSpec::default()
    };
    let client = hub.client();
    let made = in_time(client.create_sandbox(&spec)).await.unwrap();
    let inside = client.sandbox(&made.id);
    let options = WriteOptions {
        mode: Some("755".parse().unwrap()),
        ..WriteOptions::default()
    };
    let place = FileQuery::new("/tmp/intruder");
    in_time(inside.write_file(&place, &options, intruder()))
        .await
        .unwrap();
    let session = async |private_processes| {
        let request = SessionRequest {
            user: user.map(str::to_owned),
            private_processes,
            ..SessionRequest::default()
        };
        in_time(inside.create_session(&request)).await.unwrap().id
    };
    let (private, ordinary) = (session(true).await, session(false).await);
    assert_eq!(
        run(&inside, &private, FACTS).await,
        run(&inside, &ordinary, FACTS).await
    );
    for namespace in ["pid", "mnt"] {
        let look = format!("readlink /proc/self/ns/{namespace}");
        assert_ne!(
            run(&inside, &private, &look).await,
            run(&inside, &ordinary, &look).await
        );
    }
    let bait = Bait::lay();
    let ours = explore(&inside, &private, &bait).await;
    let theirs = explore(&inside, &ordinary, &bait).await;
    assert_eq!(open(&ours), open(&theirs), "of {user:?}, made by {level:?}");
    if user == Some("root") {
        // Whatever is looked up for a private tree, root of the sandbox may have moved before.
        let tamper =
            "mv /dev /moved && mkdir /dev && ln -s null /dev/null && ln -s ../proc/1 /dev/pts";
        run(&inside, &ordinary, tamper).await;
        let private = session(true).await;
        let found = explore(&inside, &private, &bait).await;
        assert_eq!(open(&found), open(&theirs), "after {tamper}");
    }
    bait.assert_untouched();
}

#[tokio::test]
async fn a_private_tree_has_the_same_walls_below_root() {
    like_any_other(Level::Root, None).await;
}

#[tokio::test]
async fn a_private_tree_of_root_has_the_same_walls() {
    like_any_other(Level::Root, Some("root")).await;
}

#[tokio::test]
async fn a_private_tree_has_the_same_walls_below_an_ordinary_user() {
    like_any_other(Level::User, None).await;
}
