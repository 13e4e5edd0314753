//! Fields as servers send them: an odd value counts as unknown, and does not spoil the rest of the frame.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::repair::{as_arguments, as_words};

/// The beginning of the error for a list that is too long.
pub(super) const TOO_MANY: &str = "more than";

/// No provider reads or writes more tokens than this in a call, so a larger number is an error of the server's.
pub(crate) const MOST: u64 = 1 << 40;

/// A number of tokens, or an index. Anything else, and whatever no call can use, is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count(pub(super) Option<u64>);

/// A text, borrowed if it has no escapes. A number becomes its digits; anything else counts as missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text<'a>(Option<Cow<'a, str>>);

/// A list with at most `N` entries. A longer one is refused before it takes memory.
#[derive(Debug)]
pub(super) struct Few<T, const N: usize>(pub(super) Vec<T>);

impl<T, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl Text<'_> {
    /// As it is; empty if it is missing.
    pub(super) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The text, unless it is missing or empty.
    pub(super) fn some(self) -> Option<String> {
        self.0.filter(|text| !text.is_empty()).map(Cow::into_owned)
    }

    /// The text; empty if it is missing.
    pub(super) fn or_empty(self) -> String {
        self.0.map(Cow::into_owned).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

/// An object, or nothing: whatever stands in its place has no fields, and a list must not be read as if it had.
pub(super) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let json = <&'de RawValue>::deserialize(deserializer)?.get();
    json.starts_with('{').then(|| serde_json::from_str(json)).transpose().map_err(D::Error::custom)
}

/// A call's arguments: JSON, or the next part of it as a text. No character is replaced by another.
pub(super) fn arguments(sent: Option<&RawValue>) -> String {
    let sent = sent.map(RawValue::get).unwrap_or_default();
    match sent.as_bytes().first() {
        Some(b'"') => as_arguments(serde_json::from_str::<String>(sent).unwrap_or_default()).into_owned(),
        Some(b'n') | None => String::new(),
        Some(_) => as_arguments(sent).into_owned(),
    }
}

impl Count {
    fn read(json: &str) -> Option<u64> {
        let digits = json.trim_matches('"');
        let whole = || digits.parse::<f64>().ok().filter(|number| number.fract() == 0.0).and_then(in_range);
        digits.parse().ok().or_else(whole).filter(|number| *number <= MOST)
    }
}

/// A float as a count, if it can be one.
fn in_range(number: f64) -> Option<u64> {
    #[expect(clippy::cast_precision_loss, reason = "a power of two is exact")]
    let is_count = (0.0..=MOST as f64).contains(&number);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and in range")]
    is_count.then_some(number as u64)
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Read as it stands: a number that is too large to be read must not spoil the frame.
        Ok(Self(Self::read(<&'de RawValue>::deserialize(deserializer)?.get())))
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Some(as_words(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Owned(as_words(text).into_owned()))))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Owned(number.to_string()))))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Owned(number.to_string()))))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Owned(number.to_string()))))
    }

    fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Text<'de>, A::Error> {
        while entries.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Text<'de>, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct FewVisitor<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for FewVisitor<T, N> {
    type Value = Few<T, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Few<T, N>, E> {
        Ok(Few::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Few<T, N>, A::Error> {
        let mut few = Vec::new();
        while let Some(entry) = entries.next_element::<Option<T>>()? {
            if few.len() == N {
                return Err(A::Error::custom(format_args!("{TOO_MANY} {N} entries")));
            }
            few.extend(entry);
        }
        Ok(Few(few))
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Few<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FewVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_number_or_text_is_unknown_and_not_an_error() {
        let count = |json: &str| serde_json::from_str::<Count>(json).unwrap().0;
        assert_eq!(["12", "12.0", "\"12\""].map(count), [Some(12); 3]);
        assert_eq!(["-1", "0.5", "null", "true", "[1]", "{\"a\":1}", "\"x\"", "\"NaN\""].map(count), [None; 8]);
        assert_eq!(["18446744073709551615", "\"18446744073709551615\"", "1e15", "1e999"].map(count), [None; 4]);
        let text = |json: &str| serde_json::from_str::<Text<'_>>(json).unwrap().some();
        assert_eq!(
            [text("\"a\""), text("7"), text("\"\\n\"")],
            [Some("a".into()), Some("7".into()), Some("\n".into())]
        );
        assert_eq!(["null", "[\"a\"]", "{}", "false"].map(text), [const { None }; 4]);
    }

    #[test]
    fn only_an_object_has_fields() {
        #[derive(Debug, PartialEq, Default, Deserialize)]
        #[serde(default)]
        struct Usage {
            input: Count,
        }
        let read = |json: &str| object::<_, Usage>(&mut serde_json::Deserializer::from_str(json));
        assert_eq!(read(r#" {"input": 7}"#).unwrap(), Some(Usage { input: Count(Some(7)) }));
        assert_eq!(["[7]", "\"7\"", "7", "null", "true"].map(|json| read(json).unwrap()), [const { None }; 5]);
        // The frame is repaired then.
        assert!(read(r#"{"input": 7, "input": 8}"#).unwrap_err().is_data());
    }

    #[test]
    fn a_list_is_refused_where_it_becomes_too_long() {
        let list = |json: &str| serde_json::from_str::<Few<u64, 2>>(json).map(|few| few.0);
        assert_eq!(list("[1, null, 2]").unwrap(), [1, 2]);
        assert_eq!(list("null").unwrap(), [0_u64; 0]);
        assert!(list("[1, 2, 3").unwrap_err().to_string().starts_with(TOO_MANY));
    }
}
