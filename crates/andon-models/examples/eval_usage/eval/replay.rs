//! Replays recorded calls in order, through the meter that a running program uses: each is cut in ten places, then learned from.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use andon_core::message::Image;
use andon_core::usage::{Figure, Usage};
use andon_models::meter::{Book, vocabulary};
use andon_runtime::{
    Anchor, AnchorSetup, CallId, Message, Meter, MeteredCall, ModelRequest, Part, RunId, Signature, ToolCall, ToolSpec,
};
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::data::{Call, Recorded, Truth};
use super::truth::Ends;

/// How many calls of a model must have been seen before it counts.
const EARLIER: u64 = 5;
/// How many tokens an answer, or the part of it that was shown, must have.
const LEAST: u64 = 20;
/// Providers whose streams begin with the input: nobody has to estimate it.
const TELL_EARLY: [&str; 4] = ["anthropic", "google", "gemini", "xai"];

/// Words in the names of models whose recorded texts may hold what they thought, which is not read again.
const THINKERS: [&str; 5] = ["r1", "reasoner", "qwq", "magistral", "thinking"];

/// What was predicted for a call, and what was reported.
#[derive(Serialize)]
pub(crate) struct Prediction {
    pub(crate) line: usize,
    pub(crate) src: String,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// Whether the vocabulary of the model is published.
    pub(crate) published: bool,
    /// Completed calls of this model before this one.
    pub(crate) earlier: u64,
    pub(crate) kind: Kind,
    /// The model thinks without showing it, as far as was known before the call.
    pub(crate) hides_reasoning: bool,
    /// The whole answer, of a provider that does not say what it used.
    pub(crate) output: Guess,
    /// The answer when it was cut at 10 %, 20 %, … 90 % of its text.
    pub(crate) cuts: Vec<Guess>,
    pub(crate) input: Guess,
}

/// What kind of answer it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

impl Kind {
    pub(crate) fn of(call: &Call, truth: Truth) -> Self {
        match () {
            () if call.provider_tools => Self::ProviderTools,
            () if call.thinks || truth.reasoning.is_some() => Self::Reasoning,
            () if !call.calls.is_empty() => Self::Calls,
            () if call.text.is_empty() => Self::Nothing,
            () => Self::Text,
        }
    }
}

/// One predicted figure.
#[derive(Serialize)]
pub(crate) struct Guess {
    #[serde(flatten)]
    pub(crate) predicted: Figure,
    /// What the provider reported, or the part of it that fell before a cut.
    pub(crate) reported: u64,
    /// Why it does not count in the last line; `None` if it counts.
    pub(crate) left_out: Option<LeftOut>,
    /// The line of its call: several figures may be of one answer.
    #[serde(skip)]
    pub(crate) line: usize,
}

/// Why a figure does not count in the last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeftOut {
    ProviderTools,
    Reasoning,
    HidesReasoning,
    ToolCalls,
    NothingVisible,
    Short,
    Early,
    FirstRequest,
    SameRequest,
    OtherSetup,
    ToldEarly,
    Files,
}

impl LeftOut {
    /// All of them, with what they mean.
    pub(crate) const ALL: [(Self, &str); 12] = [
        (Self::ProviderTools, "the provider ran its own tools"),
        (Self::Reasoning, "with reasoning"),
        (Self::HidesReasoning, "the model hides its reasoning"),
        (Self::ToolCalls, "tool calls, not text"),
        (Self::NothingVisible, "nothing is visible"),
        (Self::Short, "under 20 tokens"),
        (Self::Early, "fewer than five earlier calls of the model"),
        (Self::FirstRequest, "the first request of a conversation"),
        (Self::SameRequest, "the same request again"),
        (Self::OtherSetup, "with other instructions or tools than the request before it"),
        (Self::ToldEarly, "the provider reports it at the start of the stream"),
        (Self::Files, "with files"),
    ];
}

/// A reported call of a recording.
struct Earlier<'a> {
    call: &'a Call,
    /// What came as its answer, if the recording goes on.
    answer: Message,
    usage: Usage,
    is_plain: bool,
}

impl Earlier<'_> {
    fn has_setup_of(&self, call: &Call) -> bool {
        (&self.call.system, &self.call.tools) == (&call.system, &call.tools)
    }
}

/// The meters of all models in one book.
struct Meters {
    book: Arc<Book>,
    meters: HashMap<String, Arc<dyn Meter>>,
    /// The name of a run that all requests have.
    run: RunId,
}

