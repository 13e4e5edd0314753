//! The claims of a token, checked after its signature.

use std::sync::Arc;

use andon_runtime::SessionId;
use andon_runtime::core::id::LOCAL;
use andon_runtime::core::time::Wall;
use serde_json::{Map, Value};

use crate::access::principal::{Pass, Principal};
use crate::access::scopes::{Scope, Scopes};
use crate::options::oidc::Oidc;

/// How far the issuer's clock may be ahead of ours, in seconds. There is no such tolerance for the expiry time.
const AHEAD: f64 = 30.0;

/// Whose token it is; `None` if it is not meant for us or not valid now.
pub(super) fn principal(claims: &Map<String, Value>, settings: &Oidc, now: Wall) -> Option<Principal> {
    if text(claims, "iss")? != settings.issuer || !is_for(claims.get("aud")?, &settings.audience) {
        return None;
    }
    let end = ending(claims, now)?;
    let name = id(text(claims, "sub")?)?;
    let tenant = match &settings.tenant_claim {
        Some(claim) => id(text(claims, claim)?)?,
        None => LOCAL.into(),
    };
    let user = Some(Arc::clone(&name));
    Some(Principal { tenant, name, user, scopes: scopes(claims), pass: Pass::Until(end) })
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    claims.get(name)?.as_str()
}

fn id(text: &str) -> Option<Arc<str>> {
    SessionId::new(text).is_ok().then(|| text.into())
}

fn is_for(audience: &Value, own: &str) -> bool {
    match audience {
        Value::String(audience) => audience == own,
        Value::Array(all) => all.iter().any(|audience| audience == own),
        _ => false,
    }
}

/// When a token expires; `None` if it has already expired or is not valid yet.
fn ending(claims: &Map<String, Value>, now: Wall) -> Option<Wall> {
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far from where it would matter")]
    let seconds = now.0 as f64 / 1e6;
    let end = claims.get("exp")?.as_f64()?;
    let begins = match claims.get("nbf") {
        None => 0.0,
        Some(begins) => begins.as_f64()?,
    };
    if seconds >= end || begins > seconds + AHEAD {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is later than now, and saturates")]
    Some(Wall((end * 1e6) as u64))
}

/// The scopes of a token, from `scope` or from the lists that other issuers use. Unknown words belong to other services
/// and are ignored.
fn scopes(claims: &Map<String, Value>) -> Scopes {
    let words = ["scope", "scp", "permissions"].into_iter().filter_map(|name| claims.get(name));
    let words = words.flat_map(|value| match value {
        Value::String(words) => words.split_whitespace().collect(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    });
    words.filter_map(|word| word.parse::<Scope>().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claims(change: Value) -> Option<Principal> {
        let mut claims = json!({"iss": "https://id.example", "aud": "andon", "sub": "ada", "exp": 2000, "nbf": 900});
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let settings = Oidc::new("https://id.example", "andon").unwrap();
        principal(claims.as_object().unwrap(), &settings, Wall(1_000_000_000))
    }

    #[test]
    fn scopes_are_read_as_issuers_write_them_and_other_words_are_left_alone() {
        for scopes in [
            json!({"scope": "openid run:read profile run:cancel"}),
            json!({"scp": ["run:read", "run:cancel", "files.read"]}),
            json!({"permissions": ["run:cancel"], "scp": "run:read"}),
        ] {
            assert_eq!(claims(scopes).unwrap().scopes.words(), ["run:read", "run:cancel"]);
        }
        assert!(claims(json!({"scope": 7})).unwrap().scopes.is_empty());
    }

    #[test]
    fn a_token_counts_from_its_beginning_to_its_end() {
        assert!(matches!(claims(json!({})).unwrap().pass, Pass::Until(Wall(2_000_000_000))));
        assert!(claims(json!({"nbf": 1030})).is_some() && claims(json!({"exp": 1000.5})).is_some());
        for wrong in [
            json!({"exp": 1000}),
            json!({"exp": "2000"}),
            json!({"exp": null}),
            json!({"exp": -1}),
            json!({"nbf": 1031}),
            json!({"nbf": "now"}),
            json!({"iss": ["https://id.example"]}),
            json!({"iss": "https://id.example/"}),
            json!({"aud": ["other"]}),
            json!({"aud": {"andon": true}}),
            json!({"sub": ""}),
            json!({"sub": "a/b"}),
            json!({"sub": 7}),
        ] {
            assert!(claims(wrong.clone()).is_none(), "{wrong}");
        }
    }
}
