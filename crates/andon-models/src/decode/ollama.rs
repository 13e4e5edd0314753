//! Ollama's chat: one JSON object per line; the last one says `"done": true` and has the counts.
//!
//! Calls come whole. Thinking is counted as output, not separately, and no figure says what came from a cache.

use std::collections::VecDeque;

use andon_core::usage::Usage;
use andon_runtime::{ModelError, ModelStop, Piece};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::event::{Json, MAX_CALLS, broke_off, one_more};
use super::loose::{Count, Few, Text, arguments};
use super::reported::{Reported, take, take_input};
use super::{Decode, Frame};

/// Reads one answer.
#[derive(Debug, Default)]
pub struct Ollama {
    calls: usize,
    is_thinking: bool,
    reported: Reported,
    model: Option<String>,
    is_over: bool,
    has_failed: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    model: Text<'a>,
    message: Option<Words<'a>>,
    done: Option<bool>,
    done_reason: Text<'a>,
    prompt_eval_count: Count,
    eval_count: Count,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Words<'a> {
    content: Text<'a>,
    thinking: Text<'a>,
    tool_calls: Few<ToolCall<'a>, MAX_CALLS>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ToolCall<'a> {
    id: Text<'a>,
    function: Option<Function<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Function<'a> {
    name: Text<'a>,
    arguments: Option<&'a RawValue>,
}

impl Ollama {
    fn take(&mut self, json: &Json<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let line: Line<'_> = json.read()?;
        if line.error.is_some() {
            return Err(json.error().in_stream());
        }
        if self.model.is_none() {
            self.model = line.model.some();
        }
        if let Some(words) = line.message {
            self.words(words, pieces)?;
        }
        let was_known = self.reported.is_known();
        take_input(&mut self.reported.input, line.prompt_eval_count.0);
        take(&mut self.reported.output, line.eval_count.0);
        let done = line.done == Some(true);
        if done {
            self.is_over = true;
            self.end_thought(pieces);
        }
        if self.reported.is_known() && (done || !was_known) {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
        if done {
            pieces.push_back(Piece::End(self.stop(line.done_reason.as_str())));
        }
        Ok(())
    }

    fn words(&mut self, words: Words<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if let Some(thought) = words.thinking.some() {
            self.is_thinking = true;
            pieces.push_back(Piece::Thinking(thought));
        }
        if let Some(text) = words.content.some() {
            self.end_thought(pieces);
            pieces.push_back(Piece::Text(text));
        }
        for ToolCall { id, function } in words.tool_calls.0 {
            self.end_thought(pieces);
            let (index, function) = (one_more(&mut self.calls)?, function.unwrap_or_default());
            let mut json = arguments(function.arguments);
            if json.is_empty() {
                json.push_str("{}");
            }
            pieces.push_back(Piece::Call { id: id.or_empty(), name: function.name.or_empty() });
            pieces.push_back(Piece::CallInput { index, json });
            pieces.push_back(Piece::CallEnd { index });
        }
        Ok(())
    }

    fn end_thought(&mut self, pieces: &mut VecDeque<Piece>) {
        if std::mem::take(&mut self.is_thinking) {
            pieces.push_back(Piece::ThinkingEnd { signature: None });
        }
    }

    fn stop(&self, reason: &str) -> ModelStop {
        match reason {
            "length" => ModelStop::MaxTokens,
            _ if self.calls > 0 => ModelStop::ToolUse,
            _ => ModelStop::EndTurn,
        }
    }
}

impl Decode for Ollama {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || self.has_failed || frame.data.trim().is_empty() {
            return Ok(());
        }
        let taken = self.take(&Json::new(frame.data), pieces);
        self.has_failed = taken.is_err();
        taken
    }

    fn finish(&mut self, _pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over { Ok(()) } else { Err(broke_off("Ollama")) }
    }

    fn usage(&self) -> Usage {
        self.reported.usage(self.is_over)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use andon_core::usage::{Figure, Provenance};

    use super::*;

    fn decode(lines: &[&str]) -> (Vec<Piece>, Ollama) {
        let mut decoder = Ollama::default();
        let mut pieces = VecDeque::new();
        for data in lines {
            decoder.frame(Frame { event: "", data }, &mut pieces).unwrap();
        }
        decoder.finish(&mut pieces).unwrap();
        (pieces.into(), decoder)
    }

    #[test]
    fn thoughts_words_and_whole_calls_become_pieces() {
        let (pieces, decoder) = decode(&[
            r#"{"model":"qwen3","message":{"role":"assistant","content":"","thinking":"Hm"},"done":false}"#,
            r#"{"model":"qwen3","message":{"role":"assistant","content":"Look"},"done":false}"#,
            r#"{"model":"qwen3","message":{"content":"","tool_calls":[{"function":{"name":"a","arguments":{"x":1}}},{"id":"7","function":{"name":"b"}}]},"done":false}"#,
            r#"{"model":"qwen3","message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":4}"#,
        ]);
        assert_eq!(
            pieces,
            [
                Piece::Thinking("Hm".into()),
                Piece::ThinkingEnd { signature: None },
                Piece::Text("Look".into()),
                Piece::Call { id: String::new(), name: "a".into() },
                Piece::CallInput { index: 0, json: r#"{"x":1}"#.into() },
                Piece::CallEnd { index: 0 },
                Piece::Call { id: "7".into(), name: "b".into() },
                Piece::CallInput { index: 1, json: "{}".into() },
                Piece::CallEnd { index: 1 },
                Piece::Usage(Box::new(Usage::reported(9, 4))),
                Piece::End(ModelStop::ToolUse),
            ]
        );
        assert_eq!(decoder.model(), Some("qwen3"));
    }

    #[test]
    fn an_input_that_is_not_counted_stays_unknown() {
        let (_, decoder) =
            decode(&[r#"{"message":{"content":"Hi"},"done":true,"done_reason":"length","eval_count":1}"#]);
        assert_eq!(decoder.usage().input, Figure::UNKNOWN);
        assert_eq!(decoder.usage().output, Figure::exact(1, Provenance::Reported));
    }

    #[test]
    fn an_error_in_a_line_is_told_and_a_stream_without_its_last_line_broke_off() {
        let mut decoder = Ollama::default();
        let error =
            decoder.frame(Frame { event: "", data: r#"{"error":"llama runner has died"}"# }, &mut VecDeque::new());
        assert!(error.unwrap_err().message.contains("llama runner has died"));
        assert!(Ollama::default().finish(&mut VecDeque::new()).is_err());
    }
}
