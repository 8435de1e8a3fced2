//! Who may ask: a bearer token, compared in constant time.
//!
//! Owns the check. Does not own where the token comes from (`token`) nor who may connect at all (the
//! mode of a Unix socket).

use http::{HeaderMap, header};
use sandshell_types::ErrorCode;
use subtle::ConstantTimeEq as _;

use crate::problem::ApiError;
use crate::token::Token;

/// Routes that say nothing worth protecting: probes, and the description of the API, which is the same
/// in every copy of the program.
pub const OPEN: &[&str] = &["/healthz", "/readyz", "/version", "/openapi.json", "/docs"];

/// The rule for one agent; without a token everyone who can connect may ask.
#[derive(Debug)]
pub(crate) struct Auth {
    token: Option<Token>,
}

impl Auth {
    pub(crate) fn new(token: Option<Token>) -> Self {
        Self { token }
    }

    /// Whether there is no token: whoever could connect has been let in elsewhere.
    pub(crate) fn is_open(&self) -> bool {
        self.token.is_none()
    }

    /// Refuses a request without the right token.
    pub(crate) fn check(&self, path: &str, headers: &HeaderMap) -> Result<(), ApiError> {
        if self.token.is_none() {
            return Ok(());
        }
        if OPEN.contains(&path) {
            return Ok(());
        }
        if self.is_shown(headers) {
            return Ok(());
        }
        let hint = "Send `Authorization: Bearer TOKEN` with the token of this agent.";
        let wrong = if headers.contains_key(header::AUTHORIZATION) {
            "the token is not the right one"
        } else {
            "there is no token"
        };
        Err(ApiError::new(ErrorCode::Unauthorized, wrong).hint(hint))
    }

    /// Whether a secret, shown in another way, is the agent's token.
    pub(crate) fn opens(&self, shown: Option<&[u8]>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        shown.is_some_and(|shown| bool::from(shown.ct_eq(token.reveal().as_bytes())))
    }

    /// Whether the request shows the agent's token.
    pub(crate) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else {
            return false;
        };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, given) = value.as_bytes().split_at_checked(7)?;
            scheme
                .eq_ignore_ascii_case(b"bearer ")
                .then(|| given.trim_ascii())
        });
        // The length of a token is no secret.
        given.is_some_and(|given| bool::from(given.ct_eq(token.reveal().as_bytes())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn check(header: Option<&str>, path: &str) -> bool {
        let auth = Auth::new(Some(Token::parse("sk_secret").unwrap()));
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(header::AUTHORIZATION, header.parse().unwrap());
        }
        auth.check(path, &headers).is_ok()
    }

    #[test]
    fn takes_the_token_and_nothing_else() {
        assert!(check(Some("Bearer sk_secret"), "/v1/exec"));
        assert!(check(Some("bearer sk_secret"), "/v1/exec"));
        for wrong in [
            "Bearer sk_secre",
            "Bearer sk_secret1",
            "Basic sk_secret",
            "sk_secret",
            "Bearer ",
        ] {
            assert!(!check(Some(wrong), "/v1/exec"), "{wrong}");
        }
        assert!(!check(None, "/v1/exec"));
    }

    #[test]
    fn leaves_probes_open() {
        assert!(check(None, "/healthz"));
        assert!(!check(None, "/healthz/"));
        assert!(Auth::new(None).check("/v1/exec", &HeaderMap::new()).is_ok());
    }
}
