//! Long sessions, and long answers.

use andon_testkit::bench::now;

use crate::Length;
use crate::client::Connection;
use crate::process::on_one_thread;
use crate::program::{Program, middle, run};
use crate::table::Table;

/// How many runs a row is measured with, because CPU time is reported in steps of 10 ms.
const RUNS: usize = 200;

/// What a run costs in a session with this many turns.
pub(crate) fn turns(length: Length) -> Table {
    let mut table = Table::new("turns in a session", &["a run, p50 (ms)", "CPU of the server (ms)", "memory (MB)"]);
    let program = Program::start();
    on_one_thread(async {
        let mut connection = Connection::open(program.address).await;
        // The program's first runs pay for what is made once.
        for _ in 0..RUNS {
            run(&mut connection, "local", None, "pieces=1").await;
        }
        let mut done = 0;
        for turns in length.steps([0, 250, 1_000, 5_000]) {
            while done < turns {
                run(&mut connection, "local", Some("long"), "pieces=1").await;
                done += 1;
            }
            let (before, mut took) = (program.process.cpu(), Vec::with_capacity(RUNS));
            for _ in 0..RUNS {
                let began = now();
                run(&mut connection, "local", Some("long"), "pieces=1").await;
                took.push(began.elapsed());
            }
            done += RUNS;
            let cpu = (program.process.cpu() - before) * 1e3 / RUNS as f64;
            table.add(turns, vec![middle(&mut took), cpu, program.process.memory() as f64 / 1e6]);
        }
    });
    table
}

/// What a piece costs in an answer with this many.
pub(crate) fn pieces(length: Length) -> Table {
    const PIECES: usize = 100_000;
    let mut table = Table::new("pieces in an answer", &["a piece (µs)", "CPU of the server (µs)", "memory (MB)"]);
    let program = Program::start();
    on_one_thread(async {
        let mut connection = Connection::open(program.address).await;
        run(&mut connection, "local", None, "pieces=1000").await;
        for pieces in length.steps([100, 1_000, 10_000, 100_000]) {
            let (input, runs) = (format!("pieces={pieces}"), PIECES / pieces);
            let (before, began) = (program.process.cpu(), now());
            for _ in 0..runs {
                run(&mut connection, "local", None, &input).await;
            }
            let each = began.elapsed().as_secs_f64() * 1e6 / PIECES as f64;
            let cpu = (program.process.cpu() - before) * 1e6 / PIECES as f64;
            table.add(pieces, vec![each, cpu, program.process.memory() as f64 / 1e6]);
        }
    });
    table
}
