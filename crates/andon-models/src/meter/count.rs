//! Counting a text's tokens locally, by class, at a bounded cost.
//!
//! Models differ less in how they cut an English word than in how they cut digits, Chinese or punctuation: so tokens are
//! counted by class, and each class is calibrated by itself.
//!
//! # Invariants
//!
//! 1. At most `BUDGET` bytes are tokenized; of longer texts, even samples are, and `doubt` says how uneven they were.
//!    Of more than [`TEXTS`] texts, an even sample is looked at.
//! 2. A text that is not empty has a count above 0.

use std::borrow::Cow;

use parking_lot::Mutex;
use tiktoken::CoreBpe;

use super::family::{MIXTURE, Vocabulary};
use super::work;

/// How many classes of tokens there are: ASCII words, digits, CJK, other letters, punctuation and space.
pub(crate) const CLASSES: usize = 5;
/// The most bytes that are tokenized at a time: half of it if four vocabularies have to be asked.
const BUDGET: usize = 48 * 1024;
/// The most texts that are looked at.
pub(crate) const TEXTS: usize = 2048;
/// What is longer is looked at in so many places.
const WINDOWS: usize = 24;
/// The longest word, number or gap that is tokenized in one piece, in bytes.
const STRETCH: usize = 128;

/// A number of tokens, by class.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Tally {
    /// Tokens of each class.
    pub(crate) classes: [f64; CLASSES],
    /// The variance of their sum that comes from having looked only at samples.
    pub(crate) doubt: f64,
}

impl Tally {
    /// All tokens.
    pub(crate) fn total(&self) -> f64 {
        self.classes.iter().sum()
    }

    /// Both.
    #[must_use]
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.add(&other.classes, 1.0);
        self.doubt += other.doubt;
        self
    }

    fn add(&mut self, other: &[f64; CLASSES], factor: f64) {
        self.classes.iter_mut().zip(other).for_each(|(sum, more)| *sum += more * factor);
    }
}

/// The vocabularies that were loaded, which takes long.
static LOADED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Loads what counting with a vocabulary takes. Blocks for some tenths of a second the first time.
pub(crate) fn load(vocabulary: Vocabulary) {
    for name in vocabulary.names() {
        if !LOADED.lock().contains(name) {
            tiktoken::get_encoding(name);
            LOADED.lock().push(name);
        }
    }
}

/// Whether counting with a vocabulary is quick by now.
pub(crate) fn is_loaded(vocabulary: Vocabulary) -> bool {
    let loaded = LOADED.lock();
    vocabulary.names().iter().all(|name| loaded.contains(name))
}

/// The tokens of some texts, together.
pub(crate) fn tally<'a>(vocabulary: Vocabulary, texts: impl Iterator<Item = &'a str> + Clone) -> Tally {
    let bytes: usize = texts.clone().map(str::len).sum();
    let mut sum = Tally::default();
    let budget = if vocabulary == Vocabulary::Mixed { BUDGET / 2 } else { BUDGET };
    if bytes <= budget {
        texts.for_each(|text| sum.add(&classes(vocabulary, text), 1.0));
        return sum;
    }
    let mut rates = vec![(0.0, 0_usize); WINDOWS];
    for (window, piece) in pieces(texts, bytes, budget / WINDOWS) {
        let found = classes(vocabulary, piece);
        if let Some((tokens, length)) = rates.get_mut(window) {
            *tokens += found.iter().sum::<f64>();
            *length += piece.len();
        }
        sum.add(&found, 1.0);
    }
    let looked_at: usize = rates.iter().map(|(_, length)| length).sum();
    let factor = bytes as f64 / looked_at.max(1) as f64;
    sum.classes.iter_mut().for_each(|class| *class *= factor);
    let rates: Vec<f64> = rates.iter().filter(|rate| rate.1 > 0).map(|rate| rate.0 / rate.1 as f64).collect();
    sum.doubt = spread(&rates) * (bytes as f64).powi(2) / rates.len().max(1) as f64;
    sum
}

/// The tokens of one text, together.
pub(crate) fn tally_one(vocabulary: Vocabulary, text: &str) -> Tally {
    tally(vocabulary, std::iter::once(text))
}

/// The tokens of texts of any number, together.
pub(crate) fn tally_all(vocabulary: Vocabulary, texts: &[Cow<'_, str>]) -> Tally {
    // An odd step: messages alternate between two sides, and an even one would see only one of them.
    let step = texts.len().div_ceil(TEXTS) | 1;
    let some = texts.iter().step_by(step).map(Cow::as_ref);
    work::done(some.len());
    let mut sum = tally(vocabulary, some.clone());
    if step > 1 {
        let (all, looked_at) = (texts.len() as f64, some.len() as f64);
        let lengths: Vec<f64> = some.map(|text| text.len() as f64).collect();
        let bytes = lengths.iter().sum::<f64>().max(1.0);
        let per_byte = sum.total() / bytes;
        sum.classes.iter_mut().for_each(|class| *class *= all / looked_at);
        sum.doubt *= (all / looked_at).powi(2);
        sum.doubt += spread(&lengths) * (all * per_byte).powi(2) / looked_at;
    }
    sum
}

/// What of texts that are `bytes` long together lies in evenly spread windows of this `size`, and in which.
fn pieces<'a>(
    texts: impl Iterator<Item = &'a str>,
    bytes: usize,
    size: usize,
) -> impl Iterator<Item = (usize, &'a str)> {
    let step = (bytes / WINDOWS).max(size);
    let starts = texts.scan(0, |end, text| {
        *end += text.len();
        Some((*end - text.len(), text))
    });
    starts.flat_map(move |(start, text)| {
        let windows = start.saturating_sub(size) / step..=(start + text.len()) / step;
        windows.filter_map(move |window| {
            let from = floor(text, (window * step).saturating_sub(start));
            let to = floor(text, (window * step + size).saturating_sub(start));
            let piece = text.get(from..to).filter(|piece| !piece.is_empty() && window < WINDOWS)?;
            Some((window, piece))
        })
    })
}

