//! What a server needs from the runtime: stops that come before their run, signals with a reason, and counts of runs
//! per user.

use andon_runtime::{Digest, Force, RunId};

use crate::common::*;

/// Checks P1 and P7: a stop that came before its run.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_born_cancelled_calls_no_model_and_has_a_receipt() {
    let model = ScriptedModel::new([says("Never."), says("Again.")]);
    let session = agent(&model).open();
    let run = session.prompt("Go.").born_cancelled(Cancel::now().by("ada").note("too early")).start().unwrap();
    let outcome = cancelled(&session, &run).await;
    let receipt = &outcome.receipt;
    assert_eq!((model.calls(), receipt.by.as_deref(), receipt.force), (0, Some("ada"), Some(Force::Now)));
    assert_eq!(outcome.message, None);
    assert_eq!(session.run("Go on.").await.unwrap().completed().unwrap().text(), "Never.", "the next one is normal");
}

#[tokio::test(start_paused = true)]
async fn a_queued_run_that_is_born_cancelled_waits_for_nobody() {
    let session = scripted([says_and_hangs("Hm")]).open();
    let seated = start_until_shown(&session, "Go.", "Hm").await;
    let queued = session.prompt("Then.").when_busy(WhenBusy::Queue).born_cancelled(Cancel::graceful()).start().unwrap();
    assert!(queued.outcome().await.is_cancelled());
    assert_eq!(seated.state(), RunState::Running);
}

/// Checks P9: a run that was cancelled before it began supersedes nobody.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_born_cancelled_supersedes_nobody() {
    let session = scripted([says_and_hangs("Hm")]).open();
    let seated = start_until_shown(&session, "Go.", "Hm").await;
    let prompt = session.prompt("Instead.").when_busy(WhenBusy::Supersede).born_cancelled(Cancel::graceful());
    assert!(prompt.run().await.unwrap().is_cancelled());
    assert_eq!(seated.state(), RunState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_signal_can_say_how_and_why() {
    let session = scripted([says_and_hangs("Hm")]).open();
    let gone = async {
        tokio::time::sleep(secs(3)).await;
        Cancel::now().reason(Reason::ClientDisconnected).by("server").note("everybody left")
    };
    let run = session.prompt("Go.").cancel_with(gone).start().unwrap();
    until_shown(&run, "Hm").await;
    let receipt = run.outcome().await.receipt.clone();
    let told = (receipt.reason, receipt.by.as_deref(), receipt.note.as_deref(), receipt.force);
    let expected = (Some(Reason::ClientDisconnected), Some("server"), Some("everybody left"), Some(Force::Now));
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn runs_are_counted_in_all_and_for_each_user_until_they_have_settled() {
    let agent = scripted(std::iter::repeat_with(|| says_and_hangs("Hm")).take(3)).open();
    let runtime = agent.agent().runtime();
    let of = |user: &str, session: &str| agent.agent().session(user, session).unwrap();
    let runs =
        [of("ada", "1").start("a").unwrap(), of("ada", "2").start("b").unwrap(), of("bob", "1").start("c").unwrap()];
    let count = |user: &str| {
        let key = SessionKey::new("agent", user, "any").unwrap();
        runtime.count(&key.tenant, &key.user)
    };
    assert_eq!((count("ada"), count("bob"), count("eve")), ((3, 2), (3, 1), (3, 0)));
    let ids: Vec<RunId> = runtime.in_progress().iter().map(|run| run.id().clone()).collect();
    assert_eq!(ids, runs.each_ref().map(|run| run.id().clone()));
    assert!(runtime.find_in_progress(runs[0].id()).is_some());
    for run in &runs {
        run.cancel(Cancel::now());
        run.outcome().await;
    }
    assert_eq!((count("ada"), count("bob")), ((0, 0), (0, 0)));
    assert!(runtime.find_in_progress(runs[0].id()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_run_is_accepted_once_it_is_on_record_and_never_if_the_journal_fails() {
    let journal = memory();
    let runtime = runtime_on(&journal);
    let build = || andon_runtime::Agent::builder().model(ScriptedModel::new([says("Yes.")])).runtime(&runtime).open();
    let run = build().start("Go.").unwrap();
    assert_eq!((run.accepted().await, journal.facts(run.id()) > 0), (Ok(()), true));
    journal.fail(JournalError::Storage("full".to_owned()));
    let run = build().start("Go.").unwrap();
    assert!(run.accepted().await.is_err());
    assert!(run.progress().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_tenant_is_another_conversation() {
    let agent = scripted([says("One."), says("Two.")]).build().unwrap();
    let here = agent.session("ada", "s").unwrap();
    let elsewhere = here.key().clone().tenant(Arc::from("acme"));
    let there = agent.session_by_key(&elsewhere).unwrap();
    here.run("Hello").await.unwrap();
    assert_eq!((here.history().await.unwrap().len(), there.history().await.unwrap().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_its_sender_would_repeat_is_on_record_with_a_run() {
    let session = scripted([says("One."), says("Two.")]).open();
    let digest = Digest::of(b"{}");
    let runs = [
        session.prompt("Go.").request(digest).start().unwrap(),
        session.agent().session(LOCAL, "other").unwrap().start("Go.").unwrap(),
    ];
    for (run, told) in runs.iter().zip([Some(digest), None]) {
        run.accepted().await.unwrap();
        let Event::RunAccepted { accepted } = &run.records()[0].event else { panic!("that is the first event") };
        assert_eq!(accepted.request, told);
    }
}
