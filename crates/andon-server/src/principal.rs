//! Who asks. Until there is authentication everybody who reaches the server is the same.

use std::convert::Infallible;
use std::sync::Arc;

use andon::core::id::LOCAL;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};

/// Who asks: whose data it is about, and under which name a cancel is on record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use andon::{Agent, Runtime};
    use andon_testkit::{Act, ScriptedModel};
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use axum::{Extension, Router};
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Options, Server};

    async fn post(router: &Router, path: &str, body: Value) -> StatusCode {
        let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        router.clone().oneshot(request).await.unwrap().status()
    }

    /// One server as two tenants see it. Both have a user of the same name.
    async fn two() -> (Runtime, Router, Router) {
        let runtime = Runtime::builder().one_lane().build();
        let server = Server::new(&runtime, Options::default()).await.unwrap();
        let model = ScriptedModel::new([vec![Act::text("Once"), Act::Silence], vec![Act::text("Once"), Act::Silence]]);
        server.apps().put(Agent::builder().name("shop").model(model).runtime(&runtime).build().unwrap(), None);
        let of = |tenant: &str| {
            let principal = Principal { tenant: tenant.into(), name: "ada".into() };
            server.router().layer(Extension(principal))
        };
        (runtime.clone(), of("north"), of("south"))
    }

    /// Checks P9 and P11.
    #[tokio::test(start_paused = true)]
    async fn who_belongs_to_another_tenant_stops_nothing_and_learns_nothing() {
        let (runtime, north, south) = two().await;
        let order = json!({"app": "shop", "input": "Go.", "run_id": "r"});
        assert_eq!(post(&north, "/v1/runs", order).await, StatusCode::CREATED);
        for path in ["/v1/runs/r/cancel", "/v1/runs/r/calls/c/cancel", "/v1/runs/unknown/cancel"] {
            assert_eq!(post(&south, path, json!({})).await, StatusCode::NOT_FOUND, "{path}");
        }
        assert_eq!(post(&south, "/v1/cancel", json!({"all": true})).await, StatusCode::OK);
        let run = runtime.in_progress().remove(0);
        assert!(!run.cord().is_pulled());
        assert_eq!(post(&north, "/v1/runs/r/cancel", json!({})).await, StatusCode::ACCEPTED);
    }

    /// Checks P9 and P11.
    #[tokio::test(start_paused = true)]
    async fn a_cancel_that_another_tenant_left_for_an_id_stops_only_theirs() {
        let (runtime, north, south) = two().await;
        assert_eq!(post(&south, "/v1/runs/r/cancel", json!({})).await, StatusCode::NOT_FOUND);
        let order = json!({"app": "shop", "input": "Go.", "run_id": "r"});
        assert_eq!(post(&north, "/v1/runs", order).await, StatusCode::CREATED);
        assert!(!runtime.in_progress().remove(0).cord().is_pulled());
    }
}
