//! The tables, and the last line.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Result;

use super::groups::{Summary, inside, summary};
use super::replay::{Guess, Kind, LeftOut, Prediction};

/// Prints the tables and the last line.
pub(crate) fn print(predictions: &[Prediction], splits: &[Vec<Prediction>], out: &mut impl Write) -> Result<()> {
    names(predictions, "model", |prediction| &prediction.model, out)?;
    names(predictions, "provider", |prediction| &prediction.provider, out)?;
    kinds(predictions, out)?;
    hiding(predictions, out)?;
    scope(predictions, out)?;
    if !splits.is_empty() {
        random(splits, out)?;
    }
    writeln!(out, "{}", last_line(predictions))?;
    Ok(())
}

/// The figures of the last line: of texts that were cut, or whose provider did not say what they used.
fn outputs(predictions: &[Prediction]) -> impl Iterator<Item = &Guess> {
    predictions.iter().flat_map(counting)
}

fn counting(prediction: &Prediction) -> impl Iterator<Item = &Guess> {
    all_outputs(prediction).filter(|guess| guess.left_out.is_none())
}

fn all_outputs(prediction: &Prediction) -> impl Iterator<Item = &Guess> {
    prediction.cuts.iter().chain([&prediction.output])
}

fn inputs(predictions: &[Prediction]) -> impl Iterator<Item = &Guess> {
    predictions.iter().map(|prediction| &prediction.input).filter(|guess| guess.left_out.is_none())
}

const COLUMNS: [&str; 6] = ["count", "answers", "median", "p90", "bias", "covered"];

fn columns() -> String {
    let [count, answers, median, p90, bias, covered] = COLUMNS;
    format!("{count:>6} {answers:>7} {median:>7} {p90:>7} {bias:>7} {covered:>7}")
}

fn cells(summary: Option<&Summary>) -> String {
    match summary {
        None => format!("{:>6} {:>7} {:>7} {:>7} {:>7} {:>7}", "-", "-", "-", "-", "-", "-"),
        Some(Summary { count, answers, median, p90, bias, coverage }) => {
            let [median, p90, bias, coverage] = [median, p90, bias, coverage].map(|share| number(*share, 2));
            format!("{count:>6} {answers:>7} {median:>7} {p90:>7} {bias:>7} {coverage:>7}")
        }
    }
}

/// One row for each model or provider: how good the predictions were that count in the last line.
fn names(predictions: &[Prediction], title: &str, key: fn(&Prediction) -> &String, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{title:<52} {:>5}  {:^46}  {:^46}", "calls", "output text, %", "anchored input, %")?;
    writeln!(out, "{:<52} {:>5}  {}  {}", "", "", columns(), columns())?;
    let names: BTreeSet<&String> = predictions.iter().map(key).collect();
    for name in names {
        let of = || predictions.iter().filter(|prediction| key(prediction) == name);
        let output = summary(of().flat_map(counting));
        let input = summary(of().map(|prediction| &prediction.input).filter(|guess| guess.left_out.is_none()));
        writeln!(out, "{name:<52} {:>5}  {}  {}", of().count(), cells(output.as_ref()), cells(input.as_ref()))?;
    }
    writeln!(out)?;
    Ok(())
}

/// Kinds of figures, those that are not in the last line as well.
fn kinds(predictions: &[Prediction], out: &mut impl Write) -> Result<()> {
    writeln!(out, "{:<58}  {}", "kind, %", columns())?;
    let mut row = |title: &str, row: Option<Summary>| writeln!(out, "{title:<58}  {}", cells(row.as_ref()));
    let counts = |guess: &&Guess| guess.left_out.is_none();
    let unpublished = || predictions.iter().filter(|prediction| !prediction.published);
    let published = || predictions.iter().filter(|prediction| prediction.published);
    row("output: published vocabularies", summary(published().flat_map(counting)))?;
    row("output: unpublished vocabularies", summary(unpublished().flat_map(counting)))?;
    row("output: unpublished, whole answers", summary(unpublished().map(|call| &call.output).filter(counts)))?;
    for (title, from, to) in [("no call", 0, 1), ("1 to 4", 1, 5), ("5 to 9", 5, 10), ("10 to 19", 10, 20)] {
        let some = unpublished().filter(|call| (from..to).contains(&call.earlier)).flat_map(all_outputs);
        let texts = some.filter(|guess| matches!(guess.left_out, None | Some(LeftOut::Early)));
        row(&format!("output: unpublished, after {title}"), summary(texts))?;
    }
    for tenth in 0..9 {
        let cuts = predictions.iter().filter_map(|call| call.cuts.get(tenth)).filter(counts);
        row(&format!("output: cut at {} %", 10 * (tenth + 1)), summary(cuts))?;
    }
    row("output: whole, not reported", summary(predictions.iter().map(|call| &call.output).filter(counts)))?;
    let left = |why: LeftOut| {
        predictions
            .iter()
            .filter(move |call| call.earlier >= 5 && call.output.left_out == Some(why))
            .map(|call| &call.output)
    };
    row("apart: output, tool calls", summary(left(LeftOut::ToolCalls)))?;
    row("apart: output, text of under 20 tokens", summary(left(LeftOut::Short)))?;
    let left =
        |why: LeftOut| predictions.iter().map(|call| &call.input).filter(move |guess| guess.left_out == Some(why));
    row("apart: input, with reasoning", summary(left(LeftOut::Reasoning)))?;
    row("apart: input, reported at the start of the stream", summary(left(LeftOut::ToldEarly)))?;
    row("apart: input, the same request again", summary(left(LeftOut::SameRequest)))?;
    row("apart: input, other instructions or tools than before", summary(left(LeftOut::OtherSetup)))?;
    row("apart: input, the provider ran its own tools", summary(left(LeftOut::ProviderTools)))?;
    row("apart: input, first request of a conversation", summary(left(LeftOut::FirstRequest)))?;
    writeln!(out)?;
    Ok(())
}

