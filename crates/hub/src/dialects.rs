//! The APIs of other services, for the clients people already have.
//!
//! Owns where each is and whose rights it gets; what it says is `sandshell-compat`'s. The routes are not
//! in the `OpenAPI` document: what goes through them is another's.
//!
//! | where | who asks |
//! |---|---|
//! | `/cloudflare/{sandbox}/{token}/…` | that client sends no credential of ours: a token for this one sandbox stands in the path. It never appears in a log, and a wider one is refused: it would be seen by whatever sees addresses |
//! | `/bridge/…`, `/daytona/…` | `Authorization: Bearer TOKEN` |
//! | `/e2b/…` | `X-API-Key: TOKEN`, a prefix `e2b_` is taken off; inside of a sandbox a token for it alone: see `e2b` |
//!
//! What counts against the rate of a token are the calls of our API that a dialect makes for it.

mod alone;
mod e2b;

use std::str::FromStr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use sandshell_agent::parts::{ApiError, Caller, REQUEST_ID, Slot};
use sandshell_compat::{Bridge, Cloudflare, Daytona, Lease};
use sandshell_compat_e2b::{E2b, Reach};
use sandshell_types::{ErrorCode, Problem, SandboxId};

pub use alone::front;

use crate::edge::Edge;
use crate::inside;
use crate::preview::PreviewDomain;
use crate::route::Forwarded;
use crate::tokens::Token;

/// A service whose clients can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The container API of Cloudflare's Sandbox SDK.
    Cloudflare,
    /// Cloudflare's bridge, which the `OpenAI` Agents SDK calls.
    Bridge,
    /// E2B.
    E2b,
    /// Daytona.
    Daytona,
}

impl Dialect {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Cloudflare, Self::Bridge, Self::E2b, Self::Daytona];

    fn name(self) -> &'static str {
        match self {
            Self::Cloudflare => "cloudflare",
            Self::Bridge => "bridge",
            Self::E2b => "e2b",
            Self::Daytona => "daytona",
        }
    }

    /// A refusal, in its form.
    fn refuse(self, problem: Problem, asked: &e2b::Asked) -> Response {
        match self {
            Self::Cloudflare => Cloudflare::refuse(problem),
            Self::Bridge => Bridge::refuse(problem),
            Self::E2b => asked.refuse(problem),
            Self::Daytona => Daytona::refuse(problem),
        }
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|one| one.name() == text);
        named.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no such dialect; there are {names}")
        })
    }
}

/// What is spoken.
#[derive(Debug)]
pub(crate) struct Dialects {
    on: Vec<Dialect>,
    cloudflare: Cloudflare,
    bridge: Bridge,
    e2b: E2b,
    e2b_domain: Option<PreviewDomain>,
    daytona: Daytona,
}

impl Dialects {
    pub(crate) fn new(
        on: &[Dialect],
        e2b: sandshell_compat_e2b::Settings,
        e2b_domain: Option<PreviewDomain>,
    ) -> Self {
        Self {
            on: on.to_vec(),
            cloudflare: Cloudflare::new(),
            bridge: Bridge::new(),
            e2b: E2b::new(e2b),
            e2b_domain,
            daytona: Daytona::new(),
        }
    }
}

/// With Cloudflare's: what stands in the path.
struct Door {
    sandbox: String,
    token: String,
}

/// A request of a dialect, by its path.
pub(crate) struct Asked {
    dialect: Dialect,
    door: Option<Door>,
    /// Whether the name it is for told so.
    named: bool,
    rest: Uri,
}

impl Asked {
    /// One of E2B's that is told by the name it is for.
    pub(crate) fn by_name(request: &mut Request<Body>, dialects: &Dialects) -> Option<Self> {
        let on = dialects.on.contains(&Dialect::E2b);
        let domain = dialects.e2b_domain.as_ref().filter(|_| on)?;
        e2b::enter_by_name(domain, request)?;
        Some(Self {
            dialect: Dialect::E2b,
            door: None,
            named: true,
            rest: Uri::from(request.uri().path_and_query()?.clone()),
        })
    }

