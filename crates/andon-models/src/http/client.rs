//! The clients of this process. Connections are pooled in them, so they are made once and shared.

use std::sync::LazyLock;
use std::time::Duration;

use andon::ModelError;
use reqwest::Client;
use reqwest::redirect::Policy;

/// How long a connection may take, TLS included.
pub(crate) const CONNECT: Duration = Duration::from_secs(15);

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// What server and client agree on: HTTP/2 with TLS where the server has it, else HTTP/1.1.
    #[default]
    Agreed,
    /// HTTP/2 from the first byte, without asking, also without TLS.
    Http2,
}

static AGREED: LazyLock<Result<Client, String>> = LazyLock::new(|| build(Protocol::Agreed));
static HTTP2: LazyLock<Result<Client, String>> = LazyLock::new(|| build(Protocol::Http2));

/// The shared client.
pub(crate) fn client(protocol: Protocol) -> Result<Client, ModelError> {
    let made = match protocol {
        Protocol::Agreed => &*AGREED,
        Protocol::Http2 => &*HTTP2,
    };
    made.clone().map_err(|error| ModelError::fatal(format!("this machine's TLS cannot be set up: {error}")))
}

fn build(protocol: Protocol) -> Result<Client, String> {
    let builder = Client::builder()
        .user_agent(concat!("andon/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        // A request carries a key and a conversation: it goes where it was sent, or nowhere.
        .redirect(Policy::none())
        // The run's own retries are counted, recorded and stopped; nothing is repeated beneath them.
        .retry(reqwest::retry::never())
        .referer(false);
    let builder = match protocol {
        Protocol::Agreed => builder,
        Protocol::Http2 => builder.http2_prior_knowledge(),
    };
    builder.build().map_err(|error| failure_chain(&error))
}

fn failure_chain(error: &reqwest::Error) -> String {
    super::failure::chain(error).join(": ")
}
