//! Plays a script once, with the director's interference, and judges the result.

use std::collections::{BTreeMap, HashSet};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use andon_runtime::core::cancel::{Force, Reason, ReplyKind};
use andon_runtime::core::event::{AddendumKind, Entry, Event, Record, Seq, ToolEnd};
use andon_runtime::core::id::CallId;
use andon_runtime::core::message::ResultStatus;
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::progress::RunProgress;
use andon_runtime::{
    Cancel, Cursor, Fate, FeedItem, JournaledRun, MemoryJournal, Recovered, Reply, RunId, Runtime, Session,
};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::Script;
use super::alone::left_alone;
use super::director::{Director, Plan, Pull, is_explorers};
use super::mode::Mode;
use super::panics::unplanned_panics;
use super::world::{ReaderLog, World};
use crate::check::{check_feed, check_grace, check_last_words, check_stored, read_all, streamed};
use crate::figures::ScriptedMeter;
use crate::journal::TestJournal;
use crate::model::{Act, ScriptedModel};
use crate::tools::Deed;
use crate::wire;

/// Longer than any script takes, in virtual time.
const AN_HOUR: Duration = Duration::from_secs(3600);
/// How long the driver waits for a tool to be dropped, plus a little.
const REAP: Duration = Duration::from_millis(102);
/// How many turns a task has to end after everything else has come to rest.
const TURNS: usize = 32;
/// How many characters of an event a story shows.
const LINE: usize = 200;
/// How much streamed text a crash may lose, by time.
const MAY_BE_LOST: Duration = Duration::from_millis(50);

/// The result of playing a script.
#[derive(Default)]
pub(super) struct Played {
    pub(super) trace: Vec<&'static str>,
    pub(super) endings: Vec<Option<Arc<Ending>>>,
    pub(super) violations: Vec<String>,
    /// Every event on record.
    pub(super) story: Vec<String>,
}

pub(super) fn play(script: &Script, plan: Plan) -> Played {
    let mode = plan.stop.map(|(_, mode)| mode);
    let (world, died_at, mut violations) = on_one_thread(perform(script, plan));
    violations.extend(world.director.take_violations());
    violations.extend(unplanned_panics().into_iter().map(|text| format!("P6: something panicked: {text}")));
    let mut played = if mode.is_some_and(Mode::is_crash) {
        on_one_thread(after_crash(script, &world, died_at))
    } else {
        on_one_thread(after_all(script, &world, mode))
    };
    played.trace = world.director.trace();
    world.director.let_go();
    played.violations.splice(0..0, violations);
    played
}

#[expect(clippy::expect_used, reason = "without a runtime there is nothing to explore")]
fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a current-thread runtime can be built").block_on(future)
}

/// Plays the script until it ends or the curtain falls, and lets what runs on come to rest.
async fn perform(script: &Script, plan: Plan) -> (World, Instant, Vec<String>) {
    let mode = plan.stop.map(|(_, mode)| mode);
    let world = World::new(Arc::new(Director::new(plan)), script);
    let mut violations = Vec::new();
    {
        let play = caught((script.play)(world.clone()));
        tokio::select! {
            biased;
            () = world.director.curtain.notified() => {}
            ended = timeout(AN_HOUR, play) => match ended {
                Ok(true) => {}
                Ok(false) => violations.push(format!("the script panicked: {}", unplanned_panics().join("; "))),
                Err(_) => violations.push("P1: the script did not finish".to_owned()),
            },
        }
    }
    let died_at = Instant::now();
    if !mode.is_some_and(Mode::is_crash) {
        violations.extend(come_to_rest(&world, mode).await);
        violations.extend(world.director.strays.at_rest());
    }
    if mode.is_some_and(Mode::fills_the_disk) {
        // The disk may have been filled after everything was over.
        world.director.make_room();
    }
    (world, died_at, violations)
}

/// Plays to the end, or to a panic. Returns whether it was the end.
async fn caught(mut play: Pin<Box<dyn Future<Output = ()>>>) -> bool {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| play.as_mut().poll(cx))) {
        Ok(poll) => poll.map(|()| true),
        Err(_) => Poll::Ready(false),
    })
    .await
}

