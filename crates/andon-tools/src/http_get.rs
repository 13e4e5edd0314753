//! Fetching a page, but only from the open internet.
//!
//! # Invariants
//!
//! 1. A connection is made only to an address that was checked: [`names`] looks names up and returns only checked addresses, and
//!    an address in the URL is checked before each request. So changing a name's address between check and connection does not
//!    help an attacker.
//! 2. Each hop of a redirect follows the same rules as the first.
//! 3. No connection outlives its call: none is kept for the next one, and a stop drops the open one.

mod addresses;
mod fetch;
mod names;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use andon_runtime::{Effect, Invocation, Tool, ToolError, ToolSpec, Work};
use reqwest::{Client, Proxy, redirect};
use serde_json::{Value, json};

/// The default of how many bytes of a page are read.
const MAX_BYTES: usize = 256 * 1024;

/// The default of how long one call may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Fetches a page over HTTP and returns it as text.
///
/// It takes `{"url": "https://…"}`. The model chooses the URL, and a malicious page may have told it to. So the tool refuses
/// addresses that are not on the open internet: loopback, private and link-local ones, the metadata services of clouds, and all
/// of these written as IPv6. It checks the address that it connects to, at every hop of a redirect. It sends no cookies and no
/// credentials, reads no proxy from the environment, and follows no redirect from `https` to `http`.
///
/// A page is read up to a number of bytes, and a last line says so if it goes on. The tool asks for uncompressed pages, so that
/// a small response cannot become a large text. When the cord is pulled, it closes the connection at once and returns what had
/// arrived. Only the system's look-up of a name cannot be stopped: it goes on, and its answer is dropped.
///
/// ```
/// use andon_tools::HttpGet;
///
/// let open = HttpGet::new();
/// let intranet = HttpGet::new().allow_hosts(["wiki.example.internal"]).max_bytes(64 * 1024);
/// # let _ = (open, intranet);
/// ```
#[derive(Debug, Clone)]
pub struct HttpGet {
    spec: Arc<ToolSpec>,
    fetcher: Arc<Fetcher>,
}

/// What a call needs.
#[derive(Clone, Default)]
struct Fetcher {
    rules: Rules,
    max_bytes: usize,
    client: OnceLock<Result<Client, String>>,
}

/// Where a request may go.
#[derive(Clone, Default)]
struct Rules {
    private: bool,
    /// Trusted names and addresses, in lower case.
    hosts: Vec<String>,
    /// Names with fixed addresses.
    known: BTreeMap<String, Vec<IpAddr>>,
    proxy: Option<url::Url>,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client knows the proxy's password.
        let Self { rules, max_bytes, client: _ } = self;
        f.debug_struct("Fetcher").field("rules", rules).field("max_bytes", max_bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { private, hosts, known, proxy } = self;
        // Its address, without user name and password.
        let proxy = proxy.as_ref().map(|proxy| {
            let port = proxy.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}://{}{port}", proxy.scheme(), proxy.host_str().unwrap_or_default())
        });
        let mut shown = f.debug_struct("Rules");
        shown.field("private", private).field("hosts", hosts).field("known", known);
        shown.field("proxy", &proxy).finish()
    }
}

impl Default for HttpGet {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpGet {
    /// Fetches from the open internet only.
    pub fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "url": { "type": "string", "description": "The page's address, with http:// or https://." },
            },
            "required": ["url"],
            "additionalProperties": false,
        });
        let description = "Fetches a page over HTTP and returns it as text. If it is too long, a last line says so.";
        let mut spec = ToolSpec::new("http_get", description, schema);
        spec.effect = Effect::ReadOnly;
        spec.timeout = Some(TIMEOUT);
        Self { spec: Arc::new(spec), fetcher: Arc::default() }.max_bytes(MAX_BYTES)
    }

    /// Whether it may also fetch from this machine and from private networks. The metadata services of clouds, which give
    /// away credentials, are still refused: name them in [`allow_hosts`](Self::allow_hosts) if you must.
    #[must_use]
    pub fn allow_private(self, allow: bool) -> Self {
        self.with(|rules| rules.private = allow)
    }

    /// Hosts that are trusted, by name or address, wherever they lead. A host is the whole name: `example.org` does not include
    /// `www.example.org`.
    #[must_use]
    pub fn allow_hosts<H: Into<String>>(self, hosts: impl IntoIterator<Item = H>) -> Self {
        let hosts: Vec<String> = hosts.into_iter().map(|host| names::plain(&host.into())).collect();
        self.with(|rules| rules.hosts.extend(hosts))
    }

    /// Gives a name these addresses instead of looking it up. They are checked like any others.
    #[must_use]
    pub fn resolve(self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let (name, addresses) = (names::plain(name), addresses.into_iter().collect());
        self.with(|rules| drop(rules.known.insert(name, addresses)))
    }

    /// Sends every request through a proxy. The proxy then looks names up and connects: addresses in a URL are still checked
    /// here, but only the proxy can check what a name leads to.
    #[must_use]
    pub fn proxy(self, proxy: url::Url) -> Self {
        self.with(|rules| rules.proxy = Some(proxy))
    }

    /// How many bytes of a page are read. Default: 256 KiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        Arc::make_mut(&mut self.fetcher).max_bytes = bytes;
        // Room for everything that is read: a byte that is not text takes four.
        Arc::make_mut(&mut self.spec).max_output = bytes.saturating_mul(4).saturating_add(4096);
        self
    }

    /// How long one call may take. Default: 30 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        Arc::make_mut(&mut self.spec).timeout = Some(timeout);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        let fetcher = Arc::make_mut(&mut self.fetcher);
        change(&mut fetcher.rules);
        // The client was made for the old rules.
        fetcher.client = OnceLock::new();
        self
    }
}

impl Tool for HttpGet {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, invocation: Invocation) -> Work {
        let fetcher = Arc::clone(&self.fetcher);
        Work::task(async move {
            let url = invocation.input.get("url").and_then(Value::as_str).unwrap_or_default();
            fetcher.fetch(url, &invocation.cord, &invocation.progress).await
        })
    }
}

impl Fetcher {
    /// The client, made on first use, because that reads the system's certificates.
    fn client(&self) -> Result<&Client, ToolError> {
        let client = self.client.get_or_init(|| build(&self.rules).map_err(|error| fetch::in_words(&error)));
        client.as_ref().map_err(|error| ToolError::new(format!("cannot fetch pages: {error}")))
    }
}

fn build(rules: &Rules) -> reqwest::Result<Client> {
    let builder = Client::builder()
        .user_agent(concat!("andon/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(Arc::new(rules.clone()))
        .redirect(redirect::Policy::none())
        .referer(false)
        .pool_max_idle_per_host(0)
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT);
    match &rules.proxy {
        Some(proxy) => builder.proxy(Proxy::all(proxy.clone())?).build(),
        None => builder.no_proxy().build(),
    }
}
