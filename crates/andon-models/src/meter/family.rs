//! Which vocabulary fits a model, told by its name.
//!
//! # Invariants
//!
//! 1. Every name has a family: what is not known is counted as the mean of several vocabularies, and calibrated.
//! 2. The table is only a start: whether a vocabulary is right, and whether a model hides its thinking, is for the
//!    reported figures to say.

/// How a model's tokens are counted before any calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    /// With the vocabulary of its family, by the tokenizer crate's name for it.
    Own(&'static str),
    /// No vocabulary is published: the mean of [`MIXTURE`].
    Mixed,
}

impl Vocabulary {
    /// The tokenizer crate's names for what it takes.
    pub(crate) fn names(&self) -> &[&'static str] {
        match self {
            Self::Own(name) => std::slice::from_ref(name),
            Self::Mixed => &MIXTURE,
        }
    }
}

/// Vocabularies of four makers, whose mean stands in for one that is not published: where they differ (digits, white
/// space, rare words), the mean is seldom far off.
pub(crate) const MIXTURE: [&str; 4] = ["glm4", "qwen2", "mistral_v3", "o200k_base"];

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
const fn own(vocabulary: &'static str) -> Family {
    let vocabulary = Vocabulary::Own(vocabulary);
    Family { vocabulary, token: (1.0, 0.01), answer: (0.5, 0.7), thinking: Thinking::Shown }
}

/// Makers who do not publish their vocabulary tend to need more tokens than those who do.
const fn mixed(token: f64, apart: f64, answer: f64) -> Family {
    Family { vocabulary: Vocabulary::Mixed, token: (token, apart), answer: (answer, 1.2), thinking: Thinking::Shown }
}

const fn hidden(family: Family) -> Family {
    Family { thinking: Thinking::Hidden, ..family }
}

/// The costs are those of recorded calls. Since Opus 4.7 and Sonnet 5 they are those of another tokenizer.
const fn claude(token: f64) -> Family {
    Family { thinking: Thinking::Summarised, ..mixed(token, 0.05, 2.5) }
}

const UNKNOWN: Family = mixed(1.05, 0.1, 1.0);

/// The first word that stands in the name decides.
const TABLE: &[(&str, Family)] = &[
    // Names that hold two makers' names: the vocabulary is that of the model underneath.
    ("distill-llama", own("llama3")),
    ("distill-qwen", own("qwen2")),
    ("gpt-oss", own("o200k_base")),
    ("gpt-5", hidden(own("o200k_base"))),
    ("o1", hidden(own("o200k_base"))),
    ("o3", hidden(own("o200k_base"))),
    ("o4", hidden(own("o200k_base"))),
    ("gpt-4o", own("o200k_base")),
    ("chatgpt-4o", own("o200k_base")),
    ("gpt-4.1", own("o200k_base")),
    ("gpt-4.5", own("o200k_base")),
    ("computer-use", own("o200k_base")),
    ("gpt-4", own("cl100k_base")),
    ("gpt-3.5", own("cl100k_base")),
    ("gpt-35", own("cl100k_base")),
    ("claude-opus-4-7", claude(1.38)),
    ("claude-opus-4-8", claude(1.38)),
    ("claude-opus-5", claude(1.38)),
    ("claude-sonnet-5", claude(1.38)),
    ("claude-fable", claude(1.38)),
    ("claude", claude(1.11)),
    ("gemini-2.5", hidden(UNKNOWN)),
    ("gemini-3", hidden(UNKNOWN)),
    ("grok-4", hidden(UNKNOWN)),
    ("grok-3-mini", hidden(UNKNOWN)),
    ("llama4", UNKNOWN),
    ("llama-4", UNKNOWN),
    ("llama2", UNKNOWN),
    ("llama-2", UNKNOWN),
    ("llama", own("llama3")),
    ("deepseek", own("deepseek_v3")),
    ("qwen", own("qwen2")),
    ("qwq", own("qwen2")),
    ("mistral-tiny", UNKNOWN),
    ("mistral-7b", UNKNOWN),
    ("mistral", own("mistral_v3")),
    ("ministral", own("mistral_v3")),
    ("magistral", own("mistral_v3")),
    ("pixtral", own("mistral_v3")),
    ("codestral", own("mistral_v3")),
    ("devstral", own("mistral_v3")),
    ("kimi", own("kimi_k2")),
    ("glm-5", own("glm5")),
    ("glm", own("glm4")),
    ("minimax", own("minimax_m2")),
];

/// The family of a model.
pub(crate) fn family(model: &str) -> Family {
    let name = model.split_once('/').map_or(model, |(_, name)| name).to_ascii_lowercase();
    TABLE.iter().find(|(word, _)| stands_in(&name, word)).map_or(UNKNOWN, |(_, family)| *family)
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
        assert_eq!(vocabulary("openai/gpt-4o-2024-08-06"), Vocabulary::Own("o200k_base"));
        assert_eq!(vocabulary("openai/gpt-4-0613"), Vocabulary::Own("cl100k_base"));
        assert_eq!(vocabulary("openrouter/openai/o3-mini"), Vocabulary::Own("o200k_base"));
        assert_eq!(vocabulary("groq/deepseek-r1-distill-llama-70b"), Vocabulary::Own("llama3"));
        assert_eq!(vocabulary("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"), Vocabulary::Mixed);
        assert_eq!(vocabulary("ollama/llama3.2"), Vocabulary::Own("llama3"));
        assert_eq!(vocabulary("anything/at-all"), Vocabulary::Mixed);
        assert_eq!(vocabulary(""), Vocabulary::Mixed);
    }

    #[test]
    fn a_word_inside_another_is_not_meant() {
        assert_eq!(family("local/foo3-mini"), UNKNOWN);
        assert_eq!(family("openai/o3-mini").thinking, Thinking::Hidden);
    }

    #[test]
    fn every_vocabulary_of_the_table_is_built_in() {
        let named = TABLE.iter().filter_map(|(_, family)| match family.vocabulary {
            Vocabulary::Own(name) => Some(name),
            Vocabulary::Mixed => None,
        });
        for name in named.chain(MIXTURE) {
            assert!(tiktoken::get_encoding(name).is_some(), "{name}");
        }
    }
}
