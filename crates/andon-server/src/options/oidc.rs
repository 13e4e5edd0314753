//! The issuer whose tokens a server accepts.

use reqwest::Url;

/// An issuer whose tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oidc {
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) jwks: Option<String>,
    pub(crate) tenant_claim: Option<String>,
}

/// Why an issuer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum OidcError {
    /// The address is not valid, or somebody else could answer in its place.
    #[error("{0:?} is not a valid issuer address: it must begin with https://, or with http:// on this machine")]
    Address(String),
    /// Without an audience, every token of the issuer would be accepted, whomever it is meant for.
    #[error("an audience is required: without one, tokens that are meant for others would be accepted")]
    NoAudience,
}

impl Oidc {
    /// Accepts tokens of this issuer for this audience.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Result<Self, OidcError> {
        let (issuer, audience) = (issuer.into(), audience.into());
        checked(&issuer)?;
        if audience.is_empty() {
            return Err(OidcError::NoAudience);
        }
        Ok(Self { issuer, audience, jwks: None, tenant_claim: None })
    }

    /// Sets the address of the issuer's keys. By default, it is taken from the issuer's own description.
    pub fn jwks(self, address: impl Into<String>) -> Result<Self, OidcError> {
        let address = address.into();
        checked(&address)?;
        Ok(Self { jwks: Some(address), ..self })
    }

    /// Sets the claim that names the tenant. Tokens without it are then refused. By default, all tokens are for
    /// `local`.
    pub fn tenant_claim(self, claim: impl Into<String>) -> Self {
        Self { tenant_claim: Some(claim.into()), ..self }
    }
}

fn checked(address: &str) -> Result<(), OidcError> {
    let url = Url::parse(address).ok().filter(is_safe);
    url.map(drop).ok_or_else(|| OidcError::Address(without_secret(address)))
}

/// An address without anything that may be a password.
fn without_secret(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
            format!("{scheme}…@{host}")
        }
        None => address.to_owned(),
    }
}

/// Whether nobody else can answer in place of this address.
pub(crate) fn is_safe(url: &Url) -> bool {
    let is_plain = url.username().is_empty() && url.password().is_none();
    is_plain && url.has_host() && (url.scheme() == "https" || (url.scheme() == "http" && is_here(url)))
}

/// Whether an address is on this machine.
pub(crate) fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_not_told_back() {
        for address in ["https://u:secret@id.example/realm", "u:secret@id.example", "https://secret@id.example"] {
            let told = Oidc::new(address, "andon").unwrap_err().to_string();
            assert!(!told.contains("secret") && told.contains("id.example"), "{told}");
        }
        assert!(Oidc::new("http://id.example", "andon").unwrap_err().to_string().contains("http://id.example"));
    }

    #[test]
    fn an_issuer_is_asked_over_tls_or_on_this_machine() {
        let is_safe = |text: &str| Url::parse(text).is_ok_and(|url| is_safe(&url));
        for safe in ["https://id.example/realm", "http://localhost:9", "http://127.0.0.1:9/x", "http://[::1]:9"] {
            assert!(is_safe(safe), "{safe}");
        }
        for unsafe_ in ["http://id.example", "file:///etc/passwd", "ftp://id.example", "https://a:b@id.example", "id"] {
            assert!(!is_safe(unsafe_), "{unsafe_}");
        }
    }
}
