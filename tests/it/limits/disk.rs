//! What the agent keeps for its users on the machine's disk: output logs and backups.

use std::fs;
use std::path::Path;

use sandshell_client::types::{BackupRequest, ErrorCode, ExecRequest, ProcessKind, StreamName};
use sandshell_client::{OutputQuery, ProcessFilter};
use sandshell_testkit::Agent;

use super::MIB;
use crate::calls::{bytes_of, code_of, exec_of, in_time};

/// Bytes of all files below; what goes away meanwhile counts nothing.
fn on_disk(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => on_disk(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Each log had its own limit, and all together had none.
#[tokio::test]
async fn output_logs_share_the_disk_and_the_oldest_that_ended_give_way() {
    let agent = Agent::builder()
        .args(["--log-space", &(8 * MIB).to_string()])
        .start();
    let client = agent.client();
    let mut last = None;
    for _ in 0..4 {
        let request = ExecRequest {
            max_output_bytes: Some(8 * MIB),
            ..exec_of("head -c 3000000 /dev/urandom | tee >(sha256sum >&2); wait")
        };
        let result = in_time(client.exec(&request)).await.unwrap();
        assert_eq!(result.truncated, None);
        let (stdout, stderr) = bytes_of(&result);
        let digest = <sha2::Sha256 as sha2::Digest>::digest(&stdout);
        let digest = digest.iter().map(|byte| format!("{byte:02x}"));
        let digest: String = digest.collect();
        assert!(stderr.starts_with(digest.as_bytes()), "bytes are missing");
        let kept = on_disk(&agent.state_dir().join("logs"));
        assert!(kept <= 8 * MIB, "{kept}");
        last = Some(stdout);
    }
    // The newest are whole; of the oldest it is said that they are gone.
    let execs = ProcessFilter {
        kind: Some(ProcessKind::Exec),
        ..Default::default()
    };
    let all = in_time(client.list_processes(&execs)).await;
    let all = all.unwrap().items;
    let (first, newest) = (&all[0], &all[3]);
    let read = |id| client.process_output(id, OutputQuery::all(StreamName::Stdout));
    let gone = in_time(read(&first.id)).await;
    assert_eq!(code_of(gone.map(drop)), ErrorCode::OffsetGone);
    let kept = in_time(read(&newest.id)).await.unwrap();
    let kept = in_time(kept.read_to_end()).await.unwrap();
    assert!(Some(&kept[..]) == last.as_deref());
}

#[tokio::test]
async fn backups_share_the_disk_and_one_too_many_is_refused() {
    let agent = Agent::builder()
        .args(["--backup-space", &(4 * MIB).to_string()])
        .start();
    let client = agent.client();
    let dir = agent.work_dir().join("tree");
    fs::create_dir(&dir).unwrap();
    let mut random = vec![0; 1_500_000];
    let mut source = fs::File::open("/dev/urandom").unwrap();
    std::io::Read::read_exact(&mut source, &mut random).unwrap();
    fs::write(dir.join("noise"), random).unwrap();
    let backup = |id: &str| BackupRequest {
        id: Some(id.parse().unwrap()),
        path: Some(dir.display().to_string()),
        ..Default::default()
    };
    for id in ["a", "b"] {
        in_time(client.create_backup(&backup(id))).await.unwrap();
    }
    let refused = in_time(client.create_backup(&backup("c"))).await;
    let refused = refused.unwrap_err();
    let problem = refused.problem().unwrap();
    assert_eq!(problem.code, ErrorCode::NoSpace);
    assert!(problem.hint.as_deref().unwrap().starts_with("Delete some"));
    let kept = on_disk(&agent.state_dir().join("backups"));
    assert!(kept < 4 * MIB, "{kept}");
    // What is deleted makes room.
    let a = "a".parse().unwrap();
    in_time(client.delete_backup(&a)).await.unwrap();
    in_time(client.create_backup(&backup("c"))).await.unwrap();
}
