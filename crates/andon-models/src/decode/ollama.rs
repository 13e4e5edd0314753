//! Ollama's chat: one JSON object a line; the last says `"done": true` and has the counts.
//!
//! Calls come whole. There is no cache that is billed, and thinking is counted as output without being told apart.

use std::collections::VecDeque;

use andon::{ModelError, ModelStop, Piece};
use andon_core::usage::Usage;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::event::{broke_off, read};
use super::seen::{Seen, take};
use super::{Decode, Frame};
use crate::refusal::Said;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct Ollama {
    calls: usize,
    is_thinking: bool,
    has_thought: bool,
    seen: Seen,
    model: Option<String>,
    is_over: bool,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    message: Option<Words>,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: Option<u64>,
    #[serde(default)]
    eval_count: Option<u64>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Words {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Ollama {
    fn words(&mut self, words: Words, pieces: &mut VecDeque<Piece>) {
        if let Some(thought) = words.thinking.filter(|thought| !thought.is_empty()) {
            (self.is_thinking, self.has_thought) = (true, true);
            pieces.push_back(Piece::Thinking(thought));
        }
        if let Some(text) = words.content.filter(|text| !text.is_empty()) {
            self.end_thought(pieces);
            pieces.push_back(Piece::Text(text));
        }
        for Call { id, function } in words.tool_calls.unwrap_or_default() {
            self.end_thought(pieces);
            let index = self.calls;
            self.calls += 1;
            pieces.push_back(Piece::Call { id: id.unwrap_or_default(), name: function.name });
            pieces.push_back(Piece::CallInput { index, json: Value::Object(function.arguments).to_string() });
            pieces.push_back(Piece::CallEnd { index });
        }
    }

    fn end_thought(&mut self, pieces: &mut VecDeque<Piece>) {
        if std::mem::take(&mut self.is_thinking) {
            pieces.push_back(Piece::ThinkingEnd { signature: None });
        }
    }

    /// What the counts say. Without a thought in it no output was thinking; with one, nobody says how much.
    fn count(&mut self, line: &Line) {
        take(&mut self.seen.input, line.prompt_eval_count);
        take(&mut self.seen.output, line.eval_count);
        if self.seen.input.is_some() {
            (self.seen.cache_read, self.seen.cache_write) = (Some(0), Some(0));
        }
        self.seen.reasoning = self.seen.output.filter(|_| !self.has_thought).map(|_| 0);
    }

    fn stop(&self, reason: Option<&str>) -> ModelStop {
        match reason {
            Some("length") => ModelStop::MaxTokens,
            _ if self.calls > 0 => ModelStop::ToolUse,
            _ => ModelStop::EndTurn,
        }
    }
}

impl Decode for Ollama {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || frame.data.trim().is_empty() {
            return Ok(());
        }
        let mut line: Line = read(frame.data)?;
        if let Some(error) = line.error.filter(|error| !error.is_null()) {
            let said = Said::read(&serde_json::json!({ "error": error }));
            return Err(said.unwrap_or_default().in_stream());
        }
        line.error = None;
        if self.model.is_none() {
            self.model = line.model.take().filter(|model| !model.is_empty());
        }
        if let Some(words) = line.message.take() {
            self.words(words, pieces);
        }
        let before = self.seen;
        self.count(&line);
        if line.done {
            self.is_over = true;
            self.end_thought(pieces);
        }
        if self.seen != Seen::default() && (line.done || before == Seen::default()) {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
        if line.done {
            pieces.push_back(Piece::End(self.stop(line.done_reason.as_deref())));
        }
        Ok(())
    }

    fn finish(&mut self, _pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over { Ok(()) } else { Err(broke_off("Ollama")) }
    }

    fn usage(&self) -> Usage {
        self.seen.usage(self.is_over)
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
        let usage = Usage { reasoning: Figure::UNKNOWN, ..Usage::reported(9, 4) };
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
                Piece::Usage(Box::new(usage)),
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
