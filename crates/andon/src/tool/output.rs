//! What a tool returns.

use std::fmt;

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
/// A function under [`#[tool]`](macro@crate::tool) may return it as it is, alone or in a `Result`. Elsewhere there is
/// [`output`](Json::output).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Json<T>(pub T);

impl<T: Serialize> Json<T> {
    /// The value as JSON text; an error if it cannot be written so, such as a map whose keys are no text.
    pub fn output(&self) -> Returned {
        match serde_json::to_string(&self.0) {
            Ok(text) => Ok(text.into()),
            Err(error) => Err(ToolError(format!("the result cannot be written as JSON: {error}"))),
        }
    }
}

/// Why a tool failed, in words that the model can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError(pub String);

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl ToolError {
    /// An error in the tool's own words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Cuts a result to what is kept of it. Done where the tool runs, so that a huge one costs nobody else anything.
pub(crate) fn bounded(returned: super::Returned, max: usize) -> super::Returned {
    match returned {
        Ok(mut output) => {
            let mut left = max;
            for content in &mut output.0 {
                if let Content::Text { text } = content {
                    cut(text, &mut left);
                }
            }
            Ok(output)
        }
        Err(ToolError(mut text)) => {
            cut(&mut text, &mut { max });
            Err(ToolError(text))
        }
    }
}

fn cut(text: &mut String, left: &mut usize) {
    if text.len() > *left {
        let kept = text.floor_char_boundary(*left);
        let dropped = text.len() - kept;
        text.truncate(kept);
        // A gigabyte is not to be kept for the few bytes of it that are.
        text.shrink_to_fit();
        text.push_str(&format!("\n[{dropped} bytes of this result were cut: it is longer than is kept]"));
        *left = 0;
    } else {
        *left -= text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            })
            .collect();
        assert_eq!(texts[0], "åäö");
        assert!(texts[1].starts_with("ab\n[4 bytes"), "{}", texts[1]);
        assert!(texts[2].starts_with("\n[4 bytes"), "{}", texts[2]);
        let error = bounded(Err(ToolError::new("ö".repeat(10))), 3).unwrap_err();
        assert!(error.0.starts_with("ö\n[18 bytes"), "{}", error.0);
    }
}
