//! A server's answer as a tool's result.

use andon_runtime::core::message::Image;
use andon_runtime::{Content, Returned, ToolError, ToolOutput};
use rmcp::model::{CallToolResult, ContentBlock, ErrorData, Resource, ResourceContents, ServerResult};
use serde_json::Value;

/// The largest image to pass on, in bytes of base64.
const MAX_IMAGE: usize = 4 * 1024 * 1024;

/// The answer to `tools/call` as a result.
pub(super) fn returned(answer: ServerResult) -> Returned {
    match answer {
        ServerResult::CallToolResult(result) => result_of(result),
        ServerResult::EmptyResult(_) => Ok(ToolOutput::default()),
        ServerResult::InputRequiredResult(_) => Err(asked_for_input()),
        // A result with content that rmcp does not know.
        ServerResult::CustomResult(result) => by_hand(&result.0),
        _ => Err(ToolError::new("the server's answer is not a tool result")),
    }
}

/// The result in a finished task.
pub(super) fn task_returned(result: Value) -> Returned {
    match serde_json::from_value::<CallToolResult>(result.clone()) {
        Ok(result) => result_of(result),
        Err(_) => by_hand(&result),
    }
}

/// An error of the protocol, in the server's words.
pub(super) fn refused(error: &ErrorData) -> ToolError {
    ToolError::new(format!("the server answered with an error ({}): {}", error.code.0, error.message))
}

/// A server should not ask for input, because this client does not advertise it.
pub(super) fn asked_for_input() -> ToolError {
    ToolError::new("the server asked for input from a person, which is not supported")
}

fn result_of(result: CallToolResult) -> Returned {
    let content: Vec<Content> = result.content.into_iter().map(block).collect();
    finish(content, result.structured_content, result.is_error.unwrap_or_default())
}

fn by_hand(result: &Value) -> Returned {
    let Some(blocks) = result.get("content").and_then(Value::as_array) else {
        return Err(ToolError::new("the server's answer is not a tool result"));
    };
    let content = blocks.iter().map(|value| match serde_json::from_value::<ContentBlock>(value.clone()) {
        Ok(known) => block(known),
        Err(_) => {
            let kind = value.get("type").and_then(Value::as_str).unwrap_or("no");
            text(format!("[unsupported content: `{kind}`]"))
        }
    });
    let failed = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
    finish(content.collect(), result.get("structuredContent").cloned(), failed)
}

/// Structured content should also be in the text; if it is not, it is added.
fn finish(mut content: Vec<Content>, structured: Option<Value>, failed: bool) -> Returned {
    if let Some(value) = structured.filter(|value| !value.is_null())
        && !content.iter().any(|part| says(part, &value))
    {
        content.push(text(value.to_string()));
    }
    if !failed {
        return Ok(ToolOutput(content));
    }
    let words: Vec<&str> = content.iter().map(words).collect();
    let words = words.join("\n");
    Err(ToolError::new(if words.is_empty() { "the tool failed without a message".to_owned() } else { words }))
}

fn says(part: &Content, value: &Value) -> bool {
    let Content::Text { text } = part else { return false };
    // A server that has only text wraps it as `{"result": text}`.
    let wrapped = value.get("result").and_then(Value::as_str);
    wrapped == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|said| &said == value)
}

fn words(part: &Content) -> &str {
    match part {
        Content::Text { text } => text,
        Content::Image(_) => "[an image]",
        #[cfg(not(andon_whole))]
        _ => "[unsupported content]",
    }
}

fn block(block: ContentBlock) -> Content {
    match block {
        ContentBlock::Text(content) => text(content.text),
        ContentBlock::Image(content) => image(content.mime_type, &content.data),
        ContentBlock::Audio(audio) => text(format!("[unsupported audio: {}]", audio.mime_type)),
        ContentBlock::Resource(embedded) => resource(embedded.resource),
        ContentBlock::ResourceLink(link) => text(link_words(&link)),
        _ => text("[unsupported content]"),
    }
}

fn resource(contents: ResourceContents) -> Content {
    match contents {
        ResourceContents::TextResourceContents { uri, text: words, .. } => text(format!("[{uri}]\n{words}")),
        ResourceContents::BlobResourceContents { mime_type: Some(media_type), blob, .. }
            if media_type.starts_with("image/") =>
        {
            image(media_type, &blob)
        }
        ResourceContents::BlobResourceContents { uri, mime_type, .. } => {
            let kind = mime_type.unwrap_or_else(|| "binary".to_owned());
            text(format!("[{uri}: unsupported content, {kind}]"))
        }
        _ => text("[unsupported resource]"),
    }
}

/// An image with its bytes, unless it is too large: the runtime limits a tool's text, and this its images.
fn image(media_type: String, data: &str) -> Content {
    if data.len() > MAX_IMAGE {
        return text(format!("[an image that is too large: {media_type}]"));
    }
    let reference = format!("data:{media_type};base64,{data}");
    Content::Image(Image::new(media_type, reference))
}

fn link_words(link: &Resource) -> String {
    match &link.description {
        Some(description) => format!("[{}]({}): {description}", link.name, link.uri),
        None => format!("[{}]({})", link.name, link.uri),
    }
}

fn text(text: impl Into<String>) -> Content {
    Content::Text { text: text.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(result: Value) -> Returned {
        returned(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn an_error_result_is_a_tool_error_with_the_servers_words() {
        let result = read(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        assert_eq!(result, Err(ToolError::new("no such file")));
    }

    #[test]
    fn an_image_becomes_a_data_reference() {
        let result = read(json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]})).unwrap();
        let image = Image::new("image/png", "data:image/png;base64,AAAA");
        assert_eq!(result.0, [Content::Image(image)]);
    }

    #[test]
    fn structured_content_is_added_once() {
        let alone = read(json!({"content": [], "structuredContent": {"n": 1}})).unwrap();
        assert_eq!(alone.0, [text("{\"n\":1}")]);
        let said = json!({"content": [{"type": "text", "text": "{ \"n\": 1 }"}], "structuredContent": {"n": 1}});
        assert_eq!(read(said).unwrap().0.len(), 1);
    }

    #[test]
    fn links_and_unsupported_content_become_text() {
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        let result = read(json!({"content": [link, {"type": "hologram", "x": 1}]})).unwrap();
        assert_eq!(result.0, [text("[a](file:///a)"), text("[unsupported content: `hologram`]")]);
    }
}
