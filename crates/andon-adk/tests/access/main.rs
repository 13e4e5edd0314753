//! Who may call what, in the native API and in ADK's dialect.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod board;
mod leave;
mod table;
mod tenant;

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};

use crate::table::World;

/// A path with a value for each of its parameters.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_row_of_the_table_is_served_with_its_methods_and_no_others() {
    let world = World::new().await;
    let admin = world.server.owner_key().unwrap().show();
    let rows = world.server.routes();
    for path in rows.iter().map(|row| row.path).collect::<BTreeSet<_>>() {
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let is_it = |known: &Method| *known == method;
            let is_listed = rows.iter().any(|row| row.path == path && row.method.as_ref().is_none_or(is_it));
            let status = table::raw(&world.router, Some(admin), &method, &filled(path), None).await.status();
            let is_served = status != StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(is_listed, is_served, "{method} {path} answers {status}");
        }
    }
}
