//! What must catch a fault, and whether it does.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// A fault that survives this many kills is missed.
const KILLS: &str = "400";

/// What must catch a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Catch {
    /// The explorer, in this script, as a breach of this promise if one is named.
    Points { script: String, promise: Option<String> },
    /// This case of the conformance suite of journals.
    Conformance { case: String },
    /// The crash harness, as a breach of this invariant.
    Crash { invariant: String },
}

impl Catch {
    /// Reads what follows `Caught by:`.
    pub(super) fn parse(words: &str) -> Result<Self> {
        let points = |(script, promise): (&str, &str)| {
            let promise = promise.strip_prefix(", ").map(str::to_owned);
            Self::Points { script: script.to_owned(), promise }
        };
        let parsed = match words.split_once(", ") {
            Some(("points", rest)) => rest.strip_prefix('"').and_then(|rest| rest.split_once('"')).map(points),
            Some(("conformance", case)) => Some(Self::Conformance { case: case.to_owned() }),
            Some(("crash", invariant)) => Some(Self::Crash { invariant: invariant.to_owned() }),
            _ => None,
        };
        parsed.with_context(|| {
            format!("`Caught by: {words}` must be `points, \"SCRIPT\"` or `points, \"SCRIPT\", P1`, `conformance, CASE` or `crash, I1`")
        })
    }
}

/// The checkers, built on the copy in which any fault can be on.
#[derive(Debug)]
pub(super) struct Checkers {
    pub(super) points: PathBuf,
    pub(super) conformance: PathBuf,
    pub(super) crash: PathBuf,
}

impl Checkers {
    /// Checks that the checkers find nothing while no fault is on: otherwise catching a fault would prove nothing.
    pub(super) fn check_clean(&self) -> Result<()> {
        for (name, mut command) in [
            ("the conformance suite", Command::new(&self.conformance)),
            ("the explorer", self.points(&["text and one tool"])),
        ] {
            let output = command.env_remove("ANDON_FAULT").output()?;
            if !output.status.success() {
                bail!("with no fault on, {name} fails: {}", told(&output));
            }
        }
        Ok(())
    }

    /// How each checker that must catch a fault sees it; an error if one does not.
    pub(super) fn catch(&self, fault: &str, catches: &[Catch]) -> Result<Vec<String>> {
        if catches.is_empty() {
            let output = self.points(&["--first"]).env("ANDON_FAULT", fault).output()?;
            bail!("its file has no `Caught by:` line. The explorer finds:\n{}", told(&output));
        }
        catches.iter().map(|catch| self.look(fault, catch)).collect()
    }

    fn look(&self, fault: &str, catch: &Catch) -> Result<String> {
        let (mut command, start, word) = match catch {
            Catch::Points { script, promise } => {
                let word = promise.iter().map(|promise| format!(" {promise}: ")).collect();
                (self.points(&["--first", script]), format!("    {script}, "), word)
            }
            Catch::Conformance { case } => (Command::new(&self.conformance), format!("{case}: "), String::new()),
            Catch::Crash { invariant } => {
                let mut command = Command::new(&self.crash);
                command.args(["--kills", KILLS, "--until", &format!("{invariant}:")]);
                (command, "violation: ".to_owned(), format!("{invariant}:"))
            }
        };
        let output = command.env("ANDON_FAULT", fault).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let seen = text.lines().find(|line| line.starts_with(&start) && line.contains(&word));
        match seen {
            Some(line) if !output.status.success() => Ok(line.trim().to_owned()),
            _ => bail!("{catch:?} does not see it. It says:\n{}", told(&output)),
        }
    }

    fn points(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.points);
        command.args(words);
        command
    }
}

/// The last lines that a program printed.
fn told(output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(20)).copied().collect::<Vec<_>>().join("\n")
}
