//! Tables of routes.
//!
//! A table names handlers that have `#[utoipa::path]`, those of one path in one line. The router is made
//! from it, and by the tests the `OpenAPI` document, which is a file in `openapi` that the binary holds:
//! the types' descriptions and what makes a document of them take megabytes, and 40 ms at each start.

use axum::Router;
use axum::routing::{MethodFilter, MethodRouter};
use utoipa::openapi::HttpMethod;

/// A path and what answers there.
#[derive(Debug)]
pub struct Row<S> {
    /// As in the document, such as `/v1/processes/{id}`.
    pub path: String,
    /// What answers.
    pub methods: MethodRouter<S>,
}

/// The router of a table.
pub fn router<S: Clone + Send + Sync + 'static>(rows: Vec<Row<S>>) -> Router<S> {
    rows.into_iter().fold(Router::new(), |router, row| {
        router.route(&row.path, row.methods)
    })
}

/// The methods of a handler, for the router.
#[doc(hidden)]
pub fn filter(methods: &[HttpMethod]) -> MethodFilter {
    let filters = methods.iter().map(|method| match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
    });
    filters
        .reduce(MethodFilter::or)
        .unwrap_or(MethodFilter::TRACE)
}

/// Declares `table`, the rows of a router, and for tests `documented`, what the document says of them.
#[macro_export]
macro_rules! table {
    ($(#[$about:meta])* $visible:vis $state:ty { $($($module:ident :: $handler:ident),+;)+ }) => {
        $(#[$about])*
        #[allow(unused_qualifications, reason = "a handler of this module is named with self::")]
        $visible fn table() -> Vec<$crate::parts::Row<$state>> {
            vec![$($crate::row!($($module::$handler),+)),+]
        }

        #[cfg(test)]
        #[allow(unused_qualifications, reason = "the same")]
        $visible fn documented() -> Vec<utoipa_axum::router::UtoipaMethodRouter<$state>> {
            vec![$(utoipa_axum::routes!($($module::$handler),+)),+]
        }
    };
}

/// A row of a table.
#[doc(hidden)]
#[macro_export]
macro_rules! row {
    ($first:ident :: $named:ident $(, $module:ident :: $handler:ident)*) => {
        $crate::pastey::paste! {{
            use utoipa::Path as _;
            let methods = axum::routing::MethodRouter::new()
                .on($crate::parts::filter(&$first::[<__path_ $named>]::methods()), $first::$named)
                $(.on($crate::parts::filter(&$module::[<__path_ $handler>]::methods()), $module::$handler))*;
            $crate::parts::Row { path: $first::[<__path_ $named>]::path(), methods }
        }}
    };
}
