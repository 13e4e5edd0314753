use andon_runtime::Runtime;
use axum::extract::Request;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::{Options, Server};

#[tokio::test]
async fn a_defect_is_told_in_the_words_of_its_path() {
    let runtime = Runtime::builder().one_lane().build();
    let server = Server::new(&runtime, Options::default()).await.unwrap();
    let defective = || get(async || -> StatusCode { panic!("a defect") });
    let routes = Router::new().route("/dev/defect", defective()).route("/v1/defect", defective());
    let router = guarded(routes, &server.core);
    for (path, kind) in [("/dev/defect", "text/plain; charset=utf-8"), ("/v1/defect", "application/problem+json")] {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["content-type"]),
            (StatusCode::INTERNAL_SERVER_ERROR, &HeaderValue::from_static(kind))
        );
        let told = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(told == "Internal Server Error", path == "/dev/defect", "{told:?}");
    }
}
