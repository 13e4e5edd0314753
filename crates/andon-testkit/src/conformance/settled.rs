//! When a run settled, kept next to its record.

use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::{RunFilter, RunId};

use super::story::{Story, stamp};
use super::subject::Subject;

/// What a read of the run, a list and a copy of its session say. They must agree.
async fn settled_at(subject: &Subject, story: &Story) -> Option<Stamp> {
    let told = subject.stored(story).await.settled_at;
    let runs = subject.journal().sessions().runs(RunFilter::default()).await.unwrap();
    let listed = runs.iter().find(|info| info.run == *story.run()).unwrap();
    assert_eq!(listed.settled_at, told.map(|at| at.wall), "in a list");
    let copy = subject.journal().sessions().copy_whole(story.key()).await.unwrap().unwrap();
    let copied = copy.runs.iter().find(|(run, _)| run == story.run()).unwrap();
    assert_eq!(copied.1.settled_at, told, "in a copy");
    told
}

pub(super) async fn when_a_run_settled_is_known_at_once_and_when_the_journal_is_opened_again(subject: Subject) {
    let story = Story::new("r").whole_in(&subject, "Yes.").await;
    let ended = Wall(story.wall);
    // The two clocks differ.
    let settled = Stamp { wall: Wall(2_000_000), mono_us: 6_543 };
    subject.journal().keep_settled(story.run(), settled);
    assert_eq!(settled_at(&subject, &story).await, Some(settled));
    let subject = subject.opened_again();
    assert_eq!(settled_at(&subject, &story).await, Some(settled));
    let runs = subject.journal().sessions().runs(RunFilter::default()).await.unwrap();
    let times = runs.iter().map(|info| (info.ended_at, info.settled_at)).collect::<Vec<_>>();
    assert_eq!(times, [(Some(ended), Some(settled.wall))], "its last event has a time of its own");
}

pub(super) async fn only_the_first_instant_of_a_run_that_has_settled_is_kept(subject: Subject) {
    let (mut open, mut over) = (Story::new("open"), Story::new("over"));
    open.tell(&subject, Story::begun).await;
    over.write_whole(&subject, "Yes.").await;
    subject.journal().keep_settled(open.run(), stamp(5_000));
    subject.journal().keep_settled(over.run(), stamp(5_001));
    subject.journal().keep_settled(over.run(), stamp(5_002));
    subject.journal().keep_settled(&RunId::new("nobody").unwrap(), stamp(5_003));
    assert_eq!((settled_at(&subject, &open).await, settled_at(&subject, &over).await), (None, Some(stamp(5_001))));
    let subject = subject.opened_again();
    subject.journal().keep_settled(over.run(), stamp(5_004));
    assert_eq!((settled_at(&subject, &open).await, settled_at(&subject, &over).await), (None, Some(stamp(5_001))));
    open.settle(&subject).await;
    let subject = subject.opened_again();
    assert_eq!((settled_at(&subject, &open).await, settled_at(&subject, &over).await), (None, Some(stamp(5_001))));
}

pub(super) async fn an_instant_that_was_never_kept_is_unknown(subject: Subject) {
    let story = Story::new("r").whole_in(&subject, "Yes.").await;
    let subject = subject.opened_again();
    assert_eq!(settled_at(&subject, &story).await, None);
    let receipt = subject.stored(&story).await.receipt().unwrap();
    assert_eq!((receipt.on_disk, receipt.settled_at), (true, None));
}

pub(super) async fn the_instants_of_many_runs_are_each_their_own(subject: Subject) {
    let mut stories: Vec<Story> = (0..40).map(|number| Story::new(&format!("r{number}"))).collect();
    for (story, at) in stories.iter_mut().zip(5_000..) {
        // Each but the last is kept when the next one begins, the last when nothing more comes.
        story.write_whole(&subject, "Yes.").await;
        subject.journal().keep_settled(story.run(), stamp(at));
    }
    let subject = subject.opened_again();
    for (story, at) in stories.iter().zip(5_000..) {
        assert_eq!(subject.stored(story).await.settled_at, Some(stamp(at)), "{}", story.run());
    }
}

pub(super) async fn a_run_id_that_is_used_again_has_no_instant_of_the_run_before(subject: Subject) {
    let first = Story::new("r").whole_in(&subject, "Yes.").await;
    subject.journal().keep_settled(first.run(), stamp(5_000));
    assert_eq!(subject.journal().sessions().delete(first.key()).await, Ok(true));
    let mut again = Story::new("r");
    again.write_whole(&subject, "No.").await;
    assert_eq!(settled_at(&subject, &again).await, None);
    let subject = subject.opened_again();
    assert_eq!(settled_at(&subject, &again).await, None);
}
