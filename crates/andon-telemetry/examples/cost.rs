//! What telemetry costs: trivial runs a second without it, with figures, and with spans sent to a collector as well, in turns.
//!
//! ```console
//! $ cargo run --release --package andon-telemetry --features otlp --example cost
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use andon_practice::Practice;
use andon_runtime::{Agent, Runtime};
use andon_store::SqliteJournal;
use andon_telemetry::{Collector, Figures, Logs, Traces};
use tokio::time::Instant;

const ROUNDS: usize = 5;
const CLIENTS: usize = 64;
const RUNS: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq)]
enum With {
    Nothing,
    Figures,
    Spans,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let collector = Collector::at(&sink()?);
    for disk in [false, true] {
        let mut rates = [(With::Nothing, Vec::new()), (With::Figures, Vec::new()), (With::Spans, Vec::new())];
        for _ in 0..ROUNDS {
            for (with, rates) in &mut rates {
                rates.push(measure(*with, disk, &collector).await?);
            }
        }
        let journal = if disk { "SQLite" } else { "memory" };
        for (with, mut rates) in rates {
            rates.sort_by(f64::total_cmp);
            let median = rates.get(ROUNDS / 2).copied().unwrap_or_default();
            println!("{journal:<8} {with:?}: {median:.0} trivial runs a second");
        }
    }
    Ok(())
}

async fn measure(with: With, disk: bool, collector: &Collector) -> Result<f64, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut builder = Runtime::builder();
    if disk {
        builder = builder.journal(Arc::new(SqliteJournal::open(folder.path().join("andon.db"))?));
    }
    let figures = Figures::new();
    let traces = Traces::to(collector, &figures)?;
    if with != With::Nothing {
        builder = builder.observer(Arc::clone(&figures) as _).observer(Arc::new(Logs));
    }
    if with == With::Spans {
        builder = builder.observer(Arc::clone(&traces) as _);
    }
    let runtime = builder.build();
    let agent = Agent::builder().model(Practice::instant()).runtime(&runtime).build()?;
    let began = Instant::now();
    let clients = (0..CLIENTS).map(|client| {
        let agent = agent.session(format!("s{client}"));
        async move {
            let agent = agent.map_err(|error| error.to_string())?;
            for _ in 0..RUNS {
                agent.run("Go.").await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        }
    });
    let mut all = tokio::task::JoinSet::new();
    for client in clients {
        all.spawn(client);
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    let took = began.elapsed();
    tokio::task::spawn_blocking(move || traces.end(Duration::from_secs(10))).await?;
    // Runs are counted in thousands.
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    let runs = (CLIENTS * RUNS) as f64;
    Ok(runs / took.as_secs_f64())
}

/// A collector that takes everything.
fn sink() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(url)
}

fn serve(mut stream: TcpStream) -> Option<()> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(bytes.get(..end)?).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.trim().parse::<usize>();
            let mut left = (end + 4 + length.ok()?).saturating_sub(bytes.len());
            while left > 0 {
                left = left.saturating_sub(stream.read(&mut piece).ok()?);
            }
            bytes.clear();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
        }
        let length = stream.read(&mut piece).ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(piece.get(..length)?);
    }
}
