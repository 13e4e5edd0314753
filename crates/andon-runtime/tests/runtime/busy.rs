//! One run at a time in a session: a second prompt is refused, waits, or takes over, as its caller chose (P8).

use andon_runtime::StartError;

use crate::common::*;

/// An agent whose first run has shown `Busy` and hangs.
async fn busy() -> (Agent, Run, ScriptedModel) {
    let model = ScriptedModel::new([says_and_hangs("Busy")]);
    let agent = agent(&model).build().unwrap();
    let run = start_until_shown(&agent, "First.", "Busy").await;
    (agent, run, model)
}

fn queue(agent: &Agent, prompt: &str) -> Run {
    agent.prompt(prompt).when_busy(WhenBusy::Queue).start().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_second_prompt_is_refused_by_default_and_the_error_says_what_to_do() {
    let (agent, run, model) = busy().await;
    let error = agent.start("Second.").unwrap_err();
    assert_eq!(error, StartError::Busy { session: agent.session_key().clone(), run: run.id().clone() });
    assert_eq!(
        error.to_string(),
        format!(
            "session {} is busy with run {}: wait for its outcome, cancel it, or start with when_busy(Queue) or \
             when_busy(Supersede)",
            agent.session_key(),
            run.id()
        )
    );
    assert_eq!((run.state(), model.calls()), (State::Running, 1));
    assert_eq!(agent.runtime().runs(), [run.id().clone()], "the refused run left nothing");
    stop(&agent, &run, Cancel::now()).await;
    assert_eq!(texts(&agent.history().await.unwrap()), ["First.", "Busy [cut]"]);
}

#[tokio::test(start_paused = true)]
async fn another_session_of_the_same_agent_is_not_busy() {
    let (agent, run, _) = busy().await;
    assert_usable(&agent.session("elsewhere").unwrap()).await;
    stop(&agent, &run, Cancel::now()).await;
}

#[tokio::test(start_paused = true)]
async fn queued_prompts_are_run_one_after_another_in_the_order_in_which_they_came() {
    let model = ScriptedModel::new([vec![Act::text("1"), Act::Pause(secs(1)), Act::end()], says("2"), says("3")]);
    let agent = agent(&model).build().unwrap();
    let first = agent.start("A").unwrap();
    let (second, third) = (queue(&agent, "B"), queue(&agent, "C"));
    until_shown(&first, "1").await;
    assert_eq!((second.state(), third.state(), model.calls()), (State::Queued, State::Queued, 1));
    assert_eq!(agent.current().unwrap().id(), first.id());
    for run in [&first, &second, &third] {
        assert_eq!(settled(&agent, run).await.stop_reason(), "end_turn");
    }
    assert_eq!(texts(&agent.history().await.unwrap()), ["A", "1", "B", "2", "C", "3"]);
    assert!(agent.current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_queued_run_that_is_cancelled_settles_at_once_and_leaves_nothing_in_the_history() {
    let (agent, first, model) = busy().await;
    let (second, third) = (queue(&agent, "Second."), queue(&agent, "Third."));
    settle_down().await;
    let outcome = stop(&agent, &second, Cancel::graceful()).await;
    assert_eq!((outcome.receipt.cut_in, first.state()), (Some(Phase::Queued), State::Running));
    assert_eq!(event_types(&second), ["run_accepted", "cancel_requested", "run_quieted", "run_settled"]);

    stop(&agent, &first, Cancel::graceful()).await;
    settled(&agent, &third).await;
    assert_eq!(texts(&agent.history().await.unwrap()), ["First.", "Busy [cut]", "Third.", "Well."]);
    assert_eq!(model.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_supersedes_stops_the_run_in_progress_and_those_that_wait_and_then_starts() {
    let (agent, first, model) = busy().await;
    let queued = queue(&agent, "Queued.");
    settle_down().await;
    let newest = agent.prompt("Newest.").when_busy(WhenBusy::Supersede).start().unwrap();
    for old in [&first, &queued] {
        let outcome = cancelled_because(&agent, old, Reason::Superseded).await;
        let note = format!("superseded by run {}", newest.id());
        assert_eq!(outcome.receipt.note.as_deref(), Some(note.as_str()));
        assert_eq!(outcome.receipt.by.as_deref(), Some("session"));
    }
    settled(&agent, &newest).await;
    assert_eq!(texts(&agent.history().await.unwrap()), ["First.", "Busy [cut]", "Newest.", "Well."]);
    let sent = model.requests()[1].prompt();
    let note = "[Your previous answer was stopped because the user sent a new request, and is incomplete.";
    assert!(sent.last().unwrap().text().starts_with(note), "{sent:#?}");
}

#[tokio::test(start_paused = true)]
async fn superseding_an_idle_session_simply_starts() {
    let agent = scripted([]).build().unwrap();
    let run = agent.prompt("Go.").when_busy(WhenBusy::Supersede).start().unwrap();
    assert_eq!(settled(&agent, &run).await.stop_reason(), "end_turn");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_while_the_run_is_cancelling_waits_for_it_whatever_the_policy() {
    for policy in [WhenBusy::Reject, WhenBusy::Queue, WhenBusy::Supersede] {
        let model = ScriptedModel::new([calls(&[("m", "mule")]), says("Next.")]);
        let agent = agent(&model).tool(tools::stubborn("mule", secs(60), &ToolLog::new())).build().unwrap();
        let first = start_until_tool(&agent, "First.", "m").await;
        first.cancel(Cancel::graceful());
        let second = agent.prompt("Second.").when_busy(policy).start().unwrap();
        settle_down().await;
        assert_eq!((first.state(), second.state()), (State::Cancelling, State::Queued), "{policy:?}");
        cancelled(&agent, &first).await;
        assert_eq!(settled(&agent, &second).await.text_so_far(), "Next.");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_seen_the_end_of_a_run_finds_its_session_free() {
    let (agent, run, _) = busy().await;
    run.cancel(Cancel::graceful());
    run.outcome().await;
    assert!(agent.current().is_none());
    assert_usable(&agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_full_turns_the_next_prompt_away_and_says_so() {
    let (agent, first, _) = busy().await;
    let queued: Vec<Run> = (0..64).map(|number| queue(&agent, &format!("{number}"))).collect();
    let error = agent.prompt("One too many.").when_busy(WhenBusy::Queue).start().unwrap_err();
    assert_eq!(error, StartError::QueueFull { session: agent.session_key().clone() });
    let expected = format!("64 runs are already waiting for session {}: try again later", agent.session_key());
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
    let (agent, first, _) = busy().await;
    let queued: Vec<Run> = (0..64).map(|number| queue(&agent, &format!("{number}"))).collect();
    let newest = agent.prompt("Newest.").when_busy(WhenBusy::Supersede).start();
    let newest = newest.expect("it takes the place of all of them");
    for run in queued.iter().chain([&first]) {
        cancelled_because(&agent, run, Reason::Superseded).await;
    }
    settled(&agent, &newest).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_id_that_is_in_use_is_refused() {
    let (agent, first, _) = busy().await;
    let taken = agent.session("elsewhere").unwrap().prompt("Again.").run_id(first.id().clone()).start();
    let error = taken.unwrap_err();
    assert_eq!(error, StartError::RunIdTaken(first.id().clone()));
    assert_eq!(error.to_string(), format!("run id {} is in use: choose another, or leave it out", first.id()));
    stop(&agent, &first, Cancel::now()).await;
}

#[tokio::test(start_paused = true)]
async fn a_history_shows_a_run_only_once_it_has_settled() {
    let (agent, run, _) = busy().await;
    assert_eq!(agent.history().await.unwrap(), Vec::<Arc<Message>>::new());
    stop(&agent, &run, Cancel::now()).await;
    assert_eq!(agent.history().await.unwrap().len(), 2);
}
