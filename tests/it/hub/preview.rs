//! Ports of a sandbox as seen through the hub: by path, by port token, and by a name.

use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Method};
use sandshell_client::Client;
use sandshell_client::types::PreviewRequest;
use sandshell_testkit::Hub;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::{id_of, raw, sandbox};
use crate::calls::in_time;
use crate::ports::Server;

async fn ask(client: &Client, path: &str, head: &[(&str, &str)]) -> (u16, HeaderMap, String) {
    let headers: HeaderMap = head
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    let sent = client.raw(Method::GET, path, &headers, "");
    let (status, head, body) = in_time(sent).await.unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    (status.as_u16(), head, body)
}

#[tokio::test]
async fn a_port_is_reached_by_its_path() {
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "web").await;
    let server = Server::start(&inside).await;
    let echoed = server.text(&inside, "/echo?a=b").await;
    assert!(echoed.starts_with("GET /echo?a=b HTTP/1.1\r\n"), "{echoed}");
    assert!(!echoed.contains(hub.token()), "{echoed}");
    let prefix = format!("/v1/sandboxes/web/ports/{}/proxy", server.port);
    let lower = echoed.to_lowercase();
    assert!(
        lower.contains(&format!("x-forwarded-prefix: {prefix}\r\n")),
        "{echoed}"
    );
    assert!(lower.contains("x-forwarded-for: 127.0.0.1\r\n"), "{echoed}");
    assert!(!lower.contains("x-sandshell"), "{echoed}");
    let (status, head, _) = ask(&client, &prefix, &[]).await;
    assert_eq!(
        (status, &head["location"]),
        (308, &format!("{prefix}/").parse().unwrap())
    );
    // The port's own token opens it to others, and nothing else.
    let stranger = hub.client_with(None);
    let path = format!("{prefix}/echo");
    assert_eq!(ask(&stranger, &path, &[]).await.0, 401);
    let exposed = in_time(inside.expose_port(server.port)).await.unwrap();
    assert_eq!(exposed.path, format!("{prefix}/"));
    assert_eq!(
        exposed.url,
        format!("{}{prefix}/?port_token={}", hub.url(), exposed.token)
    );
    let with_token = format!("{path}?port_token={}", exposed.token);
    let (status, head, body) = ask(&stranger, &with_token, &[]).await;
    assert_eq!(status, 200);
    assert!(!body.contains(&exposed.token), "{body}");
    let cookies: Vec<_> = head.get_all("set-cookie").iter().collect();
    let cookie = cookies.last().unwrap().to_str().unwrap();
    assert!(cookie.contains(&format!("; Path={prefix}/;")), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    // The server's own credentials pass where they are not ours.
    let (status, _, body) = ask(
        &stranger,
        &path,
        &[("cookie", cookie), ("authorization", "Basic dTpw")],
    )
    .await;
    assert_eq!(status, 200);
    assert!(body.contains("Basic dTpw"), "{body}");
    for wrong in [
        format!("{path}?port_token=pt_0"),
        format!("/v1/sandboxes/web/ports?port_token={}", exposed.token),
        format!(
            "/v1/sandboxes/none/ports/{}/proxy/?port_token={}",
            server.port, exposed.token
        ),
    ] {
        assert_eq!(ask(&stranger, &wrong, &[]).await.0, 401, "{wrong}");
    }
}

