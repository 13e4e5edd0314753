//! A journal in memory forgets whole sessions when it holds too much: the oldest first, and never one with a run in
//! progress.

use andon_runtime::{AnswerDecision, RequestDecision, RunDecision, SessionFilter, SessionKey, WhenBusy};

use crate::common::*;

fn runtime_in(journal: &Arc<MemoryJournal>) -> Runtime {
    Runtime::builder().journal(Arc::clone(journal)).one_lane().seed(1).warm_sessions(0).build()
}

fn agent_in(journal: &Arc<MemoryJournal>, answers: impl IntoIterator<Item = Vec<Act>>) -> Agent {
    Agent::builder().model(ScriptedModel::new(answers)).runtime(&runtime_in(journal)).build().unwrap()
}

async fn sessions(agent: &Agent) -> Vec<String> {
    let listed = agent.runtime().list_sessions(SessionFilter::default()).await.unwrap();
    let mut names: Vec<String> = listed.iter().map(|info| info.key.session.to_string()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn the_session_that_settled_longest_ago_is_forgotten_first_and_whole() {
    let journal = Arc::new(MemoryJournal::builder().sessions(2).build());
    let agent = agent_in(&journal, ["One.", "Two.", "Again.", "Three.", "Anew."].map(says));
    let first = agent.session(LOCAL, "one").unwrap().start("Go.").unwrap();
    first.outcome().await;
    let second = agent.session(LOCAL, "two").unwrap().start("Go.").unwrap();
    second.outcome().await;
    agent.session(LOCAL, "one").unwrap().run("Go on.").await.unwrap();
    agent.session(LOCAL, "three").unwrap().run("Go.").await.unwrap();
    assert_eq!(sessions(&agent).await, ["one", "three"], "`two` was used longest ago");
    assert!(agent.runtime().find(second.id()).await.unwrap().is_none());
    assert_eq!(journal.run_ids().len(), 3);
    let one = agent.session(LOCAL, "one").unwrap();
    assert_eq!(texts(&one.history().await.unwrap()), ["Go.", "One.", "Go on.", "Again."], "what is kept is whole");

    let anew = agent.session(LOCAL, "two").unwrap();
    drop(second);
    anew.run("Go.").await.unwrap();
    assert_eq!(sessions(&agent).await, ["three", "two"]);
    assert_eq!(first.outcome().await.text_so_far(), "One.", "whoever holds a run has it");
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_run_in_progress_or_in_its_queue_is_never_forgotten() {
    let journal = Arc::new(MemoryJournal::builder().sessions(1).bytes(1).build());
    let agent = agent_in(&journal, [says_and_hangs("Half"), says("Two."), says("Three."), says("Next.")]);
    let busy = agent.session(LOCAL, "busy").unwrap();
    let run = start_until_shown(&busy, "Go.", "Half").await;
    let queued = busy.prompt("Then.").when_busy(WhenBusy::Queue).start().unwrap();
    for name in ["two", "three"] {
        agent.session(LOCAL, name).unwrap().run("Go.").await.unwrap();
    }
    assert_eq!(sessions(&agent).await, ["busy", "three"], "the last one stays, too");
    stop(&busy, &run, Cancel::graceful()).await;
    assert_eq!(queued.outcome().await.stop_reason(), "end_turn");
    let said = busy.history().await.unwrap();
    assert_eq!(texts(&said), ["Go.", "Half [cut]", "Then.", "Next."]);
    assert_eq!(sessions(&agent).await, ["busy"]);
}

#[tokio::test(start_paused = true)]
async fn a_bound_in_bytes_counts_what_was_said_and_what_is_kept() {
    let long = "word ".repeat(4_000);
    let journal = Arc::new(MemoryJournal::builder().bytes(200_000).build());
    let agent = agent_in(&journal, (0..10).map(|_| says(&long)));
    for number in 0..10 {
        agent.session(LOCAL, format!("s{number}")).unwrap().run("Go.").await.unwrap();
    }
    assert_eq!(
        sessions(&agent).await,
        ["s6", "s7", "s8", "s9"],
        "each takes about 41 kB: its text, and what was streamed of it"
    );
    let runtime = agent.runtime();
    let large = SessionKey::new("agent", "local", "large").unwrap();
    runtime.create_session(&large, [("note".to_owned(), json!("small"))].into_iter().collect()).await.unwrap();
    assert_eq!(sessions(&agent).await, ["large", "s6", "s7", "s8", "s9"], "one without a run counts as used");
    let value = json!("x".repeat(60_000));
    let kept = andon_runtime::Attachment::new("file", "f", runtime.now().wall, value);
    runtime.keep(&large, vec![kept], [].into()).await.unwrap();
    assert_eq!(sessions(&agent).await, ["large", "s7", "s8", "s9"]);
}

/// The sessions that a journal of 200 kB still holds after ten runs that each leave about 40 kB.
async fn left_after_ten(answers: Vec<Act>, prepare: impl Fn(AgentBuilder) -> AgentBuilder) -> usize {
    let journal = Arc::new(MemoryJournal::builder().bytes(200_000).build());
    let model = ScriptedModel::new((0..10).map(|_| answers.clone()));
    let agent = prepare(Agent::builder().model(model).runtime(&runtime_in(&journal))).build().unwrap();
    for number in 0..10 {
        let _ = agent.session(LOCAL, format!("s{number}")).unwrap().run("Go.").await;
    }
    sessions(&agent).await.len()
}

#[tokio::test(start_paused = true)]
async fn a_bound_in_bytes_counts_what_hooks_write() {
    let long = || "word ".repeat(8_000);
    let left = left_after_ten(says("Yes."), |agent| agent.after_model(move |_| AnswerDecision::ReplaceText(long())));
    assert_eq!(left.await, 4, "answers");
    let left = left_after_ten(says("Yes."), |agent| agent.before_run(move |_| RunDecision::ChangeInput(long().into())));
    assert_eq!(left.await, 4, "prompts");
    let left = left_after_ten(says("Yes."), |agent| {
        agent.before_model(move |moment| {
            let mut request = moment.request;
            request.instructions = Some(long().into());
            RequestDecision::Change(request)
        })
    });
    assert_eq!(left.await, 4, "instructions");
    let left = left_after_ten(says("Yes."), |agent| agent.before_run(move |_| RunDecision::fail(long())));
    assert_eq!(left.await, 4, "reasons");
}

#[tokio::test(start_paused = true)]
async fn a_bound_in_bytes_counts_the_state_of_sessions_and_what_is_learned_later() {
    let journal = Arc::new(MemoryJournal::builder().bytes(200_000).build());
    let agent = agent_in(&journal, (0..10).map(|_| says("Yes.")));
    let runtime = agent.runtime();
    for number in 0..6 {
        let key = SessionKey::new("agent", "local", format!("s{number}")).unwrap();
        runtime
            .create_session(&key, [("note".to_owned(), json!("x".repeat(40_000)))].into_iter().collect())
            .await
            .unwrap();
    }
    assert_eq!(sessions(&agent).await, ["s2", "s3", "s4", "s5"]);
    let small = [("note".to_owned(), Some(json!("x")))];
    for number in 2..6 {
        let key = SessionKey::new("agent", "local", format!("s{number}")).unwrap();
        runtime.change_state(&key, small.clone().into_iter().collect()).await.unwrap();
    }
    for number in 6..9 {
        let run = agent.session(LOCAL, format!("s{number}")).unwrap().start("Go.").unwrap();
        run.outcome().await;
        let parts = vec![andon_runtime::Part::text("x".repeat(40_000))];
        let learned = andon_runtime::core::event::AddendumKind::Undelivered { call: 1, parts };
        journal.append_addendum(run.id(), runtime.now(), learned).await.unwrap();
    }
    assert_eq!(sessions(&agent).await, ["s2", "s3", "s4", "s5", "s6", "s7", "s8"], "what is gone counts no longer");
    let run = agent.session(LOCAL, "s9").unwrap().start("Go.").unwrap();
    run.outcome().await;
    let parts = vec![andon_runtime::Part::text("x".repeat(90_000))];
    let learned = andon_runtime::core::event::AddendumKind::Undelivered { call: 1, parts };
    journal.append_addendum(run.id(), runtime.now(), learned).await.unwrap();
    assert_eq!(sessions(&agent).await, ["s7", "s8", "s9"]);
}

#[tokio::test(start_paused = true)]
async fn by_default_nothing_that_a_small_program_does_is_forgotten() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = agent_in(&journal, (0..300).map(|_| says("Yes.")));
    for number in 0..300 {
        agent.session(LOCAL, format!("s{number}")).unwrap().run("Go.").await.unwrap();
    }
    assert_eq!((sessions(&agent).await.len(), journal.run_ids().len()), (300, 300));
}

#[tokio::test(start_paused = true)]
async fn what_is_learned_about_a_forgotten_run_is_refused_for_good() {
    let journal = Arc::new(MemoryJournal::builder().sessions(1).build());
    let agent = agent_in(&journal, ["One.", "Two."].map(says));
    let forgotten = agent.session(LOCAL, "one").unwrap().start("Go.").unwrap();
    forgotten.outcome().await;
    agent.session(LOCAL, "two").unwrap().run("Go.").await.unwrap();
    let used = Box::new(andon_runtime::Used::cut(andon_runtime::Usage::UNKNOWN));
    let learned = andon_runtime::core::event::AddendumKind::UsageCorrected { call: 1, used };
    let error = journal.append_addendum(forgotten.id(), agent.runtime().now(), learned).await.unwrap_err();
    assert!(!error.may_pass(), "or it would be tried for ever: {error}");
}