impl Meters {
    fn of(&mut self, call: &Call) -> Arc<dyn Meter> {
        let name = call.model.strip_prefix(&format!("{}/", call.provider)).unwrap_or(&call.model);
        let meter = self.meters.entry(call.model.clone()).or_insert_with(|| self.book.meter(&call.provider, name));
        Arc::clone(meter)
    }

    /// How many calls a model has taught, and whether it hides its reasoning.
    fn known(&self, model: &str) -> (u64, bool) {
        let accuracy = self.book.accuracy().into_iter().find(|accuracy| accuracy.model == model);
        accuracy.map_or((0, false), |accuracy| (accuracy.calls, accuracy.hides_reasoning))
    }
}

/// Predicts each call, then learns from it.
pub(crate) fn replay(recorded: &[&Recorded], ends: &Ends<'_>) -> Result<Vec<Prediction>> {
    let mut meters = Meters { book: Arc::default(), meters: HashMap::new(), run: RunId::new("evaluation")? };
    let mut recordings: HashMap<(&str, &str), Vec<Earlier<'_>>> = HashMap::new();
    let predictions = recorded
        .iter()
        .map(|recorded| {
            let call = &recorded.call;
            let earlier = recordings.entry((&call.source, &call.model)).or_default();
            let prediction = predict(&mut meters, recorded, earlier, ends);
            let usage = usage(recorded.truth);
            let is_plain = matches!(prediction.kind, Kind::Text | Kind::Calls);
            let answer = Message::assistant("").parts(parts(call, &call.text));
            earlier.push(Earlier { call, answer, usage, is_plain });
            prediction
        })
        .collect();
    Ok(predictions)
}

