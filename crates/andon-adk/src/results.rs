//! Tool arguments and results as ADK writes them: always an object.

use andon_runtime::core::message::ResultStatus;
use andon_runtime::{Content, ToolCall, ToolResult};
use serde_json::{Value, json};

/// A call's arguments; an empty object if they are not an object.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    call.input().ok().filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// A result: an object as it is, anything else under `result`, an error under `error`.
pub(crate) fn response(result: &ToolResult) -> Value {
    let text = result.to_text();
    if result.status != ResultStatus::Ok {
        return json!({"error": text});
    }
    let images = result.content.iter().filter_map(|content| match content {
        Content::Image(image) => Some(json!({"mimeType": image.media_type, "fileUri": image.reference})),
        Content::Text { .. } => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    let images: Vec<Value> = images.collect();
    let mut response = match serde_json::from_str(&text) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        Ok(Value::Array(items)) => json!({"result": items}),
        // A tool that returns text may return `12`: it stays text.
        _ => json!({"result": text}),
    };
    if let Value::Object(fields) = &mut response
        && !images.is_empty()
    {
        fields.insert("images".to_owned(), images.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_runtime::CallId;

    #[test]
    fn a_response_is_always_an_object() {
        let of = |status, text: &str| response(&ToolResult::text(CallId::new("c").unwrap(), status, text));
        assert_eq!(of(ResultStatus::Ok, r#"{"slept": 1}"#), json!({"slept": 1}));
        assert_eq!(of(ResultStatus::Ok, "[1]"), json!({"result": [1]}));
        assert_eq!(of(ResultStatus::Ok, "12"), json!({"result": "12"}));
        assert_eq!(of(ResultStatus::Ok, ""), json!({"result": ""}));
        for status in [ResultStatus::Error, ResultStatus::Refused, ResultStatus::Cut, ResultStatus::Unknown] {
            assert_eq!(of(status, r#"{"a": 1}"#), json!({"error": r#"{"a": 1}"#}));
        }
    }
}
