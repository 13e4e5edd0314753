//! Stages: commands that are run one after the other or side by side, with the minutes that each took.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::python::target_folder;

/// Above this a warning is printed: on two cores, from cold, it is too slow for everyday use. It is not an error, because machines differ.
const SLOW: Duration = Duration::from_secs(15 * 60);

/// How many lines of its output a failed stage of a lane shows.
const LAST_LINES: usize = 80;

/// How many lanes run at a time: one for each of two cores, and two more because most stages wait now and then.
const AT_ONCE: usize = 4;

/// Stages of a lane that took less are not listed one by one.
const SHORT: Duration = Duration::from_secs(6);

/// How a line begins that says what a stage which passed could not test on this machine.
const NOT_TRIED: &str = "not tried: ";

/// What was run, and how long it took.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    done: Vec<(String, Duration)>,
    /// How many lanes were not run again, because they passed and nothing has changed.
    unchanged: usize,
    /// The stages that were skipped, each with what this machine lacks.
    not_tried: Vec<String>,
    /// Whether other lanes run at the same time. If so, output goes to a file.
    is_lane: bool,
}

/// Stages that are run one after the other, beside other lanes.
pub(crate) type Lane = Box<dyn FnOnce(&mut Stages) -> Result<()> + Send>;

impl Stages {
    /// Runs one stage; an error ends the whole, or its lane.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) -> Result<()> {
        let began = now();
        let log = if self.is_lane { Some(log_of(name)?) } else { None };
        match &log {
            Some(log) => {
                let file = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
                command.stdout(file.try_clone()?).stderr(file);
            }
            None => println!("\n=== {name}"),
        }
        let status = command.status().with_context(|| format!("{name}: the command could not be started"))?;
        let took = began.elapsed();
        self.done.push((name.to_owned(), took));
        if !status.success() {
            if let Some(log) = &log {
                println!("\n=== {name} failed; all that it printed is in {}\n{}", log.display(), last_lines(log));
            }
            bail!("{name} failed; run it alone with:\n  {}", shown(command));
        }
        if let Some(log) = &log {
            println!("=== {name}: passed, {:.1} minutes", minutes(took));
            self.not_tried.extend(left_out(name, &text_of(log)?));
        }
        Ok(())
    }

    /// What a stage needs, or `None` if this machine does not have it; the stage is then skipped and listed at the end.
    pub(crate) fn needs<T>(&mut self, name: &str, what: Result<T>) -> Option<T> {
        match what {
            Ok(what) => Some(what),
            Err(error) => {
                println!("=== {name}: not tried: {error:#}");
                self.not_tried.push(format!("{name}: {error:#}"));
                None
            }
        }
    }

    /// Runs a lane, and says whether nothing in it was skipped.
    pub(crate) fn tries_everything(&mut self, lane: Lane) -> Result<bool> {
        let skipped = self.not_tried.len();
        lane(self)?;
        Ok(self.not_tried.len() == skipped)
    }

    /// Says that a lane is not run, because it passed and nothing that it depends on has changed.
    pub(crate) fn unchanged(&mut self, name: &str) {
        println!("=== {name}: passed before, nothing has changed");
        self.unchanged += 1;
    }

    /// Runs lanes side by side, a few at a time and in their order, each to its end or to its first stage that fails.
    pub(crate) fn side_by_side(&mut self, lanes: Vec<Lane>) -> Result<()> {
        let began = now();
        let left = Mutex::new(lanes.into_iter());
        let next = || left.lock().ok()?.next();
        let work = || {
            let (mut stages, mut outcome) = (Self { is_lane: true, ..Self::default() }, Ok(()));
            while let Some(lane) = next() {
                if let Err(error) = lane(&mut stages) {
                    println!("=== {error:#}");
                    outcome = outcome.and(Err(error));
                }
            }
            (stages, outcome)
        };
        let ended: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        let mut outcome = Ok(());
        for ended in ended {
            let Ok((stages, ended)) = ended else { bail!("a lane of stages panicked") };
            let side_by_side = stages.done.into_iter().map(|(name, took)| (format!("| {name}"), took));
            self.done.extend(side_by_side);
            self.not_tried.extend(stages.not_tried);
            self.unchanged += stages.unchanged;
            outcome = outcome.and(ended);
        }
        self.done.push(("all of these, side by side".to_owned(), began.elapsed()));
        outcome
    }

    /// Prints the minutes of each stage, and what was skipped. With `CI=true`, skipping anything is an error.
    pub(crate) fn finish(&self) -> Result<()> {
        let alone = self.done.iter().filter(|(name, _)| !name.starts_with('|'));
        let total: Duration = alone.map(|(_, took)| *took).sum();
        println!("\n{:<44} minutes", "stage");
        let (short, long): (Vec<_>, Vec<_>) =
            self.done.iter().partition(|(name, took)| name.starts_with('|') && *took < SHORT);
        for (name, took) in long {
            println!("{name:<44} {:>7.1}", minutes(*took));
        }
        println!("{} more took under {} seconds each", short.len(), SHORT.as_secs());
        println!("{:<44} {:>7.1}", "in all", minutes(total));
        if total > SLOW {
            println!(
                "warning: the whole took over {:.0} minutes; if it always does, move work to --long",
                minutes(SLOW)
            );
        }
        if self.unchanged > 0 {
            println!("{} passed before and nothing has changed; CI=true runs them again", self.unchanged);
        }
        for what in &self.not_tried {
            println!("{NOT_TRIED}{what}");
        }
        if !self.not_tried.is_empty() && is_ci() {
            bail!("with CI=true nothing may be left out");
        }
        Ok(())
    }
}

pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

/// The file that takes the output of a stage in a lane.
pub(crate) fn log_of(name: &str) -> Result<PathBuf> {
    let folder = target_folder().join("stages");
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let plain: String = name.chars().map(|own| if own.is_ascii_alphanumeric() { own } else { '-' }).collect();
    Ok(folder.join(format!("{plain}.log")))
}

/// What a stage of a lane has printed.
pub(crate) fn printed(name: &str) -> Result<String> {
    text_of(&log_of(name)?)
}

fn text_of(log: &Path) -> Result<String> {
    let bytes = std::fs::read(log).with_context(|| format!("{} cannot be read", log.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a stage says that it could not test, each thing once.
fn left_out(name: &str, printed: &str) -> BTreeSet<String> {
    let what = printed.lines().filter_map(|line| line.strip_prefix(NOT_TRIED));
    what.map(|what| format!("{name}: {what}")).collect()
}

/// Runs a command that prepares a stage, and shows nothing of it. If it fails, the error is one line: the last that it printed, and
/// where the rest is.
pub(crate) fn quietly(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{program}` cannot be run"))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].concat();
    let log = log_of(&program)?;
    std::fs::write(&log, &printed).with_context(|| format!("{} cannot be written", log.display()))?;
    let last = last_line(&String::from_utf8_lossy(&printed)).to_owned();
    bail!("`{program}` failed ({}), all that it printed is in {}: {last}", output.status, log.display())
}

/// The last line that is not empty.
fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default()
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default().join("\n")
}

/// Warnings are errors, and enums that grow are whole: a new variant breaks this build, and no user's.
const CLIPPY: &str = "-Dwarnings__CLIPPY_HACKERY__--cfg__CLIPPY_HACKERY__andon_whole__CLIPPY_HACKERY__";

/// A cargo command that builds for tests: clippy compiles our own crates, so that they are linted as they are built and nothing is
/// compiled twice.
pub(crate) fn test_cargo(words: &[&str]) -> Command {
    let mut command = cargo(words);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", CLIPPY);
    if is_ci() {
        // What is built once needs no notes for the next time.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// A cargo command.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(words);
    on_this_machine(&mut command);
    command
}

/// This program, with other arguments.
pub(crate) fn xtask(words: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program has no name")?);
    command.args(words);
    Ok(command)
}

/// Builds the file that [`example`] runs, if it is out of date.
pub(crate) fn build_example(name: &str) -> Result<()> {
    let status = test_cargo(&["build", "--quiet", "--workspace", "--example", name]).status();
    if !status.context("cargo cannot be started")?.success() {
        bail!("the example {name} could not be built");
    }
    Ok(())
}

/// An example that was built with the whole workspace. `cargo run` would build it again, with the features of its package alone.
pub(crate) fn example(name: &str) -> Command {
    let mut command = Command::new(target_folder().join("debug").join("examples").join(name));
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
    let program = Path::new(command.get_program());
    // Cargo is on the path, but we are given its full path.
    let program = if program.ends_with("cargo") { "cargo".into() } else { program.to_string_lossy() };
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(program.into_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_passed_says_what_it_left_out_once() {
        let printed = "running\nnot tried: a full disk, because none can be mounted\nok\nnot tried: a full disk, because none can be mounted\n";
        let expected = BTreeSet::from(["crash: a full disk, because none can be mounted".to_owned()]);
        assert_eq!(left_out("crash", printed), expected);
        assert!(left_out("crash", "it was not tried: no\n").is_empty());
    }

    #[test]
    fn what_could_not_be_installed_is_told_in_one_line() {
        let error = quietly(Command::new("sh").args(["-c", "echo one; echo two >&2; echo >&2; exit 3"])).unwrap_err();
        let log = log_of("sh").unwrap();
        let expected = format!("`sh` failed (exit status: 3), all that it printed is in {}: two", log.display());
        assert_eq!(format!("{error:#}"), expected);
        assert_eq!(std::fs::read_to_string(log).unwrap(), "one\ntwo\n\n");
    }
}
