//! The lists that people look through.

use std::sync::Arc;

use andon_runtime::core::event::Event;
use andon_runtime::core::message::{Message, Part, Role, ToolCall};
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::time::Wall;
use andon_runtime::{
    RunFilter, RunId, RunInfo, RunState, SessionFilter, SessionInfo, SessionKey, StateChange, StateMap,
};

use super::story::{Story, call, key, request, session};
use super::subject::Subject;

async fn sessions(subject: &Subject, which: SessionFilter) -> Vec<SessionInfo> {
    subject.journal().sessions().list(which).await.unwrap()
}

async fn session_ids(subject: &Subject, which: SessionFilter) -> Vec<String> {
    sessions(subject, which).await.iter().map(|info| info.key.session.to_string()).collect()
}

async fn run_ids(subject: &Subject, which: RunFilter) -> Vec<String> {
    let runs = subject.journal().sessions().runs(which).await.unwrap();
    runs.iter().map(|info| info.run.to_string()).collect()
}

async fn touch(subject: &Subject, session: &SessionKey, at: u64) {
    subject.journal().sessions().change_state(session, Wall(at), StateChange::new()).await.unwrap();
}

pub(super) async fn sessions_are_listed_by_when_they_were_last_used(subject: Subject) {
    for (id, at) in [("a", 300), ("c", 100), ("b", 100), ("d", 200)] {
        subject.journal().sessions().create(&session(id), Wall(at), StateMap::new()).await.unwrap();
    }
    // Most recent first, and by name at the same time.
    assert_eq!(session_ids(&subject, SessionFilter::default()).await, ["a", "d", "b", "c"]);
    touch(&subject, &session("c"), 400).await;
    // A clock that was set back makes nothing older.
    touch(&subject, &session("a"), 1).await;
    assert_eq!(session_ids(&subject, SessionFilter::default()).await, ["c", "a", "d", "b"]);
    // A run that settles uses its session.
    let story = Story::within("r", &session("b")).at(1_000).whole_in(&subject, "Yes.").await;
    let subject = subject.opened_again();
    let listed = sessions(&subject, SessionFilter::default()).await;
    let ids: Vec<_> = listed.iter().map(|info| info.key.session.as_str()).collect();
    assert_eq!(ids, ["b", "c", "a", "d"]);
    let (created_at, updated_at) = (Wall(100), Wall(story.wall));
    let title = Some(story.prompt.clone());
    assert_eq!(listed[0], SessionInfo::new(session("b"), created_at, updated_at).runs(1).title(title));
}

pub(super) async fn a_session_is_as_fresh_as_the_beginning_or_end_of_its_latest_run(subject: Subject) {
    let mut running = Story::within("running", &session("long"));
    running.tell(&subject, Story::begun).await;
    Story::within("short", &session("short")).at(2_000).whole_in(&subject, "Yes.").await;
    assert_eq!(session_ids(&subject, SessionFilter::default()).await, ["short", "long"]);
    running.wall = 5_000;
    running.tell(&subject, |run| [run.model_started()]).await;
    assert_eq!(session_ids(&subject, SessionFilter::default()).await, ["short", "long"], "it is in the middle of one");
    running.settle(&subject).await;
    assert_eq!(session_ids(&subject, SessionFilter::default()).await, ["long", "short"]);
    let updated = sessions(&subject, SessionFilter::default()).await[0].updated_at;
    assert_eq!(updated, Wall(running.wall));
}

pub(super) async fn sessions_are_filtered_and_limited(subject: Subject) {
    let keys = [("local", "shop", "ada", "1"), ("local", "shop", "bob", "2"), ("local", "zoo", "ada", "3")];
    for (place, (tenant, app, user, id)) in keys.into_iter().chain([("acme", "shop", "ada", "4")]).enumerate() {
        touch(&subject, &key(tenant, app, user, id), 100 - place as u64).await;
    }
    let filter = |tenant: Option<&str>, app: Option<&str>, user: Option<&str>, limit| {
        SessionFilter::new()
            .tenant(tenant.map(str::to_owned))
            .app(app.map(str::to_owned))
            .user(user.map(str::to_owned))
            .limit(limit)
    };
    for (which, expected) in [
        (filter(None, None, None, None), &["1", "2", "3", "4"][..]),
        (filter(None, None, None, Some(2)), &["1", "2"]),
        (filter(None, None, None, Some(0)), &[]),
        (filter(Some("local"), None, None, None), &["1", "2", "3"]),
        (filter(None, Some("shop"), None, None), &["1", "2", "4"]),
        (filter(None, Some("shop"), Some("ada"), None), &["1", "4"]),
        (filter(Some("local"), None, Some("ada"), Some(9)), &["1", "3"]),
        (filter(None, None, Some("a%"), None), &[]),
    ] {
        assert_eq!(session_ids(&subject, which.clone()).await, expected, "{which:?}");
    }
}

