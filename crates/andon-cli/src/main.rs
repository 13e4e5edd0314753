//! The `andon` program: a server of agents, and the commands that talk to it and stop runs.

mod agents;
mod args;
mod client;
mod completions;
mod config;
mod db;
mod exit;
mod follow;
mod how;
mod keys;
mod names;
mod own_line;
mod paste;
mod prices;
mod print;
mod records;
mod serve;
mod show;
mod stop;
mod talk;
mod terminal;
mod yaml;

use crate::args::{Args, Command};
use crate::exit::Exit;
use crate::print::Style;

/// Runs allocate many small pieces on one thread and free them on another: this allocator is good at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // This program is also the supervisor of a tool's process, so this must come first.
    andon_runtime::init();
    own_line::hide_password();
    // Keys are in the environment, and tools' processes run as the same user.
    andon_tools::process::hide_memory();
    andon_tools::process::adopt_orphans();
    let args = config::parse();
    let exit = work(args).unwrap_or_else(|error| {
        if is_closed_pipe(&error) {
            // The reader of the output has gone: there is nobody to tell.
            return Exit::Completed;
        }
        let bad = Style::BAD;
        print::aside(&format!("{bad}error:{bad:#} {}\n", print::plain(&format!("{error:#}"))));
        Exit::Failed
    });
    // The thread that reads the terminal may be waiting for a line, so exit without waiting for it.
    terminal::leave(exit);
}

fn work(args: Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(async {
        match args.command {
            // These have exit codes of their own: how the run ended, or the server.
            None => return serve::serve(&args.serve).await,
            Some(Command::Serve(args)) => return serve::serve(&args).await,
            Some(Command::Run(args)) => return talk::run_once(&args).await,
            Some(Command::Watch(args)) => return stop::watch(&args).await,
            Some(Command::Chat(args)) => talk::chat(&args).await?,
            Some(Command::Sessions(args)) => records::sessions(&args).await?,
            Some(Command::Runs(args)) => records::runs(&args).await?,
            Some(Command::Receipt(args)) => records::receipt(&args).await?,
            Some(Command::History(args)) => records::history(&args).await?,
            Some(Command::Export(args)) => records::export(&args).await?,
            Some(Command::Import(args)) => records::import(&args).await?,
            Some(Command::Delete(args)) => records::delete(&args).await?,
            Some(Command::Usage(args)) => records::usage(&args).await?,
            Some(Command::Cancel(args)) => return stop::cancel(&args).await,
            Some(Command::Approve(args)) => stop::approve(&args).await?,
            Some(Command::Line(args)) => stop::line(&args).await?,
            Some(Command::Keys(args)) => keys::keys(&args).await?,
            Some(Command::Config) => config::print()?,
            Some(Command::Completions { shell }) => completions::print(shell)?,
        }
        Ok(Exit::Completed)
    });
    // There is nothing to wait for: the run has settled, and what it leaked is in its receipt. The runtime is never shut down:
    // that would drop the drivers of runs that wait for approval, and a run whose driver is dropped is lost.
    std::mem::forget(runtime);
    exit
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
