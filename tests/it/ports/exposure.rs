//! A token for one port.

use http::{HeaderMap, Method};
use sandshell_client::{Client, Page};
use sandshell_testkit::Agent;

use super::{Server, headers};
use crate::calls::in_time;

async fn status(client: &Client, path: &str, given: &HeaderMap) -> (u16, HeaderMap, String) {
    let (status, head, body) = in_time(client.raw(Method::GET, path, given, ""))
        .await
        .unwrap();
    (
        status.as_u16(),
        head,
        String::from_utf8_lossy(&body).into_owned(),
    )
}

#[tokio::test]
async fn a_port_token_opens_one_port_and_nothing_else() {
    let agent = Agent::start();
    let client = agent.client();
    let stranger = Client::new(agent.url(), None).unwrap();
    let none = HeaderMap::new();
    let (server, other) = (Server::start(&client).await, Server::start(&client).await);
    let path = server.path("/echo");
    assert_eq!(status(&stranger, &path, &none).await.0, 401);
    let exposed = in_time(client.expose_port(server.port)).await.unwrap();
    let other_token = in_time(client.expose_port(other.port)).await.unwrap().token;
    assert_eq!(status(&stranger, &path, &none).await.0, 401);
    let token = exposed.token.as_str();
    assert_eq!(
        exposed.url,
        format!("{}{}?port_token={token}", agent.url(), server.path("/"))
    );
    // As a browser does it: the URL first, then the cookie.
    let (code, head, body) =
        status(&stranger, &format!("{path}?a=b&port_token={token}"), &none).await;
    assert_eq!(code, 200);
    assert!(body.starts_with("GET /echo?a=b HTTP/1.1\r\n"), "{body}");
    assert!(!body.contains(token), "{body}");
    let cookies: Vec<_> = head.get_all("set-cookie").iter().collect();
    let ours = cookies.last().unwrap().to_str().unwrap();
    let scope = format!("; Path={}; HttpOnly; SameSite=Lax", server.path("/"));
    assert!(ours.ends_with(&scope), "{ours}");
    let cookie = ours.split(';').next().unwrap();
    for given in [
        headers(&[("cookie", &format!("x=y; {cookie}"))]),
        headers(&[("x-port-token", token)]),
        headers(&[("x-port-token", token), ("authorization", "Basic dTpw")]),
    ] {
        let (code, head, body) = status(&stranger, &path, &given).await;
        assert_eq!(code, 200, "{given:?}");
        assert!(!body.contains(token), "{body}");
        // What is not ours to keep is passed on.
        assert_eq!(
            body.contains("Basic dTpw"),
            given.contains_key("authorization")
        );
        assert_eq!(head.get_all("set-cookie").iter().count(), 2);
    }
    let given = headers(&[("x-port-token", token), ("cookie", cookie)]);
    for elsewhere in [
        other.path("/hello"),
        format!("/v1/ports/{}", server.port),
        format!("/v1/ports?port_token={token}"),
        format!("/v1/processes?port_token={token}"),
        format!("/v1/ports/{}/proxyx?port_token={token}", server.port),
    ] {
        assert_eq!(
            status(&stranger, &elsewhere, &given).await.0,
            401,
            "{elsewhere}"
        );
    }
    let wrong = headers(&[("x-port-token", other_token.as_str())]);
    assert_eq!(status(&stranger, &path, &wrong).await.0, 401);
    let again = in_time(client.expose_port(server.port)).await.unwrap();
    assert_eq!(again.token, token);
    let ports = client.list_ports(&Page::default()).await.unwrap().items;
    assert!(ports.iter().all(|port| port.exposed));
    assert!(
        in_time(client.unexpose_port(server.port))
            .await
            .unwrap()
            .was_exposed
    );
    assert!(
        !in_time(client.unexpose_port(server.port))
            .await
            .unwrap()
            .was_exposed
    );
    assert_eq!(status(&stranger, &path, &given).await.0, 401);
    let fresh = in_time(client.expose_port(server.port)).await.unwrap();
    assert_ne!(fresh.token, token);
    assert!(!agent.log().contains(token));
}
