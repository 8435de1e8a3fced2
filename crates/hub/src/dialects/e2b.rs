//! Who asks in E2B's way, and for what.
//!
//! | what it shows | what it opens |
//! |---|---|
//! | `X-API-Key` with a token of the hub | the control plane; with `E2b-Sandbox-Id` that sandbox |
//! | the same as a bearer | the control plane; in a sandbox `Authorization` names the user |
//! | `X-Access-Token` or `E2B-Traffic-Access-Token` with the access token of a sandbox, and its id | that sandbox |
//! | `signature` of a file in the query of `/files` | that file of the sandbox whose access token signed it |
//!
//! A name below `--e2b-domain` says the same as the headers: `api.` is the control plane, `PORT-SANDBOX.` a port
//! of a sandbox. A port that is neither `envd`'s nor the code interpreter's leads to the server there, with the
//! same right, or with none where its sandbox was made with `allowPublicTraffic`.
//!
//! What a sandbox's own token or signature opens, the token that made the sandbox lends: it ends with that one
//! and counts against its rate. What is open to all is neither: it ends with the sandbox, as a preview does.
//!
//! Whether a sandbox is there is told to nobody who has no right to it. The address of a signed file that
//! their clients make has neither our path nor the sandbox in it: then the signature itself tells which it is.

use std::sync::Arc;

use super::{by_secret, no_token};
use crate::edge::Edge;
use crate::preview::PreviewDomain;
use crate::route::{self, Admission, Outside, open_until};
use crate::sandbox::Sandbox;
use crate::tokens::Token;
use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use sandshell_agent::parts::ApiError;
use sandshell_compat_e2b::{
    E2b, ENVD_PORT, INTERPRETER_PORT, Reach, Signature, is_public, named_in,
};
use sandshell_types::{ErrorCode, Problem};

const SANDBOX_ID: &str = "e2b-sandbox-id";
const SANDBOX_PORT: &str = "e2b-sandbox-port";
const ACCESS_TOKEN: &str = "x-access-token";
const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";
const API_KEY: &str = "x-api-key";
const FILES: &str = "/files";

/// The headers that show a right to a sandbox.
const SHOWN: [&str; 3] = [ACCESS_TOKEN, TRAFFIC_TOKEN, API_KEY];

/// What a request is for.
pub(super) enum Wanted {
    /// What the dialect answers.
    Reach(Reach),
    /// The server at a port.
    Port(Sandbox, u16),
}

impl Wanted {
    fn at(sandbox: Sandbox, port: u16) -> Self {
        match port {
            ENVD_PORT | INTERPRETER_PORT => Self::Reach(Reach::Sandbox {
                id: sandbox.id().clone(),
                state: sandbox.state(),
                port,
            }),
            _ => Self::Port(sandbox, port),
        }
    }
}

/// Gives a request for a name below the domain the headers that say the same.
pub(super) fn enter_by_name(domain: &PreviewDomain, request: &mut Request<Body>) -> Option<()> {
    let label = domain.label_in(request)?;
    // HTTP/2 has the name in the address.
    let named = request.uri().authority();
    let named = named.and_then(|name| HeaderValue::from_str(name.as_str()).ok());
    let headers = request.headers_mut();
    headers.remove(SANDBOX_ID);
    headers.remove(SANDBOX_PORT);
    let mut server = false;
    if label != "api" {
        let (port, id) = label.split_once('-').unwrap_or(("", &label));
        for (name, value) in [(SANDBOX_ID, id), (SANDBOX_PORT, port)] {
            headers.insert(name, HeaderValue::from_str(value).ok()?);
        }
        server = !is_ours(port);
    }
    if !server {
        // The name has been used; to ourselves we speak by our own.
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    } else if let Some(name) = named {
        headers.insert(header::HOST, name);
    }
    let path = request.uri().path_and_query()?.clone();
    *request.uri_mut() = Uri::from(path);
    Some(())
}

/// Whether the dialect itself answers at a port.
fn is_ours(port: &str) -> bool {
    let port = port.parse();
    port.is_ok_and(|port: u16| matches!(port, ENVD_PORT | INTERPRETER_PORT))
}

