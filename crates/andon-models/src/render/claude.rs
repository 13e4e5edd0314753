//! What a Claude model can be told about its thinking, at Anthropic and at Bedrock.

use serde_json::{Value, json};

use crate::settings::{Settings, Thinking};

/// The least budget that is taken.
const LEAST: u32 = 1_024;

/// A model's generation. A name that has no number in it is a newer one.
fn version(model: &str) -> (u32, u32) {
    // A date has eight digits.
    let mut numbers = model.split(['-', '.']).filter(|word| word.len() <= 2).filter_map(|word| word.parse().ok());
    match numbers.next() {
        Some(major) => (major, numbers.next().unwrap_or(0)),
        None => (u32::MAX, 0),
    }
}

/// Whether the model decides itself how long it thinks. Older ones have a budget.
fn is_adaptive(model: &str) -> bool {
    version(model) >= (4, 6)
}

/// Whether the model refuses a budget and a temperature.
fn is_only_adaptive(model: &str) -> bool {
    version(model) >= (4, 7)
}

/// The fields for thinking, as Anthropic names them.
pub(super) struct Fields {
    pub(super) thinking: Value,
    pub(super) output_config: Option<Value>,
}

impl Fields {
    /// Whether the server checks that the answer whose results it is given opens with a thought. It does for a budget; a model
    /// that decides itself may have called without a thought.
    pub(super) fn wants_thoughts(&self) -> bool {
        self.thinking.get("budget_tokens").is_some()
    }
}

/// What to say about thinking, if there is to be any. `max_output` holds thoughts and answer.
pub(super) fn thinking(model: &str, settings: &Settings, max_output: u32) -> Option<Fields> {
    let effort = match settings.thinking? {
        // Nobody thinks who is not asked to, and the newest models refuse to be told not to.
        Thinking::Off => return None,
        Thinking::Low => Some("low"),
        Thinking::Medium => Some("medium"),
        Thinking::High => Some("high"),
        Thinking::Tokens(_) => None,
    };
    let has_effort = effort.is_some() && is_adaptive(model);
    if has_effort || is_only_adaptive(model) {
        let output_config = effort.map(|effort| json!({"effort": effort}));
        return Some(Fields { thinking: json!({"type": "adaptive"}), output_config });
    }
    let wanted = match settings.thinking? {
        Thinking::Off => return None,
        Thinking::Low => 2_048,
        Thinking::Medium => 8_192,
        Thinking::High => 24_576,
        Thinking::Tokens(tokens) => tokens,
    };
    // The budget is a part of the whole, and the answer needs some of it.
    let budget = wanted.max(LEAST).min(max_output.saturating_sub(LEAST));
    let thinking = json!({"type": "enabled", "budget_tokens": budget});
    (budget >= LEAST).then_some(Fields { thinking, output_config: None })
}

/// The temperature, where the model takes one: beside thoughts none does.
pub(super) fn temperature(model: &str, settings: &Settings, thinks: bool) -> Option<Value> {
    let temperature = settings.temperature.filter(|_| !thinks && !is_only_adaptive(model))?;
    super::number(temperature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_read_from_every_way_in_which_a_model_is_named() {
        assert_eq!(version("claude-3-7-sonnet-20250219"), (3, 7));
        assert_eq!(version("claude-sonnet-4-20250514"), (4, 0));
        assert_eq!(version("claude-haiku-4-5-20251001"), (4, 5));
        assert_eq!(version("us.anthropic.claude-opus-4-6-v1"), (4, 6));
        assert_eq!(version("anthropic.claude-sonnet-4-5-20250929-v1:0"), (4, 5));
        assert_eq!(version("claude-sonnet-5"), (5, 0));
        assert_eq!(version("claude-mythos-preview"), (u32::MAX, 0));
    }

    #[test]
    fn each_generation_is_told_in_its_own_words() {
        let told = |model, thinking, max| {
            let settings = Settings { thinking: Some(thinking), ..Settings::default() };
            super::thinking(model, &settings, max).map(|fields| (fields.thinking, fields.output_config))
        };
        let adaptive = Some((json!({"type": "adaptive"}), Some(json!({"effort": "low"}))));
        assert_eq!(told("claude-sonnet-5", Thinking::Low, 32_000), adaptive);
        assert_eq!(told("claude-opus-4-6", Thinking::Low, 32_000), adaptive);
        assert_eq!(told("claude-sonnet-5", Thinking::Tokens(9), 32_000), Some((json!({"type": "adaptive"}), None)));
        assert_eq!(told("claude-sonnet-5", Thinking::Off, 32_000), None);
        let budget = |tokens| Some((json!({"type": "enabled", "budget_tokens": tokens}), None));
        assert_eq!(told("claude-opus-4-6", Thinking::Tokens(5_000), 32_000), budget(5_000));
        assert_eq!(told("claude-sonnet-4-5", Thinking::High, 32_000), budget(24_576));
        assert_eq!(told("claude-sonnet-4-5", Thinking::High, 4_096), budget(3_072));
        assert_eq!(told("claude-sonnet-4-5", Thinking::Tokens(1), 32_000), budget(1_024));
        assert_eq!(told("claude-sonnet-4-5", Thinking::Low, 2_000), None, "there is no room to think");
    }
}
