//! The workspace as a tar archive, out and in.

use axum::body::Body;
use axum::extract::Query;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, header};
use sandshell_client::{ArchiveQuery, FileQuery};
use serde::Deserialize;
use serde_json::json;

use super::error::{Code, Fault};
use super::sandbox::Named;
use super::workspace::ROOT;

#[derive(Deserialize)]
pub(super) struct Persist {
    #[serde(default)]
    excludes: String,
}

pub(super) async fn persist(at: Named, Query(asked): Query<Persist>) -> Result<Response, Fault> {
    let named = asked.excludes.split(',').filter(|path| !path.is_empty());
    let exclude: Result<Vec<String>, Fault> = named.map(exclude).collect();
    let query = ArchiveQuery {
        directory: FileQuery::new(ROOT),
        exclude: exclude?,
        // The client refuses an archive with hard links.
        copy_links: true,
        ..ArchiveQuery::default()
    };
    let archive = at.reach().await?.client.get_archive(&query).await;
    let archive = archive.map_err(Fault::of(Code::ArchiveRead, "persist"))?;
    let headers = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((headers, Body::from_stream(archive)).into_response())
}

/// The glob of one path.
fn exclude(path: &str) -> Result<String, Fault> {
    if path.contains("..") {
        return Err(Fault::invalid("exclude paths must not contain \"..\""));
    }
    let mut glob = String::from("/");
    for letter in path.trim_start_matches("./").chars() {
        if r"*?[]{}\!".contains(letter) {
            glob.push('\\');
        }
        glob.push(letter);
    }
    if glob.trim_matches('/').is_empty() {
        return Err(Fault::invalid("exclude paths must name something"));
    }
    Ok(glob)
}

pub(super) async fn hydrate(at: Named, request: Request<Body>) -> Result<Response, Fault> {
    let mut body = request.into_body().into_data_stream();
    let first = loop {
        match body.next().await {
            Some(Ok(piece)) if piece.is_empty() => {}
            Some(Ok(piece)) => break piece,
            Some(Err(_)) => return Err(Fault::invalid("Could not read request body")),
            None => return Err(Fault::invalid("Empty tar payload")),
        }
    };
    let first = stream::once(async { Ok::<Bytes, std::io::Error>(first) });
    let archive = first.chain(body.map_err(std::io::Error::other));
    let client = at.reach().await?.client;
    let unpacked = client.upload_archive(&FileQuery::new(ROOT), archive).await;
    unpacked.map_err(Fault::of(Code::ArchiveWrite, "hydrate"))?;
    Ok(axum::Json(json!({"ok": true})).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_literally() {
        assert_eq!(exclude("./a/b").unwrap(), "/a/b");
        assert_eq!(exclude("data[1]*").unwrap(), r"/data\[1\]\*");
        assert!(exclude("../a").is_err());
        assert!(exclude("./").is_err());
    }
}
