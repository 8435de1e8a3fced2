//! Backups to and from a storage, by presigned URLs.

use std::fs;
use std::path::PathBuf;

use sandshell_client::Client;
use sandshell_client::types::{
    BackupRecord, BackupRequest, Download, ErrorCode, Multipart, RestoreRequest, Upload,
};
use sandshell_testkit::Agent;

use super::fake_storage::{Fail, FakeStorage};
use super::{backup_of, make, to};
use crate::calls::{code_of, in_time};
use crate::tree::{grow, shape};

struct Place {
    agent: Agent,
    client: Client,
    storage: FakeStorage,
    dir: PathBuf,
}

impl Place {
    async fn new(seed: u64) -> Self {
        let agent = Agent::start();
        let dir = agent.work_dir().join("tree");
        fs::create_dir(&dir).unwrap();
        grow(&dir, seed);
        Self {
            client: agent.client(),
            storage: FakeStorage::start().await,
            agent,
            dir,
        }
    }

    fn upload(&self, id: &str) -> BackupRequest {
        BackupRequest {
            upload: Some(Upload {
                url: Some(self.storage.url(id)),
                ..Default::default()
            }),
            ..backup_of(id, &self.dir)
        }
    }

    fn download(&self, name: &str) -> Download {
        Download {
            url: self.storage.url(name),
            sha256: None,
        }
    }

    async fn restored(&self, record: &BackupRecord, name: &str) {
        let target = self.agent.work_dir().join(format!("restored-{name}"));
        let request = RestoreRequest {
            download: Some(self.download(name)),
            ..to(&target)
        };
        in_time(self.client.restore_backup(&record.id, &request))
            .await
            .unwrap();
        assert_eq!(shape(&target), shape(&self.dir));
    }

    /// Nothing is left in the agent's directory but this many backups.
    fn kept(&self, count: usize) {
        let dir = self.agent.state_dir().join("backups");
        let kept: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        assert_eq!(kept.len(), count, "{kept:?}");
        // Neither are the URLs, which are secrets.
        for folder in kept {
            let manifest = fs::read_to_string(folder.join("manifest.json")).unwrap();
            assert!(!manifest.contains("secret-signature"));
        }
        assert!(!self.agent.log().contains("secret-signature"));
    }
}

#[tokio::test]
async fn one_put_and_one_get_with_retries() {
    let place = Place::new(11).await;
    place
        .storage
        .fail(&[Fail::Status(503), Fail::Hangup, Fail::Status(500)]);
    let record = make(&place.client, &place.upload("a")).await;
    assert_eq!(place.storage.take_log(), ["PUT /a"; 4]);
    let object = place.storage.object("a").unwrap();
    assert_eq!((object.len() as u64, record.stored), (record.size, false));
    let archive = place.agent.state_dir().join("backups/a/archive.tar.zst");
    assert!(!archive.exists());
    // It is not here, so a restore must say where it is.
    let nothing = RestoreRequest::default();
    let refused = in_time(place.client.restore_backup(&record.id, &nothing)).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        refused.problem().unwrap().pointer.as_deref(),
        Some("/download")
    );
    // A download goes on where it broke off.
    let (third, half) = (object.len() / 3, object.len() / 2);
    place.storage.fail(&[
        Fail::Status(503),
        Fail::CutAfter(third),
        Fail::CutAfter(half - third),
    ]);
    place.restored(&record, "a").await;
    let log = place.storage.take_log();
    assert_eq!(
        log,
        [
            "GET /a".into(),
            "GET /a".into(),
            format!("GET /a from {third}"),
            format!("GET /a from {half}")
        ]
    );
    place.kept(1);
}

