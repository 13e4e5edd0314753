//! All routes of the dialect, and what each requires of its caller.

use andon_server::Scope::{RunCreate, RunRead};
use andon_server::dialect::Need::{self, Feed, Public};
use andon_server::dialect::Row;
use axum::Router;
use axum::http::Method;
use axum::routing::{get, post};

use crate::{Route, Shared, about, artifacts, cancel, dev, live, run, sessions, ui};

/// What each route requires.
pub(crate) const ROWS: &[Row] = &[
    Row::new(Method::GET, "/health", Public),
    Row::new(Method::GET, "/version", Public),
    Row::new(Method::GET, "/list-apps", Need::Scope(RunRead)),
    Row::new(Method::GET, "/apps/{app}/app-info", Need::Scope(RunRead)),
    Row::new(Method::POST, "/run", Need::Scope(RunCreate)),
    Row::new(Method::POST, "/run_sse", Need::Scope(RunCreate)),
    Row::new(Method::GET, "/run_live", Feed(RunCreate)),
    // Only the page's code: it must ask the API for whatever it shows.
    Row::new(Method::GET, "/dev-ui", Need::Known),
    Row::new(Method::GET, "/dev-ui/", Need::Known),
    Row::new(Method::GET, "/dev-ui/assets/config/runtime-config.json", Need::Known),
    Row::new(Method::GET, "/dev-ui/{*file}", Need::Known),
    Row::new(Method::GET, "/apps/{app}/users/{user}/sessions", Need::Scope(RunRead)),
    Row::new(Method::POST, "/apps/{app}/users/{user}/sessions", Need::Scope(RunCreate)),
    Row::new(Method::GET, "/apps/{app}/users/{user}/sessions/{session}", Need::Scope(RunRead)),
    // It creates a session, or cancels what runs in one.
    Row::new(Method::POST, "/apps/{app}/users/{user}/sessions/{session}", Need::Known),
    // The answer is the whole conversation.
    Row::new(Method::PATCH, "/apps/{app}/users/{user}/sessions/{session}", Need::Both(RunCreate, RunRead)),
    Row::new(Method::DELETE, "/apps/{app}/users/{user}/sessions/{session}", Need::Scope(RunCreate)),
    Row::new(Method::GET, "/apps/{app}/users/{user}/sessions/{session}/artifacts", Need::Scope(RunRead)),
    Row::new(Method::POST, "/apps/{app}/users/{user}/sessions/{session}/artifacts", Need::Scope(RunCreate)),
    Row::new(Method::GET, "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*rest}", Need::Scope(RunRead)),
    Row::new(Method::DELETE, "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*rest}", Need::Scope(RunCreate)),
    Row::new(Method::PATCH, "/apps/{app}/users/{user}/memory", Need::Scope(RunCreate)),
    Row::new(Method::GET, "/config/telemetry", Need::Scope(RunRead)),
    Row::new(Method::POST, "/config/telemetry", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/build_graph", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/build_graph_image", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/graph", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/builder", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/eval_sets", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/eval_results", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/eval-results", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/tests", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/metrics-info", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/debug/trace/session/{session}", Need::Scope(RunRead)),
    Row::new(Method::GET, "/dev/apps/{app}/debug/trace/{event}", Need::Scope(RunRead)),
    // Paths that accept every method.
    Row::any("/dev/apps/{app}/eval-sets", Need::Scope(RunRead)),
    Row::any("/dev/apps/{app}/builder/{*rest}", Need::Known),
    Row::any("/dev/apps/{app}/eval_sets/{*rest}", Need::Known),
    Row::any("/dev/apps/{app}/eval-sets/{*rest}", Need::Known),
    Row::any("/dev/apps/{app}/eval_results/{*rest}", Need::Known),
    Row::any("/dev/apps/{app}/eval-results/{*rest}", Need::Known),
    Row::any("/dev/apps/{app}/tests/{*rest}", Need::Known),
    Row::any("/dev/apps/{app}/deploy/{*rest}", Need::Known),
    Row::any("/agent-identity/finalize", Need::Known),
];

/// All routes.
fn routes() -> Vec<Route> {
    let all = [runs(), about::routes(), sessions::routes(), artifacts::routes(), dev::routes(), ui::routes()];
    all.into_iter().flatten().collect()
}

/// The routes that start and stop runs.
fn runs() -> Vec<Route> {
    vec![
        ("/run", post(run::run)),
        ("/run_sse", post(run::run_sse)),
        ("/run_live", get(live::run_live)),
        ("/apps/{app}/users/{user}/sessions/{session}", post(cancel::dispatch)),
    ]
}

pub(crate) fn router() -> Router<Shared> {
    routes().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::words::belongs_to_adk;

    #[test]
    fn every_route_has_a_row_and_every_row_a_route() {
        let served: BTreeSet<_> = routes().into_iter().map(|(path, _)| path).collect();
        assert_eq!(ROWS.iter().map(|row| row.path).collect::<BTreeSet<_>>(), served);
    }

    #[test]
    fn no_route_has_two_rows() {
        for row in ROWS {
            let same = ROWS.iter().filter(|other| (&other.method, other.path) == (&row.method, row.path)).count();
            assert_eq!(same, 1, "{row:?}");
        }
    }

    #[test]
    fn only_health_and_the_version_are_open_to_all() {
        let open = ROWS.iter().filter(|row| row.need == Public).map(|row| row.path);
        assert_eq!(open.collect::<Vec<_>>(), ["/health", "/version"]);
    }

    #[test]
    fn every_route_is_at_a_path_of_adks() {
        assert!(ROWS.iter().all(|row| belongs_to_adk(row.path)));
    }
}
