//! Which ports are seen, by whom, and when.

use http::{HeaderMap, Method};
use sandshell_client::Page;
use sandshell_client::types::{
    ErrorCode, HttpCheck, KillRequest, PortRecord, PortWaitRequest, PortsEvent, Problem,
};
use sandshell_testkit::{Agent, UnprivilegedUser};
use tokio::net::TcpSocket;

use super::{Server, own_port};
use crate::calls::{Shell, code_of, exec, in_time, process_of, start, wait_for_text};

async fn listed(client: &sandshell_client::Client) -> Vec<PortRecord> {
    in_time(client.list_ports(&Page::default()))
        .await
        .unwrap()
        .items
}

/// A port that is given to nobody who does not ask for it, and the socket that holds it. It does not listen: whoever
/// asks for this one gets it too, as both say that they share.
fn reserved() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

#[tokio::test]
async fn a_port_is_listed_with_its_owner() {
    let agent = Agent::start();
    let client = agent.client();
    assert_eq!(listed(&client).await, []);
    let server = Server::start(&client).await;
    let record = client.process(&server.id).await.unwrap();
    let ports = listed(&client).await;
    let [port] = &ports[..] else {
        panic!("{ports:?}")
    };
    assert_eq!(
        (
            port.port,
            &port.addresses[..],
            port.pid,
            port.process.as_ref()
        ),
        (
            server.port,
            &["127.0.0.1".to_owned()][..],
            record.pid,
            Some(&server.id)
        )
    );
    assert!(port.command.starts_with("python3 -c") && !port.exposed);
    let shell = Shell::new(&agent).await;
    let script = "import socket,time; s=socket.create_server((\\\"\\\",0)); print(s.getsockname()[1],flush=True); time.sleep(1000)";
    let out = shell
        .run(&format!(
            "exec 5< <(python3 -c \"{script}\"); read -u5 p; echo $p"
        ))
        .await;
    let in_session: u16 = out.stdout.trim().parse().unwrap();
    let ports = listed(&client).await;
    let port = ports.iter().find(|port| port.port == in_session).unwrap();
    assert_eq!(port.session.as_ref(), Some(&shell.id));
    assert_eq!(port.process, None);
    client
        .kill_process(&server.id, &KillRequest { grace_ms: Some(0) })
        .await
        .unwrap();
    assert!(
        listed(&client)
            .await
            .iter()
            .all(|port| port.port != server.port)
    );
}

#[tokio::test]
async fn an_agent_without_privileges_sees_its_own() {
    let Some(user) = UnprivilegedUser::get() else {
        return;
    };
    let agent = Agent::builder().run_as(user).start();
    let client = agent.client();
    let server = Server::start(&client).await;
    let ports = listed(&client).await;
    assert_eq!(
        ports.iter().map(|port| port.port).collect::<Vec<_>>(),
        [server.port]
    );
    assert_eq!(server.text(&client, "/hello").await, "hello");
}

/// However trees are kept, and also when the server was left behind by what started it.
#[tokio::test]
async fn a_server_left_behind_is_seen_in_every_fallback() {
    for without in ["", "cgroup", "cgroup,pid-namespace", "clone3,pid-namespace"] {
        let agent = match without {
            "" => Agent::start(),
            parts => Agent::builder().args(["--without", parts]).start(),
        };
        let client = agent.client();
        let script = "import socket,time; s=socket.create_server((\"127.0.0.1\",0)); print(\"at\",s.getsockname()[1],\"now\",flush=True); time.sleep(1000)";
        let request = process_of(&format!(
            "exec 5< <(setsid python3 -c '{script}'); read -u5 line; echo $line"
        ));
        let id = start(&client, &request).await;
        let line = wait_for_text(&client, &id, "now").await.line.unwrap();
        let port: u16 = line.split(' ').nth(1).unwrap().parse().unwrap();
        let ports = listed(&client).await;
        let [seen] = &ports[..] else {
            panic!("{without}: {ports:?}")
        };
        assert_eq!(
            (seen.port, seen.process.as_ref()),
            (port, Some(&id)),
            "{without}"
        );
        let wait = PortWaitRequest::default();
        assert!(
            in_time(client.wait_port(port, &wait)).await.unwrap().ready,
            "{without}"
        );
        client.delete_process(&id).await.unwrap();
        assert_eq!(listed(&client).await, [], "{without}");
    }
}

