//! A run's events for a reader: the past, then live, no gap, no repeat.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use andon_core::answer::{CallHead, Kind};
use andon_core::event::{Record, Seq};
use andon_core::id::CallId;
use andon_core::standing::RunStanding;
use futures_core::Stream;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::live::Live;

/// A place in a run's feed: after event `seq`, and after `byte` bytes of what was streamed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    /// The event.
    pub seq: Seq,
    /// How many bytes of deltas since that event.
    pub byte: usize,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.byte {
            0 => write!(f, "{}", self.seq),
            byte => write!(f, "{}.{byte}", self.seq),
        }
    }
}

/// The text is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a valid position in a feed: write an event's number, such as 12, or a byte after it, such as 12.340"
)]
pub struct CursorError(String);

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<u64>().ok()).flatten()
        };
        let (seq, byte) = text.split_once('.').unwrap_or((text, "0"));
        let place = number(seq).zip(number(byte).and_then(|byte| usize::try_from(byte).ok()));
        place.map(|(seq, byte)| Self { seq, byte }).ok_or_else(|| CursorError(text.to_owned()))
    }
}

/// An item of a feed.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::Agent;
/// use andon_runtime::{Event, FeedItem};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::instant()).build()?;
/// # let mut feed = agent.start("Hello")?.feed();
/// while let Some(item) = feed.next().await {
///     match item {
///         FeedItem::Delta(delta) => print!("{}", delta.text),
///         FeedItem::Fact(fact) if matches!(fact.event, Event::RunSettled { .. }) => println!(" (event {})", fact.seq),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum FeedItem {
    /// An event; durable before it was shown.
    Fact(FeedFact),
    /// Streamed text of one kind: all that had come when the reader asked.
    Delta(Delta),
    /// The reader's place is past what is stored: streamed text that it had seen was lost in a crash.
    TextLost {
        /// Where the feed continues.
        at: Cursor,
    },
}

/// An event, and where the run stands after it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedFact {
    /// The event.
    pub record: Arc<Record>,
    /// Where the run stands after it. It is folded from the events, not journaled; `None` from a server of an older
    /// version.
    pub standing: Option<RunStanding>,
}

impl Deref for FeedFact {
    type Target = Arc<Record>;

    fn deref(&self) -> &Arc<Record> {
        &self.record
    }
}

impl FeedFact {
    fn read(value: &mut Value) -> Result<Self, serde_json::Error> {
        let standing = value.as_object_mut().and_then(|form| form.remove("standing"));
        let standing = standing.map(RunStanding::deserialize).transpose()?;
        Ok(Self { record: Arc::new(Record::deserialize(value.take())?), standing })
    }
}

impl Serialize for FeedFact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FactForm { record: &self.record, standing: self.standing }.serialize(serializer)
    }
}

#[derive(Serialize)]
struct FactForm<'a> {
    #[serde(flatten)]
    record: &'a Record,
    #[serde(skip_serializing_if = "Option::is_none")]
    standing: Option<RunStanding>,
}

/// Streamed text of one kind.
///
/// ```
/// use andon::feed::Kind;
/// use andon::{Agent, FeedItem, Practice};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::instant()).build()?;
/// let run = agent.start("Hello")?;
/// let (mut feed, mut shown) = (run.feed(), String::new());
/// while let Some(item) = feed.next().await {
///     match item {
///         FeedItem::Delta(delta) if delta.kind == Kind::Text => shown.push_str(&delta.text),
///         _ => {}
///     }
/// }
/// assert_eq!(shown, run.outcome().await.text_so_far());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delta {
    /// The place after it.
    pub at: Cursor,
    /// What the text is: the answer's text, thinking, a call's input or its output.
    pub kind: Kind,
    /// The text.
    pub text: String,
}

impl Delta {
    /// A piece of this kind, whose end is at this place.
    pub fn new(at: Cursor, kind: Kind, text: impl Into<String>) -> Self {
        Self { at, kind, text: text.into() }
    }
}

impl FeedItem {
    /// The place after this item, from which a reader can continue.
    pub fn cursor(&self) -> Cursor {
        match self {
            Self::Fact(fact) => Cursor { seq: fact.seq, byte: 0 },
            Self::Delta(delta) => delta.at,
            Self::TextLost { at } => *at,
        }
    }
}

