//! Ports that are reached from outside.
//!
//! Where the hub has a domain for previews, the address is a name below it; else it is the path of the
//! port at the hub, with a token of its own.

use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, Uri};
use sandshell_client::types::{ErrorCode, PreviewRequest};
use serde::Deserialize;
use serde_json::json;

use super::body::OptionalJson;
use super::error::{Code, Fault};
use super::sandbox::{Named, Sandbox};

/// How long a name opens its port, unless it is closed: as long as names do.
const LASTS_MS: u64 = 365 * 24 * 3600 * 1000;

#[derive(Default, Deserialize)]
pub(super) struct Open {
    name: Option<String>,
}

pub(super) async fn open(
    at: Named,
    Path((_, port)): Path<(String, String)>,
    OptionalJson(asked): OptionalJson<Open>,
) -> Result<Response, Fault> {
    let port = number(&port)?;
    if asked.name.is_some() {
        return Err(Fault::failed(
            Code::Tunnel,
            "tunnel failed: names cannot be chosen here; leave `name` out",
        ));
    }
    let Sandbox { hub, id, client } = at.reach().await?;
    let request = PreviewRequest {
        ttl_ms: Some(LASTS_MS),
    };
    let url = match hub.create_preview(&id, port, &request).await {
        Ok(preview) => Ok(preview.url),
        // There is no domain for it.
        Err(error) if error.code() == Some(ErrorCode::Forbidden) => {
            client.expose_port(port).await.map(|exposed| exposed.url)
        }
        Err(error) => Err(error),
    };
    let url = url.map_err(Fault::of(Code::Tunnel, "tunnel"))?;
    let hostname = Uri::try_from(url.as_str()).ok();
    let hostname = hostname.as_ref().and_then(Uri::host).unwrap_or_default();
    let tunnel = json!({
        "id": format!("{id}-{port}"),
        "port": port,
        "url": url,
        "hostname": hostname,
        "createdAt": jiff::Timestamp::now().to_string(),
    });
    Ok(axum::Json(tunnel).into_response())
}

/// One that is not open is closed already.
pub(super) async fn close(
    at: Named,
    Path((_, port)): Path<(String, String)>,
) -> Result<StatusCode, Fault> {
    let port = number(&port)?;
    let Sandbox { hub, id, client } = at.reach().await?;
    let failed = Fault::of(Code::Tunnel, "tunnel");
    client.unexpose_port(port).await.map_err(&failed)?;
    hub.revoke_previews(&id, port).await.map_err(&failed)?;
    Ok(StatusCode::NO_CONTENT)
}

fn number(text: &str) -> Result<u16, Fault> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| Fault::invalid("Invalid port"))
}
