//! Counting a text's tokens locally, at a bounded cost.
//!
//! # Invariants
//!
//! 1. Of texts with more than `BUDGET` bytes an even sample is tokenized, of about as many bytes, and `doubt` says how uneven
//!    it was.
//! 2. A text that is not empty has a count above 0. Before the vocabulary is loaded, four bytes are a token, and `doubt` leaves no
//!    lower bound.
//! 3. Where vocabularies differ by more than a factor of two from their mean, as for long runs of one character, `doubt` says so.

use parking_lot::Mutex;
use tiktoken::CoreBpe;

use super::family::Vocabulary;

/// The bytes that are tokenized at most, or half as many if several vocabularies must be asked.
const BUDGET: usize = 48 * 1024;
/// Of more than that, pieces of this size are sampled.
const PIECE: usize = 1024;
/// The longest word, number or gap that is tokenized in one piece, in bytes.
const STRETCH: usize = 128;

/// A number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Tally {
    /// Tokens of ASCII only.
    pub(crate) ascii: f64,
    /// The others: vocabularies differ most in other scripts.
    pub(crate) other: f64,
    /// The variance of their sum that comes from having looked only at samples, or at vocabularies that disagree.
    pub(crate) doubt: f64,
}

impl Tally {
    /// All tokens.
    pub(crate) fn total(&self) -> f64 {
        self.ascii + self.other
    }

    /// Both. What makes one of them doubtful makes the other so, and to the same side: such doubts do not cancel out.
    #[must_use]
    pub(crate) fn plus(self, more: Self) -> Self {
        let doubt = (self.doubt.sqrt() + more.doubt.sqrt()).powi(2);
        Self { ascii: self.ascii + more.ascii, other: self.other + more.other, doubt }
    }

    fn times(self, factor: f64) -> Self {
        Self { ascii: self.ascii * factor, other: self.other * factor, doubt: self.doubt * factor.powi(2) }
    }
}

/// The vocabularies that were loaded, which takes long.
static LOADED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Loads what counting with a vocabulary takes. Blocks for some tenths of a second the first time.
pub(crate) fn load(vocabulary: Vocabulary) {
    for name in vocabulary {
        if !LOADED.lock().contains(name) {
            tiktoken::get_encoding(name);
            LOADED.lock().push(name);
        }
    }
}

/// Whether counting with a vocabulary is quick by now.
pub(crate) fn is_loaded(vocabulary: Vocabulary) -> bool {
    let loaded = LOADED.lock();
    vocabulary.iter().all(|name| loaded.contains(name))
}

/// The tokens of one text.
pub(crate) fn tally_one(vocabulary: Vocabulary, text: &str) -> Tally {
    tally(vocabulary, std::iter::once(text))
}

/// The tokens of some texts, together.
pub(crate) fn tally<'a>(vocabulary: Vocabulary, texts: impl Iterator<Item = &'a str> + Clone) -> Tally {
    let bytes = texts.clone().map(str::len).sum();
    if is_loaded(vocabulary) {
        return tokenize(vocabulary, texts, bytes);
    }
    let bytes = bytes as f64;
    Tally { ascii: bytes / 4.0, other: 0.0, doubt: (bytes / 2.0).powi(2) }
}

fn tokenize<'a>(vocabulary: Vocabulary, texts: impl Iterator<Item = &'a str> + Clone, bytes: usize) -> Tally {
    let budget = BUDGET / vocabulary.len().clamp(1, 2);
    if bytes <= budget {
        return texts.map(|text| count(vocabulary, text)).fold(Tally::default(), Tally::plus);
    }
    let sample = sample(texts, bytes, budget);
    let found: Vec<Tally> = sample.iter().map(|piece| count(vocabulary, piece)).collect();
    let seen: usize = sample.iter().map(|piece| piece.len()).sum();
    let rates: Vec<f64> = found.iter().zip(&sample).map(|(tally, piece)| tally.total() / piece.len() as f64).collect();
    let all = found.into_iter().fold(Tally::default(), Tally::plus).times(bytes as f64 / seen.max(1) as f64);
    let uneven =
        Tally { doubt: variance(&rates) / rates.len().max(1) as f64 * (bytes as f64).powi(2), ..Tally::default() };
    all.plus(uneven)
}

