//! Which server, how to reach it, and which of its tools are wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{DEFAULT_GRACE, Effect};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::process::{Command, Stdin};

use super::error::McpError;
use super::toolset::McpToolset;

/// The default of how long a server may take to be ready. It leaves room for rmcp, which waits ten seconds for the newer
/// handshake before it tries the older one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// An MCP server whose tools are wanted. See [the module](crate::mcp).
///
/// ```no_run
/// # async fn example() -> Result<(), andon_tools::mcp::McpError> {
/// use andon_tools::mcp::McpServer;
///
/// let files = McpServer::stdio("mcp-server-files", ["/srv/docs"])
///     .only(["read_file", "search"])
///     .prefix("files_")
///     .connect()
///     .await?;
/// for tool in files.tools() {
///     println!("{}", tool.name());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing happens until `connect` is called"]
pub struct McpServer {
    pub(super) name: String,
    pub(super) kind: ServerKind,
    pub(super) protocol: McpProtocol,
    pub(super) connect_timeout: Duration,
    pub(super) wanted: ToolSelection,
    pub(super) call_options: CallOptions,
}

/// The way to a server.
#[derive(Clone)]
pub(super) enum ServerKind {
    Stdio(Command),
    Http { url: String, headers: HeaderMap, wrong_header: Option<String> },
    Stream(Arc<dyn Fn() -> Box<dyn Duplex> + Send + Sync>),
}

/// Something that can be read and written.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Which of a server's tools are wanted, and the prefix of their names.
#[derive(Clone, Default)]
pub(super) struct ToolSelection {
    only: Option<BTreeSet<String>>,
    without: BTreeSet<String>,
    pub(super) prefix: String,
}

impl ToolSelection {
    pub(super) fn wants(&self, tool: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(tool)) && !self.without.contains(tool)
    }

    /// The first of the tools named in [`McpServer::only`] that is not among these.
    pub(super) fn missing<'a>(&'a self, tools: &BTreeSet<&str>) -> Option<&'a str> {
        self.only.iter().flatten().map(String::as_str).find(|name| !tools.contains(name))
    }
}

/// How the tools of a server are called and stopped.
#[derive(Clone)]
pub(super) struct CallOptions {
    pub(super) grace: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) effects: BTreeMap<String, Effect>,
}

/// Which generation of the protocol to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum McpProtocol {
    /// 2026-07-28 if the server supports it, otherwise 2025-11-25 or an older version that it offers.
    #[default]
    Newest,
    /// Only 2026-07-28: no sessions, and over HTTP a call is cancelled by closing its stream.
    Only2026,
    /// 2025-11-25 or older: `initialize`, and sessions over HTTP.
    Only2025,
}

impl McpServer {
    fn new(name: String, kind: ServerKind) -> Self {
        Self {
            name,
            kind,
            protocol: McpProtocol::default(),
            connect_timeout: CONNECT_TIMEOUT,
            wanted: ToolSelection::default(),
            call_options: CallOptions { grace: DEFAULT_GRACE, timeout: None, effects: BTreeMap::new() },
        }
    }

    /// A server that is a program, used over its standard input and output. It sees the same environment as
    /// [any process](crate::process::Command), and its whole process tree ends with the toolset.
    pub fn stdio<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Self {
        let program = program.into();
        let name = std::path::Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
        Self::new(name, ServerKind::Stdio(Command::new(program).args(args).stdin(Stdin::Open)))
    }

    /// A server at this address, used over streamable HTTP.
    pub fn http(url: impl Into<String>) -> Self {
        let url = url.into();
        Self::new(shown(&url), ServerKind::Http { url, headers: HeaderMap::new(), wrong_header: None })
    }

    /// A server at the other end of a stream, such as one half of [`tokio::io::duplex`]. The closure makes a stream for each
    /// new connection, within the caller's runtime; the connection lives and dies with that runtime.
    pub fn stream<S>(name: impl Into<String>, open: impl Fn() -> S + Send + Sync + 'static) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self::new(name.into(), ServerKind::Stream(Arc::new(move || Box::new(open()))))
    }

