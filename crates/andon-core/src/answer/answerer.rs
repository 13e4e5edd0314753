//! Who answered a model call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name or id that is kept, in bytes.
const LONGEST: usize = 200;

/// Who answered a model call, according to the provider. A provider is not trusted: what cannot be a name is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answerer {
    /// The exact model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<Arc<str>>,
    /// The id by which the provider knows the request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<Arc<str>>,
}

impl Answerer {
    /// From what the provider says about itself.
    pub fn new(model: Option<&str>, request_id: Option<&str>) -> Self {
        Self { model: model.and_then(name), request_id: request_id.and_then(name) }
    }
}

/// The text as a name, if it fits on a line. A longer one is dropped: half a name would be a different name.
fn name(said: &str) -> Option<Arc<str>> {
    let said = said.trim();
    let is_one = !said.is_empty() && said.len() <= LONGEST && !said.chars().any(char::is_control);
    is_one.then(|| said.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_left_out() {
        let long = "m".repeat(LONGEST + 1);
        for odd in ["", "  ", "a\nb", "\u{1b}[2J", &long] {
            assert_eq!(Answerer::new(Some(odd), Some(odd)), Answerer::default(), "{odd:?}");
        }
        let named = Answerer::new(Some(" gpt-5-2026-08-07 "), Some(&long[1..]));
        let expected = Answerer { model: Some("gpt-5-2026-08-07".into()), request_id: Some(long[1..].into()) };
        assert_eq!(named, expected);
    }
}
