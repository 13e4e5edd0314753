//! Proxies: who is reached past them.

use std::net::IpAddr;

use url::{Host, Url};

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
