//! The warm pool of the hub: `serve --warm COUNT`. It is the operator's, and keeps itself full.

use axum::extract::Extension;
use axum::response::{IntoResponse as _, Response};
use sandshell_client::Client;
use serde_json::json;

use super::error::{Code, Fault};

/// Figures of the hub by their names.
struct Figures(String);

impl Figures {
    /// Only an admin's token gets them, and only such a one has to do with the pool.
    async fn of(hub: &Client) -> Result<Self, Fault> {
        let text = hub.metrics().await;
        Ok(Self(text.map_err(Fault::of(Code::Pool, "pool"))?))
    }

    /// The sum of all samples whose name, with its labels, begins so.
    fn sum(&self, name: &str) -> u64 {
        let samples = self.0.lines().filter(|line| line.starts_with(name));
        let values = samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    }

    fn warm(&self) -> u64 {
        self.sum("sandshell_sandboxes_warm ")
    }
}

pub(super) async fn stats(Extension(hub): Extension<Client>) -> Result<Response, Fault> {
    let figures = Figures::of(&hub).await?;
    let live = ["creating", "ready", "paused", "asleep", "destroying"];
    let assigned: u64 = live
        .iter()
        .map(|state| figures.sum(&format!("sandshell_sandboxes{{state=\"{state}\"}}")))
        .sum();
    let stats = json!({
        "warm": figures.warm(),
        "assigned": assigned,
        "total": figures.warm() + assigned,
        // It is filled when one is taken, not from time to time.
        "config": {
            "warmTarget": figures.sum("sandshell_sandboxes_warm_target "),
            "refreshInterval": 0,
        },
        "maxInstances": figures.sum("sandshell_sandboxes_most "),
    });
    Ok(axum::Json(stats).into_response())
}

/// There is nothing left to do: the pool is filled since the hub began.
pub(super) async fn prime(Extension(hub): Extension<Client>) -> Result<Response, Fault> {
    Figures::of(&hub).await?;
    Ok(axum::Json(json!({"ok": true})).into_response())
}

pub(super) async fn shut_down(Extension(hub): Extension<Client>) -> Result<Response, Fault> {
    if Figures::of(&hub)
        .await?
        .sum("sandshell_sandboxes_warm_target ")
        > 0
    {
        return Err(Fault::failed(
            Code::Pool,
            "the warm pool keeps itself full while the hub runs; `serve --warm 0` has none",
        ));
    }
    Ok(axum::Json(json!({"ok": true})).into_response())
}
