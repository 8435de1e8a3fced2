//! Images: what other tools write goes in, and sandboxes are made of it.

mod make;
mod refused;
mod run;

use bytes::Bytes;
use futures_util::stream;
use http::Method;
use sandshell_client::types::{
    ErrorCode, ExecRequest, ImageName, ImageRecord, ImageRequest, SandboxLimits, SandboxSpec,
    TokenRequest,
};
use sandshell_client::{Client, ClientError, Page};
use sandshell_testkit::{Hub, UnprivilegedUser};
use serde_json::{Value, json};

use self::make::{Item, LAYER, archive, export, gzip, layout, root, saved, tar_of, zstd};
use super::{id_of, raw, spec_of};
use crate::calls::{exec, in_time, skipped};

/// A hub of root's, if we are that, and one of an ordinary user's.
fn hubs() -> Vec<Hub> {
    let mut hubs = vec![Hub::start()];
    match UnprivilegedUser::get() {
        Some(user) => hubs.push(Hub::of(user)),
        None => skipped("this is an ordinary user already: no other level to try"),
    }
    hubs
}

fn is_root(hub: &Hub) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(hub.state_dir()).unwrap().uid() == 0
}

fn named(name: &str) -> ImageName {
    name.parse().unwrap()
}

async fn import(client: &Client, name: &str, tar: Vec<u8>) -> Result<ImageRecord, ClientError> {
    // In pieces, as from a file.
    let pieces: Vec<std::io::Result<Bytes>> = tar
        .chunks(100_000)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    in_time(client.import_image(&named(name), stream::iter(pieces))).await
}

fn made_of(image: &str, id: &str) -> SandboxSpec {
    SandboxSpec {
        image: Some(image.to_owned()),
        ..spec_of(id)
    }
}

async fn sandbox_of(client: &Client, image: &str, id: &str) -> Client {
    let made = in_time(client.create_sandbox(&made_of(image, id))).await;
    client.sandbox(&made.unwrap().id)
}

async fn says(sandbox: &Client, command: &str) -> String {
    let result = exec(sandbox, command).await;
    format!("{}{}", result.stdout, result.stderr)
}

/// What an image says about commands, as it stands in its configuration.
fn config() -> Value {
    json!({
        "Env": ["PATH=/bin", "FROM_IMAGE=yes", "BOTH=image", "NOVALUE"],
        "Cmd": ["-c", "echo cmd of $FROM_IMAGE"], "Entrypoint": ["/bin/bash"],
        "WorkingDir": "/srv/app", "User": "app:web",
    })
}

