//! Fetches the issuer's description and its keys.

use reqwest::{Client, Url, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PATIENCE;
use super::jwks::IssuerKey;
use crate::options::oidc::{Oidc, is_here, is_safe};

/// The maximum size of an issuer's response, in bytes.
const MOST: usize = 256 << 10;

/// The part of an issuer's description that we need.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// The keys that the issuer signs with.
pub(super) async fn keys(settings: &Oidc) -> Result<Vec<IssuerKey>, String> {
    let address = match &settings.jwks {
        Some(address) => address.clone(),
        None => discovered(&settings.issuer).await?,
    };
    let KeySet { keys } = read(&address).await?;
    // Keys of a kind that we do not use are skipped.
    Ok(keys.into_iter().filter_map(IssuerKey::read).collect())
}

async fn discovered(issuer: &str) -> Result<String, String> {
    let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let discovery: Discovery = read(&address).await?;
    if discovery.issuer != issuer {
        return Err("its discovery document names another issuer".to_owned());
    }
    Ok(discovery.jwks_uri)
}

async fn read<T: DeserializeOwned>(address: &str) -> Result<T, String> {
    let url =
        Url::parse(address).ok().filter(is_safe).ok_or("its address must be https://, or http:// on this machine")?;
    let client = Client::builder().redirect(redirect::Policy::none()).timeout(PATIENCE);
    // An issuer on this machine is not reached through a proxy.
    let client = if is_here(&url) { client.no_proxy() } else { client };
    let client = client.build().map_err(|error| error.to_string())?;
    let mut response = client.get(url).send().await.map_err(|error| error.without_url().to_string())?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(format!("it responded with {}", response.status()));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| error.without_url().to_string())? {
        if body.len() + piece.len() > MOST {
            return Err("its response is too large".to_owned());
        }
        body.extend_from_slice(&piece);
    }
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}