/// The last place at or before `at` where a character begins.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn spread(rates: &[f64]) -> f64 {
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count
}

fn classes(vocabulary: Vocabulary, text: &str) -> [f64; CLASSES] {
    work::done(text.len());
    match vocabulary {
        Vocabulary::Own(name) => counted(name, text),
        Vocabulary::Mixed => {
            let mut mean = Tally::default();
            MIXTURE.iter().for_each(|name| mean.add(&counted(name, text), 1.0 / MIXTURE.len() as f64));
            mean.classes
        }
    }
}

fn counted(name: &str, text: &str) -> [f64; CLASSES] {
    let mut found = [0.0; CLASSES];
    let mut note = |class: Class, count: f64| {
        if let Some(slot) = found.get_mut(class as usize) {
            *slot += count;
        }
    };
    match tiktoken::get_encoding(name) {
        Some(encoding) => stretches(text).for_each(|part| by_token(encoding, part, |class| note(class, 1.0))),
        // Without a vocabulary, four bytes are a token.
        None => note(Class::Word, text.len() as f64 / 4.0),
    }
    found
}

/// The text in parts, such that none has a word, a number or a gap of more than [`STRETCH`] bytes: what a tokenizer does
/// with one of thousands takes it far longer than so much text should.
fn stretches(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at_checked(stretch(rest))?;
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Where the first word, number or gap becomes too long.
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

/// Tells the class of each token.
fn by_token(encoding: &CoreBpe, text: &str, mut note: impl FnMut(Class)) {
    let mut at = 0;
    for token in encoding.encode(text) {
        let end = at + encoding.decode(&[token]).len();
        // A token may begin or end inside a character: that character tells its class.
        note(class_of(text.get(floor(text, at)..ceil(text, end)).unwrap_or_default()));
        at = end;
    }
}

fn ceil(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Digit,
    Cjk,
    Letter,
    Mark,
}

/// The class of the first character that is neither punctuation nor space.
fn class_of(token: &str) -> Class {
    token.chars().map(class).find(|class| *class != Class::Mark).unwrap_or(Class::Mark)
}

fn class(character: char) -> Class {
    match character {
        'a'..='z' | 'A'..='Z' => Class::Word,
        '0'..='9' => Class::Digit,
        '\0'..='\u{7f}' => Class::Mark,
        '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' => {
            Class::Cjk
        }
        '\u{20000}'..='\u{2ffff}' => Class::Cjk,
        _ => Class::Letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const O200K: Vocabulary = Vocabulary::Own("o200k_base");

    /// Counts that the makers of these vocabularies publish, and what all of them make of one mixed text: if the tokenizer
    /// crate changes its mind, this tells.
    #[test]
    fn counts_are_those_of_the_makers() {
        let count = |name, text| tally_one(Vocabulary::Own(name), text).total() as usize;
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
    fn each_token_has_the_class_of_its_text() {
        let tally = tally_one(O200K, "Twelve apples: 123456, 你好!");
        assert_eq!(tally.classes.map(|count| count as usize), [3, 2, 1, 0, 5], "{tally:?}");
        assert_eq!(tally.doubt, 0.0);
    }

    #[test]
    fn a_token_inside_a_character_has_that_characters_class() {
        // Two characters that no vocabulary has whole.
        let tally = tally_one(Vocabulary::Own("cl100k_base"), "𒀀𒀁");
        assert_eq!(tally.classes.map(|count| count > 0.0), [false, false, false, true, false]);
    }

    #[test]
    fn a_text_is_cut_only_inside_what_is_far_too_long() {
        let cut = |text: &str| stretches(text).map(str::len).collect::<Vec<_>>();
        assert_eq!(cut(&"a word and ".repeat(100)), [1100]);
        assert_eq!(cut(&"x".repeat(600)), [128, 128, 128, 128, 88]);
        assert_eq!(cut(&"界".repeat(100)), [129, 129, 42]);
        assert_eq!(cut(""), [0; 0]);
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
    fn more_texts_than_are_looked_at_are_extrapolated_and_doubted() {
        let turns = ["A short question?", "A rather longer answer, with a good many words in it, as they mostly are."];
        let texts: Vec<Cow<'_, str>> = turns.iter().cycle().take(30_000).map(|text| Cow::Borrowed(*text)).collect();
        let pair = tally(O200K, turns.into_iter()).total();
        let all = tally_all(O200K, &texts);
        assert!((all.total() / (pair * 15_000.0) - 1.0).abs() < 0.05, "{}", all.total());
        assert!(all.doubt > 0.0);
    }

    #[test]
    fn many_short_texts_are_sampled_too() {
        let texts = vec!["A short message with a few words."; 10_000];
        let one = tally_one(O200K, texts[0]).total();
        let all = tally(O200K, texts.iter().copied());
        assert!((all.total() / (one * 10_000.0) - 1.0).abs() < 0.05);
    }
}