const ACCOUNTS: &[(&str, Item<'_>)] = &[
    ("etc", Item::Dir(0o755)),
    (
        "etc/passwd",
        Item::File("root:x:0:0::/root:/bin/sh\napp:x:700:701::/srv:/bin/sh\n"),
    ),
    (
        "etc/group",
        Item::File("root:x:0:\nweb:x:33:\napp:x:701:\n"),
    ),
];

#[tokio::test]
async fn every_form_is_taken_and_makes_the_same_sandbox() {
    let root = root();
    let plain = export(root.path(), ACCOUNTS);
    let layers = [plain.clone(), tar_of(&[("srv/app/x", Item::File("x"))])];
    let packed = |pack: fn(&[u8]) -> Vec<u8>, kind: &str| {
        archive(&layout(&layers, &config(), pack, &format!("{LAYER}{kind}")))
    };
    let save = archive(&saved(&layers, &config()));
    let forms: Vec<(&str, bool, Vec<u8>)> = vec![
        ("export", false, plain.clone()),
        ("export-gz", false, gzip(&plain)),
        ("export-zst", false, zstd(&plain)),
        ("save", true, save.clone()),
        ("save-gz", true, gzip(&save)),
        ("oci", true, packed(<[u8]>::to_vec, "")),
        ("oci-gz", true, packed(gzip, "+gzip")),
        ("oci-zst-zst", true, zstd(&packed(zstd, "+zstd"))),
    ];
    for hub in hubs() {
        let client = hub.client();
        for (name, has_config, tar) in &forms {
            let record = import(&client, name, tar.clone()).await.unwrap();
            assert_eq!(record.name, named(name));
            assert_eq!(record.digest.is_some(), *has_config, "{name}");
            assert!(
                record.size_bytes > 1_000_000 && record.files > 9,
                "{record:?}"
            );
            let mut spec = made_of(name, name);
            spec.env.insert("BOTH".to_owned(), "sandbox".to_owned());
            in_time(client.create_sandbox(&spec)).await.unwrap();
            let sandbox = client.sandbox(&id_of(name));
            let said = says(&sandbox, "pwd; id -u; id -g; echo $FROM_IMAGE $BOTH").await;
            let expected = match (has_config, is_root(&hub)) {
                (true, true) => "/srv/app\n700\n33\nyes sandbox\n",
                // There is one user only.
                (true, false) => "/srv/app\n1000\n1000\nyes sandbox\n",
                (false, _) => "/workspace\n1000\n1000\nsandbox\n",
            };
            assert_eq!(said, expected, "{name}");
            let asked = ExecRequest {
                command: Some("cat /etc/resolv.conf; [[ -w /tmp && -w ~ && -w /workspace && -c /dev/null ]] && echo all".to_owned()),
                user: Some("sandbox".to_owned()),
                ..ExecRequest::default()
            };
            let said = in_time(sandbox.exec(&asked)).await.unwrap();
            let expected = "nameserver 127.0.0.1\noptions edns0\n";
            assert!(said.stdout.starts_with(expected), "{name}: {said:?}");
            // Where the image's user owns /workspace the other does not.
            let own = !(*has_config && is_root(&hub));
            assert_eq!(said.stdout.ends_with("all\n"), own, "{name}: {said:?}");
        }
        let listed = in_time(client.images(&Page::default())).await.unwrap();
        let names: Vec<&str> = listed.items.iter().map(|one| one.name.as_str()).collect();
        let mut expected: Vec<&str> = forms.iter().map(|(name, ..)| *name).collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let record = in_time(client.image(&named("oci-gz"))).await.unwrap();
        assert_eq!(record.config.entrypoint, ["/bin/bash"]);
        assert_eq!(record.config.user.as_deref(), Some("app:web"));
    }
}

#[tokio::test]
async fn layers_take_away_what_is_below_and_use_its_links() {
    let root = root();
    let below = export(
        root.path(),
        &[
            ("old", Item::File("old")),
            ("tree/a/b", Item::File("b")),
            ("kept/below", Item::File("below")),
            ("opaque", Item::Dir(0o755)),
            ("opaque/below", Item::File("below")),
            ("opaque/both", Item::File("below")),
            ("was-file", Item::File("")),
            ("was-dir/x", Item::File("")),
            ("link", Item::Link("/kept")),
            ("first", Item::File("linked")),
            ("second", Item::Hard("first")),
            ("/absolute", Item::File("absolute")),
            ("closed", Item::Dir(0o555)),
            ("closed/x", Item::File("closed")),
            ("dev/console", Item::Device),
        ],
    );
    let above = tar_of(&[
        (".wh.old", Item::File("")),
        (".wh.never-there", Item::File("")),
        (".wh.tree", Item::File("")),
        ("opaque/both", Item::File("above")),
        // After what the same layer has there, which stays.
        ("opaque/.wh..wh..opq", Item::File("")),
        ("was-file", Item::Dir(0o755)),
        ("was-file/x", Item::File("now")),
        ("was-dir", Item::File("now")),
        ("link/above", Item::File("above")),
        ("third", Item::Hard("/second")),
        ("closed/y", Item::File("closed")),
    ]);
    let tar = archive(&saved(&[below, above], &json!({})));
    for hub in hubs() {
        let client = hub.client();
        let record = import(&client, "two", tar.clone()).await.unwrap();
        assert_eq!(record.skipped, 1);
        let sandbox = sandbox_of(&client, "two", "a").await;
        let script = "cd /; echo [o]ld [t]ree kept/* opaque/*; cat opaque/both absolute third; echo; \
             cat was-file/x was-dir; echo; readlink link; stat -c %h first; stat -c %a closed; echo closed/*";
        let closed = if is_root(&hub) { "555" } else { "755" };
        let expected = format!(
            "[o]ld [t]ree kept/above kept/below opaque/both\naboveabsolutelinked\nnownow\n/kept\n3\n{closed}\nclosed/x closed/y\n"
        );
        assert_eq!(says(&sandbox, script).await, expected);
    }
}

#[tokio::test]
async fn owners_and_modes_are_kept_where_they_can_be() {
    let mut tar = tar::Builder::new(Vec::new());
    let root = root();
    tar.follow_symlinks(false);
    tar.append_dir_all(".", root.path()).unwrap();
    for (name, uid, mode) in [
        ("a", 7, 0o4750),
        ("b", 1000, 0o600),
        ("c", 9_000_000, 0o644),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_uid(uid);
        header.set_gid(uid);
        header.set_mode(mode);
        tar.append_data(&mut header, name, std::io::empty())
            .unwrap();
    }
    let tar = tar.into_inner().unwrap();
    for hub in hubs() {
        let client = hub.client();
        import(&client, "owned", tar.clone()).await.unwrap();
        let sandbox = sandbox_of(&client, "owned", "a").await;
        let said = says(&sandbox, "cd /; stat -c '%u %a' a b c").await;
        let expected = if is_root(&hub) {
            "7 4750\n1000 600\n65534 644\n"
        } else {
            "1000 4750\n1000 600\n1000 644\n"
        };
        assert_eq!(said, expected);
        if is_root(&hub) {
            let root = ExecRequest {
                command: Some("echo >/etc/x && echo root writes".to_owned()),
                user: Some("root".to_owned()),
                ..ExecRequest::default()
            };
            let said = in_time(sandbox.exec(&root)).await.unwrap();
            assert_eq!(said.stdout, "root writes\n", "{said:?}");
        }
    }
}

#[tokio::test]
async fn what_is_written_is_the_sandboxs_own_and_has_its_limits() {
    let root = root();
    for hub in hubs() {
        let client = hub.client();
        import(&client, "base", export(root.path(), &[]))
            .await
            .unwrap();
        let spec = SandboxSpec {
            limits: Some(SandboxLimits {
                disk_bytes: Some(8 << 20),
                ..SandboxLimits::default()
            }),
            ..made_of("base", "a")
        };
        in_time(client.create_sandbox(&spec)).await.unwrap();
        let one = client.sandbox(&id_of("a"));
        assert_eq!(says(&one, "echo mine >/tmp/mine").await, "");
        let said = says(&one, "dd if=/dev/zero of=/workspace/x bs=1M count=20 2>&1").await;
        assert!(said.contains("No space left on device"), "{said}");
        let other = sandbox_of(&client, "base", "b").await;
        assert_eq!(
            says(&other, "echo /tmp/* /workspace/*").await,
            "/tmp/* /workspace/*\n"
        );
        let kept = hub.state_dir().join("images/base/root");
        assert!(!kept.join("tmp").exists() && !kept.join("workspace").exists());
    }
}

#[tokio::test]
async fn an_image_in_use_stays() {
    let root = root();
    let mut hub = Hub::start();
    let client = hub.client();
    let tar = export(root.path(), &[]);
    import(&client, "base", tar.clone()).await.unwrap();
    sandbox_of(&client, "base", "a").await;
    let refused = in_time(client.remove_image(&named("base")))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::ImageInUse));
    let refused = import(&client, "base", tar.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::ImageInUse));
    // Also for a hub that did not make it, which knows its images again.
    hub.kill_hard();
    hub.restart();
    let client = hub.client();
    let sandbox = client.sandbox(&id_of("a"));
    assert_eq!(
        says(&sandbox, "cat /bin/sh >/dev/null && echo still").await,
        "still\n"
    );
    let refused = in_time(client.remove_image(&named("base")))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::ImageInUse));
    in_time(client.destroy_sandbox(&id_of("a"))).await.unwrap();
    // Now it can be replaced, and then go.
    import(&client, "base", tar).await.unwrap();
    in_time(client.remove_image(&named("base"))).await.unwrap();
    assert_eq!(left_in(&hub), Vec::<String>::new());
    let gone = in_time(client.remove_image(&named("base")))
        .await
        .unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::ImageNotFound));
}