impl Serialize for FeedItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fact(fact) => fact.serialize(serializer),
            Self::Delta(delta) => delta.serialize(serializer),
            Self::TextLost { at } => {
                let mut form = serializer.serialize_struct("TextLost", 2)?;
                form.serialize_field("type", "text_lost")?;
                form.serialize_field("at", at)?;
                form.end()
            }
        }
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Delta {
    /// Written by hand for speed: there is one for every piece that a reader sees.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = match &self.kind {
            Kind::Text | Kind::Thinking => 3,
            Kind::ToolOutput(_) => 4,
            Kind::ToolInput(_) => 5,
            #[cfg(not(andon_whole))]
            _ => 3,
        };
        let mut form = serializer.serialize_struct("Delta", fields)?;
        form.serialize_field("type", "delta")?;
        form.serialize_field("at", &self.at)?;
        match &self.kind {
            Kind::Text => form.serialize_field("text", &self.text)?,
            Kind::Thinking => form.serialize_field("thinking", &self.text)?,
            Kind::ToolInput(head) => {
                form.serialize_field("tool_input", &self.text)?;
                form.serialize_field("call", &head.id)?;
                form.serialize_field("tool", &head.name)?;
            }
            Kind::ToolOutput(call) => {
                form.serialize_field("tool_output", &self.text)?;
                form.serialize_field("call", call)?;
            }
            #[cfg(not(andon_whole))]
            _ => form.serialize_field("text", "")?,
        }
        form.end()
    }
}

impl<'de> Deserialize<'de> for FeedItem {
    /// Reads an item back, as a client of a server does.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        match value.get("type").and_then(Value::as_str) {
            Some("delta") => DeltaForm::deserialize(value).and_then(Delta::try_from).map(Self::Delta),
            Some("text_lost") => PlaceForm::deserialize(value).map(|place| Self::TextLost { at: place.at }),
            _ => FeedFact::read(&mut value).map(Self::Fact),
        }
        .map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
struct PlaceForm {
    at: Cursor,
}

#[derive(Deserialize)]
struct DeltaForm {
    at: Cursor,
    text: Option<String>,
    thinking: Option<String>,
    tool_input: Option<String>,
    tool_output: Option<String>,
    call: Option<CallId>,
    tool: Option<String>,
}

impl TryFrom<DeltaForm> for Delta {
    type Error = serde_json::Error;

    fn try_from(form: DeltaForm) -> Result<Self, serde_json::Error> {
        let DeltaForm { at, text, thinking, tool_input, tool_output, call, tool } = form;
        let (kind, text) = match (text, thinking, tool_input, tool_output, call) {
            (Some(text), None, None, None, None) => (Kind::Text, text),
            (None, Some(text), None, None, None) => (Kind::Thinking, text),
            (None, None, Some(text), None, Some(id)) => {
                let name = tool.unwrap_or_default();
                (Kind::ToolInput(Arc::new(CallHead { index: 0, id, name })), text)
            }
            (None, None, None, Some(text), Some(call)) => (Kind::ToolOutput(call), text),
            _ => return Err(serde::de::Error::custom("a delta must have exactly one text")),
        };
        Ok(Self { at, kind, text })
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A run's events for one reader. Dropping it changes nothing for the run.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::{Agent, FeedItem};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::instant()).build()?;
/// let mut feed = agent.start("Hello")?.feed();
/// let mut text = String::new();
/// while let Some(item) = feed.next().await {
///     if let FeedItem::Delta(delta) = item {
///         text.push_str(&delta.text);
///     }
/// }
/// # assert!(!text.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Feed {
    live: Arc<Live>,
    key: u64,
    cursor: Cursor,
    text_was_lost: bool,
}

impl Feed {
    pub(crate) fn new(live: Arc<Live>, from: Cursor) -> Self {
        let key = live.next_reader();
        let (cursor, text_was_lost) = live.nearest(from);
        Self { live, key, cursor, text_was_lost }
    }

    /// The next item; `None` once the run has settled and everything was returned.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an item is taken only when it is returned.
    pub async fn next(&mut self) -> Option<FeedItem> {
        poll_fn(|cx| self.poll_item(cx)).await
    }

    /// The next item, if there is one already.
    pub fn try_next(&mut self) -> Option<FeedItem> {
        self.lost().or_else(|| self.live.read(&mut self.cursor))
    }

