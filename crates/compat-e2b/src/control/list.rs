//! Lists of sandboxes, in pages: newest first unless asked otherwise.
//!
//! The token of the next page is the sandbox it comes after, so that pages hold while others come and go.

use std::cmp::Reverse;

use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Uri};
use jiff::Timestamp;
use sandshell_client::types::SandboxRecord;
use sandshell_client::{Client, SandboxFilter};
use sandshell_compat::all;
use serde_json::Value;

use super::{Outside, outside, record};
use crate::error::Fault;
use crate::query;

/// Sandboxes of a page of theirs.
const MOST: usize = 100;
/// What is asked for.
struct Asked {
    labels: Vec<(String, String)>,
    states: Vec<String>,
    template: Option<String>,
    started_after: Option<Timestamp>,
    oldest_first: bool,
    limit: usize,
    after: Option<(Timestamp, String)>,
}

impl Asked {
    fn of(text: &str) -> Result<Self, Fault> {
        let mut asked = Self {
            labels: Vec::new(),
            states: Vec::new(),
            template: None,
            started_after: None,
            oldest_first: false,
            limit: MOST,
            after: None,
        };
        for (name, value) in query::pairs(text) {
            let wrong = || Fault::invalid(format!("{name} cannot be {value:?}"));
            match name.as_str() {
                // A query within a query.
                "metadata" => asked.labels.extend(query::pairs(&value)),
                "state" => {
                    for state in value.split(',') {
                        if !matches!(state, "running" | "paused") {
                            return Err(wrong());
                        }
                        asked.states.push(state.to_owned());
                    }
                }
                "template" | "templateID" => asked.template = Some(value),
                "startedAfter" => {
                    asked.started_after = Some(value.parse().map_err(|_| wrong())?);
                }
                "order" => asked.oldest_first = value == "asc",
                "limit" => {
                    let limit: usize = value.parse().map_err(|_| wrong())?;
                    if !(1..=MOST).contains(&limit) {
                        return Err(wrong());
                    }
                    asked.limit = limit;
                }
                "nextToken" => {
                    let (at, id) = value.split_once('_').ok_or_else(wrong)?;
                    let at = at
                        .parse()
                        .ok()
                        .and_then(|at| Timestamp::from_microsecond(at).ok());
                    asked.after = Some((at.ok_or_else(wrong)?, id.to_owned()));
                }
                _ => {}
            }
        }
        Ok(asked)
    }

    fn wants(&self, one: &SandboxRecord) -> bool {
        let state = record::state(one);
        let place = (micros(one.created_at), one.id.as_str());
        let next = |(at, id): &(Timestamp, String)| {
            let before = (micros(*at), id.as_str());
            if self.oldest_first {
                place > before
            } else {
                place < before
            }
        };
        (self.states.is_empty() || self.states.iter().any(|wanted| wanted == state))
            && self
                .template
                .as_ref()
                .is_none_or(|name| record::template(one) == name)
            && self.started_after.is_none_or(|at| one.created_at > at)
            && self.after.as_ref().is_none_or(next)
    }
}

fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

async fn records(hub: &Client, labels: Vec<(String, String)>) -> Result<Vec<SandboxRecord>, Fault> {
    let labels = &labels;
    let records = all(|page| async move {
        let filter = SandboxFilter {
            labels: labels.clone(),
            state: None,
            page,
        };
        hub.sandboxes(&filter).await
    });
    records.await.map_err(outside)
}

pub(super) async fn page(Extension(asks): Extension<Outside>, uri: Uri) -> Result<Response, Fault> {
    let asked = Asked::of(uri.query().unwrap_or_default())?;
    let mut found = records(&asks.hub, asked.labels.clone()).await?;
    found.retain(|one| asked.wants(one));
    let place = |one: &SandboxRecord| (micros(one.created_at), one.id.clone());
    if asked.oldest_first {
        found.sort_by_key(place);
    } else {
        found.sort_by_key(|one| Reverse(place(one)));
    }
    let more = found.len() > asked.limit;
    found.truncate(asked.limit);
    let shown: Vec<Value> = found.iter().map(record::listed).collect();
    let mut response = axum::Json(shown).into_response();
    if let Some(last) = found.last().filter(|_| more) {
        let next = format!("{}_{}", micros(last.created_at), last.id);
        if let Ok(next) = HeaderValue::from_str(&next) {
            response.headers_mut().insert("x-next-token", next);
        }
    }
    Ok(response)
}

/// Those that run, all at once: what older clients ask for.
pub(super) async fn running(
    Extension(asks): Extension<Outside>,
    uri: Uri,
) -> Result<Response, Fault> {
    let asked = Asked::of(uri.query().unwrap_or_default())?;
    let mut found = records(&asks.hub, asked.labels.clone()).await?;
    found.retain(|one| asked.wants(one) && record::state(one) == "running");
    let shown: Vec<Value> = found.iter().map(record::listed).collect();
    Ok(axum::Json(shown).into_response())
}
