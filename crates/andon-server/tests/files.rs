//! A server whose process can open no more files. It has its own test binary, because the limit applies to the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::time::Duration;

use andon_practice::Practice;
use andon_runtime::{Agent, Runtime};
use andon_server::{Options, Server, raise_file_limit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// Nothing here takes this long unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(90);

/// The CPU time that this process has used.
fn worked() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(spent.tv_sec).unwrap(), u32::try_from(spent.tv_nsec).unwrap())
}

/// Sets how many files may be opened.
fn limit(files: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files, maximum }).unwrap();
}

async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(stream).await
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 4096];
    let read = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("no answer").unwrap();
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

#[tokio::test]
async fn without_free_files_no_connection_is_accepted_nothing_spins_and_all_continues_later() {
    let runtime = Runtime::builder().build();
    let server = Server::new(&runtime, Options::default()).await.unwrap();
    let practice = Agent::builder().name("practice").model(Practice::new()).runtime(&runtime).build().unwrap();
    server.apps().put(practice, None);
    let usual = raise_file_limit();
    assert_eq!(usual, getrlimit(Resource::Nofile).maximum);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _serving = server.serve(listener).unwrap();

    let health = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut known = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut known, health).await.starts_with("HTTP/1.1 200"));
    let sockets: Vec<TcpSocket> = (0..20).map(|_| TcpSocket::new_v4().unwrap()).collect();

    limit(Some(3));
    let mut waiting = Vec::new();
    for socket in sockets {
        let mut stream = socket.connect(address).await.unwrap();
        stream.write_all(health.as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    let before = worked();
    let while_it_lasts = Duration::from_millis(600);
    sleep(while_it_lasts).await;
    let work = worked() - before;
    assert!(work < while_it_lasts / 3, "it was at work for {work:?} of {while_it_lasts:?}");
    // A client that is connected can still pull the cord.
    let cancel = "POST /v1/cancel HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{\"all\": true}";
    let answered = ask(&mut known, cancel).await;
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");

    limit(usual);
    for mut stream in waiting {
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    }
}