/// What has bounds and no value: how often the reported figure was within them.
fn hiding(predictions: &[Prediction], out: &mut impl Write) -> Result<()> {
    let own_tools = |prediction: &&Prediction| prediction.kind == Kind::ProviderTools;
    let hidden = || predictions.iter().filter(|call| call.hides_reasoning && !own_tools(call));
    writeln!(out, "{:<52} {:>5} {:>10}", "only bounds", "calls", "covered, %")?;
    let mut row = |name: &str, of: Vec<&Prediction>| {
        let held = of.iter().filter(|prediction| inside(&prediction.output)).count();
        let share = if of.is_empty() { "-".to_owned() } else { number(100.0 * held as f64 / of.len() as f64, 1) };
        writeln!(out, "{name:<52} {:>5} {share:>10}", of.len())
    };
    row("the provider ran its own tools", predictions.iter().filter(own_tools).collect())?;
    let names: BTreeSet<&String> = hidden().map(|prediction| &prediction.model).collect();
    for name in names {
        row(name, hidden().filter(|prediction| prediction.model == *name).collect())?;
    }
    writeln!(out)?;
    Ok(())
}

/// What the last line covers, and what it leaves out.
fn scope(predictions: &[Prediction], out: &mut impl Write) -> Result<()> {
    let (texts, anchored) = (outputs(predictions).count(), inputs(predictions).count());
    writeln!(
        out,
        "Of {} calls, each whole and cut in nine places, the last line has {texts} outputs and {anchored} inputs:",
        predictions.len()
    )?;
    let mut left_out = |figure: &str, why: LeftOut, because: &str, guesses: &mut dyn Iterator<Item = &Guess>| {
        let count = guesses.filter(|guess| guess.left_out == Some(why)).count();
        if count == 0 { Ok(()) } else { writeln!(out, "left out, {figure}: {count:>4}  {because}") }
    };
    for (why, because) in LeftOut::ALL {
        left_out("output", why, because, &mut predictions.iter().flat_map(all_outputs))?;
    }
    for (why, because) in LeftOut::ALL {
        left_out("input", why, because, &mut predictions.iter().map(|prediction| &prediction.input))?;
    }
    if texts == 0 {
        writeln!(out, "no output counts: no answer qualifies for the last line, so ignore its zeros")?;
    }
    if anchored == 0 {
        writeln!(out, "no input counts: no request qualifies for the last line, so ignore its zeros")?;
    }
    writeln!(out)?;
    Ok(())
}

/// The figures of the last line in random halves, each from an empty book.
fn random(splits: &[Vec<Prediction>], out: &mut impl Write) -> Result<()> {
    writeln!(out, "{:<58}  {}", format!("{} random halves, %", splits.len()), columns())?;
    let mut range = |title: &str, some: &dyn Fn(&Prediction) -> Vec<&Guess>| {
        let all = summary(splits.iter().flatten().flat_map(some));
        writeln!(out, "{title:<58}  {}", cells(all.as_ref()))?;
        let each: Vec<Summary> = splits.iter().filter_map(|split| summary(split.iter().flat_map(some))).collect();
        for (word, pick) in [("lowest", f64::min as fn(f64, f64) -> f64), ("highest", f64::max)] {
            let of = |part: fn(&Summary) -> f64| number(each.iter().map(part).reduce(pick).unwrap_or(0.0), 2);
            let [median, p90] = [of(|summary| summary.median), of(|summary| summary.p90)];
            let [bias, coverage] = [of(|summary| summary.bias), of(|summary| summary.coverage)];
            writeln!(out, "{:<58}  {:>14} {median:>7} {p90:>7} {bias:>7} {coverage:>7}", format!("  {word}"), "")?;
        }
        std::io::Result::Ok(())
    };
    range("output", &|call| counting(call).collect())?;
    range("output: unpublished", &|call| counting(call).filter(|_| !call.published).collect())?;
    range("anchored input", &|call| Some(&call.input).into_iter().filter(|guess| guess.left_out.is_none()).collect())?;
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
