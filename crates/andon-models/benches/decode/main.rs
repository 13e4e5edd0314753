//! How fast streams are decoded. `cargo xtask bench models` prints the table.

#![expect(clippy::expect_used, reason = "a benchmark that cannot decode has nothing to measure")]

use std::collections::VecDeque;
use std::hint::black_box;

use andon_models::decode::anthropic::Anthropic;
use andon_models::decode::gemini::Gemini;
use andon_models::decode::ollama::Ollama;
use andon_models::decode::openai_chat::OpenAiChat;
use andon_models::decode::openai_responses::OpenAiResponses;
use andon_models::decode::{Decode, Frame};
use andon_models::lines::Lines;
use andon_models::sse::Sse;
use andon_testkit::bench::{Goal, Line, Scene, median, now, table};
use andon_testkit::provider::{Dialect, Reply};

/// The allocator that the program uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Most packets of a busy stream have about this size.
const PACKET: usize = 16 * 1024;

const ROUNDS: usize = 15;

const SCENES: [Scene; 7] = [
    Scene { name: "sse", measure: sse },
    Scene { name: "lines", measure: lines },
    Scene { name: "openai chat", measure: || whole::<OpenAiChat>(Dialect::OpenAiChat, CHAT) },
    Scene { name: "openai responses", measure: || whole::<OpenAiResponses>(Dialect::OpenAiResponses, RESPONSES) },
    Scene { name: "anthropic", measure: || whole::<Anthropic>(Dialect::Anthropic, ANTHROPIC) },
    Scene { name: "gemini", measure: || whole::<Gemini>(Dialect::Gemini, GEMINI) },
    Scene { name: "ollama", measure: || whole::<Ollama>(Dialect::Ollama, OLLAMA) },
];

/// The names of a decoder's two figures.
type Names = [&'static str; 2];

const CHAT: Names = ["OpenAI Chat, bytes to pieces", "OpenAI Chat, a frame"];
const RESPONSES: Names = ["OpenAI Responses, bytes to pieces", "OpenAI Responses, a frame"];
const ANTHROPIC: Names = ["Anthropic, bytes to pieces", "Anthropic, a frame"];
const GEMINI: Names = ["Gemini, bytes to pieces", "Gemini, a frame"];
const OLLAMA: Names = ["Ollama, bytes to pieces", "Ollama, a frame"];

fn main() {
    table(&SCENES);
}

/// A long answer in one provider's format.
fn stream(dialect: Dialect) -> Vec<u8> {
    let words = (0..20_000).map(|number| format!("word {number} "));
    dialect.body(&Reply::text(words)).to_vec()
}

/// Decodes a stream in packets of this size, and returns the number of frames.
fn sse_frames(bytes: &[u8], packet: usize, mut take: impl FnMut(Frame<'_>)) -> usize {
    let (mut sse, mut frames) = (Sse::default(), 0);
    for packet in bytes.chunks(packet) {
        sse.push(packet);
        while let Some(frame) = sse.frame().expect("frames are short") {
            take(frame);
            frames += 1;
        }
    }
    frames
}

fn line_frames(bytes: &[u8], packet: usize, mut take: impl FnMut(Frame<'_>)) -> usize {
    let (mut lines, mut frames) = (Lines::default(), 0);
    for packet in bytes.chunks(packet) {
        lines.push(packet);
        while let Some(frame) = lines.frame().expect("lines are short") {
            take(frame);
            frames += 1;
        }
    }
    frames
}

/// MB per second, and µs per frame.
fn measure(bytes: &[u8], mut decode: impl FnMut(&[u8]) -> usize) -> [f64; 2] {
    let mut frames = 0;
    let seconds = median(ROUNDS, || {
        let begun = now();
        frames = decode(bytes);
        begun.elapsed().as_secs_f64()
    });
    [bytes.len() as f64 / 1e6 / seconds, seconds * 1e6 / frames.max(1) as f64]
}

fn bytes_line(what: &'static str, reached: f64, goal: Goal) -> Line {
    Line { what, reached, unit: "MB/s", goal }
}

fn frame_line(what: &'static str, reached: f64) -> Line {
    Line { what, reached, unit: "us", goal: Goal::AtMost(2.0) }
}

fn look(frame: Frame<'_>) {
    black_box(frame);
}

fn sse() -> Vec<Line> {
    let bytes = stream(Dialect::OpenAiChat);
    let [speed, frame] = measure(&bytes, |bytes| sse_frames(bytes, PACKET, look));
    let [small, small_frame] = measure(&bytes, |bytes| sse_frames(bytes, 256, look));
    vec![
        bytes_line("server-sent events alone, packets of 16 KiB", speed, Goal::AtLeast(300.0)),
        frame_line("server-sent events alone, a frame", frame),
        bytes_line("server-sent events alone, packets of 256 bytes", small, Goal::AtLeast(300.0)),
        frame_line("server-sent events alone, a frame in small packets", small_frame),
    ]
}

fn lines() -> Vec<Line> {
    let [speed, frame] = measure(&stream(Dialect::Ollama), |bytes| line_frames(bytes, PACKET, look));
    vec![bytes_line("lines alone", speed, Goal::AtLeast(300.0)), frame_line("lines alone, a frame", frame)]
}

/// From bytes to pieces.
fn whole<D: Decode + Default>(dialect: Dialect, [speed_name, frame_name]: Names) -> Vec<Line> {
    let [speed, frame] = measure(&stream(dialect), |bytes| {
        let (mut decoder, mut pieces) = (D::default(), VecDeque::new());
        let take = |frame: Frame<'_>| {
            decoder.frame(frame, &mut pieces).expect("the stream is whole");
            pieces.drain(..).for_each(|piece| drop(black_box(piece)));
        };
        if dialect == Dialect::Ollama { line_frames(bytes, PACKET, take) } else { sse_frames(bytes, PACKET, take) }
    });
    vec![bytes_line(speed_name, speed, Goal::None), frame_line(frame_name, frame)]
}
