//! A small OpenID Connect issuer with real keys, and all kinds of tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as Rsa, KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
};
use aws_lc_rs::{encoding, hmac};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A signing key.
pub(crate) enum Signer {
    Rsa(Box<Rsa>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn rsa() -> Self {
        Self::Rsa(Box::new(Rsa::generate(KeySize::Rsa2048).unwrap()))
    }

    pub(crate) fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn p384() -> Self {
        Self::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().unwrap())
    }

    /// The public key, as issuers publish it.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let ec = |pair: &EcdsaKeyPair, curve: &str| {
            let point = pair.public_key().as_ref();
            let (x, y) = point[1..].split_at((point.len() - 1) / 2);
            json!({"kty": "EC", "crv": curve, "x": b64(x), "y": b64(y), "kid": kid})
        };
        match self {
            Self::Rsa(pair) => {
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "n": b64(n), "e": b64(e), "kid": kid, "use": "sig"})
            }
            Self::P256(pair) => ec(pair, "P-256"),
            Self::P384(pair) => ec(pair, "P-384"),
            Self::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key().as_ref()), "kid": kid})
            }
        }
    }

    /// The public key as DER and as PEM, which a verifier that confuses algorithms would take for a shared secret.
    pub(crate) fn public(&self) -> (Vec<u8>, String) {
        let Self::Rsa(pair) = self else { panic!("only RSA keys are confused") };
        let der: encoding::PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        let der = der.as_ref().to_vec();
        let lines: Vec<String> =
            STANDARD.encode(&der).as_bytes().chunks(64).map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"));
        (der, pem)
    }

    fn sign(&self, alg: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let padding: &'static dyn aws_lc_rs::signature::RsaEncoding = match alg {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
            Self::P256(pair) | Self::P384(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with this header and these claims.
    pub(crate) fn token(&self, head: Value, claims: &Value) -> String {
        let message = format!("{}.{}", b64(head.to_string()), b64(claims.to_string()));
        let signature = self.sign(head["alg"].as_str().unwrap_or_default(), message.as_bytes());
        format!("{message}.{}", b64(signature))
    }
}

/// A token signed with a shared secret (HMAC).
pub(crate) fn hashed(head: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = format!("{}.{}", b64(head.to_string()), b64(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", b64(tag))
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A running issuer.
pub(crate) struct LocalIssuer {
    pub(crate) url: String,
    /// The keys that it publishes.
    pub(crate) keys: Arc<Mutex<Value>>,
    /// How often its keys were fetched.
    pub(crate) asked: Arc<AtomicUsize>,
}

impl LocalIssuer {
    pub(crate) async fn with(keys: Vec<Value>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (keys, asked) = (Arc::new(Mutex::new(json!({"keys": keys}))), Arc::new(AtomicUsize::new(0)));
        let description = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let (published, counted) = (Arc::clone(&keys), Arc::clone(&asked));
        let published = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Json(published.lock().clone()))
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(move || std::future::ready(Json(description.clone()))))
            .route("/keys", get(published));
        #[expect(clippy::disallowed_methods, reason = "an issuer is a program of its own")]
        drop(tokio::spawn(async move { axum::serve(listener, router).await }));
        Self { url, keys, asked }
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The claims of a valid token.
    pub(crate) fn claims(&self) -> Value {
        json!({
            "iss": self.url, "aud": "andon", "sub": "ada", "scope": "openid run:read run:create",
            "exp": now() + 600, "nbf": now() - 10, "iat": now() - 10,
        })
    }

    /// The same claims, except for one.
    pub(crate) fn claims_but(&self, name: &str, value: Value) -> Value {
        let mut claims = self.claims();
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        claims
    }
}
