//! What a session has said, and which runs are open.

use std::sync::Arc;

use andon_runtime::LastReported;
use andon_runtime::core::event::{Event, HookChange, HookEnd, HookPoint};
use andon_runtime::core::message::Message;
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::usage::Usage;

use super::story::{Story, session};
use super::subject::Subject;

/// A session with runs in every state, accepted in one order and started in another. Returns what its history must be.
async fn runs_in_every_state(subject: &Subject) -> Vec<String> {
    let mut runs = ["late", "early", "queued", "open", "never"].map(Story::new);
    for story in &mut runs {
        story.tell(subject, |run| [run.accepted()]).await;
    }
    let [late, early, _queued, open, never] = &mut runs;
    for story in [early, open, late] {
        story.tell(subject, |run| [run.started()]).await;
        if story.run().as_str() == "open" {
            continue;
        }
        let mut entries = vec![story.model_started()];
        entries.push(story.streamed(&andon_runtime::Kind::Text, &format!("{} is fine", story.run())));
        entries.extend(story.answered(andon_runtime::ModelStop::EndTurn));
        entries.push(story.settled());
        story.write(subject, entries).await;
    }
    let ending = Ending::Cancelled { reason: andon_runtime::Reason::Requested };
    never.tell(subject, |run| [run.ended(ending)]).await;
    Story::within("other", &session("another")).whole_in(subject, "elsewhere").await;
    let said = ["What about early?", "early is fine", "What about late?", "late is fine"];
    said.map(str::to_owned).to_vec()
}

pub(super) async fn history_is_what_settled_runs_said_in_the_order_in_which_they_started(subject: Subject) {
    let said = runs_in_every_state(&subject).await;
    assert_eq!(subject.texts(&session("s")).await, said);
    let nowhere = subject.journal().history(&session("nowhere")).await;
    assert_eq!(nowhere, Ok(vec![]), "an unknown session has said nothing");
}

pub(super) async fn history_keeps_its_order_when_the_journal_is_opened_again(subject: Subject) {
    let mut said = runs_in_every_state(&subject).await;
    let subject = subject.opened_again();
    assert_eq!(subject.texts(&session("s")).await, said);
    Story::new("next").whole_in(&subject, "next is fine").await;
    said.extend(["What about next?", "next is fine"].map(str::to_owned));
    assert_eq!(subject.texts(&session("s")).await, said, "a run that started later comes later");
}

pub(super) async fn the_last_reported_call_is_found_behind_those_that_were_not_reported(subject: Subject) {
    let last = async |subject: &Subject, id| subject.journal().last_reported(&session(id)).await.unwrap();
    assert_eq!(last(&subject, "s").await, None, "there is no such session");
    let mut cut = Story::new("cut");
    cut.tell(&subject, Story::begun).await;
    cut.tell(&subject, |run| [vec![run.model_started()], run.cut("half")].concat()).await;
    cut.settle(&subject).await;
    assert_eq!(last(&subject, "s").await, None, "nothing was reported");

    Story::new("first").whole_in(&subject, "first is fine").await;
    let mut second = Story::new("second");
    second.tell(&subject, Story::begun).await;
    second.tell(&subject, |run| [vec![run.model_started()], run.cut("half")].concat()).await;
    second.tell(&subject, |run| [vec![run.model_started()], run.cut("again")].concat()).await;
    second.settle(&subject).await;
    Story::within("other", &session("another")).whole_in(&subject, "elsewhere").await;
    let mut open = Story::new("open");
    open.tell(&subject, Story::begun).await;
    open.tell(&subject, |run| [vec![run.model_started()], run.answered(andon_runtime::ModelStop::EndTurn)].concat())
        .await;
    let expected =
        |answers_since| LastReported::new(Usage::reported(3, 5), "told".into(), Some("story-1".into()), answers_since);
    assert_eq!(last(&subject, "s").await, Some(expected(2)), "two answers were cut since");
    open.settle(&subject).await;
    assert_eq!(last(&subject, "s").await, Some(expected(0)));
    let subject = subject.opened_again();
    assert_eq!(last(&subject, "s").await, Some(expected(0)));

    let mut replaced = Story::new("replaced");
    replaced.tell(&subject, Story::begun).await;
    replaced
        .tell(&subject, |run| [vec![run.model_started()], run.answered(andon_runtime::ModelStop::EndTurn)].concat())
        .await;
    let answer = Arc::new(Message::assistant("Something else."));
    replaced
        .tell(&subject, |run| {
            let (point, change) = (HookPoint::AfterModel, HookChange::Answer { answer, is_withdrawn: false });
            let started = run.fact(Event::HookStarted { point });
            let change = Some(Box::new(change));
            [started, run.fact(Event::HookFinished { point, end: HookEnd::Changed, change, why: None })]
        })
        .await;
    replaced.settle(&subject).await;
    assert_eq!(last(&subject, "s").await, Some(expected(1)), "a hook has replaced the answer of the last call");

    let mut long = Story::new("long");
    long.tell(&subject, Story::begun).await;
    for _ in 0..40 {
        long.tell(&subject, |run| [vec![run.model_started()], run.cut("half")].concat()).await;
    }
    long.settle(&subject).await;
    assert_eq!(last(&subject, "s").await, None, "not all answers since were looked at, so its place is not known");
}

