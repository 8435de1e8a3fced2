//! From names to addresses. A trait, so that tests can answer as a hostile server would.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// The addresses of a name, in the order to try them.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves names.
pub trait Resolve: Send + Sync + 'static {
    /// Looks a name up now. The name is in lower case and has no last dot.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// The machine's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            // The last dot keeps the machine's search domains out: `a.example.com` is never
            // `a.example.com.corp.internal`.
            let found = tokio::net::lookup_host((format!("{name}."), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
