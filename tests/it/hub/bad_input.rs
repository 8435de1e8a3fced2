//! Whatever is wrong with a request is said, and nothing is half made.

use http::Method;
use sandshell_client::SandboxFilter;
use sandshell_testkit::Hub;

use super::{raw, sandbox};
use crate::calls::in_time;

/// Method, path, body, status, code, pointer.
const CASES: &str = r#"
POST /v1/sandboxes | {"id":"A"} | 400 invalid_request /id
POST /v1/sandboxes | {"id":"-a"} | 400 invalid_request /id
POST /v1/sandboxes | {"id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} | 400 invalid_request /id
POST /v1/sandboxes | {"id":5} | 400 invalid_request /id
POST /v1/sandboxes | {"image":""} | 400 invalid_request /image
POST /v1/sandboxes | {"name":"a"} | 400 invalid_request /name
POST /v1/sandboxes | [] | 400 invalid_request
POST /v1/sandboxes | nonsense | 400 invalid_request
POST /v1/sandboxes | {"labels":{"a b":"c"}} | 400 invalid_request /labels/a b
POST /v1/sandboxes | {"labels":{"a":5}} | 400 invalid_request /labels/a
POST /v1/sandboxes | {"env":{"":"c"}} | 400 invalid_request /env/
POST /v1/sandboxes | {"cwd":"tmp"} | 400 invalid_request /cwd
POST /v1/sandboxes | {"cwd":"/etc/passwd"} | 400 invalid_request /cwd
POST /v1/sandboxes | {"cwd":"/etc/passwd/below"} | 400 invalid_request /cwd
POST /v1/sandboxes | {"cwd":"/proc/none"} | 400 invalid_request /cwd
POST /v1/sandboxes | {"user":"nosuch"} | 400 invalid_request /user
POST /v1/sandboxes | {"user":"nosuch:0"} | 400 invalid_request /user
POST /v1/sandboxes | {"user":"root:nosuch"} | 400 invalid_request /user
POST /v1/sandboxes | {"user":"65535"} | 400 invalid_request /user
POST /v1/sandboxes | {"user":"70000"} | 400 invalid_request /user
POST /v1/sandboxes | {"user":"-1"} | 400 invalid_request /user
POST /v1/sandboxes | {"limits":{"inodes":0}} | 400 invalid_request /limits/inodes
POST /v1/sandboxes | {"limits":{"inodes":1}} | 400 invalid_request /limits/inodes
POST /v1/sandboxes | {"limits":{"inodes":127}} | 400 invalid_request /limits/inodes
POST /v1/sandboxes | {"limits":{"inodes":18446744073709551615}} | 400 invalid_request /limits/inodes
POST /v1/sandboxes | {"limits":{"open_files":1}} | 400 invalid_request /limits/open_files
POST /v1/sandboxes | {"limits":{"open_files":63}} | 400 invalid_request /limits/open_files
POST /v1/sandboxes | {"limits":{"open_files":2000000000}} | 400 invalid_request /limits/open_files
POST /v1/sandboxes | {"limits":{"memory_bytes":0}} | 400 invalid_request /limits/memory_bytes
POST /v1/sandboxes | {"limits":{"memory_bytes":-1}} | 400 invalid_request /limits/memory_bytes
POST /v1/sandboxes | {"limits":{"cpus":0}} | 400 invalid_request /limits/cpus
POST /v1/sandboxes | {"limits":{"disk_bytes":0}} | 400 invalid_request /limits/disk_bytes
POST /v1/sandboxes | {"limits":{"disk_bytes":4096}} | 400 invalid_request /limits/disk_bytes
POST /v1/sandboxes | {"limits":{"disk_bytes":1048575}} | 400 invalid_request /limits/disk_bytes
POST /v1/sandboxes | {"limits":{"disk":1}} | 400 invalid_request /limits/disk
POST /v1/sandboxes | {"network":{"mode":"half"}} | 400 invalid_request /network/mode
POST /v1/sandboxes | {"network":{}} | 400 invalid_request /network/mode
POST /v1/sandboxes | {"network":{"mode":"allow"}} | 400 invalid_request /network/allow
POST /v1/sandboxes | {"network":{"mode":"full","allow":["a"]}} | 400 invalid_request /network/allow
POST /v1/sandboxes | {"network":{"mode":"none","allow":["a.example"]}} | 400 invalid_request /network/allow
POST /v1/sandboxes | {"network":{"mode":"allow","allow":"a.example"}} | 400 invalid_request /network/allow
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","*"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","*:443"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","*.com"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","a.*.example"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","http://a.example"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","a.example/path"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","a.example:"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","a.example:0"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","a.example:65536"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","user@a.example"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example",""]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","a b.example"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example",".example"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","a..example"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","bücher.example"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","2130706433"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","0x7f.1"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","127.0.0.1"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","10.1.2.3"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","169.254.169.254"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","0.0.0.0"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","192.168.1.1:8080"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","localhost"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","LOCALHOST:8080"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","db.localhost"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","*.localhost"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","localhost.localdomain"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","[::1]"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","[::ffff:10.0.0.1]"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","[fd00:ec2::254]"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","[fe80::1]"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example","*.8.8.8.8"]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example",5]}} | 400 invalid_request /network/allow/1
POST /v1/sandboxes | {"secrets":[{"host":"a.example","header":"x-key","value":"v"}]} | 400 invalid_request /secrets
POST /v1/sandboxes | {"network":{"mode":"none"},"secrets":[{"host":"a.example","header":"x-key","value":"v"}]} | 400 invalid_request /secrets
POST /v1/sandboxes | {"network":{"mode":"full"},"secrets":[{"host":"a.example","header":"x-key","value":"v"}]} | 400 invalid_request /secrets
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"b.example","header":"x-key","value":"v"}]} | 400 invalid_request /secrets/0/host
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"*.a.example","header":"x-key","value":"v"}]} | 400 invalid_request /secrets/0/host
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"8.8.8.8","header":"x-key","value":"v"}]} | 400 invalid_request /secrets/0/host
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example:25","header":"x-key","value":"v"}]} | 400 invalid_request /secrets/0/host
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"","header":"x-key","value":"v"}]} | 400 invalid_request /secrets/0/host
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"x key","value":"v"}]} | 400 invalid_request /secrets/0/header
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"","value":"v"}]} | 400 invalid_request /secrets/0/header
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"Host","value":"v"}]} | 400 invalid_request /secrets/0/header
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"Transfer-Encoding","value":"v"}]} | 400 invalid_request /secrets/0/header
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"connection","value":"v"}]} | 400 invalid_request /secrets/0/header
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"x-key","value":""}]} | 400 invalid_request /secrets/0/value
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"x-key","value":"a\r\nb: c"}]} | 400 invalid_request /secrets/0/value
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"x-key","value":"a\u0000b"}]} | 400 invalid_request /secrets/0/value
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"x-key"}]} | 400 invalid_request /secrets/0/value
POST /v1/sandboxes | {"network":{"mode":"allow","allow":["a.example"]},"secrets":[{"host":"a.example","header":"x-key","value":"v"},{"host":"A.example:443","header":"X-Key","value":"w"}]} | 400 invalid_request /secrets/1
POST /v1/sandboxes | {"isolation":{"policy":"loose"}} | 400 invalid_request /isolation/policy
POST /v1/sandboxes | {"isolation":{"require":["magic"]}} | 400 invalid_request /isolation/require/0
POST /v1/sandboxes | {"idle_timeout_ms":0} | 400 invalid_request /idle_timeout_ms
POST /v1/sandboxes | {"idle_timeout_ms":-5} | 400 invalid_request /idle_timeout_ms
POST /v1/sandboxes | {"on_idle":"sleep"} | 400 invalid_request /on_idle
POST /v1/sandboxes | {"idle_timeout_ms":1,"on_idle":"dance"} | 400 invalid_request /on_idle
POST /v1/sandboxes | {"max_lifetime_ms":0} | 400 invalid_request /max_lifetime_ms
POST /v1/sandboxes?x=1 | {} | 400 invalid_request /x
GET /v1/sandboxes?limit=0 | | 400 invalid_request /limit
GET /v1/sandboxes?limit=x | | 400 invalid_request /limit
GET /v1/sandboxes?cursor=x | | 400 invalid_request /cursor
GET /v1/sandboxes?label=x | | 400 invalid_request /label
GET /v1/sandboxes?state=x | | 400 invalid_request /state
GET /v1/sandboxes?colour=x | | 400 invalid_request /colour
GET /v1/sandboxes/none | | 404 sandbox_not_found
GET /v1/sandboxes/A%20B | | 404 sandbox_not_found
GET /v1/sandboxes/none/exec | | 404 sandbox_not_found
POST /v1/sandboxes/none/pause | | 404 sandbox_not_found
PUT /v1/sandboxes | | 405 method_not_allowed
PATCH /v1/sandboxes/a | {"idle":1} | 400 invalid_request /idle
PATCH /v1/sandboxes/a | {"idle_timeout_ms":null} | 400 invalid_request /idle_timeout_ms
PATCH /v1/sandboxes/a | {"max_lifetime_ms":null} | 400 invalid_request /max_lifetime_ms
PATCH /v1/sandboxes/a | {"on_idle":null} | 400 invalid_request /on_idle
PATCH /v1/sandboxes/a | {"labels":null} | 400 invalid_request /labels
PATCH /v1/sandboxes/a | {"limits":null} | 400 invalid_request /limits
PATCH /v1/sandboxes/a | {"limits":{"pids":null}} | 400 invalid_request /limits/pids
PATCH /v1/sandboxes/a | {"labels":{"":"x"}} | 400 invalid_request /labels/
POST /v1/sandboxes/a/pause | {"x":1} | 400 invalid_request /x
POST /v1/sandboxes/a/pause?x=1 | | 400 invalid_request /x
POST /v1/sandboxes/a/tickets | {"path":"/v1/events"} | 404 not_found
POST /v1/images | {"name":"x","directory":"/proc/self"} | 400 invalid_request /directory
POST /v1/images | {"name":"x","directory":"/proc"} | 400 invalid_request /directory
POST /v1/images | {"name":"x","directory":"/sys"} | 400 invalid_request /directory
POST /v1/tokens | {} | 400 invalid_request /scopes
POST /v1/tokens | {"scopes":[]} | 400 invalid_request /scopes
POST /v1/tokens | {"scopes":["root"]} | 400 invalid_request /scopes/0
POST /v1/tokens | {"scopes":["sandbox:A"]} | 400 invalid_request /scopes/0
POST /v1/tokens | {"scopes":["admin"],"expires_at":"yesterday"} | 400 invalid_request /expires_at
POST /v1/tokens | {"scopes":["admin"],"expires_at":"2020-01-01T00:00:00Z"} | 400 invalid_request /expires_at
GET /v1/tokens/none | | 404 token_not_found
GET /v1/tokens?limit=0 | | 400 invalid_request /limit
GET /v1/audit?limit=0 | | 400 invalid_request /limit
GET /v1/audit?cursor=x | | 400 invalid_request /cursor
GET /v1/nothing | | 404 not_found
"#;

