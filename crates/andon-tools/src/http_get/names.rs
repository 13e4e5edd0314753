//! Which hosts may be fetched from, and which addresses their names have.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::Rules;
use super::addresses::{Closed, closed};

/// Why a request was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("its scheme is {0}, and only http and https are supported")]
    Scheme(String),
    #[error("it has no host")]
    NoHost,
    #[error("it contains a user name or a password, which are never sent: leave them out")]
    Credentials,
    #[error("{host} is {kind}, and only the open internet is allowed")]
    Address { host: String, kind: &'static str },
    #[error("{name} resolves to {address}, which is {kind}, and only the open internet is allowed")]
    LeadsTo { name: String, address: IpAddr, kind: &'static str },
    #[error("there is no address for {0}")]
    NoAddress(String),
}

/// Names of metadata services and of this machine, wherever they lead.
const CLOSED_NAMES: [(&str, Closed); 6] = [
    ("metadata.google.internal", Closed::Metadata),
    ("metadata.goog", Closed::Metadata),
    ("metadata", Closed::Metadata),
    ("instance-data", Closed::Metadata),
    ("instance-data.ec2.internal", Closed::Metadata),
    ("localhost", Closed::Private("this machine")),
];

impl Rules {
    /// Whether a request may be made, as far as its URL shows: a name is looked up only on connecting.
    pub(super) fn check(&self, url: &Url) -> Result<(), Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        let found = match url.host().ok_or(Refused::NoHost)? {
            Host::Ipv4(address) => closed(address.into()),
            Host::Ipv6(address) => closed(address.into()),
            Host::Domain(name) => closed_name(&plain(name)),
        };
        let host = plain(url.host_str().unwrap_or_default());
        match found {
            Some(closed) if !self.allows(&host, closed) => Err(Refused::Address { host, kind: closed.kind() }),
            _ => Ok(()),
        }
    }

    fn allows(&self, host: &str, closed: Closed) -> bool {
        self.hosts.iter().any(|allowed| allowed == host) || (self.private && closed != Closed::Metadata)
    }

    /// Whether this is the name of the proxy, which is trusted.
    fn is_proxy(&self, name: &str) -> bool {
        self.proxy.as_ref().and_then(Url::host_str).is_some_and(|proxy| plain(proxy) == name)
    }

    /// The addresses of a name that may be connected to.
    fn open(&self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Result<Vec<IpAddr>, Refused> {
        let mut refused = None;
        let mut open = Vec::new();
        for address in addresses {
            match closed(address) {
                Some(closed) if !self.is_proxy(name) && !self.allows(name, closed) => {
                    refused = Some(Refused::LeadsTo { name: name.to_owned(), address, kind: closed.kind() });
                }
                _ => open.push(address),
            }
        }
        match refused {
            Some(refused) if open.is_empty() => Err(refused),
            None if open.is_empty() => Err(Refused::NoAddress(name.to_owned())),
            _ => Ok(open),
        }
    }
}

fn closed_name(name: &str) -> Option<Closed> {
    if name.ends_with(".localhost") {
        return Some(Closed::Private("this machine"));
    }
    CLOSED_NAMES.iter().find(|(closed, _)| *closed == name).map(|(_, closed)| *closed)
}

/// A host in the form that is compared: in lower case, without a final dot and without brackets.
pub(super) fn plain(host: &str) -> String {
    host.trim_end_matches('.').trim_start_matches('[').trim_end_matches(']').to_lowercase()
}

/// Looks names up, and returns only addresses that may be connected to.
impl Resolve for Rules {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = self.clone();
        Box::pin(async move {
            let plain = plain(name.as_str());
            let found = match rules.known.get(&plain) {
                Some(known) => known.clone(),
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.map(|address| address.ip()).collect(),
            };
            let open = rules.open(&plain, found)?;
            // Port 0 stands for the port of the request.
            let addresses: Addrs = Box::new(open.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rules: &Rules, url: &str) -> Option<String> {
        rules.check(&Url::parse(url).unwrap()).err().map(|refused| refused.to_string())
    }

    #[test]
    fn a_url_is_refused_however_its_host_is_written() {
        let rules = Rules::default();
        let kinds = [
            ("http://127.0.0.1/", "127.0.0.1 is a loopback address"),
            ("http://2130706433/", "127.0.0.1 is a loopback address"),
            ("http://0x7f.1/", "127.0.0.1 is a loopback address"),
            ("http://0177.0.0.1./", "127.0.0.1 is a loopback address"),
            ("http://127.1/", "127.0.0.1 is a loopback address"),
            ("http://[::1]/", "::1 is a loopback address"),
            ("http://[::ffff:127.0.0.1]/", "::ffff:7f00:1 is a loopback address"),
            ("http://localhost/", "localhost is this machine"),
            ("http://LOCALHOST.:80/", "localhost is this machine"),
            ("http://a.localhost/", "a.localhost is this machine"),
            ("http://169.254.169.254/latest", "169.254.169.254 is the metadata service of a cloud"),
            ("http://[fd00:ec2::254]/", "fd00:ec2::254 is the metadata service of a cloud"),
            ("http://metadata.google.internal./", "metadata.google.internal is the metadata service of a cloud"),
            ("https://10.1.2.3/", "10.1.2.3 is a private address"),
            ("https://192。168。0。1/", "192.168.0.1 is a private address"),
        ];
        for (url, kind) in kinds {
            let expected = format!("{kind}, and only the open internet is allowed");
            assert_eq!(refused(&rules, url), Some(expected), "{url}");
        }
        assert_eq!(refused(&rules, "http://ada:secret@example.org/"), Some(Refused::Credentials.to_string()));
        assert_eq!(refused(&rules, "http://ada@example.org/"), Some(Refused::Credentials.to_string()));
        for (url, scheme) in
            [("file:///etc/passwd", "file"), ("ftp://example.org/", "ftp"), ("data:text/plain,a", "data")]
        {
            assert_eq!(
                refused(&rules, url),
                Some(format!("its scheme is {scheme}, and only http and https are supported"))
            );
        }
        assert_eq!(refused(&rules, "https://example.org/a?b#c"), None);
        assert_eq!(refused(&rules, "http://8.8.8.8:8080/"), None);
    }

    #[test]
    fn private_addresses_can_be_allowed_and_metadata_services_only_by_name() {
        let private = Rules { private: true, ..Rules::default() };
        assert_eq!(refused(&private, "http://127.0.0.1/"), None);
        assert_eq!(refused(&private, "http://localhost/"), None);
        assert!(refused(&private, "http://169.254.169.254/").is_some());
        assert!(refused(&private, "http://[::ffff:169.254.169.254]/").is_some());
        let host = Rules { hosts: vec!["169.254.169.254".into(), "::1".into()], ..Rules::default() };
        assert_eq!(refused(&host, "http://169.254.169.254/"), None);
        assert_eq!(refused(&host, "http://[::1]/"), None);
        assert!(refused(&host, "http://127.0.0.1/").is_some());
    }

    #[test]
    fn only_the_open_addresses_of_a_name_are_connected_to() {
        let rules = Rules::default();
        let addresses = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let mixed = addresses(&["10.0.0.1", "8.8.8.8", "::1", "169.254.169.254"]);
        assert_eq!(rules.open("example.org", mixed), Ok(addresses(&["8.8.8.8"])));
        let refused = rules.open("example.org", addresses(&["169.254.169.254"])).unwrap_err().to_string();
        let expected = "example.org resolves to 169.254.169.254, which is the metadata service of a cloud, and only the open \
                        internet is allowed";
        assert_eq!(refused, expected);
        assert_eq!(rules.open("example.org", []), Err(Refused::NoAddress("example.org".into())));
    }
}
