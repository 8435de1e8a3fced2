//! Lists that come in pages.

use std::future::Future;

use sandshell_client::types::{ErrorCode, List, Problem};
use sandshell_client::{ClientError, Page};

/// Items of a page: as many as there may be.
const PAGE: u32 = 1000;

/// Most items of one answer, which is held whole.
pub const MOST: usize = 100_000;

/// All items of a list, page by page; a failure when there are too many for one answer.
pub async fn all<T, F>(mut page: impl FnMut(Page) -> F) -> Result<Vec<T>, ClientError>
where
    F: Future<Output = Result<List<T>, ClientError>>,
{
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let limit = Some(PAGE);
        let found = page(Page { limit, cursor }).await?;
        all.extend(found.items);
        cursor = found.next_cursor;
        if cursor.is_none() {
            return Ok(all);
        }
        if all.len() >= MOST {
            let detail = format!("there are more than {MOST}; ask for a part of them");
            let problem = Problem::new(ErrorCode::InvalidRequest, detail);
            return Err(ClientError::Problem(Box::new(problem)));
        }
    }
}
