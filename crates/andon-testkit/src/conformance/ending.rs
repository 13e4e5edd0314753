//! A run ends once, and nothing that comes later changes that.

use std::sync::Arc;

use andon_runtime::core::event::{Addendum, AddendumKind, Event, Record};
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::usage::{Usage, Used};
use andon_runtime::{Journal, JournalError, JournaledRun, RequestFate, RunFilter, SessionFilter};

use super::story::{Story, parts, request, session, stamp};
use super::subject::Subject;

pub(super) async fn a_second_end_in_one_batch_is_refused_with_its_batch(subject: Subject) {
    let mut story = Story::open("r", &subject).await;
    let batch = [story.settled(), story.ended(Ending::Lost)];
    story.is_refused(&subject, batch, "a batch with two ends").await;
    // And in a run's first batch.
    let mut first = Story::new("first");
    let mut batch = first.begun();
    batch.extend([first.settled(), first.ended(Ending::Lost)]);
    first.is_refused(&subject, batch, "a first batch with two ends").await;
}

pub(super) async fn a_second_end_is_refused_from_whoever_writes_it(subject: Subject) {
    let mut story = Story::new("r");
    story.tell(&subject, |run| [run.begun(), vec![run.settled()]].concat()).await;
    // By the same epoch, by a newer one, and by one that has claimed the run.
    let (mut same, mut newer, mut claimed) = (story.clone(), story.clone(), story.clone());
    newer.epoch = 9;
    let end = same.ended(Ending::Lost);
    same.is_refused(&subject, [end], "a second end").await;
    let end = newer.ended(Ending::Lost);
    newer.is_refused(&subject, [end], "a second end of a newer epoch").await;
    claimed.epoch = subject.journal().claim(story.run(), story.epoch).await.unwrap().unwrap();
    let end = claimed.ended(Ending::Lost);
    claimed.is_refused(&subject, [end], "a second end after a claim").await;
}

pub(super) async fn nothing_is_accepted_after_the_end(subject: Subject) {
    let mut story = Story::open("r", &subject).await;
    let mut both = story.clone();
    let batch = [both.settled(), both.quieted()];
    both.is_refused(&subject, batch, "a batch that continues after the end").await;
    story.epoch = subject.journal().claim(story.run(), story.epoch).await.unwrap().unwrap();
    story.settle(&subject).await;
    for epoch in [2, 3] {
        let mut late = story.clone();
        late.epoch = epoch;
        late.cannot_go_on(&subject, "an event after the end").await;
        let mut late = story.clone();
        late.epoch = epoch;
        let text = late.streamed(&andon_runtime::Kind::Text, "wait");
        late.is_refused(&subject, [text], "text after the end").await;
    }
    assert_eq!(subject.journal().unsettled().await, Ok(vec![]), "nothing has opened it again");
}

pub(super) async fn a_run_id_is_used_once(subject: Subject) {
    let story = Story::new("r").whole_in(&subject, "Yes.").await;
    let before = parts(subject.stored(&story).await);
    for epoch in [1, 2] {
        let mut again = Story::within("r", &session("other"));
        again.epoch = epoch;
        let begun = again.begun();
        let given = again.give(subject.journal(), begun).await;
        assert_eq!(given, Err(JournalError::RunExists(story.run().clone())));
    }
    assert_eq!(parts(subject.stored(&story).await), before);
    // Also while the first is still being written.
    let (mut one, mut other) = (Story::new("twice"), Story::new("twice"));
    let (first, second) = (one.begun(), other.begun());
    let (first, second) = (one.give(subject.journal(), first), other.give(subject.journal(), second));
    assert_eq!((first.await, second.await), (Ok(()), Err(JournalError::RunExists(one.run().clone()))));
    // The refused one has not harmed the one that exists.
    one.go_on(&subject).await;
}

pub(super) async fn a_run_id_that_is_taken_leaves_no_session_behind(subject: Subject) {
    let story = Story::new("r").whole_in(&subject, "Yes.").await;
    let mut again = Story::within("r", &session("other"));
    let begun = again.begun();
    again.is_refused(&subject, begun, "a run id that is taken").await;
    let sessions = subject.journal().sessions().list(SessionFilter::default()).await.unwrap();
    let keys: Vec<_> = sessions.iter().map(|info| &info.key).collect();
    assert_eq!(keys, [story.key()], "a batch that was refused has begun a session");
}