/// What listens on the machine but not in the sandbox is neither listed nor reached; nor is the agent,
/// by whatever address.
#[tokio::test]
async fn nothing_outside_is_reached() {
    let agent = Agent::start();
    let client = agent.client();
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let own = own_port(&agent).to_string();
    // The same number on another loopback address, in the sandbox.
    let _twin = Server::at(&client, &["127.0.0.2", &own]).await;
    let get = async |path: String| {
        let (status, _, body) = in_time(client.raw(Method::GET, &path, &HeaderMap::new(), ""))
            .await
            .unwrap();
        (
            status.as_u16(),
            serde_json::from_slice::<Problem>(&body).unwrap().code,
        )
    };
    assert_eq!(
        get(format!("/v1/ports/{port}/proxy/")).await,
        (404, ErrorCode::PortNotFound)
    );
    assert_eq!(
        get(format!("/v1/ports/{own}/proxy/version")).await,
        (403, ErrorCode::Forbidden)
    );
    let own: u16 = own.parse().unwrap();
    assert_eq!(code_of(client.expose_port(own).await), ErrorCode::Forbidden);
    assert_eq!(listed(&client).await, []);
    let wait = PortWaitRequest {
        timeout_ms: Some(100),
        ..Default::default()
    };
    assert!(
        in_time(client.wait_port(port, &wait))
            .await
            .unwrap()
            .timed_out
    );
    outside.set_nonblocking(true).unwrap();
    assert!(outside.accept().is_err(), "something connected to it");
    // A sandbox server on the same port but another address is reached, and only it.
    let number = port.to_string();
    let twin = Server::at(&client, &["127.0.0.3", &number]).await;
    assert_eq!(twin.text(&client, "/hello").await, "hello");
    assert!(outside.accept().is_err(), "something connected to it");
}

/// The holder of a port is remembered; when it is gone, so is the port, even if another program
/// outside has taken its number.
#[tokio::test]
async fn a_port_that_passes_to_a_stranger_is_not_reached() {
    let agent = Agent::start();
    let client = agent.client();
    let (stranger, port) = reserved();
    let server = Server::at(&client, &["127.0.0.1", &port.to_string()]).await;
    assert_eq!(server.text(&client, "/hello").await, "hello");
    client.delete_process(&server.id).await.unwrap();
    let stranger = stranger.listen(1).unwrap().into_std().unwrap();
    let (status, _, body) = server.get(&client, "/hello").await;
    assert_eq!(status, 404, "{body:?}");
    assert!(stranger.accept().is_err(), "something connected to it");
}

#[tokio::test]
async fn ipv6_and_all_addresses_are_reached() {
    let agent = Agent::start();
    let client = agent.client();
    for host in ["::1", "::", "0.0.0.0"] {
        let server = Server::at(&client, &[host]).await;
        assert_eq!(server.text(&client, "/hello").await, "hello", "{host}");
        let ports = listed(&client).await;
        let port = ports.iter().find(|port| port.port == server.port).unwrap();
        assert_eq!(port.addresses, [host]);
    }
}

#[tokio::test]
async fn a_wait_sees_a_port_get_ready() {
    let agent = Agent::start();
    let client = agent.client();
    let (_held, port) = reserved();
    let wait = PortWaitRequest {
        timeout_ms: Some(50),
        ..Default::default()
    };
    let reply = in_time(client.wait_port(port, &wait)).await.unwrap();
    assert_eq!(
        (reply.ready, reply.timed_out, reply.port),
        (false, true, None)
    );
    let other = agent.client();
    let waiting = tokio::spawn(async move {
        other
            .wait_port(port, &PortWaitRequest::default())
            .await
            .unwrap()
    });
    let number = port.to_string();
    let server = Server::at(&client, &["127.0.0.1", &number]).await;
    let reply = in_time(waiting).await.unwrap();
    assert!(reply.ready && !reply.timed_out);
    assert_eq!(reply.port.unwrap().process, Some(server.id));
    let http = |path: &str, status, timeout_ms| PortWaitRequest {
        http: Some(HttpCheck {
            path: Some(path.to_owned()),
            status,
        }),
        timeout_ms: Some(timeout_ms),
    };
    let ready = async |request: PortWaitRequest| {
        in_time(client.wait_port(port, &request))
            .await
            .unwrap()
            .ready
    };
    assert!(ready(http("/hello", Some(200), 600_000)).await);
    assert!(ready(http("/status/404", None, 600_000)).await);
    assert!(!ready(http("/status/503", None, 200)).await);
    assert!(ready(http("/status/503", Some(503), 600_000)).await);
}

