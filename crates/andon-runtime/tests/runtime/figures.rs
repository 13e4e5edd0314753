//! What a cut call used is reported as well as possible (P4), and what is learned later never holds up a run (P1, P6).

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::AddendumKind;
use andon_runtime::core::usage::{Figure, Pending, Provenance, Usage, Used};
use andon_runtime::{
    Agent, AnchorSetup, AnswerDecision, BoxFuture, CALIBRATION, Cancel, Journal, JournalError, JournalLayer,
    LastReported, MemoryJournal, Message, Outcome, Piece, Run, Runtime, Session, SessionKey,
};
use andon_testkit::{Act, After, ScriptedMeter, ScriptedModel, tools::ToolLog};
use serde_json::json;
use tokio::time::Instant;

use crate::common::{LOCAL, Open as _, memory, millis, next_runtime_on, runtime, runtime_on, secs};

fn silent_after(text: &str) -> Vec<Act> {
    vec![Act::usage(12, 0), Act::text(text), Act::Silence]
}

fn whole(text: &str, input: u64, output: u64) -> Vec<Act> {
    vec![Act::text(text), Act::usage(input, output), Act::end()]
}

fn session_on(runtime: &Runtime, model: &ScriptedModel) -> Session {
    Agent::builder().name("a").model(model.clone()).runtime(runtime).build().unwrap().session(LOCAL, "s").unwrap()
}

/// Starts a run, and pulls once it has shown something.
async fn cut(session: &Session) -> (Run, Arc<Outcome>) {
    let run = session.start("Go.").unwrap();
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, andon_runtime::FeedItem::Delta(_)) {
            break;
        }
    }
    run.cancel(Cancel::graceful());
    let outcome = run.outcome().await;
    (run, outcome)
}

#[tokio::test(start_paused = true)]
async fn a_drain_holds_nobody_up_and_its_figure_comes_as_an_addendum() {
    let runtime = runtime();
    let after = After::drained(secs(3), 70, " three four");
    let model = ScriptedModel::new([silent_after("One two")]).after_a_cut(after);
    let session = session_on(&runtime, &model);
    let asked = Instant::now();
    let (run, outcome) = cut(&session).await;
    assert!(asked.elapsed() < millis(5), "the run waited for the drain");

    let account = &outcome.receipt.model_calls[0];
    let pending = account.pending.expect("the receipt says that it is drained");
    assert_eq!(pending.what, Pending::Draining);
    assert_eq!(pending.until.0 - outcome.receipt.settled_at.unwrap().0, 60_000_000);
    assert_eq!(account.usage.billed.output.value, None, "what will be billed is not known yet");
    assert_eq!(model.open(), 1, "the connection is kept, because closing it would not stop the bill");

    let receipt = run.last_word().await.unwrap();
    assert_eq!(model.open(), 0);
    let account = &receipt.model_calls[0];
    assert_eq!((account.pending, account.usage.billed.output.value), (None, Some(70)));
    assert_eq!(account.usage.delivered.output, Figure::UNKNOWN, "what was delivered is what it was");
    assert_eq!(receipt.usage.billed.output.value, Some(70), "the sum is computed again");
    assert_eq!(receipt.revision, 2);
    let AddendumKind::Undelivered { call: 1, parts } = &receipt.addenda[0].what else {
        panic!("{:?}", receipt.addenda)
    };
    assert_eq!(parts, &[andon_runtime::Part::text(" three four")]);
    let history = session.history().await.unwrap();
    assert!(!history.iter().any(|message| message.text().contains("three")), "nobody was shown it: {history:?}");
}

#[tokio::test(start_paused = true)]
async fn the_next_prompt_does_not_wait_for_a_look_up() {
    let runtime = runtime();
    let model = ScriptedModel::new([silent_after("One two")]).after_a_cut(After::looked_up(secs(5), 33));
    let session = session_on(&runtime, &model);
    let (run, _) = cut(&session).await;
    let asked = Instant::now();
    session.run("Go on.").await.unwrap();
    assert!(asked.elapsed() < millis(5));
    assert_eq!(run.receipt().unwrap().model_calls[0].pending.unwrap().what, Pending::LookingUp);
    runtime.idle().await;
    let billed = run.receipt().unwrap().usage.billed.output;
    assert_eq!((billed.value, billed.provenance), (Some(33), Provenance::LookedUp));
}

