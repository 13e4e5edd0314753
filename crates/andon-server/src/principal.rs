//! Who asks. Until there is authentication everybody who reaches the server is the same.

use std::convert::Infallible;
use std::sync::Arc;

use andon::core::id::LOCAL;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// Who asks: whose data it is about, and under which name a cancel is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Whose data it may see.
    pub(crate) tenant: Arc<str>,
    /// Its name.
    pub(crate) name: Arc<str>,
}

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // Who checks a key leaves the principal here.
        let known = parts.extensions.get::<Self>().cloned();
        Ok(known.unwrap_or_else(|| Self { tenant: LOCAL.into(), name: LOCAL.into() }))
    }
}
