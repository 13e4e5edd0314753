//! Where a live run stands: one byte that anybody may read without the run's lock.
//!
//! So counts and lists of many runs need no fold and delay no run. It is written under the run's lock, together with
//! the facts that it reflects, and agrees with [`StandingFold`](andon_core::standing::StandingFold).

use andon_core::progress::{Phase, RunState};

use crate::lanes::sync::{AtomicU8, Ordering};

/// Where a live run stands.
#[derive(Debug)]
pub(crate) struct StateByte(AtomicU8);

/// The journal does not accept its end, or did not before the run was given up.
const STALLED: u8 = 0x80;
/// Unknown here: its events must be folded.
const UNKNOWN: u8 = 0x7f;
const SETTLED: u8 = 0x7e;

const STATES: [RunState; 4] = [RunState::Queued, RunState::Running, RunState::Waiting, RunState::Cancelling];
const PHASES: [Phase; 7] =
    [Phase::Queued, Phase::Hook, Phase::Model, Phase::Backoff, Phase::Tools, Phase::Waiting, Phase::Between];

fn place<T: PartialEq>(all: &[T], one: &T) -> Option<u8> {
    u8::try_from(all.iter().position(|other| other == one)?).ok()
}

impl StateByte {
    pub(crate) fn queued() -> Self {
        Self(AtomicU8::new(0))
    }

    pub(crate) fn unknown() -> Self {
        Self(AtomicU8::new(UNKNOWN))
    }

    /// Sets what the durable events say. Ignores `Settled`, which is set only when the run is closed.
    pub(crate) fn set(&self, state: RunState, phase: Phase) {
        if let (Some(state), Some(phase)) = (place(&STATES, &state), place(&PHASES, &phase)) {
            self.0.store(state << 4 | phase, Ordering::Release);
        }
    }

    /// It has settled.
    pub(crate) fn settle(&self) {
        self.0.store(SETTLED, Ordering::Release);
    }

    /// The journal does not accept its end.
    pub(crate) fn stall(&self) {
        self.0.fetch_or(STALLED, Ordering::AcqRel);
    }

    /// Its state and, while it has not settled, its phase; `None` if its events must be folded.
    pub(crate) fn get(&self) -> Option<(RunState, Option<Phase>)> {
        match self.0.load(Ordering::Acquire) & !STALLED {
            UNKNOWN => None,
            SETTLED => Some((RunState::Settled, None)),
            byte => {
                let state = STATES.get(usize::from(byte >> 4)).copied()?;
                Some((state, PHASES.get(usize::from(byte & 0xf)).copied()))
            }
        }
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.0.load(Ordering::Acquire) & STALLED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read_until_the_run_has_settled() {
        let byte = StateByte::queued();
        assert_eq!(byte.get(), Some((RunState::Queued, Some(Phase::Queued))));
        for state in STATES {
            for phase in PHASES {
                byte.set(state, phase);
                assert_eq!((byte.get(), byte.is_stalled()), (Some((state, Some(phase))), false));
            }
        }
        byte.set(RunState::Settled, Phase::Between);
        assert_eq!(byte.get(), Some((RunState::Cancelling, Some(Phase::Between))), "it is not closed yet");
        byte.stall();
        assert_eq!((byte.get(), byte.is_stalled()), (Some((RunState::Cancelling, Some(Phase::Between))), true));
        byte.settle();
        assert_eq!((byte.get(), byte.is_stalled()), (Some((RunState::Settled, None)), false));
        assert_eq!(StateByte::unknown().get(), None);
    }
}