/// Waits until nothing runs, and whatever was told to abort is gone. A run that nobody is left to approve waits forever, so the runtime stops it.
async fn come_to_rest(world: &World, mode: Option<Mode>) -> Option<String> {
    if timeout(AN_HOUR, world.runtime.idle()).await.is_ok() {
        // A task that was aborted ends when it is its turn. No time passes meanwhile.
        for _ in 0..TURNS {
            yield_now().await;
        }
        return None;
    }
    if mode == Some(Mode::DropHandles) && world.runtime.shutdown(AN_HOUR).await.is_ok() {
        return None;
    }
    Some(format!("P12: {} tasks never ended", world.runtime.tasks()))
}

async fn after_all(script: &Script, world: &World, mode: Option<Mode>) -> Played {
    let mut played = Played::default();
    let broken = &mut played.violations;
    let journal = world.journal.durable();
    world.director.off();
    broken.extend(check_fence(world, mode));
    world.director.renew_lease();
    let open = world.director.model_calls.open();
    if open > 0 {
        broken.push(format!("P5: {open} answers were never closed"));
    }
    let running = world.tools.running().max(world.watched.running());
    if running > 0 {
        broken.push(format!("P12: {running} tools are still running"));
    }
    if world.tools.processes() > 0 {
        broken.push(format!("P5: {} processes are still alive", world.tools.processes()));
    }
    broken.extend(mode.and_then(|mode| check_gate(world, &journal, mode)));
    let taken = world.director.taken();
    for (number, run) in journal.run_ids().iter().enumerate() {
        let stored = journal.stored(run).unwrap_or_default();
        broken.extend(check_stored(&stored).into_iter().map(|text| format!("{run}: {text}")));
        broken.extend(check_grace(&stored).into_iter().map(|text| format!("{run}: {text}")));
        if !taken.contains(run) {
            // Whoever drove it before may have learned more than its heir expects.
            broken.extend(check_last_words(&stored).into_iter().map(|text| format!("{run}: {text}")));
        }
        // A full disk cannot store the instant, which is then reported as unknown.
        if !mode.is_some_and(Mode::fills_the_disk) {
            if stored.end().is_some() && stored.settled_at.is_none() {
                broken.push(format!("P7: {run}: when it settled is not on record"));
            }
            broken.extend(check_time(script, &stored).map(|text| format!("{run}: {text}")));
        }
        let ending = ending(&stored);
        let pull = world.director.pull().filter(|pull| pull.reply.run_id() == run);
        let expected = world.director.plan().expected.get(number).cloned().flatten();
        if !taken.contains(run) {
            broken.extend(check_ending(mode, pull.as_ref(), ending.as_deref(), expected.as_deref()));
        }
        if let Some(pull) = pull {
            broken.extend(check_recorded(&pull.reply).await);
            broken.extend(check_requests(world, &pull, &stored));
        }
        played.endings.push(ending);
    }
    let excused = |run: &RunId, record: &Record| world.is_earlier(run, record) || taken.contains(run);
    broken.extend(world.witness.check(&journal, excused));
    broken.extend(world.witness.check_addenda(&journal, &taken));
    broken.extend(check_readers(script, world, &journal).await);
    if taken.is_empty() {
        broken.extend(check_tools(world, &journal, mode));
    } else {
        broken.extend(check_no_rerun(world));
        broken.extend(check_taken(world, &journal));
    }
    broken.extend(world.checks.run(&journal, false).await);
    broken.extend(go_on(world, &world.runtime).await);
    played.story = story(&journal);
    played
}

/// P1: after a pull that cuts has returned, no piece, no tool, no model call; after `after_turn` no model call.
fn check_gate(world: &World, journal: &MemoryJournal, mode: Mode) -> Option<String> {
    let pull = world.director.pull()?;
    if pull.reply.too_late().is_some() {
        return None;
    }
    let run = pull.reply.run_id();
    let now = (world.director.passed(run)?, world.director.model_calls.calls(), world.tools.started());
    let then = (pull.passed, pull.model_calls, pull.tools_started);
    // What another run does is none of this pull's business.
    let one_run_only = world.director.runs() == 1 && journal.run_ids().len() == 1;
    let same = match mode {
        Mode::AfterTurn => now.0.models == then.0.models,
        mode if mode.cuts() && one_run_only => now == then,
        mode if mode.cuts() => now.0 == then.0,
        _ => true,
    };
    (!same).then(|| format!("P1: passed when the pull returned {then:?}, in the end {now:?}"))
}

