//! Every call has the rights of a user of the sandbox, and no more.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use sandshell_client::types::{
    ChmodRequest, CopyRequest, ErrorCode, FileMode, MkdirRequest, MoveRequest, RemoveRequest,
};
use sandshell_client::{Client, FileQuery, ListOptions, Page, WriteOptions};
use sandshell_testkit::{Agent, UnprivilegedUser};

use super::{Desk, read, tree_of};
use crate::calls::{code_of, in_time, skipped};

/// A directory that everyone may enter, with something of root's and something of the user's.
struct Shared {
    dir: tempfile::TempDir,
    user: UnprivilegedUser,
}

impl Shared {
    fn new() -> Option<Self> {
        let Some(user) = UnprivilegedUser::get() else {
            skipped("only root can act as another user");
            return None;
        };
        let dir = tempfile::TempDir::with_prefix("sandshell-test-").unwrap();
        let shared = Self { dir, user };
        shared.mode("", 0o755);
        for (name, mode) in [("roots", 0o700), ("users", 0o755)] {
            std::fs::create_dir(shared.path(name)).unwrap();
            std::fs::write(shared.path(name).join("file"), name).unwrap();
            shared.mode(name, mode);
        }
        std::fs::write(shared.path("secret"), "root's").unwrap();
        shared.mode("secret", 0o600);
        for name in ["users", "users/file"] {
            user.own(&shared.path(name));
        }
        Some(shared)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.path(name), mode).unwrap();
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Tries everything that the user must not be able to do, and then what it can.
    async fn try_all(&self, client: &Client, user: Option<&str>) {
        let user = user.map(str::to_owned);
        let file = |name: &str| FileQuery {
            path: self.text(name),
            user: user.clone(),
            ..Default::default()
        };
        let before = tree_of(self.dir.path());
        let denied = ErrorCode::PermissionDenied;
        let options = WriteOptions::default();
        for name in ["secret", "roots/file"] {
            assert_eq!(code_of(read(client, &file(name)).await), denied, "{name}");
            let written = in_time(client.write_file(&file(name), &options, "x")).await;
            assert_eq!(code_of(written), denied, "{name}");
        }
        let written = in_time(client.write_file(&file("new"), &options, "x")).await;
        assert_eq!(code_of(written), denied);
        let list =
            in_time(client.list_files(&file("roots"), ListOptions::default(), &Page::default()))
                .await;
        assert_eq!(code_of(list), denied);
        let stat = in_time(client.stat_file(&file("roots/file"), true)).await;
        assert_eq!(code_of(stat), denied);
        for (from, to) in [
            ("secret", "users/mine"),
            ("users/file", "mine"),
            ("roots", "users/r"),
        ] {
            let copied = in_time(client.copy_file(&CopyRequest {
                from: Some(self.text(from)),
                to: Some(self.text(to)),
                recursive: true,
                user: user.clone(),
                ..Default::default()
            }))
            .await;
            assert_eq!(code_of(copied), denied, "{from}");
        }
        let moved = in_time(client.move_file(&MoveRequest {
            from: Some(self.text("secret")),
            to: Some(self.text("users/mine")),
            user: user.clone(),
            ..Default::default()
        }))
        .await;
        assert_eq!(code_of(moved), denied);
        for name in ["secret", "roots/file", "roots"] {
            let removed = in_time(client.remove_file(&RemoveRequest {
                path: Some(self.text(name)),
                recursive: true,
                user: user.clone(),
                ..Default::default()
            }))
            .await;
            assert_eq!(code_of(removed), denied, "{name}");
            let changed = in_time(client.change_mode(&ChmodRequest {
                path: Some(self.text(name)),
                path_base64: None,
                mode: FileMode::new(0o777).unwrap(),
                recursive: true,
                user: user.clone(),
                session: None,
            }))
            .await;
            assert_eq!(code_of(changed), denied, "{name}");
        }
        assert_eq!(tree_of(self.dir.path()), before);
        // What it makes is its own.
        for name in ["users/new", "users/file"] {
            in_time(client.write_file(&file(name), &options, "x"))
                .await
                .unwrap();
        }
        let made = in_time(client.make_directory(&MkdirRequest {
            path: Some(self.text("users/made/deep")),
            user: user.clone(),
            ..Default::default()
        }))
        .await;
        made.unwrap();
        let copied = in_time(client.copy_file(&CopyRequest {
            from: Some(self.text("users/made")),
            to: Some(self.text("users/copy")),
            recursive: true,
            user: user.clone(),
            ..Default::default()
        }))
        .await;
        copied.unwrap();
        for name in ["new", "file", "made", "made/deep", "copy", "copy/deep"] {
            let made = std::fs::metadata(self.path("users").join(name)).unwrap();
            assert_eq!(
                (made.uid(), made.gid()),
                (self.user.uid, self.user.gid),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn an_agent_of_root_acts_as_the_user_it_is_told() {
    let Some(shared) = Shared::new() else { return };
    let agent = Agent::start();
    let user = shared.user.uid.to_string();
    shared.try_all(&agent.client(), Some(&user)).await;
}

#[tokio::test]
async fn an_agent_of_root_acts_as_the_sandboxs_user() {
    let Some(shared) = Shared::new() else { return };
    let user = shared.user.uid.to_string();
    let agent = Agent::builder().args(["--user", &user]).start();
    shared.try_all(&agent.client(), None).await;
}

#[tokio::test]
async fn an_agent_without_rights_has_its_own() {
    let Some(shared) = Shared::new() else { return };
    let agent = Agent::builder().run_as(shared.user).start();
    shared.try_all(&agent.client(), None).await;
    let other = FileQuery {
        path: "/etc/passwd".to_owned(),
        user: Some("0".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        code_of(read(&agent.client(), &other).await),
        ErrorCode::Forbidden
    );
}

#[tokio::test]
async fn a_replaced_file_stays_its_owners() {
    let Some(shared) = Shared::new() else { return };
    let agent = Agent::start();
    let file = FileQuery::new(shared.text("users/file"));
    let options = WriteOptions::default();
    in_time(
        agent
            .client()
            .write_file(&file, &options, "root wrote this"),
    )
    .await
    .unwrap();
    let metadata = std::fs::metadata(shared.path("users/file")).unwrap();
    assert_eq!(
        (metadata.uid(), metadata.gid()),
        (shared.user.uid, shared.user.gid)
    );
    assert_eq!(metadata.len(), 15);
}

#[tokio::test]
async fn a_file_that_is_read_only_is_not_replaced() {
    let Some(shared) = Shared::new() else { return };
    shared.mode("users/file", 0o444);
    let agent = Agent::builder().run_as(shared.user).start();
    let file = FileQuery::new(shared.text("users/file"));
    let options = WriteOptions::default();
    let written = in_time(agent.client().write_file(&file, &options, "x")).await;
    assert_eq!(code_of(written), ErrorCode::PermissionDenied);
    assert_eq!(std::fs::read(shared.path("users/file")).unwrap(), b"users");
}

#[tokio::test]
async fn a_recursive_list_says_what_it_could_not_enter() {
    let Some(shared) = Shared::new() else { return };
    let agent = Agent::builder().run_as(shared.user).start();
    let dir = FileQuery::new(shared.text(""));
    let options = ListOptions {
        recursive: true,
        hidden: None,
    };
    let list = agent
        .client()
        .list_files(&dir, options, &Page::default())
        .await
        .unwrap();
    let said: Vec<_> = list
        .items
        .iter()
        .map(|e| (e.name.as_str(), e.error))
        .collect();
    assert_eq!(
        said,
        [
            ("roots", Some(ErrorCode::PermissionDenied)),
            ("secret", None),
            ("users", None),
            ("file", None)
        ]
    );
}

/// Bits that nobody has are no obstacle to whoever may set them.
#[tokio::test]
async fn modes_of_a_tree_are_set_though_it_could_not_be_read() {
    let Some(shared) = Shared::new() else { return };
    let desk = Desk::of(Agent::builder().run_as(shared.user).start());
    for name in ["closed", "closed/in"] {
        std::fs::create_dir(desk.dir.join(name)).unwrap();
    }
    for name in ["closed/in", "closed"] {
        let path = desk.dir.join(name);
        give(&path, shared.user);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    }
    let change = async |mode| {
        let request = ChmodRequest {
            path: Some(desk.path("closed")),
            path_base64: None,
            mode: FileMode::new(mode).unwrap(),
            recursive: true,
            user: None,
            session: None,
        };
        in_time(desk.client.change_mode(&request))
            .await
            .unwrap()
            .changed
    };
    for mode in [0o755, 0o644] {
        assert_eq!(change(mode).await, 2);
        for name in ["closed", "closed/in"] {
            let metadata = std::fs::metadata(desk.dir.join(name)).unwrap();
            assert_eq!(metadata.mode() & 0o7777, mode, "{name}");
        }
    }
}

fn give(path: &Path, user: UnprivilegedUser) {
    chown(path, Some(user.uid), Some(user.gid)).unwrap();
}
