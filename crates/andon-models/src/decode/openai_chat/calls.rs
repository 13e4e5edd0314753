//! The calls of an answer, assembled from deltas that say more or less clearly which call they belong to.

use std::collections::{HashMap, VecDeque};

use andon_runtime::{ModelError, Piece};

use super::chunk::CallDelta;
use super::whole::Whole;
use crate::decode::event::one_more;
use crate::decode::loose::arguments;

#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<BegunCall>,
    /// The latest call with each of the server's indexes, and with each id.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    /// How many have begun, and how many of them were announced.
    begun: usize,
    announced: usize,
}

#[derive(Debug, Default)]
struct BegunCall {
    id: String,
    /// What came before it was announced.
    early: String,
    whole: Whole,
    /// Its index among the announced calls.
    announced: Option<usize>,
    ended: bool,
}

impl Calls {
    /// Whether no call was announced.
    pub(super) fn is_empty(&self) -> bool {
        self.announced == 0
    }

    /// Takes a part of a call.
    pub(super) fn take(&mut self, delta: CallDelta<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let (id, index) = (delta.id.or_empty(), delta.index.0);
        let function = delta.function.unwrap_or_default();
        let (name, json) = (function.name.or_empty(), arguments(function.arguments));
        let place = match self.find(index, &id, &name) {
            Some(place) => place,
            None => self.begin(pieces)?,
        };
        if let Some(index) = index {
            self.by_index.insert(index, place);
        }
        let Some(call) = self.calls.get_mut(place) else { return Ok(()) };
        if call.id.is_empty() && !id.is_empty() {
            self.by_id.insert(id.clone(), place);
            call.id = id;
        }
        if call.announced.is_none() && !name.is_empty() && !call.ended {
            call.announced = Some(self.announced);
            self.announced += 1;
            pieces.push_back(Piece::Call { id: call.id.clone(), name });
        }
        call.fill(json, pieces);
        Ok(())
    }

    /// The call that a delta belongs to; `None` if it begins a new one.
    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let known = self.by_id.get(id).copied();
        match index {
            None if !id.is_empty() => known,
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
            Some(_) if known.is_some() => known,
            Some(index) => self.by_index.get(&index).copied().filter(|place| self.goes_on(*place, id, name)),
        }
    }

    /// Whether this can be more of the call. Some servers give every call the index 0: a different id with a name means another
    /// call, and so does a name for a call that is complete.
    fn goes_on(&self, place: usize, id: &str, name: &str) -> bool {
        let Some(call) = self.calls.get(place) else { return false };
        let is_complete = call.announced.is_some() && call.whole.is_whole();
        name.is_empty() || ((id.is_empty() || call.id.is_empty()) && !is_complete)
    }

    /// Begins another call: those whose arguments are whole are over.
    fn begin(&mut self, pieces: &mut VecDeque<Piece>) -> Result<usize, ModelError> {
        let place = one_more(&mut self.begun)?;
        for call in self.calls.iter_mut().filter(|call| !call.ended && call.whole.is_whole()) {
            call.end(pieces);
        }
        self.calls.push(BegunCall::default());
        Ok(place)
    }

    /// The answer is over.
    pub(super) fn end(&mut self, pieces: &mut VecDeque<Piece>) {
        for call in self.calls.iter_mut().filter(|call| !call.ended) {
            call.end(pieces);
        }
    }
}

impl BegunCall {
    /// Takes more of its arguments. After its end they are ignored.
    fn fill(&mut self, json: String, pieces: &mut VecDeque<Piece>) {
        if self.ended {
            return;
        }
        self.whole.read(&json);
        let Some(index) = self.announced else { return self.early.push_str(&json) };
        let json = std::mem::take(&mut self.early) + &json;
        if !json.is_empty() {
            pieces.push_back(Piece::CallInput { index, json });
        }
    }

    fn end(&mut self, pieces: &mut VecDeque<Piece>) {
        // A call without a name may still get one.
        let Some(index) = self.announced else { return };
        self.ended = true;
        pieces.push_back(Piece::CallEnd { index });
    }
}
