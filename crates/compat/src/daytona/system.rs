//! Ports, directories, the environment and figures of a sandbox.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use sandshell_client::FileQuery;
use sandshell_client::types::{EnvPatch, PortRecord};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Given;
use super::error::Fault;
use super::reach::Sandbox;
use crate::pages::all;

type Shown = Result<Json<Value>, Fault>;

async fn listening(sandbox: &sandshell_client::Client) -> Result<Vec<PortRecord>, Fault> {
    Ok(all(|page| async move { sandbox.list_ports(&page).await }).await?)
}

pub(super) async fn ports(Sandbox(sandbox): Sandbox) -> Shown {
    let records = listening(&sandbox).await?;
    let ports: Vec<u16> = records.iter().map(|record| record.port).collect();
    Ok(Json(json!({"ports": ports})))
}

#[derive(Deserialize)]
pub(super) struct Of {
    port: u16,
}

pub(super) async fn in_use(Sandbox(sandbox): Sandbox, Path(of): Path<Of>) -> Shown {
    let records = listening(&sandbox).await?;
    let in_use = records.iter().any(|record| record.port == of.port);
    Ok(Json(json!({"isInUse": in_use})))
}

pub(super) async fn work_dir(Sandbox(sandbox): Sandbox) -> Shown {
    let here = sandbox.stat_file(&FileQuery::new("."), true).await?.path;
    let dir = match here.trim_end_matches("/.") {
        "" => "/",
        dir => dir,
    };
    Ok(Json(json!({"dir": dir})))
}

pub(super) async fn home_dir(Sandbox(sandbox): Sandbox) -> Shown {
    let environment = sandbox.environment().await?;
    let given = environment.env.get("HOME").cloned().flatten();
    let home = given.or_else(|| environment.base.get("HOME").cloned());
    Ok(Json(json!({"dir": home.unwrap_or_else(|| "/".to_owned())})))
}

pub(super) async fn version(Sandbox(sandbox): Sandbox) -> Shown {
    sandbox.environment().await?;
    Ok(Json(json!({"version": env!("CARGO_PKG_VERSION")})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Environment {
    set: Option<BTreeMap<String, String>>,
    unset: Option<Vec<String>>,
    unset_value_prefix: Option<String>,
}

pub(super) async fn env(Sandbox(sandbox): Sandbox, Given(asked): Given<Environment>) -> Shown {
    if asked.unset_value_prefix.is_some() {
        return Err(Fault::invalid("Variables are unset by their names"));
    }
    let unset = asked.unset.unwrap_or_default().into_iter();
    let set = asked.set.unwrap_or_default().into_iter();
    let patch = EnvPatch {
        env: unset
            .map(|name| (name, None))
            .chain(set.map(|(name, value)| (name, Some(value))))
            .collect(),
    };
    sandbox.patch_environment(&patch).await?;
    Ok(Json(json!({})))
}

/// Figures of this moment; how busy processors are takes two.
pub(super) async fn metrics(Sandbox(sandbox): Sandbox) -> Shown {
    let stats = sandbox.stats().await?;
    let mut figures = json!({
        "cpuCount": stats.cpu.cpus,
        "timestamp": stats.at,
        "timestampUnix": stats.at.as_second(),
    });
    let disk = stats.disk.as_ref();
    for (name, value) in [
        ("memUsed", stats.memory.used_bytes),
        ("memTotal", stats.memory.limit_bytes),
        ("diskTotal", disk.map(|disk| disk.total_bytes)),
        ("diskUsed", disk.map(|disk| disk.used_bytes)),
        ("diskFree", disk.map(|disk| disk.available_bytes)),
    ] {
        if let Some(value) = value {
            figures[name] = value.into();
        }
    }
    Ok(Json(figures))
}
