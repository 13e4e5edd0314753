//! Andon over HTTP: start runs, watch them, and pull the cord from anywhere.
//!
//! A run belongs to the [`Runtime`](andon_runtime::Runtime), never to a request: a lost connection does not cancel a run,
//! unless the run was started that way.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use andon_practice::Practice;
//! use andon_runtime::{Agent, Runtime};
//! use andon_server::{Options, Server};
//!
//! let runtime = Runtime::builder().build();
//! let server = Server::new(&runtime, Options::default()).await?;
//! server.apps().put(Agent::builder().name("practice").model(Practice::new()).runtime(&runtime).build()?, None);
//! runtime.recover().await?;
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
//! let serving = server.serve(listener)?; // or mount it in a router of your own: `Server::mount`
//! tokio::signal::ctrl_c().await?;
//! serving.shut_down().await;
//! # Ok(())
//! # }
//! ```

mod access;
mod admission;
mod api;
mod board;
mod core;
pub mod dialect;
mod feed;
mod http;
mod options;
mod page;
mod server;
mod time;

pub use access::builder::{PrincipalBuilder, PrincipalError, Reach};
pub use access::keys::{KeyError, KeyInfo, Keys, NewKey, NewlyMade};
pub use access::principal::Principal;
pub use access::scopes::{NoSuchScope, Scope, Scopes};
pub use access::secret::{NoRandom, Secret};
pub use admission::apps::{App, Apps};
pub use admission::order::CancelOrder;
pub use board::Board;
pub use options::Options;
pub use options::cost::{Cost, Priced, priced};
pub use options::oidc::{Oidc, OidcError};
pub use options::prices::{ModelPrice, Price, PriceError, Prices};
pub use server::Server;
pub use server::files::raise_file_limit;
pub use server::mount::{Mount, MountError, Part};
pub use server::serve::{ServeError, has_web_page};
pub use server::shutdown::{Serving, ShutDown};