/// Passes a request on to the server at a port of a sandbox, without what opened the way. What is open ends
/// with the token.
pub(super) async fn pass(
    edge: &Edge,
    sandbox: &Sandbox,
    port: u16,
    token: Option<&Token>,
    mut request: Request<Body>,
    id: &HeaderValue,
) -> Result<Response, ApiError> {
    token.map_or(Ok(()), Token::count)?;
    let headers = request.headers_mut();
    for name in [ACCESS_TOKEN, TRAFFIC_TOKEN, SANDBOX_ID, SANDBOX_PORT] {
        headers.remove(name);
    }
    // The server may have keys of its own.
    let key = headers.get(API_KEY).and_then(|key| key.to_str().ok());
    if key.is_some_and(|key| named_in(key).is_some() || by_key(edge, key).is_some()) {
        headers.remove(API_KEY);
    }
    let path = request.uri().path_and_query();
    let path = path.map_or("/", http::uri::PathAndQuery::as_str);
    let target = format!("/v1/ports/{port}/proxy{path}");
    let outside = Outside::Port {
        prefix: "/".to_owned(),
        by: Admission::Name,
    };
    let tunnels = &edge.hub().tunnels;
    let until = token.map(|token| token.ended().clone());
    let ended = until.clone();
    let response = route::pass(sandbox, &target, &outside, request, id, tunnels, until).await?;
    Ok(match ended {
        Some(ended) => open_until(response, ended),
        None => response,
    })
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
    let ours = text(SANDBOX_PORT).is_none_or(is_ours);
    let by_token = || text(ACCESS_TOKEN).and_then(named_in);
    text(SANDBOX_ID)
        .or_else(by_token)
        .filter(|_| !(about && ours))
}

/// Whether an address is that of a signed file, as their clients make it.
pub(super) fn is_signed_file(uri: &Uri) -> bool {
    let signed = |query: &str| query.split('&').any(|pair| pair.starts_with("signature="));
    uri.path() == FILES && uri.query().is_some_and(signed)
}

/// Lets a request in: with whose rights it comes, none where all may, and what it is for.
pub(super) fn admit(
    edge: &Edge,
    rest: &Uri,
    head: &Parts,
) -> Result<(Option<Arc<Token>>, Wanted), ApiError> {
    let shown = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let id = within(rest, &head.headers);
    let port = match shown(SANDBOX_PORT).map(str::parse) {
        None => ENVD_PORT,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
            let detail = "the port of the sandbox is none";
            return Err(ApiError::new(ErrorCode::InvalidRequest, detail));
        }
    };
    // A server at another port may have signed files of its own.
    if is_signed_file(rest) && port == ENVD_PORT {
        let sandbox = signer(edge, rest, head, id)?;
        let token = lent(edge, &sandbox)?;
        return Ok((Some(token), Wanted::at(sandbox, ENVD_PORT)));
    }
    let Some(id) = id else {
        let key = shown(API_KEY).and_then(|key| by_key(edge, key));
        let token = key.or_else(|| edge.hub().tokens.of(&head.headers));
        let token = token.ok_or_else(no_token)?;
        return Ok((Some(token), Wanted::Reach(Reach::Control)));
    };
    for key in SHOWN.into_iter().filter_map(shown) {
        if let Some(opens) = edge.hub().dialects.e2b.key().opens(id, key) {
            let sandbox = edge.hub().registry.any_live(id);
            let sandbox = sandbox.filter(|sandbox| opens.is(sandbox.created_at()));
            let sandbox = sandbox.ok_or_else(|| gone(id))?;
            let token = lent(edge, &sandbox)?;
            return Ok((Some(token), Wanted::at(sandbox, port)));
        }
        if let Some(token) = by_key(edge, key) {
            let sandbox = edge.hub().registry.live(id, &token)?;
            return Ok((Some(token), Wanted::at(sandbox, port)));
        }
    }
    let public = |sandbox: &Sandbox| is_public(&sandbox.labels());
    let open = edge.hub().registry.any_live(id).filter(public);
    match open.map(|sandbox| Wanted::at(sandbox, port)) {
        Some(server @ Wanted::Port(..)) => Ok((None, server)),
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

/// The right to use a sandbox, of the token that made it, for as long as that one opens anything.
fn lent(edge: &Edge, sandbox: &Sandbox) -> Result<Arc<Token>, ApiError> {
    let owner = edge.hub().tokens.valid(sandbox.owner());
    let owner = owner.ok_or_else(|| {
        let detail = "the token that made the sandbox has ended";
        ApiError::new(ErrorCode::Unauthorized, detail)
            .hint("A token of this hub that may use the sandbox opens it as `X-API-Key`.")
    })?;
    Ok(owner.lent_for(sandbox.id().clone()))
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