pub(super) async fn a_batch_for_an_unknown_run_is_refused(subject: Subject) {
    let mut story = Story::new("nobody");
    story.begun();
    story.cannot_go_on(&subject, "a batch of an unknown run").await;
    let text = story.streamed(&andon_runtime::Kind::Text, "hello");
    story.is_refused(&subject, [text], "text of an unknown run").await;
    let learned = AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::UNKNOWN) };
    let added = subject.journal().append_addendum(story.run(), stamp(1), learned).await;
    assert!(added.is_err(), "an addendum to an unknown run was taken");
    assert!(!subject.knows(&story).await);
    assert_eq!(subject.journal().sessions().runs(RunFilter::default()).await, Ok(vec![]));
}

pub(super) async fn what_model_calls_used_is_read_for_many_runs_at_once(subject: Subject) {
    let (one, other) =
        (Story::new("one").whole_in(&subject, "Yes.").await, Story::new("other").whole_in(&subject, "No.").await);
    let learned = AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::whole(Usage::reported(3, 4))) };
    assert_eq!(subject.journal().append_addendum(one.run(), stamp(1), learned).await, Ok(()));
    let subject = subject.opened_again();
    let nobody = Story::new("nobody");
    let asked = [other.run().clone(), nobody.run().clone(), one.run().clone()];
    let found = subject.journal().accounts(&asked).await.unwrap();
    let of_calls = |stored: &JournaledRun| -> Vec<_> {
        let is_of_call = |fact: &&Arc<Record>| matches!(fact.event, Event::ModelStarted { .. } | Event::Usage { .. });
        stored.facts().filter(is_of_call).cloned().collect()
    };
    for (story, found) in [(&other, &found[0]), (&one, &found[2])] {
        let (found, whole) = (found.as_ref().unwrap(), subject.stored(story).await);
        assert!(!of_calls(&whole).is_empty());
        assert_eq!((of_calls(found), &found.addenda), (of_calls(&whole), &whole.addenda));
    }
    assert!(found[1].is_none(), "a run that is unknown has an account");
}

pub(super) async fn addenda_are_numbered_from_one_and_change_nothing_else(subject: Subject) {
    let story = Story::new("r").whole_in(&subject, "Yes.").await;
    let (epoch, entries, ..) = parts(subject.stored(&story).await);
    let history = subject.journal().history(story.key()).await.unwrap();
    let listed = subject.journal().sessions().runs(RunFilter::default()).await;
    let learned =
        |output| AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::whole(Usage::reported(3, output))) };
    let given: Vec<_> = (1..=5).map(|n| subject.journal().append_addendum(story.run(), stamp(n), learned(n))).collect();
    for append in given {
        assert_eq!(append.await, Ok(()));
    }
    let subject = subject.opened_again();
    assert_eq!(subject.journal().append_addendum(story.run(), stamp(6), learned(6)).await, Ok(()));
    let addendum = |n: u32| Addendum::new(n, stamp(n.into()), learned(n.into()));
    let expected = (epoch, entries, (1..=6).map(addendum).collect(), Vec::new(), None);
    assert_eq!(parts(subject.stored(&story).await), expected);
    assert_eq!(subject.journal().history(story.key()).await.unwrap(), history);
    assert_eq!(subject.journal().sessions().runs(RunFilter::default()).await, listed);
}

pub(super) async fn a_cancel_request_is_kept_before_the_end_and_refused_after_it(subject: Subject) {
    let mut story = Story::open("r", &subject).await;
    let journal: &dyn Journal = &**subject.journal();
    for note in ["first", "second"] {
        assert_eq!(journal.request_cancel(story.run(), request(note)).await, Ok(RequestFate::Recorded));
    }
    let kept: Vec<_> = subject.stored(&story).await.requests.iter().map(|kept| (**kept).clone()).collect();
    assert_eq!(kept, [request("first"), request("second")]);
    story.settle(&subject).await;
    let subject = subject.opened_again();
    let settled = parts(subject.stored(&story).await);
    assert_eq!(settled.3.len(), 2, "requests outlive the run");
    let late = subject.journal().request_cancel(story.run(), request("late")).await;
    assert_eq!(late, Ok(RequestFate::TooLate));
    assert_eq!(parts(subject.stored(&story).await), settled, "a request that came too late has changed something");
    let nobody = Story::new("nobody");
    let unknown = subject.journal().request_cancel(nobody.run(), request("whom?")).await;
    assert_eq!(unknown, Ok(RequestFate::Unknown));
    assert!(!subject.knows(&nobody).await, "a request for an unknown run has made one");
}