#[tokio::test]
async fn a_port_has_a_name_of_its_own() {
    let mut hub = Hub::with(&["--preview-domain", "localhost:4020"]);
    let client = hub.client();
    let inside = sandbox(&client, "my-web").await;
    let server = Server::start(&inside).await;
    let (id, request) = (id_of("my-web"), PreviewRequest::default());
    let made = client.create_preview(&id, server.port, &request);
    let made = in_time(made).await.unwrap();
    let host = made
        .url
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix('/')
        .unwrap()
        .to_owned();
    assert!(
        host.starts_with(&format!("{}-my-web-", server.port)),
        "{host}"
    );
    let label = host.split('.').next().unwrap();
    assert!(label.len() <= 63);
    let stranger = hub.client_with(None);
    let (status, _, body) = ask(&stranger, "/echo?a=b", &[("host", &host)]).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.starts_with("GET /echo?a=b HTTP/1.1\r\n"), "{body}");
    assert!(
        body.to_lowercase()
            .contains(&format!("x-forwarded-host: {host}\r\n")),
        "{body}"
    );
    // The hub's token is not the sandbox's to see; credentials of the server's own are.
    let token = format!("Bearer {}", hub.token());
    for (given, passes) in [(token.as_str(), false), ("Bearer other", true)] {
        let head = [("host", host.as_str()), ("authorization", given)];
        let (status, _, body) = ask(&stranger, "/echo", &head).await;
        assert_eq!((status, body.contains(given)), (200, passes), "{body}");
    }
    // At the root of its own origin: even the hub's paths are the server's.
    let (_, _, body) = ask(&stranger, "/echo/../v1/sandboxes", &[("host", &host)]).await;
    assert!(!body.contains("my-web\",\"state"), "{body}");
    // What is forged in any place opens nothing, and tells nothing.
    let (port, rest) = label.split_once('-').unwrap();
    let (name, token) = rest.rsplit_once('-').unwrap();
    let flipped = |at: usize| {
        let mut token = token.as_bytes().to_vec();
        token[at] = if token[at] == b'a' { b'b' } else { b'a' };
        String::from_utf8(token).unwrap()
    };
    let mut wrong: Vec<String> = (0..token.len())
        .map(|at| format!("{port}-{name}-{}", flipped(at)))
        .collect();
    wrong.push(format!("1{port}-{name}-{token}"));
    wrong.push(format!("{port}-other-{token}"));
    wrong.push(format!("{port}-{name}-"));
    wrong.push(format!("{port}-{name}-{token}a"));
    for label in wrong {
        let (status, _, body) = ask(
            &stranger,
            "/echo",
            &[("host", &format!("{label}.localhost"))],
        )
        .await;
        let problem: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        assert_eq!(
            (status, &problem["code"]),
            (404, &"not_found".into()),
            "{label}: {body}"
        );
    }
    // WebSockets pass.
    let address = hub.url().strip_prefix("http://").unwrap().to_owned();
    let stream = TcpStream::connect(&address).await.unwrap();
    let request = format!("ws://{host}/ws").into_client_request().unwrap();
    let connected = in_time(tokio_tungstenite::client_async(request, stream)).await;
    let (mut socket, _) = connected.unwrap();
    in_time(socket.send(Message::text("ping"))).await.unwrap();
    let answer = in_time(socket.next()).await.unwrap().unwrap();
    assert!(answer.to_string().contains("ping"), "{answer:?}");
    drop(socket);
    // Names outlive the hub, and go when they are revoked.
    hub.kill_hard();
    hub.restart();
    assert_eq!(ask(&stranger, "/echo", &[("host", &host)]).await.0, 200);
    let revoked = in_time(client.revoke_previews(&id_of("my-web"), server.port)).await;
    assert!(revoked.unwrap().was_exposed);
    assert_eq!(ask(&stranger, "/echo", &[("host", &host)]).await.0, 404);
}

#[tokio::test]
async fn names_need_a_domain_and_a_time() {
    let hub = Hub::start();
    let client = hub.client();
    sandbox(&client, "a").await;
    let path = "/v1/sandboxes/a/ports/80/preview";
    let (status, problem) = raw(&client, Method::POST, path, "{}").await;
    assert_eq!(status, 403);
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("--preview-domain")
    );
    let hub = Hub::with(&["--preview-domain", "localhost"]);
    let client = hub.client();
    sandbox(&client, "a").await;
    for (path, body, pointer) in [
        (path, r#"{"ttl_ms":0}"#, "/ttl_ms"),
        (path, r#"{"ttl_ms":99999999999999}"#, "/ttl_ms"),
        ("/v1/sandboxes/a/ports/0/preview", "{}", "/port"),
    ] {
        let (status, problem) = raw(&client, Method::POST, path, body).await;
        assert_eq!(
            (status, &problem["pointer"]),
            (400, &pointer.into()),
            "{path} {body}"
        );
    }
    let (status, _) = raw(
        &client,
        Method::POST,
        "/v1/sandboxes/a/ports/99999/preview",
        "",
    )
    .await;
    assert_eq!(status, 400);
    let made = raw(&client, Method::POST, path, "").await;
    assert_eq!(made.0, 201);
}