    /// Where the reader is.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    fn lost(&mut self) -> Option<FeedItem> {
        std::mem::take(&mut self.text_was_lost).then_some(FeedItem::TextLost { at: self.cursor })
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        self.live.hit("feed: poll");
        match self.lost() {
            Some(lost) => Poll::Ready(Some(lost)),
            None => self.live.poll_read(&mut self.cursor, self.key, cx),
        }
    }
}

impl Stream for Feed {
    type Item = FeedItem;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        self.get_mut().poll_item(cx)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.live.forget_reader(self.key);
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_core::cancel::Force;
    use andon_core::event::Event;
    use andon_core::progress::{Phase, RunState};
    use andon_core::time::Stamp;

    #[test]
    fn an_item_is_read_back_as_it_was_written() {
        let at = Cursor { seq: 3, byte: 9 };
        let call = CallId::new("c1").unwrap();
        let head = Arc::new(CallHead { index: 0, id: call.clone(), name: "dice".into() });
        let kinds = [Kind::Text, Kind::Thinking, Kind::ToolInput(head), Kind::ToolOutput(call)];
        let deltas = kinds.map(|kind| FeedItem::Delta(Delta { at, kind, text: "a\"b".into() }));
        let record = Arc::new(Record::new(2, 1, Stamp::default(), Event::RunStarted));
        let standing = RunStanding::new(RunState::Running, Some(Phase::Between), None);
        let facts = [None, Some(standing)].map(|standing| FeedFact { record: Arc::clone(&record), standing });
        let others = [FeedItem::TextLost { at }].into_iter().chain(facts.map(FeedItem::Fact));
        for item in deltas.into_iter().chain(others) {
            let text = serde_json::to_string(&item).unwrap();
            assert_eq!(serde_json::from_str::<FeedItem>(&text).unwrap(), item, "{text}");
        }
        assert!(serde_json::from_str::<FeedItem>(r#"{"type":"delta","at":"1.2"}"#).is_err());
    }

    #[test]
    fn an_item_is_one_flat_object_with_its_type() {
        let at = Cursor { seq: 3, byte: 9 };
        let call = CallId::new("c1").unwrap();
        let head = Arc::new(CallHead { index: 0, id: call.clone(), name: "dice".into() });
        let delta = |kind| FeedItem::Delta(Delta { at, kind, text: "é\n".into() });
        let told =
            [delta(Kind::Text), delta(Kind::ToolInput(head)), delta(Kind::ToolOutput(call)), FeedItem::TextLost { at }];
        let expected = [
            r#"{"type":"delta","at":"3.9","text":"é\n"}"#,
            r#"{"type":"delta","at":"3.9","tool_input":"é\n","call":"c1","tool":"dice"}"#,
            r#"{"type":"delta","at":"3.9","tool_output":"é\n","call":"c1"}"#,
            r#"{"type":"text_lost","at":"3.9"}"#,
        ];
        assert_eq!(told.map(|item| serde_json::to_string(&item).unwrap()), expected);
    }

    #[test]
    fn a_fact_says_where_the_run_stands_after_what_is_on_record() {
        let record = Arc::new(Record::new(2, 1, Stamp::default(), Event::RunQuieted));
        let on_record = serde_json::to_string(&record).unwrap();
        let told = |state, phase, force| {
            let standing = Some(RunStanding::new(state, phase, force));
            serde_json::to_string(&FeedItem::Fact(FeedFact { record: Arc::clone(&record), standing })).unwrap()
        };
        let more = |standing: &str| format!("{},\"standing\":{standing}}}", on_record.trim_end_matches('}'));
        let stopping = told(RunState::Cancelling, Some(Phase::Tools), Some(Force::AfterTurn));
        assert!(stopping.ends_with(r#","standing":{"state":"cancelling","phase":"tools","force":"after_turn"}}"#));
        assert!(told(RunState::Settled, None, None).ends_with(r#","standing":{"state":"settled"}}"#));
        assert_eq!(told(RunState::Settled, None, None), more(r#"{"state":"settled"}"#));
    }

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_anything_else_is_refused() {
        for cursor in [Cursor { seq: 12, byte: 0 }, Cursor { seq: 12, byte: 340 }] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for wrong in ["", "x", "1.", ".1", "1.2.3", "-1", "+1", "1.x", "99999999999999999999"] {
            assert_eq!(wrong.parse::<Cursor>(), Err(CursorError(wrong.into())));
        }
    }
}
