//! What a flood of connections leaves behind.

use sandshell_client::Client;
use sandshell_testkit::{Hub, rss_bytes};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::calls::in_time;

/// Half a head: the hub waits 30 s for the other half, as long as a machine may stand still.
const HALF: &str = "GET /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nx-slow: ";

/// Enough that what they take stands out from everything else a hub holds.
const CONNECTIONS: usize = 1500;

/// What may be left of it.
const LEFT: u64 = 4 * 1024 * 1024;

/// The hub's memory, after it has answered once more.
async fn resident(hub: &Hub, client: &Client) -> u64 {
    client.healthz().await.unwrap();
    rss_bytes(hub.pid())
}

/// Whether the hub has waited for long enough: it says so, or has closed the connection.
fn is_cut(stream: &TcpStream) -> bool {
    let nothing = std::io::ErrorKind::WouldBlock;
    !matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == nothing)
}

/// A thousand and more connections with half a head each took memory that was never given back.
#[tokio::test]
async fn memory_goes_back_after_a_flood() {
    let hub = Hub::start();
    let client = hub.client();
    let address = hub.url().trim_start_matches("http://").to_owned();
    resident(&hub, &client).await;
    let before = resident(&hub, &client).await;

    let mut flood = Vec::new();
    let mut flooded = 0;
    for _ in 0..3 {
        flood.clear();
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.write_all(HALF.as_bytes()).await.unwrap();
            flood.push(stream);
        }
        // Each is taken in and read before what is asked now is answered; at least most are.
        flooded = in_time(async {
            loop {
                let now = resident(&hub, &client).await;
                if now > before + 2 * LEFT || flood.iter().any(is_cut) {
                    return now;
                }
            }
        })
        .await;
        if flooded > before + 2 * LEFT {
            break;
        }
    }
    assert!(flooded > before + 2 * LEFT, "{before} {flooded}");

    drop(flood);
    in_time(async { while resident(&hub, &client).await > before + LEFT {} }).await;
}
