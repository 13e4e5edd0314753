//! The tables, and the last line.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Result;

use super::groups::{Summary, inside, summary};
use super::replay::{From, Guess, Kind, Prediction};

/// Prints the tables and the last line.
pub(crate) fn print(predictions: &[Prediction], out: &mut impl Write) -> Result<()> {
    table(predictions, "model", |prediction| &prediction.model, out)?;
    table(predictions, "provider", |prediction| &prediction.provider, out)?;
    apart(predictions, out)?;
    hiding(predictions, out)?;
    for changed in predictions.iter().filter(|prediction| prediction.tokenizer_changed) {
        writeln!(out, "line {}: {} seems to count differently from here on", changed.line, changed.model)?;
    }
    writeln!(out, "{}", last_line(predictions))?;
    Ok(())
}

fn outputs(predictions: &[Prediction]) -> impl Iterator<Item = &Guess> {
    predictions.iter().map(|prediction| &prediction.output).filter(|guess| guess.counts)
}

fn inputs(predictions: &[Prediction]) -> impl Iterator<Item = &Guess> {
    predictions.iter().filter_map(|prediction| prediction.input.as_ref()).filter(|guess| guess.counts)
}

fn head(title: &str, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{title:<52}  {:^37}  {:^37}", "output text, %", "anchored input, %")?;
    let columns = format!("{:>5} {:>7} {:>7} {:>7} {:>7}", "calls", "median", "p90", "bias", "covered");
    writeln!(out, "{:<52}  {columns}  {columns}", "")?;
    Ok(())
}

/// One row for each model or provider that counts in the last line.
fn table(predictions: &[Prediction], title: &str, key: fn(&Prediction) -> &String, out: &mut impl Write) -> Result<()> {
    head(title, out)?;
    let names: BTreeSet<&String> = predictions.iter().map(key).collect();
    for name in names {
        let of = || predictions.iter().filter(|prediction| key(prediction) == name);
        let output = summary(of().map(|prediction| &prediction.output).filter(|guess| guess.counts));
        let input = summary(of().filter_map(|prediction| prediction.input.as_ref()).filter(|guess| guess.counts));
        if output.is_some() || input.is_some() {
            writeln!(out, "{name:<52}  {}  {}", cells(output.as_ref()), cells(input.as_ref()))?;
        }
    }
    writeln!(out)?;
    Ok(())
}

fn cells(summary: Option<&Summary>) -> String {
    match summary {
        None => format!("{:>5} {:>7} {:>7} {:>7} {:>7}", "-", "-", "-", "-", "-"),
        Some(Summary { count, median, p90, bias, coverage }) => {
            let [median, p90, bias, coverage] = [median, p90, bias, coverage].map(|share| number(*share, 2));
            format!("{count:>5} {median:>7} {p90:>7} {bias:>7} {coverage:>7}")
        }
    }
}

/// What does not count in the last line.
fn apart(predictions: &[Prediction], out: &mut impl Write) -> Result<()> {
    let answers = |wanted: Kind| {
        let some = predictions.iter().filter(move |prediction| prediction.kind == wanted && prediction.earlier >= 5);
        summary(some.map(|prediction| &prediction.output).filter(|guess| !guess.counts))
    };
    let requests = |wanted: From| {
        let some = predictions.iter().filter_map(|prediction| prediction.input.as_ref());
        summary(some.filter(move |guess| guess.from == wanted && !guess.counts))
    };
    let rows = [
        ("output: tool calls", answers(Kind::Calls)),
        ("output: text of under 20 tokens", answers(Kind::Text)),
        ("input: anchored, with reasoning or provider's tools", requests(From::Anchor)),
        ("input: another conversation of the recording", requests(From::OtherConversation)),
    ];
    let columns = format!("{:>5} {:>7} {:>7} {:>7} {:>7}", "calls", "median", "p90", "bias", "covered");
    writeln!(out, "{:<52}  {columns}", "apart, not in the last line, %")?;
    for (title, row) in rows {
        writeln!(out, "{title:<52}  {}", cells(row.as_ref()))?;
    }
    writeln!(out)?;
    Ok(())
}

/// Models that hide reasoning have bounds and no values.
fn hiding(predictions: &[Prediction], out: &mut impl Write) -> Result<()> {
    let hidden = || predictions.iter().filter(|prediction| prediction.hides_reasoning);
    let names: BTreeSet<&String> = hidden().map(|prediction| &prediction.model).collect();
    writeln!(out, "{:<52}  {:>5} {:>22}", "models that hide reasoning: only bounds", "calls", "lower bound held, %")?;
    for name in names {
        let of: Vec<&Prediction> = hidden().filter(|prediction| prediction.model == *name).collect();
        let held = of.iter().filter(|prediction| inside(&prediction.output)).count();
        let share = number(100.0 * held as f64 / of.len() as f64, 1);
        writeln!(out, "{name:<52}  {:>5} {share:>22}", of.len())?;
    }
    writeln!(out)?;
    Ok(())
}

/// The line that says it all.
fn last_line(predictions: &[Prediction]) -> String {
    let output = summary(outputs(predictions));
    let input = summary(inputs(predictions));
    let both = summary(outputs(predictions).chain(inputs(predictions)));
    let show = |summary: &Option<Summary>, part: fn(&Summary) -> f64| {
        summary.as_ref().map_or_else(|| "-".to_owned(), |summary| number(part(summary), 2))
    };
    format!(
        "output median {} % p90 {} %, anchored input median {} % p90 {} %, aggregate bias {} %, coverage {} %",
        show(&output, |summary| summary.median),
        show(&output, |summary| summary.p90),
        show(&input, |summary| summary.median),
        show(&input, |summary| summary.p90),
        show(&both, |summary| summary.bias),
        show(&both, |summary| summary.coverage),
    )
}

/// A plain number: no plus, and no minus before a zero.
fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    if zero { text.trim_start_matches('-').to_owned() } else { text }
}
