//! The settings for a Claude model's thinking, at Anthropic and at Bedrock.

use serde_json::{Value, json};

use crate::settings::{Settings, Thinking, ThinkingForm as _};

/// The smallest budget that is accepted.
const LEAST: u32 = 1_024;

/// A model's generation. A name without a number belongs to a newer one.
fn version(model: &str) -> (u32, u32) {
    // A date has eight digits.
    let mut numbers = model.split(['-', '.']).filter(|word| word.len() <= 2).filter_map(|word| word.parse().ok());
    match numbers.next() {
        Some(major) => (major, numbers.next().unwrap_or(0)),
        None => (u32::MAX, 0),
    }
}

/// Whether the model refuses a budget and a temperature.
fn is_only_adaptive(model: &str) -> bool {
    version(model) >= (4, 7)
}

/// The default limit of an answer.
pub(super) fn max_output(model: &str) -> u32 {
    match version(model) {
        (..=2, _) | (3, ..=4) => 4_096,
        (3, _) => 8_192,
        _ => super::anthropic::DEFAULT_MAX_OUTPUT,
    }
}

/// The fields for thinking, as Anthropic names them.
pub(super) struct Fields {
    pub(super) thinking: Option<Value>,
    pub(super) output_config: Option<Value>,
}

impl Fields {
    /// Whether the server checks that an answer with results opens with a thought. It does for a budget; a model that decides by
    /// itself may have made calls without a thought.
    pub(super) fn wants_thoughts(&self) -> bool {
        self.thinking.as_ref().is_some_and(|thinking| thinking.get("budget_tokens").is_some())
    }

    /// Whether the model is asked to think.
    pub(super) fn is_asked(&self) -> bool {
        self.thinking.as_ref().is_some_and(|thinking| thinking.get("type") != Some(&json!("disabled")))
    }

    fn with_thinking(thinking: Value) -> Self {
        Self { thinking: Some(thinking), output_config: None }
    }
}

/// The fields for a model that should not think. Known names by what is known; a newer one is assumed to be like the strictest.
fn silence(model: &str) -> Option<Fields> {
    let is = |family: &str| model.contains(family);
    match version(model) {
        // It thinks only when asked.
        (..=4, _) => None,
        // It thinks unless told not to.
        (5, ..=4) if is("sonnet") || is("opus") => Some(Fields::with_thinking(json!({"type": "disabled"}))),
        (5, _) if is("haiku") => Some(Fields::with_thinking(json!({"type": "disabled"}))),
        // The closest setting: no thought before the answer, but some between calls.
        (5, 5) if is("sonnet") => Some(Fields::with_thinking(json!({"type": "between_tools"}))),
        // It always thinks, but can be asked to think little.
        _ => Some(Fields { thinking: None, output_config: Some(json!({"effort": "low"})) }),
    }
}

/// The fields for thinking, if any. `max_output` limits thoughts and answer together.
pub(super) fn thinking(model: &str, settings: &Settings, max_output: u32) -> Option<Fields> {
    if version(model) < (3, 7) {
        return None;
    }
    let asked = settings.thinking?;
    if asked == Thinking::Off {
        return silence(model);
    }
    let effort = asked.word();
    // From here on the model itself decides how long to think. Older ones have a budget.
    let has_effort = effort.is_some() && version(model) >= (4, 6);
    if has_effort || is_only_adaptive(model) {
        let output_config = effort.map(|effort| json!({"effort": effort}));
        let thinking = match is_only_adaptive(model) {
            // These show their thoughts only when asked.
            true => json!({"type": "adaptive", "display": "summarized"}),
            false => json!({"type": "adaptive"}),
        };
        return Some(Fields { thinking: Some(thinking), output_config });
    }
    // The budget is part of the limit, and the answer needs some of it.
    let budget = asked.tokens().max(LEAST).min(max_output.saturating_sub(LEAST));
    let thinking = json!({"type": "enabled", "budget_tokens": budget});
    (budget >= LEAST).then(|| Fields::with_thinking(thinking))
}

/// The temperature, if the model takes one: none does while it thinks.
pub(super) fn temperature(model: &str, settings: &Settings, thinking: Option<&Fields>) -> Option<Value> {
    let thinks = thinking.is_some_and(Fields::is_asked);
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
        let shown = Some(json!({"type": "adaptive", "display": "summarized"}));
        let low = Some(json!({"effort": "low"}));
        assert_eq!(told("claude-sonnet-5", Thinking::Low, 32_000), Some((shown.clone(), low.clone())));
        assert_eq!(told("claude-opus-4-6", Thinking::Low, 32_000), Some((Some(json!({"type": "adaptive"})), low)));
        assert_eq!(told("claude-sonnet-5", Thinking::Tokens(9), 32_000), Some((shown, None)));
        let budget = |tokens| Some((Some(json!({"type": "enabled", "budget_tokens": tokens})), None));
        assert_eq!(told("claude-opus-4-6", Thinking::Tokens(5_000), 32_000), budget(5_000));
        assert_eq!(told("claude-sonnet-4-5", Thinking::High, 32_000), budget(24_576));
        assert_eq!(told("claude-sonnet-4-5", Thinking::High, 4_096), budget(3_072));
        assert_eq!(told("claude-sonnet-4-5", Thinking::Tokens(1), 32_000), budget(1_024));
        assert_eq!(told("claude-3-5-sonnet-20241022", Thinking::High, 32_000), None, "it cannot");
        assert_eq!(told("claude-sonnet-4-5", Thinking::Low, 2_000), None, "there is no room to think");
    }
    #[test]
    fn each_model_is_told_not_to_think_as_far_as_it_can_be_told() {
        let disabled = Some((Some(json!({"type": "disabled"})), None));
        let between_tools = Some((Some(json!({"type": "between_tools"})), None));
        let little = Some((None, Some(json!({"effort": "low"}))));
        for (model, expected) in [
            ("claude-haiku-4-5-20251001", &None),
            ("claude-opus-4-8", &None),
            ("claude-sonnet-5", &disabled),
            ("us.anthropic.claude-opus-5", &disabled),
            ("claude-haiku-5-5", &disabled),
            ("claude-sonnet-5-5", &between_tools),
            ("claude-opus-5-5", &little),
            ("claude-fable-5", &little),
            ("claude-mythos-preview", &little),
            ("claude-sonnet-6", &little),
        ] {
            let told = silence(model).map(|fields| (fields.thinking, fields.output_config));
            assert_eq!(told, *expected, "{model}");
        }
        assert!(!silence("claude-sonnet-5").unwrap().is_asked());
    }

    #[test]
    fn the_third_generation_is_asked_for_no_more_than_it_gives() {
        assert_eq!(max_output("claude-3-haiku-20240307"), 4_096);
        assert_eq!(max_output("anthropic.claude-3-5-sonnet-20241022-v2:0"), 8_192);
        assert_eq!(max_output("claude-3-7-sonnet-20250219"), 8_192);
        assert_eq!(max_output("claude-opus-4-20250514"), 32_000);
    }
}
