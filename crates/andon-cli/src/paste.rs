//! What commands for people to paste into a shell are made of.

use reqwest::Url;

/// The command that starts this program again.
pub(crate) fn program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    match std::env::current_exe() {
        // It was started by its path, so its name alone may not find it.
        Ok(program) if called.contains('/') => quoted(&program.to_string_lossy()),
        _ => "andon".to_owned(),
    }
}

/// A text quoted as one word for a shell.
pub(crate) fn quoted(text: &str) -> String {
    // Only a text with a NUL cannot be quoted, and no shell could take that.
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), Into::into)
}

/// An address without its user name and password, for terminals and logs.
pub(crate) fn without_secret(address: &str) -> String {
    if !address.contains('@') {
        return address.to_owned();
    }
    if !address.contains("://") {
        return without_secret(&format!("http://{address}"));
    }
    if let Ok(mut url) = Url::parse(address)
        && url.has_host()
        && url.set_username("").is_ok()
        && url.set_password(None).is_ok()
    {
        return url.as_str().trim_end_matches('/').to_owned();
    }
    // It does not parse: whatever is before the last @ may be a password.
    let scheme = address.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
    format!("{scheme}{}", address.rsplit('@').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_can_be_pasted_into_a_shell() {
        let texts = ["plain-1", "two words", "it's", ""].map(quoted);
        assert_eq!(texts, ["plain-1", "'two words'", "\"it's\"", "''"]);
    }
}
