//! The promises, checked on what is left of a run: its journal and its feed.

use std::collections::BTreeMap;
use std::sync::Arc;

use andon_runtime::core::answer::Kind;
use andon_runtime::core::cancel::Force;
use andon_runtime::core::event::{AddendumKind, Event, ModelEnd, Record, Seq, ToolEnd};
use andon_runtime::core::id::CallId;
use andon_runtime::core::message::{Message, Part};
use andon_runtime::core::progress::RunProgress;
use andon_runtime::core::receipt::Receipt;
use andon_runtime::core::standing::StandingFold;
use andon_runtime::{Feed, FeedItem, JournaledRun, Provenance, Run};

use crate::wire;

/// Waits until a run has settled and checks the promises on it; panics with every one that is broken.
///
/// `history` is what its session holds, and may be empty if there is none to compare.
///
/// # Panics
///
/// If anything was lost.
///
/// # Cancel safety
///
/// Cancel safe: it only waits.
pub async fn assert_nothing_lost(run: &Run, history: &[Arc<Message>]) {
    run.outcome().await;
    let mut feed = run.feed();
    let items = read_all(&mut feed).await;
    let mut broken = check_feed(&items);
    broken.extend(check_facts(&facts(&items)));
    broken.extend(wire::check_history(history));
    assert!(broken.is_empty(), "run {} broke its promises:\n{}", run.id(), broken.join("\n"));
}

/// Reads a feed to its end.
///
/// # Cancel safety
///
/// Not cancel safe: what was read is lost. Another feed of the run has it again.
pub async fn read_all(feed: &mut Feed) -> Vec<FeedItem> {
    let mut items = Vec::new();
    while let Some(item) = feed.next().await {
        items.push(item);
    }
    items
}

