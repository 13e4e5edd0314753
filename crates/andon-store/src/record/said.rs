//! All the messages of a run in one row, so that a session that is not in memory reads messages instead of events.
//!
//! The row is written when the run settles, from the same fold that a reader of its events would make. The format is the store's
//! own: most messages are text, and text needs no tag here that a reader would have to look ahead for.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use andon_runtime::core::message::{Cut, Message, Part, Role};
use serde::{Deserialize, Serialize};

/// The most bytes that a row may have. Messages are stored in the events as well, and this bounds the extra space. Longer ones are
/// read from the events.
const MOST: usize = 8 << 10;

/// The role, the parts, and why the message was cut.
#[derive(Serialize, Deserialize)]
struct SaidMessage<'a>(Role, Vec<SaidPart<'a>>, Option<Cut>);

#[derive(Serialize, Deserialize)]
enum SaidPart<'a> {
    #[serde(rename = "t")]
    Text(Cow<'a, str>),
    #[serde(rename = "p")]
    Other(Cow<'a, Part>),
}

/// Messages as text; `None` if that would be too long.
pub(crate) fn write(messages: &[Arc<Message>]) -> Option<String> {
    let messages: Vec<SaidMessage<'_>> = messages.iter().map(|message| said_message(message)).collect();
    let mut bounded = Bounded(Vec::with_capacity(256));
    serde_json::to_writer(&mut bounded, &messages).ok()?;
    String::from_utf8(bounded.0).ok()
}

fn said_message(message: &Message) -> SaidMessage<'_> {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text } => SaidPart::Text(text.into()),
        other => SaidPart::Other(Cow::Borrowed(other)),
    });
    SaidMessage(message.role, parts.collect(), message.cut)
}

/// Messages from that text.
pub(crate) fn read(text: &str) -> serde_json::Result<Vec<Arc<Message>>> {
    let messages: Vec<SaidMessage<'_>> = serde_json::from_str(text)?;
    let part = |part| match part {
        SaidPart::Text(text) => Part::Text { text: text.into_owned() },
        SaidPart::Other(part) => part.into_owned(),
    };
    let message = |SaidMessage(role, parts, cut)| {
        let parts = parts.into_iter().map(part).collect();
        Arc::new(Message::new(role, parts).cut(cut))
    };
    Ok(messages.into_iter().map(message).collect())
}

/// Accepts no more than [`MOST`] bytes.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use andon_runtime::core::cancel::Reason;
    use andon_runtime::core::id::CallId;
    use andon_runtime::core::message::{ResultStatus, Signature, ToolCall, ToolResult};

    use super::*;

    fn message(role: Role, parts: Vec<Part>, cut: Option<Cut>) -> Arc<Message> {
        Arc::new(Message::new(role, parts).cut(cut))
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let id = CallId::new("c").unwrap();
        let call = ToolCall::new(id.clone(), "look", "{\"a\": 1.50}");
        let thought = Part::Thinking { text: "hm".to_owned(), signature: Some(Signature::new("us", "seal")) };
        let said = [
            message(Role::User, vec![Part::Text { text: "ä \"b\"\n🙂".to_owned() }], None),
            message(Role::Assistant, vec![thought, Part::ToolCall(call)], None),
            message(Role::Tool, vec![Part::ToolResult(ToolResult::text(id, ResultStatus::Cut, "x"))], None),
            message(Role::Assistant, Vec::new(), Some(Cut::Cancelled(Reason::Requested))),
            message(Role::Assistant, Vec::new(), Some(Cut::Lost)),
        ];
        assert_eq!(read(&write(&said).unwrap()).unwrap(), said);
        assert_eq!(read(&write(&[]).unwrap()).unwrap(), []);
    }

    #[test]
    fn messages_that_are_too_long_have_no_row() {
        let long = |bytes| [Arc::new(Message::user("x".repeat(bytes)))];
        assert!(write(&long(MOST - 100)).is_some());
        assert_eq!(write(&long(MOST)), None);
    }
}
