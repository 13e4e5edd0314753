//! Tickets, which browsers use instead of a key where they cannot send a header: for feeds and WebSockets.
//!
//! # Invariants
//!
//! 1. A ticket works once, for a feed or a WebSocket, and only for a short time. The connection it opens lasts no
//!    longer than the key or token of whoever asked for it.
//! 2. The number of tickets is limited, for each principal and in total. Expired tickets make room for new ones.

use std::collections::HashMap;
use std::time::Duration;

use andon_runtime::core::time::Wall;
use parking_lot::Mutex;

use crate::access::principal::Principal;
use crate::access::secret::{Secret, Trace, random_word};
use crate::http::problem::Problem;

/// How long a ticket is valid.
pub(crate) const LIFE: Duration = Duration::from_secs(30);

const MOST: usize = 50_000;
const MOST_OF_ONE: usize = 1_000;

struct Ticket {
    principal: Principal,
    until: Wall,
}

/// All tickets that have not been used yet.
#[derive(Default)]
pub(crate) struct Tickets {
    waiting: Mutex<HashMap<Trace, Ticket>>,
}

impl Tickets {
    /// Issues a ticket to this principal.
    pub(crate) fn issue(&self, principal: &Principal, now: Wall) -> Result<Secret, Problem> {
        let word =
            random_word().map_err(|none| Problem::unavailable("no-random", format!("{none}: try again later")))?;
        let life = u64::try_from(LIFE.as_micros()).unwrap_or(u64::MAX);
        let ticket = Ticket { principal: principal.clone(), until: Wall(now.0.saturating_add(life)) };
        let mut waiting = self.waiting.lock();
        let whose = principal.who();
        let of_one = |waiting: &HashMap<Trace, Ticket>| {
            waiting.values().filter(|ticket| ticket.principal.who() == whose).count() >= MOST_OF_ONE
        };
        // There are usually few, so they are counted only when there are many.
        if waiting.len() >= MOST_OF_ONE {
            waiting.retain(|_, ticket| now < ticket.until);
            if waiting.len() >= MOST || of_one(&waiting) {
                return Err(Problem::too_many("too-many-tickets", "too many tickets are unused: use some of them"));
            }
        }
        waiting.insert(Trace::of(&word), ticket);
        Ok(Secret::new(word))
    }

    /// Who asked for this ticket, if it is still valid. The ticket is used up (invariant 1).
    pub(crate) fn redeem(&self, word: &str, now: Wall) -> Option<Principal> {
        let Ticket { principal, until } = self.waiting.lock().remove(&Trace::of(word))?;
        (now < until && principal.pass.is_valid(now)).then_some(principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::principal::Pass;

    #[test]
    fn a_ticket_works_once_and_not_for_long() {
        let tickets = Tickets::default();
        let issue = || tickets.issue(&Principal::local(), Wall(0)).unwrap();
        let ticket = issue();
        assert!(tickets.redeem("another", Wall(1)).is_none());
        assert!(tickets.redeem(ticket.show(), Wall(1)).is_some());
        assert!(tickets.redeem(ticket.show(), Wall(1)).is_none());
        assert!(tickets.redeem(issue().show(), Wall(29_999_999)).is_some());
        assert!(tickets.redeem(issue().show(), Wall(30_000_000)).is_none());
        let ended = Principal { pass: Pass::Until(Wall(5)), ..Principal::local() };
        let ticket = tickets.issue(&ended, Wall(0)).unwrap();
        assert!(tickets.redeem(ticket.show(), Wall(5)).is_none(), "it outlives who asked for it");
    }

    #[test]
    fn the_tickets_of_one_principal_are_limited_and_keep_none_from_others() {
        let tickets = Tickets::default();
        let of = |name: &str, now| {
            let principal = Principal { name: name.into(), ..Principal::local() };
            tickets.issue(&principal, Wall(now)).is_ok()
        };
        assert!((0..MOST_OF_ONE).all(|_| of("ada", 0)));
        assert!(!of("ada", 1) && of("bob", 1));
        assert!(of("ada", 30_000_000), "those that are too old make room");
    }
}