fn predict(meters: &mut Meters, recorded: &Recorded, earlier: &[Earlier<'_>], ends: &Ends<'_>) -> Prediction {
    let Recorded { line, call, truth } = recorded;
    let meter = meters.of(call);
    let (calls, hides_reasoning) = meters.known(&call.model);
    // A running agent measures from the last call that it made with the setup that it has; a restarted one does not know it.
    let continued = || earlier.iter().rev().filter(|earlier| call.messages.starts_with(&earlier.call.messages));
    let before = continued().find(|earlier| earlier.has_setup_of(call)).or_else(|| continued().next());
    let request = request(&meters.run, call, before);
    let cut = |answer: &[Part], ended| meter.cut(&sighting(&request, answer, ended), Usage::UNKNOWN).delivered;
    let answer = parts(call, &call.text);
    let whole = cut(&answer, true);
    let kind = Kind::of(call, *truth);
    let hides = hides_reasoning || (kind != Kind::Nothing && whole.output.value.is_none());
    let scope = |reported: u64| output_scope(kind, hides, reported, calls);
    let cuts = (1..10_usize).filter(|_| kind == Kind::Text).map(|tenth| {
        let part = call.text.get(..call.text.floor_char_boundary(call.text.len() * tenth / 10)).unwrap_or_default();
        let reported = ends.part(recorded, part);
        let predicted = cut(&parts(call, part), false).output;
        Guess { predicted, reported, left_out: scope(reported), line: *line }
    });
    let prediction = Prediction {
        line: *line,
        src: call.source.clone(),
        provider: call.provider.clone(),
        model: call.model.clone(),
        published: vocabulary(&call.model).is_some(),
        earlier: calls,
        kind,
        hides_reasoning: hides,
        cuts: cuts.collect(),
        output: Guess { predicted: whole.output, reported: truth.output, left_out: scope(truth.output), line: *line },
        input: Guess {
            predicted: whole.input,
            reported: truth.input,
            left_out: input_scope(call, kind, hides, before),
            line: *line,
        },
    };
    meter.learn(&sighting(&request, &answer, true), usage(*truth));
    prediction
}

fn usage(Truth { input, output, reasoning }: Truth) -> Usage {
    Usage::reported(input, output).reasoning(reasoning.map_or(Figure::UNKNOWN, Figure::reported))
}

fn sighting<'a>(request: &'a ModelRequest, answer: &'a [Part], ended: bool) -> MeteredCall<'a> {
    let (first_piece, took) = (Some(Duration::from_millis(300)), Duration::from_secs(2));
    MeteredCall::new(request, None, answer, ended, first_piece, took)
}

/// Output counts if it is a text of some length, without reasoning, of a model that has been seen a few times.
fn output_scope(kind: Kind, hides: bool, reported: u64, earlier: u64) -> Option<LeftOut> {
    match kind {
        Kind::ProviderTools => Some(LeftOut::ProviderTools),
        Kind::Reasoning => Some(LeftOut::Reasoning),
        Kind::Nothing => Some(LeftOut::NothingVisible),
        _ if hides => Some(LeftOut::HidesReasoning),
        Kind::Calls => Some(LeftOut::ToolCalls),
        Kind::Text if reported < LEAST => Some(LeftOut::Short),
        Kind::Text => (earlier < EARLIER).then_some(LeftOut::Early),
    }
}

/// Input counts if it continues another request, of a provider that does not say at the start what it read, and nobody reasons.
fn input_scope(call: &Call, kind: Kind, hides: bool, before: Option<&Earlier<'_>>) -> Option<LeftOut> {
    match before {
        _ if kind == Kind::ProviderTools => Some(LeftOut::ProviderTools),
        _ if call.files.iter().any(|files| *files > 0) => Some(LeftOut::Files),
        None => Some(LeftOut::FirstRequest),
        Some(before) if !before.has_setup_of(call) => Some(LeftOut::OtherSetup),
        Some(before) if before.call.messages.len() == call.messages.len() => Some(LeftOut::SameRequest),
        Some(before) if kind == Kind::Reasoning || !before.is_plain => Some(LeftOut::Reasoning),
        Some(_) if hides || THINKERS.iter().any(|word| call.model.contains(word)) => Some(LeftOut::HidesReasoning),
        Some(_) => TELL_EARLY.contains(&call.provider.as_str()).then_some(LeftOut::ToldEarly),
    }
}

/// The request as the runtime would have made it. The answer before it has the parts that it had when it came.
fn request(run: &RunId, call: &Call, before: Option<&Earlier<'_>>) -> ModelRequest {
    let answer = before.map(|before| (before.call.messages.len(), &before.answer));
    let message = |(index, text): (usize, &String)| match answer {
        Some((place, answer)) if place == index => answer.clone().parts(said_again(text, answer)),
        _ => {
            let files = call.files.get(index).copied().unwrap_or(0);
            let file = || Part::Image(Image::new("image/png", "file"));
            let parts = std::iter::once(Part::text(text.clone())).chain((0..files).map(|_| file()));
            Message::user("").parts(parts.collect())
        }
    };
    let history: Vec<_> = call.messages.iter().enumerate().map(message).map(Arc::new).collect();
    ModelRequest::new(run.clone(), 1, history)
        .instructions(call.system.as_deref().map(Arc::from))
        .tools(call.tools.iter().map(|tool| Arc::new(spec(tool))).collect())
        .anchor(before.map(|before| {
            Anchor::new(
                before.usage,
                before.call.messages.len(),
                None,
                if before.has_setup_of(call) { AnchorSetup::Same } else { AnchorSetup::MayDiffer },
            )
        }))
}

/// A tool, from the JSON in which it was offered, whichever provider's that is.
fn spec(tool: &str) -> ToolSpec {
    let said: Value = serde_json::from_str(tool).unwrap_or_default();
    let inner = said.get("function").or_else(|| said.get("toolSpec")).unwrap_or(&said);
    let word = |key| inner.get(key).and_then(Value::as_str).unwrap_or_default();
    let schema = ["parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema"];
    let schema = schema.iter().find_map(|key| inner.get(key)).cloned();
    // A tool that the provider runs has a name and no schema.
    ToolSpec::new(word("name"), word("description"), schema.unwrap_or_else(|| inner.clone()))
}

/// The recorded answer as the next request says it, with the marks of the original.
fn said_again(text: &str, answer: &Message) -> Vec<Part> {
    let marks = answer.parts.iter().filter(|part| matches!(part, Part::Thinking { .. })).cloned();
    match answer.calls().next() {
        None => marks.chain([Part::text(text)]).collect(),
        Some(_) => marks.chain(calls(answer.calls().count(), |index| if index == 0 { text } else { "" })).collect(),
    }
}

/// What is visible of an answer with this much of its text.
fn parts(call: &Call, text: &str) -> Vec<Part> {
    let hidden = (call.thinks || call.provider_tools)
        .then(|| Part::Thinking { text: String::new(), signature: Some(Signature::new("recording", "withheld")) });
    let text = (!text.is_empty()).then(|| Part::text(text));
    let called = calls(call.calls.len(), |index| call.calls.get(index).map_or("", String::as_str));
    hidden.into_iter().chain(text).chain(called).collect()
}

fn calls<'a>(count: usize, arguments: impl Fn(usize) -> &'a str) -> impl Iterator<Item = Part> {
    (0..count).filter_map(move |index| {
        let id = CallId::new(format!("call-{index}")).ok()?;
        Some(Part::ToolCall(ToolCall::new(id, String::new(), arguments(index).to_owned())))
    })
}
