//! A cancel reaches exactly the run that it names, once, and every caller is told what it did (P6, P9).

use andon_runtime::AgentReply;

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn cancel_before_the_run_starts_makes_no_model_call() {
    let model = ScriptedModel::new([says("Never said.")]);
    let session = agent(&model).open();

    let run = session.start("Go.").unwrap();
    let reply = run.cancel(Cancel::graceful());

    assert_eq!(*reply.kind(), ReplyKind::Accepted);
    cancelled(&session, &run).await;
    assert_eq!(event_types(&run), ["run_accepted", "cancel_requested", "run_quieted", "run_settled"]);
    assert_eq!(model.calls(), 0);
    assert_eq!(run.passed(), andon_runtime::GateCounts::default());
    assert_eq!(run.receipt().unwrap().cut_in, Some(Phase::Queued));
    assert_eq!(session.history().await.unwrap(), Vec::<Arc<Message>>::new());
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_agent_that_is_cancelled_arms_and_only_its_next_run_is_cancelled() {
    let model = ScriptedModel::new([]);
    let session = agent(&model).open();

    let reply = session.agent().cancel_with(Cancel::graceful().by("ada").note("before you begin"));
    assert!(matches!(reply, AgentReply::Armed));
    assert_eq!(reply.kind(), ReplyKind::Armed);

    let run = session.start("First.").unwrap();
    let outcome = cancelled(&session, &run).await;
    assert_eq!(outcome.receipt.by.as_deref(), Some("ada"));
    assert_eq!(outcome.receipt.note.as_deref(), Some("before you begin"));
    assert_eq!(model.calls(), 0);

    assert_usable(&session).await;
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn arming_twice_is_arming_once_and_can_be_taken_back() {
    let session = scripted([]).open();
    assert!(!session.agent().disarm(), "it was not armed");
    session.agent().cancel();
    session.agent().cancel();
    assert!(session.agent().disarm());
    assert!(!session.agent().disarm());
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn an_arm_stops_only_the_agent_that_was_armed() {
    let runtime = runtime();
    let model = ScriptedModel::new([]);
    let build = |name: &str| Agent::builder().name(name).model(model.clone()).runtime(&runtime).open();
    let (armed, other) = (build("armed"), build("other"));
    armed.agent().cancel();
    assert_usable(&other).await;
    assert_eq!(armed.run("Go.").await.unwrap().stop_reason(), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_run_that_has_settled_never_arms_and_never_hits_the_next_run() {
    let session = scripted([]).open();
    let run = session.start("First.").unwrap();
    run.outcome().await;
    assert_eq!(run.cancel(Cancel::now()).kind().as_str(), "too_late");
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_names_one_of_two_runs_and_the_other_goes_on() {
    let model = ScriptedModel::new([says_and_hangs("One "), vec![Act::text("Two "), Act::Pause(secs(5)), Act::end()]]);
    let one = agent(&model).open();
    let two = one.agent().session(LOCAL, "other").unwrap();
    let (first, second) = (one.start("1").unwrap(), two.start("2").unwrap());
    until_shown(&first, "One").await;
    until_shown(&second, "Two").await;

    let reply = one.agent().runtime().cancel(first.id(), Cancel::graceful()).await.unwrap();
    assert_eq!((reply.kind(), reply.run_id()), (&ReplyKind::Accepted, first.id()));

    assert_eq!(cancelled(&one, &first).await.text_so_far(), "One ");
    assert_eq!(second.state(), RunState::Running);
    assert_eq!(settled(&two, &second).await.stop_reason(), "end_turn");
}

#[tokio::test(start_paused = true)]
async fn agent_cancel_stops_every_run_of_the_agent_and_no_other() {
    let runtime = runtime();
    let model = ScriptedModel::new([says_and_hangs("a "), says_and_hangs("b "), says_and_hangs("c ")]);
    let build = || Agent::builder().model(model.clone()).runtime(&runtime).open();
    let (session, other) = (build(), build());
    let elsewhere = session.agent().session(LOCAL, "elsewhere").unwrap();
    let runs = [session.start("1").unwrap(), elsewhere.start("2").unwrap()];
    let bystander = other.start("3").unwrap();
    for run in runs.iter().chain([&bystander]) {
        until_shown(run, " ").await;
    }

    let AgentReply::Runs(replies) = session.agent().cancel() else { panic!("runs were in progress") };

    let accepted = |run: &andon_runtime::Run| (run.id().clone(), ReplyKind::Accepted);
    let told: Vec<_> = replies.iter().map(|reply| (reply.run_id().clone(), reply.kind().clone())).collect();
    assert_eq!(told, runs.iter().map(accepted).collect::<Vec<_>>());
    cancelled(&session, &runs[0]).await;
    cancelled(&elsewhere, &runs[1]).await;
    assert_eq!(bystander.state(), RunState::Running);
    stop(&other, &bystander, Cancel::now()).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_an_id_that_nobody_knows_is_not_found_and_of_a_settled_one_too_late() {
    let session = scripted([]).open();
    let run = session.start("Go.").unwrap();
    let outcome = run.outcome().await;
    let runtime = session.agent().runtime();

    let reply = runtime.cancel(&andon_runtime::RunId::new("nobody").unwrap(), Cancel::now()).await.unwrap();
    assert_eq!(*reply.kind(), ReplyKind::NotFound);
    let reply = runtime.cancel(run.id(), Cancel::now()).await.unwrap();
    assert_eq!(*reply.kind(), ReplyKind::TooLate { outcome: Arc::clone(&outcome.ending) });
    assert_eq!(reply.too_late(), Some(&Ending::Completed { stop: ModelStop::EndTurn }));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_run_that_another_process_drives_is_not_running_and_changes_nothing() {
    let journal = memory();
    let model = ScriptedModel::new([vec![Act::text("Half "), Act::Pause(secs(1)), Act::text("done."), Act::end()]]);
    let session = Agent::builder().model(model).runtime(&runtime_on(&journal)).open();
    let run = start_until_shown(&session, "Go.", "Half").await;

    let reply = next_runtime_on(&journal).cancel(run.id(), Cancel::now()).await.unwrap();
    assert_eq!((reply.kind(), reply.run_id()), (&ReplyKind::NotRunning, run.id()));
    assert_eq!((reply.is_stopping(), reply.recorded().await), (false, Ok(())));
    assert_eq!(settled(&session, &run).await.text_so_far(), "Half done.");

    let reply = next_runtime_on(&journal).cancel(run.id(), Cancel::now()).await.unwrap();
    assert_eq!(reply.too_late(), Some(&Ending::Completed { stop: ModelStop::EndTurn }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_cancels_from_fifty_threads_are_one_stop_and_every_caller_is_told() {
    let model = ScriptedModel::new([says_and_hangs("Shown.")]);
    let session = Agent::builder().model(model.clone()).runtime(&andon_runtime::Runtime::builder().build()).open();
    let run = start_until_shown(&session, "Go.", "Shown.").await;

    let accepted = AtomicUsize::new(0);
    let barrier = std::sync::Barrier::new(50);
    let replies: Vec<andon_runtime::Reply> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50)
            .map(|_| {
                let (cord, barrier, accepted) = (run.cord(), &barrier, &accepted);
                scope.spawn(move || {
                    barrier.wait();
                    let pull = |_| {
                        let reply = cord.pull(Cancel::graceful());
                        accepted.fetch_add(usize::from(*reply.kind() == ReplyKind::Accepted), Ordering::SeqCst);
                        reply
                    };
                    (0..2).map(pull).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });

    assert_eq!(replies.len(), 100);
    assert_eq!(accepted.into_inner(), 1);
    for reply in &replies {
        assert!(matches!(reply.kind(), ReplyKind::Accepted | ReplyKind::AlreadyCancelling | ReplyKind::TooLate { .. }));
        assert_eq!(reply.recorded().await, Ok(()));
    }
    let outcome = cancelled(&session, &run).await;
    assert_eq!(outcome.text_so_far(), "Shown.");
    assert_eq!(count(&run, |event| matches!(event, Event::CancelRequested { .. })), 1);
    assert_eq!(count(&run, |event| matches!(event, Event::RunSettled { .. })), 1);
    assert_eq!(outcome.receipt.requests.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_races_the_finish_wins_or_is_told_that_it_lost() {
    let runtime = andon_runtime::Runtime::builder().build();
    let session = Agent::builder().model(ScriptedModel::new([])).runtime(&runtime).open();
    for lap in 0..200_u64 {
        let session = session.agent().session(LOCAL, format!("lap-{lap}")).unwrap();
        let run = session.start("Go.").unwrap();
        let cord = run.cord();
        let puller = std::thread::spawn(move || {
            for _ in 0..lap * 20 {
                std::hint::spin_loop();
            }
            cord.pull(Cancel::graceful())
        });
        let outcome = settled(&session, &run).await;
        let reply = puller.join().unwrap();
        match &*outcome.ending {
            Ending::Cancelled { reason: Reason::Requested } => assert_eq!(*reply.kind(), ReplyKind::Accepted),
            Ending::Completed { .. } => assert_eq!(reply.too_late(), Some(&*outcome.ending)),
            other => panic!("neither completed nor cancelled: {other:?}"),
        }
        let again = run.cancel(Cancel::now());
        assert_eq!(again.too_late(), Some(&*outcome.ending), "the outcome is never overwritten");
    }
}
