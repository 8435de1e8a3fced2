//! Every request that names a path takes its bytes, too.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use base64::Engine as _;
use sandshell_client::types::{
    BackupRequest, ChangesRequest, FindRequest, RestoreRequest, SearchRequest,
};
use sandshell_client::{ArchiveQuery, FileQuery, ListOptions, Page, WatchStreamEvent};
use sandshell_testkit::Agent;

use crate::calls::in_time;

fn base64(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn exactly(path: &Path) -> FileQuery {
    FileQuery {
        path_base64: Some(base64(path)),
        ..FileQuery::default()
    }
}

#[tokio::test]
async fn a_directory_that_is_not_utf8_is_found_searched_packed_watched_and_saved() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("note"), "needle\n").unwrap();
    std::os::unix::fs::symlink("note", dir.join("link")).unwrap();
    let path_base64 = Some(base64(&dir));

    let find = FindRequest {
        path_base64: path_base64.clone(),
        ..FindRequest::default()
    };
    let found = in_time(client.find_files(&find)).await.unwrap().items;
    let names: Vec<_> = found.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["link", "note"]);
    // An entry is the same thing wherever it comes from.
    let (whole, page) = (exactly(&dir), Page::default());
    let listed = in_time(client.list_files(&whole, ListOptions::default(), &page)).await;
    assert_eq!(listed.unwrap().items, found);

    let search = SearchRequest {
        path_base64: path_base64.clone(),
        pattern: "needle".to_owned(),
        ..SearchRequest::default()
    };
    let searched = in_time(client.search_files(&search)).await.unwrap();
    assert_eq!(searched.matches.len(), 1);
    assert_eq!(
        searched.matches[0].path_base64,
        Some(base64(&dir.join("note")))
    );

    let query = ArchiveQuery {
        directory: exactly(&dir),
        ..ArchiveQuery::default()
    };
    let archive = in_time(client.get_archive(&query)).await.unwrap();
    let archive = in_time(archive.read_to_end()).await.unwrap();
    let copy = agent.work_dir().join(OsStr::from_bytes(b"\xff"));
    in_time(client.put_archive(&exactly(&copy), archive))
        .await
        .unwrap();
    assert_eq!(fs::read(copy.join("note")).unwrap(), b"needle\n");

    let asked = ChangesRequest {
        path_base64: path_base64.clone(),
        ..ChangesRequest::default()
    };
    let mut events = in_time(client.watch_files(&asked)).await.unwrap();
    let (_, ready) = in_time(events.next()).await.unwrap().unwrap();
    let WatchStreamEvent::Ready(ready) = ready else {
        panic!("{ready:?} comes first");
    };
    assert_eq!(ready.path_base64, path_base64);

    let save = BackupRequest {
        path_base64: path_base64.clone(),
        ..BackupRequest::default()
    };
    let saved = in_time(client.create_backup(&save)).await.unwrap();
    assert_eq!(saved.path_base64, path_base64);
    fs::remove_file(dir.join("note")).unwrap();
    // Where it was made from by default.
    let there = RestoreRequest::default();
    let restored = in_time(client.restore_backup(&saved.id, &there)).await;
    assert_eq!(restored.unwrap().path_base64, path_base64);
    assert_eq!(fs::read(dir.join("note")).unwrap(), b"needle\n");
}