    /// `None` for our own paths, and for those of a dialect that is off.
    pub(crate) fn of(uri: &Uri, dialects: &Dialects) -> Option<Self> {
        if e2b::is_signed_file(uri) && dialects.on.contains(&Dialect::E2b) {
            return Some(Self {
                dialect: Dialect::E2b,
                door: None,
                named: false,
                rest: uri.clone(),
            });
        }
        let below = uri.path().strip_prefix('/')?;
        let (name, below) = below.split_once('/').unwrap_or((below, ""));
        let dialect = name.parse().ok().filter(|one| dialects.on.contains(one))?;
        let (door, path) = if dialect == Dialect::Cloudflare {
            let mut parts = below.splitn(3, '/');
            let door = Door {
                sandbox: parts.next()?.to_owned(),
                token: parts.next()?.to_owned(),
            };
            (Some(door), parts.next().unwrap_or_default())
        } else {
            (None, below)
        };
        let rest = match uri.query() {
            Some(query) => format!("/{path}?{query}"),
            None => format!("/{path}"),
        };
        Some(Self {
            dialect,
            door,
            named: false,
            rest: Uri::from(PathAndQuery::try_from(rest).ok()?),
        })
    }

    /// What may be logged of it.
    pub(crate) fn shown(&self) -> Uri {
        let name = self.dialect.name();
        let path = match &self.door {
            Some(door) => format!("/{name}/{}/…{}", door.sandbox, self.rest.path()),
            None => format!("/{name}{}", self.rest.path()),
        };
        Uri::try_from(path).unwrap_or_default()
    }
}

/// Answers a request in its dialect.
pub(crate) async fn answer(
    edge: &Edge,
    asked: Asked,
    request: Request<Body>,
    id: &HeaderValue,
) -> (Response, Caller) {
    let dialect = asked.dialect;
    let form = e2b::Asked::of(&asked.rest, request.headers());
    // Under a name of its own nothing is open to a page that shows no right.
    let checked = if asked.named {
        Ok(Caller::Plain)
    } else {
        edge.hub().browsers.check(&request)
    };
    let (caller, answered) = match checked {
        Err(refused) => (Caller::Plain, Err(refused)),
        Ok(caller) => {
            if let Some(response) = caller.preflight(&request) {
                return (response, caller);
            }
            (caller, translate(edge, asked, request, id).await)
        }
    };
    let refuse = |refused: ApiError| dialect.refuse(refused.into_problem(), &form);
    let mut response = answered.unwrap_or_else(refuse);
    // Failures have the form of the dialect.
    response.extensions_mut().insert(Forwarded);
    response.headers_mut().insert(REQUEST_ID, id.clone());
    (response, caller)
}

async fn translate(
    edge: &Edge,
    asked: Asked,
    request: Request<Body>,
    id: &HeaderValue,
) -> Result<Response, ApiError> {
    // Whether it is served is no secret.
    if asked.dialect == Dialect::Bridge && asked.rest.path() == "/health" {
        return Ok(Bridge::health());
    }
    let slot = request.extensions().get::<Slot>().cloned();
    if asked.dialect == Dialect::Daytona && asked.rest.path() == Daytona::EVENTS {
        // Its clients show their token only within the socket.
        let edge = edge.clone();
        let admit = move |secret: &str| {
            let token = by_secret(&edge, secret.as_bytes())?;
            Some(lease(&edge, &token, slot.clone()))
        };
        return Ok(Daytona::listen(admit, request).await);
    }
    let (mut head, body) = request.into_parts();
    let dialects = &edge.hub().dialects;
    let mut reach = Reach::Control;
    let (token, sandbox) = match &asked.door {
        Some(door) => {
            let (token, sandbox) = door.open(edge)?;
            (token, Some(sandbox))
        }
        None if asked.dialect == Dialect::E2b => {
            let (token, wanted) = e2b::admit(edge, &asked.rest, &head)?;
            match wanted {
                e2b::Wanted::Reach(within) => reach = within,
                e2b::Wanted::Port(sandbox, port) => {
                    head.uri = asked.rest;
                    let request = Request::from_parts(head, body);
                    return e2b::pass(edge, &sandbox, port, token.as_deref(), request, id).await;
                }
            }
            (token.ok_or_else(no_token)?, None)
        }
        None => (
            edge.hub().tokens.of(&head.headers).ok_or_else(no_token)?,
            None,
        ),
    };
    let lease = lease(edge, &token, slot);
    let client = inside::client(edge.for_caller(token), &head)
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, "the name of the host is none"))?;
    let client = match sandbox {
        Some(sandbox) => client.sandbox(&sandbox),
        None => client,
    };
    // HTTP/2 has the name of the host in the address, which becomes that within the dialect.
    let authority = head.uri.authority().map(|name| name.as_str().parse());
    if let (None, Some(Ok(host))) = (head.headers.get(header::HOST), authority) {
        head.headers.insert(header::HOST, host);
    }
    head.uri = asked.rest;
    let request = Request::from_parts(head, body);
    Ok(match asked.dialect {
        Dialect::Cloudflare => dialects.cloudflare.answer(client, lease, request).await,
        Dialect::Bridge => dialects.bridge.answer(client, lease, request).await,
        Dialect::E2b => dialects.e2b.answer(client, reach, request).await,
        Dialect::Daytona => dialects.daytona.answer(client, lease, request).await,
    })
}

