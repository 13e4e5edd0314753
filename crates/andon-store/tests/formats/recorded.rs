//! What is in an old file is read as it was written.

use andon_runtime::core::cancel::Reason;
use andon_runtime::core::event::{Event, HookChange};
use andon_runtime::core::receipt::Verdict;
use andon_runtime::core::usage::{Figure, Provenance, Usage, Used};
use andon_runtime::{Ending, JournaledRun, ModelStop, RunFilter, SessionFilter, SessionKey, StateMap};
use andon_testkit::{check, wire};
use serde_json::json;

use crate::{Life, all, key, lines};

/// Checks P3.
#[tokio::test]
async fn a_history_is_read_from_a_file_of_every_format() {
    for old in all() {
        let life = Life::open(&old.path(), []);
        let expected = [
            "User: What colour is it?",
            "Assistant: Let me look.",
            "Tool: Ok",
            "Assistant: It is blue.",
            "User: Thanks.",
            "Assistant: You are welcome.",
            "User: Tell me a story.",
            "Assistant: Once upon a time there was [Cancelled(Requested)]",
            "User: Break it.",
            "Assistant: I will try.",
            "Tool: Error",
            "Assistant: It did not work.",
        ];
        assert_eq!(lines(&life.history("ada", "monday").await), expected, "{}", old.name);
    }
}

/// Checks P2.
#[tokio::test]
async fn a_history_in_a_file_of_every_format_can_be_sent_to_every_provider() {
    for old in all() {
        let life = Life::open(&old.path(), []);
        let broken = wire::check_history(&life.history("ada", "monday").await);
        assert!(broken.is_empty(), "{}: {broken:#?}", old.name);
    }
}

#[tokio::test]
async fn lists_find_what_is_in_a_file_of_every_format() {
    for old in all() {
        let life = Life::open(&old.path(), []);
        let mut sessions = life.runtime.list_sessions(SessionFilter::default()).await.unwrap();
        sessions.sort_by(|one, other| one.key.cmp(&other.key));
        let sessions = sessions.into_iter().map(|info| (info.key, info.runs, info.title.unwrap())).collect::<Vec<_>>();
        let session = |user, session, runs, title: &str| (key(user, session), runs, title.to_owned());
        let mut expected = vec![
            session("ada", "monday", 4, "What colour is it?"),
            session("ada", "tuesday", 2, "Delete it."),
            session("bob", "friday", 1, "Go on."),
            session("bob", "monday", 1, "Count."),
            session("bob", "tuesday", 1, "Work."),
        ];
        if old.has_hooks() {
            let of = |app| (SessionKey::new(app, "cid", "monday").unwrap(), 1, "What colour is it?".to_owned());
            expected.extend(HOOKED.map(of));
            expected.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        }
        assert_eq!(sessions, expected, "{}", old.name);
        let runs = life.runtime.list_runs(RunFilter::default()).await.unwrap();
        let runs: Vec<String> = runs.iter().map(|info| format!("{} {:?}", info.run, info.state)).collect();
        let mut expected = vec![
            "asked-to-stop Running",
            "calling Running",
            "answering Running",
            "queued Queued",
            "waiting Waiting",
            "failed-tool Settled",
            "stopped Settled",
            "answered Settled",
            "called Settled",
        ];
        if old.has_hooks() {
            expected.splice(5..5, ["failed-by-hook Settled", "withdrawn Settled", "hooked Settled"]);
        }
        assert_eq!(runs, expected, "{}", old.name);
    }
}

#[tokio::test]
async fn receipts_are_made_from_a_file_of_every_format() {
    for old in all() {
        let life = Life::open(&old.path(), []);
        for run in ["called", "answered", "stopped", "failed-tool"] {
            let broken = check::check_stored(&life.stored(run).await);
            assert!(broken.is_empty(), "{}: {run}: {broken:#?}", old.name);
        }
        let stopped = life.stored("stopped").await.receipt().unwrap();
        let told = (stopped.reason, stopped.by.as_deref(), stopped.note.as_deref(), stopped.on_disk, stopped.revision);
        let expected = (Some(Reason::Requested), Some("ada"), Some("stop button"), true, 1);
        assert_eq!(told, expected, "{}", old.name);
        // A figure that the provider had not reported used to be written as 0.
        let at_least_0 = Figure::new().provenance(Provenance::Bounded).low(0);
        let (none, reasoning) = if old.says_who_answered() {
            (Figure::UNKNOWN, Figure::UNKNOWN)
        } else {
            (Figure::reported(0), at_least_0)
        };
        let delivered = Usage::reported(8, 6).cache_read(none).cache_write(none).reasoning(none);
        let billed = (Used::cut(delivered).billed).reasoning(reasoning);
        assert_eq!(stopped.usage, Used::new(delivered, billed), "{}", old.name);
        let called = life.stored("called").await.receipt().unwrap();
        let calls: Vec<_> = called.calls.iter().map(|call| (call.tool.as_str(), call.verdict)).collect();
        assert_eq!(calls, [("look", Verdict::Finished)], "{}", old.name);
        let answerers = called.model_calls.iter().map(|call| (call.answered_by.as_deref(), call.request_id.as_deref()));
        let expected = if old.says_who_answered() {
            [(Some("script-1"), Some("req_1")), (Some("script-1"), Some("req_2"))]
        } else {
            [(None, None); 2]
        };
        assert_eq!(answerers.collect::<Vec<_>>(), expected, "{}", old.name);
    }
}

