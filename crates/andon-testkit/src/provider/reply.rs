//! An answer that any dialect can write.

use andon_core::outcome::ModelStop;

/// Tokens, counted as in [`andon_core::usage::Usage`].
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

/// When the provider reports what was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsageWhen {
    /// As that provider does it in reality. Anthropic: input first, output last. Gemini: in every chunk. The others: last.
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
    /// One piece per frame.
    pub text: Vec<String>,
    /// The provider's signature, in the formats that have one.
    pub signature: Option<String>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, JSON in fragments, one per frame. Gemini and Ollama send them whole, as an object: there, arguments that
    /// are not JSON are sent as `{}`.
    pub arguments: Vec<String>,
}

/// An answer that any dialect can write: thoughts, then text, then calls.
#[must_use = "a reply does nothing until a dialect writes it"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The exact model.
    pub model: String,
    /// The provider's id for this answer.
    pub id: String,
    /// What it thinks first.
    pub thought: Option<Thought>,
    /// What it says, one piece per frame.
    pub text: Vec<String>,
    /// What it wants called.
    pub calls: Vec<Call>,
    /// What it uses. `None` has the same effect as [`UsageWhen::Never`].
    pub usage: Option<Tokens>,
    /// When that is reported.
    pub usage_when: UsageWhen,
    /// Why it stops.
    pub stop: ModelStop,
}

impl Reply {
    /// An answer that says this, one piece per frame, and uses 12 tokens of input and one of output per piece.
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

    /// It thinks first, one piece per frame.
    pub fn thinking<I: IntoIterator<Item: Into<String>>>(mut self, pieces: I, signature: Option<&str>) -> Self {
        let text = pieces.into_iter().map(Into::into).collect();
        self.thought = Some(Thought { text, signature: signature.map(str::to_owned) });
        self
    }

    /// It calls a tool, with its arguments in fragments, and stops for it.
    pub fn call<I: IntoIterator<Item: Into<String>>>(mut self, id: &str, name: &str, arguments: I) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        self.calls.push(Call { id: id.to_owned(), name: name.to_owned(), arguments });
        self.stop(ModelStop::ToolUse)
    }

    /// What it uses.
    pub fn usage(mut self, tokens: Tokens) -> Self {
        self.usage = Some(tokens);
        self
    }

    /// When that is reported.
    pub fn usage_when(mut self, when: UsageWhen) -> Self {
        self.usage_when = when;
        self
    }

    /// Why it stops.
    pub fn stop(mut self, stop: ModelStop) -> Self {
        self.stop = stop;
        self
    }

    /// The model's exact name.
    pub fn model(mut self, model: &str) -> Self {
        self.model = model.to_owned();
        self
    }

    /// The provider's id for this answer.
    pub fn id(mut self, id: &str) -> Self {
        self.id = id.to_owned();
        self
    }

    /// All that it thinks.
    pub(super) fn thoughts(&self) -> &[String] {
        self.thought.as_ref().map_or(&[], |thought| &thought.text)
    }

    /// The signature of what it thinks.
    pub(super) fn signature(&self) -> Option<&str> {
        self.thought.as_ref()?.signature.as_deref()
    }

    /// How many pieces it comes in.
    fn pieces(&self) -> usize {
        self.thoughts().len() + self.text.len() + self.calls.iter().map(|call| call.arguments.len()).sum::<usize>()
    }
}

/// A place in a stream where a provider may report usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsagePlace {
    /// The first frame.
    First,
    /// With a piece, when this many have been sent, this one included.
    Piece(usize),
    /// Shortly before the end; used only to report usage twice.
    BeforeLast,
    /// The end.
    Last,
}

impl Reply {
    /// The usage reported at a place, by a provider whose usual time is `usual`.
    pub(super) fn usage_at(&self, place: UsagePlace, usual: UsageWhen) -> Option<Tokens> {
        let whole = self.usage?;
        let when = if self.usage_when == UsageWhen::AsUsual { usual } else { self.usage_when };
        match (when, place) {
            (UsageWhen::Early, UsagePlace::First) => Some(whole),
            (UsageWhen::Running, UsagePlace::First) => Some(self.so_far(whole, 0)),
            (UsageWhen::Running, UsagePlace::Piece(pieces)) => Some(self.so_far(whole, pieces)),
            (UsageWhen::CorrectedDown, UsagePlace::First) => Some(too_much(self.so_far(whole, 0))),
            (UsageWhen::CorrectedDown, UsagePlace::Piece(pieces)) if usual == UsageWhen::Running => {
                Some(too_much(self.so_far(whole, pieces)))
            }
            (UsageWhen::Twice, UsagePlace::BeforeLast) => Some(whole),
            (UsageWhen::Never | UsageWhen::Early, _) => None,
            (_, UsagePlace::Last) => Some(whole),
            (_, UsagePlace::First | UsagePlace::Piece(_) | UsagePlace::BeforeLast) => None,
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