/// The facts of a feed.
pub(crate) fn facts(items: &[FeedItem]) -> Vec<Arc<Record>> {
    let facts = items.iter().filter_map(|item| match item {
        FeedItem::Fact(record) => Some(Arc::clone(record)),
        FeedItem::Delta(_) | FeedItem::TextLost { .. } => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    facts.collect()
}

/// P3, P6, P7: what a reader saw is what is stored; no gap, no repeat, nothing after the end; and each fact says where the run
/// stands after it.
pub fn check_feed(items: &[FeedItem]) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut seq, mut text, mut thinking) = (0, String::new(), String::new());
    let mut standing = StandingFold::default();
    for item in items {
        match item {
            FeedItem::TextLost { .. } => broken.push("P3: a live reader was told that text was lost".to_owned()),
            FeedItem::Delta(delta) => match delta.kind {
                Kind::Text => text.push_str(&delta.text),
                Kind::Thinking => thinking.push_str(&delta.text),
                Kind::ToolInput(_) | Kind::ToolOutput(_) => {}
                #[cfg(not(andon_whole))]
                _ => {}
            },
            FeedItem::Fact(record) => {
                if record.seq != seq + 1 {
                    broken.push(format!("P6: event {} was shown after {seq}", record.seq));
                }
                seq = record.seq;
                standing.take(&record.event);
                if record.standing != Some(standing.told()) {
                    let told = record.standing;
                    broken.push(format!(
                        "P7: after event {seq} the run stands at {:?}, the event says {told:?}",
                        standing.told()
                    ));
                }
                broken.extend(check_shown(&record.event, &mut text, &mut thinking));
            }
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }
    broken
}

/// Compares what was shown of an answer with what is stored of it.
fn check_shown(event: &Event, text: &mut String, thinking: &mut String) -> Option<String> {
    match event {
        Event::Message { message } => {
            let (shown, thought) = (std::mem::take(text), std::mem::take(thinking));
            let stored = (message.text(), thoughts(message));
            (stored != (shown.clone(), thought.clone())).then(|| {
                format!("P3: shown {shown:?} and thought {thought:?}, but stored {:?} and {:?}", stored.0, stored.1)
            })
        }
        Event::ModelFinished { .. } if !text.is_empty() || !thinking.is_empty() => {
            Some(format!("P3: {text:?} and thought {thinking:?} were shown and are not stored"))
        }
        _ => None,
    }
}

fn thoughts(message: &Message) -> String {
    let thoughts = message.parts.iter().filter_map(|part| match part {
        Part::Thinking { text, .. } => Some(text.as_str()),
        Part::Text { .. } | Part::Image(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    thoughts.collect()
}

/// Checks what a journal holds about a settled run.
pub fn check_stored(stored: &JournaledRun) -> Vec<String> {
    let records: Vec<Arc<Record>> = stored.facts().cloned().collect();
    let mut broken = check_facts(&records);
    broken.extend(check_settled(stored));
    match RunProgress::fold(&stored.entries) {
        Ok(progress) if progress.ending().is_none() => broken.push("P6: the run has no outcome".to_owned()),
        Ok(_) => {}
        Err(error) => broken.push(format!("P2: the journal does not fold: {error}")),
    }
    broken
}

/// P7: a run settled when its end was durable: not before its end was written, and not before it was quiet.
fn check_settled(stored: &JournaledRun) -> Option<String> {
    let (settled, end) = (stored.settled_at?, stored.end());
    if end.is_none_or(|end| end.at.mono_us > settled.mono_us) {
        let written = end.map(|end| end.at);
        return Some(format!("P7: settled at {settled:?}, and its end was written at {written:?}"));
    }
    check_receipt(&stored.receipt()?)
}

/// P4, P6: what was learned about cut calls. A call with something pending gets exactly one correction, and it comes after the
/// run's end.
pub fn check_last_words(stored: &JournaledRun) -> Vec<String> {
    let mut broken = Vec::new();
    let ended_at = stored.facts().next_back().map(|record| record.at.mono_us);
    let about = |learned: &AddendumKind| match learned {
        AddendumKind::UsageCorrected { call, .. } => Some(*call),
        AddendumKind::LateResult { .. }
        | AddendumKind::CompensationStarted { .. }
        | AddendumKind::CompensationFinished { .. }
        | AddendumKind::Undelivered { .. } => None,
        #[cfg(not(andon_whole))]
        _ => None,
    };
    for record in stored.facts() {
        let Event::Usage { call, pending, .. } = &record.event else { continue };
        let words = stored.addenda.iter().filter(|addendum| about(&addendum.what) == Some(*call)).count();
        if words != usize::from(pending.is_some()) {
            broken.push(format!("P4: model call {call} has pending {pending:?}, and {words} corrections"));
        }
    }
    for addendum in stored.addenda.iter().filter(|addendum| about(&addendum.what).is_some()) {
        if Some(addendum.at.mono_us) < ended_at {
            broken.push(format!("P6: addendum {} was made before the run's end", addendum.number));
        }
    }
    broken
}

/// P2, P4, P6, P7: the facts of a settled run.
pub fn check_facts(records: &[Arc<Record>]) -> Vec<String> {
    let mut broken = Vec::new();
    let ends = records.iter().filter(|record| matches!(record.event, Event::RunSettled { .. })).count();
    if ends != 1 {
        broken.push(format!("P6: {ends} terminal events"));
    }
    if !records.last().is_some_and(|record| matches!(record.event, Event::RunSettled { .. })) {
        broken.push("P6: the last event is not run_settled".to_owned());
    }
    broken.extend(check_balance(records));
    broken.extend(check_cut_marks(records));
    broken.extend(check_usage(records));
    match Receipt::fold(records, [], None) {
        None => broken.push("P7: there is no receipt".to_owned()),
        Some(receipt) => broken.extend(check_receipt(&receipt)),
    }
    broken
}

/// Everything begun is ended.
fn check_balance(records: &[Arc<Record>]) -> Vec<String> {
    let mut open: BTreeMap<String, i32> = BTreeMap::new();
    let mut count = |name: String, by: i32| *open.entry(name).or_default() += by;
    for record in records {
        match &record.event {
            Event::ModelStarted { call, .. } => {
                count(format!("model call {call}"), 1);
                count(format!("usage of model call {call}"), 1);
            }
            Event::ModelFinished { call, .. } => count(format!("model call {call}"), -1),
            Event::Usage { call, .. } => count(format!("usage of model call {call}"), -1),
            Event::HookStarted { point } => count(format!("hook {point:?}"), 1),
            Event::HookFinished { point, .. } => count(format!("hook {point:?}"), -1),
            Event::BackoffStarted { .. } => count("back-off".to_owned(), 1),
            Event::BackoffFinished => count("back-off".to_owned(), -1),
            Event::ToolStarted { call, .. } => count(format!("tool {call}"), 1),
            Event::ToolFinished { call, .. } => {
                count(format!("tool {call}"), -1);
                count(format!("result of {call}"), -1);
            }
            Event::ToolRefused { call, .. } => count(format!("result of {call}"), -1),
            Event::ApprovalRequested { call, .. } => count(format!("approval of {call}"), 1),
            Event::ApprovalResolved { call, .. } => count(format!("approval of {call}"), -1),
            Event::Message { message } => {
                for call in message.calls() {
                    count(format!("result of {}", call.id), 1);
                }
            }
            Event::RunAccepted { .. }
            | Event::RunStarted
            | Event::CallCancelRequested { .. }
            | Event::CancelRequested { .. }
            | Event::RunQuieted
            | Event::GraceEnded { .. }
            | Event::RunSettled { .. } => {}
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }
    let unbalanced = open.into_iter().filter(|(_, count)| *count != 0);
    unbalanced.map(|(name, count)| format!("P2: {name} is out of balance by {count}")).collect()
}

/// P2: an answer that was cut has no half call in it.
fn half_call(message: &Message) -> Option<String> {
    let mut calls = message.calls().filter(|_| message.cut.is_some());
    let half = calls.find(|call| call.input().is_err())?;
    Some(format!("P2: half a tool call is stored: {:?}", half.arguments))
}

/// P3: an answer that was cut says so.
fn check_cut_marks(records: &[Arc<Record>]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut answer: Option<&Arc<Message>> = None;
    for record in records {
        match &record.event {
            Event::ModelStarted { .. } => answer = None,
            Event::Message { message } => {
                broken.extend(half_call(message));
                answer = Some(message);
            }
            Event::ModelFinished { end, .. } => {
                let Some(message) = answer else { continue };
                let is_whole = matches!(end, ModelEnd::Answered { .. });
                if is_whole == message.cut.is_some() {
                    broken.push(format!("P3: an answer that ended as {end:?} has the mark {:?}", message.cut));
                }
            }
            _ => {}
        }
    }
    broken
}

/// P7: a tool that was dropped because its grace was over is named in `grace_ended`. Only for runs whose tools and requests
/// all give some grace.
pub(crate) fn check_grace(stored: &JournaledRun) -> Vec<String> {
    let requests = || {
        stored.facts().filter_map(|record| match &record.event {
            Event::CancelRequested { request, .. } | Event::CallCancelRequested { request, .. } => Some(request),
            _ => None,
        })
    };
    let owner = stored.facts().next().map(|record| record.epoch);
    if requests().next().is_none() || requests().any(|request| request.force == Force::Now) {
        return Vec::new();
    }
    let ended = stored.facts().filter_map(|record| match &record.event {
        Event::GraceEnded { calls } => Some(calls.iter()),
        _ => None,
    });
    let ended: Vec<&CallId> = ended.flatten().collect();
    let own = stored.facts().filter(|record| Some(record.epoch) == owner);
    let dropped = own.filter_map(|record| match &record.event {
        // A tool that stopped by itself adds its own content.
        Event::ToolFinished { call, end, result, .. } if result.content.len() == 1 => {
            matches!(end, ToolEnd::Cut | ToolEnd::Unknown).then_some(call)
        }
        _ => None,
    });
    let unnamed = dropped.filter(|call| !ended.contains(call));
    unnamed.map(|call| format!("P7: tool {call} was dropped, and no event says that its grace was over")).collect()
}

/// P7: the instants of a stop are there and in order.
fn check_receipt(receipt: &Receipt) -> Option<String> {
    let requested = receipt.requested_at?;
    let instants = [Some(requested), receipt.delivered_at, receipt.quiet_at, receipt.settled_at];
    let known: Vec<_> = instants.iter().flatten().collect();
    (!known.is_sorted()).then(|| format!("P7: the instants of the stop are out of order: {instants:?}"))
}

/// P4: a call that did not finish has no final figure.
fn check_usage(records: &[Arc<Record>]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut used = None;
    for record in records {
        match &record.event {
            Event::ModelStarted { .. } => used = None,
            Event::Usage { used: figures, .. } => used = Some(figures),
            Event::ModelFinished { call, end, first_piece_us: Some(_) } => {
                let is_whole = matches!(end, ModelEnd::Answered { .. });
                let is_final = used.is_some_and(|used| used.delivered.output.provenance == Provenance::Reported);
                if is_final && !is_whole {
                    broken.push(format!("P4: model call {call} was cut, and its figure claims to be final"));
                }
            }
            _ => {}
        }
    }
    broken
}

/// All streamed bytes by the event that they follow, for comparing two readings of one feed.
pub fn streamed(items: &[FeedItem]) -> BTreeMap<Seq, String> {
    let mut streamed: BTreeMap<Seq, String> = BTreeMap::new();
    for item in items {
        if let FeedItem::Delta(delta) = item {
            streamed.entry(delta.at.seq).or_default().push_str(&delta.text);
        }
    }
    streamed
}
