//! Bad input and things that are not files: a clear refusal each, and nothing changed.

use std::os::unix::fs::symlink;

use http::Method;
use sandshell_client::types::Problem;

use super::{Desk, ask, tree_of};

/// `DIR` stands for the directory of the test. Request, then status, code and pointer, then body.
const TABLE: &str = r#"
GET /v1/files/content | 400 invalid_request /path
GET /v1/files/content?path= | 400 invalid_request /path
GET /v1/files/content?path=a%00b | 400 invalid_request /path
GET /v1/files/content?path_base64=%25 | 400 invalid_request /path_base64
GET /v1/files/content?path_base64=AA== | 400 invalid_request /path_base64
GET /v1/files/content?path=a&path_base64=YQ== | 400 invalid_request /path_base64
GET /v1/files/content?path=DIR/file&other=1 | 400 invalid_request /other
GET /v1/files/content?path=DIR/file&user=no-such-user | 400 user_not_found /user
GET /v1/files/content?path=DIR/file&session=none | 404 session_not_found -
GET /v1/files/content?path=DIR/file&session=%2F | 400 invalid_request /session
GET /v1/files/content?path=DIR/none | 404 file_not_found -
GET /v1/files/content?path=DIR/dir | 422 is_a_directory -
GET /v1/files/content?path=DIR/fifo | 422 not_a_regular_file -
GET /v1/files/content?path=DIR/socket | 422 not_a_regular_file -
GET /v1/files/content?path=/dev/zero | 422 not_a_regular_file -
GET /v1/files/content?path=/dev/ptmx | 422 not_a_regular_file -
GET /v1/files/content?path=DIR/to-zero | 422 not_a_regular_file -
GET /v1/files/content?path=DIR/loop | 422 too_many_links -
GET /v1/files/content?path=DIR/file/below | 422 not_a_directory -
GET /v1/files/content?path=DIR/file/ | 422 not_a_directory -
GET /v1/files/content?path=/proc/1/root/etc/passwd | 422 too_many_links -
PUT /v1/files/content | 400 invalid_request /path | x
PUT /v1/files/content?path=DIR/new&mode=9 | 400 invalid_request /mode | x
PUT /v1/files/content?path=DIR/new&mode=77777 | 400 invalid_request /mode | x
PUT /v1/files/content?path=DIR/new&modified_at=today | 400 invalid_request /modified_at | x
PUT /v1/files/content?path=DIR/new&parents=maybe | 400 invalid_request /parents | x
PUT /v1/files/content?path=DIR/new&append=true&modified_at=2026-01-01T00:00:00Z | 400 invalid_request /modified_at | x
PUT /v1/files/content?path=DIR/new&nonsense=1 | 400 invalid_request /nonsense | x
PUT /v1/files/content?path=DIR/dir | 422 is_a_directory - | x
PUT /v1/files/content?path=DIR/new/ | 422 is_a_directory - | x
PUT /v1/files/content?path=DIR/.. | 400 invalid_request - | x
PUT /v1/files/content?path=/ | 422 is_a_directory - | x
PUT /v1/files/content?path=DIR/fifo | 422 not_a_regular_file - | x
PUT /v1/files/content?path=DIR/fifo&append=true | 422 not_a_regular_file - | x
PUT /v1/files/content?path=DIR/socket | 422 not_a_regular_file - | x
PUT /v1/files/content?path=DIR/to-zero | 422 not_a_regular_file - | x
PUT /v1/files/content?path=DIR/file/below | 422 not_a_directory - | x
PUT /v1/files/content?path=DIR/none/../new | 404 file_not_found - | x
PUT /v1/files/content?path=DIR/none/new&parents=false | 404 file_not_found - | x
PUT /v1/files/content?path=DIR/loop/new | 422 too_many_links - | x
PUT /v1/files/content?path=DIR/new&user=no-such-user | 400 user_not_found /user | x
DELETE /v1/files/content?path=DIR/file | 405 method_not_allowed -
GET /v1/files?path=DIR/none | 404 file_not_found -
GET /v1/files?path=DIR/file | 422 not_a_directory -
GET /v1/files?path=DIR/fifo | 422 not_a_directory -
GET /v1/files?path=/dev/null | 422 not_a_directory -
GET /v1/files?path=DIR/loop | 422 too_many_links -
GET /v1/files?path=DIR&limit=0 | 400 invalid_request /limit
GET /v1/files?path=DIR&limit=10001 | 400 invalid_request /limit
GET /v1/files?path=DIR&limit=x | 400 invalid_request /limit
GET /v1/files?path=DIR&cursor=!! | 400 invalid_request /cursor
GET /v1/files?path=DIR&cursor= | 400 invalid_request /cursor
GET /v1/files?path=DIR&recursive=true&cursor=Li4vLi4 | 400 invalid_request /cursor
GET /v1/files?path=DIR&recursive=true&cursor=L2V0Yw | 400 invalid_request /cursor
GET /v1/files?path=DIR&cursor=YS9i | 400 invalid_request /cursor
GET /v1/files?path=DIR&recursive=2 | 400 invalid_request /recursive
GET /v1/files?path=DIR&deep=true | 400 invalid_request /deep
GET /v1/files/stat | 400 invalid_request /path
GET /v1/files/stat?path=DIR/none | 404 file_not_found -
GET /v1/files/stat?path=DIR/file&follow=x | 400 invalid_request /follow
GET /v1/files/stat?path=/proc/1/cwd | 422 too_many_links -
POST /v1/files/mkdir | 400 invalid_request  |
POST /v1/files/mkdir | 400 invalid_request /path | {}
POST /v1/files/mkdir | 400 invalid_request /path | {"path": ""}
POST /v1/files/mkdir | 400 invalid_request /path | {"path": "a\u0000b"}
POST /v1/files/mkdir | 400 invalid_request /path | {"path": 1}
POST /v1/files/mkdir | 400 invalid_request /mode | {"path": "DIR/new", "mode": "rwx"}
POST /v1/files/mkdir | 400 invalid_request /mode | {"path": "DIR/new", "mode": 99999}
POST /v1/files/mkdir | 400 invalid_request /sticky | {"path": "DIR/new", "sticky": true}
POST /v1/files/mkdir | 409 file_exists - | {"path": "DIR/dir"}
POST /v1/files/mkdir | 409 file_exists - | {"path": "DIR/file", "exist_ok": true}
POST /v1/files/mkdir | 409 file_exists - | {"path": "/"}
POST /v1/files/mkdir | 422 not_a_directory - | {"path": "DIR/file/new"}
POST /v1/files/mkdir | 400 user_not_found /user | {"path": "DIR/new", "user": "no-such-user"}
POST /v1/files/mkdir | 404 session_not_found - | {"path": "new", "session": "none"}
POST /v1/files/move | 400 invalid_request /from | {}
POST /v1/files/move | 400 invalid_request /to | {"from": "DIR/file"}
POST /v1/files/move | 400 invalid_request /to_base64 | {"from": "DIR/file", "to_base64": "*"}
POST /v1/files/move | 404 file_not_found - | {"from": "DIR/none", "to": "DIR/new"}
POST /v1/files/move | 409 file_exists - | {"from": "DIR/file", "to": "DIR/dir"}
POST /v1/files/move | 422 is_a_directory - | {"from": "DIR/file", "to": "DIR/dir", "overwrite": true}
POST /v1/files/move | 422 not_a_directory - | {"from": "DIR/dir", "to": "DIR/file", "overwrite": true}
POST /v1/files/move | 400 invalid_request /to | {"from": "DIR/dir", "to": "DIR/dir/in"}
POST /v1/files/move | 403 permission_denied - | {"from": "/", "to": "DIR/root"}
POST /v1/files/move | 403 permission_denied - | {"from": "DIR/file", "to": "/", "overwrite": true}
POST /v1/files/move | 400 invalid_request - | {"from": "DIR/dir/..", "to": "DIR/new"}
POST /v1/files/copy | 400 invalid_request /from | {"to": "DIR/new"}
POST /v1/files/copy | 422 is_a_directory - | {"from": "DIR/dir", "to": "DIR/new"}
POST /v1/files/copy | 422 not_a_regular_file - | {"from": "DIR/fifo", "to": "DIR/new"}
POST /v1/files/copy | 422 not_a_regular_file - | {"from": "/dev/zero", "to": "DIR/new"}
POST /v1/files/copy | 409 file_exists - | {"from": "DIR/file", "to": "DIR/dir"}
POST /v1/files/copy | 400 invalid_request /to | {"from": "DIR/dir", "to": "DIR/dir/in/deep", "recursive": true}
POST /v1/files/copy | 422 too_many_links - | {"from": "DIR/loop", "to": "DIR/new"}
POST /v1/files/copy | 404 file_not_found - | {"from": "DIR/none", "to": "DIR/new"}
POST /v1/files/remove | 400 invalid_request /path | {}
POST /v1/files/remove | 404 file_not_found - | {"path": "DIR/none"}
POST /v1/files/remove | 409 directory_not_empty - | {"path": "DIR/dir"}
POST /v1/files/remove | 422 not_a_directory - | {"path": "DIR/file/x", "recursive": true}
POST /v1/files/remove | 400 invalid_request - | {"path": "DIR/dir/..", "recursive": true}
POST /v1/files/remove | 400 invalid_request /recursive | {"path": "DIR/dir", "recursive": "yes"}
POST /v1/files/chmod | 400 invalid_request /mode | {"path": "DIR/file"}
POST /v1/files/chmod | 400 invalid_request /mode | {"path": "DIR/file", "mode": "u+x"}
POST /v1/files/chmod | 400 invalid_request /mode | {"path": "DIR/file", "mode": -1}
POST /v1/files/chmod | 404 file_not_found - | {"path": "DIR/none", "mode": "0644"}
POST /v1/files/chmod | 422 too_many_links - | {"path": "DIR/loop", "mode": "0644"}
GET /v1/files/archive | 400 invalid_request /path
GET /v1/files/archive?path= | 400 invalid_request /path
GET /v1/files/archive?path=a%00b | 400 invalid_request /path
GET /v1/files/archive?path_base64=%25 | 400 invalid_request /path_base64
GET /v1/files/archive?path=a&path_base64=YQ== | 400 invalid_request /path_base64
GET /v1/files/archive?path=DIR&user=no-such-user | 400 user_not_found /user
GET /v1/files/archive?path=DIR&session=none | 404 session_not_found -
GET /v1/files/archive?path=DIR&session=%2F | 400 invalid_request /session
PUT /v1/files/archive | 400 invalid_request /path
PUT /v1/files/archive?path= | 400 invalid_request /path
PUT /v1/files/archive?path=a%00b | 400 invalid_request /path
PUT /v1/files/archive?path_base64=%25 | 400 invalid_request /path_base64
PUT /v1/files/archive?path=a&path_base64=YQ== | 400 invalid_request /path_base64
PUT /v1/files/archive?path=DIR&user=no-such-user | 400 user_not_found /user
PUT /v1/files/archive?path=DIR&session=none | 404 session_not_found -
PUT /v1/files/archive?path=DIR&session=%2F | 400 invalid_request /session
GET /v1/files/watch | 400 invalid_request /path
GET /v1/files/watch?path= | 400 invalid_request /path
GET /v1/files/watch?path=a%00b | 400 invalid_request /path
GET /v1/files/watch?path_base64=%25 | 400 invalid_request /path_base64
GET /v1/files/watch?path=a&path_base64=YQ== | 400 invalid_request /path_base64
GET /v1/files/watch?path=DIR&user=no-such-user | 400 user_not_found /user
GET /v1/files/watch?path=DIR&session=none | 404 session_not_found -
GET /v1/files/watch?path=DIR&session=%2F | 400 invalid_request /session
POST /v1/files/find | 400 invalid_request /path | {}
POST /v1/files/find | 400 invalid_request /path | {"path": ""}
POST /v1/files/find | 400 invalid_request /path | {"path": "a\u0000b"}
POST /v1/files/find | 400 invalid_request /path_base64 | {"path_base64": "*"}
POST /v1/files/find | 400 invalid_request /path_base64 | {"path": "a", "path_base64": "YQ=="}
POST /v1/files/find | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
POST /v1/files/find | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/files/find | 400 invalid_request /session | {"path": "DIR", "session": "/"}
POST /v1/files/search | 400 invalid_request /path | {"pattern": "x"}
POST /v1/files/search | 400 invalid_request /path | {"pattern": "x", "path": ""}
POST /v1/files/search | 400 invalid_request /path | {"pattern": "x", "path": "a\u0000b"}
POST /v1/files/search | 400 invalid_request /path_base64 | {"pattern": "x", "path_base64": "*"}
POST /v1/files/search | 400 invalid_request /path_base64 | {"pattern": "x", "path": "a", "path_base64": "YQ=="}
POST /v1/files/search | 400 user_not_found /user | {"pattern": "x", "path": "DIR", "user": "no-such-user"}
POST /v1/files/search | 404 session_not_found - | {"pattern": "x", "path": "DIR", "session": "none"}
POST /v1/files/search | 400 invalid_request /session | {"pattern": "x", "path": "DIR", "session": "/"}
POST /v1/files/changes | 400 invalid_request /path | {}
POST /v1/files/changes | 400 invalid_request /path | {"path": ""}
POST /v1/files/changes | 400 invalid_request /path | {"path": "a\u0000b"}
POST /v1/files/changes | 400 invalid_request /path_base64 | {"path_base64": "*"}
POST /v1/files/changes | 400 invalid_request /path_base64 | {"path": "a", "path_base64": "YQ=="}
POST /v1/files/changes | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
POST /v1/files/changes | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/files/changes | 400 invalid_request /session | {"path": "DIR", "session": "/"}
POST /v1/backups | 400 invalid_request /path | {}
POST /v1/backups | 400 invalid_request /path | {"path": ""}
POST /v1/backups | 400 invalid_request /path | {"path": "a\u0000b"}
POST /v1/backups | 400 invalid_request /path_base64 | {"path_base64": "*"}
POST /v1/backups | 400 invalid_request /path_base64 | {"path": "a", "path_base64": "YQ=="}
POST /v1/backups | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
POST /v1/backups | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/backups | 400 invalid_request /session | {"path": "DIR", "session": "/"}
POST /v1/git/status | 400 invalid_request /path | {"path": ""}
POST /v1/git/status | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/git/status | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
POST /v1/git/log | 400 invalid_request /path | {"path": ""}
POST /v1/git/log | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/git/log | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
POST /v1/git/diff | 400 invalid_request /path | {"path": ""}
POST /v1/git/diff | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/git/diff | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
POST /v1/git/branches | 400 invalid_request /path | {"path": ""}
POST /v1/git/branches | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/git/branches | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
POST /v1/git/add | 400 invalid_request /path | {"all": true, "path": ""}
POST /v1/git/add | 404 session_not_found - | {"all": true, "path": "DIR", "session": "none"}
POST /v1/git/add | 400 user_not_found /user | {"all": true, "path": "DIR", "user": "no-such-user"}
POST /v1/git/commit | 400 invalid_request /path | {"message": "m", "path": ""}
POST /v1/git/commit | 404 session_not_found - | {"message": "m", "path": "DIR", "session": "none"}
POST /v1/git/commit | 400 user_not_found /user | {"message": "m", "path": "DIR", "user": "no-such-user"}
POST /v1/git/checkout | 400 invalid_request /path | {"target": "t", "path": ""}
POST /v1/git/checkout | 404 session_not_found - | {"target": "t", "path": "DIR", "session": "none"}
POST /v1/git/checkout | 400 user_not_found /user | {"target": "t", "path": "DIR", "user": "no-such-user"}
POST /v1/git/pull | 400 invalid_request /path | {"path": ""}
POST /v1/git/pull | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/git/pull | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
POST /v1/git/push | 400 invalid_request /path | {"path": ""}
POST /v1/git/push | 404 session_not_found - | {"path": "DIR", "session": "none"}
POST /v1/git/push | 400 user_not_found /user | {"path": "DIR", "user": "no-such-user"}
"#;

