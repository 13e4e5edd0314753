//! Recorded calls: what was asked and what is visible of the answer on one side, what the provider reported on the other.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

/// This many characters of base64 in a row are a file or a signature, not text.
const BASE64: usize = 256;

/// No answer calls more tools than this.
const CALLS: u64 = 10_000;

/// One recorded call. The predictor sees only `call`.
pub(crate) struct Recorded {
    /// Its line in the file, from 1.
    pub(crate) line: usize,
    pub(crate) call: Call,
    pub(crate) truth: Truth,
}

/// What is known about a call without its figures.
pub(crate) struct Call {
    /// The recording.
    pub(crate) source: String,
    pub(crate) provider: String,
    /// The exact model, with its provider as a prefix.
    pub(crate) model: String,
    pub(crate) system: Option<String>,
    /// The messages' texts, and how many files each holds.
    pub(crate) messages: Vec<String>,
    pub(crate) files: Vec<usize>,
    pub(crate) tools: Vec<String>,
    /// The visible answer: its text, and its calls' names and arguments.
    pub(crate) text: String,
    pub(crate) calls: Vec<String>,
    /// The stream showed thinking.
    pub(crate) thinks: bool,
    /// The stream showed tools that the provider ran.
    pub(crate) provider_tools: bool,
}

/// What the provider reported.
#[derive(Clone, Copy)]
pub(crate) struct Truth {
    /// All tokens read.
    pub(crate) input: u64,
    /// All tokens written.
    pub(crate) output: u64,
    /// Those of them that were thinking; `None` if that is not on record. A 0 may stand for a provider that said nothing, so it is
    /// none either: the meter must cope without it.
    pub(crate) reasoning: Option<u64>,
}

#[derive(Deserialize)]
struct Line {
    prov: String,
    model: String,
    inp: Count,
    out: Count,
    msgs: Vec<String>,
    /// It must be there, and may be `null`.
    #[serde(deserialize_with = "Option::deserialize")]
    vis: Option<String>,
    src: String,
    reas: Option<Count>,
    srv: Option<bool>,
    think: Option<bool>,
    sys: Option<String>,
    tools: Option<Vec<String>>,
    nt: Option<Count>,
}

/// A whole number, even if it is written as `12.0`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(try_from = "serde_json::Number")]
struct Count(u64);

impl TryFrom<serde_json::Number> for Count {
    type Error = String;

    fn try_from(number: serde_json::Number) -> Result<Self, String> {
        // Below 2^53 a whole float is exact.
        let whole = |float: &f64| float.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(float);
        let float = || number.as_f64().filter(whole).map(|float| float as u64);
        number.as_u64().or_else(float).map(Self).ok_or_else(|| format!("{number} is not a number of tokens or calls"))
    }
}

/// Reads a file of recorded calls.
pub(crate) fn read(path: &Path) -> Result<Vec<Recorded>> {
    let shown = path.display();
    let file =
        File::open(path).with_context(|| format!("cannot open {shown}: give the recorded calls with `--data`"))?;
    let plain: Box<dyn Read> = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Box::new(MultiGzDecoder::new(packed(file, path)?)),
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

/// The file, if it begins like a gzip file.
fn packed(mut file: File, path: &Path) -> Result<impl Read> {
    let mut start = Vec::new();
    file.by_ref().take(2).read_to_end(&mut start).with_context(|| format!("cannot read {}", path.display()))?;
    if start != [0x1f, 0x8b] {
        bail!("{} is not gzip, despite its name: pack it, or name it .jsonl", path.display());
    }
    Ok(std::io::Cursor::new(start).chain(file))
}

fn parse(number: usize, line: &str) -> Result<Recorded> {
    let line: Line = serde_json::from_str(line)
        .map_err(|error| anyhow::anyhow!("not a recorded call: {error}; `--help` lists the fields"))?;
    let (messages, files) = line.msgs.iter().map(|text| without_base64(text)).unzip();
    let (visible, withheld) = without_base64(line.vis.as_deref().unwrap_or_default());
    let (called, tools) = (line.nt.unwrap_or_default().0, line.tools.unwrap_or_default());
    if called > CALLS {
        bail!("`nt` is {called}: an answer with more than {CALLS} tool calls is not believed");
    }
    let (text, calls) = split(&visible, called as usize, &tools);
    let call = Call {
        source: line.src,
        model: format!("{}/{}", line.prov, line.model),
        provider: line.prov,
        system: line.sys.filter(|system| !system.is_empty()),
        messages,
        files,
        tools,
        text,
        calls,
        thinks: line.think.unwrap_or(false) || withheld > 0,
        provider_tools: line.srv.unwrap_or(false),
    };
    let truth = Truth {
        input: line.inp.0,
        output: line.out.0,
        reasoning: line.reas.map(|count| count.0).filter(|count| *count > 0),
    };
    Ok(Recorded { line: number, call, truth })
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

/// Takes a visible answer apart: the text comes before the first called tool's name.
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