/// P1: behind the fence no piece, no tool, no model call.
fn check_fence(world: &World, mode: Option<Mode>) -> Option<String> {
    let (then, now) = world.director.at_the_fence()?;
    let taken = world.director.taken();
    // The others go on once the lease is held again.
    let is_same = if mode == Some(Mode::TakenOver) { then.of(&taken) == now.of(&taken) } else { then == now };
    (!is_same).then(|| format!("P1: passed when the lease was over {then:?}, in the end {now:?}"))
}

/// P1: how soon a run settles depends on nothing that it was waiting for.
fn check_time(script: &Script, stored: &JournaledRun) -> Option<String> {
    let receipt = stored.receipt()?;
    if !receipt.requests.first()?.force.cuts() {
        // It let the turn finish, and a turn takes as long as it takes.
        return None;
    }
    let took = Duration::from_micros(receipt.took.settled_us?);
    let allowed = script.settles_within + Duration::from_millis(2);
    if took > allowed {
        return Some(format!("P1: settled {took:?} after the request, {allowed:?} were allowed"));
    }
    let hardest = receipt.requests.iter().find(|request| request.force == Force::Now)?;
    let took = Duration::from_micros(receipt.settled_at?.0.saturating_sub(hardest.requested_at.wall.0));
    let allowed = REAP + script.disk.unwrap_or_default() * 6;
    (took > allowed).then(|| format!("P1: settled {took:?} after `now`, {allowed:?} were allowed"))
}

/// P6: the run ended as the mode and the reply say.
fn check_ending(
    mode: Option<Mode>,
    pull: Option<&Pull>,
    ending: Option<&Ending>,
    expected: Option<&Ending>,
) -> Option<String> {
    let ending = ending?;
    let right = match (mode, pull.map(|pull| pull.reply.kind())) {
        (Some(mode), Some(ReplyKind::Accepted)) if mode.cuts() || mode == Mode::PullThenPanic => {
            *ending == Ending::Cancelled { reason: Reason::Requested }
        }
        (Some(Mode::AfterTurn), Some(ReplyKind::Accepted)) => {
            // The turn that it let finish may have been the last, or may have failed.
            *ending == Ending::Cancelled { reason: Reason::Requested } || Some(ending) == expected
        }
        (_, Some(ReplyKind::TooLate { outcome })) => *ending == **outcome,
        (Some(Mode::LeaseOver | Mode::TakenOver), _)
            if *ending == (Ending::Cancelled { reason: Reason::OwnerLost }) =>
        {
            true
        }
        // Nobody is left to stop it or to approve: it ends by itself, or the explorer shuts it down.
        (Some(Mode::DropHandles), None) => {
            let by_itself = matches!(ending, Ending::Completed { .. } | Ending::Cancelled { reason: Reason::Shutdown });
            Some(ending) == expected || by_itself
        }
        // Only what an earlier process left can be lost.
        (Some(Mode::PanicDriver | Mode::PanicTool | Mode::PanicHook | Mode::DiskFull | Mode::LeaseOver), _) => {
            !matches!(ending, Ending::Lost) || Some(ending) == expected
        }
        (_, _) => true,
    };
    (!right)
        .then(|| format!("P6: the reply was {:?}, and the run ended {ending:?}", pull.map(|pull| pull.reply.kind())))
}

/// P7: every explorer's request that was said to have changed something is on record, and no other.
fn check_requests(world: &World, pull: &Pull, stored: &JournaledRun) -> Option<String> {
    let harder = world.director.harder();
    let replies = std::iter::once(&pull.reply).chain(harder.as_ref());
    let said = replies.filter(|reply| matches!(reply.kind(), ReplyKind::Accepted | ReplyKind::Hardened)).count();
    let on_record = stored.facts().filter(|record| is_explorers(&record.event)).count();
    (said != on_record).then(|| format!("P7: {said} requests were said to be accepted, {on_record} are on record"))
}

/// P10: a request that was accepted is on record in the end.
async fn check_recorded(reply: &Reply) -> Option<String> {
    match timeout(AN_HOUR, reply.recorded()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("P10: the request was never recorded: {error}")),
        Err(_) => Some("P10: it is unknown whether the request was recorded".to_owned()),
    }
}

fn ending(stored: &JournaledRun) -> Option<Arc<Ending>> {
    RunProgress::fold(&stored.entries).ok().and_then(|progress| progress.ending().cloned())
}

