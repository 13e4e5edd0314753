//! An answer in neutral words, for any dialect to write.

use andon_core::outcome::ModelStop;

/// Tokens, meant as [`andon_core::usage::Usage`] means them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Read, and neither read from nor written to a cache.
    pub input: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Written to the provider's cache.
    pub cache_write: u64,
    /// Written by the model, thinking included.
    pub output: u64,
    /// The part of `output` that was thinking.
    pub reasoning: u64,
}

impl Tokens {
    /// Input and output, and nothing else.
    pub const fn new(input: u64, output: u64) -> Self {
        Self { input, cache_read: 0, cache_write: 0, output, reasoning: 0 }
    }

    /// All that was read, cached or not.
    pub const fn prompt(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }
}

/// When the provider tells what was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsageWhen {
    /// As that provider really does it. Anthropic: input first, output last. Gemini: in every chunk. The others: last.
    #[default]
    AsUsual,
    /// All of it in the first frame, and never again.
    Early,
    /// Only at the end.
    Late,
    /// So far, with every piece; the whole at the end.
    Running,
    /// The whole, twice.
    Twice,
    /// Never.
    Never,
    /// Too much input early (twice as much and ten more), and the right figures at the end.
    CorrectedDown,
}

/// What a model thought before it spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thought {
    /// One piece a frame.
    pub text: Vec<String>,
    /// The provider's seal, in the formats that have one.
    pub signature: Option<String>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, JSON in fragments, one a frame. Gemini and Ollama send them whole, as an object: there, arguments
    /// that are no JSON are sent as `{}`.
    pub arguments: Vec<String>,
}

/// An answer in neutral words: what was thought, then text, then calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The exact model.
    pub model: String,
    /// The provider's id for this answer.
    pub id: String,
    /// What it thinks first.
    pub thought: Option<Thought>,
    /// What it says, one piece a frame.
    pub text: Vec<String>,
    /// What it wants called.
    pub calls: Vec<Call>,
    /// What it uses. `None` is as good as [`UsageWhen::Never`].
    pub usage: Option<Tokens>,
    /// When that is told.
    pub usage_when: UsageWhen,
    /// Why it stops.
    pub stop: ModelStop,
}

impl Reply {
    /// An answer that says this, one piece a frame, and has used 12 tokens of input and one a piece of output.
    pub fn text<I: IntoIterator<Item: Into<String>>>(pieces: I) -> Self {
        let text: Vec<String> = pieces.into_iter().map(Into::into).collect();
        Self {
            model: "bad-model-1".to_owned(),
            id: "answer-1".to_owned(),
            thought: None,
            usage: Some(Tokens::new(12, text.len() as u64)),
            text,
            calls: Vec::new(),
            usage_when: UsageWhen::AsUsual,
            stop: ModelStop::EndTurn,
        }
    }

    /// It thinks first, one piece a frame.
    #[must_use]
    pub fn thinking<I: IntoIterator<Item: Into<String>>>(mut self, pieces: I, signature: Option<&str>) -> Self {
        let text = pieces.into_iter().map(Into::into).collect();
        self.thought = Some(Thought { text, signature: signature.map(str::to_owned) });
        self
    }

    /// It calls a tool, with its arguments in fragments, and stops for it.
    #[must_use]
    pub fn call<I: IntoIterator<Item: Into<String>>>(mut self, id: &str, name: &str, arguments: I) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        self.calls.push(Call { id: id.to_owned(), name: name.to_owned(), arguments });
        self.stop(ModelStop::ToolUse)
    }

    /// What it uses.
    #[must_use]
    pub fn usage(mut self, tokens: Tokens) -> Self {
        self.usage = Some(tokens);
        self
    }

    /// When that is told.
    #[must_use]
    pub fn usage_when(mut self, when: UsageWhen) -> Self {
        self.usage_when = when;
        self
    }

    /// Why it stops.
    #[must_use]
    pub fn stop(mut self, stop: ModelStop) -> Self {
        self.stop = stop;
        self
    }

    /// The model's exact name.
    #[must_use]
    pub fn model(mut self, model: &str) -> Self {
        self.model = model.to_owned();
        self
    }

    /// The provider's id for this answer.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = id.to_owned();
        self
    }

    /// All that it thinks.
    pub(super) fn thoughts(&self) -> &[String] {
        self.thought.as_ref().map_or(&[], |thought| &thought.text)
    }

    /// The seal of what it thinks.
    pub(super) fn signature(&self) -> Option<&str> {
        self.thought.as_ref()?.signature.as_deref()
    }

    /// How many pieces it comes in.
    fn pieces(&self) -> usize {
        self.thoughts().len() + self.text.len() + self.calls.iter().map(|call| call.arguments.len()).sum::<usize>()
    }
}

/// A place in a stream at which a provider may tell what was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The first frame.
    First,
    /// With a piece, when so many have been sent, this one included.
    Piece(usize),
    /// Shortly before the end; only who tells it twice tells it here.
    BeforeLast,
    /// The end.
    Last,
}

impl Reply {
    /// What is told at a place, by a provider that usually tells it `usual`ly.
    pub(super) fn usage_at(&self, place: Place, usual: UsageWhen) -> Option<Tokens> {
        let whole = self.usage?;
        let when = if self.usage_when == UsageWhen::AsUsual { usual } else { self.usage_when };
        match (when, place) {
            (UsageWhen::Early, Place::First) => Some(whole),
            (UsageWhen::Running, Place::First) => Some(self.so_far(whole, 0)),
            (UsageWhen::Running, Place::Piece(pieces)) => Some(self.so_far(whole, pieces)),
            (UsageWhen::CorrectedDown, Place::First) => Some(too_much(self.so_far(whole, 0))),
            (UsageWhen::CorrectedDown, Place::Piece(pieces)) if usual == UsageWhen::Running => {
                Some(too_much(self.so_far(whole, pieces)))
            }
            (UsageWhen::Twice, Place::BeforeLast) => Some(whole),
            (UsageWhen::Never | UsageWhen::Early, _) => None,
            (_, Place::Last) => Some(whole),
            (_, Place::First | Place::Piece(_) | Place::BeforeLast) => None,
        }
    }

    /// A share of the output as large as the share of the pieces.
    fn so_far(&self, whole: Tokens, pieces: usize) -> Tokens {
        let output = whole.output * pieces as u64 / self.pieces().max(1) as u64;
        Tokens { output, reasoning: whole.reasoning.min(output), ..whole }
    }
}

/// Input that will be corrected.
fn too_much(tokens: Tokens) -> Tokens {
    Tokens { input: tokens.input * 2 + 10, ..tokens }
}
