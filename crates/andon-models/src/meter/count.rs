//! Counting a text's tokens locally, by class, at a bounded cost.
//!
//! Models differ less in how they cut an English word than in how they cut digits, Chinese or punctuation: so tokens are
//! counted by class, and each class is calibrated by itself.
//!
//! # Invariants
//!
//! 1. At most [`BUDGET`] bytes are tokenized; of longer texts, even samples are, and `doubt` says how uneven they were.
//! 2. A text that is not empty has a count above 0.

use tiktoken::CoreBpe;

use super::family::{MIXTURE, Vocabulary};

/// How many classes of tokens there are: ASCII words, digits, CJK, other letters, punctuation and space.
pub(crate) const CLASSES: usize = 5;
/// The most bytes that are tokenized at a time.
pub(crate) const BUDGET: usize = 48 * 1024;
/// The length of a sample of a text that is too long.
const SAMPLE: usize = 2 * 1024;

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

    fn add(&mut self, other: &[f64; CLASSES], factor: f64) {
        self.classes.iter_mut().zip(other).for_each(|(sum, more)| *sum += more * factor);
    }
}

/// The tokens of some texts, together.
pub(crate) fn tally<'a>(vocabulary: Vocabulary, texts: impl Iterator<Item = &'a str> + Clone) -> Tally {
    let bytes: usize = texts.clone().map(str::len).sum();
    let mut sum = Tally::default();
    if bytes <= BUDGET {
        texts.for_each(|text| sum.add(&classes(vocabulary, text), 1.0));
        return sum;
    }
    let samples = samples(texts, bytes);
    let looked_at: usize = samples.iter().map(|sample| sample.len()).sum();
    let factor = bytes as f64 / looked_at.max(1) as f64;
    let mut rates = Vec::with_capacity(samples.len());
    for sample in &samples {
        let found = classes(vocabulary, sample);
        rates.push(found.iter().sum::<f64>() / sample.len().max(1) as f64);
        sum.add(&found, factor);
    }
    sum.doubt = spread(&rates) * (bytes as f64).powi(2) / rates.len().max(1) as f64;
    sum
}

/// The tokens of one text, together.
pub(crate) fn tally_one(vocabulary: Vocabulary, text: &str) -> Tally {
    tally(vocabulary, std::iter::once(text))
}

/// Even samples of texts that are `bytes` long together.
fn samples<'a>(texts: impl Iterator<Item = &'a str>, bytes: usize) -> Vec<&'a str> {
    let step = bytes / (BUDGET / SAMPLE);
    let (mut start, mut next, mut found) = (0, 0, Vec::new());
    for text in texts {
        while next < start + text.len() {
            let from = floor(text, next - start);
            let sample = text.get(from..floor(text, from + SAMPLE)).unwrap_or_default();
            if !sample.is_empty() {
                found.push(sample);
            }
            next += step.max(1);
        }
        start += text.len();
    }
    found
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
        Some(encoding) => by_token(encoding, text, |class| note(class, 1.0)),
        // Without a vocabulary, four bytes are a token.
        None => note(Class::Word, text.len() as f64 / 4.0),
    }
    found
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

    #[test]
    fn each_token_has_the_class_of_its_text() {
        let tally = tally_one(O200K, "Twelve apples: 123456, 你好!");
        assert_eq!(tally.classes.map(|count| count as usize), [3, 2, 1, 0, 4], "{tally:?}");
        assert_eq!(tally.doubt, 0.0);
    }

    #[test]
    fn a_token_inside_a_character_has_that_characters_class() {
        // Two characters that no vocabulary has whole.
        let tally = tally_one(Vocabulary::Own("cl100k_base"), "𒀀𒀁");
        assert_eq!(tally.classes.map(|count| count > 0.0), [false, false, false, true, false]);
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
    fn many_short_texts_are_sampled_too() {
        let texts = vec!["A short message with a few words."; 10_000];
        let one = tally_one(O200K, texts[0]).total();
        let all = tally(O200K, texts.iter().copied());
        assert!((all.total() / (one * 10_000.0) - 1.0).abs() < 0.05);
    }
}
