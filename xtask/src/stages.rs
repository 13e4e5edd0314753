//! Stages: commands that are run one after the other, with the minutes that each took.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Over this the whole is too slow for everyday use, on two cores from cold. It is said and no more: how long it takes is the machine's
/// affair as well.
const SLOW: Duration = Duration::from_secs(25 * 60);

/// What was run, and how long it took.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    done: Vec<(String, Duration)>,
}

impl Stages {
    /// Runs one stage; an error ends the whole.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) -> Result<()> {
        println!("\n=== {name}");
        let began = now();
        let status = command.status().with_context(|| format!("{name}: the command could not be started"))?;
        self.done.push((name.to_owned(), began.elapsed()));
        if !status.success() {
            bail!("{name} failed; run it alone with:\n  {}", shown(command));
        }
        Ok(())
    }

    /// Prints the minutes of each stage.
    pub(crate) fn finish(&self) {
        let total: Duration = self.done.iter().map(|(_, took)| *took).sum();
        println!("\n{:<44} minutes", "stage");
        for (name, took) in &self.done {
            println!("{name:<44} {:>7.1}", minutes(*took));
        }
        println!("{:<44} {:>7.1}", "in all", minutes(total));
        if total > SLOW {
            println!(
                "warning: the whole took over {:.0} minutes; if it always does, move work to --long",
                minutes(SLOW)
            );
        }
    }
}

/// A cargo command.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(words);
    on_this_machine(&mut command);
    command
}

/// Keeps a command that talks to servers of this machine from asking a proxy for them. Whoever sits behind one still gets packages
/// through it.
pub(crate) fn on_this_machine(command: &mut Command) -> &mut Command {
    let own = ["NO_PROXY", "no_proxy"].iter().find_map(|name| std::env::var(name).ok());
    let without = own.into_iter().chain(["127.0.0.1,localhost,::1".to_owned()]).collect::<Vec<_>>().join(",");
    command.env("NO_PROXY", &without).env("no_proxy", &without)
}

#[expect(clippy::disallowed_methods, reason = "a stage takes real time, and nothing is decided by it but a warning")]
fn now() -> Instant {
    Instant::now()
}

fn minutes(duration: Duration) -> f64 {
    duration.as_secs_f64() / 60.0
}

fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    // Cargo is on the path, but is told by its place.
    let program = if program.ends_with("cargo") { "cargo".into() } else { program.to_string_lossy() };
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(program.into_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
