//! Lists that come in pages.

use std::future::Future;

use sandshell_client::types::{ErrorCode, List, Problem, Room};
use sandshell_client::{ClientError, Page};
use serde::Serialize;

/// Items of a page: as many as there may be.
const PAGE: u32 = 1000;

/// Most items of one answer, which is held whole.
pub const MOST: usize = 100_000;

/// All items of a list, page by page; a failure when there are too many for one answer.
pub async fn all<T, F>(mut page: impl FnMut(Page) -> F) -> Result<Vec<T>, ClientError>
where
    T: Serialize,
    F: Future<Output = Result<List<T>, ClientError>>,
{
    let mut all = Vec::new();
    let mut cursor = None;
    let mut room = Room::of_answer(MOST);
    loop {
        let limit = Some(PAGE);
        let found = page(Page { limit, cursor }).await?;
        for item in &found.items {
            room.take(item);
        }
        all.extend(found.items);
        cursor = found.next_cursor;
        if cursor.is_none() {
            return Ok(all);
        }
        if room.is_full() {
            let detail = "there are more than one answer holds; ask for a part of them";
            let problem = Problem::new(ErrorCode::InvalidRequest, detail);
            return Err(ClientError::Problem(Box::new(problem)));
        }
    }
}
