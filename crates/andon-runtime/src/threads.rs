//! Races between threads, which the explorer cannot see: shuttle checks the cord, the registry and finish against pull
//! in many orders. The program `andon-threads` runs them, and `cargo xtask test` runs it; `ANDON_SHUTTLE` sets the number of orders.
//! They are not unit tests, because cargo would build everything that unit tests need with shuttle's locks.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "these are tests, though cargo does not know it")]

use std::sync::Arc;

use andon_core::answer::Kind;
use andon_core::cancel::{Reason, ReplyKind};
use andon_core::digest::Digest;
use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::outcome::{Ending, ModelStop, Outcome};
use andon_core::progress::RunState;
use andon_core::receipt::Receipt;
use andon_core::usage::Used;
use shuttle::thread;

use crate::driver::RuntimeCore;
use crate::live::cord::Cancel;
use crate::live::{Decided, Live, News, Offer, PersonsAnswer, StopRules};
use crate::runtime::Runtime;
use crate::session::registry::AgentId;
use crate::session::{Seat, SessionCore, WhenBusy};

/// Every check, with its name.
pub const ALL: [(&str, fn()); 8] = [
    ("after_a_pull_has_returned_nothing_passes_the_gate", after_a_pull_has_returned_nothing_passes_the_gate),
    (
        "a_run_is_completed_or_cancelled_and_the_reply_says_which",
        a_run_is_completed_or_cancelled_and_the_reply_says_which,
    ),
    ("of_many_pulls_one_is_accepted_and_force_only_rises", of_many_pulls_one_is_accepted_and_force_only_rises),
    (
        "a_run_that_starts_while_its_agent_is_cancelled_is_found_or_takes_the_arm",
        a_run_that_starts_while_its_agent_is_cancelled_is_found_or_takes_the_arm,
    ),
    (
        "a_queued_run_is_seated_whenever_the_run_before_it_leaves",
        a_queued_run_is_seated_whenever_the_run_before_it_leaves,
    ),
    ("an_approval_is_accepted_before_the_pull_or_refused", an_approval_is_accepted_before_the_pull_or_refused),
    ("nobody_is_asked_once_a_pull_has_returned", nobody_is_asked_once_a_pull_has_returned),
    (
        "a_run_is_found_until_its_end_is_visible_and_not_after_that",
        a_run_is_found_until_its_end_is_visible_and_not_after_that,
    ),
];

/// Tries many orders, half of them at random and half by priorities, which find rarer ones.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let orders = std::env::var("ANDON_SHUTTLE").ok().and_then(|orders| orders.parse().ok()).unwrap_or(2_000);
    let test = Arc::new(test);
    let again = Arc::clone(&test);
    shuttle::check_random(move || test(), orders / 2);
    shuttle::check_pct(move || again(), orders / 2, 3);
}

fn key() -> Arc<SessionKey> {
    Arc::new(SessionKey::new("a", "u", "s").unwrap())
}

fn runtime() -> Arc<RuntimeCore> {
    Runtime::builder().one_lane().seed(1).build().core
}

fn live_in(runtime: &Arc<RuntimeCore>, id: &str) -> Arc<Live> {
    Arc::new(Live::new(RunId::new(id).unwrap(), key(), Arc::clone(&runtime.services), 1))
}

fn live() -> Arc<Live> {
    live_in(&runtime(), "r")
}

fn pull(live: &Live, cancel: Cancel) -> ReplyKind {
    live.pull(cancel.at(live.now())).0
}

fn completed() -> Arc<Ending> {
    Arc::new(Ending::Completed { stop: ModelStop::EndTurn })
}

fn after_a_pull_has_returned_nothing_passes_the_gate() {
    check(|| {
        let live = live();
        let ticket = live.open_ticket(None, StopRules::of_hook(std::time::Duration::ZERO));
        let worker = {
            let live = Arc::clone(&live);
            thread::spawn(move || {
                live.may_call_model();
                while live.offer(&Kind::Text, "piece") != Offer::Refused {
                    thread::yield_now();
                }
                live.may_start_tool(ticket);
                live.may_call_model();
            })
        };
        assert_eq!(pull(&live, Cancel::graceful()), ReplyKind::Accepted);
        let when_it_returned = live.passed();
        worker.join().unwrap();
        assert_eq!(live.passed(), when_it_returned);
    });
}

fn a_run_is_completed_or_cancelled_and_the_reply_says_which() {
    check(|| {
        let live = live();
        let driver = {
            let live = Arc::clone(&live);
            thread::spawn(move || live.seal(&completed()).is_ok())
        };
        let reply = pull(&live, Cancel::now());
        let sealed = driver.join().unwrap();
        let expected = if sealed { ReplyKind::TooLate { outcome: completed() } } else { ReplyKind::Accepted };
        assert_eq!(reply, expected);
        let cancelled = Arc::new(Ending::Cancelled { reason: Reason::Requested });
        assert!(sealed || live.seal(&cancelled).is_ok(), "a pulled run can be sealed as cancelled");
    });
}

