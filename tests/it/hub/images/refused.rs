//! What is no image, or would be more than one, is refused with its reason, and leaves nothing.

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Method;
use sandshell_client::Client;
use sandshell_client::types::ErrorCode;
use sandshell_testkit::{Hub, UnprivilegedUser};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::make::{Files, Item, LAYER, archive, export, gzip, layout, root, saved, tar_of, zstd};
use super::{hubs, import, is_root, left_in, made_of, named};
use crate::calls::{DEADLINE, in_time};
use crate::hub::raw;

/// Changes one file of an archive.
fn with(mut files: Files, name: &str, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let found = files.iter_mut().find(|(path, _)| path.ends_with(name));
    change(&mut found.unwrap().1);
    archive(&files)
}

fn without(mut files: Files, name: &str) -> Vec<u8> {
    files.retain(|(path, _)| !path.contains(name));
    archive(&files)
}

fn in_json(text: &mut Vec<u8>, change: impl Fn(&mut Value)) {
    let mut value: Value = serde_json::from_slice(text).unwrap();
    change(&mut value);
    *text = value.to_string().into_bytes();
}

/// Each link leads 40 directories deeper than the one before.
fn too_deep() -> Vec<u8> {
    let deep = vec!["d"; 40].join("/");
    let steps = (1..8).flat_map(|at| {
        let from = if at == 1 {
            String::new()
        } else {
            format!("l{}/", at - 1)
        };
        let dir = format!("{from}{deep}");
        [(dir.clone(), None), (format!("l{at}"), Some(dir))]
    });
    let steps: Vec<(String, Option<String>)> = steps.collect();
    let entries: Vec<(&str, Item<'_>)> = steps
        .iter()
        .map(|(name, target)| match target {
            Some(target) => (name.as_str(), Item::Link(target)),
            None => (name.as_str(), Item::Dir(0o755)),
        })
        .collect();
    tar_of(&entries)
}

/// A name, what is sent, and a part of the reason.
fn cases() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let good = tar_of(&[("bin/x", Item::File("x"))]);
    let layers = [good.clone(), tar_of(&[("y", Item::File("y"))])];
    let save = || saved(&layers, &json!({}));
    let oci = |kind: &str| layout(&layers, &json!({}), <[u8]>::to_vec, kind);
    let bad_layer = |layer: Vec<u8>| archive(&saved(&[layer], &json!({})));
    vec![
        ("empty body", Vec::new(), "without its end mark"),
        ("no entries", tar_of(&[]), "nothing in it"),
        (
            "only devices",
            tar_of(&[("null", Item::Device)]),
            "nothing in it",
        ),
        ("no tar", b"hello ".repeat(200), "no tar archive"),
        (
            "cut off",
            good[..good.len() - 600].to_vec(),
            "without its end mark",
        ),
        (
            "cut off within a file",
            good[..800].to_vec(),
            "it ends within a file",
        ),
        (
            "gzip cut off",
            gzip(&good)[..60].to_vec(),
            "data is cut off",
        ),
        (
            "zstd cut off",
            zstd(&good)[..40].to_vec(),
            "data is cut off",
        ),
        (
            "above",
            tar_of(&[("../x", Item::File("x"))]),
            "would leave the directory",
        ),
        (
            "above later",
            tar_of(&[("a/../../x", Item::File("x"))]),
            "would leave the directory",
        ),
        (
            "link to nothing",
            tar_of(&[("x", Item::Hard("y"))]),
            "is not there before it",
        ),
        (
            "link out",
            tar_of(&[("x", Item::Hard("../../etc/passwd"))]),
            "would leave the directory",
        ),
        (
            "link to a directory",
            tar_of(&[("d/y", Item::File("")), ("x", Item::Hard("d"))]),
            "not there",
        ),
        (
            "through a file",
            tar_of(&[("x", Item::File("")), ("x/y", Item::File(""))]),
            "no directory",
        ),
        (
            "through a link to nowhere",
            tar_of(&[("x", Item::Link("/none")), ("x/y", Item::File(""))]),
            "no directory",
        ),
        (
            "through a loop",
            tar_of(&[("x", Item::Link("x")), ("x/y", Item::File(""))]),
            "no directory",
        ),
        (
            "no manifest",
            with(save(), "manifest.json", |text| *text = b"[".to_vec()),
            "manifest.json is not what it should be",
        ),
        (
            "no image",
            with(save(), "manifest.json", |text| *text = b"[]".to_vec()),
            "none or several",
        ),
        (
            "two images",
            with(save(), "manifest.json", |text| {
                in_json(text, |value| *value = json!([value[0], value[0]]));
            }),
            "none or several",
        ),
        ("too deep", too_deep(), "more than 256 deep"),
        (
            "missing layer",
            without(save(), "1/layer.tar"),
            "1/layer.tar is missing",
        ),
        (
            "another layer",
            with(save(), "1/layer.tar", |text| {
                *text = tar_of(&[("z", Item::File("z"))]);
            }),
            "digest",
        ),
        (
            "config that lies",
            with(save(), ".json", |text| text.push(b' ')),
            "digest",
        ),
        (
            "a layer too few",
            with(save(), "manifest.json", |text| {
                in_json(text, |value| value[0]["Layers"] = json!(["0/layer.tar"]));
            }),
            "1 layers, and its configuration says 2",
        ),
        (
            "layer outside",
            with(save(), "manifest.json", |text| {
                in_json(text, |value| {
                    value[0]["Layers"][0] = json!("../../../../etc/passwd");
                });
            }),
            "is missing",
        ),
        (
            "unknown media type",
            archive(&oci("application/vnd.example.layer")),
            "unknown media type \"application/vnd.example.layer\"",
        ),
        (
            "unknown layout",
            with(oci(LAYER), "oci-layout", |text| {
                *text = br#"{"imageLayoutVersion":"2.0"}"#.to_vec();
            }),
            "unknown version",
        ),
        (
            "no index",
            without(oci(LAYER), "index.json"),
            "index.json is missing",
        ),
        ("no blobs", without(oci(LAYER), "blobs"), "is missing"),
        (
            "foreign",
            with(oci(LAYER), "index.json", |text| {
                in_json(text, |value| {
                    value["manifests"][1] = value["manifests"][0].clone();
                });
            }),
            "none of its 2 images is for linux on",
        ),
        (
            "two of a kind",
            with(oci(LAYER), "index.json", |text| {
                in_json(text, |value| {
                    value["manifests"][0] = value["manifests"][1].clone();
                });
            }),
            "there are 2",
        ),
        (
            "wrong size",
            with(oci(LAYER), "index.json", |text| {
                in_json(text, |value| value["manifests"][1]["size"] = json!(3));
            }),
            "digest",
        ),
        (
            "no digest",
            with(oci(LAYER), "index.json", |text| {
                in_json(text, |value| {
                    value["manifests"][1]["digest"] = json!("sha256:../../x");
                });
            }),
            "no sha256 digest",
        ),
        (
            "layer cut off",
            bad_layer(good[..good.len() - 1100].to_vec()),
            "the layer 0/layer.tar: it ends",
        ),
        (
            "whiteout of the parent",
            bad_layer(tar_of(&[(".wh...", Item::File(""))])),
            "names nothing",
        ),
        (
            "whiteout of nothing",
            bad_layer(tar_of(&[("a/.wh.", Item::File(""))])),
            "names nothing",
        ),
    ]
}

