//! What a tool returns.

use std::fmt;

use andon_core::event::Remains;
use andon_core::message::Content;
use serde::Serialize;
use serde_json::Value;

use super::Returned;

/// What a tool returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput(pub Vec<Content>);

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self(vec![Content::Text { text }])
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self::from(value.to_string())
    }
}

impl From<Vec<Content>> for ToolOutput {
    fn from(content: Vec<Content>) -> Self {
        Self(content)
    }
}

impl From<()> for ToolOutput {
    fn from((): ()) -> Self {
        Self::from("done")
    }
}

/// A value that a tool returns as JSON text.
///
/// A [`#[tool]`](macro@crate::tool) function may return it directly or in a `Result`. Elsewhere use
/// [`output`](AsJson::output).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsJson<T>(pub T);

impl<T: Serialize> AsJson<T> {
    /// The value as JSON text; an error if it cannot be written as JSON, such as a map whose keys are not strings.
    pub fn output(&self) -> Returned {
        match serde_json::to_string(&self.0) {
            Ok(text) => Ok(text.into()),
            Err(error) => Err(ToolError(format!("the result cannot be written as JSON: {error}"))),
        }
    }
}

/// Why a tool failed, in words that the model can use.
///
/// ```
/// use andon_runtime::ToolError;
///
/// fn parse(text: &str) -> Result<u32, ToolError> {
///     if text.is_empty() {
///         return Err(ToolError::new("there is no number: give one"));
///     }
///     Ok(text.parse()?)
/// }
/// # assert!(parse("").is_err() && parse("x").is_err() && parse("7").is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError(pub String);

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// From any error, so that `?` works in a tool, and from text: `Err("there is no such file".into())`.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(error.into().to_string())
    }
}

impl ToolError {
    /// An error in the tool's own words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// How many parts of a result are kept.
const MAX_PARTS: usize = 1_000;
/// How many lines of a cleanup's report are kept, and how many bytes of each.
const MAX_LINES: usize = 100;
const MAX_LINE: usize = 1_000;

/// Cuts a result to its limit. Done where the tool runs, so that a huge result delays nothing else.
pub(crate) fn bounded(returned: super::Returned, max: usize) -> super::Returned {
    match returned {
        Ok(ToolOutput(content)) => Ok(ToolOutput(bounded_content(content, max))),
        Err(ToolError(text)) => {
            let kept = bounded_content(vec![Content::Text { text }], max);
            let texts = kept.iter().filter_map(Content::as_text);
            Err(ToolError(texts.collect()))
        }
    }
}

/// Cuts a cleanup's report to its limits.
pub(crate) fn bounded_remains(remains: Remains, max: usize) -> Remains {
    let few = |mut lines: Vec<String>| {
        lines.truncate(MAX_LINES);
        lines.iter_mut().for_each(|line| line.truncate(line.floor_char_boundary(MAX_LINE)));
        lines
    };
    let (leaked, notes) = (few(remains.leaked), few(remains.notes));
    let unended = few(remains.unended.into_iter().collect()).pop();
    Remains::new().leaked(leaked).unended(unended).notes(notes).output(bounded_content(remains.output, max))
}

/// Keeps the beginning, up to a number of bytes and of parts; a notice says how much was cut.
fn bounded_content(content: Vec<Content>, max: usize) -> Vec<Content> {
    let mut left = max;
    let (mut kept, mut dropped) = (Vec::new(), 0);
    for part in content.into_iter().map(checked) {
        let is_full = dropped > 0 || kept.len() >= MAX_PARTS;
        match part {
            Content::Text { text } if is_full => dropped += text.len(),
            Content::Text { mut text } => {
                let end = text.floor_char_boundary(left);
                dropped += text.len() - end;
                if end < text.len() {
                    text.truncate(end);
                    // Frees the rest: it may be a gigabyte.
                    text.shrink_to_fit();
                }
                left -= end;
                kept.push(Content::Text { text });
            }
            // An image is kept whole or not at all.
            Content::Image(image) if is_full || image.reference.len() > left => dropped += image.reference.len(),
            Content::Image(image) => {
                left -= image.reference.len();
                kept.push(Content::Image(image));
            }
            #[cfg(not(andon_whole))]
            other => kept.push(other),
        }
    }
    if dropped > 0 {
        let text = format!("\n[{dropped} bytes of this result were cut: it is over the limit]");
        kept.push(Content::Text { text });
    }
    kept
}

/// Replaces an image that is not valid with a sentence that says so: no provider would accept it.
fn checked(part: Content) -> Content {
    match &part {
        Content::Image(image) => match image.check() {
            Ok(()) => part,
            Err(error) => Content::Text { text: format!("[not passed on: {error}]") },
        },
        Content::Text { .. } => part,
        #[cfg(not(andon_whole))]
        _ => part,
    }
}

#[cfg(test)]
mod tests {
    use andon_core::message::Image;

    use super::*;

    #[test]
    fn an_invalid_image_is_replaced_with_a_sentence() {
        let image = |media_type: &str| Content::Image(Image::new(media_type, "x"));
        let kept = bounded(Ok(ToolOutput(vec![image("image/png"), image("application/pdf")])), 1_000).unwrap().0;
        assert_eq!(kept[0], image("image/png"));
        assert!(
            matches!(&kept[1], Content::Text { text } if text.contains("`application/pdf` is not an image type")),
            "{kept:?}"
        );
    }

    #[test]
    fn an_error_is_made_from_any_error_and_from_text() {
        fn parse(text: &str) -> Result<i64, ToolError> {
            if text.is_empty() {
                return Err("there is no number".into());
            }
            let checked: Result<(), Box<dyn std::error::Error + Send + Sync>> = match text.len() {
                ..4 => Ok(()),
                length => Err(format!("{length} digits are too many").into()),
            };
            checked?;
            Ok(text.parse::<i64>()?)
        }
        let words = |text: &str| parse(text).map_err(|error| error.0);
        assert_eq!(words("12"), Ok(12));
        assert_eq!(words("x"), Err("invalid digit found in string".to_owned()));
        assert_eq!(words(""), Err("there is no number".to_owned()));
        assert_eq!(words("12345"), Err("5 digits are too many".to_owned()));
        assert_eq!(ToolError::from("a".to_owned()), ToolError::new("a"));
    }

    #[test]
    fn a_result_that_is_too_long_is_cut_at_a_character_and_says_so() {
        let output = ToolOutput(vec![
            Content::Text { text: "åäö".into() },
            Content::Text { text: "abcdef".into() },
            Content::Text { text: "more".into() },
        ]);
        let cut = bounded(Ok(output), 8).unwrap();
        let texts: Vec<&str> = cut
            .0
            .iter()
            .map(|content| match content {
                Content::Text { text } => text.as_str(),
                Content::Image(_) => "",
                #[cfg(not(andon_whole))]
                _ => "",
            })
            .collect();
        assert_eq!(texts[..2], ["åäö", "ab"]);
        assert!(texts[2].starts_with("\n[8 bytes"), "{}", texts[2]);
        assert_eq!(texts.len(), 3, "one notice");
        let many = ToolOutput(vec![Content::Text { text: "x".into() }; 100_000]);
        assert_eq!(bounded(Ok(many), 1 << 20).unwrap().0.len(), MAX_PARTS + 1);
        let error = bounded(Err(ToolError::new("ö".repeat(10))), 3).unwrap_err();
        assert!(error.0.starts_with("ö\n[18 bytes"), "{}", error.0);
    }
}
