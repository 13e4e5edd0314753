//! Feeds a stream to a decoder, and assembles what comes out.

pub(crate) use std::collections::VecDeque;

pub(crate) use andon_models::decode::{Decode, Frame};
pub(crate) use andon_runtime::core::message::{Part, Signature};
pub(crate) use andon_runtime::{ModelErrorKind, ModelStop, Piece, Provenance};
pub(crate) use andon_testkit::wire::{Provider, check_history};
pub(crate) use serde_json::{Value, json};

use std::sync::Arc;

use andon_models::settings::{Settings, Thinking};
use andon_models::sse::Sse;
use andon_runtime::core::answer::{AnswerEnd, CallHead, Kind, MarkKind, Span, assemble};
use andon_runtime::core::cancel::Reason;
use andon_runtime::core::id::CallId;
use andon_runtime::core::message::{Cut, Message, ResultStatus, Role, ToolResult};
use andon_runtime::core::prompt::prompt;
use andon_runtime::core::usage::{Figure, Usage};
use andon_runtime::{ModelError, ToolSpec};

/// One frame of a stream: its event and its data.
pub(crate) type Sent = (&'static str, Value);

/// What a decoder made of one frame.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) usage: Usage,
}

/// Feeds the frames one by one, and then the end.
pub(crate) fn play<D: Decode>(mut decoder: D, sent: &[Sent]) -> (Vec<Decoded>, Result<(), ModelError>, D) {
    let (mut said, mut pieces) = (Vec::new(), VecDeque::new());
    for (event, data) in sent {
        let result = decoder.frame(Frame { event, data: &data.to_string() }, &mut pieces);
        said.push(Decoded { pieces: pieces.drain(..).collect(), usage: decoder.usage() });
        if result.is_err() {
            return (said, result, decoder);
        }
    }
    let result = decoder.finish(&mut pieces);
    said.push(Decoded { pieces: pieces.drain(..).collect(), usage: decoder.usage() });
    (said, result, decoder)
}

/// All pieces of a stream that ends well.
pub(crate) fn pieces<D: Decode>(decoder: D, sent: &[Sent]) -> Vec<Piece> {
    let (said, result, _) = play(decoder, sent);
    result.unwrap();
    said.into_iter().flat_map(|said| said.pieces).collect()
}

/// The pieces without the figures.
pub(crate) fn words(pieces: &[Piece]) -> Vec<Piece> {
    pieces.iter().filter(|piece| !matches!(piece, Piece::Usage(_))).cloned().collect()
}

/// The stream as it is on the wire, in packets of one byte, gives the same pieces.
pub(crate) fn assert_the_same_byte_by_byte<D: Decode + Default>(sent: &[Sent]) {
    let mut wire = String::new();
    for (event, data) in sent {
        wire.push_str(&format!("event: {event}\r\ndata: {data}\r\n\r\n"));
    }
    let (mut sse, mut decoder, mut pieces) = (Sse::default(), D::default(), VecDeque::new());
    for byte in wire.into_bytes() {
        sse.push(&[byte]);
        while let Some(frame) = sse.frame().unwrap() {
            decoder.frame(frame, &mut pieces).unwrap();
        }
    }
    decoder.finish(&mut pieces).unwrap();
    assert_eq!(Vec::from(pieces), self::pieces(D::default(), sent));
}

/// What is stored of these pieces, as the runtime stores it.
pub(crate) fn parts(pieces: &[Piece]) -> Vec<Part> {
    let (mut span, mut heads, mut end) = (Span::new(0), Vec::<Arc<CallHead>>::new(), AnswerEnd::Cut);
    for piece in pieces {
        match piece {
            Piece::Text(text) => span.push(&Kind::Text, text),
            Piece::Thinking(text) => span.push(&Kind::Thinking, text),
            Piece::ThinkingEnd { signature } => span.mark(MarkKind::ThinkingEnded { signature: signature.clone() }),
            Piece::Call { id, name } => {
                let id =
                    CallId::new(id.clone()).unwrap_or_else(|_| CallId::new(format!("call-{}", heads.len())).unwrap());
                heads.push(Arc::new(CallHead { index: heads.len(), id, name: name.clone() }));
                span.mark(MarkKind::Begins(Kind::ToolInput(Arc::clone(heads.last().unwrap()))));
            }
            Piece::CallInput { index, json } => span.push(&Kind::ToolInput(Arc::clone(&heads[*index])), json),
            Piece::CallEnd { index } => span.mark(MarkKind::CallEnded { index: *index }),
            Piece::Usage(_) => {}
            Piece::End(stop) => end = AnswerEnd::Whole(*stop),
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }
    assemble([&span], end)
}

/// A history in which this was the answer, with a result for each call in it.
pub(crate) fn history(pieces: &[Piece]) -> Vec<Message> {
    let cut = match pieces.last() {
        Some(Piece::End(_)) => None,
        _ => Some(Cut::Cancelled(Reason::Requested)),
    };
    let answer = Message::new(Role::Assistant, parts(pieces)).cut(cut);
    let result = |id: &CallId| Part::ToolResult(ToolResult::text(id.clone(), ResultStatus::Ok, "Seen."));
    let results: Vec<Part> = answer.calls().map(|call| result(&call.id)).collect();
    let mut history = vec![Message::user("Look."), answer];
    if !results.is_empty() {
        history.push(Message::new(Role::Tool, results));
    }
    history
}

/// Cut after each frame, what was stored can go on with every provider.
pub(crate) fn assert_goes_on_wherever_it_is_cut<D: Decode>(decoder: D, sent: &[Sent]) {
    let (said, ..) = play(decoder, sent);
    for frames in 0..=said.len() {
        let pieces: Vec<Piece> = said.iter().take(frames).flat_map(|said| said.pieces.clone()).collect();
        let history = history(&pieces);
        assert_eq!(check_history(&history), Vec::<String>::new(), "cut after frame {frames}: {history:#?}");
    }
}

/// The body of the next request after this answer.
pub(crate) fn next_request(provider: Provider, pieces: &[Piece]) -> Value {
    let mut history = history(pieces);
    history.push(Message::user("Go on."));
    let tools = [Arc::new(ToolSpec::new("look", "Looks.", json!({"type": "object"})))];
    let settings = Settings::default().thinking(Thinking::Low);
    let prompt = prompt(&history);
    let body = provider.render(&provider.ask(&prompt, &tools, &settings));
    assert_eq!(provider.validate(&body), Ok(()));
    body
}

/// Whether the error says that it may pass.
pub(crate) fn is_retryable(error: &ModelError) -> bool {
    matches!(error.kind, andon_runtime::ModelErrorKind::Retryable { .. })
}

/// Figures as numbers: input, cache read, cache write, output, reasoning.
pub(crate) fn numbers(usage: Usage) -> [Option<u64>; 5] {
    [usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning].map(|figure: Figure| figure.value)
}

/// Why an answer ended that says one word.
pub(crate) fn stop_of<D: Decode>(decoder: D, sent: &[Sent]) -> Option<ModelStop> {
    match pieces(decoder, sent).last() {
        Some(Piece::End(stop)) => Some(*stop),
        _ => None,
    }
}