/// P3: what readers saw live is what the journal shows, and what is stored.
async fn check_readers(script: &Script, world: &World, journal: &MemoryJournal) -> Vec<String> {
    let mut broken = Vec::new();
    for run in journal.run_ids() {
        let Ok(Some(mut feed)) = world.runtime.feed(&run, Cursor::default()).await else {
            broken.push(format!("{run}: P3: its feed cannot be read"));
            continue;
        };
        let Ok(told) = timeout(AN_HOUR, read_all(&mut feed)).await else {
            broken.push(format!("{run}: P6: its feed never ends"));
            continue;
        };
        broken.extend(check_feed(&told).into_iter().map(|text| format!("{run}: {text}")));
        let seen = world.seen.lock().iter().find(|seen| &*seen.run == run.as_str()).cloned();
        if let (true, Some(at)) = (world.director.taken().contains(&run), world.director.taken_at()) {
            broken.extend(compare_taken(script, world, seen, at).await);
            continue;
        }
        broken.extend(seen.and_then(|seen| compare(&seen, &told)).map(|text| format!("{run}: {text}")));
    }
    broken
}

/// What a reader saw of a run that was taken over is kept as after a crash at that moment.
async fn compare_taken(script: &Script, world: &World, seen: Option<ReaderLog>, at: Instant) -> Option<String> {
    let seen = seen?;
    let before = seen.items.iter().map(|(shown, _)| *shown).filter(|shown| *shown <= at);
    let up_to = if script.disk.is_some() { before.max().unwrap_or(at) } else { at };
    compare_after_crash(&world.runtime, &seen, up_to).await
}

/// P10: whoever has a handle on a run that was taken over is told the end that is on record.
fn check_taken(world: &World, journal: &MemoryJournal) -> Vec<String> {
    let (taken, told) = (world.director.taken(), world.director.endings());
    let wrong = told.into_iter().filter(|(run, _)| taken.contains(run)).filter_map(|(run, told)| {
        let on_record = ending(&journal.stored(&run).unwrap_or_default());
        (told != on_record).then(|| format!("P10: {run}: a handle says {told:?}, on record is {on_record:?}"))
    });
    wrong.collect()
}

/// A reader that read to the end has seen exactly what the journal shows; one that left early has seen the beginning of it.
fn compare(seen: &ReaderLog, told: &[FeedItem]) -> Option<String> {
    let seen: Vec<FeedItem> = seen.items.iter().map(|(_, item)| item.clone()).collect();
    let (facts_seen, facts_told) = (facts(&seen), facts(told));
    if !facts_told.starts_with(&facts_seen) {
        return Some(format!("P3: a reader saw {} events that differ from the journal", facts_seen.len()));
    }
    let told = streamed(told);
    let differs = streamed(&seen).into_iter().find(|(after, text)| {
        let stored = told.get(after).map_or("", String::as_str);
        !stored.starts_with(text.as_str())
    });
    differs
        .map(|(after, text)| format!("P3: after event {after} a reader saw {text:?}, stored is {:?}", told.get(&after)))
}

fn facts(items: &[FeedItem]) -> Vec<&FeedItem> {
    items.iter().filter(|item| matches!(item, FeedItem::Fact(_))).collect()
}

