//! The dialect of ADK's server, at ADK's own paths: its clients and its web page work unchanged, and can be stopped.
//!
//! # Invariants
//!
//! 1. What a client is sent while a run goes on and what its session shows afterwards are made by one rendering of the run's
//!    own events. So they are the same.
//! 2. Whatever is refused is refused in ADK's words: `{"detail": …}`, with ADK's codes. [`words`] sees to that for all of them.

mod about;
mod artifacts;
mod cancel;
mod closing;
mod dev;
mod event;
mod form;
mod hand;
mod import;
mod live;
mod reach;
mod render;
mod request;
mod results;
mod run;
mod sessions;
mod story;
mod trace;
pub(crate) mod ui;
mod valid;
mod words;

pub(crate) use words::in_the_words_of_its_path;
#[cfg(test)]
pub(crate) use words::is_adks;

use axum::Router;
use axum::routing::{MethodRouter, get, post};

use crate::Shared;

/// A route: its path, and what it does for each method.
pub(crate) type Route = (&'static str, MethodRouter<Shared>);

/// All routes of the dialect.
pub(crate) fn routes() -> Vec<Route> {
    let all = [runs(), about::routes(), sessions::routes(), artifacts::routes(), dev::routes(), ui::routes()];
    all.into_iter().flatten().collect()
}

/// What starts runs.
fn runs() -> Vec<Route> {
    vec![("/run", post(run::run)), ("/run_sse", post(run::run_sse)), ("/run_live", get(live::run_live))]
}

/// All routes.
pub(crate) fn router() -> Router<Shared> {
    routes().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods))
}
