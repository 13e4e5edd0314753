//! The calls of an answer, put together from deltas that say more or less exactly which call they belong to.

use std::collections::VecDeque;

use andon::Piece;
use serde::de::IgnoredAny;

use super::chunk::CallDelta;

#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// How many were told of.
    told: usize,
}

#[derive(Debug, Default)]
struct Call {
    /// The server's number for it.
    index: Option<u64>,
    id: String,
    arguments: String,
    /// Its place among those that were told of.
    told: Option<usize>,
    ended: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.told == 0
    }

    /// Takes a part of a call.
    pub(super) fn take(&mut self, delta: CallDelta, pieces: &mut VecDeque<Piece>) {
        let id = delta.id.unwrap_or_default();
        let (name, arguments) = match delta.function {
            Some(function) => (function.name.unwrap_or_default(), function.arguments.unwrap_or_default().0),
            None => Default::default(),
        };
        let place = match self.find(delta.index, &id, &name) {
            Some(place) => place,
            None => {
                self.end_whole_ones(pieces);
                self.calls.push(Call { index: delta.index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(place) else { return };
        if call.id.is_empty() {
            call.id = id;
        }
        call.arguments.push_str(&arguments);
        match call.told {
            Some(index) if !arguments.is_empty() => pieces.push_back(Piece::CallInput { index, json: arguments }),
            None if !name.is_empty() => {
                let index = self.told;
                call.told = Some(index);
                self.told += 1;
                pieces.push_back(Piece::Call { id: call.id.clone(), name });
                if !call.arguments.is_empty() {
                    pieces.push_back(Piece::CallInput { index, json: call.arguments.clone() });
                }
            }
            Some(_) | None => {}
        }
    }

    /// Which call is meant. `None`: a new one.
    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        // Some servers give every call the number 0: another id with a name is another call.
        let fits = |call: &Call| id.is_empty() || call.id.is_empty() || call.id == id || name.is_empty();
        match index {
            Some(index) => self.calls.iter().rposition(|call| call.index == Some(index) && fits(call)),
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    /// Another call begins: those whose arguments are JSON already are whole.
    fn end_whole_ones(&mut self, pieces: &mut VecDeque<Piece>) {
        let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
        for call in self.calls.iter_mut().filter(|call| !call.ended && is_json(&call.arguments)) {
            call.end(pieces);
        }
    }

    /// The answer is over.
    pub(super) fn end(&mut self, pieces: &mut VecDeque<Piece>) {
        for call in self.calls.iter_mut().filter(|call| !call.ended) {
            call.end(pieces);
        }
    }
}

impl Call {
    fn end(&mut self, pieces: &mut VecDeque<Piece>) {
        self.ended = true;
        if let Some(index) = self.told {
            pieces.push_back(Piece::CallEnd { index });
        }
    }
}
