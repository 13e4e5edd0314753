//! Replays recorded calls in order: each is predicted, then learned from.

use std::borrow::Cow;
use std::collections::HashMap;

use andon_core::usage::Figure;
use andon_models::meter::{Anchor, Asked, Book, Written, reasons};
use serde::Serialize;

use super::data::{Call, Recorded, Truth};
use super::scope::{self, Facts, LeftOut};

/// What was predicted for a call, and what was reported.
#[derive(Serialize)]
pub(crate) struct Prediction {
    pub(crate) line: usize,
    pub(crate) src: String,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// Completed calls of this model before this one.
    pub(crate) earlier: u64,
    pub(crate) output: Guess,
    /// If the same recording has an earlier reported call of this model.
    pub(crate) input: Option<Guess>,
    /// The model thinks without showing it, as far as was known before the call.
    pub(crate) hides_reasoning: bool,
    pub(crate) kind: Kind,
    /// With this call the provider seemed to count differently.
    pub(crate) tokenizer_changed: bool,
}

/// What kind of answer it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Text and nothing else.
    Text,
    /// Tool calls.
    Calls,
    /// The provider ran tools of its own.
    ProviderTools,
    /// With thinking.
    Reasoning,
    /// Nothing visible.
    Nothing,
}

/// One predicted figure.
#[derive(Serialize)]
pub(crate) struct Guess {
    #[serde(flatten)]
    pub(crate) predicted: Figure,
    pub(crate) reported: u64,
    /// What the prediction is based on.
    pub(crate) from: From,
    /// Why it does not count in the last line; `None` if it counts.
    pub(crate) left_out: Option<LeftOut>,
    /// Whether it counts there.
    pub(crate) counts: bool,
}

impl Guess {
    fn new(predicted: Figure, reported: u64, from: From, left_out: Option<LeftOut>) -> Self {
        Self { predicted, reported, from, left_out, counts: left_out.is_none() }
    }
}

/// What a prediction is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum From {
    /// The visible answer.
    Visible,
    /// An earlier call that this one continues.
    Anchor,
    /// An earlier call of the same recording with other messages.
    OtherConversation,
}

/// A reported call of the recording.
struct Earlier {
    anchor: Anchor,
    messages: Vec<Cow<'static, str>>,
    reasoned: bool,
}

/// What can be said before a call's figures are seen.
struct Foresight {
    output: Figure,
    input: Figure,
    hides: bool,
}

/// Predicts each call, then learns from it.
pub(crate) fn replay(recorded: &[Recorded]) -> Vec<Prediction> {
    let book = Book::new();
    let mut recordings: HashMap<(&str, &str), Vec<Earlier>> = HashMap::new();
    let mut predictions = Vec::with_capacity(recorded.len());
    for Recorded { line, call, truth } in recorded {
        let earlier = recordings.entry((&call.source, &call.model)).or_default();
        let ground = ground(call, earlier);
        let asked = asked(call, earlier);
        let foresight = foresee(&book, call, &asked, ground.map(|(earlier, _)| &earlier.anchor));
        let seen = book.page(&call.model).map_or(0, |page| page.calls());
        let prediction = compare(*line, call, truth, seen, &foresight, ground);
        let (anchor, written) = (ground.map(|(earlier, _)| earlier.anchor), written(call));
        let lesson = book.learn(&call.model, &asked, &written, anchor.as_ref(), &truth.reported);
        predictions.push(Prediction { tokenizer_changed: lesson.changed, ..prediction });
        if let Some(anchor) = book.counted_anchor(&call.model, &asked, &written, &truth.reported) {
            let reasoned = call.thinks || truth.reported.reasoning.is_some_and(|reasoning| reasoning > 0);
            earlier.push(Earlier { anchor, messages: call.messages.clone(), reasoned });
        }
    }
    predictions
}

/// The prediction, from everything about the call but its figures.
fn foresee(book: &Book, call: &Call, asked: &Asked<'_>, anchor: Option<&Anchor>) -> Foresight {
    let (output, _) = book.output(&call.model, &written(call), None);
    // The same answer with nothing hidden: then only a model that hides its thinking has no value.
    let open = Written { hidden: false, ..written(call) };
    let hides = book.output(&call.model, &open, None).0.value.is_none() && !call.text.is_empty();
    Foresight { output, input: book.input(&call.model, asked, anchor), hides }
}

fn compare(
    line: usize,
    call: &Call,
    truth: &Truth,
    earlier: u64,
    foresight: &Foresight,
    ground: Option<(&Earlier, From)>,
) -> Prediction {
    let reported = &truth.reported;
    let (input, output) = (reported.input.unwrap_or(0), reported.output.unwrap_or(0));
    let reasoned = call.thinks || reported.reasoning.is_some_and(|reasoning| reasoning > 0);
    let kind = scope::kind(call, reasoned);
    let facts = Facts { reasoned, hides: foresight.hides, earlier, output };
    let input = ground.map(|(earlier, from)| {
        let left_out = scope::input(from, &facts, earlier.reasoned, reasons(&call.model));
        Guess::new(foresight.input, input, from, left_out)
    });
    Prediction {
        line,
        src: call.source.clone(),
        provider: call.provider.clone(),
        model: call.model.clone(),
        earlier,
        output: Guess::new(foresight.output, output, From::Visible, scope::output(kind, &facts)),
        input,
        hides_reasoning: foresight.hides,
        kind,
        tokenizer_changed: false,
    }
}

/// The earlier call that says most about this one: the longest history that it continues, or else the last.
fn ground<'a>(call: &Call, earlier: &'a [Earlier]) -> Option<(&'a Earlier, From)> {
    let continued = earlier.iter().filter(|earlier| call.messages.starts_with(&earlier.messages));
    let nearest = continued.max_by_key(|earlier| earlier.messages.len()).map(|earlier| (earlier, From::Anchor));
    nearest.or_else(|| earlier.last().map(|earlier| (earlier, From::OtherConversation)))
}

/// What a call asks. A known signature in an answer does not count as a file.
fn asked<'a>(call: &'a Call, earlier: &[Earlier]) -> Asked<'a> {
    let answer = |index: usize| {
        let mut before = earlier.iter().filter(|earlier| call.messages.starts_with(&earlier.messages));
        before.any(|earlier| earlier.messages.len() == index)
    };
    let images = call.files.iter().enumerate().filter(|(index, _)| !answer(*index)).map(|(_, files)| files).sum();
    Asked { system: call.system.as_deref(), messages: &call.messages, tools: &call.tools, images }
}

fn written(call: &Call) -> Written<'_> {
    Written {
        text: Cow::Borrowed(&call.text),
        thinking: Cow::Borrowed(""),
        calls: call.calls.iter().map(|call| ("", call.as_str())).collect(),
        hidden: call.provider_tools || call.thinks,
    }
}
