//! A provider's base address, from whatever its users write for one.

use url::Url;

use super::setup::SetupError;
use crate::names::Facts;

/// The base address, from the user's or the provider's own.
pub(super) fn base(facts: &Facts, set: Option<String>) -> Result<Url, SetupError> {
    let text = match (set, facts.base) {
        (Some(text), _) => text,
        (None, Some(own)) => own.to_owned(),
        (None, None) => {
            let variable = facts.base_variables.first().copied().unwrap_or_default();
            return Err(SetupError::MissingAddress { provider: facts.name, variable });
        }
    };
    let text = facts.dialect.completed(text.trim());
    parse(&text).map(|url| facts.dialect.base(url)).map_err(|wrong| SetupError::BadAddress {
        provider: facts.name,
        // The part before an @ may be a password, and the part after a ? a key.
        address: Some(text).filter(|text| !text.contains(['@', '?']) && text.len() <= 200),
        wrong,
    })
}

fn parse(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => "it must begin with https:// or http://".to_owned(),
        other => other.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("it must begin with https:// or http://, not {}:", url.scheme()));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("it has no host".to_owned());
    }
    if url.fragment().is_some() {
        return Err("remove the # and what follows it, which would not be sent".to_owned());
    }
    Ok(url)
}