#[tokio::test]
async fn ports_that_open_and_close_are_told() {
    let agent = Agent::start();
    let client = agent.client();
    let first = Server::start(&client).await;
    let mut events = in_time(client.port_events()).await.unwrap();
    let all = in_time(events.next()).await.unwrap().unwrap();
    assert_eq!(all.event, "ports");
    let all: PortsEvent = serde_json::from_str(&all.data).unwrap();
    assert_eq!(
        all.items.iter().map(|p| p.port).collect::<Vec<_>>(),
        [first.port]
    );
    let second = Server::start(&client).await;
    let mut next = async || {
        let event = in_time(events.next()).await.unwrap().unwrap();
        let record: PortRecord = serde_json::from_str(&event.data).unwrap();
        (event.event, record)
    };
    let (name, record) = next().await;
    assert_eq!((name.as_str(), record.port), ("opened", second.port));
    assert_eq!(record.process.as_ref(), Some(&second.id));
    client.delete_process(&first.id).await.unwrap();
    let (name, record) = next().await;
    assert_eq!((name.as_str(), record.port), ("closed", first.port));
    // The stream does not hold up the end of the agent.
    exec(&client, "true").await;
    assert!(agent.stop_gracefully().success());
}

/// Method, path, body; status, code, pointer.
type Case = (
    Method,
    &'static str,
    &'static str,
    u16,
    &'static str,
    Option<&'static str>,
);

#[tokio::test]
async fn bad_input_is_refused() {
    let agent = Agent::start();
    let client = agent.client();
    let cases: &[Case] = &[
        (
            Method::PUT,
            "/v1/ports/0",
            "",
            400,
            "invalid_request",
            Some("/port"),
        ),
        (Method::PUT, "/v1/ports/x", "", 400, "invalid_request", None),
        (
            Method::PUT,
            "/v1/ports/65536",
            "",
            400,
            "invalid_request",
            None,
        ),
        (
            Method::PUT,
            "/v1/ports/80",
            "{\"a\":1}",
            400,
            "invalid_request",
            Some("/a"),
        ),
        (
            Method::DELETE,
            "/v1/ports/0",
            "",
            400,
            "invalid_request",
            Some("/port"),
        ),
        (
            Method::GET,
            "/v1/ports?x=1",
            "",
            400,
            "invalid_request",
            Some("/x"),
        ),
        (
            Method::GET,
            "/v1/ports?limit=0",
            "",
            400,
            "invalid_request",
            Some("/limit"),
        ),
        (
            Method::POST,
            "/v1/ports/80/wait",
            "[]",
            400,
            "invalid_request",
            Some(""),
        ),
        (
            Method::POST,
            "/v1/ports/0/wait",
            "",
            400,
            "invalid_request",
            Some("/port"),
        ),
        (
            Method::POST,
            "/v1/ports/80/wait",
            "{\"timeout_ms\":-1}",
            400,
            "invalid_request",
            Some("/timeout_ms"),
        ),
        (
            Method::POST,
            "/v1/ports/80/wait",
            "{\"http\":{\"path\":\"x\"}}",
            400,
            "invalid_request",
            Some("/http/path"),
        ),
        (
            Method::POST,
            "/v1/ports/80/wait",
            "{\"http\":{\"status\":7}}",
            400,
            "invalid_request",
            Some("/http/status"),
        ),
        (
            Method::GET,
            "/v1/ports/0/proxy/",
            "",
            404,
            "not_found",
            None,
        ),
        (
            Method::GET,
            "/v1/ports/70000/proxy/",
            "",
            404,
            "not_found",
            None,
        ),
        (
            Method::POST,
            "/v1/ports",
            "",
            405,
            "method_not_allowed",
            None,
        ),
        (
            Method::POST,
            "/v1/ports/1/proxy/",
            "",
            404,
            "port_not_found",
            None,
        ),
    ];
    for (method, path, body, status, code, pointer) in cases {
        let (got, head, text) = in_time(client.raw(method.clone(), path, &HeaderMap::new(), *body))
            .await
            .unwrap();
        let problem: Problem = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            (
                got.as_u16(),
                problem.code.as_str(),
                problem.pointer.as_deref()
            ),
            (*status, *code, *pointer),
            "{method} {path} {body}: {}",
            problem.detail
        );
        assert_eq!(head["content-type"], "application/problem+json");
    }
}