pub(super) async fn runs_are_found_by_words_of_their_title_their_id_their_user_and_their_session(subject: Subject) {
    let asked = [("one", "ada", "monday", "Größe der ÜBERSEE"), ("two", "Übermut", "tuesday", "100 % of a_b")];
    for (id, user, session, prompt) in asked {
        let mut story = Story::within(id, &key("local", "shop", user, session)).asking(prompt);
        story.tell(&subject, Story::begun).await;
    }
    let subject = subject.opened_again();
    for (text, expected) in [
        ("über", &["two", "one"][..]),
        ("GRÖSSE", &[]),
        ("größe", &["one"]),
        ("MONDAY", &["one"]),
        ("two", &["two"]),
        ("day", &["two", "one"]),
        ("0 %", &["two"]),
        // No character is a wildcard.
        ("a_b", &["two"]),
        ("aXb", &[]),
        ("shop", &[]),
        ("", &["two", "one"]),
    ] {
        let which = RunFilter::new().text(text.to_owned());
        assert_eq!(run_ids(&subject, which.clone()).await, expected, "{text}");
        let first = which.limit(1);
        assert_eq!(run_ids(&subject, first).await, expected[..expected.len().min(1)], "{text}");
    }
}

pub(super) async fn a_session_is_titled_by_the_first_prompt_that_started(subject: Subject) {
    let mut waits = Story::new("waits").asking("  Second\n thing ");
    let mut starts = Story::new("starts").asking(&"Erstens: äöü ".repeat(20));
    waits.tell(&subject, |run| [run.accepted()]).await;
    let title = |listed: Vec<SessionInfo>| listed[0].title.clone();
    let second = Some("Second thing".to_owned());
    assert_eq!(title(sessions(&subject, SessionFilter::default()).await), second, "nothing has started yet");
    starts.tell(&subject, Story::begun).await;
    let listed = sessions(&subject, SessionFilter::default()).await;
    assert_eq!(listed[0].runs, 2);
    let long = andon_runtime::title(&Message::user(starts.prompt.clone()));
    assert!(long.starts_with("Erstens: äöü Erstens") && long.ends_with('…'));
    assert_eq!(title(listed), Some(long));
    touch(&subject, &session("silent"), 9_999).await;
    assert_eq!(title(sessions(&subject, SessionFilter::default()).await), None, "nobody has said anything");
}

pub(super) async fn runs_are_listed_newest_first_and_filtered(subject: Subject) {
    let places = [("local", "shop", "ada", "s"), ("local", "shop", "bob", "s"), ("acme", "zoo", "ada", "t")];
    // The order in which they came counts, not their timestamps.
    for (number, (tenant, app, user, id)) in places.into_iter().chain([places[0]]).enumerate() {
        let mut story = Story::within(&format!("r{number}"), &key(tenant, app, user, id)).at(9_000 - number as u64);
        story.tell(&subject, |run| if number % 2 == 0 { run.whole("Yes.") } else { run.begun() }).await;
    }
    let subject = subject.opened_again();
    let all = RunFilter::default();
    let text = |text: &str| Some(text.to_owned());
    for (which, expected) in [
        (all.clone(), &["r3", "r2", "r1", "r0"][..]),
        (all.clone().limit(3), &["r3", "r2", "r1"]),
        (all.clone().limit(0), &[]),
        (all.clone().tenant(text("acme")), &["r2"]),
        (all.clone().app(text("shop")), &["r3", "r1", "r0"]),
        (all.clone().user(text("ada")), &["r3", "r2", "r0"]),
        (all.clone().session(text("s")), &["r3", "r1", "r0"]),
        (all.clone().settled(true), &["r2", "r0"]),
        (all.clone().settled(false), &["r3", "r1"]),
        (all.clone().settled(false).user(text("ada")), &["r3"]),
        (all.clone().settled(true).limit(1), &["r2"]),
        (all.clone().session(text("S")), &[]),
        (all.clone().since(Wall(9_000)), &["r1", "r0"]),
        (all.clone().until(Wall(9_000)), &["r3", "r2"]),
        (all.clone().since(Wall(8_999)).until(Wall(9_001)), &["r2", "r1"]),
        (all.clone().before(RunId::new("r2").unwrap()), &["r1", "r0"]),
        (all.clone().before(RunId::new("r2").unwrap()).app(text("shop")).limit(1), &["r1"]),
        (all.clone().before(RunId::new("r0").unwrap()), &[]),
        (all.clone().before(RunId::new("nobody").unwrap()), &[]),
    ] {
        assert_eq!(run_ids(&subject, which.clone()).await, expected, "{which:?}");
    }
}