#[tokio::test]
async fn requests_of_the_table_are_refused_and_change_nothing() {
    let desk = Desk::new();
    desk.put("file", "content").await;
    desk.put("dir/file", "content").await;
    symlink("loop", desk.dir.join("loop")).unwrap();
    symlink("/dev/zero", desk.dir.join("to-zero")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        desk.dir.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(desk.dir.join("socket")).unwrap();
    let before = tree_of(&desk.dir);
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        count += 1;
        let line = line.replace("DIR", desk.dir.to_str().unwrap());
        let mut parts = line.splitn(3, " |");
        let (method, path) = parts.next().unwrap().split_once(' ').unwrap();
        let expected: Vec<&str> = parts.next().unwrap().trim_start().splitn(3, ' ').collect();
        let body = parts.next().unwrap_or_default().trim().to_owned();
        let kind = if method == "POST" {
            "application/json"
        } else {
            "application/octet-stream"
        };
        let method: Method = method.parse().unwrap();
        let asked = ask(&desk.client, method, path, &[("content-type", kind)], body).await;
        let Ok(problem) = serde_json::from_slice::<Problem>(&asked.2) else {
            wrong.push(format!("{line}: {asked:?}"));
            continue;
        };
        let pointer = problem.pointer.as_deref().unwrap_or("-");
        let got = [&problem.status.to_string(), problem.code.as_str(), pointer];
        if got[..] != expected[..] {
            wrong.push(format!("{line}: got {got:?}: {}", problem.detail));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(tree_of(&desk.dir), before);
}

/// The memory of a process calls itself a regular file, too.
#[tokio::test]
async fn what_cannot_be_read_is_not_our_failure() {
    let desk = Desk::new();
    let request = crate::calls::process_of("sleep 1000");
    let pid = desk.client.create_process(&request).await.unwrap().pid;
    let route = format!("/v1/files/content?path=/proc/{pid}/mem");
    let (_, _, body) = ask(&desk.client, Method::GET, &route, &[], "").await;
    let problem: Problem = serde_json::from_slice(&body).unwrap();
    let got = (problem.status, problem.code.as_str());
    assert_eq!(got, (422, "not_a_regular_file"), "{}", problem.detail);
}

/// It calls itself a regular file, and whoever reads it waits for the kernel's next message.
#[tokio::test]
async fn the_kernels_log_is_not_waited_for() {
    let desk = Desk::new();
    let route = "/v1/files/content?path=/proc/kmsg";
    let (status, _, body) =
        crate::calls::in_time(ask(&desk.client, Method::GET, route, &[], "")).await;
    match status.as_u16() {
        200 => crate::calls::skipped("the kernel's log has something that nobody has read"),
        403 => crate::calls::skipped("this user may not open the kernel's log"),
        _ => {
            let problem: Problem = serde_json::from_slice(&body).unwrap();
            let got = (problem.status, problem.code.as_str());
            assert_eq!(got, (422, "not_a_regular_file"), "{}", problem.detail);
        }
    }
}

#[tokio::test]
async fn headers_that_a_write_cannot_take() {
    let desk = Desk::new();
    let route = format!("/v1/files/content?path={}", desk.path("new"));
    let part = [("content-range", "bytes 0-1/2")];
    let (status, _, body) = ask(&desk.client, Method::PUT, &route, &part, "xx").await;
    let problem: Problem = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (status.as_u16(), problem.code.as_str()),
        (400, "invalid_request")
    );
    assert!(!desk.dir.join("new").exists());
    // Lines have no pages.
    let lines = [("accept", "application/x-ndjson")];
    let route = format!("/v1/files?path={}&limit=3", desk.path(""));
    let (status, _, body) = ask(&desk.client, Method::GET, &route, &lines, "").await;
    let problem: Problem = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (status.as_u16(), problem.pointer.as_deref()),
        (400, Some("/limit"))
    );
}
