//! Reads recorded calls, replays them, and reports how good the predictions were.

mod data;
mod groups;
mod replay;
mod report;
mod truth;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use data::Recorded;

/// How many random halves are replayed, if there are enough calls.
const SPLITS: u64 = 10;
const ENOUGH: usize = 100;

const HELP: &str = "\
Usage: cargo xtask eval-usage --data FILE [--predictions FILE]

  --data FILE         recorded calls, one JSON object a line; .jsonl, or .jsonl.gz
  --predictions FILE  writes one JSON line a call: prediction, bounds, and what the provider reported

Fields of a line: prov, model, inp, out (tokens reported), msgs (texts of the request's messages), vis (the visible answer: its
text, or the called tools' names and arguments), src (the recording), and where they apply: reas (reasoning tokens), think
(the answer had thinking), srv (the provider ran tools of its own), sys (system prompt), tools (JSON texts), nt (how many
tools the answer called; at most 10,000).";

/// Runs the evaluation as these arguments say.
pub(crate) fn run(arguments: &[String], out: &mut impl Write) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (data, predictions) = match words.as_slice() {
        ["--help" | "-h"] => return Ok(writeln!(out, "{HELP}")?),
        ["--data", data] => (PathBuf::from(data), None),
        ["--data", data, "--predictions", file] | ["--predictions", file, "--data", data] => {
            (PathBuf::from(data), Some(PathBuf::from(file)))
        }
        _ => bail!("give the recorded calls with `--data FILE`\n\n{HELP}"),
    };
    let recorded = data::read(&data)?;
    let ends = truth::Ends::of(&recorded);
    let replayed = replay::replay(&recorded.iter().collect::<Vec<_>>(), &ends)?;
    let splits = (0..if recorded.len() < ENOUGH { 0 } else { SPLITS })
        .map(|seed| replay::replay(&half(&recorded, seed), &ends))
        .collect::<Result<Vec<_>>>()?;
    if let Some(path) = predictions {
        let file =
            File::create(&path).with_context(|| format!("cannot write the predictions to {}", path.display()))?;
        let mut file = BufWriter::new(file);
        for prediction in &replayed {
            serde_json::to_writer(&mut file, prediction)?;
            file.write_all(b"\n")?;
        }
        file.flush().with_context(|| format!("cannot write the predictions to {}", path.display()))?;
    }
    report::print(&replayed, &splits, out)
}

/// A random half of the recordings, in random order; the calls of each as they came.
fn half(recorded: &[Recorded], seed: u64) -> Vec<&Recorded> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sources: Vec<&str> = recorded.iter().map(|recorded| recorded.call.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    random.shuffle(&mut sources);
    sources.truncate(sources.len().div_ceil(2));
    let calls = |source: &&str| recorded.iter().filter(|recorded| recorded.call.source == *source).collect::<Vec<_>>();
    sources.iter().flat_map(calls).collect()
}
