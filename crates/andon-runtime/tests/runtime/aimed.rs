//! An agent has no conversation, sessions are kept apart, and a cancel of one reaches nobody else (P9).

use andon_runtime::SessionError;

use crate::common::held::{HeldJournal, is_end};
use crate::common::*;

/// An agent whose every run shows `Hm` and hangs.
fn hanging(runs: usize) -> Agent {
    scripted(std::iter::repeat_with(|| says_and_hangs("Hm")).take(runs)).build().unwrap()
}

async fn talking(session: &Session) -> Run {
    start_until_shown(session, "Go.", "Hm").await
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_one_users_session_leaves_another_users_run_alone() {
    let agent = hanging(2);
    let (ada, bob) = (agent.session("ada", "monday").unwrap(), agent.session("bob", "monday").unwrap());
    let (hers, his) = (talking(&ada).await, talking(&bob).await);

    let reply = ada.cancel_with(Cancel::graceful().by("ada"));

    assert_eq!((reply.kind(), reply.is_stopping()), (ReplyKind::Accepted, true));
    assert_eq!(reply.recorded().await, Ok(()));
    let told: Vec<_> = reply.runs().iter().map(|reply| reply.run_id().clone()).collect();
    assert_eq!(told, [hers.id().clone()]);
    assert_eq!(cancelled(&ada, &hers).await.receipt.by.as_deref(), Some("ada"));
    assert_eq!(his.state(), RunState::Running);
    stop(&bob, &his, Cancel::now()).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_one_session_leaves_the_same_users_other_session_alone() {
    let agent = hanging(2);
    let [monday, tuesday] = ["monday", "tuesday"].map(|day| agent.session("ada", day).unwrap());
    let (first, second) = (talking(&monday).await, talking(&tuesday).await);
    monday.cancel();
    cancelled(&monday, &first).await;
    assert_eq!((tuesday.current().unwrap().id(), second.state()), (second.id(), RunState::Running));
    tuesday.cancel();
    cancelled(&tuesday, &second).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_an_idle_session_says_so_and_touches_no_next_run() {
    let agent = scripted([]).build().unwrap();
    let (ada, bob) = (agent.session("ada", "monday").unwrap(), agent.session("bob", "monday").unwrap());
    for cancel in [Cancel::graceful(), Cancel::now(), Cancel::after_turn()] {
        let reply = ada.cancel_with(cancel);
        assert_eq!((reply.kind(), reply.runs().len(), reply.is_stopping()), (ReplyKind::NotRunning, 0, false));
        assert_eq!(reply.recorded().await, Ok(()));
    }
    assert!(!agent.disarm(), "it has armed nothing");
    assert_usable(&bob).await;
    assert_usable(&ada).await;
    assert_eq!(ada.cancel().kind(), ReplyKind::NotRunning, "the run is over");
    assert_usable(&ada).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_session_reaches_those_that_wait_in_it_and_none_of_them_begins() {
    let model = ScriptedModel::new([says_and_hangs("Hm")]);
    let session = agent(&model).open();
    let seated = talking(&session).await;
    let queue = |text: &str| session.prompt(text).when_busy(WhenBusy::Queue).start().unwrap();
    let queued = [queue("Second."), queue("Third.")];

    let reply = session.cancel();

    let told: Vec<_> = reply.runs().iter().map(|reply| (reply.run_id().clone(), reply.kind().clone())).collect();
    let all = [&seated, &queued[0], &queued[1]];
    assert_eq!(told, all.map(|run| (run.id().clone(), ReplyKind::Accepted)));
    for run in all {
        cancelled(&session, run).await;
    }
    assert_eq!((model.calls(), session.cancel().kind()), (1, ReplyKind::NotRunning));
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_cancel_of_a_session_hardens_or_says_that_it_is_stopping() {
    let mule = tools::stubborn("mule", secs(60), &ToolLog::new());
    let session = scripted([calls(&[("m", "mule")])]).tool(mule).open();
    let run = start_until_tool(&session, "Go.", "m").await;
    let replies =
        [Cancel::graceful(), Cancel::graceful(), Cancel::now()].map(|cancel| session.cancel_with(cancel).kind());
    assert_eq!(replies, [ReplyKind::Accepted, ReplyKind::AlreadyCancelling, ReplyKind::Hardened]);
    cancelled(&session, &run).await;
    assert_usable(&session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_cancelled_all_the_time_never_disturbs_its_neighbour() {
    let runtime = Runtime::builder().build();
    let agent = Agent::builder().model(ScriptedModel::new([])).runtime(&runtime).build().unwrap();
    let (ada, bob) = (agent.session("ada", "monday").unwrap(), agent.session("bob", "monday").unwrap());
    let is_over = Arc::new(AtomicBool::new(false));
    let (cancelled, over) = (ada.clone(), Arc::clone(&is_over));
    let puller = std::thread::spawn(move || {
        while !over.load(Ordering::SeqCst) {
            cancelled.cancel();
        }
    });
    for _ in 0..200 {
        let (hers, his) = tokio::join!(ada.run("Go."), bob.run("Go."));
        assert!(matches!(hers.unwrap().stop_reason(), "cancelled" | "end_turn"));
        assert_eq!(his.unwrap().stop_reason(), "end_turn");
    }
    is_over.store(true, Ordering::SeqCst);
    puller.join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_visitor_is_not_sent_the_first_ones_messages() {
    let model = ScriptedModel::new([says("Noted."), says("Hello.")]);
    let agent = agent(&model).build().unwrap();
    let first = agent.start("My password is hunter2").unwrap();
    first.outcome().await;
    let second = agent.start("Hello").unwrap();
    second.outcome().await;

    let asked: Vec<Vec<String>> = model.requests().iter().map(|request| texts(&request.history.to_vec())).collect();
    assert_eq!(asked, [["My password is hunter2"], ["Hello"]]);
    assert_ne!(first.session(), second.session());
    let hers = agent.session_by_key(first.session()).unwrap();
    assert_eq!(texts(&hers.history().await.unwrap()), ["My password is hunter2", "Noted."], "it is kept all the same");
}

#[tokio::test(start_paused = true)]
async fn questions_to_one_agent_do_not_wait_for_each_other() {
    let agent = hanging(2);
    let runs = [agent.start("Go.").unwrap(), agent.start("Go.").unwrap()];
    for run in &runs {
        until_shown(run, "Hm").await;
    }
    for run in &runs {
        run.cancel(Cancel::now());
        run.outcome().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_opened_twice_is_one_conversation() {
    let agent = hanging(1);
    let [one, same] = [0, 1].map(|_| agent.session("ada", "monday").unwrap());
    let run = talking(&one).await;
    assert_eq!(same.current().unwrap().id(), run.id());
    assert!(same.start("Me too.").is_err(), "it is busy");
    assert_eq!(same.cancel().kind(), ReplyKind::Accepted);
    cancelled(&one, &run).await;
    assert_eq!(same.history().await.unwrap(), one.history().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn agents_of_different_names_have_different_conversations_of_one_name() {
    let runtime = runtime();
    let open = |name: &str| {
        let model = ScriptedModel::new([says(name)]);
        let agent = Agent::builder().name(name).model(model).runtime(&runtime).build().unwrap();
        agent.session("ada", "monday").unwrap()
    };
    let (writer, critic) = (open("writer"), open("critic"));
    writer.run("Write.").await.unwrap();
    critic.run("Judge.").await.unwrap();
    assert_eq!(texts(&writer.history().await.unwrap()), ["Write.", "writer"]);
    assert_eq!(texts(&critic.history().await.unwrap()), ["Judge.", "critic"]);
}

#[tokio::test(start_paused = true)]
async fn two_versions_of_one_agent_take_turns_in_one_conversation() {
    let runtime = runtime();
    let open = |instructions: &'static str, answer: &str| {
        let model = ScriptedModel::new([says_and_hangs(answer), says(answer)]);
        let agent = Agent::builder().name("guide").instructions(instructions).model(model).runtime(&runtime);
        agent.build().unwrap().session("ada", "monday").unwrap()
    };
    let (old, new) = (open("Be brief.", "Old"), open("Be kind.", "New"));
    let run = start_until_shown(&old, "One.", "Old").await;
    assert!(matches!(new.start("Two."), Err(andon_runtime::StartError::Busy { .. })));
    assert_eq!(new.cancel().kind(), ReplyKind::Accepted, "it is the same session");
    cancelled(&old, &run).await;
    let run = start_until_shown(&new, "Two.", "New").await;
    stop(&new, &run, Cancel::graceful()).await;
    assert_eq!(texts(&old.history().await.unwrap()), ["One.", "Old [cut]", "Two.", "New [cut]"]);
    assert_usable(&old).await;
}

#[tokio::test(start_paused = true)]
async fn two_agents_that_nobody_named_are_refused_the_same_session_and_say_what_to_do() {
    let runtime = runtime();
    let build = |instructions: &'static str| {
        let agent = Agent::builder().instructions(instructions).model(ScriptedModel::new([])).runtime(&runtime);
        agent.build().unwrap()
    };
    let (writer, critic) = (build("Write."), build("Judge."));
    let hers = writer.session("ada", "monday").unwrap();
    let refused = critic.session("ada", "monday").unwrap_err();
    assert_eq!(refused, SessionError::TwoUnnamed(Box::new(hers.key().clone())));
    let expected = "two different agents without a name want session agent/ada/monday, and would read each other's messages: \
                    give each its own name, with Agent::builder().name(..)";
    assert_eq!(refused.to_string(), expected);
    assert!(critic.session_by_key(hers.key()).is_err());

    // What was built twice in the same way is one agent, and so is what comes after the other is gone.
    assert_usable(&build("Write.").session("ada", "monday").unwrap()).await;
    assert_usable(&critic.session("ada", "tuesday").unwrap()).await;
    drop((writer, hers));
    assert_usable(&critic.session("ada", "monday").unwrap()).await;
}

/// Also when nothing of the session is in memory, and when the first agent only asked a question.
#[tokio::test(start_paused = true)]
async fn two_agents_that_nobody_named_never_read_each_others_messages_while_both_live() {
    let clock = Arc::new(andon_runtime::TestClock::new());
    let runtime = Runtime::builder().one_lane().clock(clock).seed(1).warm_sessions(0).build();
    let build = |instructions: &'static str| {
        let agent = Agent::builder().instructions(instructions).model(ScriptedModel::new([])).runtime(&runtime);
        agent.build().unwrap()
    };
    let (writer, critic) = (build("Write."), build("Judge."));
    let named = Agent::builder().name("agent").model(ScriptedModel::new([])).runtime(&runtime).build().unwrap();
    writer.session("ada", "monday").unwrap().run("I am Ada.").await.unwrap();
    let asked = writer.start("I am Bob.").unwrap();
    asked.outcome().await;
    let made_up = writer.new_session("ada").unwrap().key().clone();
    named.session("ada", "friday").unwrap().run("I am Ada.").await.unwrap();

    for other in [&critic, &named] {
        assert!(other.session("ada", "monday").is_err());
        assert!(other.session_by_key(asked.session()).is_err());
        assert!(other.session_by_key(&made_up).is_err());
    }
    assert!(writer.session("ada", "friday").is_err(), "the name was given, and nobody gave it to this one");
    assert_usable(&writer.session_by_key(asked.session()).unwrap()).await;
    drop(writer);
    assert_usable(&critic.session("ada", "monday").unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_agent_is_refused_and_the_error_says_whose_it_is() {
    let agent = scripted([]).name("critic").build().unwrap();
    let key = SessionKey::new("writer", "ada", "monday").unwrap();
    let refused = agent.session_by_key(&key).unwrap_err();
    let expected = "session writer/ada/monday belongs to the agent \"writer\", not to \"critic\": open it with an agent of \
                    that name";
    assert_eq!(refused.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn agent_cancel_reaches_the_runs_of_all_users_and_arms_for_all_of_them() {
    let agent = hanging(2);
    let (ada, bob) = (agent.session("ada", "monday").unwrap(), agent.session("bob", "monday").unwrap());
    let (hers, his) = (talking(&ada).await, talking(&bob).await);
    agent.cancel();
    cancelled(&ada, &hers).await;
    cancelled(&bob, &his).await;
    assert_eq!(agent.cancel().kind(), ReplyKind::Armed);
    assert_eq!(bob.run("Go.").await.unwrap().stop_reason(), "cancelled");
    assert_usable(&ada).await;
}

#[tokio::test(start_paused = true)]
async fn agent_cancel_says_that_a_run_is_stopping_although_an_older_one_had_ended_already() {
    let journal = HeldJournal::new(is_end);
    let shared = Arc::clone(&journal) as Arc<dyn Journal>;
    let runtime = Runtime::builder().journal(shared).one_lane().clock(Arc::new(TestClock::new())).seed(1).build();
    let model =
        ScriptedModel::new([answer([vec![Act::text("Hm"), Act::Pause(secs(1))], says("Done.")]), says_and_hangs("Hm")]);
    let agent = Agent::builder().model(model).runtime(&runtime).build().unwrap();
    let (ada, bob) = (agent.session("ada", "monday").unwrap(), agent.session("bob", "monday").unwrap());
    let (hers, his) = (talking(&ada).await, talking(&bob).await);
    journal.until_a_batch_is_held().await;

    let reply = agent.cancel();

    let each: Vec<_> = reply.runs().iter().map(|reply| (reply.run_id(), reply.kind().as_str())).collect();
    assert_eq!(each, [(hers.id(), "too_late"), (his.id(), "accepted")]);
    assert_eq!((reply.kind(), reply.is_stopping()), (ReplyKind::Accepted, true), "no answer is more reassuring");
    journal.release().await;
    assert_eq!(reply.recorded().await, Ok(()));
    assert!(hers.try_outcome().is_some() && count(&his, |event| event.is_request()) == 1, "both are on disk");
    cancelled(&bob, &his).await;
    let armed = agent.cancel();
    assert_eq!((armed.kind(), armed.runs().len(), armed.is_stopping()), (ReplyKind::Armed, 0, false));
    assert_eq!(armed.recorded().await, Ok(()));
}
