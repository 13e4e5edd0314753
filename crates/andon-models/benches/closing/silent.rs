//! A server that accepts connections and never sends anything: TLS waits forever.

use std::time::Duration;

use andon_testkit::provider::{Dialect, Protocol};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::{agent, pull};

pub(super) async fn measure(dialect: Dialect, protocol: Protocol, runs: usize) -> Vec<Duration> {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let agent = agent(dialect, format!("https://{}", silent.local_addr().expect("it has an address")), protocol);
    let mut took = Vec::with_capacity(runs);
    for _ in 0..runs {
        let run = agent.start("Tell me a story.").expect("the session is free");
        let (mut connection, _) = silent.accept().await.expect("a client comes");
        let mut hello = [0; 1];
        connection.read_exact(&mut hello).await.expect("it says hello");
        let pulled = pull(&run);
        let mut rest = Vec::new();
        // A reset also ends the connection.
        let _ = connection.read_to_end(&mut rest).await;
        took.push(Instant::now().saturating_duration_since(pulled));
        run.outcome().await;
    }
    took
}
