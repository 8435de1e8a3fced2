//! Lists in pages: `{items, next_cursor?}`.
//!
//! A cursor is the id of the last item seen. Lists are ordered by age, so what is added meanwhile
//! comes later and is not missed. A page may end before it has as many items as were asked for, when
//! they are large.

use sandshell_types::{ErrorCode, List, Room};
use serde::{Deserialize, Serialize};

use crate::problem::ApiError;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Query of a list route without filters.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Most items in the page: 1 to 1000, 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// Cuts one page out of handles, oldest first, and shows those in it.
pub fn page<H, T: Serialize>(
    handles: impl IntoIterator<Item = H>,
    query: &PageQuery,
    id: impl Fn(&H) -> &str,
    show: impl Fn(&H) -> T,
) -> Result<List<T>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            format!("a page has 1 to {MAX_LIMIT} items, not {limit}"),
        )
        .pointer("/limit"));
    }
    let mut handles = handles.into_iter();
    if let Some(cursor) = &query.cursor
        && !handles.any(|handle| id(&handle) == cursor)
    {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            format!("there is no item {cursor:?} any more to go on from"),
        )
        .pointer("/cursor")
        .hint("Start again without a cursor."));
    }
    let mut handles = handles.peekable();
    let mut items = Vec::new();
    let mut last = None;
    let mut room = Room::of_page(limit);
    while !room.is_full()
        && let Some(handle) = handles.next()
    {
        let item = show(&handle);
        room.take(&item);
        items.push(item);
        last = Some(handle);
    }
    let next_cursor = handles
        .peek()
        .and(last.as_ref())
        .map(|last| id(last).to_owned());
    Ok(List { items, next_cursor })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn get(limit: Option<usize>, cursor: Option<&str>) -> Result<List<String>, ApiError> {
        let query = PageQuery {
            limit,
            cursor: cursor.map(Into::into),
        };
        page(
            ["a", "b", "c", "d"],
            &query,
            |id| *id,
            |id| id.to_uppercase(),
        )
    }

    #[test]
    fn gives_every_item_once() {
        for limit in 1..6 {
            let mut seen = Vec::new();
            let mut cursor: Option<String> = None;
            loop {
                let list = get(Some(limit), cursor.as_deref()).unwrap();
                assert!(list.items.len() <= limit);
                seen.extend(list.items);
                cursor = list.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, ["A", "B", "C", "D"], "with pages of {limit}");
        }
    }

    #[test]
    fn has_no_cursor_on_the_last_page_even_when_it_is_full() {
        assert_eq!(get(Some(4), None).unwrap().next_cursor, None);
        assert_eq!(get(Some(2), Some("b")).unwrap().next_cursor, None);
        assert_eq!(
            get(Some(2), Some("a")).unwrap().next_cursor.as_deref(),
            Some("c")
        );
    }

    #[test]
    fn a_page_of_large_items_ends_early_and_goes_on() {
        let large = "\u{1}".repeat(sandshell_types::PAGE_BYTES / 6);
        let mut query = PageQuery::default();
        let mut sizes = Vec::new();
        loop {
            let list = page(["a", "b", "c"], &query, |id| *id, |_| large.clone()).unwrap();
            sizes.push(list.items.len());
            query.cursor = list.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [1, 1, 1]);
    }

    #[test]
    fn refuses_wrong_limits_and_cursors() {
        for (limit, cursor, pointer) in [
            (Some(0), None, "/limit"),
            (Some(1001), None, "/limit"),
            (None, Some("x"), "/cursor"),
        ] {
            let refused = get(limit, cursor).unwrap_err();
            assert_eq!(refused.problem().pointer.as_deref(), Some(pointer));
        }
        assert!(get(Some(1000), None).is_ok());
    }
}
