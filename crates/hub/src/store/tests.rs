//! The store by itself.

use sandshell_types::SandboxState;

use super::*;

fn stored(id: &str, state: SandboxState, slot: Option<u32>) -> Stored {
    Stored {
        record: SandboxRecord {
            id: id.parse().unwrap(),
            state,
            reason: None,
            owner: "tok_1".to_owned(),
            spec: SandboxSpec::default(),
            protections: Vec::new(),
            created_at: Timestamp::now(),
            last_used_at: Timestamp::now(),
            expires_at: None,
            ended_at: None,
        },
        asked: SandboxSpec::default(),
        place: Place::generate().unwrap(),
        slot,
    }
}

fn entry(action: &str, target: &str) -> AuditEntry {
    AuditEntry {
        id: 0,
        at: Timestamp::now(),
        action: action.to_owned(),
        token: None,
        target: Some(target.to_owned()),
        outcome: "ok".to_owned(),
        detail: None,
        request_id: None,
    }
}

#[tokio::test]
async fn what_was_put_is_there_after_a_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hub.db");
    let (store, loaded) = Store::open(&path).unwrap();
    assert!(loaded.sandboxes.is_empty() && loaded.tokens.is_empty());
    let mut one = stored("one", SandboxState::Ready, Some(0));
    let two = stored("two", SandboxState::Ready, Some(1));
    let exposure = Exposure {
        place: one.place.clone(),
        port: 80,
        secret: [7; 32],
    };
    store
        .apply(vec![
            Change::PutSandbox(Box::new(one.clone())),
            Change::PutSandbox(Box::new(two.clone())),
            Change::PutExposure(exposure.clone()),
        ])
        .await
        .unwrap();
    let (_, loaded) = Store::open(&path).unwrap();
    assert_eq!(loaded.sandboxes, [one.clone(), two.clone()]);
    assert_eq!(loaded.exposures, [exposure]);
    // Its end takes its exposures along and frees its slot.
    one.record.state = SandboxState::Gone;
    one.slot = None;
    let changes = vec![
        Change::PutSandbox(Box::new(one.clone())),
        Change::ForgetSandbox(two.record.id),
    ];
    store.apply(changes).await.unwrap();
    let (_, loaded) = Store::open(&path).unwrap();
    assert_eq!(loaded.sandboxes, [one]);
    assert!(loaded.exposures.is_empty());
}

#[tokio::test]
async fn changes_are_made_together_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(&dir.path().join("hub.db")).unwrap();
    let (one, mut two) = (
        stored("one", SandboxState::Ready, Some(0)),
        stored("two", SandboxState::Ready, Some(1)),
    );
    two.record.owner = "tok_2".to_owned();
    store
        .apply(vec![Change::PutSandbox(Box::new(one))])
        .await
        .unwrap();
    let token = StoredToken {
        record: TokenRecord {
            id: "tok_1".to_owned(),
            name: None,
            scopes: Vec::new(),
            created_at: Timestamp::now(),
            expires_at: None,
            revoked_at: None,
            max_sandboxes: None,
        },
        hash: [1; 32],
    };
    let changes = vec![
        Change::Audit(entry("token.create", "tok_1")),
        Change::PutToken(token),
    ];
    store.apply(changes).await.unwrap();
    let entries = store
        .audit(AuditQuery {
            limit: 10,
            ..AuditQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].action, "token.create");
}

#[tokio::test]
async fn the_audit_log_is_read_newest_first_and_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(&dir.path().join("hub.db")).unwrap();
    for n in 0..5 {
        let target = if n % 2 == 0 { "even" } else { "odd" };
        store
            .apply(vec![Change::Audit(entry("x", target))])
            .await
            .unwrap();
    }
    let page = |before, target: Option<&str>| {
        let query = AuditQuery {
            before,
            target: target.map(str::to_owned),
            action: None,
            limit: 2,
        };
        let store = store.clone();
        async move {
            let entries = store.audit(query).await.unwrap();
            entries.iter().map(|entry| entry.id).collect::<Vec<_>>()
        }
    };
    assert_eq!(page(None, None).await, [5, 4]);
    assert_eq!(page(Some(4), None).await, [3, 2]);
    assert_eq!(page(Some(5), Some("even")).await, [3, 1]);
}

#[test]
fn a_file_of_a_later_program_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hub.db");
    drop(Store::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert!(matches!(
        Store::open(&path),
        Err(StoreError::Newer { found: 99, .. })
    ));
}

#[test]
fn the_file_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hub.db");
    let _store = Store::open(&path).unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}