pub(super) async fn what_was_said_before_a_run_is_what_earlier_runs_said(subject: Subject) {
    runs_in_every_state(&subject).await;
    let (early, late) = (["What about early?", "early is fine"], ["What about late?", "late is fine"]);
    let both = [early, late].concat();
    let whole = [("early", vec![]), ("open", early.to_vec()), ("late", early.to_vec())];
    // A run that never started takes its place by when it was accepted.
    let never_started = [("queued", both.clone()), ("never", both)];
    for (run, expected) in whole.into_iter().chain(never_started) {
        let earlier = before(&subject, run, usize::MAX).await.unwrap();
        assert_eq!(earlier, (expected.into_iter().map(str::to_owned).collect(), false), "before {run}");
    }
    assert_eq!(before(&subject, "nobody", usize::MAX).await, None);
    for (run, expected) in [("late", &["open"][..]), ("open", &[]), ("queued", &[]), ("never", &["open", "queued"])] {
        assert_eq!(unsettled_before(&subject, run, usize::MAX).await, expected, "before {run}");
    }
    assert_eq!(unsettled_before(&subject, "never", 10).await, Vec::<String>::new(), "there is no room for them");
    let subject = subject.opened_again();
    assert_eq!(before(&subject, "late", usize::MAX).await.unwrap().0, early);
}

pub(super) async fn only_the_latest_of_what_was_said_before_a_run_fits(subject: Subject) {
    for number in 1..=3 {
        let mut story = Story::new(&format!("run-{number}"));
        story.write_whole(&subject, &"word ".repeat(2_000)).await;
    }
    let (messages, truncated) = before(&subject, "run-3", usize::MAX).await.unwrap();
    assert_eq!((messages.len(), truncated), (4, false));
    let (messages, truncated) = before(&subject, "run-3", 25_000).await.unwrap();
    assert_eq!((messages.len(), truncated), (2, true));
    assert_eq!(messages[0], "What about run-2?", "runs are not cut");
    let none = (vec![], true);
    assert_eq!(before(&subject, "run-3", 15_000).await.unwrap(), none, "the run's own bytes count");
    assert_eq!(before(&subject, "run-3", 10).await.unwrap(), none);
}

/// What was said before a run, and whether some of it is left out.
async fn before(subject: &Subject, run: &str, most: usize) -> Option<(Vec<String>, bool)> {
    let run = andon_runtime::RunId::new(run).unwrap();
    let earlier = subject.journal().history_before(&run, most).await.unwrap()?;
    Some((earlier.messages.iter().map(|message| message.text()).collect(), earlier.truncated))
}

/// The runs before a run that have not settled.
async fn unsettled_before(subject: &Subject, run: &str, most: usize) -> Vec<String> {
    let run = andon_runtime::RunId::new(run).unwrap();
    let earlier = subject.journal().history_before(&run, most).await.unwrap().unwrap();
    earlier.unsettled.iter().map(ToString::to_string).collect()
}

pub(super) async fn unsettled_runs_are_listed_in_the_order_in_which_they_came(subject: Subject) {
    runs_in_every_state(&subject).await;
    let ids = |runs: Vec<andon_runtime::RunId>| runs.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(ids(subject.journal().unsettled().await.unwrap()), ["queued", "open"]);
    let subject = subject.opened_again();
    assert_eq!(ids(subject.journal().unsettled().await.unwrap()), ["queued", "open"]);
}
