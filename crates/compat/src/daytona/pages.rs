//! Lists that come in pages.

use std::future::Future;

use sandshell_client::types::List;
use sandshell_client::{ClientError, Page};

use super::error::Fault;

/// Most items of one answer.
const MOST: usize = 100_000;

/// All items of a list, page by page.
pub(super) async fn all<T, F>(mut page: impl FnMut(Page) -> F) -> Result<Vec<T>, Fault>
where
    F: Future<Output = Result<List<T>, ClientError>>,
{
    let mut all = Vec::new();
    let mut next = Page::default();
    loop {
        let found = page(next).await?;
        all.extend(found.items);
        let Some(cursor) = found.next_cursor else {
            return Ok(all);
        };
        if all.len() >= MOST {
            return Err(Fault::invalid(format!("There are more than {MOST}")));
        }
        next = Page {
            cursor: Some(cursor),
            ..Page::default()
        };
    }
}
