//! Who asks in E2B's way, and for what.
//!
//! | what it shows | what it opens |
//! |---|---|
//! | `X-API-Key` with a token of the hub, or the same as a bearer | the control plane; with `E2b-Sandbox-Id` that sandbox |
//! | `X-Access-Token` or `E2B-Traffic-Access-Token` with the access token of a sandbox, and its id | that sandbox |
//! | `signature` of a file in the query of `/files` | that file of the sandbox whose access token signed it |
//!
//! A name below `--e2b-domain` says the same as the headers: `api.` is the control plane, `PORT-SANDBOX.` a port
//! of a sandbox. A port that is neither `envd`'s nor the code interpreter's leads to the server there, with the
//! same right, or with none where its sandbox was made with `allowPublicTraffic`.
//!
//! Whether a sandbox is there is told to nobody who has no right to it. The address of a signed file that
//! their clients make has neither our path nor the sandbox in it: then the signature itself tells which it is.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use sandshell_agent::parts::ApiError;
use sandshell_compat_e2b::{E2b, ENVD_PORT, INTERPRETER_PORT, Reach, Signature, named_in};
use sandshell_types::{ErrorCode, Problem};
use tokio_util::sync::CancellationToken;

use super::{by_secret, no_token};
use crate::edge::Edge;
use crate::preview::PreviewDomain;
use crate::route::{self, Admission, Outside};
use crate::sandbox::Sandbox;
use crate::tokens::Token;

const SANDBOX_ID: &str = "e2b-sandbox-id";
const SANDBOX_PORT: &str = "e2b-sandbox-port";
const FILES: &str = "/files";

/// The label of a sandbox whose ports are open to all.
const PUBLIC: &str = "e2b/public";

/// The headers that show a right to a sandbox.
const SHOWN: [&str; 3] = ["x-access-token", "e2b-traffic-access-token", "x-api-key"];

/// What a request is for.
pub(super) enum Wanted {
    /// What the dialect answers.
    Reach(Reach),
    /// The server at a port.
    Port(Sandbox, u16),
}

impl Wanted {
    pub(super) fn reach(self) -> Reach {
        match self {
            Self::Reach(reach) => reach,
            Self::Port(sandbox, port) => at(&sandbox, port),
        }
    }

    fn at(sandbox: Sandbox, port: u16) -> Self {
        match port {
            ENVD_PORT | INTERPRETER_PORT => Self::Reach(at(&sandbox, port)),
            _ => Self::Port(sandbox, port),
        }
    }
}

/// Gives a request for a name below the domain the headers that say the same.
pub(super) fn enter_by_name(domain: &PreviewDomain, request: &mut Request<Body>) -> Option<()> {
    let label = domain.label_in(request)?;
    let headers = request.headers_mut();
    headers.remove(SANDBOX_ID);
    headers.remove(SANDBOX_PORT);
    if label != "api" {
        let (port, id) = label.split_once('-').unwrap_or(("", &label));
        for (name, value) in [(SANDBOX_ID, id), (SANDBOX_PORT, port)] {
            headers.insert(name, HeaderValue::from_str(value).ok()?);
        }
    }
    // The name has been used; to ourselves we speak by our own.
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    let path = request.uri().path_and_query()?.clone();
    *request.uri_mut() = Uri::from(path);
    Some(())
}

/// Passes a request on to the server at a port of a sandbox, without what opened the way.
pub(super) async fn pass(
    edge: &Edge,
    sandbox: &Sandbox,
    port: u16,
    mut request: Request<Body>,
    id: &HeaderValue,
) -> Result<Response, ApiError> {
    for name in SHOWN.into_iter().chain([SANDBOX_ID, SANDBOX_PORT]) {
        request.headers_mut().remove(name);
    }
    let path = request.uri().path_and_query();
    let path = path.map_or("/", http::uri::PathAndQuery::as_str);
    let target = format!("/v1/ports/{port}/proxy{path}");
    let outside = Outside::Port {
        prefix: "/".to_owned(),
        by: Admission::Name,
    };
    let tunnels = &edge.hub().tunnels;
    route::pass(sandbox, &target, &outside, request, id, tunnels, None).await
}

/// What the form of a refusal depends on.
pub(super) struct Asked {
    path: String,
    content_type: Option<HeaderValue>,
    inside: bool,
}

impl Asked {
    pub(super) fn of(rest: &Uri, headers: &HeaderMap) -> Self {
        Self {
            path: rest.path().to_owned(),
            content_type: headers.get(header::CONTENT_TYPE).cloned(),
            inside: within(rest, headers).is_some() || rest.path() == FILES,
        }
    }

    pub(super) fn refuse(&self, problem: Problem) -> Response {
        E2b::refuse(problem, &self.path, self.content_type.as_ref(), self.inside)
    }
}

