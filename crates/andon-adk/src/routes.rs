//! All routes of the dialect, and what each requires of its caller.

use andon_server::Scope::{RunCreate, RunRead};
use andon_server::dialect::Need::{self, Feed, Known, Public};
use andon_server::dialect::Row;
use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{self, MethodRouter};

use crate::core::Shared;
use crate::{about, artifacts, cancel, dev, live, run, sessions, trace, ui};

/// A route: its method and path with what they require, and its handler.
type Route = (Row, MethodRouter<Shared>);

const READ: Need = Need::Scope(RunRead);
const CREATE: Need = Need::Scope(RunCreate);

/// All routes.
pub(crate) fn all() -> Vec<Route> {
    vec![
        get("/health", Public, about::health),
        get("/version", Public, about::version),
        get("/list-apps", READ, about::list),
        get("/apps/{app}/app-info", READ, about::info),
        post("/run", CREATE, run::run),
        post("/run_sse", CREATE, run::run_sse),
        get("/run_live", Feed(RunCreate), live::run_live),
        // Only the page's code: it must ask the API for whatever it shows.
        get("/dev-ui", Known, ui::to_page),
        get("/dev-ui/", Known, ui::index),
        get("/dev-ui/assets/config/runtime-config.json", Known, ui::config),
        get("/dev-ui/{*file}", Known, ui::file),
        get("/apps/{app}/users/{user}/sessions", READ, sessions::list),
        post("/apps/{app}/users/{user}/sessions", CREATE, sessions::create),
        get("/apps/{app}/users/{user}/sessions/{session}", READ, sessions::one),
        // It creates a session, or cancels what runs in one.
        post("/apps/{app}/users/{user}/sessions/{session}", Known, cancel::dispatch),
        // The answer is the whole conversation.
        patch("/apps/{app}/users/{user}/sessions/{session}", Need::Both(RunCreate, RunRead), sessions::change),
        delete("/apps/{app}/users/{user}/sessions/{session}", CREATE, sessions::delete),
        get("/apps/{app}/users/{user}/sessions/{session}/artifacts", READ, artifacts::names),
        post("/apps/{app}/users/{user}/sessions/{session}/artifacts", CREATE, artifacts::save),
        get("/apps/{app}/users/{user}/sessions/{session}/artifacts/{*rest}", READ, artifacts::look),
        delete("/apps/{app}/users/{user}/sessions/{session}/artifacts/{*rest}", CREATE, artifacts::delete),
        patch("/apps/{app}/users/{user}/memory", CREATE, artifacts::no_memory),
        get("/config/telemetry", READ, dev::consent),
        post("/config/telemetry", READ, dev::set_consent),
        get("/dev/apps/{app}/build_graph", READ, dev::tree),
        get("/dev/apps/{app}/build_graph_image", READ, dev::pictures),
        get("/dev/apps/{app}/graph", READ, dev::picture),
        get("/dev/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph", READ, dev::event_picture),
        get("/dev/apps/{app}/builder", READ, dev::no_builder_file),
        get("/dev/apps/{app}/eval_sets", READ, dev::empty_list),
        get("/dev/apps/{app}/eval_results", READ, dev::empty_list),
        get("/dev/apps/{app}/eval-results", READ, dev::no_eval_results),
        get("/dev/apps/{app}/tests", READ, dev::empty_list),
        get("/dev/apps/{app}/metrics-info", READ, dev::no_metrics),
        get("/dev/apps/{app}/debug/trace/session/{session}", READ, trace::of_session),
        get("/dev/apps/{app}/debug/trace/{event}", READ, trace::of_event),
        (Row::any("/dev/apps/{app}/eval-sets", READ), routing::get(dev::no_eval_sets).fallback(dev::not_implemented)),
        not_implemented("/dev/apps/{app}/builder/{*rest}"),
        not_implemented("/dev/apps/{app}/eval_sets/{*rest}"),
        not_implemented("/dev/apps/{app}/eval-sets/{*rest}"),
        not_implemented("/dev/apps/{app}/eval_results/{*rest}"),
        not_implemented("/dev/apps/{app}/eval-results/{*rest}"),
        not_implemented("/dev/apps/{app}/tests/{*rest}"),
        not_implemented("/dev/apps/{app}/deploy/{*rest}"),
        not_implemented("/agent-identity/finalize"),
    ]
}

fn get<T: 'static>(path: &'static str, need: Need, handler: impl Handler<T, Shared>) -> Route {
    (Row::new(Method::GET, path, need), routing::get(handler))
}

fn post<T: 'static>(path: &'static str, need: Need, handler: impl Handler<T, Shared>) -> Route {
    (Row::new(Method::POST, path, need), routing::post(handler))
}

fn patch<T: 'static>(path: &'static str, need: Need, handler: impl Handler<T, Shared>) -> Route {
    (Row::new(Method::PATCH, path, need), routing::patch(handler))
}

fn delete<T: 'static>(path: &'static str, need: Need, handler: impl Handler<T, Shared>) -> Route {
    (Row::new(Method::DELETE, path, need), routing::delete(handler))
}

/// A path of ADK's that does nothing here, whatever the method.
fn not_implemented(path: &'static str) -> Route {
    (Row::any(path, Known), routing::any(dev::not_implemented))
}

pub(crate) fn router() -> Router<Shared> {
    all().into_iter().fold(Router::new(), |router, (row, methods)| router.route(row.path, methods))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::belongs_to_adk;

    fn rows() -> Vec<Row> {
        all().into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn no_route_has_two_rows() {
        let rows = rows();
        for row in &rows {
            let same = rows.iter().filter(|other| (&other.method, other.path) == (&row.method, row.path)).count();
            assert_eq!(same, 1, "{row:?}");
        }
    }

    #[test]
    fn only_health_and_the_version_are_open_to_all() {
        let open = rows().into_iter().filter(|row| row.need == Public).map(|row| row.path);
        assert_eq!(open.collect::<Vec<_>>(), ["/health", "/version"]);
    }

    #[test]
    fn every_route_is_at_a_path_of_adks() {
        assert!(rows().iter().all(|row| belongs_to_adk(row.path)));
    }
}
