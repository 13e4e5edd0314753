//! Proxies: which one a request goes through, and what is reached without one.

use std::net::IpAddr;
use std::sync::LazyLock;

use hyper_util::client::proxy::matcher::Matcher;
use url::{Host, Url};

/// What the environment and the system say, read once, as the clients read it.
static SYSTEM: LazyLock<Matcher> = LazyLock::new(Matcher::from_system);

/// Host and port of the proxy that a request to this address goes through. Never its password.
pub(super) fn of(url: &Url) -> Option<String> {
    if is_here(url) {
        return None;
    }
    let proxy = SYSTEM.intercept(&url.as_str().parse().ok()?)?;
    let host = proxy.uri().host()?;
    Some(proxy.uri().port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Whether this is an address of this machine, which no proxy can reach for us.
pub(super) fn is_here(url: &Url) -> bool {
    let is_ours = |address: IpAddr| {
        let address = address.to_canonical();
        address.is_loopback() || address.is_unspecified()
    };
    match url.host() {
        Some(Host::Ipv4(address)) => is_ours(address.into()),
        Some(Host::Ipv6(address)) => is_ours(address.into()),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_every_name() {
        let is_here = |host: &str| is_here(&Url::parse(&format!("http://{host}:11434/api")).unwrap());
        for here in ["127.0.0.1", "127.3.2.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "LOCALHOST", "a.localhost."] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in ["10.0.0.1", "[fe80::1]", "localhost.example", "notlocalhost", "api.example"] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