fn of_many_pulls_one_is_accepted_and_force_only_rises() {
    check(|| {
        let live = live();
        let cancels = [Cancel::after_turn(), Cancel::graceful(), Cancel::now(), Cancel::graceful()];
        let callers = cancels.map(|cancel| {
            let live = Arc::clone(&live);
            thread::spawn(move || pull(&live, cancel))
        });
        let replies = callers.map(|caller| caller.join().unwrap());
        assert_eq!(replies.iter().filter(|reply| **reply == ReplyKind::Accepted).count(), 1);
        let pulled = live.take_news().iter().filter(|news| matches!(news, News::Pulled(_))).count();
        let hardened = replies.iter().filter(|reply| **reply == ReplyKind::Hardened).count();
        assert_eq!(pulled, 1 + hardened, "each request that changed something reaches the driver");
        assert_eq!(live.force(), Some(andon_core::cancel::Force::Now));
    });
}

fn a_run_that_starts_while_its_agent_is_cancelled_is_found_or_takes_the_arm() {
    check(|| {
        let runtime = runtime();
        let live = live_in(&runtime, "r");
        let caller = {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || {
                let found = runtime.registry.of_agent_or_arm(AgentId(1), &Cancel::graceful());
                for live in found {
                    pull(&live, Cancel::graceful());
                }
            })
        };
        runtime.registry.add(AgentId(1), &live).expect("the id is free");
        if let Some(cancel) = runtime.registry.make_findable(&live.id) {
            pull(&live, cancel);
        }
        caller.join().unwrap();
        let armed = runtime.registry.take_arm(AgentId(1)).is_some();
        assert!(live.force().is_some() && !armed, "the cancel has hit this run, and only this one");
    });
}

fn a_queued_run_is_seated_whenever_the_run_before_it_leaves() {
    check(|| {
        let runtime = runtime();
        let session = Arc::new(SessionCore::new(key()));
        let (first, second) = (live_in(&runtime, "1"), live_in(&runtime, "2"));
        assert_eq!(session.enter(&first, WhenBusy::Reject).unwrap(), Seat::Taken);
        let driver = {
            let (session, first) = (Arc::clone(&session), Arc::clone(&first));
            thread::spawn(move || {
                pull(&first, Cancel::graceful());
                session.leave(&first, &[]);
            })
        };
        let seat = session.enter(&second, WhenBusy::Queue).unwrap();
        driver.join().unwrap();
        let told = second.take_news().iter().any(|news| matches!(news, News::Seated));
        assert_eq!((seat == Seat::Taken) as u8 + u8::from(told), 1, "{seat:?}, told {told}");
    });
}

fn approved(call: CallId) -> Decided {
    Decided { call, answer: PersonsAnswer::Yes { to: None }, by: None, note: None }
}

fn an_approval_is_accepted_before_the_pull_or_refused() {
    check(|| {
        let live = live();
        let call = CallId::new("c").unwrap();
        live.open_calls(vec![(call.clone(), Digest::of(b"{}"))], Vec::new());
        let person = {
            let (live, call) = (Arc::clone(&live), call.clone());
            thread::spawn(move || live.decide(&[approved(call)]).is_ok())
        };
        pull(&live, Cancel::graceful());
        let taken = person.join().unwrap();
        let order: Vec<&str> = live
            .take_news()
            .iter()
            .filter_map(|news| match news {
                News::Pulled(_) => Some("pulled"),
                News::Decided(..) => Some("approved"),
                _ => None,
            })
            .collect();
        assert_eq!(order, if taken { vec!["approved", "pulled"] } else { vec!["pulled"] });
    });
}

fn nobody_is_asked_once_a_pull_has_returned() {
    check(|| {
        let live = live();
        let call = CallId::new("c").unwrap();
        live.open_calls(Vec::new(), vec![call.clone()]);
        let driver = {
            let live = Arc::clone(&live);
            thread::spawn(move || live.ask(&call, Digest::of(b"{}")))
        };
        pull(&live, Cancel::graceful());
        let when_it_returned = live.awaits_approval();
        assert_eq!(driver.join().unwrap(), when_it_returned);
        assert_eq!(live.awaits_approval(), when_it_returned);
    });
}

fn a_run_is_found_until_its_end_is_visible_and_not_after_that() {
    check(|| {
        let runtime = runtime();
        let session = Arc::new(SessionCore::new(key()));
        let live = live_in(&runtime, "r");
        runtime.registry.add(AgentId(1), &live).expect("the id is free");
        runtime.registry.make_findable(&live.id);
        assert_eq!(session.enter(&live, WhenBusy::Reject).unwrap(), Seat::Taken);
        live.seal(&completed()).unwrap();
        let driver = {
            let (runtime, live) = (Arc::clone(&runtime), Arc::clone(&live));
            let receipt = Receipt::unknown(&live.id, &live.session);
            let outcome = Arc::new(Outcome::new(completed(), None, Used::NONE, receipt));
            thread::spawn(move || runtime.conclude(&live, &session, &[], || live.close(Vec::new(), outcome)))
        };
        let was_over = live.outcome().is_some();
        let found = runtime.registry.of_agent_or_arm(AgentId(1), &Cancel::graceful());
        let is_over = live.outcome().is_some() && live.state_byte.get() == Some((RunState::Settled, None));
        assert!(found.len() == 1 || is_over, "it is armed, and the run was not over");
        assert!(found.is_empty() || !was_over, "it is found, and was over");
        driver.join().unwrap();
    });
}
