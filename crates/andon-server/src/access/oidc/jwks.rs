//! The issuer's keys, each with the signature algorithms it may be used for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Map, Value};

/// The minimum size of an RSA key, in bytes.
const LEAST_RSA: usize = 256;

/// The header of a token. Nothing else in it is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    algorithm: Algorithm,
    kid: Option<String>,
}

impl Head {
    /// `None` if it is not a token, or uses an algorithm that is not accepted.
    pub(super) fn of(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (head, _, signature, none) = (parts.next()?, parts.next()?, parts.next()?, parts.next());
        if none.is_some() || signature.is_empty() {
            return None;
        }
        let head: Map<String, Value> = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head).ok()?).ok()?;
        // We support no critical extensions.
        if head.contains_key("crit") {
            return None;
        }
        let kid = match head.get("kid") {
            None => None,
            Some(kid) => Some(kid.as_str()?.to_owned()),
        };
        Some(Self { algorithm: algorithm(head.get("alg")?.as_str()?)?, kid })
    }
}

/// The accepted signature algorithms: those with a public key.
fn algorithm(name: &str) -> Option<Algorithm> {
    let is_secret = |algorithm: &Algorithm| matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512);
    name.parse().ok().filter(|algorithm| !is_secret(algorithm))
}

/// One key of the issuer.
pub(super) struct IssuerKey {
    kid: Option<String>,
    /// The algorithms it may be used for.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl IssuerKey {
    /// `None` if it is a kind of key that we do not use.
    pub(super) fn read(key: Value) -> Option<Self> {
        let named = key.get("alg").cloned();
        let jwk: Jwk = serde_json::from_value(key).ok()?;
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let mut algorithms = own(&jwk.algorithm)?;
        if let Some(named) = named {
            let named = algorithm(named.as_str()?)?;
            algorithms.retain(|algorithm| *algorithm == named);
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        (!algorithms.is_empty()).then_some(Self { kid: jwk.common.key_id, algorithms, key })
    }

    /// Whether a token may have been signed with this key. A token that names no key may have been signed with any.
    pub(super) fn fits(&self, head: &Head) -> bool {
        (head.kid.is_none() || self.kid == head.kid) && self.algorithms.contains(&head.algorithm)
    }

    /// The claims of a token, if it was signed with this key.
    pub(super) fn claims(&self, head: &Head, token: &str) -> Option<Map<String, Value>> {
        let mut validation = Validation::new(head.algorithm);
        // We check the claims ourselves, against our own clock.
        validation.required_spec_claims.clear();
        (validation.validate_exp, validation.validate_aud) = (false, false);
        decode::<Map<String, Value>>(token, &self.key, &validation).ok().map(|token| token.claims)
    }
}

/// The signature algorithms that a key may be used for.
fn own(parameters: &AlgorithmParameters) -> Option<Vec<Algorithm>> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    match parameters {
        AlgorithmParameters::RSA(rsa) => {
            let modulus = URL_SAFE_NO_PAD.decode(&rsa.n).ok()?;
            let modulus = modulus.iter().skip_while(|byte| **byte == 0).count();
            (modulus >= LEAST_RSA).then(|| vec![RS256, RS384, RS512, PS256, PS384, PS512])
        }
        AlgorithmParameters::EllipticCurve(ec) => match ec.curve {
            EllipticCurve::P256 => Some(vec![ES256]),
            EllipticCurve::P384 => Some(vec![ES384]),
            _ => None,
        },
        AlgorithmParameters::OctetKeyPair(pair) => matches!(pair.curve, EllipticCurve::Ed25519).then(|| vec![EdDSA]),
        _ => None,
    }
}