/// P3, P10: what tools really did is what the journal says.
fn check_tools(world: &World, journal: &MemoryJournal, mode: Option<Mode>) -> Vec<String> {
    let mut broken = Vec::new();
    let stored: Vec<JournaledRun> = journal.run_ids().iter().filter_map(|run| journal.stored(run)).collect();
    for deed in world.tools.deeds().into_iter().chain(world.watched.deeds()) {
        match deed {
            Deed::Started { call, on_record: false } => {
                broken.push(format!("P10: tool {call} was started before it was on record"));
            }
            Deed::Returned { call, text } => {
                let mut kept = stored.iter().flat_map(JournaledRun::facts).filter_map(|record| match &record.event {
                    Event::ToolFinished { call: id, result, .. } if *id == call => Some(result.to_text()),
                    _ => None,
                });
                let is_late = |learned: &AddendumKind| matches!(learned, AddendumKind::LateResult { call: late, .. } if *late == call);
                let late = stored.iter().flat_map(|run| &run.addenda).any(|addendum| is_late(&addendum.what));
                if !late && !kept.any(|kept| kept.contains(&text)) {
                    broken.push(format!("P3: tool {call} returned {text:?}, and its result does not say so"));
                }
            }
            // What a process that died had left elsewhere is on record as `unknown`.
            Deed::LeftElsewhere(call) if mode.is_none_or(|mode| !mode.is_crash()) => {
                if !stored.iter().any(|run| is_named_as_leaked(run, &call)) {
                    broken.push(format!("P5: {call} was not seen to end, and no receipt names it"));
                }
            }
            Deed::Started { .. }
            | Deed::LeftElsewhere(_)
            | Deed::Shown { .. }
            | Deed::Gone(_)
            | Deed::Spawned(_)
            | Deed::Died(_) => {}
        }
    }
    for run in &stored {
        broken.extend(finished(run, ToolEnd::Detached).filter_map(|call| check_detached(run, call)));
        // A driver that is gone does not show what its tools say.
        if mode.is_none_or(|mode| !mode.is_drivers_panic() && !mode.fills_the_disk()) {
            broken.extend(finished(run, ToolEnd::Finished).filter_map(|call| check_output(world, run, call)));
        }
    }
    broken
}

/// Whether a run's receipt says that this call is leaked.
fn is_named_as_leaked(run: &JournaledRun, call: &CallId) -> bool {
    let receipt = run.receipt();
    let name = format!("({call})");
    receipt.is_some_and(|receipt| receipt.leaked.iter().any(|leak| leak.contains(&name)))
}

/// The calls of a run that ended in this way.
fn finished(run: &JournaledRun, how: ToolEnd) -> impl Iterator<Item = &CallId> {
    run.facts().filter_map(move |record| match &record.event {
        Event::ToolFinished { call, end, .. } if *end == how => Some(call),
        _ => None,
    })
}

/// P5, P7: a tool that outlives its run comes to its own end, and that is on record.
fn check_detached(run: &JournaledRun, call: &CallId) -> Option<String> {
    let ends = run.addenda.iter().filter_map(|addendum| match &addendum.what {
        AddendumKind::LateResult { call: late, result, .. } if late == call => Some(result.status),
        _ => None,
    });
    let ends: Vec<ResultStatus> = ends.collect();
    // It panics where the explorer says so.
    let is_own = matches!(ends[..], [ResultStatus::Ok | ResultStatus::Error]);
    (!is_own).then(|| format!("P5: tool {call} should outlive its run, and its own end is {ends:?}"))
}

/// P3: all that a tool has shown of its work before it finished is stored.
fn check_output(world: &World, run: &JournaledRun, call: &CallId) -> Option<String> {
    let said = world.tools.deeds().into_iter().filter_map(|deed| match deed {
        Deed::Shown { call: of, text } if of == *call => Some(text),
        _ => None,
    });
    let said: String = said.collect();
    let lumps = run.entries.iter().filter_map(|entry| match entry {
        Entry::Lump(lump) => Some(lump.span.text.as_str()),
        Entry::Fact(_) => None,
    });
    let stored: String = lumps.collect();
    let lost = said.lines().find(|line| !stored.contains(*line))?;
    Some(format!("P3: tool {call} has shown {lost:?}, and it is not stored"))
}

/// P2, P8: the session takes the next prompt at once, and every provider would accept it.
async fn go_on(world: &World, runtime: &Runtime) -> Vec<String> {
    let mut broken = Vec::new();
    let answer = || vec![Act::text("Going on."), Act::usage(1, 2), Act::end()];
    let model = ScriptedModel::new(std::iter::repeat_with(answer).take(world.agents()));
    for session in world.next_sessions(runtime, &model) {
        broken.extend(goes_on(&session).await);
    }
    broken
}

async fn goes_on(session: &Session) -> Vec<String> {
    let mut broken = Vec::new();
    match session.history().await {
        Ok(history) => broken.extend(wire::check_history(&history)),
        Err(error) => broken.push(format!("P2: the history cannot be read: {error}")),
    }
    match timeout(AN_HOUR, session.run("Go on.")).await {
        Ok(Ok(outcome)) if outcome.stop_reason() == "end_turn" => {}
        Ok(Ok(outcome)) => broken.push(format!("P8: the next prompt ended {:?}", outcome.ending)),
        Ok(Err(error)) => broken.push(format!("P8: the next prompt was refused: {error}")),
        Err(_) => broken.push("P8: the next prompt never ended".to_owned()),
    }
    broken
}

