use andon_runtime::Runtime;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::dialect::Row;

/// A minimal dialect.
struct Terse;

impl Dialect for Terse {
    fn rows(&self) -> Vec<Row> {
        Vec::new()
    }

    fn router(&self, _: &Host) -> Router {
        Router::new()
    }

    fn speaks(&self, path: &str) -> bool {
        path.starts_with("/terse/")
    }

    fn in_own_words(&self, refusal: Response) -> Response {
        (refusal.status(), "no").into_response()
    }
}

#[tokio::test]
async fn a_defect_is_told_in_the_words_of_its_path() {
    let runtime = Runtime::builder().one_lane().build();
    let server = Server::with_dialects(&runtime, Options::default(), vec![Arc::new(Terse)]).await.unwrap();
    let defective = || get(async || -> StatusCode { panic!("a defect") });
    let routes = Router::new().route("/terse/defect", defective()).route("/v1/defect", defective());
    let router = guarded(routes, &server, &server.dialects, Asked::Nobody);
    for (path, kind) in [("/terse/defect", "text/plain; charset=utf-8"), ("/v1/defect", "application/problem+json")] {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["content-type"]),
            (StatusCode::INTERNAL_SERVER_ERROR, &HeaderValue::from_static(kind))
        );
        let told = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(told == "no", path == "/terse/defect", "{told:?}");
    }
}