/// What a layer says of a directory is said of that one, not of what a later layer's link leads to; and what
/// was taken away is made anew.
#[tokio::test]
async fn later_layers_change_what_names_mean() {
    let root = root();
    let below = export(
        root.path(),
        &[
            ("alias", Item::Dir(0o755)),
            ("alias/x", Item::Dir(0o711)),
            ("real", Item::Dir(0o755)),
            ("real/x", Item::Dir(0o750)),
            ("a/b/f", Item::File("f")),
        ],
    );
    let above = tar_of(&[
        ("a/.wh.b", Item::File("")),
        ("a/b/g", Item::File("g")),
        (".wh.alias", Item::File("")),
        ("alias", Item::Link("real")),
    ]);
    let tar = archive(&saved(&[below, above], &json!({})));
    for hub in hubs() {
        let client = hub.client();
        import(&client, "renamed", tar.clone()).await.unwrap();
        let sandbox = sandbox_of(&client, "renamed", "a").await;
        let script = "cd /; stat -c %a real/x; echo a/b/*; readlink alias";
        assert_eq!(says(&sandbox, script).await, "750\na/b/g\nreal\n");
    }
}

/// Sandboxes of the hub before may be made of it.
#[tokio::test]
async fn an_image_that_cannot_be_read_is_left_alone() {
    let mut hub = Hub::start();
    let tar = export(root().path(), &[]);
    import(&hub.client(), "kept", tar).await.unwrap();
    hub.kill_hard();
    let record = hub.state_dir().join("images/kept/image.json");
    std::fs::write(&record, "{}").unwrap();
    hub.restart();
    assert_eq!(left_in(&hub), ["kept"]);
    assert!(hub.log().contains("left alone"), "{}", hub.log());
}

