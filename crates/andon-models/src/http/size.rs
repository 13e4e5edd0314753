//! How long an answer may be.
//!
//! Two limits, because on the wire a few letters arrive per frame, often wrapped in a hundred times as many bytes of names and
//! figures: one for the content, and a larger one for all that arrives.

use andon_runtime::{ModelError, Piece};

const MIB: usize = 1024 * 1024;

/// How many bytes of text and arguments an answer may have.
const MAX_SAID: usize = 64 * MIB;

/// How many bytes may arrive for it.
const MAX_WIRE: usize = 512 * MIB;

/// How long an answer is so far.
#[derive(Debug, Default)]
pub(crate) struct Size {
    wire: usize,
    said: usize,
}

impl Size {
    /// Counts bytes that arrived.
    pub(crate) fn arrived(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.wire = self.wire.saturating_add(bytes);
        within(self.wire, MAX_WIRE, "what was sent for the answer")
    }

    /// Counts pieces that were read from them.
    pub(crate) fn read<'a>(&mut self, pieces: impl Iterator<Item = &'a Piece>) -> Result<(), ModelError> {
        self.said = pieces.map(of).fold(self.said, usize::saturating_add);
        within(self.said, MAX_SAID, "the answer")
    }

    /// How many bytes have arrived.
    pub(crate) fn wire(&self) -> usize {
        self.wire
    }
}

fn within(size: usize, most: usize, what: &str) -> Result<(), ModelError> {
    if size <= most {
        return Ok(());
    }
    Err(ModelError::fatal(format!("{what} is longer than {} MiB, the maximum", most / MIB)))
}

/// How many bytes of text, arguments, names and signatures a piece has.
pub(crate) fn of(piece: &Piece) -> usize {
    match piece {
        Piece::Text(text) | Piece::Thinking(text) | Piece::CallInput { json: text, .. } => text.len(),
        Piece::ThinkingEnd { signature } => signature.as_ref().map_or(0, |signature| signature.value.len()),
        Piece::Call { id, name } => id.len() + name.len(),
        Piece::CallEnd { .. } | Piece::Usage(_) | Piece::End(_) => 0,
        #[cfg(not(andon_whole))]
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_and_what_is_sent_have_limits_of_their_own() {
        let mut size = Size::default();
        for _ in 0..512 {
            size.arrived(MIB).unwrap();
        }
        assert!(size.arrived(1).unwrap_err().message.contains("512 MiB"));
        let text = || Piece::Text("x".repeat(16 * MIB));
        let input = || Piece::CallInput { index: 0, json: "x".repeat(16 * MIB) };
        size.read([text(), input(), text()].iter()).unwrap();
        size.read([input()].iter()).unwrap();
        let error = size.read([Piece::Thinking("x".into())].iter()).unwrap_err();
        assert!(error.message.contains("64 MiB"), "{error}");
    }
}
