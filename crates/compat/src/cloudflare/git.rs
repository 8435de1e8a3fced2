//! Clones.

use axum::extract::Extension;
use axum::response::Response;
use sandshell_client::Client;
use sandshell_client::types::GitCloneRequest;
use serde::Deserialize;
use serde_json::json;

use super::body::Json;
use super::error::{Code, Fault};
use super::success;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checkout {
    repo_url: String,
    branch: Option<String>,
    target_dir: Option<String>,
    depth: Option<u32>,
    timeout_ms: Option<u64>,
}

pub(super) async fn checkout(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Checkout>,
) -> Result<Response, Fault> {
    if asked.repo_url.trim().is_empty() {
        return Err(
            Fault::new(Code::InvalidGitUrl, "Repository URL cannot be empty")
                .context(json!({"repository": asked.repo_url})),
        );
    }
    let request = GitCloneRequest {
        url: asked.repo_url.clone(),
        branch: asked.branch,
        depth: asked.depth,
        timeout_ms: asked.timeout_ms,
        path: asked.target_dir,
        auth: None,
        session: None,
        user: None,
    };
    let cloned = sandbox
        .git_clone(&request)
        .await
        .map_err(|error| Fault::from(error).context(json!({"repository": asked.repo_url})))?;
    Ok(success(json!({
        "repoUrl": asked.repo_url,
        "branch": cloned.branch,
        "targetDir": cloned.path,
    })))
}
