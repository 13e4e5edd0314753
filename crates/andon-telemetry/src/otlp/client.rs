//! The HTTP client of the thread that sends spans. It has a small runtime of its own: a busy or ending server does not keep spans
//! from being sent, and sending them does not slow the server down.

use std::pin::Pin;
use std::time::Duration;

use http::{Request, Response};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// How much of a collector's answer is read.
const MAX_ANSWER: usize = 64 << 10;

pub(super) struct Client {
    http: reqwest::Client,
    /// `None` once it is being dropped.
    runtime: Mutex<Option<Runtime>>,
}

impl Client {
    /// A client of the collector on a host. A collector on this machine is reached without a proxy, which would look for it on
    /// its own machine.
    pub(super) fn new(host: &str, patience: Duration) -> Result<Self, HttpError> {
        let http = reqwest::Client::builder().timeout(patience).redirect(reqwest::redirect::Policy::none());
        let http = if is_here(host) { http.no_proxy() } else { http };
        let http = http.build()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { http, runtime: Mutex::new(Some(runtime)) })
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let runtime = self.runtime.lock();
        let Some(runtime) = runtime.as_ref() else { return Err("the client is being dropped".into()) };
        runtime.block_on(async {
            // Errors do not repeat the address: there may be a key in it.
            let mut answer = self.http.execute(request.try_into()?).await.map_err(reqwest::Error::without_url)?;
            let mut response = Response::builder().status(answer.status());
            if let Some(headers) = response.headers_mut() {
                headers.extend(answer.headers_mut().drain());
            }
            let mut body = Vec::new();
            while let Some(piece) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
                if body.len() + piece.len() > MAX_ANSWER {
                    return Err("the collector's answer is too long".into());
                }
                body.extend_from_slice(&piece);
            }
            Ok(response.body(body.into())?)
        })
    }
}

fn is_here(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

impl HttpClient for Client {
    fn send_bytes<'own, 'call>(
        &'own self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'call>>
    where
        'own: 'call,
        Self: 'call,
    {
        // It is called on a thread that does nothing else.
        Box::pin(async move { self.send(request) })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.get_mut().take() {
            // It may be dropped inside another runtime.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