/// Even pieces of texts that are `bytes` long together: about as much as the budget allows.
fn sample<'a>(texts: impl Iterator<Item = &'a str>, bytes: usize, budget: usize) -> Vec<&'a str> {
    // An odd step: messages alternate between two sides, and an even one would see only one of them.
    let step = bytes.div_ceil(budget) | 1;
    let mut left = budget + budget / 2;
    let pieces = texts.flat_map(pieces).step_by(step);
    // What is left runs out only if the pieces that are passed over are much shorter than the others.
    pieces.take_while(|piece| left.checked_sub(piece.len()).map(|rest| left = rest).is_some()).collect()
}

/// A text in pieces of about the same size.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    split_by(text, |rest| rest.floor_char_boundary(PIECE.min(rest.len())))
}

/// A text in parts, each as long as `length` says of what is left.
fn split_by(text: &str, length: fn(&str) -> usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at_checked(length(rest))?;
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

fn variance(rates: &[f64]) -> f64 {
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count
}

fn count(vocabulary: Vocabulary, text: &str) -> Tally {
    let counts: Vec<Tally> = vocabulary.iter().map(|name| counted(name, text)).collect();
    let least = counts.iter().map(Tally::total).fold(f64::INFINITY, f64::min);
    let mean = counts.into_iter().fold(Tally::default(), Tally::plus).times(1.0 / vocabulary.len() as f64);
    let apart = if mean.total() > 2.0 * least { mean.total() - least } else { 0.0 };
    Tally { doubt: apart.powi(2), ..mean }
}

fn counted(name: &str, text: &str) -> Tally {
    // Each name of the table is built in.
    let Some(encoding) = tiktoken::get_encoding(name) else { return Tally::default() };
    let (mut ascii, mut other) = (0, 0);
    for part in split_by(text, stretch) {
        if part.is_ascii() {
            ascii += encoding.count(part);
        } else {
            let tokens = encoding.encode(part);
            let plain = tokens.iter().filter(|token| is_ascii(encoding, **token)).count();
            (ascii, other) = (ascii + plain, other + tokens.len() - plain);
        }
    }
    Tally { ascii: ascii as f64, other: other as f64, doubt: 0.0 }
}

fn is_ascii(encoding: &CoreBpe, token: u32) -> bool {
    encoding.decode(&[token]).is_ascii()
}

/// Where the first word, number or gap becomes so long that a tokenizer would take far longer than so much text should.
fn stretch(text: &str) -> usize {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => 0,
        b if b.is_ascii_whitespace() => 1,
        _ => 2,
    };
    let (mut last, mut start) = (3, 0);
    for (at, byte) in text.bytes().enumerate() {
        if kind(byte) != last {
            (last, start) = (kind(byte), at);
        } else if at - start >= STRETCH && text.is_char_boundary(at) {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::super::family::MIXTURE;
    use super::*;

    const O200K: Vocabulary = &["o200k_base"];

    /// Counted, whether or not anything says that the vocabulary is loaded.
    fn tally<'a>(vocabulary: Vocabulary, texts: impl Iterator<Item = &'a str> + Clone) -> Tally {
        let bytes = texts.clone().map(str::len).sum();
        tokenize(vocabulary, texts, bytes)
    }

    fn tally_one(vocabulary: Vocabulary, text: &str) -> Tally {
        tally(vocabulary, std::iter::once(text))
    }

    /// Counts that the makers of these vocabularies publish, and what all of them make of one mixed text: if the tokenizer
    /// crate changes its mind, this tells.
    #[test]
    fn counts_are_those_of_the_makers() {
        let count = |name: &'static str, text| tally_one(Vec::leak(vec![name]), text).total() as usize;
        for (text, cl100k, o200k) in
            [("antidisestablishmentarianism", 6, 6), ("2 + 2 = 4", 7, 7), ("お誕生日おめでとう", 9, 8)]
        {
            assert_eq!((count("cl100k_base", text), count("o200k_base", text)), (cl100k, o200k), "{text}");
        }
        let mixed =
            "fn main() {\n    println!(\"{}\", 1024 * 3.14159);\n}\nПривет, 世界! Ça va? 🙂🙃 naïve café — 2026-11-15";
        let golden = [
            ("cl100k_base", 46),
            ("o200k_base", 40),
            ("llama3", 43),
            ("deepseek_v3", 43),
            ("qwen2", 50),
            ("mistral_v3", 55),
            ("kimi_k2", 45),
            ("glm4", 42),
            ("glm5", 40),
            ("minimax_m2", 40),
        ];
        assert_eq!(golden.map(|(name, _)| (name, count(name, mixed))), golden);
    }

    #[test]
    fn the_mixture_is_the_mean_of_its_vocabularies() {
        let text = "naïve café 世界 and a few plain words";
        let mean = MIXTURE.iter().map(|name| tally_one(std::slice::from_ref(name), text).total()).sum::<f64>() / 4.0;
        assert!((tally_one(MIXTURE, text).total() - mean).abs() < 1e-9);
    }

    #[test]
    fn tokens_of_other_scripts_are_counted_apart() {
        let tally = tally_one(O200K, "Twelve apples: 123456, 你好!");
        assert_eq!((tally.ascii, tally.other, tally.doubt), (10.0, 1.0, 0.0));
    }

    #[test]
    fn a_text_is_cut_only_inside_what_is_far_too_long() {
        let cut = |text: &str| split_by(text, stretch).map(str::len).collect::<Vec<_>>();
        assert_eq!(cut(&"a word and ".repeat(100)), [1100]);
        assert_eq!(cut(&"x".repeat(600)), [128, 128, 128, 128, 88]);
        assert_eq!(cut(&"界".repeat(100)), [129, 129, 42]);
        assert_eq!(cut(""), [0; 0]);
    }

    #[test]
    fn no_token_of_a_built_in_vocabulary_is_longer_than_what_is_assumed() {
        for name in tiktoken::list_encodings() {
            let encoding = tiktoken::get_encoding(name).unwrap();
            let longest = (0..encoding.vocab_size() as u32).map(|token| encoding.decode(&[token]).len()).max();
            assert!(
                longest.is_some_and(|bytes| bytes as u64 <= andon_core::usage::BYTES_A_TOKEN),
                "{name}: {longest:?}"
            );
        }
    }

    #[test]
    fn a_long_text_is_extrapolated_from_samples() {
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(20_000);
        let whole = tiktoken::get_encoding("o200k_base").unwrap().count(&text) as f64;
        let tally = tally_one(O200K, &text);
        assert!((tally.total() / whole - 1.0).abs() < 0.02, "{} of {whole}", tally.total());
    }

    #[test]
    fn an_uneven_long_text_says_that_it_is_doubtful() {
        let text = ["word ".repeat(40_000), "0123456789".repeat(20_000)].concat();
        let even = "word ".repeat(80_000);
        let doubt = |text: &str| tally_one(O200K, text).doubt.sqrt() / tally_one(O200K, text).total();
        assert!(doubt(&text) > 0.02, "{}", doubt(&text));
        assert!(doubt(&even) < 0.002, "{}", doubt(&even));
    }

    #[test]
    fn many_short_texts_are_sampled_on_both_sides_of_a_conversation() {
        let turns = ["A short question?", "A rather longer answer, with a good many words in it, as they mostly are."];
        let pair = tally(O200K, turns.into_iter()).total();
        let all = tally(O200K, turns.into_iter().cycle().take(30_000));
        assert!((all.total() / (pair * 15_000.0) - 1.0).abs() < 0.05, "{}", all.total());
        assert!(all.doubt > 0.0);
    }

    #[test]
    fn texts_that_are_long_exactly_where_they_are_sampled_cost_no_more_than_others() {
        let (long, step) = ("long words ".repeat(90), 61);
        let mut texts = vec!["x"; 183_000];
        texts.iter_mut().step_by(step).for_each(|text| *text = &long);
        let bytes = texts.iter().map(|text| text.len()).sum();
        let seen: usize = sample(texts.iter().copied(), bytes, BUDGET).iter().map(|piece| piece.len()).sum();
        assert!((BUDGET / 2..=BUDGET + BUDGET / 2).contains(&seen), "{seen}");
    }
}