/// The runs with hooks, each in an app of its name.
const HOOKED: [&str; 3] = ["failed-by-hook", "hooked", "withdrawn"];

fn kind(change: &HookChange) -> &'static str {
    match change {
        HookChange::Input { .. } => "input",
        HookChange::Request { .. } => "request",
        HookChange::Answer { is_withdrawn: true, .. } => "withdrawn",
        HookChange::Answer { .. } => "answer",
        HookChange::Call { .. } => "call",
        HookChange::Result { .. } => "result",
        #[allow(unreachable_patterns, reason = "a hook may learn to change more")]
        _ => "another",
    }
}

/// What hooks changed in a run, and why they failed it.
fn changes(stored: &JournaledRun) -> Vec<String> {
    let told = stored.facts().filter_map(|record| match &record.event {
        Event::HookFinished { change: Some(change), .. } => Some(kind(change).to_owned()),
        Event::HookFinished { why: Some(why), .. } => Some(why.to_string()),
        Event::ModelStarted { is_changed: true, .. } => Some("asked otherwise".to_owned()),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn what_hooks_did_and_what_prompts_brought_along_are_read_from_every_file_that_has_them() {
    let has_hooks = all().into_iter().filter(|old| old.has_hooks());
    for old in has_hooks {
        let life = Life::open(&old.path(), []);
        for run in HOOKED {
            let broken = check::check_stored(&life.stored(run).await);
            assert!(broken.is_empty(), "{}: {run}: {broken:#?}", old.name);
        }
        let history = async |app| {
            let history = life.journal.history(&SessionKey::new(app, "cid", "monday").unwrap()).await.unwrap();
            (lines(&history), history)
        };
        let (said, history_of_hooked) = history("hooked").await;
        let expected =
            ["User: What colour is it? Please.", "Assistant: LET ME LOOK.", "Tool: Ok", "Assistant: IT IS BLUE."];
        assert_eq!(said, expected, "{}", old.name);
        let results = history_of_hooked.iter().flat_map(|message| message.results()).map(|result| result.to_text());
        assert_eq!(results.collect::<Vec<_>>(), ["hidden"], "{}", old.name);
        let hooked = ["input", "request", "asked otherwise", "answer", "call", "result"];
        let hooked = hooked.into_iter().chain(["request", "asked otherwise", "answer"]).collect::<Vec<_>>();
        assert_eq!(changes(&life.stored("hooked").await), hooked, "{}", old.name);

        let withdrawn = life.stored("withdrawn").await;
        assert_eq!(changes(&withdrawn), ["withdrawn"], "{}", old.name);
        let expected = [
            "User: I am Cid.",
            "Assistant: Hello, Cid.",
            "User: What colour is it?",
            "Assistant: This answer was withdrawn.",
        ];
        assert_eq!(history("withdrawn").await.0, expected, "{}", old.name);
        let refused = Ending::Completed { stop: ModelStop::Refused };
        assert_eq!(*withdrawn.receipt().unwrap().outcome.unwrap(), refused, "{}", old.name);
        let failed = changes(&life.stored("failed-by-hook").await);
        assert_eq!(failed, ["the before_model hook failed the run: It is too late today."], "{}", old.name);
    }
}

/// State from the first format on, what is kept with no session from the second, what is kept with one from the third.
#[tokio::test]
async fn state_and_what_is_kept_are_read_from_a_file_of_every_format() {
    for old in all() {
        let life = Life::open(&old.path(), []);
        let shared = [("user:name", json!("Ada")), ("app:motd", json!({"text": "Hello"}))];
        let mut own = vec![("colour", json!("blue"))];
        if old.format >= 3 {
            own.extend([("asked", json!(1)), ("looked", json!(true))]);
        }
        let state = |of: &[&[(&str, serde_json::Value)]]| -> StateMap {
            of.concat().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let [monday, tuesday] = [key("ada", "monday"), key("ada", "tuesday")];
        assert_eq!(life.runtime.state(&monday).await.unwrap(), Some(state(&[&own, &shared])), "{}", old.name);
        assert_eq!(life.runtime.state(&tuesday).await.unwrap(), Some(state(&[&shared])), "{}", old.name);
        let of_bob = life.runtime.state(&key("bob", "monday")).await.unwrap();
        assert_eq!(of_bob, Some(state(&[&shared[1..]])), "{}", old.name);

        let shelf = life.journal.shelf().kept("calibration").await.unwrap();
        let expected = (old.format >= 2).then(|| ("script".to_owned(), json!({"factor": 2})));
        assert_eq!(shelf, expected.into_iter().collect::<Vec<_>>(), "{}", old.name);
        let kept = life.runtime.kept(&monday, "note").await.unwrap();
        let kept: Vec<_> = kept.into_iter().map(|kept| (kept.name, kept.value)).collect();
        let expected = (old.format >= 3).then(|| ("first".to_owned(), json!({"line": 1})));
        assert_eq!(kept, expected.into_iter().collect::<Vec<_>>(), "{}", old.name);
    }
}
