//! Access checks: a token, then a cookie; only requests addressed to this server are accepted.
//!
//! 1. The first address has a random token. A request with the token receives a cookie and is redirected to the page,
//!    so that the token is not in the address that people copy.
//! 2. All other requests need the cookie.
//! 3. `Host` must be an IP address or "localhost". A domain name made to point to this machine (DNS rebinding) is
//!    refused. The port may differ, because of tunnels.
//! 4. A WebSocket's `Origin` must be the page's own host: browsers send cookies from other sites' pages too.

use axum::http::{HeaderMap, header};
use dapple_scene::{Error, Result};
use std::net::IpAddr;

/// Values that requests are checked against.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    token: String,
    cookie: String,
}

/// Returns 128 bits of the system's randomness, as hex.
///
/// # Errors
/// The system has no source of randomness.
pub(crate) fn token() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::unsupported(format!("the system gives no random numbers: {e}")))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

impl Guard {
    pub(crate) fn new(token: String, port: u16) -> Self {
        // Cookies do not distinguish ports: two viewers of one machine have cookies of different names.
        let cookie = format!("dapple_{port}");
        Self { token, cookie }
    }

    /// Returns true if this is the token.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        // Takes equal time for all differences.
        let (a, b) = (given.as_bytes(), self.token.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    }

    /// Returns the header that gives a page its cookie.
    pub(crate) fn set_cookie(&self) -> String {
        format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie, self.token
        )
    }

    /// Returns true if a request has the cookie.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        let all = headers.get_all(header::COOKIE).iter();
        all.filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .any(|(name, value)| name == self.cookie && self.is_token(value))
    }

    /// Returns true if the `Host` of a request is this machine.
    pub(crate) fn is_for_us(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|v| v.to_str().ok());
        host.and_then(name_of).is_some_and(|name| {
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
        })
    }

    /// Returns true if a request comes from this server's own page.
    pub(crate) fn is_from_our_page(&self, headers: &HeaderMap) -> bool {
        let text = |name| {
            headers
                .get(name)
                .and_then(|v: &header::HeaderValue| v.to_str().ok())
        };
        match (text(header::ORIGIN), text(header::HOST)) {
            (Some(origin), Some(host)) => origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"))
                .is_some_and(|from| from.eq_ignore_ascii_case(host)),
            _ => false,
        }
    }
}

/// Returns the name in a `Host` header, without port and brackets; `None` if anything else is in it.
fn name_of(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_whole = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    is_whole.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|&(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    value.parse().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn hosts_are_numbers_or_localhost() {
        let guard = Guard::new("ab".into(), 1);
        for (host, ours) in [
            ("127.0.0.1:7410", true),
            ("localhost", true),
            ("LocalHost:9", true),
            ("[::1]:7410", true),
            ("192.168.1.7:7410", true),
            ("evil.example:7410", false),
            ("127.0.0.1.evil.example", false),
            ("[::1]", true),
            ("[::1].evil.example", false),
            ("[::1].evil.example:7410", false),
            ("[::1]:7410.evil.example", false),
            ("[::1", false),
            ("127.0.0.1:7410.evil.example", false),
            ("localhost:evil.example", false),
            ("localhost:", false),
            ("", false),
        ] {
            assert_eq!(guard.is_for_us(&headers(&[("host", host)])), ours, "{host}");
        }
        assert!(!guard.is_for_us(&headers(&[])));
    }

    #[test]
    fn a_websocket_comes_from_the_page_itself() {
        let guard = Guard::new("ab".into(), 1);
        let from = |origin| {
            guard.is_from_our_page(&headers(&[("host", "localhost:9"), ("origin", origin)]))
        };
        assert!(from("http://localhost:9"));
        assert!(!from("http://localhost:8"));
        assert!(!from("http://evil.example"));
        assert!(!from("null"));
        assert!(!guard.is_from_our_page(&headers(&[("host", "localhost:9")])));
    }

    #[test]
    fn the_cookie_is_the_token() {
        let token = token().unwrap();
        let guard = Guard::new(token.clone(), 7410);
        let has = |cookie: &str| guard.knows(&headers(&[("cookie", cookie)]));
        assert!(has(&format!("a=b; dapple_7410={token}")));
        assert!(!has(&format!("dapple_7411={token}")));
        assert!(!has("dapple_7410="));
        assert!(!has(&format!("dapple_7410={}", "0".repeat(32))));
        assert_eq!(token.len(), 32);
        assert_ne!(token, super::token().unwrap());
    }
}
