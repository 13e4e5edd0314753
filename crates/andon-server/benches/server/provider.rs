//! A provider in a separate process: this program, started again.
//!
//! It speaks OpenAI's Chat Completions, as a stream with the usage at its end. The last prompt tells it what to answer:
//! `pieces=3` is an answer of three pieces, `pause=20` sends one every 20 ms, and `hold=1` never ends the answer. It has one
//! thread and does as little as possible, because it shares the machine with the server that is measured.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use andon_models::{HttpModel, OpenAi};
use andon_testkit::provider::{Dialect, Frame, Reply};
use bytes::Bytes;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::process::{Process, folder, on_one_thread};
use crate::{models, provider_http1, provider_http2};

/// The argument that makes this program the provider; the folder of its certificate may follow.
pub(crate) const AS_PROVIDER: &str = "--as-provider";

/// How a provider is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// HTTP/1.1 in clear text.
    Plain,
    /// HTTP/2 over TLS, like the large providers.
    Tls,
}

/// A provider; dropping it ends it.
pub(crate) struct Provider {
    _process: Process,
    folder: TempDir,
    url: String,
    reached: Reached,
}

impl Provider {
    pub(crate) fn start(reached: Reached) -> Self {
        let folder = folder();
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg(AS_PROVIDER);
        let scheme = match reached {
            Reached::Plain => "http",
            Reached::Tls => {
                make_certificate(folder.path());
                command.arg(folder.path());
                "https"
            }
        };
        let (process, said) = Process::start(&mut command);
        let port = said.rsplit(':').next().expect("a port");
        Self { _process: process, folder, url: format!("{scheme}://localhost:{port}/v1"), reached }
    }

    /// Its address, as a model's base URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The path of its certificate, for clients that must trust it.
    pub(crate) fn certificate(&self) -> Option<PathBuf> {
        (self.reached == Reached::Tls).then(|| certificate(self.folder.path()))
    }
}

/// The model that calls the provider at this address.
pub(crate) fn model(url: &str) -> HttpModel {
    OpenAi::builder("gpt-4o").base_url(url).key("bench").build().expect("a model")
}

fn certificate(folder: &Path) -> PathBuf {
    folder.join("provider.pem")
}

fn key(folder: &Path) -> PathBuf {
    folder.join("provider.key")
}

fn make_certificate(folder: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    let output = openssl.arg("-keyout").arg(key(folder)).arg("-out").arg(certificate(folder)).output();
    assert!(output.expect("openssl is installed").status.success(), "openssl makes a certificate");
}

/// Serves until the parent process is gone.
pub(crate) fn serve(folder: Option<&Path>) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    on_one_thread(async {
        let tls = folder.map(acceptor);
        let listener = listen();
        println!("{}", listener.local_addr().expect("an address"));
        let texts = Rc::new(Texts::new());
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            spawn_local(serve_one(stream, tls.clone(), Rc::clone(&texts)));
        }
    });
}

/// A port with a long backlog, because many clients connect at once.
fn listen() -> TcpListener {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    socket.listen(16_384).expect("a port that is listened on")
}

fn acceptor(folder: &Path) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(certificate(folder)).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(key(folder)).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    let mut config = config.expect("a certificate that fits its key");
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// A client that disconnects, in whatever way, ends only its own connection.
async fn serve_one(stream: TcpStream, tls: Option<TlsAcceptor>, texts: Rc<Texts>) {
    match tls {
        None => drop(provider_http1::serve(stream, &texts).await),
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                provider_http2::serve(stream, texts).await;
            }
        }
    }
}

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) pieces: u32,
    pub(crate) pause: Option<Duration>,
    pub(crate) is_held: bool,
}

impl Asked {
    /// What the last prompt in a request asks for.
    pub(crate) fn of(request: &[u8]) -> Self {
        let number = |name: &str| {
            let at = memchr::memmem::rfind(request, name.as_bytes())? + name.len();
            let digits = request.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit());
            Some(digits.fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0')))
        };
        Self {
            pieces: number("pieces=").unwrap_or(1),
            pause: number("pause=").filter(|pause| *pause > 0).map(|pause| Duration::from_millis(pause.into())),
            is_held: number("hold=") == Some(1),
        }
    }
}

/// The parts of answers that never change.
pub(crate) struct Texts {
    /// The whole answer of one piece, because most have one.
    short: Bytes,
}

impl Texts {
    fn new() -> Self {
        Self { short: joined(&frames(1)) }
    }

    /// The whole answer, or the part before the hold.
    pub(crate) fn whole(&self, asked: Asked) -> Bytes {
        match asked {
            Asked { is_held: true, pieces, .. } => joined(&started(pieces)),
            Asked { pieces: 1, .. } => self.short.clone(),
            Asked { pieces, .. } => joined(&frames(pieces)),
        }
    }

    /// An answer frame by frame.
    pub(crate) fn frames(asked: Asked) -> Vec<Bytes> {
        let frames = if asked.is_held { started(asked.pieces) } else { frames(asked.pieces) };
        frames.iter().map(Frame::bytes).collect()
    }
}

/// An answer of numbered pieces.
fn frames(pieces: u32) -> Vec<Frame> {
    Dialect::OpenAiChat.frames(&Reply::text((0..pieces).map(models::piece)).model("gpt-4o"))
}

/// Its beginning: the role and the pieces, without the end.
fn started(pieces: u32) -> Vec<Frame> {
    let mut frames = frames(pieces);
    frames.truncate(1 + pieces as usize);
    frames
}

fn joined(frames: &[Frame]) -> Bytes {
    frames.iter().flat_map(Frame::bytes).collect()
}
