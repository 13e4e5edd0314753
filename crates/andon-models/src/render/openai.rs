//! What OpenAI's models accept, by their names: what one of them wants, another refuses.
//!
//! A model is sent only what every server that has it accepts. A model that is not OpenAI's is sent the settings as they are.

use crate::settings::{Thinking, ThinkingForm as _};

/// A model's family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelFamily {
    /// `gpt-4.1`, `gpt-4o`, `chatgpt-4o-latest` and earlier: they do not reason.
    Speaks,
    /// `gpt-5-chat-latest` and the like: they decide whether to reason, and accept no setting for it.
    Chats,
    /// `o3`, `o4-mini`.
    O,
    /// `gpt-5` and later, by their numbers.
    Gpt(u32, u32),
    /// A `gpt-5` or later that cannot be told not to reason: `-pro`, `-codex`.
    AlwaysReasons,
    /// `gpt-oss-120b`, which anyone may serve.
    Oss,
    /// Another maker's.
    Other,
}

/// The name without its server and its fine-tuning.
fn bare(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.strip_prefix("ft:").map_or(name, |tuned| tuned.split(':').next().unwrap_or(tuned))
}

fn family(model: &str) -> ModelFamily {
    let name = bare(model);
    if name.starts_with("gpt-oss") {
        return ModelFamily::Oss;
    }
    if name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return ModelFamily::O;
    }
    if name.starts_with("codex-") {
        return ModelFamily::AlwaysReasons;
    }
    if name.starts_with("chatgpt-") {
        return ModelFamily::Speaks;
    }
    let Some(rest) = name.strip_prefix("gpt-") else { return ModelFamily::Other };
    let mut numbers = rest.split('-').next().unwrap_or(rest).split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), _) if major >= 5 && rest.contains("-chat") => ModelFamily::Chats,
        (Some(major), _) if major >= 5 && (rest.contains("-pro") || rest.contains("-codex")) => {
            ModelFamily::AlwaysReasons
        }
        // `gpt-35-turbo` is what Azure calls 3.5.
        (Some(major @ 5..30), minor) => ModelFamily::Gpt(major, minor.unwrap_or(0)),
        _ => ModelFamily::Speaks,
    }
}

/// Whether the model is one of OpenAI's own, which refuse the old name of an answer's limit. Servers of the open models may know
/// only the old one.
pub(super) fn is_own(model: &str) -> bool {
    !matches!(family(model), ModelFamily::Other | ModelFamily::Oss)
}

/// Whether the model reasons and can be asked for its encrypted reasoning. The others refuse the question.
pub(super) fn encrypts_reasoning(model: &str) -> bool {
    matches!(family(model), ModelFamily::O | ModelFamily::Gpt(..) | ModelFamily::AlwaysReasons | ModelFamily::Oss)
}

/// Whether the model takes a temperature. Some reasoning models take one when told not to reason; it is left out there, too.
pub(super) fn takes_temperature(model: &str) -> bool {
    matches!(family(model), ModelFamily::Speaks | ModelFamily::Oss | ModelFamily::Other)
}

/// Whether the model refuses tools in Chat Completions unless it is explicitly told not to reason.
pub(super) fn reasons_or_has_tools(model: &str) -> bool {
    matches!(family(model), ModelFamily::Gpt(major, minor) if (major, minor) >= (5, 2))
}

/// How long to think, in OpenAI's words. There is none for a number of tokens, and "not at all" only for some models.
pub(super) fn effort(model: &str, thinking: Thinking) -> Option<&'static str> {
    let family = family(model);
    if matches!(family, ModelFamily::Speaks | ModelFamily::Chats) {
        return None;
    }
    match (thinking, family) {
        (Thinking::Off, ModelFamily::Gpt(5, 0)) => Some("minimal"),
        (Thinking::Off, ModelFamily::Gpt(..)) => Some("none"),
        (thinking, _) => thinking.word(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_read_from_every_way_in_which_a_model_is_named() {
        for (model, expected) in [
            ("gpt-4o", ModelFamily::Speaks),
            ("gpt-4.1-mini", ModelFamily::Speaks),
            ("gpt-35-turbo", ModelFamily::Speaks),
            ("gpt-image-1", ModelFamily::Speaks),
            ("ft:gpt-4o-mini-2024-07-18:org::id", ModelFamily::Speaks),
            ("chatgpt-4o-latest", ModelFamily::Speaks),
            ("gpt-5-chat-latest", ModelFamily::Chats),
            ("gpt-5.2-chat-latest", ModelFamily::Chats),
            ("o3", ModelFamily::O),
            ("ft:o4-mini-2025-04-16:org::id", ModelFamily::O),
            ("openai/gpt-5-mini", ModelFamily::Gpt(5, 0)),
            ("gpt-5-2025-08-07", ModelFamily::Gpt(5, 0)),
            ("gpt-5.2", ModelFamily::Gpt(5, 2)),
            ("gpt-5.6-terra", ModelFamily::Gpt(5, 6)),
            ("gpt-6", ModelFamily::Gpt(6, 0)),
            ("gpt-5-pro", ModelFamily::AlwaysReasons),
            ("gpt-5.3-codex", ModelFamily::AlwaysReasons),
            ("codex-mini-latest", ModelFamily::AlwaysReasons),
            ("openai/gpt-oss-120b", ModelFamily::Oss),
            ("deepseek-chat", ModelFamily::Other),
            ("orca", ModelFamily::Other),
        ] {
            assert_eq!(family(model), expected, "{model}");
        }
    }

    #[test]
    fn openai_is_told_not_to_think_where_that_can_be_said() {
        assert_eq!(effort("gpt-5.2", Thinking::Off), Some("none"));
        assert_eq!(effort("openai/gpt-5-mini", Thinking::Off), Some("minimal"));
        assert_eq!(effort("o3", Thinking::Off), None);
        assert_eq!(effort("gpt-5.2-pro", Thinking::Off), None);
        assert_eq!(effort("gpt-5.2", Thinking::Tokens(100)), None);
    }

    #[test]
    fn a_model_that_does_not_reason_is_told_nothing_of_it() {
        for model in ["gpt-4o", "gpt-4.1", "gpt-5-chat-latest"] {
            assert_eq!(effort(model, Thinking::High), None, "{model}");
            assert!(!encrypts_reasoning(model), "{model}");
        }
        for model in ["o3", "gpt-5.2", "qwen3-32b", "gpt-oss-20b"] {
            assert_eq!(effort(model, Thinking::High), Some("high"), "{model}");
        }
    }

    #[test]
    fn a_temperature_goes_only_to_models_that_take_one() {
        for model in ["gpt-4o", "gpt-oss-20b", "qwen3-32b"] {
            assert!(takes_temperature(model), "{model}");
        }
        for model in ["o3", "ft:o4-mini:org", "gpt-5", "gpt-5.2", "gpt-5-chat-latest"] {
            assert!(!takes_temperature(model), "{model}");
        }
    }
}