/// What lets a connection of a token stay open, in the place it has among all.
fn lease(edge: &Edge, token: &Token, slot: Option<Slot>) -> Lease {
    let tunnels = &edge.hub().tunnels;
    Lease::new(
        [token.ended().clone(), tunnels.shutdown.clone()],
        (slot, tunnels.open.token()),
    )
}

impl Door {
    /// The token in the path and the one sandbox it is for.
    fn open(&self, edge: &Edge) -> Result<(Arc<Token>, SandboxId), ApiError> {
        let unknown = || {
            ApiError::new(
                ErrorCode::Unauthorized,
                "there is no such sandbox for the token in this address",
            )
            .hint("`sandshell token create --scope sandbox:ID` makes a token for one sandbox.")
        };
        let sandbox: SandboxId = self.sandbox.parse().map_err(|_| unknown())?;
        let token = by_secret(edge, self.token.as_bytes()).ok_or_else(unknown)?;
        if !token.is_only_for(&sandbox) {
            return Err(ApiError::new(
                ErrorCode::Forbidden,
                "the token in this address may do more than use this sandbox",
            )
            .hint("`sandshell token create --scope sandbox:ID` makes a token for one sandbox."));
        }
        edge.hub().registry.live(sandbox.as_str(), &token)?;
        Ok((token, sandbox))
    }
}

fn no_token() -> ApiError {
    ApiError::new(
        ErrorCode::Unauthorized,
        "there is no token that is a right one",
    )
    .hint("The API key of the client is a token of this hub; `sandshell token create` makes one.")
}

/// The token with a secret.
fn by_secret(edge: &Edge, secret: &[u8]) -> Option<Arc<Token>> {
    let authorization = HeaderValue::from_bytes(&[b"Bearer ", secret].concat()).ok()?;
    let shown = HeaderMap::from_iter([(header::AUTHORIZATION, authorization)]);
    edge.hub().tokens.of(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(on: &[Dialect]) -> Dialects {
        let settings = sandshell_compat_e2b::Settings {
            key: sandshell_compat_e2b::Key::new(*b"key"),
            domain: None,
        };
        Dialects::new(on, settings, None)
    }

    #[test]
    fn a_path_is_taken_apart_and_its_token_not_shown() {
        let all = of(&Dialect::ALL);
        let of = |text: &str| Asked::of(&Uri::try_from(text).unwrap(), &all);
        let asked = of("/cloudflare/box/sk_secret/api/execute?a=b").unwrap();
        let door = asked.door.as_ref().unwrap();
        assert_eq!(
            (door.sandbox.as_str(), door.token.as_str()),
            ("box", "sk_secret")
        );
        assert_eq!(asked.rest.to_string(), "/api/execute?a=b");
        assert!(!asked.shown().to_string().contains("secret"));
        assert_eq!(of("/cloudflare/box/t").unwrap().rest.to_string(), "/");
        assert!(of("/cloudflare/box").is_none());
        assert!(of("/v1/sandboxes").is_none());
        assert!(of("/files?path=a").is_none());
        let signed = of("/files?path=a&signature=v1_x").unwrap();
        assert_eq!(signed.dialect, Dialect::E2b);
        assert!(!signed.shown().to_string().contains("v1_x"));
        let bridge = of("/bridge/v1/sandbox/a/exec").unwrap();
        assert_eq!(bridge.dialect, Dialect::Bridge);
        assert_eq!(bridge.rest.to_string(), "/v1/sandbox/a/exec");
        assert_eq!(bridge.shown().to_string(), "/bridge/v1/sandbox/a/exec");
    }

    #[test]
    fn a_dialect_that_is_off_has_no_paths() {
        let few = of(&[Dialect::Bridge]);
        let of = |text: &str| Asked::of(&Uri::try_from(text).unwrap(), &few);
        assert!(of("/bridge/v1/health").is_some());
        assert!(of("/cloudflare/box/t/api").is_none());
        assert!(of("/e2b/sandboxes").is_none());
        assert!(of("/files?path=a&signature=v1_x").is_none());
    }
}