/// The sandbox that a request goes into. Older clients name theirs in requests about it, too, and some
/// not inside of it, where its token does.
fn within<'a>(rest: &Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let path = rest.path().strip_prefix("/v2").unwrap_or(rest.path());
    let about = path == "/sandboxes" || path.starts_with("/sandboxes/");
    let ours = text(SANDBOX_PORT).is_none_or(|port| matches!(port, "49983" | "49999"));
    let by_token = || text(SHOWN[0]).and_then(named_in);
    text(SANDBOX_ID)
        .or_else(by_token)
        .filter(|_| !(about && ours))
}

/// Whether an address is that of a signed file, as their clients make it.
pub(super) fn is_signed_file(uri: &Uri) -> bool {
    let signed = |query: &str| query.split('&').any(|pair| pair.starts_with("signature="));
    uri.path() == FILES && uri.query().is_some_and(signed)
}

/// Lets a request in: with whose rights it comes, and what it is for.
pub(super) fn admit(
    edge: &Edge,
    rest: &Uri,
    head: &Parts,
) -> Result<(Arc<Token>, Wanted), ApiError> {
    let shown = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let id = within(rest, &head.headers);
    if is_signed_file(rest) {
        let sandbox = signer(edge, rest, head, id)?;
        return Ok((right_to(&sandbox), Wanted::at(sandbox, ENVD_PORT)));
    }
    let Some(id) = id else {
        let key = shown("x-api-key").and_then(|key| by_key(edge, key));
        let token = key.or_else(|| edge.hub().tokens.of(&head.headers));
        let wanted = Wanted::Reach(Reach::Control);
        return Ok((token.ok_or_else(no_token)?, wanted));
    };
    let port = match shown(SANDBOX_PORT).map(str::parse) {
        None => ENVD_PORT,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
            let detail = "the port of the sandbox is none";
            return Err(ApiError::new(ErrorCode::InvalidRequest, detail));
        }
    };
    for key in SHOWN.into_iter().filter_map(shown) {
        if let Some(opens) = edge.hub().dialects.e2b.key().opens(id, key) {
            let sandbox = edge.hub().registry.any_live(id);
            let sandbox = sandbox.filter(|sandbox| opens.is(sandbox.created_at()));
            let sandbox = sandbox.ok_or_else(|| gone(id))?;
            return Ok((right_to(&sandbox), Wanted::at(sandbox, port)));
        }
        if let Some(token) = by_key(edge, key) {
            let sandbox = edge.hub().registry.live(id, &token)?;
            return Ok((token, Wanted::at(sandbox, port)));
        }
    }
    let public = |sandbox: &Sandbox| sandbox.labels().contains_key(PUBLIC);
    let open = edge.hub().registry.any_live(id).filter(public);
    match open.map(|sandbox| Wanted::at(sandbox, port)) {
        Some(Wanted::Port(sandbox, port)) => Ok((right_to(&sandbox), Wanted::Port(sandbox, port))),
        _ => Err(no_token()),
    }
}

/// The token that is an API key.
fn by_key(edge: &Edge, key: &str) -> Option<Arc<Token>> {
    by_secret(edge, key.strip_prefix("e2b_").unwrap_or(key).as_bytes())
}

fn gone(id: &str) -> ApiError {
    ApiError::new(
        ErrorCode::SandboxGone,
        format!("the sandbox {id:?} is gone"),
    )
}

/// The right to use a sandbox, for as long as a request lasts.
fn right_to(sandbox: &Sandbox) -> Arc<Token> {
    Token::for_sandbox(sandbox.id().clone(), CancellationToken::new())
}

fn at(sandbox: &Sandbox, port: u16) -> Reach {
    Reach::Sandbox {
        id: sandbox.id().clone(),
        state: sandbox.state(),
        port,
    }
}

/// The sandbox that signed a request for a file.
fn signer(edge: &Edge, rest: &Uri, head: &Parts, id: Option<&str>) -> Result<Sandbox, ApiError> {
    let refused = |why: &str| ApiError::new(ErrorCode::Unauthorized, why);
    let wrong = || refused("the signature is not a right one");
    let signature = Signature::of(&head.method, rest.query().unwrap_or_default())
        .map_err(|twice| ApiError::new(ErrorCode::InvalidRequest, twice.to_string()))?
        .ok_or_else(no_token)?;
    // What costs little comes first: anybody may ask this.
    if !signature.is_well_formed() {
        return Err(wrong());
    }
    if !signature.is_in_time() {
        return Err(refused("the signature has expired"));
    }
    let hub = edge.hub();
    let candidates = match id {
        Some(id) => hub.registry.any_live(id).into_iter().collect(),
        None => hub.registry.all_live(),
    };
    let key = hub.dialects.e2b.key();
    let signed = |one: &Sandbox| key.signed(one.id().as_str(), one.created_at(), &signature);
    candidates.into_iter().find(signed).ok_or_else(wrong)
}
