//! The dialect of ADK's server, at ADK's own paths: ADK's clients and web page work unchanged, and their runs can be stopped.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use andon_adk::Adk;
//! use andon_runtime::Runtime;
//! use andon_server::{Options, Server};
//!
//! let runtime = Runtime::builder().build();
//! let server = Server::with_dialects(&runtime, Options::default(), vec![Arc::new(Adk::default())]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! 1. One rendering of the run's own events makes both what a client is sent during a run and what its session shows afterwards.
//!    So they are the same.
//! 2. Every refusal is in ADK's words: `{"detail": …}`, with ADK's codes. `words.rs` ensures that for all of them.
//! 3. It acts on runs and sessions only through [`Host`]: it knows nothing of the server's internals.

mod about;
mod artifacts;
mod cancel;
mod closing;
mod core;
mod dev;
mod event;
mod feed_format;
mod form;
mod import;
mod live;
mod locks;
mod reach;
mod render;
mod request;
mod results;
mod routes;
mod run;
mod sessions;
mod story;
mod trace;
mod ui;
mod valid;
mod words;

use std::path::PathBuf;
use std::sync::Arc;

use andon_runtime::OnDisconnect;
use andon_server::dialect::{Dialect, Host, Row};
use axum::Router;
use axum::http::Method;
use axum::response::Response;

use crate::core::Core;
use crate::locks::KeyLocks;

pub use ui::{NoPage, has_page};

/// ADK's dialect and its settings.
#[derive(Debug, Clone)]
pub struct Adk {
    /// What happens to a run when its client disconnects: ADK's Stop button just closes the connection.
    pub on_disconnect: OnDisconnect,
    /// The folder of ADK's web page, if it is served: `google/adk/cli/browser` in the package `google-adk`.
    pub page: Option<PathBuf>,
}

impl Default for Adk {
    fn default() -> Self {
        Self { on_disconnect: OnDisconnect::Cancel, page: None }
    }
}

impl Dialect for Adk {
    fn rows(&self) -> Vec<Row> {
        routes::all().into_iter().map(|(row, _)| row).collect()
    }

    fn router(&self, host: &Host) -> Router {
        let core = Core {
            host: host.clone(),
            on_disconnect: self.on_disconnect,
            page: self.page.clone(),
            artifacts: KeyLocks::default(),
        };
        routes::router().with_state(Arc::new(core))
    }

    fn speaks(&self, path: &str) -> bool {
        words::belongs_to_adk(path)
    }

    fn in_own_words(&self, answer: Response) -> Response {
        words::in_adk_format(answer)
    }

    fn is_vital(&self, method: &Method, path: &str) -> bool {
        reach::is_vital(method, path)
    }

    fn refuses_session(&self, name: &str) -> Option<String> {
        let cancel = reach::CANCEL;
        reach::is_cancel(name)
            .then(|| format!("a name must not end in {cancel}, which cancels a session's runs: choose another"))
    }

    fn front_page(&self) -> Option<&'static str> {
        self.page.as_ref().map(|_| ui::PAGE)
    }

    fn check(&self) -> Result<(), String> {
        self.page.as_deref().map_or(Ok(()), |folder| has_page(folder).map_err(|error| error.to_string()))
    }
}