/// P10: a new process recovers the journal of the dead one.
async fn after_crash(script: &Script, world: &World, died_at: Instant) -> Played {
    let mut played = Played::default();
    let broken = &mut played.violations;
    let journal = TestJournal::new(world.journal.durable(), None);
    let next = world.next_runtime(&journal, script);
    let mut requests = requested(&journal.durable());
    requests.extend(left_alone(&journal.durable()).await);
    let died_with = last_facts(&journal.durable());
    let going_on = vec![Act::text("Going on."), Act::usage(1, 2), Act::end()];
    // At every second point the agent that a waiting run needs is missing.
    let is_parked = world.director.plan().stop.is_some_and(|(point, _)| point % 2 == 1);
    let model = ScriptedModel::new(vec![going_on; requests.len() + journal.durable().run_ids().len()])
        .metered(&Arc::new(ScriptedMeter::unprepared()));
    let sessions = (!is_parked).then(|| world.next_sessions(&next, &model));
    let recovered = match next.recover().await {
        Ok(recovered) => recovered,
        Err(error) => {
            broken.push(format!("P10: recovery failed: {error}"));
            return played;
        }
    };
    let told = world.director.pull().filter(|_| world.director.said_recorded());
    for Recovered { run, fate, .. } in &recovered {
        let is_cancelled = fate.ending().is_some_and(|ending| ending.is_cancelled());
        if told.as_ref().is_some_and(|pull| pull.reply.run_id() == run) && !is_cancelled {
            broken.push(format!("P10: a cancel was acknowledged, and the run was recovered as {fate:?}"));
        }
        let was_requested = requests.contains(run);
        if was_requested != is_cancelled {
            broken.push(format!("P10: {run} was recovered as {fate:?}, requested: {was_requested}"));
        }
        let is_parked = is_parked || !world.has_agent_of(&journal.durable(), run);
        broken.extend(live_on(&next, run, fate, is_parked).await);
    }
    if timeout(AN_HOUR, next.idle()).await.is_err() {
        broken.push(format!("P12: {} tasks never ended after the recovery", next.tasks()));
    }
    drop(sessions);
    let durable = journal.durable();
    let estimates = |recovered| check_estimates(world, &durable, recovered, is_parked);
    broken.extend(recovered.iter().flat_map(estimates));
    // Nobody saw what became durable last.
    let left = |run: &RunId, record: &Record| died_with.get(run).is_some_and(|&last| record.seq <= last);
    broken.extend(world.witness.check(&durable, left));
    for run in durable.run_ids() {
        let stored = durable.stored(&run).unwrap_or_default();
        broken.extend(check_stored(&stored).into_iter().map(|text| format!("{run}: {text}")));
    }
    let readers = world.seen.lock().clone();
    for seen in &readers {
        // On a slow disk showing waits, so whatever is lost was shown within that time, whenever the process dies.
        let last_shown = seen.items.last().map_or(died_at, |(at, _)| *at);
        let up_to = if script.disk.is_some() { last_shown } else { died_at };
        broken.extend(compare_after_crash(&next, seen, up_to).await);
    }
    if !recovered.is_empty() && world.tools.started() > 0 {
        // Recovery starts nothing: the tools' own log would show it.
        broken.extend(check_no_rerun(world));
    }
    broken.extend(world.checks.run(&durable, true).await);
    broken.extend(go_on(world, &next).await);
    played.story = story(&durable);
    played
}

/// P4: what a call used that was open is estimated, once, if its agent is there.
fn check_estimates(world: &World, journal: &MemoryJournal, recovered: &Recovered, is_parked: bool) -> Option<String> {
    let run = &recovered.run;
    let stored = journal.stored(run).filter(|_| recovered.fate.ending().is_some())?;
    let epoch = stored.facts().next_back()?.epoch;
    let closed = stored.facts().filter(|record| record.epoch == epoch).find_map(|record| match record.event {
        Event::Usage { call, pending, .. } => Some((call, pending)),
        _ => None,
    });
    let (call, pending) = closed?;
    let corrected = |what: &AddendumKind| matches!(what, AddendumKind::UsageCorrected { call: of, .. } if *of == call);
    let words = stored.addenda.iter().filter(|addendum| corrected(&addendum.what)).count();
    let expected = usize::from(!is_parked && world.has_agent_of(journal, run));
    let is_right = (usize::from(pending.is_some()), words) == (expected, expected);
    (!is_right)
        .then(|| format!("P4: {run}: call {call} has pending {pending:?} after the crash, and {words} estimates"))
}

