//! Whether a page of another site made a browser send a request.
//!
//! A browser sends its credentials to any address that a page names, so a request that changes something must come from
//! a page of this server. Without accounts that is not enough: a page can have a name of its own lead here (DNS
//! rebinding), and to the browser the server is then a part of its site. [`Hosts`] says what is done about that.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, header};

use super::problem::Problem;

/// By which hosts, in the header of that name, clients may call the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Only those that always mean the client's own machine: nobody needs a secret, and all clients are here.
    ThisMachine,
    /// Any, but a page that changes something must have been opened by an address, which is no name that somebody else
    /// can have lead here: nobody needs a secret, and clients are elsewhere. A page is known by what its browser adds to
    /// such a request. Programs, which add nothing, could name any host anyway.
    AddressesForPages,
    /// Any: a page of another site has no secret.
    Any,
}

/// Refuses requests that a foreign page makes a browser send.
///
/// # Errors
/// Why it is refused.
pub(crate) fn refuse_foreign_pages(
    method: &Method,
    headers: &HeaderMap,
    hosts: Hosts,
) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // A proxy in front of the server may have checked another one of them.
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        return Err(Problem::bad_request("the header Host is there more than once"));
    }
    let host = text(header::HOST).unwrap_or_default();
    if hosts == Hosts::ThisMachine && !is_this_machine(host) {
        return Err(Problem::forbidden(
            "without accounts the server answers only to localhost, 127.0.0.1 or [::1] as its name: ask it by one of them",
        ));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let other_origin = text(header::ORIGIN)
        .is_some_and(|origin| origin.split_once("://").is_none_or(|(_, origin_host)| origin_host != host));
    let site = headers.get("sec-fetch-site");
    let cross_site = site.is_some_and(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
    if other_origin || cross_site {
        return Err(Problem::forbidden("a page of another site may not change anything here"));
    }
    let is_of_page = headers.contains_key(header::ORIGIN) || site.is_some();
    let may_be_rebound = !is_this_machine(host) && without_port(host).parse::<IpAddr>().is_err();
    if hosts == Hosts::AddressesForPages && is_of_page && may_be_rebound {
        return Err(Problem::forbidden(
            "a page may change something here only if it was opened by the server's address, and not by a name: open it \
             so, or use posthaste admin",
        ));
    }
    Ok(())
}

/// Returns whether a Host header is a name that always means the client's own machine.
fn is_this_machine(host: &str) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Returns the name or address in a Host header.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn pages_of_others_may_not_ask() {
        use Hosts::{Any, ThisMachine};
        let allowed =
            |method, hosts, pairs: &[_]| refuse_foreign_pages(&method, &headers(pairs), hosts).is_ok();
        let here = ("host", "127.0.0.1:7480");
        assert!(allowed(Method::POST, ThisMachine, &[here]), "a program");
        assert!(allowed(Method::POST, ThisMachine, &[here, ("origin", "http://127.0.0.1:7480")]), "our page");
        assert!(allowed(Method::GET, ThisMachine, &[("host", "[::1]:7480")]));
        assert!(allowed(Method::GET, ThisMachine, &[("host", "LocalHost")]));
        assert!(!allowed(Method::POST, ThisMachine, &[here, ("origin", "http://evil.example")]));
        assert!(!allowed(Method::POST, ThisMachine, &[here, ("origin", "null")]));
        assert!(!allowed(Method::DELETE, ThisMachine, &[here, ("sec-fetch-site", "cross-site")]));
        assert!(!allowed(Method::GET, ThisMachine, &[("host", "evil.example:7480")]), "rebinding");
        assert!(!allowed(Method::GET, ThisMachine, &[]), "no name at all");
        assert!(!allowed(Method::GET, ThisMachine, &[here, ("host", "evil.example")]), "two names");
        assert!(!allowed(Method::GET, Any, &[here, here]), "twice the same");
        assert!(allowed(Method::GET, Any, &[("host", "queue.example")]), "accounts guard it");
        assert!(!allowed(
            Method::POST,
            Any,
            &[("host", "queue.example"), ("origin", "https://evil.example")]
        ));
    }

    #[test]
    fn a_page_that_is_here_under_a_name_of_its_own_may_read_at_most() {
        let allowed = |method, host, pairs: &[_]| {
            let headers = headers(&[&[("host", host)], pairs].concat());
            refuse_foreign_pages(&method, &headers, Hosts::AddressesForPages).is_ok()
        };
        let (name, page) = ("cache.example:7481", ("origin", "http://cache.example:7481"));
        assert!(allowed(Method::GET, name, &[]), "anybody may read");
        assert!(allowed(Method::POST, name, &[]), "a program");
        assert!(!allowed(Method::POST, name, &[page]), "rebinding");
        assert!(!allowed(Method::POST, name, &[("sec-fetch-site", "same-origin")]), "rebinding");
        assert!(!allowed(Method::POST, name, &[("origin", "null")]));
        for (host, origin) in [
            ("10.0.0.7:7481", "http://10.0.0.7:7481"),
            ("10.0.0.7", "http://10.0.0.7"),
            ("[2001:db8::7]:7481", "http://[2001:db8::7]:7481"),
            ("localhost:7481", "http://localhost:7481"),
        ] {
            assert!(allowed(Method::POST, host, &[("origin", origin)]), "{host}");
            assert!(!allowed(Method::POST, host, &[page]), "{host}: another site");
        }
    }
}
