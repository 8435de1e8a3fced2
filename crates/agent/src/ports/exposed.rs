//! Ports that a token of their own opens.
//!
//! A token is random, made when a port is exposed, kept in memory only and gone when the port is
//! unexposed or the agent ends. It opens the proxy of that one port and no other route.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName, header};
use sandshell_types::ErrorCode;
use subtle::ConstantTimeEq as _;

use crate::problem::ApiError;

/// Most ports exposed at a time.
pub(crate) const MOST: usize = 256;

/// The token in the query.
pub(super) const PARAMETER: &str = "port_token=";
/// The token as a header.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-port-token");
/// The token as a cookie: this and the port.
pub(super) const COOKIE: &str = "sandshell_port_";

/// The tokens of the ports that are exposed.
#[derive(Default)]
pub(crate) struct Exposed(Mutex<HashMap<u16, String>>);

/// How a request showed the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Query,
    Header,
    Cookie,
}

impl Exposed {
    /// Exposes a port; the same token as before when it is exposed already.
    pub(crate) fn expose(&self, port: u16) -> Result<String, ApiError> {
        let mut tokens = self.lock();
        if let Some(token) = tokens.get(&port) {
            return Ok(token.clone());
        }
        if tokens.len() >= MOST {
            return Err(ApiError::new(
                ErrorCode::LimitReached,
                format!("{MOST} ports are exposed already"),
            )
            .hint("Unexpose one with DELETE /v1/ports/{port}."));
        }
        let mut random = [0_u8; 24];
        getrandom::fill(&mut random)
            .map_err(|error| ApiError::internal("no random bytes for a token", &error))?;
        let digits = random.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
        let token: String = "pt_".chars().chain(digits).collect();
        tokens.insert(port, token.clone());
        Ok(token)
    }

    /// Takes the token away; says whether there was one.
    pub(crate) fn unexpose(&self, port: u16) -> bool {
        self.lock().remove(&port).is_some()
    }

    pub(crate) fn is_exposed(&self, port: u16) -> bool {
        self.lock().contains_key(&port)
    }

    /// Where the request shows the token of this port, if it does.
    pub(super) fn shown(
        &self,
        port: u16,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<Shown> {
        let tokens = self.lock();
        let token = tokens.get(&port)?.as_bytes();
        let is_it = |given: &[u8]| bool::from(given.ct_eq(token));
        let in_query = || {
            let mut pairs = query.unwrap_or_default().split('&');
            pairs.any(|pair| {
                let given = pair.strip_prefix(PARAMETER);
                given.is_some_and(|given| is_it(given.as_bytes()))
            })
        };
        let in_header = || {
            let mut values = headers.get_all(HEADER).iter();
            values.any(|given| is_it(given.as_bytes()))
        };
        let in_cookie = || {
            let name = format!("{COOKIE}{port}=");
            cookies(headers).any(|cookie| {
                let given = cookie.strip_prefix(name.as_bytes());
                given.is_some_and(is_it)
            })
        };
        if in_query() {
            Some(Shown::Query)
        } else if in_header() {
            Some(Shown::Header)
        } else if in_cookie() {
            Some(Shown::Cookie)
        } else {
            None
        }
    }

    /// The `set-cookie` for a browser that showed the token in the query.
    pub(super) fn cookie(&self, port: u16, prefix: &str) -> Option<String> {
        let tokens = self.lock();
        let token = tokens.get(&port)?;
        Some(format!(
            "{COOKIE}{port}={token}; Path={prefix}/; HttpOnly; SameSite=Lax"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All cookies of a request, as `name=value`.
pub(super) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(header::COOKIE).iter();
    values.flat_map(|value| {
        value
            .as_bytes()
            .split(|b| *b == b';')
            .map(<[u8]>::trim_ascii)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_its_port_only() {
        let exposed = Exposed::default();
        let token = exposed.expose(80).unwrap();
        exposed.expose(81).unwrap();
        assert_eq!(exposed.expose(80).unwrap(), token);
        let none = HeaderMap::new();
        let query = format!("a=b&port_token={token}");
        assert_eq!(exposed.shown(80, Some(&query), &none), Some(Shown::Query));
        assert_eq!(exposed.shown(81, Some(&query), &none), None);
        assert_eq!(exposed.shown(82, Some(&query), &none), None);
        assert_eq!(exposed.shown(80, Some("port_token="), &none), None);
        let mut headers = HeaderMap::new();
        let cookie = format!("x=y; sandshell_port_80={token}");
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        assert_eq!(exposed.shown(80, None, &headers), Some(Shown::Cookie));
        assert!(exposed.unexpose(80) && !exposed.unexpose(80));
        assert_eq!(exposed.shown(80, Some(&query), &headers), None);
    }

    #[test]
    fn there_is_a_limit() {
        let exposed = Exposed::default();
        for port in 1..=MOST {
            exposed.expose(u16::try_from(port).unwrap()).unwrap();
        }
        assert!(exposed.expose(9999).is_err());
        assert!(exposed.expose(1).is_ok());
    }
}
