//! The `andon` program: talk to an agent in the terminal, and pull the cord.

mod agent;
mod args;
mod chat;
mod follow;
mod input;
mod interrupt;
mod run_once;
mod show;
mod terminal;
mod tools;

use clap::Parser;

use crate::args::{Args, Command};
use crate::show::Style;

/// Runs are many small pieces of memory that one thread takes and another gives back: this allocator is good at it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How the program ends. Usage errors are clap's, and leave with 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
    /// The run completed, or the chat was left.
    Completed = 0,
    /// The run failed, or the program did.
    Failed = 1,
    /// The run was cancelled.
    Cancelled = 3,
    /// A third Ctrl-C: left at once.
    Interrupted = 130,
}

impl Exit {
    /// Leaves the program, with the terminal as it was found.
    fn leave(self) -> ! {
        terminal::restore();
        std::process::exit(i32::from(self as u8));
    }
}

fn main() {
    let args = Args::parse();
    let exit = work(args).unwrap_or_else(|error| {
        if is_closed_pipe(&error) {
            // Whoever read the output has gone: there is nobody to tell.
            return Exit::Completed;
        }
        let bad = Style::BAD;
        anstream::eprintln!("{bad}error:{bad:#} {error:#}");
        Exit::Failed
    });
    // The thread that reads the terminal may be waiting for a line: leaving does not wait for it.
    exit.leave();
}

fn work(args: Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(async {
        match args.command {
            None => chat::chat(&args.chat).await,
            Some(Command::Chat(options)) => chat::chat(&options).await,
            Some(Command::Run(run)) => run_once::run_once(&run).await,
        }
    });
    // Nothing is left to be waited for: the run has settled, and what it leaked is in its receipt.
    runtime.shutdown_background();
    exit
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