/// Where there is one user, no other can be asked for.
#[tokio::test]
async fn an_ordinary_users_hub_has_one_user() {
    let Some(user) = sandshell_testkit::UnprivilegedUser::get() else {
        return crate::calls::skipped("this is an ordinary user already");
    };
    let hub = Hub::of(user);
    let client = hub.client();
    for body in [
        r#"{"user":"root"}"#,
        r#"{"user":"33"}"#,
        r#"{"user":"nosuch"}"#,
    ] {
        let (status, problem) = raw(&client, Method::POST, "/v1/sandboxes", body).await;
        assert_eq!(
            (status, &problem["pointer"]),
            (400, &"/user".into()),
            "{body}: {problem}"
        );
    }
    let fine = r#"{"user":"sandbox","isolation":{"policy":"best_effort"}}"#;
    let (status, record) = raw(&client, Method::POST, "/v1/sandboxes", fine).await;
    assert_eq!(status, 201, "{record}");
}

/// A directory that is not there is made for whoever commands run as; one that they cannot enter is refused.
#[tokio::test]
async fn commands_start_where_they_were_asked_to() {
    let hub = Hub::start();
    let client = hub.client();
    let mut spec = super::spec_of("there");
    spec.cwd = Some("/srv/deep/er".to_owned());
    in_time(client.create_sandbox(&spec)).await.unwrap();
    let inside = client.sandbox(&super::id_of("there"));
    let told = crate::calls::exec(&inside, "pwd; touch file && ls").await;
    assert_eq!(told.stdout, "/srv/deep/er\nfile\n");
    if rustix::process::geteuid().is_root() {
        for (user, status) in [("sandbox", 400), ("root", 201)] {
            let body = format!(
                r#"{{"cwd":"/root","user":"{user}","isolation":{{"policy":"best_effort"}}}}"#
            );
            let (found, answer) = raw(&client, Method::POST, "/v1/sandboxes", &body).await;
            assert_eq!(found, status, "{answer}");
        }
    }
}

