//! Which vocabulary fits a model, told by its name.
//!
//! # Invariants
//!
//! 1. Every name has a family: what is not known is counted as the mean of several vocabularies, and calibrated.
//! 2. The table is only a start: whether a vocabulary is right, and whether a model hides its thinking, is for the
//!    reported figures to say.

/// The vocabularies that count a model's tokens, by the tokenizer crate's names: its own, or, if none is published, several
/// whose mean stands in for it.
pub(crate) type Vocabulary = &'static [&'static str];

/// Vocabularies of four makers: where they differ (digits, white space, rare words), the mean is seldom far off.
pub(crate) const MIXTURE: Vocabulary = &["glm4", "qwen2", "mistral_v3", "o200k_base"];

/// What a model's name tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Family {
    /// How its tokens are counted.
    pub(crate) vocabulary: Vocabulary,
    /// What one counted token costs, and how far that may be off.
    pub(crate) token: (f64, f64),
    /// What an answer costs beside its tokens, and how far that may be off.
    pub(crate) answer: (f64, f64),
    /// How it thinks.
    pub(crate) thinking: Thinking,
}

/// How a model thinks, as far as its makers say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// Not at all, or it shows what it thinks.
    Shown,
    /// It may show only a summary.
    Summarised,
    /// Without showing it.
    Hidden,
}

/// With the right vocabulary a token is a token; some of these charge for one at the end.
const fn own(vocabulary: Vocabulary) -> Family {
    Family { vocabulary, token: (1.0, 0.01), answer: (0.5, 0.7), thinking: Thinking::Shown }
}

/// Makers who do not publish their vocabulary tend to need more tokens than those who do.
const fn mixed(token: f64, apart: f64, answer: f64) -> Family {
    Family { vocabulary: MIXTURE, token: (token, apart), answer: (answer, 0.5), thinking: Thinking::Shown }
}

const fn hidden(family: Family) -> Family {
    Family { thinking: Thinking::Hidden, ..family }
}

/// The costs are those of recorded calls. Since Opus 4.7 and Sonnet 5 they are those of another tokenizer.
const fn claude(token: f64) -> Family {
    Family { thinking: Thinking::Summarised, ..mixed(token, 0.05, 2.5) }
}

const UNKNOWN: Family = mixed(1.05, 0.1, 1.0);

const O200K: Family = own(&["o200k_base"]);

/// The first word that stands in the name decides.
const TABLE: &[(&[&str], Family)] = &[
    // Names that hold two makers' names: the vocabulary is that of the model underneath.
    (&["distill-llama"], own(&["llama3"])),
    (&["distill-qwen"], own(&["qwen2"])),
    (&["gpt-oss"], O200K),
    (&["gpt-5", "o1", "o3", "o4"], hidden(O200K)),
    (&["gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "computer-use"], O200K),
    (&["gpt-4", "gpt-3.5", "gpt-35"], own(&["cl100k_base"])),
    (&["claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5", "claude-fable"], claude(1.38)),
    (&["claude"], claude(1.11)),
    (&["gemini-2.5", "gemini-3", "grok-4", "grok-3-mini"], hidden(UNKNOWN)),
    (&["nova"], mixed(0.99, 0.05, 1.0)),
    (&["llama4", "llama-4", "llama2", "llama-2", "mistral-tiny", "mistral-7b"], UNKNOWN),
    (&["llama"], own(&["llama3"])),
    (&["deepseek"], own(&["deepseek_v3"])),
    (&["qwen", "qwq"], own(&["qwen2"])),
    (&["mistral", "ministral", "magistral", "pixtral", "codestral", "devstral"], own(&["mistral_v3"])),
    (&["kimi"], own(&["kimi_k2"])),
    (&["glm-5"], own(&["glm5"])),
    (&["glm"], own(&["glm4"])),
    (&["minimax"], own(&["minimax_m2"])),
];

impl Family {
    /// Whether the model's own vocabulary is known.
    pub(crate) fn is_own(&self) -> bool {
        self.vocabulary.len() == 1
    }
}

/// The family of a model.
pub(crate) fn family(model: &str) -> Family {
    let name = model.split_once('/').map_or(model, |(_, name)| name).to_ascii_lowercase();
    TABLE
        .iter()
        .find(|(words, _)| words.iter().any(|word| stands_in(&name, word)))
        .map_or(UNKNOWN, |(_, family)| *family)
}

/// Whether a name holds a word at the beginning of one of its parts.
fn stands_in(name: &str, word: &str) -> bool {
    name.match_indices(word).any(|(at, _)| {
        let before = name.get(..at).and_then(|start| start.chars().next_back());
        before.is_none_or(|before| !before.is_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_vocabulary_whatever_stands_around_it() {
        let vocabulary = |model| family(model).vocabulary;
        assert_eq!(vocabulary("openai/gpt-4o-2024-08-06"), ["o200k_base"]);
        assert_eq!(vocabulary("openai/gpt-4-0613"), ["cl100k_base"]);
        assert_eq!(vocabulary("openrouter/openai/o3-mini"), ["o200k_base"]);
        assert_eq!(vocabulary("groq/deepseek-r1-distill-llama-70b"), ["llama3"]);
        assert_eq!(vocabulary("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"), MIXTURE);
        assert_eq!(vocabulary("ollama/llama3.2"), ["llama3"]);
        assert_eq!(vocabulary("anything/at-all"), MIXTURE);
        assert_eq!(vocabulary(""), MIXTURE);
    }

    #[test]
    fn a_word_inside_another_is_not_meant() {
        assert_eq!(family("local/foo3-mini"), UNKNOWN);
        assert_eq!(family("openai/o3-mini").thinking, Thinking::Hidden);
    }

    #[test]
    fn every_vocabulary_of_the_table_is_built_in() {
        for name in TABLE.iter().flat_map(|(_, family)| family.vocabulary).chain(MIXTURE) {
            assert!(tiktoken::get_encoding(name).is_some(), "{name}");
        }
    }
}
