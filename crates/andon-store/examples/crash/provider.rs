//! The model of every scene. Its answer depends only on the prompt and on how often the run has asked, so a run that lives on
//! after a crash is answered as if nothing had happened.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use andon_runtime::{Answer, Message, Model, ModelError, ModelRequest, Piece, Role, RunId, Usage};
use andon_testkit::{Act, ScriptedModel};

use crate::log::{What, Witness};

/// What a session is for; also the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Text in many pieces.
    Text,
    /// A thought, then text.
    Think,
    /// One tool.
    Tool,
    /// A quick tool beside a slow one.
    Parallel,
    /// A tool in each of several turns.
    Chain,
    /// A tool that a person has to approve.
    Approve,
    /// A run that others wait for.
    Queue,
    /// Text that a client stops.
    CutText,
    /// A slow tool that a client stops.
    CutTool,
    /// A client stops a run that is over.
    Late,
    /// Usage that is reported while the text streams.
    Usage,
    /// A session that is deleted.
    Forget,
    /// A word, to check that a session goes on.
    Plain,
}

impl Scene {
    /// Every scene that has its own session.
    pub(crate) const SESSIONS: [Self; 12] = [
        Self::Text,
        Self::Think,
        Self::Tool,
        Self::Parallel,
        Self::Chain,
        Self::Approve,
        Self::Queue,
        Self::CutText,
        Self::CutTool,
        Self::Late,
        Self::Usage,
        Self::Forget,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Think => "think",
            Self::Tool => "tool",
            Self::Parallel => "parallel",
            Self::Chain => "chain",
            Self::Approve => "approve",
            Self::Queue => "queue",
            Self::CutText => "cut-text",
            Self::CutTool => "cut-tool",
            Self::Late => "late",
            Self::Usage => "usage",
            Self::Forget => "forget",
            Self::Plain => "plain",
        }
    }

    fn of(name: &str) -> Self {
        Self::SESSIONS.into_iter().find(|scene| scene.name() == name).unwrap_or(Self::Plain)
    }

    /// What the model does when a run asks for the n-th time.
    fn acts(self, run: &RunId, number: u32) -> Vec<Act> {
        let call = |index, tool| slow_call(index, &format!("{run}.{number}.{index}"), tool);
        match (self, number) {
            (Self::Text, _) => streamed(40, 2),
            (Self::Think, _) => {
                let mut acts: Vec<Act> = (0..8).flat_map(|n| [Act::thinking(&format!("hm {n}, ")), pause(2)]).collect();
                acts.push(Act::signed());
                acts.extend(streamed(8, 1));
                acts
            }
            (Self::Tool, 1) | (Self::Chain, 1..=3) => asking(call(0, "note")),
            (Self::Parallel, 1) => asking([call(0, "note"), call(1, "slow")].concat()),
            (Self::Approve, 1) => asking(call(0, "danger")),
            (Self::CutTool, 1) => asking(call(0, "slow")),
            (Self::Queue, _) => streamed(6, 2),
            (Self::CutText, _) => streamed(60, 2),
            (Self::Usage, _) => {
                let reports = (1..=12).flat_map(|n| [Act::text(&format!("figure {n}; ")), Act::usage(10, n), pause(4)]);
                reports.chain([Act::usage(10, 13), Act::end()]).collect()
            }
            (Self::Late | Self::Forget | Self::Plain, _)
            | (Self::Tool | Self::Parallel | Self::Chain | Self::Approve | Self::CutTool, _) => streamed(2, 0),
        }
    }
}

fn pause(millis: u64) -> Act {
    Act::Pause(Duration::from_millis(millis))
}

/// This many pieces of text with this many milliseconds between them, and the end.
fn streamed(pieces: u64, millis: u64) -> Vec<Act> {
    let piece = |n| {
        let text = Act::text(&format!("Wörter {n}, "));
        if millis == 0 { vec![text] } else { vec![text, pause(millis)] }
    };
    (0..pieces).flat_map(piece).chain([Act::usage(10, pieces), Act::end()]).collect()
}

/// A tool call whose arguments come in two halves.
fn slow_call(index: usize, id: &str, name: &str) -> Vec<Act> {
    let half = |json: &str| Act::Piece(Piece::CallInput { index, json: json.to_owned() });
    let begin = Act::Piece(Piece::Call { id: id.to_owned(), name: name.to_owned() });
    vec![begin, half("{\"half\":"), pause(1), half("1}"), Act::Piece(Piece::CallEnd { index })]
}

/// A word and these calls, which end the answer.
fn asking(calls: Vec<Act>) -> Vec<Act> {
    let begin = [Act::text("Let me see. "), Act::Yield];
    begin.into_iter().chain(calls).chain([Act::usage(10, 5), Act::tool_use()]).collect()
}

/// A provider that plays every scene, and writes down the usage that it reports before it reports it.
pub(crate) struct Provider {
    pub(crate) witness: Arc<Witness>,
}

impl Model for Provider {
    fn name(&self) -> &str {
        "scenes"
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let asked = request.history.iter().rev().find(|message| message.role == Role::User);
        let prompt = asked.map(|message| Message::text(message)).unwrap_or_default();
        let acts = Scene::of(&prompt).acts(&request.run, request.number);
        let (run, call) = (request.run.to_string(), request.number);
        let answer = ScriptedModel::new([acts]).call(request);
        Box::new(Watched { answer, run, call, witness: Arc::clone(&self.witness) })
    }
}

struct Watched {
    answer: Box<dyn Answer>,
    run: String,
    call: u32,
    witness: Arc<Witness>,
}

impl Answer for Watched {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        let polled = self.answer.poll_piece(cx);
        if let Poll::Ready(Some(Ok(Piece::Usage(usage)))) = &polled {
            let output = usage.output.at_least();
            self.witness.tell(What::Provided { run: self.run.clone(), call: self.call, output });
        }
        polled
    }

    fn usage_so_far(&self) -> Usage {
        self.answer.usage_so_far()
    }
}