/// Names in the directory of images.
fn left_in(hub: &Hub) -> Vec<String> {
    let entries = std::fs::read_dir(hub.state_dir().join("images")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn another_image_is_another_sandbox() {
    let root = root();
    let hub = Hub::start();
    let client = hub.client();
    let tar = export(root.path(), &[]);
    import(&client, "one", tar.clone()).await.unwrap();
    import(&client, "two", tar).await.unwrap();
    sandbox_of(&client, "one", "a").await;
    sandbox_of(&client, "one", "a").await;
    for other in ["two", "none"] {
        let spec = serde_json::to_string(&made_of(other, "a")).unwrap();
        let (status, problem) = raw(&client, Method::POST, "/v1/sandboxes", &spec).await;
        assert_eq!(
            (status, &problem["pointer"]),
            (409, &json!("/image")),
            "{problem}"
        );
    }
    let spec = serde_json::to_string(&made_of("none", "b")).unwrap();
    let (status, problem) = raw(&client, Method::POST, "/v1/sandboxes", &spec).await;
    assert_eq!((status, &problem["code"]), (404, &json!("image_not_found")));
    assert_eq!(problem["pointer"], "/image");
    assert_eq!(problem["hint"], "There are: one, two.");
}

#[tokio::test]
async fn a_directory_is_copied() {
    let root = root();
    std::fs::write(root.path().join("mark"), "before").unwrap();
    std::fs::hard_link(root.path().join("mark"), root.path().join("mark2")).unwrap();
    std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    for hub in hubs() {
        let client = hub.client();
        let request = ImageRequest {
            name: named("copied"),
            directory: root.path().to_str().unwrap().to_owned(),
        };
        let record = in_time(client.create_image(&request)).await.unwrap();
        assert_eq!((record.skipped, record.digest.as_deref()), (1, None));
        let sandbox = sandbox_of(&client, "copied", "a").await;
        std::fs::write(root.path().join("mark"), "after").unwrap();
        let said = says(&sandbox, "cat /mark /mark2; stat -c %h /mark").await;
        assert_eq!(said, "beforebefore2\n");
        std::fs::write(root.path().join("mark"), "before").unwrap();
    }
}

#[tokio::test]
async fn without_a_shell_programs_run_by_argv() {
    let root = root();
    std::fs::remove_file(root.path().join("bin/sh")).unwrap();
    std::fs::remove_file(root.path().join("bin/bash")).unwrap();
    for hub in hubs() {
        let client = hub.client();
        import(&client, "bare", export(root.path(), &[]))
            .await
            .unwrap();
        let sandbox = sandbox_of(&client, "bare", "a").await;
        let request = ExecRequest {
            argv: Some(vec!["id".to_owned(), "-un".to_owned()]),
            ..ExecRequest::default()
        };
        let said = in_time(sandbox.exec(&request)).await.unwrap();
        assert_eq!(said.stdout, "sandbox\n", "{said:?}");
        for (path, body) in [
            ("/v1/sandboxes/a/exec", r#"{"command":"id"}"#),
            ("/v1/sandboxes/a/sessions", "{}"),
        ] {
            let (status, problem) = raw(&client, Method::POST, path, body).await;
            let detail = problem["detail"].as_str().unwrap_or_default();
            assert_eq!(status, 422, "{path}: {problem}");
            assert!(detail.contains("has no shell"), "{path}: {problem}");
        }
    }
}

#[tokio::test]
async fn admins_change_images_and_makers_see_them() {
    let hub = Hub::start();
    let admin = hub.client();
    import(&admin, "base", tar_of(&[("a", Item::File(""))]))
        .await
        .unwrap();
    let scoped = async |scope: &str| {
        let request: TokenRequest = serde_json::from_value(json!({"scopes": [scope]})).unwrap();
        let made = in_time(admin.create_token(&request)).await.unwrap();
        hub.client_with(Some(&made.token))
    };
    let maker = scoped("create").await;
    assert_eq!(
        in_time(maker.images(&Page::default()))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let refused = import(&maker, "mine", tar_of(&[])).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden));
    let refused = in_time(maker.remove_image(&named("base")))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden));
    let user = scoped("sandbox:a").await;
    let refused = in_time(user.images(&Page::default())).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden));
    let (_, log) = raw(&admin, Method::GET, "/v1/audit?action=image.import", "").await;
    assert_eq!(log["items"][0]["target"], "base", "{log}");
}
