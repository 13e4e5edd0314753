//! The program under load for a while. `cargo xtask bench load` draws it.
//!
//! Clients start runs one after the other: most are short, some are long and are stopped in the middle. The provider is a
//! separate process. Each second the server's memory, threads and descriptors are read.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "../../../andon-server/benches/server/client.rs"]
mod client;
#[expect(dead_code, reason = "the server's benchmark has models of its own")]
#[path = "../../../andon-server/benches/server/models.rs"]
mod models;
mod plot;
#[expect(dead_code, reason = "the server's benchmark looks at more of a process")]
#[path = "../../../andon-server/benches/server/process.rs"]
mod process;
#[expect(dead_code, reason = "the other benchmark asks the program for more")]
#[path = "../growth/program.rs"]
mod program;
#[expect(dead_code, reason = "the server's benchmark also has a provider with TLS")]
#[path = "../../../andon-server/benches/server/provider.rs"]
mod provider;
#[path = "../../../andon-server/benches/server/provider_http1.rs"]
mod provider_http1;
#[path = "../../../andon-server/benches/server/provider_http2.rs"]
mod provider_http2;

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use andon_testkit::bench::now;
use tokio::task::spawn_local;
use tokio::time::{interval, sleep};

use client::Connection;
use plot::{Plot, Sample};
use program::{Program, run};

/// How many clients there are at the same time.
const CLIENTS: usize = 32;
/// One in this many runs of a client is stopped in the middle.
const STOPPED: usize = 10;

fn main() {
    process::raise_open_files();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let [provider::AS_PROVIDER, folder @ ..] = words.as_slice() {
        return provider::serve(folder.first().map(Path::new));
    }
    let after = |word: &str| words.iter().position(|own| *own == word).and_then(|place| words.get(place + 1));
    let minutes: f64 = after("--minutes").map_or(1.0, |minutes| minutes.parse().expect("a number of minutes"));
    // Benchmarks run in the folder of their package, but a path is relative to the project's.
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("load.svg");
    let file = after("--to").map_or(own, |to| project.join(to));
    let plot = load(Duration::from_secs_f64(60.0 * minutes));
    std::fs::write(&file, plot.svg()).expect("a file that can be written");
    println!("{}", plot.summary());
    println!("The plot is in {}", file.display());
}

/// Puts the program under load for this long.
fn load(length: Duration) -> Plot {
    let program = Rc::new(Program::start());
    process::on_one_thread(async {
        let (began, runs, is_over) = (now(), Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| spawn_local(ask(Rc::clone(&program), Rc::clone(&runs), Rc::clone(&is_over))))
            .collect();
        let (mut samples, mut second) = (Vec::new(), interval(Duration::from_secs(1)));
        while began.elapsed() < length {
            second.tick().await;
            samples.push(Sample::of(&program.process, began.elapsed()));
        }
        is_over.set(true);
        for client in clients {
            client.await.expect("a client that finishes");
        }
        Plot { samples, runs: runs.get(), clients: CLIENTS }
    })
}

/// One client, which starts runs until it is over.
async fn ask(program: Rc<Program>, runs: Rc<Cell<usize>>, is_over: Rc<Cell<bool>>) {
    let mut connection = Connection::open(program.address).await;
    for number in 1.. {
        if is_over.get() {
            return;
        }
        match number % STOPPED {
            0 => stopped(&mut connection).await,
            _ => run(&mut connection, "local", None, "pieces=20").await,
        }
        runs.set(runs.get() + 1);
    }
}

/// A long run that is stopped in the middle.
async fn stopped(connection: &mut Connection) {
    let request = program::start("local", None, "pieces=1000 pause=20", "application/json");
    let (status, run) = connection.whole(&request).await;
    assert_eq!(status, 201, "the run is created");
    sleep(Duration::from_millis(100)).await;
    let run = program::id(&run).expect("a run's id");
    let cancel = client::with_body(&format!("POST /v1/runs/{run}/cancel"), "application/json", r#"{"wait":true}"#);
    // On a busy machine, a request may not be on record within the second that its answer waits.
    let mut status = 503;
    for _ in 0..60 {
        if status == 503 {
            status = connection.whole(&cancel).await.0;
        }
    }
    assert_eq!(status, 200, "it has settled");
}