    /// The server's name in errors and receipts. Default: the program's or the host's name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets an environment variable for the server's program. No effect on other kinds of servers.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        if let ServerKind::Stdio(command) = &mut self.kind {
            command.set.push((name.into(), value.into()));
        }
        self
    }

    /// Passes environment variables of this process on to the server's program. No effect on other kinds of servers.
    pub fn pass_env<N: Into<OsString>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        if let ServerKind::Stdio(command) = &mut self.kind {
            command.passed.extend(names.into_iter().map(Into::into));
        }
        self
    }

    /// The folder that the server's program runs in. Default: this process's. No effect on other kinds of servers.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        if let ServerKind::Stdio(command) = &mut self.kind {
            command.cwd = Some(folder.into());
        }
        self
    }

    /// A header for every request, such as `Authorization`. Its value is never shown. No effect without HTTP.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let ServerKind::Http { headers, wrong_header, .. } = &mut self.kind {
            match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                (Ok(name), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                // `connect` reports it, without the value.
                _ => *wrong_header = Some(name.to_owned()),
            }
        }
        self
    }

    /// Uses only these tools, by the server's own names. It is an error if the server does not have one of them.
    pub fn only<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.wanted.only = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves these tools out, by the server's own names.
    pub fn without<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.wanted.without.extend(tools.into_iter().map(Into::into));
        self
    }

    /// A prefix for the names of its tools, so that two servers can have a tool with the same name.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.wanted.prefix = prefix.into();
        self
    }

    /// How long a call may take to stop once the server has been told. Default: two seconds.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.call_options.grace = grace;
        self
    }

    /// How long a call may take. Default: no limit. When the time is over, the server is told to stop it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call_options.timeout = Some(timeout);
        self
    }

    /// How long the server may take to be ready, for each connection. Default: 30 seconds.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Which generation of the protocol to use. Default: the newest that the server supports.
    pub fn protocol(mut self, protocol: McpProtocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// What kind of effect one of its tools has, by the server's own name. By default this comes from the tool's annotations,
    /// `readOnlyHint` and then `idempotentHint`; with neither, the tool counts as one with effects.
    pub fn effect(mut self, tool: impl Into<String>, effect: Effect) -> Self {
        self.call_options.effects.insert(tool.into(), effect);
        self
    }

    /// Connects, and asks for the list of tools.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it is dropped, the program that it started is ended.
    pub async fn connect(self) -> Result<McpToolset, McpError> {
        McpToolset::connect(self).await
    }
}

/// An address without what may be secret: the user, the password, the query and the fragment.
fn shown(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let plain = url.get(..end).unwrap_or_default();
    match plain.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.find('/').unwrap_or(rest.len());
            let from = rest.get(..host).and_then(|authority| authority.rfind('@')).map_or(0, |at| at + 1);
            format!("{scheme}://{}", rest.get(from..).unwrap_or_default())
        }
        None => plain.to_owned(),
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("McpServer");
        shown.field("name", &self.name);
        match &self.kind {
            ServerKind::Stdio(command) => {
                let variables: Vec<_> = command.set.iter().map(|(name, _)| name).collect();
                shown.field("program", &command.program).field("args", &command.args.len()).field("env", &variables);
            }
            ServerKind::Http { url, headers, .. } => {
                let names: Vec<_> = headers.keys().collect();
                shown.field("url", &self::shown(url)).field("headers", &names);
            }
            ServerKind::Stream(_) => {}
        }
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let server =
            McpServer::http("https://ada:hush@example.org:8080/mcp?key=hush#hush").header("Authorization", "hush");
        assert_eq!(server.name, "https://example.org:8080/mcp");
        assert!(!format!("{server:?}").contains("hush"), "{server:?}");
        let server = McpServer::stdio("/usr/bin/server", ["--token", "hush"]).env("TOKEN", "hush");
        assert_eq!(server.name, "server");
        assert!(!format!("{server:?}").contains("hush"), "{server:?}");
    }

    #[test]
    fn tools_are_chosen_by_their_own_names() {
        let wanted = McpServer::http("http://x").only(["a", "b"]).without(["b"]).wanted;
        assert!(wanted.wants("a") && !wanted.wants("b") && !wanted.wants("c"));
        assert_eq!(wanted.missing(&BTreeSet::from(["a"])), Some("b"));
    }
}
