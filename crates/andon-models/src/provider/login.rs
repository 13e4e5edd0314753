//! The secrets in an address: a user and a password, and keys in its query.
//!
//! A password in an address is sent as Basic authorization. HTTP/1.1 would silently drop it, and HTTP/2 would send it as part of
//! the server's name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::secret::Secret;

/// Removes the user and the password from an address, and returns the header value that carries them instead.
pub(super) fn take(address: &mut Url) -> Option<Secret> {
    let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    let (user, password) = (address.username(), address.password());
    if user.is_empty() && password.is_none() {
        return None;
    }
    let login = [decoded(user).as_slice(), b":", decoded(password.unwrap_or_default()).as_slice()].concat();
    // These fail only for an address without a host, which was refused before.
    let _ = (address.set_username(""), address.set_password(None));
    Some(Secret::from(format!("Basic {}", STANDARD.encode(login))))
}

/// All secrets in an address, both as written and decoded.
pub(super) fn secrets(address: &Url) -> Vec<Secret> {
    let login = [Some(address.username()).filter(|_| address.password().is_none()), address.password()];
    let query = address.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let query = query.filter(|(name, _)| is_secret(name)).map(|(_, value)| value);
    let written: Vec<&str> = login.into_iter().flatten().chain(query).filter(|text| !text.is_empty()).collect();
    let meant = written.iter().map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned());
    written.iter().map(|text| (*text).to_owned()).chain(meant).map(Secret::from).collect()
}

/// Whether a query field is a secret, judged by its name. Others, such as a version, may be shown.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "code" || ["key", "token", "secret", "pass", "auth", "sig", "cred"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_are_taken_out_and_sent_as_they_are_meant() {
        for (address, login, left) in [
            ("http://user:p%40ss+word@host:8/v1?a=b", Some("user:p@ss+word"), "http://host:8/v1?a=b"),
            ("http://token@host/", Some("token:"), "http://host/"),
            ("http://:pw@host/", Some(":pw"), "http://host/"),
            ("http://host/", None, "http://host/"),
        ] {
            let mut address = Url::parse(address).unwrap();
            let taken = take(&mut address).map(|taken| taken.expose().to_owned());
            assert_eq!(taken, login.map(|login| format!("Basic {}", STANDARD.encode(login))), "{left}");
            assert_eq!(address.as_str(), left);
        }
    }

    #[test]
    fn what_is_secret_in_an_address_is_known_by_its_place_or_its_name() {
        let found = |address: &str| -> Vec<String> {
            secrets(&Url::parse(address).unwrap()).iter().map(|secret| secret.expose().to_owned()).collect()
        };
        assert_eq!(found("http://user:p%40ss@host/?api-version=2024-10-21"), ["p%40ss", "p@ss"]);
        assert_eq!(found("http://host/?Token=one&x=y&api_key=two%2F"), ["one", "two%2F", "one", "two/"]);
        assert_eq!(found("http://token@host/"), ["token", "token"]);
        assert_eq!(found("http://host/v1"), [] as [&str; 0]);
    }
}