/// A run whose one tool call waits for a person.
fn waiting(story: &mut Story) -> Vec<andon_runtime::core::event::Entry> {
    let mut entries = story.begun();
    entries.push(story.model_started());
    let asked = ToolCall::new(call("c1"), "look", "{}");
    let message = Message::new(Role::Assistant, vec![Part::ToolCall(asked)]);
    entries.push(story.fact(Event::Message { message: Arc::new(message) }));
    entries.push(story.fact(Event::ModelFinished {
        call: 1,
        end: andon_runtime::core::event::ModelEnd::Answered { stop: andon_runtime::ModelStop::ToolUse },
        first_piece_us: None,
    }));
    entries.push(story.fact(Event::ApprovalRequested { call: call("c1"), arguments: None }));
    entries
}

pub(super) async fn a_list_says_the_state_of_each_run(subject: Subject) {
    let cancelled = |story: &mut Story| {
        let (request, delivered_at) = (Arc::new(request("stop")), super::story::stamp(8));
        story.fact(Event::CancelRequested { request, delivered_at })
    };
    let ending = Ending::Cancelled { reason: andon_runtime::Reason::Requested };
    let mut stories = ["queued", "running", "waiting", "cancelling", "settled", "never"].map(Story::new);
    let mut expected = Vec::new();
    for story in &mut stories {
        let (entries, state) = match story.run().as_str() {
            "queued" => (vec![story.accepted()], RunState::Queued),
            "running" => (story.begun(), RunState::Running),
            "waiting" => (waiting(story), RunState::Waiting),
            "cancelling" => ([story.begun(), vec![cancelled(story)]].concat(), RunState::Cancelling),
            "settled" => (story.whole("Yes."), RunState::Settled),
            _ => (vec![story.accepted(), cancelled(story), story.ended(ending.clone())], RunState::Settled),
        };
        story.write(&subject, entries.clone()).await;
        let settled = entries.last().and_then(|entry| match &entry.fact()?.event {
            Event::RunSettled { outcome } => Some((**outcome).clone()),
            _ => None,
        });
        expected.push(
            RunInfo::new(story.run().clone(), story.key().clone(), state, Wall(1_001), story.prompt.clone())
                .ended_at(settled.as_ref().map(|_| Wall(story.wall)))
                .ending(settled),
        );
    }
    expected.reverse();
    let subject = subject.opened_again();
    assert_eq!(subject.journal().sessions().runs(RunFilter::default()).await, Ok(expected));
}

pub(super) async fn a_run_that_makes_no_sense_hides_no_other(subject: Subject) {
    let (mut good, mut bad, mut last) = (Story::new("good"), Story::new("bad"), Story::new("last"));
    good.tell(&subject, Story::begun).await;
    // In order, and yet nonsense: a run starts once.
    bad.tell(&subject, |run| [run.begun(), vec![run.started()]].concat()).await;
    last.write_whole(&subject, "Yes.").await;
    let runs = subject.journal().sessions().runs(RunFilter::default()).await;
    let runs = runs.expect("one run that makes no sense does not keep the others from being listed");
    let ids: Vec<_> = runs.iter().map(|info| info.run.as_str()).filter(|id| *id != "bad").collect();
    assert_eq!(ids, ["last", "good"]);
    assert_eq!(sessions(&subject, SessionFilter::default()).await.len(), 1);
    let unsettled = subject.journal().unsettled().await.unwrap();
    assert_eq!(unsettled, [good.run().clone(), bad.run().clone()], "recovery is told of it");
}
