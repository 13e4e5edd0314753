//! Recorded calls: what was asked and what is visible of the answer on one side, what the provider reported on the other.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use andon_models::meter::Reported;
use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

/// So many characters of base64 in a row are a file or a signature, not text.
const BASE64: usize = 256;

/// One recorded call. What predicts sees only the call.
pub(crate) struct Recorded {
    /// Its line in the file, from 1.
    pub(crate) line: usize,
    pub(crate) call: Call,
    pub(crate) truth: Truth,
}

/// What is known of a call without its figures.
pub(crate) struct Call {
    /// The recording.
    pub(crate) source: String,
    pub(crate) provider: String,
    /// The exact model, with the provider before it.
    pub(crate) model: String,
    pub(crate) system: Option<String>,
    /// The messages' texts, and how many files each holds.
    pub(crate) messages: Vec<Cow<'static, str>>,
    pub(crate) files: Vec<usize>,
    pub(crate) tools: Vec<Cow<'static, str>>,
    /// The visible answer: its text, and its calls' names and arguments.
    pub(crate) text: String,
    pub(crate) calls: Vec<String>,
    /// The stream showed thinking.
    pub(crate) thinks: bool,
    /// The stream showed tools that the provider ran.
    pub(crate) provider_tools: bool,
}

/// What the provider reported.
pub(crate) struct Truth {
    pub(crate) reported: Reported,
}

#[derive(Deserialize)]
struct Line {
    prov: String,
    model: String,
    inp: u64,
    out: u64,
    msgs: Vec<String>,
    vis: String,
    src: String,
    #[serde(default)]
    reas: u64,
    #[serde(default)]
    srv: bool,
    #[serde(default)]
    think: bool,
    #[serde(default)]
    sys: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    nt: usize,
}

/// Reads a file of recorded calls.
pub(crate) fn read(path: &Path) -> Result<Vec<Recorded>> {
    let shown = path.display();
    let file =
        File::open(path).with_context(|| format!("cannot open {shown}: give the recorded calls with `--data`"))?;
    let plain: Box<dyn Read> = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Box::new(MultiGzDecoder::new(file)),
        Some("jsonl") => Box::new(file),
        _ => bail!("{shown} is neither .jsonl nor .jsonl.gz: name it by what it is"),
    };
    let mut recorded = Vec::new();
    for (index, line) in BufReader::new(plain).lines().enumerate() {
        let line = line.with_context(|| format!("{shown}, line {}: cannot be read as text", index + 1))?;
        if line.trim().is_empty() {
            continue;
        }
        recorded.push(parse(index + 1, &line).with_context(|| format!("{shown}, line {}", index + 1))?);
    }
    if recorded.is_empty() {
        bail!("{shown} holds no calls: it needs one JSON object a line");
    }
    Ok(recorded)
}

fn parse(number: usize, line: &str) -> Result<Recorded> {
    let line: Line = serde_json::from_str(line)
        .map_err(|error| anyhow::anyhow!("not a recorded call: {error}; `--help` lists the fields"))?;
    let (messages, files) =
        line.msgs.iter().map(|text| without_base64(text)).map(|(text, files)| (Cow::Owned(text), files)).unzip();
    let (visible, withheld) = without_base64(&line.vis);
    let (text, calls) = split(&visible, line.nt, &line.tools);
    let call = Call {
        source: line.src,
        model: format!("{}/{}", line.prov, line.model),
        provider: line.prov,
        system: line.sys.filter(|system| !system.is_empty()),
        messages,
        files,
        tools: line.tools.into_iter().map(Cow::Owned).collect(),
        text,
        calls,
        thinks: line.think || withheld > 0,
        provider_tools: line.srv,
    };
    let reported = Reported { input: Some(line.inp), output: Some(line.out), reasoning: Some(line.reas) };
    Ok(Recorded { line: number, call, truth: Truth { reported } })
}

/// The text without long runs of base64, and how many there were.
fn without_base64(text: &str) -> (String, usize) {
    let coded = |character: char| character.is_ascii_alphanumeric() || matches!(character, '+' | '/' | '=' | '-' | '_');
    let (mut kept, mut runs) = (String::with_capacity(text.len().min(1 << 16)), 0);
    for part in text.split_inclusive(|character| !coded(character)) {
        let run = part.trim_end_matches(|character| !coded(character));
        if run.len() >= BASE64 {
            runs += 1;
            kept.push_str(part.get(run.len()..).unwrap_or_default());
        } else {
            kept.push_str(part);
        }
    }
    (kept, runs)
}

/// Takes a visible answer apart: the text stands before the first called tool's name.
fn split(visible: &str, calls: usize, tools: &[String]) -> (String, Vec<String>) {
    if calls == 0 {
        return (visible.to_owned(), Vec::new());
    }
    let first = tools.iter().filter_map(|tool| name(tool)).filter_map(|name| visible.find(&format!("{name}{{"))).min();
    let (text, rest) = visible.split_at_checked(first.unwrap_or(0)).unwrap_or(("", visible));
    let mut parts = vec![String::new(); calls];
    if let Some(part) = parts.first_mut() {
        part.push_str(rest);
    }
    (text.to_owned(), parts)
}

/// The name of a tool, by its JSON.
fn name(tool: &str) -> Option<String> {
    let tool: serde_json::Value = serde_json::from_str(tool).ok()?;
    let name = tool.get("name").or_else(|| tool.pointer("/function/name")).or_else(|| tool.pointer("/toolSpec/name"));
    Some(name?.as_str()?.to_owned()).filter(|name| !name.is_empty())
}