#[tokio::test(start_paused = true)]
async fn a_figure_that_never_comes_has_a_last_word_too() {
    let runtime = runtime();
    let model = ScriptedModel::new([silent_after("One")]).after_a_cut(After::hangs(secs(9)));
    let (run, outcome) = cut(&session_on(&runtime, &model)).await;
    let asked = Instant::now();
    runtime.idle().await;
    assert!(asked.elapsed() >= secs(9) && asked.elapsed() < secs(10), "{:?}", asked.elapsed());
    let account = run.receipt().unwrap().model_calls[0].clone();
    assert_eq!((account.pending, account.usage), (None, outcome.receipt.model_calls[0].usage));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_up_what_is_still_being_learned() {
    let runtime = runtime();
    let after = After::drained(secs(50), 70, "more");
    let model = ScriptedModel::new([silent_after("One")]).after_a_cut(after);
    let (run, _) = cut(&session_on(&runtime, &model)).await;
    let asked = Instant::now();
    assert_eq!(runtime.shutdown(secs(10)).await, Ok(()));
    assert!(asked.elapsed() <= secs(10), "{:?}", asked.elapsed());
    assert_eq!(model.open(), 0, "the connection is closed");
    assert_eq!(run.receipt().unwrap().model_calls[0].pending, None, "and nobody is told to wait for it");
}

/// A model whose cut answers go on to be read until somebody asks for what came of it.
struct Endless(ScriptedModel);

struct EndlessAnswer(Box<dyn andon_runtime::Answer>);

impl andon_runtime::Model for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn call(&self, request: andon_runtime::ModelRequest) -> Box<dyn andon_runtime::Answer> {
        Box::new(EndlessAnswer(self.0.call(request)))
    }
}

