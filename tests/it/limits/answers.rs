//! What a program in the sandbox makes long is given by its beginning, or in more pages.

use http::{HeaderMap, Method};
use sandshell_client::types::{FindRequest, PAGE_BYTES, ProcessRequest};
use sandshell_client::{Client, FileQuery, ListOptions, Page};
use sandshell_testkit::Agent;

use crate::calls::{exec, in_time, start, wait_for_text};

/// Listens on as many ports as its argument says, with a command line of its own making.
const LISTENER: &str = "import socket,sys,time
held = [socket.create_server(('127.0.0.1', 0)) for _ in range(int(sys.argv[1]))]
print('now', flush=True)
time.sleep(1000)";

/// Makes so many directories in each other, and so many files at the bottom, all names full of what
/// JSON writes in six bytes.
const DEEP: &str = "import os,sys
name = '\\x01' * 250
for _ in range(int(sys.argv[1])): os.mkdir(name); os.chdir(name)
for number in range(int(sys.argv[2])): open(str(number), 'w').close()";

async fn length(client: &Client, method: Method, path: &str, body: &str) -> usize {
    let json = [(
        http::header::CONTENT_TYPE,
        "application/json".parse().unwrap(),
    )];
    let headers: HeaderMap = json.into_iter().collect();
    let sent = client.raw(method, path, &headers, body.to_owned());
    let (status, _, body) = in_time(sent).await.unwrap();
    assert_eq!(status, 200, "{body:?}");
    body.len()
}

/// One of a hundred thousand bytes was in the list once for each port.
#[tokio::test]
async fn a_long_command_line_is_listed_by_its_beginning() {
    let agent = Agent::start();
    let client = agent.client();
    let long = "\u{1}".repeat(100_000);
    let argv = ["python3", "-c", LISTENER, "40", &long];
    let request = ProcessRequest {
        argv: Some(argv.map(str::to_owned).to_vec()),
        ..Default::default()
    };
    let id = start(&client, &request).await;
    wait_for_text(&client, &id, "now").await;
    let ports = in_time(client.list_ports(&Page::default())).await.unwrap();
    assert_eq!(ports.items.len(), 40);
    let line = &ports.items[0].command;
    assert!(line.starts_with("python3 -c import socket"), "{line}");
    assert!(line.len() <= 1024, "{}", line.len());
    let length = length(&client, Method::GET, "/v1/ports?limit=1000", "").await;
    assert!(length < 40 * 8 * 1024, "{length}");
}

/// A find or a page of a list was as long as the paths of a thousand entries.
#[tokio::test]
async fn long_paths_come_in_more_pages() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().display().to_string();
    let made = exec(
        &client,
        &format!("cd {dir} && python3 -c \"{DEEP}\" 60 400"),
    )
    .await;
    assert_eq!(made.exit_code, 0, "{}", made.stderr);
    // Of an entry, at most: its path and its name.
    let entry = 61 * 6 * 251 + 8 * 1024;

    let query = FileQuery::new(&dir);
    let options = ListOptions {
        recursive: true,
        ..Default::default()
    };
    let mut page = Page {
        limit: Some(1000),
        cursor: None,
    };
    let (mut pages, mut names) = (0, std::collections::BTreeSet::new());
    loop {
        let list = in_time(client.list_files(&query, options, &page)).await;
        let list = list.unwrap();
        let bytes = serde_json::to_vec(&list).unwrap().len();
        assert!(bytes < PAGE_BYTES + 2 * entry, "{bytes}");
        pages += 1;
        names.extend(list.items.into_iter().map(|item| item.path));
        page.cursor = list.next_cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    assert!(pages > 3, "{pages}");
    assert_eq!(names.len(), 60 + 400);

    let request = FindRequest {
        path: Some(dir.clone()),
        ..Default::default()
    };
    let found = in_time(client.find_files(&request)).await.unwrap();
    assert!(found.truncated && !found.items.is_empty());
    let body = serde_json::to_string(&request).unwrap();
    let length = length(&client, Method::POST, "/v1/files/find", &body).await;
    assert!(length < (32 << 20) + 2 * entry, "{length}");
}
