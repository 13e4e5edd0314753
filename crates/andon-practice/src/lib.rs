//! A model for practice: offline, deterministic, and honest about what it is.
//!
//! It needs no key and no network, so that anybody can try every kind of stop. Words in the last prompt decide what it does:
//!
//! | The prompt contains | The model |
//! |---|---|
//! | anything | answers in a few paragraphs |
//! | `long`, `story` | answers for more than a minute |
//! | `think` | thinks for several seconds first, and signs the thought |
//! | a tool's name, or words such as `time`, `dice`, `count` | calls that tool, with arguments from the prompt |
//! | `both`, `parallel` | calls two tools at once |
//! | `silent`, `wait` | is silent for 30 seconds, then answers |
//!
//! # Invariants
//!
//! 1. The same seed and the same conversation give the same pieces with the same pauses.
//! 2. A word is a token: at every piece, the usage that it reports is what it has streamed.
//! 3. It calls tools only if no result has come since the last prompt, so it never goes in circles.

mod answer;
mod arguments;
mod conversation;
mod plan;
mod story;
mod words;

use std::time::Duration;

use self::answer::PracticeAnswer;
use self::plan::plan;
use andon_runtime::{Answer, FailedAnswer, Model, ModelError, ModelRequest, ToolChoice};

/// How long a word takes at human pace, on average.
const HUMAN_PACE: Duration = Duration::from_millis(32);

/// A model for practice: see the [module](self).
///
/// ```
/// use andon_practice::Practice;
/// use andon_runtime::Agent;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().model(Practice::instant().seed(7)).build()?;
/// let outcome = agent.run("Hello").await?;
/// assert!(outcome.text_so_far().contains("practice model"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Practice {
    seed: u64,
    pace: Duration,
}

impl Practice {
    /// A practice model that writes as fast as people read.
    pub fn new() -> Self {
        Self { seed: 0, pace: HUMAN_PACE }
    }

    /// A practice model that never pauses, not even when it is asked to be silent. For tests.
    pub fn instant() -> Self {
        Self::new().pace(Duration::ZERO)
    }

    /// The seed for its words and pauses. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long a word takes on average. Zero means no pause at all.
    #[must_use]
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }
}

impl Default for Practice {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Practice {
    fn name(&self) -> &str {
        "practice"
    }

    fn call(&self, mut request: ModelRequest) -> Box<dyn Answer> {
        match &request.tool_choice {
            ToolChoice::Auto => {}
            ToolChoice::None => request.keep_tools(|_| false),
            ToolChoice::Required | ToolChoice::Tool { .. } => return Box::new(FailedAnswer::new(cannot_be_made_to())),
            #[cfg(not(andon_whole))]
            _ => return Box::new(FailedAnswer::new(cannot_be_made_to())),
        }
        let mut chance = chance(self.seed, &request);
        let plan = plan(&request, &mut chance);
        let input = words::count_prompt(&request);
        Box::new(PracticeAnswer::new(plan, input, self.pace, chance))
    }
}

fn cannot_be_made_to() -> ModelError {
    ModelError::fatal("the practice model cannot be forced to call a tool: ask for the tool in the prompt")
}

/// The random numbers for an answer: the same for the same seed and conversation.
fn chance(seed: u64, request: &ModelRequest) -> fastrand::Rng {
    // FNV-1a: the standard library's hasher may change from one release to the next.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let prompt = conversation::last_prompt(&request.history).unwrap_or_default();
    let hash = prompt.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325 ^ seed.rotate_left(32), fold);
    fastrand::Rng::with_seed(hash.wrapping_add(request.history.len() as u64))
}