#[tokio::test]
async fn many_parts() {
    let place = Place::new(12).await;
    let parts = |id: &str, count: usize, part_bytes| BackupRequest {
        upload: Some(Upload {
            multipart: Some(Multipart {
                part_urls: (1..=count)
                    .map(|n| place.storage.url(&format!("{id}-{n}")))
                    .collect(),
                part_bytes,
                complete_url: place.storage.url(id),
                abort_url: Some(place.storage.url(&format!("{id}-abort"))),
            }),
            keep: true,
            ..Default::default()
        }),
        ..backup_of(id, &place.dir)
    };
    let probe = make(&place.client, &backup_of("probe", &place.dir)).await;
    let part = probe.size / 3;
    place.storage.fail(&[Fail::Status(503), Fail::Hangup]);
    let record = make(&place.client, &parts("m", 9, part)).await;
    assert!(record.stored);
    let expected = fs::read(place.agent.state_dir().join("backups/m/archive.tar.zst")).unwrap();
    assert_eq!(place.storage.object("m").unwrap(), expected);
    place.restored(&record, "m").await;
    place.storage.take_log();
    // S3 may fail after it has said 200.
    place.storage.fail(&[]);
    let four = record.size.div_ceil(part);
    let late = usize::try_from(four).unwrap();
    let mut failures = vec![Fail::CutAfter(0); late];
    failures.push(Fail::LateError);
    place.storage.fail(&failures);
    make(&place.client, &parts("late", 9, part)).await;
    let log = place.storage.take_log();
    assert_eq!(
        log.iter().filter(|line| *line == "POST /late").count(),
        2,
        "{log:?}"
    );
    // Too few URLs, and a part that is refused for good: the upload is abandoned, nothing is kept.
    let refused = in_time(place.client.create_backup(&parts("few", 1, part)))
        .await
        .unwrap_err();
    let pointer = refused.problem().unwrap().pointer.clone();
    assert_eq!(pointer.as_deref(), Some("/upload/multipart/part_urls"));
    assert_eq!(place.storage.take_log(), ["DELETE /few-abort"]);
    place.storage.fail(&[Fail::Status(403)]);
    let refused = in_time(place.client.create_backup(&parts("denied", 9, part)))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::StorageFailed));
    let detail = &refused.problem().unwrap().detail;
    assert!(
        detail.contains("403") && detail.contains("SlowDown"),
        "{detail}"
    );
    assert!(!detail.contains("secret-signature"), "{detail}");
    assert_eq!(
        place.storage.take_log(),
        ["PUT /denied-1", "DELETE /denied-abort"]
    );
    place.kept(3);
}

#[tokio::test]
async fn a_storage_that_does_not_recover_gives_an_error() {
    let place = Place::new(13).await;
    place.storage.fail(&[Fail::Status(503); 5]);
    let refused = in_time(place.client.create_backup(&place.upload("a"))).await;
    assert_eq!(code_of(refused), ErrorCode::StorageFailed);
    assert_eq!(place.storage.take_log().len(), 5);
    let nowhere = BackupRequest {
        upload: Some(Upload {
            url: Some("http://127.0.0.1:1/x".to_owned()),
            ..Default::default()
        }),
        ..backup_of("b", &place.dir)
    };
    let refused = in_time(place.client.create_backup(&nowhere)).await;
    assert_eq!(code_of(refused), ErrorCode::StorageFailed);
    place.kept(0);
}

#[tokio::test]
async fn another_sandbox_takes_a_backup_in() {
    let place = Place::new(14).await;
    let record = make(&place.client, &place.upload("a")).await;
    let other = Agent::start();
    let client = other.client();
    let target = other.work_dir().join("new");
    let import = |id: &str, name: &str, sha256: Option<String>| BackupRequest {
        download: Some(Download {
            sha256,
            ..place.download(name)
        }),
        ..backup_of(id, &target)
    };
    let taken = make(&client, &import("a", "a", record.sha256.clone())).await;
    assert_eq!(
        (taken.sha256, taken.size),
        (record.sha256.clone(), record.size)
    );
    assert_eq!(
        (taken.contents.files, taken.contents.bytes),
        (record.contents.files, record.contents.bytes)
    );
    in_time(client.restore_backup(&taken.id, &RestoreRequest::default()))
        .await
        .unwrap();
    assert_eq!(shape(&target), shape(&place.dir));
    // What is not that archive is refused, and nothing is kept or changed.
    let mut bad = place.storage.object("a").unwrap();
    bad.truncate(bad.len() - 1);
    place.storage.put("cut", bad);
    place.storage.put("junk", b"no archive".to_vec());
    place.storage.put("empty", Vec::new());
    for name in ["cut", "junk", "empty"] {
        let refused = in_time(client.create_backup(&import(name, name, None))).await;
        assert_eq!(code_of(refused), ErrorCode::InvalidArchive, "{name}");
        let request = RestoreRequest {
            download: Some(place.download(name)),
            ..Default::default()
        };
        let refused = in_time(client.restore_backup(&taken.id, &request)).await;
        assert_eq!(code_of(refused), ErrorCode::InvalidArchive, "{name}");
    }
    let wrong = import("wrong", "a", Some("0".repeat(64)));
    assert_eq!(
        code_of(in_time(client.create_backup(&wrong)).await),
        ErrorCode::InvalidArchive
    );
    let missing = in_time(client.create_backup(&import("none", "none", None))).await;
    assert_eq!(code_of(missing), ErrorCode::StorageFailed);
    assert_eq!(shape(&target), shape(&place.dir));
    let kept = fs::read_dir(other.state_dir().join("backups"))
        .unwrap()
        .count();
    assert_eq!(kept, 1);
}
