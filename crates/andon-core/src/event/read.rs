//! Reading records quickly.
//!
//! The `type` of an event stands among its fields. Because the `type` may come last, serde buffers the whole record before it
//! reads the fields. Andon writes the `type` before the event's own fields, so that one pass is enough, which is two to three
//! times as quick. A record in any other order is read the slow way.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::value::CowStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use super::{
    Accepted, Approval, Changes, Effect, Epoch, Event, HookChange, HookEnd, HookPoint, ModelEnd, Record, Refusal,
    Remains, Seq, ToolEnd,
};
use crate::cancel::CancelRequest;
use crate::digest::Digest;
use crate::ending::Ending;
use crate::id::CallId;
use crate::message::{Message, ToolResult};
use crate::time::Stamp;
use crate::usage::{Awaited, Used};

/// The same events, with the `type` apart from the fields. The compiler checks that they are the same.
#[derive(Deserialize)]
#[serde(remote = "Event", rename_all = "snake_case")]
enum Form {
    RunAccepted {
        accepted: Arc<Accepted>,
    },
    RunStarted,
    HookStarted {
        point: HookPoint,
    },
    HookFinished {
        point: HookPoint,
        end: HookEnd,
        #[serde(default)]
        change: Option<Box<HookChange>>,
        #[serde(default)]
        why: Option<Arc<str>>,
    },
    ModelStarted {
        call: u32,
        model: Arc<str>,
        #[serde(default)]
        is_changed: bool,
    },
    Message {
        message: Arc<Message>,
    },
    Usage {
        call: u32,
        used: Box<Used>,
        #[serde(default)]
        pending: Option<Awaited>,
        #[serde(default)]
        answered_by: Option<Arc<str>>,
        #[serde(default)]
        request_id: Option<Arc<str>>,
        #[serde(default)]
        answer_changed: bool,
    },
    ModelFinished {
        call: u32,
        end: ModelEnd,
        first_piece_us: Option<u64>,
    },
    BackoffStarted {
        delay_ms: u64,
    },
    BackoffFinished,
    ApprovalRequested {
        call: CallId,
        #[serde(default)]
        arguments: Option<Digest>,
    },
    ApprovalResolved {
        call: CallId,
        verdict: Box<Approval>,
    },
    ToolStarted {
        call: CallId,
        effect: Effect,
        #[serde(default)]
        effect_id: Option<Arc<str>>,
    },
    ToolFinished {
        call: CallId,
        end: ToolEnd,
        result: Arc<ToolResult>,
        #[serde(default)]
        remains: Option<Box<Remains>>,
        #[serde(default)]
        state: Option<Box<Changes>>,
    },
    ToolRefused {
        call: CallId,
        why: Refusal,
        result: Arc<ToolResult>,
    },
    CallCancelRequested {
        call: CallId,
        request: Arc<CancelRequest>,
    },
    CancelRequested {
        request: Arc<CancelRequest>,
        delivered_at: Stamp,
    },
    RunQuieted,
    GraceEnded {
        calls: Arc<[CallId]>,
    },
    RunSettled {
        outcome: Arc<Ending>,
    },
}

impl Record {
    /// Reads a record from JSON.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let quick = deserializer.deserialize_map(InOrder).and_then(|record| deserializer.end().map(|()| record));
        // The record is in another order, or invalid: the slow way reads the former, and says what is wrong with the latter.
        quick.or_else(|_| serde_json::from_str(json))
    }
}

/// Reads a record whose `type` comes after the fields of the record itself and before those of the event.
struct InOrder;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Head {
    V,
    Seq,
    Epoch,
    At,
    Type,
}

impl<'de> Visitor<'de> for InOrder {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let (mut v, mut seq, mut epoch, mut at): (Option<u16>, Option<Seq>, Option<Epoch>, Option<Stamp>) =
            Default::default();
        while let Some(head) = map.next_key()? {
            match head {
                Head::V => v = Some(map.next_value()?),
                Head::Seq => seq = Some(map.next_value()?),
                Head::Epoch => epoch = Some(map.next_value()?),
                Head::At => at = Some(map.next_value()?),
                Head::Type => {
                    let (Some(v), Some(seq), Some(epoch), Some(at)) = (v, seq, epoch, at) else { break };
                    if !crate::format_version::is_known(v) {
                        break;
                    }
                    let kind: Cow<'de, str> = map.next_value()?;
                    let event = Form::deserialize(Rest { kind, map })?;
                    return Ok(Record { v, seq, epoch, at, event });
                }
            }
        }
        Err(A::Error::custom("not in order"))
    }
}

/// An event whose kind is known, and whose fields are the rest of a map.
struct Rest<'de, A> {
    kind: Cow<'de, str>,
    map: A,
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for Rest<'de, A> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>> EnumAccess<'de> for Rest<'de, A> {
    type Error = A::Error;
    type Variant = Fields<A>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Fields<A>), A::Error> {
        let kind: CowStrDeserializer<'de, A::Error> = self.kind.into_deserializer();
        Ok((seed.deserialize(kind)?, Fields(self.map)))
    }
}

/// The fields of an event.
struct Fields<A>(A);

impl<'de, A: MapAccess<'de>> VariantAccess<'de> for Fields<A> {
    type Error = A::Error;

    // If the record has more fields, the quick way fails on them, and the record is read the slow way.
    fn unit_variant(self) -> Result<(), A::Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _seed: S) -> Result<S::Value, A::Error> {
        Err(A::Error::custom("no event is of this form"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _visitor: V) -> Result<V::Value, A::Error> {
        Err(A::Error::custom("no event is of this form"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_map(self.0)
    }
}