#[tokio::test]
async fn every_broken_image_is_refused_and_leaves_nothing() {
    for hub in hubs() {
        let client = hub.client();
        let mut wrong = Vec::new();
        for (what, tar, reason) in cases() {
            match import(&client, "bad", tar).await {
                Ok(record) => wrong.push(format!("{what}: {record:?}")),
                Err(error) => {
                    let said = error.to_string();
                    if error.code() != Some(ErrorCode::InvalidImage) || !said.contains(reason) {
                        wrong.push(format!("{what}: {said}"));
                    }
                }
            }
            assert_eq!(left_in(&hub), Vec::<String>::new(), "after {what}");
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[tokio::test]
async fn names_and_requests_that_cannot_be_meant_have_their_place() {
    let hub = Hub::start();
    let client = hub.client();
    let state = hub.dir().to_str().unwrap();
    let in_it = format!(r#"{{"name":"a","directory":"{state}"}}"#);
    for (method, path, body, expected) in [
        (Method::PUT, "/v1/images/A", "", "400 invalid_request /name"),
        (
            Method::PUT,
            "/v1/images/.a",
            "",
            "400 invalid_request /name",
        ),
        (
            Method::PUT,
            "/v1/images/a%2Fb",
            "",
            "400 invalid_request /name",
        ),
        (
            Method::PUT,
            "/v1/images/..%2F..",
            "",
            "400 invalid_request /name",
        ),
        (
            Method::PUT,
            "/v1/images/a?x=1",
            "",
            "400 invalid_request /x",
        ),
        (
            Method::POST,
            "/v1/images",
            "{}",
            "400 invalid_request /name",
        ),
        (
            Method::POST,
            "/v1/images",
            r#"{"name":"A","directory":"/"}"#,
            "400 invalid_request /name",
        ),
        (
            Method::POST,
            "/v1/images",
            r#"{"name":"a","directory":"x"}"#,
            "400 invalid_request /directory",
        ),
        (
            Method::POST,
            "/v1/images",
            r#"{"name":"a","directory":"/none"}"#,
            "400 invalid_request /directory",
        ),
        (
            Method::POST,
            "/v1/images",
            r#"{"name":"a","directory":"/etc/passwd"}"#,
            "400 invalid_request /directory",
        ),
        (
            Method::POST,
            "/v1/images",
            &in_it,
            "400 invalid_request /directory",
        ),
        (Method::GET, "/v1/images/none", "", "404 image_not_found "),
        (
            Method::GET,
            "/v1/images/..%2Ftoken",
            "",
            "404 image_not_found ",
        ),
        (
            Method::DELETE,
            "/v1/images/none",
            "",
            "404 image_not_found ",
        ),
        (
            Method::GET,
            "/v1/images?limit=0",
            "",
            "400 invalid_request /limit",
        ),
        (Method::PATCH, "/v1/images/a", "", "405 method_not_allowed "),
    ] {
        let (status, problem) = raw(&client, method.clone(), path, body).await;
        let text = |field: &str| problem[field].as_str().unwrap_or_default().to_owned();
        let got = format!("{status} {} {}", text("code"), text("pointer"));
        assert_eq!(got, expected, "{method} {path} {body}");
    }
    assert_eq!(left_in(&hub), Vec::<String>::new());
}

/// Whatever links an image has, nothing outside of it is touched: not at its import, and not when a
/// sandbox is made of it.
#[tokio::test]
async fn links_of_an_image_lead_nowhere_else() {
    let root = root();
    for hub in hubs() {
        let outside = TempDir::with_prefix("sandshell-out-").unwrap();
        fs::write(outside.path().join("file"), "as it was").unwrap();
        if let Some(user) = UnprivilegedUser::get() {
            // Even those who could change it do not.
            user.own(outside.path());
            user.own(&outside.path().join("file"));
        }
        let out = outside.path().to_str().unwrap();
        let up = format!("{}{out}", "../".repeat(12));
        let client = hub.client();
        let at_import = [
            ("l", Item::Link(out)),
            ("l/new", Item::File("written")),
            ("u", Item::Link(&up)),
            ("u/file", Item::File("written")),
        ];
        let refused = import(&client, "a", tar_of(&at_import)).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::InvalidImage));
        for (name, links) in [
            ("etc", vec![("etc", Item::Link(out))]),
            (
                "rest",
                vec![
                    ("home", Item::Link(out)),
                    ("var", Item::Link(&up)),
                    ("dev", Item::Link(out)),
                    ("proc", Item::Link(&up)),
                    ("workspace", Item::Link(out)),
                    ("tmp", Item::Link(out)),
                ],
            ),
            (
                "files",
                vec![
                    ("etc", Item::Dir(0o755)),
                    ("etc/passwd", Item::Link(out)),
                    ("etc/resolv.conf", Item::Link(&up)),
                    ("etc/hosts", Item::Link("/proc/self/root/etc/hosts")),
                ],
            ),
        ] {
            import(&client, name, export(root.path(), &links))
                .await
                .unwrap();
            // Whether it can be made depends on what is left of it.
            let made = in_time(client.create_sandbox(&made_of(name, name))).await;
            if name == "files" {
                made.unwrap();
            }
        }
        let left: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        let text = fs::read_to_string(outside.path().join("file")).unwrap();
        assert_eq!(text, "as it was");
    }
}

/// An image that no sandbox can be made of is named, with what is wrong with it.
#[tokio::test]
async fn an_odd_image_is_named() {
    for hub in hubs() {
        let client = hub.client();
        for (name, items, cause) in [
            (
                "file",
                vec![("etc", Item::File("no"))],
                "/etc of the image is not a directory",
            ),
            (
                "loop",
                vec![("etc", Item::Link("etc"))],
                "/etc of the image is a link to itself",
            ),
            (
                "nowhere",
                vec![("etc", Item::Link("/none"))],
                "/etc of the image is a link to nowhere",
            ),
            (
                "table",
                vec![("etc", Item::Dir(0o755)), ("etc/passwd", Item::Dir(0o755))],
                "/etc/passwd of the image is a directory",
            ),
        ] {
            import(&client, name, tar_of(&items)).await.unwrap();
            let (status, problem) = create_of(&client, name, "").await;
            assert_eq!(status, 400, "{problem}");
            assert_eq!(problem["pointer"], "/image", "{problem}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(
                detail.contains(&format!("{name:?}")) && detail.contains(cause),
                "{detail}"
            );
        }
        if !is_root(&hub) {
            continue;
        }
        let config = json!({"User": "99999"});
        let layer = tar_of(&[("etc", Item::Dir(0o755))]);
        import(&client, "user", archive(&saved(&[layer], &config)))
            .await
            .unwrap();
        let (status, problem) = create_of(&client, "user", "").await;
        assert_eq!(
            (status, &problem["pointer"]),
            (400, &"/image".into()),
            "{problem}"
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("\"user\"") && detail.contains("99999"),
            "{detail}"
        );
        let (status, problem) = create_of(&client, "user", r#","user":"88888""#).await;
        assert_eq!(
            (status, &problem["pointer"]),
            (400, &"/user".into()),
            "{problem}"
        );
        let left = fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
        assert_eq!(left.count(), 0);
    }
}

async fn create_of(client: &Client, image: &str, more: &str) -> (u16, Value) {
    let body = format!(r#"{{"image":"{image}","isolation":{{"policy":"best_effort"}}{more}}}"#);
    raw(client, Method::POST, "/v1/sandboxes", &body).await
}

#[tokio::test]
async fn an_import_that_is_broken_off_leaves_nothing() {
    let mut hub = Hub::start();
    let half = || {
        let tar = tar_of(&[("a", Item::File("a")), ("b", Item::File("b"))]);
        Bytes::copy_from_slice(&tar[..1200])
    };
    // The hub is killed in the middle, and the next one removes what there is; or it is stopped.
    for end in [Hub::kill_hard, |hub: &mut Hub| {
        assert!(hub.stop().success());
    }] {
        let (sender, body) = tokio::sync::mpsc::channel::<std::io::Result<Bytes>>(1);
        sender.send(Ok(half())).await.unwrap();
        let sending = tokio::spawn({
            let client = hub.client();
            let body = stream::unfold(body, |mut body| async {
                body.recv().await.map(|piece| (piece, body))
            });
            async move { client.import_image(&named("half"), body).await }
        });
        until(&hub, |left| left.len() == 1 && left[0].starts_with('.')).await;
        end(&mut hub);
        in_time(sending).await.unwrap().unwrap_err();
        drop(sender);
        hub.restart();
        assert_eq!(left_in(&hub), Vec::<String>::new());
    }
    // The client goes away in the middle.
    let pieces = stream::iter([
        Ok(half()),
        Err(std::io::Error::other("the file cannot be read")),
    ]);
    let client = hub.client();
    let failed = in_time(client.import_image(&named("half"), pieces)).await;
    failed.unwrap_err();
    until(&hub, <[String]>::is_empty).await;
    let none = in_time(client.images(&sandshell_client::Page::default())).await;
    assert_eq!(none.unwrap().items.len(), 0);
    // It was tried, whoever went away.
    let noted = async {
        loop {
            let (_, log) = raw(&client, Method::GET, "/v1/audit?action=image.import", "").await;
            let entries = log["items"].as_array().unwrap();
            if let Some(entry) = entries.iter().find(|entry| entry["target"] == "half") {
                return entry.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    let entry = in_time(noted).await;
    assert_eq!(entry["outcome"], "invalid_image", "{entry}");
}

/// Two imports that stand still do not keep a third from its turn for long.
#[tokio::test]
async fn an_upload_that_stands_still_is_broken_off() {
    let hub = Hub::start();
    let tar = tar_of(&[("a", Item::File("a")), ("b", Item::File("b"))]);
    let mut stalled = Vec::new();
    for name in ["one", "two"] {
        let half = stream::iter([Ok(Bytes::copy_from_slice(&tar[..1200]))]);
        let body = half.chain(stream::pending::<std::io::Result<Bytes>>());
        let client = hub.client();
        stalled.push(tokio::spawn(async move {
            client.import_image(&named(name), body).await
        }));
    }
    until(&hub, |left| left.len() == 2).await;
    let whole = stream::iter([Ok(Bytes::from(tar))]);
    let client = hub.client();
    let name = named("three");
    let third = client.import_image(&name, whole);
    let third = tokio::time::timeout(3 * DEADLINE, third).await.unwrap();
    assert_eq!(third.unwrap().files, 2);
    for import in stalled {
        let refused = in_time(import).await.unwrap().unwrap_err();
        assert!(refused.to_string().contains("no bytes came"), "{refused}");
    }
}

/// A root may have files with the names that archives of layers have, and anything in them.
#[tokio::test]
async fn a_root_with_odd_documents_is_a_root() {
    let hub = Hub::start();
    let client = hub.client();
    for (n, content) in [
        "",
        "no json",
        "{}",
        "[]",
        "[1]",
        r#"[{"Config":"x","Layers":[]}]"#,
    ]
    .into_iter()
    .enumerate()
    {
        for document in ["manifest.json", "oci-layout"] {
            let entries = [("usr", Item::Dir(0o755)), (document, Item::File(content))];
            let name = format!("{n}-{document}");
            let image = import(&client, &name, tar_of(&entries)).await;
            assert_eq!(image.unwrap().files, 1, "{name}");
        }
    }
}

/// Looks at the directory of images until it is so. Nothing tells of it, so it is looked at again and
/// again.
async fn until(hub: &Hub, is_so: impl Fn(&[String]) -> bool) {
    let looking = async {
        while !is_so(&left_in(hub)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking).await.unwrap();
}
