//! The tables, and the last line.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Result;

use super::groups::{Summary, inside, summary};
use super::replay::{From, Guess, Kind, Prediction};
use super::scope::LeftOut;

/// Prints the tables and the last line.
pub(crate) fn print(predictions: &[Prediction], out: &mut impl Write) -> Result<()> {
    table(predictions, "model", |prediction| &prediction.model, out)?;
    table(predictions, "provider", |prediction| &prediction.provider, out)?;
    apart(predictions, out)?;
    hiding(predictions, out)?;
    for changed in predictions.iter().filter(|prediction| prediction.tokenizer_changed) {
        writeln!(out, "line {}: {} seems to count differently from here on", changed.line, changed.model)?;
    }
    scope(predictions, out)?;
    writeln!(out, "{}", last_line(predictions))?;
    Ok(())
}

/// What the last line covers, and what it leaves out.
fn scope(predictions: &[Prediction], out: &mut impl Write) -> Result<()> {
    let requests = || predictions.iter().filter_map(|prediction| prediction.input.as_ref());
    let first = predictions.iter().filter(|prediction| prediction.input.is_none()).count();
    let (texts, anchored) = (outputs(predictions).count(), inputs(predictions).count());
    writeln!(
        out,
        "What of an answer the provider's own tools wrote cannot be predicted from what is visible: its output"
    )?;
    writeln!(
        out,
        "stands apart. Of {} calls, the last line has the output of {texts} and the input of {anchored}:",
        predictions.len()
    )?;
    for reason in LeftOut::ALL {
        let left = predictions.iter().filter(|prediction| prediction.output.left_out == Some(reason)).count();
        left_out("output", left, reason.because(), out)?;
    }
    left_out("input", first, "the recording has no earlier call of the model", out)?;
    for reason in LeftOut::ALL {
        let left = requests().filter(|guess| guess.left_out == Some(reason)).count();
        left_out("input", left, reason.because(), out)?;
    }
    if texts == 0 {
        writeln!(out, "no output counts: no answer qualifies for the last line, so ignore its zeros")?;
    }
    if anchored == 0 {
        writeln!(out, "no input counts: there is no anchored call without reasoning, and its zeros mean nothing")?;
    }
    Ok(())
}

fn left_out(figure: &str, count: usize, why: &str, out: &mut impl Write) -> Result<()> {
    if count > 0 {
        writeln!(out, "left out, {figure}: {count:>4}  {why}")?;
    }
    Ok(())
}

fn outputs(predictions: &[Prediction]) -> impl Iterator<Item = &Guess> {
    predictions.iter().map(|prediction| &prediction.output).filter(|guess| guess.counts)
}

fn inputs(predictions: &[Prediction]) -> impl Iterator<Item = &Guess> {
    predictions.iter().filter_map(|prediction| prediction.input.as_ref()).filter(|guess| guess.counts)
}

fn head(title: &str, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{title:<52}  {:>5}  {:^37}  {:^37}", "all", "output text, %", "anchored input, %")?;
    let columns = format!("{:>5} {:>7} {:>7} {:>7} {:>7}", "calls", "median", "p90", "bias", "covered");
    writeln!(out, "{:<52}  {:>5}  {columns}  {columns}", "", "calls")?;
    Ok(())
}

/// One row for each model or provider: how many calls it has, and how good the predictions were that count in the last line.
fn table(predictions: &[Prediction], title: &str, key: fn(&Prediction) -> &String, out: &mut impl Write) -> Result<()> {
    head(title, out)?;
    let names: BTreeSet<&String> = predictions.iter().map(key).collect();
    for name in names {
        let of = || predictions.iter().filter(|prediction| key(prediction) == name);
        let output = summary(of().map(|prediction| &prediction.output).filter(|guess| guess.counts));
        let input = summary(of().filter_map(|prediction| prediction.input.as_ref()).filter(|guess| guess.counts));
        writeln!(out, "{name:<52}  {:>5}  {}  {}", of().count(), cells(output.as_ref()), cells(input.as_ref()))?;
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
        ("input: anchored, with reasoning", requests(From::Anchor)),
        ("input: another conversation of the recording", requests(From::OtherConversation)),
    ];
    let columns = format!("{:>5} {:>7} {:>7} {:>7} {:>7}", "calls", "median", "p90", "bias", "covered");
    writeln!(out, "{:<52}  {columns}", "apart, not in the last line, %")?;
    for (title, row) in rows {
        writeln!(out, "{title:<52}  {}", cells(row.as_ref()))?;
    }
    let own = predictions.iter().filter(|prediction| prediction.kind == Kind::ProviderTools);
    let held: Vec<bool> = own.map(|prediction| inside(&prediction.output)).collect();
    let share = match held.len() {
        0 => "-".to_owned(),
        all => number(100.0 * held.iter().filter(|held| **held).count() as f64 / all as f64, 2),
    };
    let title = "output: provider's own tools, only bounds";
    writeln!(out, "{title:<52}  {:>5} {:>7} {:>7} {:>7} {share:>7}", held.len(), "-", "-", "-")?;
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

/// The line that sums it up. If nothing counts it has zeros, so that a parser always finds numbers.
fn last_line(predictions: &[Prediction]) -> String {
    let output = summary(outputs(predictions));
    let input = summary(inputs(predictions));
    let both = summary(outputs(predictions).chain(inputs(predictions)));
    let show = |summary: &Option<Summary>, part: fn(&Summary) -> f64| number(summary.as_ref().map_or(0.0, part), 2);
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
