//! The project's own chores: `cargo xtask test | points | crash | faults | mutants | surface | adk | page | rooms | drops | features | packages | api | types | proxy | observe | postgres | bench | eval-usage | fuzz | venv`.

mod adk;
mod api;
mod bench;
mod components;
mod crash;
mod debian;
mod docs;
mod drops;
mod eval;
mod faults;
mod features;
mod fuzz;
mod mutants;
mod observe;
mod packages;
mod page;
mod postgres;
mod programs;
mod proxy;
mod python;
mod rooms;
mod served;
mod stages;
mod surface;
mod tests;
mod types;
mod unchanged;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
The project's own chores.

Usage: cargo xtask <COMMAND>

Commands:
  test [--long]      formatting, clippy, all tests, doc tests, examples, the explorer and the crash harness, and
                     whether they catch every fault; --long adds slower tests. What passed and has not changed since is
                     not run again, except with --long or CI=true
  points [WORD..]    stops every script (or those whose name contains a WORD) at every point, in every mode;
                     the last line is `N scripts, M points, V violations`
  crash [--store postgres] [OPTION..]
                     kills the runtime while it writes its journal: on SQLite, which is sometimes locked or full for a while, or
                     on a PostgreSQL server, which is sometimes killed itself:
                     --kills N, --seed S, or --point POINT.. to repeat one round; the last line is
                     `N kills, V violations`
  faults [NAME..]    breaks a copy of the source in every way that faults/ lists (or only in the named ways) and checks
                     that the explorer, the conformance suite and the crash harness catch what they must; the last
                     line is `N faults, N caught`
  mutants [--long] [OPTION..]
                     changes andon-core, and the gate, the pull and the settling of andon-runtime, in one small place at a
                     time and checks that a test notices, which takes hours on two cores; --long does the same to everything
                     else. Options are cargo-mutants' own, such as --shard 1/8, --file PATH or --iterate, which leaves out what an
                     earlier run caught; the last line is
                     `N mutants, M caught, K accepted`
  surface [--long]   fuzzes the server's whole API with schemathesis, from its own description; reports are in
                     target/schemathesis
  adk                ADK's own client and its web page (wheel google-adk, headless Chromium) against our server; pictures are
                     in target/adk
  page [--pictures] [--web-dir FOLDER] [WORD..]
                     the program's own page in headless Chromium (or the cases whose name contains a WORD); pictures
                     are in target/page, and with --pictures also in docs/pictures
  rooms              checks that the folders of each crate depend on each other one way and not on its root, and that no file is too long
  drops              checks that every public async function says what becomes of its work when its future is dropped
  features [--long]  counts the crates that `andon` and each of its features bring, and checks that none needs a newer Rust than ours;
                     with --long builds each feature of each crate alone
  api [--bless] [CRATE..]
                     compares what each crate (or the named ones) offers with its list in api/, and looks for what breaks users of
                     the last release; --bless writes the lists
  packages           does all of a publication of each crate but the upload: each states its Rust version and is small, and each
                     package builds alone; needs a network
  types              checks the types that the page's modules declare in their comments, with TypeScript
  proxy              the program behind a real nginx with TLS, set up as docs/proxy.md says
  observe            runs every query of the dashboard and the alerts on a real Prometheus that scrapes a real server
  postgres [WORD..]  the tests of the journal and of the program on PostgreSQL (or those whose name contains a WORD), on a real server
                     that is started for them
  bench core [WORD..]     the core's own costs, as a table
  bench journal [WORD..]  what durability costs, as a table
  bench tools [WORD..]    what tool calls cost and how soon they stop, as a table
  bench models [WORD..]   how fast model streams are decoded, as a table
  bench server [--long] [WORD..]
                          what a run costs over HTTP, and how soon it stops, as a table; the WORD `provider` selects what
                          uses a provider in a process of its own, and --long uses 100,000 runs instead of 20,000.
                          This and the others take --markdown
  bench growth [--long] [WORD..]
                          how costs grow with the number of turns, pieces, calls, ids, results, sessions, runs, live runs
  bench load [--minutes N] [--to FILE]
                          the program under load, for one minute by default: memory, threads and descriptors as an SVG
  bench instructions [--save]
                          instructions for a piece, a pull, an append and a frame, compared with a file; needs valgrind
  bench adk [WORD..]      ours and ADK's own server side by side, through ADK's own routes, as a table
  bench page [WORD..]     what the page costs in a browser: bytes, CPU time, frames from a press to its effect
  bench closing [WORD..]  how soon a pull closes the connection: providers × phases × protocols, a thousand runs each
  eval-usage --data FILE [--predictions FILE]
                     how close the meter's estimates are to what providers reported, on recorded calls (.jsonl or
                     .jsonl.gz); --predictions writes one line per call
  fuzz [SECONDS]     fuzzes every stream decoder, for one minute each by default; needs a nightly toolchain and
                     cargo-fuzz
  venv                    creates the Python environment that tests need, and prints the path of its Python, which some
                          tests need in ANDON_TEST_PYTHON
  help               this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome =
        if docs::is_rustdoc() { docs::rustdoc(&arguments) } else { run(&arguments).map(|()| ExitCode::SUCCESS) };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => tests::test(tests::Length::Short),
        ["test", "--long"] => tests::test(tests::Length::Long),
        ["surface"] => surface::surface(tests::Length::Short),
        ["surface", "--long"] => surface::surface(tests::Length::Long),
        ["adk"] => adk::adk(),
        ["page", words @ ..] => page::page(words),
        ["types"] => types::types(),
        ["rooms"] => rooms::rooms(),
        ["drops"] => drops::drops(),
        ["features"] => features::features(tests::Length::Short),
        ["features", "--long"] => features::features(tests::Length::Long),
        ["api", words @ ..] => api::api(words),
        ["packages"] => packages::packages(),
        ["proxy"] => proxy::proxy(),
        ["observe"] => observe::observe(),
        ["postgres", words @ ..] => postgres::postgres(words),
        ["points", words @ ..] => tests::points(words),
        ["crash", words @ ..] => crash::crash(words),
        ["faults", names @ ..] => faults::faults(names),
        ["mutants", words @ ..] => mutants::mutants(words),
        ["bench", name, words @ ..] => bench::bench(name, words),
        ["eval-usage", words @ ..] => eval::usage(words),
        ["fuzz", words @ ..] => fuzz::fuzz(words),
        ["venv"] => {
            println!("{}", python::ensure_venv()?.display());
            Ok(())
        }
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        other => bail!("there is no command `{}`; `cargo xtask help` lists them", other.join(" ")),
    }
}