/// P10: a run that was waiting lives on with the agent of its name; without one it can be cancelled.
async fn live_on(runtime: &Runtime, run: &RunId, fate: &Fate, is_parked: bool) -> Option<String> {
    match fate {
        Fate::Settled { .. } => return None,
        Fate::Unreadable { why } => return Some(format!("P10: {run} cannot be read: {why}")),
        Fate::LivesOn { .. } | Fate::Parked { .. } if matches!(fate, Fate::Parked { .. }) != is_parked => {
            return Some(format!("P10: {run} was recovered as {fate:?}, and its agent was there: {}", !is_parked));
        }
        Fate::Parked { .. } => {
            let reply = runtime.cancel(run, Cancel::graceful()).await;
            if !reply.as_ref().is_ok_and(Reply::is_stopping) {
                return Some(format!("P10: the parked {run} cannot be cancelled: {reply:?}"));
            }
        }
        Fate::LivesOn { .. } => {}
        #[cfg(not(andon_whole))]
        _ => {}
    }
    let Ok(Some(found)) = runtime.find(run).await else { return Some(format!("P10: {run} cannot be found")) };
    match timeout(AN_HOUR, found.outcome()).await {
        Ok(outcome) if *outcome.ending == Ending::Lost => Some(format!("P10: {run} was waiting, and was lost")),
        Ok(_) => None,
        Err(_) => Some(format!("P10: {run} lives on and never ends")),
    }
}

/// What is on record, a line for each event.
fn story(journal: &MemoryJournal) -> Vec<String> {
    let told = |run: &RunId| {
        let stored = journal.stored(run).unwrap_or_default();
        let line = |record: &Record| {
            let event = serde_json::to_string(&record.event).unwrap_or_default();
            let event: String = event.chars().take(LINE).collect();
            format!("{run} {}: {event}", record.seq)
        };
        stored.facts().map(|record| line(record)).collect::<Vec<_>>()
    };
    journal.run_ids().iter().flat_map(told).collect()
}

/// The last fact of each run.
fn last_facts(journal: &MemoryJournal) -> BTreeMap<RunId, Seq> {
    let last = |run: &RunId| journal.stored(run).and_then(|stored| stored.facts().next_back().map(|record| record.seq));
    journal.run_ids().into_iter().map(|run| (run.clone(), last(&run).unwrap_or_default())).collect()
}

fn requested(journal: &MemoryJournal) -> Vec<RunId> {
    let is_request = |record: &Arc<Record>| matches!(record.event, Event::CancelRequested { .. });
    let runs = journal.run_ids().into_iter();
    runs.filter(|run| journal.stored(run).is_some_and(|stored| stored.facts().any(is_request))).collect()
}

/// Everything that a reader had seen is there, except for what streamed in the last 50 ms before this instant.
async fn compare_after_crash(runtime: &Runtime, seen: &ReaderLog, up_to: Instant) -> Option<String> {
    let run = RunId::new(&seen.run).ok()?;
    let Ok(Some(mut feed)) = runtime.feed(&run, Cursor::default()).await else {
        return Some(format!("P10: run {run} was seen and is gone"));
    };
    let told = read_all(&mut feed).await;
    let old = seen.items.iter().filter(|(at, item)| match item {
        FeedItem::Fact(_) => true,
        FeedItem::Delta(_) | FeedItem::TextLost { .. } => *at + MAY_BE_LOST <= up_to,
        #[cfg(not(andon_whole))]
        _ => true,
    });
    let kept = ReaderLog { run: Arc::clone(&seen.run), items: old.cloned().collect() };
    compare(&kept, &told).map(|text| format!("{run}: after the crash: {text}"))
}

/// A tool runs at most once.
fn check_no_rerun(world: &World) -> Option<String> {
    let mut started = world.tools.deeds().into_iter().filter_map(|deed| match deed {
        Deed::Started { call, .. } => Some(call),
        _ => None,
    });
    let mut seen = HashSet::new();
    let is_twice = started.any(|call| !seen.insert(call));
    is_twice.then(|| "P10: a tool ran twice for one call".to_owned())
}
