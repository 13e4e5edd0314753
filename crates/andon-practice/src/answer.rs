//! Streams a plan word by word, with a pause before each.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use andon_core::answer::Piece;
use andon_core::message::Signature;
use andon_core::outcome::ModelStop;
use andon_core::usage::{Figure, Usage};
use tokio::time::{Sleep, sleep};

use super::plan::{Call, Plan};
use super::words::{chunks, json_chunks};
use andon_runtime::{Answer, ModelError};

/// How long it is silent when it is asked to be.
const SILENCE: Duration = Duration::from_secs(30);

/// After how many words it reports its usage, so that a token limit works in the middle of an answer.
const WORDS_PER_REPORT: usize = 20;

/// One piece to stream, and how long to wait before it.
struct Step {
    pause: Duration,
    output: StepOutput,
}

enum StepOutput {
    /// A token of the answer: a word, a tool's name, or part of its arguments.
    Word(Piece),
    /// A token of its thinking.
    Thought(String),
    /// A piece that costs nothing.
    Mark(Piece),
    /// The usage so far.
    Report,
    /// The final usage.
    LastReport,
}

/// A practice model's answer as it streams.
///
/// The pause before the next piece is a [`Sleep`] in here: dropping the answer ends it.
pub(super) struct PracticeAnswer {
    steps: VecDeque<Step>,
    pause: Option<Pin<Box<Sleep>>>,
    input: u64,
    output: u64,
    reasoning: u64,
    is_whole: bool,
}

impl PracticeAnswer {
    pub(super) fn new(plan: Plan, input: u64, pace: Duration, chance: fastrand::Rng) -> Self {
        let mut steps = Steps { pace, chance, steps: VecDeque::new(), since_report: 0 };
        steps.add_plan(plan);
        Self { steps: steps.steps, pause: None, input, output: 0, reasoning: 0, is_whole: false }
    }

    fn hand_out(&mut self, output: StepOutput) -> Piece {
        match output {
            StepOutput::Word(piece) => {
                self.output += 1;
                piece
            }
            StepOutput::Thought(text) => {
                self.output += 1;
                self.reasoning += 1;
                Piece::Thinking(text)
            }
            StepOutput::Mark(piece) => piece,
            StepOutput::Report => Piece::Usage(Box::new(self.usage_so_far())),
            StepOutput::LastReport => {
                self.is_whole = true;
                Piece::Usage(Box::new(self.usage_so_far()))
            }
        }
    }
}

impl Answer for PracticeAnswer {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        let Some(step) = self.steps.front() else { return Poll::Ready(None) };
        if !step.pause.is_zero() {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(step.pause)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let Some(Step { output, .. }) = self.steps.pop_front() else { return Poll::Ready(None) };
        Poll::Ready(Some(Ok(self.hand_out(output))))
    }

    fn usage_so_far(&self) -> Usage {
        let [input, output, reasoning] = [self.input, self.output, self.reasoning].map(Figure::reported);
        // It has no cache.
        let usage = Usage::NONE.input(input).output(output).reasoning(reasoning);
        if self.is_whole { usage } else { usage.running() }
    }
}

/// The steps of one answer while they are being planned.
struct Steps {
    pace: Duration,
    chance: fastrand::Rng,
    steps: VecDeque<Step>,
    since_report: usize,
}

impl Steps {
    fn add_plan(&mut self, plan: Plan) {
        self.add(Duration::ZERO, StepOutput::Report);
        if plan.is_silent && !self.pace.is_zero() {
            self.add(SILENCE, StepOutput::Report);
        }
        if let Some(thought) = plan.thought {
            for word in chunks(&thought) {
                self.add_paced(StepOutput::Thought(word.to_owned()));
            }
            let seal = format!("{:016x}", self.chance.u64(..));
            let signature = Some(Signature::new("practice", seal));
            self.add(Duration::ZERO, StepOutput::Mark(Piece::ThinkingEnd { signature }));
        }
        for word in chunks(&plan.text) {
            self.add_paced(StepOutput::Word(Piece::Text(word.to_owned())));
        }
        let stop = if plan.calls.is_empty() { ModelStop::EndTurn } else { ModelStop::ToolUse };
        for (index, call) in plan.calls.into_iter().enumerate() {
            self.add_call(index, call);
        }
        self.add(Duration::ZERO, StepOutput::LastReport);
        self.add(Duration::ZERO, StepOutput::Mark(Piece::End(stop)));
    }

    fn add_call(&mut self, index: usize, call: Call) {
        let id = format!("call-{:08x}", self.chance.u32(..));
        self.add_paced(StepOutput::Word(Piece::Call { id, name: call.name }));
        for json in json_chunks(&call.arguments.to_string()) {
            self.add_paced(StepOutput::Word(Piece::CallInput { index, json: json.to_owned() }));
        }
        self.add(Duration::ZERO, StepOutput::Mark(Piece::CallEnd { index }));
    }

    /// Adds a token after a random pause, up to a fifth longer or shorter than the pace.
    fn add_paced(&mut self, output: StepOutput) {
        let pause = self.pace.mul_f64(0.8 + 0.4 * self.chance.f64());
        self.add(pause, output);
        self.since_report += 1;
        if self.since_report == WORDS_PER_REPORT {
            self.since_report = 0;
            self.add(Duration::ZERO, StepOutput::Report);
        }
    }

    fn add(&mut self, pause: Duration, output: StepOutput) {
        self.steps.push_back(Step { pause, output });
    }
}