impl andon_runtime::Answer for EndlessAnswer {
    fn poll_piece(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Piece, andon_runtime::ModelError>>> {
        self.0.poll_piece(cx)
    }

    fn cut(self: Box<Self>) -> Option<andon_runtime::FollowUp> {
        let (finish, finishing) = tokio::sync::oneshot::channel::<()>();
        let work = Box::pin(async move {
            finishing.await.unwrap();
            let used = Usage::new().output(Figure::bounded(Some(70), None));
            andon_runtime::Findings::new(Used::new(Usage::UNKNOWN, used))
        });
        let follow_up = andon_runtime::FollowUp::new(Pending::Draining, secs(300), work);
        Some(follow_up.finish(move || finish.send(()).unwrap()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_keeps_what_a_drain_has_learned_so_far() {
    let runtime = runtime();
    let model = Endless(ScriptedModel::new([silent_after("One")]));
    let session = Agent::builder().model(model).runtime(&runtime).open();
    let (run, _) = cut(&session).await;
    assert_eq!(runtime.shutdown(secs(10)).await, Ok(()));
    let account = run.receipt().unwrap().model_calls[0].clone();
    assert_eq!((account.pending, account.usage.billed.output.low), (None, Some(70)));
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_has_learned_nothing_and_says_so() {
    struct Panics(ScriptedModel);
    struct PanickingAnswer(Box<dyn andon_runtime::Answer>);
    impl andon_runtime::Model for Panics {
        fn name(&self) -> &str {
            "panics"
        }
        fn call(&self, request: andon_runtime::ModelRequest) -> Box<dyn andon_runtime::Answer> {
            Box::new(PanickingAnswer(self.0.call(request)))
        }
    }
    impl andon_runtime::Answer for PanickingAnswer {
        fn poll_piece(
            &mut self,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<andon_runtime::Piece, andon_runtime::ModelError>>> {
            self.0.poll_piece(cx)
        }
        fn cut(self: Box<Self>) -> Option<andon_runtime::FollowUp> {
            let work = Box::pin(async { panic!("the look-up broke") });
            Some(andon_runtime::FollowUp::new(Pending::LookingUp, secs(1), work))
        }
    }
    let runtime = runtime();
    let model = Panics(ScriptedModel::new([silent_after("One")]));
    let session = Agent::builder().model(model).runtime(&runtime).open();
    let (run, _) = cut(&session).await;
    runtime.idle().await;
    let receipt = run.receipt().unwrap();
    assert_eq!((receipt.model_calls[0].pending, receipt.revision), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_is_estimated_by_its_meter_and_never_said_to_have_used_nothing() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let text = "One two three four five six";
    let model = ScriptedModel::new([vec![Act::text(text), Act::Silence]]).metered(&meter);
    let (_, outcome) = cut(&session_on(&runtime, &model)).await;
    let usage = outcome.receipt.usage;
    assert_eq!(usage.delivered.output.value, Some(text.len() as u64 / 4 + 1));
    assert_eq!(usage.delivered.output.provenance, Provenance::Estimated);
    assert_eq!(usage.delivered.input.provenance, Provenance::Estimated);
    assert!(usage.billed.output.low.is_some_and(|low| low > 0), "at least what was delivered is billed");
    assert_eq!(meter.learned(), 0, "a cut call teaches nothing");
}

#[tokio::test(start_paused = true)]
async fn half_a_tool_call_is_counted_although_it_is_not_kept() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let call = Act::Piece(andon_runtime::Piece::Call { id: "a".into(), name: "look".into() });
    let input = Act::Piece(andon_runtime::Piece::CallInput { index: 0, json: "{\"where\": \"everywhere\"".into() });
    let model = ScriptedModel::new([vec![call, input, Act::Silence]]).metered(&meter);
    let (_, outcome) = cut(&session_on(&runtime, &model)).await;
    assert_eq!(outcome.receipt.usage.delivered.output.value, Some((4 + 22) / 4 + 1));
}

#[tokio::test(start_paused = true)]
async fn what_was_learned_is_kept_and_given_to_the_next_process() {
    let journal = memory();
    let first = runtime_on(&journal);
    let meter = Arc::<ScriptedMeter>::default();
    let model = ScriptedModel::new([whole("Yes.", 10, 3), whole("No.", 20, 4)]).metered(&meter);
    let session = session_on(&first, &model);
    for prompt in ["So?", "Or?"] {
        session.run(prompt).await.unwrap();
        first.idle().await;
    }
    assert_eq!((meter.learned(), meter.recalled().len()), (2, 0));
    let kept = journal.shelf().kept(CALIBRATION).await.unwrap();
    assert_eq!(kept, [("scripted-1".to_owned(), json!({"calls": 2, "output": 4}))]);

    let (next, meter) = (next_runtime_on(&journal), Arc::<ScriptedMeter>::default());
    let model = ScriptedModel::new([]).metered(&meter);
    let session = session_on(&next, &model);
    session.run("So?").await.unwrap();
    session.run("Or?").await.unwrap();
    let recalled = meter.recalled();
    assert_eq!(recalled.len(), 1, "once for each model: {recalled:?}");
    assert_eq!((recalled[0].about.as_str(), &recalled[0].page["calls"]), ("scripted-1", &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn what_a_meter_calls_outdated_is_discarded() {
    let journal = memory();
    for (name, page) in [("old", json!({"outdated": true})), ("scripted-1", json!({"calls": 1}))] {
        journal.shelf().keep(CALIBRATION, name, page).await.unwrap();
    }
    let runtime = runtime_on(&journal);
    let model = ScriptedModel::new([vec![Act::text("Well."), Act::end()]]).metered(&Arc::default());
    session_on(&runtime, &model).run("So?").await.unwrap();
    runtime.idle().await;
    let kept = journal.shelf().kept(CALIBRATION).await.unwrap();
    assert_eq!(kept.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["scripted-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_measured_from_the_one_before_it_in_its_run_and_in_its_session() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let asks = [Act::call(0, "a", "look", "{}"), vec![Act::usage(10, 3), Act::tool_use()]].concat();
    let model = ScriptedModel::new([asks, whole("So.", 30, 4)]).metered(&meter);
    let log = ToolLog::default();
    let builder = Agent::builder()
        .name("a")
        .model(model.clone())
        .runtime(&runtime)
        .tool(andon_testkit::tools::quick("look", &log));
    let session = builder.build().unwrap().session(LOCAL, "s").unwrap();
    session.run("Look.").await.unwrap();
    session.run("And now?").await.unwrap();
    let anchors: Vec<_> = model.requests().into_iter().map(|request| request.anchor).collect();
    let seen: Vec<_> = anchors
        .iter()
        .map(|anchor| anchor.as_ref().map(|anchor| (anchor.usage.input.value, anchor.messages)))
        .collect();
    // The first call was sent one message; the second also the answer and its result; the third also the next prompt.
    assert_eq!(seen, [None, Some((Some(10), 1)), Some((Some(30), 3))]);

    let other = session_on(&runtime, &model);
    other.run("Who are you?").await.unwrap();
    assert_eq!(model.requests()[3].anchor, None, "another agent has other instructions and tools");
}

/// What the last call that this model got was measured from: what was read, how many messages it was, and the setup.
fn measured_from(model: &ScriptedModel) -> Option<(Option<u64>, usize, AnchorSetup)> {
    let anchor = model.requests().pop().unwrap().anchor?;
    Some((anchor.usage.input.value, anchor.messages, anchor.setup))
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_measured_from_its_last_reported_call_also_after_a_restart() {
    let (journal, meter) = (memory(), Arc::<ScriptedMeter>::default());
    let model = ScriptedModel::new([whole("So.", 30, 4), whole("Yes.", 50, 4), silent_after("Well")]).metered(&meter);
    let session = session_on(&runtime_on(&journal), &model);
    session.run("Look.").await.unwrap();
    session.run("And?").await.unwrap();
    cut(&session).await;
    assert_eq!(measured_from(&model), Some((Some(50), 3, AnchorSetup::Same)));

    // Two prompts and answers were sent, and a prompt whose answer was cut came since.
    let next = ScriptedModel::new([whole("Hm.", 90, 4), whole("Oh.", 99, 4)]).metered(&meter);
    let session = session_on(&next_runtime_on(&journal), &next);
    session.run("Again?").await.unwrap();
    assert_eq!(measured_from(&next), Some((Some(50), 3, AnchorSetup::MayDiffer)));
    let request = next.requests().pop().unwrap();
    assert_eq!(request.anchor.unwrap().answered_by.as_deref(), Some("scripted-1"));
    assert_eq!(request.history.get(3).unwrap().text(), "Yes.");
    session.run("And now?").await.unwrap();
    assert_eq!(measured_from(&next), Some((Some(90), 7, AnchorSetup::Same)));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_never_measured_from_an_answer_that_a_hook_has_replaced_not_even_after_a_restart() {
    for withdraws in [false, true] {
        let (journal, meter) = (memory(), Arc::<ScriptedMeter>::default());
        let model = ScriptedModel::new([whole("So.", 30, 4), whole("Yes.", 50, 4)]).metered(&meter);
        let agent = Agent::builder().name("a").model(model).runtime(&runtime_on(&journal)).after_model(move |moment| {
            match moment.answer.text().as_str() {
                "Yes." if withdraws => AnswerDecision::Withdraw("Something much longer than that.".into()),
                "Yes." => AnswerDecision::ReplaceText("Something much longer than that.".into()),
                _ => AnswerDecision::GoOn,
            }
        });
        let session = agent.build().unwrap().session(LOCAL, "s").unwrap();
        session.run("Look.").await.unwrap();
        session.run("And?").await.unwrap();

        let next = ScriptedModel::new([whole("Hm.", 90, 4)]).metered(&meter);
        let again = Agent::builder().name("a").model(next.clone()).runtime(&next_runtime_on(&journal));
        again.build().unwrap().session(LOCAL, "s").unwrap().run("Again?").await.unwrap();
        assert_eq!(measured_from(&next), Some((Some(30), 1, AnchorSetup::MayDiffer)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_forgotten_is_measured_from_the_record() {
    let (journal, meter) = (memory(), Arc::<ScriptedMeter>::default());
    let model = ScriptedModel::new([whole("So.", 30, 4), whole("Yes.", 50, 4)]).metered(&meter);
    let clock = Arc::new(andon_runtime::TestClock::new());
    let runtime =
        Runtime::builder().journal(Arc::new(journal)).one_lane().clock(clock).seed(1).warm_sessions(0).build();
    session_on(&runtime, &model).run("Look.").await.unwrap();
    session_on(&runtime, &model).run("And?").await.unwrap();
    assert_eq!(measured_from(&model), Some((Some(30), 1, AnchorSetup::MayDiffer)));
}

#[tokio::test(start_paused = true)]
async fn two_agents_in_one_session_are_each_measured_from_their_own_calls_and_so_is_one_that_is_built_again() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let model = ScriptedModel::new([whole("A.", 30, 4), whole("B.", 900, 4), whole("A.", 60, 4)]).metered(&meter);
    let talks = |instructions: &'static str| {
        let builder = Agent::builder().name("a").model(model.clone()).runtime(&runtime).instructions(instructions);
        builder.build().unwrap().session(LOCAL, "s").unwrap()
    };
    talks("Be brief.").run("Look.").await.unwrap();
    talks("Be long.").run("Look.").await.unwrap();
    assert_eq!(measured_from(&model), None, "it is another setup");
    talks("Be brief.").run("Look.").await.unwrap();
    assert_eq!(measured_from(&model), Some((Some(30), 1, AnchorSetup::Same)));
    talks("Be long.").run("Look.").await.unwrap();
    assert_eq!(measured_from(&model), Some((Some(900), 3, AnchorSetup::Same)));
}

#[tokio::test(start_paused = true)]
async fn a_call_to_another_model_is_measured_from_nothing() {
    let (journal, meter) = (memory(), Arc::<ScriptedMeter>::default());
    let (first, second) = (runtime_on(&journal), next_runtime_on(&journal));
    let old = ScriptedModel::new([whole("So.", 30, 4)]).metered(&meter);
    session_on(&first, &old).run("Look.").await.unwrap();
    for (runtime, name) in [(&first, "renamed"), (&second, "another")] {
        let new = ScriptedModel::new([whole("Yes.", 50, 4)]).metered(&meter).named(name);
        session_on(runtime, &new).run("And?").await.unwrap();
        assert_eq!(measured_from(&new), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_output_nobody_reported_does_not_take_the_place_of_one_that_was_reported() {
    let (journal, meter) = (memory(), Arc::<ScriptedMeter>::default());
    let only_input = Usage::new().input(Figure::reported(44));
    let only_input = vec![Act::text("Or."), Act::Piece(Piece::Usage(Box::new(only_input))), Act::end()];
    let model = ScriptedModel::new([whole("So.", 30, 4), only_input, whole("Yes.", 60, 4)]).metered(&meter);
    let session = session_on(&runtime_on(&journal), &model);
    session.run("Look.").await.unwrap();
    session.run("Or?").await.unwrap();
    session.run("And?").await.unwrap();
    assert_eq!(measured_from(&model), Some((Some(30), 1, AnchorSetup::Same)));
}

/// A journal that cannot look for the last reported call.
struct Forgetful(MemoryJournal);

impl JournalLayer for Forgetful {
    fn inner(&self) -> &dyn Journal {
        &self.0
    }

    fn last_reported(&self, _session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        Box::pin(std::future::ready(Err(JournalError::Unreadable("it is torn".into()))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_last_reported_call_cannot_be_read_is_measured_from_nothing_and_goes_on() {
    let meter = Arc::<ScriptedMeter>::default();
    let journal: Arc<dyn Journal> = Arc::new(Forgetful(MemoryJournal::new()));
    for (seed, expected) in [(1, 1), (2, 3)] {
        let model = ScriptedModel::new([whole("So.", 30, 4)]).metered(&meter);
        let clock = Arc::new(andon_runtime::TestClock::new());
        let runtime = Runtime::builder().journal(Arc::clone(&journal)).one_lane().clock(clock).seed(seed).build();
        assert_eq!(session_on(&runtime, &model).run("Look.").await.unwrap().stop_reason(), "end_turn");
        assert_eq!(measured_from(&model), None);
        assert_eq!(model.requests()[0].history.len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_deleted_leaves_nothing_to_measure_from() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let model = ScriptedModel::new([whole("So.", 30, 4)]).metered(&meter);
    let agent = session_on(&runtime, &model);
    agent.run("Look.").await.unwrap();
    let session = runtime.list_sessions(Default::default()).await.unwrap()[0].key.clone();
    assert!(runtime.delete_session(&session, Cancel::graceful()).await.unwrap());
    agent.run("Look.").await.unwrap();
    assert_eq!(model.requests()[1].anchor, None);
    assert_eq!(model.requests()[1].history, [Arc::new(Message::user("Look."))]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_attempt_has_a_figure_and_the_retry_another() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let busy = vec![Act::Fail(andon_runtime::ModelError::retry_after(Duration::from_millis(10), "busy"))];
    let model = ScriptedModel::new([busy, whole("So.", 30, 4)]).metered(&meter);
    let outcome = session_on(&runtime, &model).run("Look.").await.unwrap();
    let calls = &outcome.receipt.model_calls;
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].usage.billed.output.value, Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_reports_nothing_is_estimated_also_when_the_call_completed() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let text = "One two three four five six";
    let model = ScriptedModel::new([vec![Act::text(text), Act::end()]]).metered(&meter);
    let outcome = session_on(&runtime, &model).run("Go.").await.unwrap();
    for usage in [outcome.usage.delivered, outcome.usage.billed] {
        assert_eq!(usage.output.value, Some(text.len() as u64 / 4 + 1));
        assert_eq!(usage.output.provenance, Provenance::Estimated);
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_has_answered_and_says_it_wrote_nothing_is_not_believed() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let text = "One two three four five six";
    let model = ScriptedModel::new([whole(text, 12, 0)]).metered(&meter);
    let outcome = session_on(&runtime, &model).run("Go.").await.unwrap();
    for usage in [outcome.usage.delivered, outcome.usage.billed] {
        assert_eq!(usage.input, Figure::reported(12));
        assert_eq!(usage.output.value, Some(text.len() as u64 / 4 + 1));
        assert_eq!(usage.output.provenance, Provenance::Estimated);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_call_that_had_begun_to_answer_has_written_something_whatever_was_reported() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let text = "One two three four five six";
    let model = ScriptedModel::new([vec![Act::usage(12, 0), Act::text(text), Act::Silence]]).metered(&meter);
    let (_, outcome) = cut(&session_on(&runtime, &model)).await;
    assert_eq!(outcome.usage.delivered.input.value, Some(12));
    assert_eq!(outcome.usage.delivered.output.value, Some(text.len() as u64 / 4 + 1));
}

#[tokio::test(start_paused = true)]
async fn an_estimated_input_leaves_the_reported_output_as_it_is() {
    let (runtime, meter) = (runtime(), Arc::<ScriptedMeter>::default());
    let output = Usage::new().output(Figure::reported(3));
    let answer = vec![Act::text("One two three four five six"), Act::Piece(Piece::Usage(Box::new(output))), Act::end()];
    let outcome = session_on(&runtime, &ScriptedModel::new([answer]).metered(&meter)).run("Go.").await.unwrap();
    assert_eq!(outcome.usage.delivered.output, Figure::reported(3));
    assert_eq!(outcome.usage.delivered.input.provenance, Provenance::Estimated);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_says_for_each_call_which_model_answered_and_under_which_id_however_it_ended() {
    let runtime = runtime();
    let busy = vec![Act::Fail(andon_runtime::ModelError::retry_after(millis(10), "busy"))];
    let model = ScriptedModel::new([busy, vec![Act::text("One two"), Act::Silence], whole("So.", 9, 4)]);
    let session = session_on(&runtime, &model);
    let told = |outcome: &Outcome| -> Vec<_> {
        let calls = outcome.receipt.model_calls.iter();
        calls
            .map(|call| {
                [Some(&call.model), call.answered_by.as_ref(), call.request_id.as_ref()]
                    .map(|it| it.map(|it| it.to_string()))
            })
            .collect()
    };
    let expected = |id: &str| [Some("scripted".to_owned()), Some("scripted-1".to_owned()), Some(id.to_owned())];
    let (run, stopped) = cut(&session).await;
    assert_eq!(told(&stopped), [expected("req-1"), expected("req-2")]);
    assert_eq!(told(&session.run("Go on.").await.unwrap()), [expected("req-3")]);
    assert_eq!(run.receipt().unwrap().model_calls, stopped.receipt.model_calls);
}

#[tokio::test]
async fn a_rough_figure_is_refined_once_the_meter_has_loaded_what_it_needs() {
    let runtime = runtime();
    let model = ScriptedModel::new([silent_after("One two")]).metered(&Arc::new(ScriptedMeter::unprepared()));
    let (run, outcome) = cut(&session_on(&runtime, &model)).await;
    let account = &outcome.receipt.model_calls[0];
    assert_eq!(account.pending.map(|pending| pending.what), Some(Pending::Estimating));
    assert_eq!(account.usage.delivered.output, Figure::UNKNOWN);
    let receipt = run.last_word().await.unwrap();
    let account = &receipt.model_calls[0];
    assert_eq!((account.pending, account.usage.delivered.output.value), (None, Some(2)));
    assert_eq!((receipt.revision, receipt.usage.delivered.input.value), (1, Some(12)), "what the provider said stays");
}

#[tokio::test]
async fn a_whole_answer_whose_provider_did_not_say_what_it_used_is_refined_as_well() {
    let runtime = runtime();
    let answer = vec![Act::text("One two"), Act::end()];
    let model = ScriptedModel::new([answer]).metered(&Arc::new(ScriptedMeter::unprepared()));
    let run = session_on(&runtime, &model).start("Go.").unwrap();
    let account = run.outcome().await.receipt.model_calls[0].clone();
    assert_eq!(account.pending.map(|pending| pending.what), Some(Pending::Estimating));
    let account = run.last_word().await.unwrap().model_calls[0].clone();
    assert_eq!((account.pending, account.usage.billed.output.value), (None, Some(2)));
}

/// A meter that is broken.
struct Broken;

impl andon_runtime::Meter for Broken {
    fn cut(&self, _: &andon_runtime::MeteredCall<'_>, _: andon_runtime::Usage) -> andon_runtime::Used {
        panic!("the meter broke")
    }
    fn learn(&self, _: &andon_runtime::MeteredCall<'_>, _: andon_runtime::Usage) -> Vec<andon_runtime::Lesson> {
        panic!("the meter broke")
    }
    fn recall(&self, _: Vec<andon_runtime::Lesson>) -> Vec<andon_runtime::Lesson> {
        Vec::new()
    }
}

#[tokio::test(start_paused = true)]
async fn a_meter_that_panics_costs_its_figures_and_nothing_else() {
    struct Model(ScriptedModel);
    impl andon_runtime::Model for Model {
        fn name(&self) -> &str {
            "scripted"
        }
        fn call(&self, request: andon_runtime::ModelRequest) -> Box<dyn andon_runtime::Answer> {
            self.0.call(request)
        }
        fn meter(&self) -> Option<Arc<dyn andon_runtime::Meter>> {
            Some(Arc::new(Broken))
        }
    }
    let runtime = runtime();
    let model = Model(ScriptedModel::new([silent_after("One"), whole("Two.", 3, 4)]));
    let session = Agent::builder().model(model).runtime(&runtime).open();
    let (_, outcome) = cut(&session).await;
    assert!(outcome.is_cancelled(), "{:?}", outcome.ending);
    assert_eq!(outcome.usage.delivered.input.value, Some(12), "what the provider has said stays");
    assert_eq!(session.run("Go on.").await.unwrap().stop_reason(), "end_turn");
}

#[test]
fn a_pending_figure_has_its_last_word_though_the_callers_tokio_runtime_is_dropped() {
    let runtime = Runtime::builder().build();
    let model = ScriptedModel::new([silent_after("One")]).after_a_cut(After::looked_up(secs(60), 40));
    let session = Agent::builder().name("a").model(model).runtime(&runtime).open();
    let callers = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let run = callers.block_on(async { cut(&session).await.0 });
    drop(callers);
    let next = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let receipt = next.block_on(async { tokio::time::timeout(secs(30), run.last_word()).await }).unwrap().unwrap();
    assert_eq!((receipt.model_calls[0].pending, receipt.revision), (None, 1), "{:?}", receipt.model_calls);
}