#[tokio::test]
async fn every_mistake_has_its_place_and_makes_nothing() {
    let hub = Hub::start();
    let client = hub.client();
    sandbox(&client, "a").await;
    let mut wrong = Vec::new();
    for case in CASES.lines().filter(|line| !line.is_empty()) {
        let parts: Vec<&str> = case.split(" | ").map(str::trim).collect();
        let (line, body, expected) = match parts[..] {
            [line, expected] => (line, "", expected),
            [line, body, expected] => (line, body, expected),
            _ => panic!("{case}"),
        };
        let line = line.trim_end_matches(" |").trim();
        let (method, path) = line.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let (status, problem) = raw(&client, method, path, body).await;
        let pointer = problem["pointer"]
            .as_str()
            .filter(|pointer| !pointer.is_empty());
        let pointer = pointer
            .map(|pointer| format!(" {pointer}"))
            .unwrap_or_default();
        let got = format!(
            "{status} {}{pointer}",
            problem["code"].as_str().unwrap_or("?")
        );
        let told = ["title", "detail", "request_id"]
            .iter()
            .all(|field| !problem[*field].as_str().unwrap_or_default().is_empty());
        if got != expected.trim_start_matches("| ") || !told {
            wrong.push(format!("{case}\n   got {got}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (variables, bytes) in [(1, 200_000), (100, 2000)] {
        let variable = |n: usize| (format!("V{n}"), "x".repeat(bytes));
        let env: std::collections::BTreeMap<_, _> = (0..variables).map(variable).collect();
        let body = serde_json::json!({ "env": env }).to_string();
        let (status, problem) = raw(&client, Method::POST, "/v1/sandboxes", &body).await;
        assert_eq!(
            (status, &problem["pointer"]),
            (400, &"/env".into()),
            "{problem}"
        );
        assert!(
            problem["detail"].as_str().unwrap().contains("131072"),
            "{problem}"
        );
    }
    let most = format!(r#"{{"limits":{{"open_files":{}}}}}"#, u32::MAX);
    let (_, problem) = raw(&client, Method::POST, "/v1/sandboxes", &most).await;
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let told = format!("{} is the most", hard.unwrap());
    assert!(
        problem["detail"].as_str().unwrap().contains(&told),
        "{problem}"
    );
    let all = SandboxFilter {
        state: Some("all".to_owned()),
        ..SandboxFilter::default()
    };
    let listed = in_time(client.sandboxes(&all)).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    let made = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    assert_eq!(made.count(), 1);
}
