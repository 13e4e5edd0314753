//! One run at a time in a session: a second prompt is refused, waits, or takes over, as its caller chose (P8).

use andon_runtime::StartError;

use crate::common::*;

/// An agent whose first run has shown `Busy` and hangs.
async fn busy() -> (Session, Run, ScriptedModel) {
    let model = ScriptedModel::new([says_and_hangs("Busy")]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "First.", "Busy").await;
    (session, run, model)
}

fn queue(session: &Session, prompt: &str) -> Run {
    session.prompt(prompt).when_busy(WhenBusy::Queue).start().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_second_prompt_is_refused_by_default_and_the_error_says_what_to_do() {
    let (session, run, model) = busy().await;
    let error = session.start("Second.").unwrap_err();
    assert_eq!(error, StartError::Busy { session: session.key().clone(), run: run.id().clone() });
    assert_eq!(
        error.to_string(),
        format!(
            "session {} is busy with run {}: wait for its outcome, cancel it, or start with when_busy(Queue) or \
             when_busy(Supersede)",
            session.key(),
            run.id()
        )
    );
    assert_eq!((run.state(), model.calls()), (RunState::Running, 1));
    assert_eq!(session.agent().runtime().runs(), [run.id().clone()], "the refused run left nothing");
    stop(&session, &run, Cancel::now()).await;
    assert_eq!(texts(&session.history().await.unwrap()), ["First.", "Busy [cut]"]);
}

#[tokio::test(start_paused = true)]
async fn another_session_of_the_same_agent_is_not_busy() {
    let (session, run, _) = busy().await;
    assert_usable(&session.agent().session(LOCAL, "elsewhere").unwrap()).await;
    stop(&session, &run, Cancel::now()).await;
}

#[tokio::test(start_paused = true)]
async fn queued_prompts_are_run_one_after_another_in_the_order_in_which_they_came() {
    let model = ScriptedModel::new([vec![Act::text("1"), Act::Pause(secs(1)), Act::end()], says("2"), says("3")]);
    let session = agent(&model).open();
    let first = session.start("A").unwrap();
    let (second, third) = (queue(&session, "B"), queue(&session, "C"));
    until_shown(&first, "1").await;
    assert_eq!((second.state(), third.state(), model.calls()), (RunState::Queued, RunState::Queued, 1));
    assert_eq!(session.current().unwrap().id(), first.id());
    for run in [&first, &second, &third] {
        assert_eq!(settled(&session, run).await.stop_reason(), "end_turn");
    }
    assert_eq!(texts(&session.history().await.unwrap()), ["A", "1", "B", "2", "C", "3"]);
    assert!(session.current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_queued_run_that_is_cancelled_settles_at_once_and_leaves_nothing_in_the_history() {
    let (session, first, model) = busy().await;
    let (second, third) = (queue(&session, "Second."), queue(&session, "Third."));
    settle_down().await;
    let outcome = stop(&session, &second, Cancel::graceful()).await;
    assert_eq!((outcome.receipt.cut_in, first.state()), (Some(Phase::Queued), RunState::Running));
    assert_eq!(event_types(&second), ["run_accepted", "cancel_requested", "run_quieted", "run_settled"]);

    stop(&session, &first, Cancel::graceful()).await;
    settled(&session, &third).await;
    assert_eq!(texts(&session.history().await.unwrap()), ["First.", "Busy [cut]", "Third.", "Well."]);
    assert_eq!(model.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_supersedes_stops_the_run_in_progress_and_those_that_wait_and_then_starts() {
    let (session, first, model) = busy().await;
    let queued = queue(&session, "Queued.");
    settle_down().await;
    let newest = session.prompt("Newest.").when_busy(WhenBusy::Supersede).start().unwrap();
    for old in [&first, &queued] {
        let outcome = cancelled_because(&session, old, Reason::Superseded).await;
        let note = format!("superseded by run {}", newest.id());
        assert_eq!(outcome.receipt.note.as_deref(), Some(note.as_str()));
        assert_eq!(outcome.receipt.by.as_deref(), Some("session"));
    }
    settled(&session, &newest).await;
    assert_eq!(texts(&session.history().await.unwrap()), ["First.", "Busy [cut]", "Newest.", "Well."]);
    let sent = model.requests()[1].prompt();
    let note = "[Your previous answer was stopped because the user sent a new request, and is incomplete.";
    assert!(sent.last().unwrap().text().starts_with(note), "{sent:#?}");
}

#[tokio::test(start_paused = true)]
async fn superseding_an_idle_session_simply_starts() {
    let session = scripted([]).open();
    let run = session.prompt("Go.").when_busy(WhenBusy::Supersede).start().unwrap();
    assert_eq!(settled(&session, &run).await.stop_reason(), "end_turn");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_while_the_run_is_cancelling_waits_for_it_whatever_the_policy() {
    for policy in [WhenBusy::Reject, WhenBusy::Queue, WhenBusy::Supersede] {
        let model = ScriptedModel::new([calls(&[("m", "mule")]), says("Next.")]);
        let session = agent(&model).tool(tools::stubborn("mule", secs(60), &ToolLog::new())).open();
        let first = start_until_tool(&session, "First.", "m").await;
        first.cancel(Cancel::graceful());
        let second = session.prompt("Second.").when_busy(policy).start().unwrap();
        settle_down().await;
        assert_eq!((first.state(), second.state()), (RunState::Cancelling, RunState::Queued), "{policy:?}");
        cancelled(&session, &first).await;
        assert_eq!(settled(&session, &second).await.text_so_far(), "Next.");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_seen_the_end_of_a_run_finds_its_session_free() {
    let (session, run, _) = busy().await;
    run.cancel(Cancel::graceful());
    run.outcome().await;
    assert!(session.current().is_none());
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_full_turns_the_next_prompt_away_and_says_so() {
    let (agent, first, _) = busy().await;
    let queued: Vec<Run> = (0..64).map(|number| queue(&agent, &format!("{number}"))).collect();
    let error = agent.prompt("One too many.").when_busy(WhenBusy::Queue).start().unwrap_err();
    assert_eq!(error, StartError::QueueFull { session: agent.key().clone() });
    let expected = format!("64 runs are already waiting for session {}: try again later", agent.key());
    assert_eq!(error.to_string(), expected);

    for run in queued.iter().chain([&first]) {
        run.cancel(Cancel::now());
    }
    for run in queued.iter().chain([&first]) {
        cancelled(&agent, run).await;
    }
    assert_usable(&agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_supersedes_is_not_turned_away_by_those_that_it_replaces() {
    let (session, first, _) = busy().await;
    let queued: Vec<Run> = (0..64).map(|number| queue(&session, &format!("{number}"))).collect();
    let newest = session.prompt("Newest.").when_busy(WhenBusy::Supersede).start();
    let newest = newest.expect("it takes the place of all of them");
    for run in queued.iter().chain([&first]) {
        cancelled_because(&session, run, Reason::Superseded).await;
    }
    settled(&session, &newest).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_id_that_is_in_use_is_refused() {
    let (session, first, _) = busy().await;
    let taken =
        session.agent().session(LOCAL, "elsewhere").unwrap().prompt("Again.").run_id(first.id().clone()).start();
    let error = taken.unwrap_err();
    assert_eq!(error, StartError::RunIdTaken(first.id().clone()));
    assert_eq!(error.to_string(), format!("run id {} is in use: choose another, or leave it out", first.id()));
    stop(&session, &first, Cancel::now()).await;
}

#[tokio::test(start_paused = true)]
async fn a_history_shows_a_run_only_once_it_has_settled() {
    let (session, run, _) = busy().await;
    assert_eq!(session.history().await.unwrap(), Vec::<Arc<Message>>::new());
    stop(&session, &run, Cancel::now()).await;
    assert_eq!(session.history().await.unwrap().len(), 2);
}

// ---- several runs of one session are stopped together ----

/// Notes whose cord was pulled.
struct Noted(usize, Arc<std::sync::Mutex<Vec<usize>>>);

impl std::task::Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// A session with a run in progress and two that wait for it, cancelled like this: in which order their cords are pulled.
async fn pulled<F: Future<Output = ()>>(cancel: impl FnOnce(Session, Vec<Run>) -> F) -> Vec<usize> {
    let (session, first, _) = busy().await;
    let runs = vec![first, queue(&session, "Second."), queue(&session, "Third.")];
    settle_down().await;
    let log = Arc::default();
    let cords: Vec<_> = runs.iter().map(Run::cord).collect();
    let mut watches: Vec<_> = cords.iter().map(|cord| Box::pin(cord.pulled())).collect();
    for (number, watch) in watches.iter_mut().enumerate() {
        let waker = Arc::new(Noted(number, Arc::clone(&log))).into();
        assert!(watch.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    cancel(session.clone(), runs).await;
    assert_usable(&session).await;
    log.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn of_runs_that_are_stopped_together_those_that_wait_are_pulled_before_the_one_that_they_wait_for() {
    let last_first = [2, 1, 0];
    let by_session = pulled(|session, _| async move { drop(session.cancel()) }).await;
    let by_agent = pulled(|session, _| async move { drop(session.agent().cancel()) }).await;
    let superseded = pulled(|session, _| async move {
        let newest = session.prompt("Newest.").when_busy(WhenBusy::Supersede).start().unwrap();
        settled(&session, &newest).await;
    });
    let shutdown = pulled(|session, _| async move { session.agent().runtime().shutdown(secs(60)).await.unwrap() });
    let together = pulled(|session, runs| async move {
        let replies = session.agent().runtime().cancel_together(&runs, &Cancel::graceful());
        let of =
            |replies: &[andon_runtime::Reply]| replies.iter().map(|reply| reply.run_id().clone()).collect::<Vec<_>>();
        assert_eq!(of(&replies), runs.iter().map(|run| run.id().clone()).collect::<Vec<_>>());
    });
    let deleted = pulled(|session, _| async move {
        let cancel = Cancel::graceful();
        assert_eq!(session.agent().runtime().delete_session(session.key(), cancel).await, Ok(true));
    });
    let all = [by_session, by_agent, superseded.await, shutdown.await, together.await, deleted.await];
    assert_eq!(all, std::array::from_fn::<_, 6, _>(|_| last_first.to_vec()));
}
