//! The server as a part of another program: who asks, where it is, and which of its routes are served there.
//!
//! # Invariants
//!
//! 1. The program decides who sent a request. If it does not know, the request is refused with `401`, unless it carries
//!    a key and [`Options::auth`](crate::Options::auth) is on.
//! 2. No answer contains the path under which the server is mounted: addresses in answers are relative. So they are right
//!    under any prefix, and behind a proxy that strips one.
//! 3. The path with a slash at its end leads to the same as without one.
//! 4. Otherwise a route has one spelling, so that a proxy or a layer that looks at paths and closes one closes the route.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use crate::access::gate::{Asked, WhoAsks};
use crate::access::principal::Principal;
use crate::http::problem::Problem;
use crate::server::Server;
use crate::server::router::router;
use crate::server::serve::ServeError;

/// A part of what a server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Part {
    /// The native API at `/v1/…`, and its description at `/openapi.json`.
    Api,
    /// The web page at `/ui/`, to which `/` redirects. It needs [`Api`](Self::Api), which is served with it.
    Page,
    /// The [dialects](crate::dialect) that the server was created with, at their own paths.
    Dialects,
    /// `/healthz`, `/readyz` and `/metrics`.
    Operations,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::Api, Self::Page, Self::Dialects, Self::Operations];
}

/// Why a server cannot be mounted.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum MountError {
    /// It cannot be mounted at that path.
    #[error(
        "a server cannot be mounted at {0:?}: use `/` or a path such as `/agents`, of letters, digits and any of - . _ ~, \
         without parameters"
    )]
    BadPath(String),
    /// Nothing would be served.
    #[error("no part of the server would be served: name one, such as Part::Api")]
    NoPart,
    /// Something that it serves is missing.
    #[error(transparent)]
    NotReady(#[from] ServeError),
}

/// A server that is about to be mounted. Made by [`Server::mount`].
#[must_use = "nothing is served until its router is part of yours"]
pub struct Mount {
    server: Server,
    path: String,
    who: WhoAsks,
    parts: Vec<Part>,
    sign_in: Option<String>,
}

impl Server {
    /// Mounts the server in a program of your own, which says who sends each request. `path` is where it is mounted, such
    /// as `/agents`; `who` is called for each request that is not open to everybody, and a request that it cannot identify
    /// is refused with `401`. It sees what your own layers put among a request's extensions, so your
    /// own sign-in can look its users up however it likes.
    ///
    /// Hosts, origins, and the size and time of bodies are checked as in [`serve`](Self::serve); what only an accept loop
    /// can check (heads that never end, readers that stall) is left to yours. [Shut the server down](Self::shut_down)
    /// before the program ends.
    ///
    /// ```
    /// use andon_runtime::Runtime;
    /// use andon_server::{Options, Principal, Server};
    /// use axum::Router;
    /// use axum::http::request::Parts;
    ///
    /// /// What the program's own log-in puts among the extensions of a request.
    /// #[derive(Clone)]
    /// struct SignedIn(String);
    ///
    /// # async fn mounted() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::new(&Runtime::builder().build(), Options::default()).await?;
    /// let who = |request: &Parts| {
    ///     let SignedIn(user) = request.extensions.get()?;
    ///     Principal::builder(user).build().ok()
    /// };
    /// let app: Router = Router::new().merge(server.mount("/agents", who).router()?); // .layer(your own log-in)
    /// # Ok(())
    /// # }
    /// ```
    pub fn mount(
        &self,
        path: impl Into<String>,
        who: impl Fn(&Parts) -> Option<Principal> + Send + Sync + 'static,
    ) -> Mount {
        let parts = Part::ALL.to_vec();
        Mount { server: self.clone(), path: path.into(), who: Arc::new(who), parts, sign_in: None }
    }
}

impl Mount {
    /// Serves only these parts. By default all are served.
    pub fn only(self, parts: impl IntoIterator<Item = Part>) -> Self {
        Self { parts: parts.into_iter().collect(), ..self }
    }

    /// Where people sign in to your program, such as `/login`. The page leads there when it is told that nobody is signed
    /// in, and a `401` has it as `sign_in`.
    pub fn sign_in(self, place: impl Into<String>) -> Self {
        Self { sign_in: Some(place.into()), ..self }
    }

    /// The routes, with the path that they are mounted under. [Merge](Router::merge) them into your own router, or give
    /// them to its [`fallback_service`](Router::fallback_service) if that path is `/`.
    pub fn router(self) -> Result<Router, MountError> {
        let path = checked(&self.path).ok_or_else(|| MountError::BadPath(self.path.clone()))?;
        if self.parts.is_empty() {
            return Err(MountError::NoPart);
        }
        self.server.check()?;
        let asked = Asked::Program { who: self.who, sign_in: self.sign_in };
        let routes = router(&self.server, &self.parts, asked);
        if path.is_empty() {
            return Ok(routes);
        }
        // Not `nest`, which does not serve the path with a slash at its end (invariant 3).
        let mounted = Router::new().nest_service(path, routes);
        Ok(mounted.layer(middleware::from_fn_with_state(Arc::<str>::from(path), one_spelling)))
    }
}

/// Serves each route under one spelling (invariant 4): axum takes `/agents//v1/runs` for `/agents/v1/runs`.
async fn one_spelling(State(path): State<Arc<str>>, request: Request, next: Next) -> Response {
    let rest = request.uri().path().strip_prefix(&*path);
    match rest.is_some_and(|rest| rest.starts_with("//")) {
        true => Problem::unknown_path().into_response(),
        false => next.run(request).await,
    }
}

/// The path without a slash at its end; `None` if a server cannot be mounted there.
fn checked(path: &str) -> Option<&str> {
    let bare = path.strip_suffix('/').unwrap_or(path);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_plain);
    let mut parts = bare.split('/');
    (parts.next() == Some("") && parts.all(is_part)).then_some(bare)
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, parts, sign_in, .. } = self;
        let mut debug = f.debug_struct("Mount");
        debug.field("path", path).field("parts", parts).field("sign_in", sign_in).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_checked_before_anything_is_mounted_there() {
        for (path, bare) in
            [("/", ""), ("", ""), ("/agents", "/agents"), ("/agents/", "/agents"), ("/a/b-1._~", "/a/b-1._~")]
        {
            assert_eq!(checked(path), Some(bare), "{path}");
        }
        for bad in [
            "agents", "//", "/a//b", "/a//", "/{team}", "/a/*", "/:a", "/a b", "/a/../b", "/.", "/a?b", "/ä",
            "http://a",
        ] {
            assert_eq!(checked(bad), None, "{bad}");
        }
    }
}
