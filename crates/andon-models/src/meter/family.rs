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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Family {
    /// How its tokens are counted.
    pub(crate) vocabulary: Vocabulary,
    /// Models with the same word here count alike, as far as can be told from a name.
    pub(crate) kin: &'static str,
    /// Its makers say that it thinks without showing it.
    pub(crate) hides: bool,
}

const fn own(vocabulary: &'static str, kin: &'static str, hides: bool) -> Family {
    Family { vocabulary: Vocabulary::Own(vocabulary), kin, hides }
}

const fn mixed(kin: &'static str, hides: bool) -> Family {
    Family { vocabulary: Vocabulary::Mixed, kin, hides }
}

/// The first word that stands in the name decides.
const TABLE: &[(&str, Family)] = &[
    // Names that hold two makers' names: the vocabulary is that of the model underneath.
    ("distill-llama", own("llama3", "llama3", false)),
    ("distill-qwen", own("qwen2", "qwen", false)),
    ("gpt-oss", own("o200k_base", "gpt-oss", false)),
    ("gpt-5", own("o200k_base", "gpt", true)),
    ("o1", own("o200k_base", "gpt", true)),
    ("o3", own("o200k_base", "gpt", true)),
    ("o4", own("o200k_base", "gpt", true)),
    ("gpt-4o", own("o200k_base", "gpt", false)),
    ("chatgpt-4o", own("o200k_base", "gpt", false)),
    ("gpt-4.1", own("o200k_base", "gpt", false)),
    ("gpt-4.5", own("o200k_base", "gpt", false)),
    ("computer-use", own("o200k_base", "gpt", false)),
    ("gpt-4", own("cl100k_base", "gpt-4", false)),
    ("gpt-3.5", own("cl100k_base", "gpt-4", false)),
    ("gpt-35", own("cl100k_base", "gpt-4", false)),
    ("claude", mixed("claude", false)),
    ("gemini-2.5", mixed("gemini", true)),
    ("gemini-3", mixed("gemini", true)),
    ("gemini", mixed("gemini", false)),
    ("gemma", mixed("gemini", false)),
    ("nova", mixed("nova", false)),
    ("grok-4", mixed("grok", true)),
    ("grok-3-mini", mixed("grok", true)),
    ("grok", mixed("grok", false)),
    ("llama4", mixed("llama4", false)),
    ("llama-4", mixed("llama4", false)),
    ("llama2", mixed("llama2", false)),
    ("llama-2", mixed("llama2", false)),
    ("llama", own("llama3", "llama3", false)),
    ("deepseek", own("deepseek_v3", "deepseek", false)),
    ("qwen", own("qwen2", "qwen", false)),
    ("qwq", own("qwen2", "qwen", false)),
    ("mixtral", mixed("mixtral", false)),
    ("mistral-tiny", mixed("mixtral", false)),
    ("mistral-7b", mixed("mixtral", false)),
    ("mistral", own("mistral_v3", "mistral", false)),
    ("ministral", own("mistral_v3", "mistral", false)),
    ("magistral", own("mistral_v3", "mistral", false)),
    ("pixtral", own("mistral_v3", "mistral", false)),
    ("codestral", own("mistral_v3", "mistral", false)),
    ("devstral", own("mistral_v3", "mistral", false)),
    ("kimi", own("kimi_k2", "kimi", false)),
    ("glm-5", own("glm5", "glm", false)),
    ("glm", own("glm4", "glm", false)),
    ("minimax", own("minimax_m2", "minimax", false)),
];

/// The family of a model.
pub(crate) fn family(model: &str) -> Family {
    let name = model.split_once('/').map_or(model, |(_, name)| name).to_ascii_lowercase();
    TABLE.iter().find(|(word, _)| stands_in(&name, word)).map_or(mixed("", false), |(_, family)| *family)
}

/// Words in the names of models that think, and show it.
const THINKERS: &[&str] = &["r1", "reasoner", "qwq", "magistral", "thinking"];

/// Whether a model's name says that it thinks before it answers, whether it shows it or not.
pub fn reasons(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    family(model).hides || THINKERS.iter().any(|word| stands_in(&name, word))
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
        assert_eq!(family("local/foo3-mini").kin, "");
        assert!(family("openai/o3-mini").hides);
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
