//! Reaching a limit is a pull like any other, and its note says which limit; a failed call is retried only if nothing
//! was shown.

use std::sync::atomic::{AtomicUsize, Ordering};

use andon_runtime::core::usage::{Usage, Used};
use andon_runtime::{Lesson, Meter, MeteredCall, Model, ModelError, ModelLayer, Retry, StartError};

use crate::common::*;

/// A meter that knows nothing, and counts how often it is asked.
#[derive(Default)]
struct CountingMeter(AtomicUsize);

impl CountingMeter {
    fn asked(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Meter for CountingMeter {
    fn cut(&self, _: &MeteredCall<'_>, known: Usage) -> Used {
        self.0.fetch_add(1, Ordering::SeqCst);
        Used::cut(known)
    }
    fn learn(&self, _: &MeteredCall<'_>, _: Usage) -> Vec<Lesson> {
        Vec::new()
    }
    fn recall(&self, _: Vec<Lesson>) -> Vec<Lesson> {
        Vec::new()
    }
}

/// A model with such a meter.
struct Counted(ScriptedModel, Arc<CountingMeter>);

impl ModelLayer for Counted {
    fn inner(&self) -> &dyn Model {
        &self.0
    }

    fn name(&self) -> &str {
        "counted"
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        Some(Arc::clone(&self.1) as Arc<dyn Meter>)
    }
}

async fn stopped_by_limit(session: &Session, run: &Run, reason: Reason) -> String {
    let outcome = cancelled_because(session, run, reason).await;
    assert_eq!(outcome.receipt.by.as_deref(), Some("limit"));
    outcome.receipt.note.as_deref().unwrap().to_owned()
}

fn delays(run: &Run) -> Vec<u64> {
    let delay = |event: Event| match event {
        Event::BackoffStarted { delay_ms } => Some(delay_ms),
        _ => None,
    };
    events(run).into_iter().filter_map(delay).collect()
}

fn failed(error: FailureKind, message: &str) -> Ending {
    Ending::Failed(Failure::new(error, message.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_run_is_cancelled_at_its_deadline_and_keeps_what_it_has() {
    let model = ScriptedModel::new([says_and_hangs("So far")]);
    let limits = Limits::new().deadline(secs(30));
    let session = agent(&model).limits(limits).open();
    let began = Instant::now();
    let run = session.start("Go.").unwrap();
    let note = stopped_by_limit(&session, &run, Reason::Deadline).await;
    assert_eq!((note.as_str(), began.elapsed()), ("the deadline of 30s was reached", secs(30)));
    assert_eq!((run.outcome().await.text_so_far().as_str(), model.open()), ("So far", 0));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_while_a_tool_runs_while_a_person_is_asked_and_in_a_back_off() {
    let log = ToolLog::new();
    let slow = ScriptedModel::new([calls(&[("s", "slow")])]);
    let asked = ScriptedModel::new([calls(&[("g", "danger")])]);
    let busy = ScriptedModel::new([vec![Act::Fail(ModelError::retry_after(secs(200), "429"))]]);
    for model in [slow, asked, busy] {
        let session = agent(&model)
            .limits(Limits::new().deadline(secs(30)))
            .tool(tools::cooperative("slow", secs(600), &log))
            .tool(tools::quick("danger", &log).needs_approval())
            .open();
        let began = Instant::now();
        let run = session.start("Go.").unwrap();
        stopped_by_limit(&session, &run, Reason::Deadline).await;
        assert_eq!(began.elapsed(), secs(30));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_while_the_run_waits_for_its_session() {
    let session = scripted([says_and_hangs("Busy")]).open();
    let first = start_until_shown(&session, "First.", "Busy").await;
    let limits = Limits::new().deadline(secs(5));
    let queued = session.prompt("Second.").when_busy(andon_runtime::WhenBusy::Queue).limits(limits).start().unwrap();
    stopped_by_limit(&session, &queued, Reason::Deadline).await;
    first.cancel(andon_runtime::Cancel::now());
    settled(&session, &first).await;
    assert_eq!(texts(&session.history().await.unwrap()), ["First.", "Busy [cut]"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_sends_nothing_for_too_long_is_stopped_and_one_that_drips_is_not() {
    let limits = Limits::new().silence(secs(10));
    let drip = || vec![Act::text("drip "), Act::Pause(secs(9))];
    let model = ScriptedModel::new([answer([drip(), drip(), drip(), vec![Act::end()]]), says_and_hangs("And then")]);
    let session = agent(&model).limits(limits).open();
    assert_eq!(session.run("Drip.").await.unwrap().stop_reason(), "end_turn");

    let began = Instant::now();
    let run = session.start("Hang.").unwrap();
    let note = stopped_by_limit(&session, &run, Reason::Deadline).await;
    assert_eq!((note.as_str(), began.elapsed()), ("the model sent nothing for 10s", secs(10)));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_silent_from_the_beginning_is_stopped_too() {
    let limits = Limits::new().silence(secs(10));
    let session = scripted([vec![Act::Silence]]).limits(limits).open();
    let run = session.start("Hello?").unwrap();
    stopped_by_limit(&session, &run, Reason::Deadline).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_disk_is_not_taken_for_a_silent_model() {
    let drip = |text: &str| vec![Act::text(text), Act::Pause(millis(60))];
    let model = ScriptedModel::new([answer([drip("a "), drip("b "), drip("c "), vec![Act::end()]])]);
    let runtime = runtime_on(&TestJournal::slow(None, secs(20)));
    let limits = Limits::new().silence(secs(10));
    let session = Agent::builder().model(model).runtime(&runtime).limits(limits).open();
    let (_, outcome) = run_to_end(&session, "Drip.").await;
    assert_eq!((outcome.stop_reason(), outcome.text_so_far().as_str()), ("end_turn", "a b c "));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_would_need_more_turns_than_it_has_is_stopped_before_the_next_call() {
    let model = ScriptedModel::new([calls(&[("a", "look")]), calls(&[("b", "look")]), says("Never.")]);
    let limits = Limits::new().turns(2);
    let session = agent(&model).limits(limits).tool(tools::quick("look", &ToolLog::new())).open();
    let run = session.start("Go.").unwrap();
    let note = stopped_by_limit(&session, &run, Reason::Budget).await;
    assert_eq!((note.as_str(), model.calls()), ("the limit of 2 turns was reached", 2));
    assert_eq!(result_of(&session.history().await.unwrap(), "b").to_text(), "quick result");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_done_in_its_last_turn_is_completed() {
    let model = ScriptedModel::new([calls(&[("a", "look")]), says("Done.")]);
    let limits = Limits::new().turns(2);
    let session = agent(&model).limits(limits).tool(tools::quick("look", &ToolLog::new())).open();
    assert_eq!(session.run("Go.").await.unwrap().stop_reason(), "end_turn");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_used_its_tokens_makes_no_further_call() {
    let model = ScriptedModel::new([calls(&[("a", "look")]), says("Never.")]);
    let limits = Limits::new().tokens(12);
    let session = agent(&model).limits(limits).tool(tools::quick("look", &ToolLog::new())).open();
    let run = session.start("Go.").unwrap();
    let note = stopped_by_limit(&session, &run, Reason::Budget).await;
    assert_eq!((note.as_str(), model.calls()), ("the limit of 12 tokens was reached: at least 12 are used", 1));
    assert_eq!(result_of(&session.history().await.unwrap(), "a").to_text(), "quick result");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_whole_is_completed_also_if_its_usage_passes_the_limit() {
    let model = ScriptedModel::new([vec![Act::text("Dear."), Act::usage(500, 500), Act::end()]]);
    let session = agent(&model).limits(Limits::new().tokens(100)).open();
    assert_eq!(run_to_end(&session, "Go.").await.1.stop_reason(), "end_turn");
}

/// An answer that exceeds 100 tokens by ten, before its end.
fn dear_answer() -> ScriptedModel {
    let before = vec![Act::usage(50, 1), Act::text("One ")];
    ScriptedModel::new([answer([before, vec![Act::usage(50, 60), Act::text("two "), Act::end()]])])
}

#[tokio::test(start_paused = true)]
async fn a_running_usage_that_passes_the_limit_cuts_the_answer_in_mid_stream() {
    let model = dear_answer();
    let session = agent(&model).limits(Limits::new().tokens(100)).open();
    let run = session.start("Go.").unwrap();
    let note = stopped_by_limit(&session, &run, Reason::Budget).await;
    assert!(note.starts_with("the limit of 100 tokens was reached"), "{note}");
    assert_eq!((run.outcome().await.text_so_far().as_str(), model.open()), ("One ", 0));
}

/// Six hundred words, and a report only after the last of them.
fn reports_at_its_end() -> Vec<Act> {
    let words = std::iter::repeat_n(Act::text("another "), 600).collect();
    answer([words, vec![Act::usage(10, 600), Act::end()]])
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_provider_reports_at_its_end_is_cut_once_it_has_certainly_passed_the_limit() {
    let model = ScriptedModel::new([reports_at_its_end()]).metered(&Arc::default());
    let session = agent(&model).limits(Limits::new().tokens(60)).open();
    let run = session.start("Go.").unwrap();
    let note = stopped_by_limit(&session, &run, Reason::Budget).await;
    assert!(note.starts_with("the limit of 60 tokens was reached: at least 6"), "{note}");
    let outcome = run.outcome().await;
    // The meter takes four bytes for a token, and only a quarter of that to be certain.
    assert!((960..1_400).contains(&outcome.text_so_far().len()), "{}", outcome.text_so_far().len());
    assert_eq!(model.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn half_of_a_long_request_counts_before_its_provider_has_counted_it() {
    let model = ScriptedModel::new([reports_at_its_end()]).metered(&Arc::default());
    let session = agent(&model).limits(Limits::new().tokens(900)).open();
    // About 2,000 tokens, of which the meter takes no more than a few hundred to be certain.
    let run = session.start("again and again ".repeat(500)).unwrap();
    stopped_by_limit(&session, &run, Reason::Budget).await;
    let shown = run.outcome().await.text_so_far().len();
    assert!(shown < 1_000, "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_report_that_says_the_same_all_the_way_lets_no_answer_through() {
    let piece = || vec![Act::text(&"another ".repeat(100)), Act::usage(10, 1)];
    let stale = answer((0..100).map(|_| piece()).chain([vec![Act::end()]]));
    let model = ScriptedModel::new([stale]);
    let session = agent(&model).limits(Limits::new().tokens(60)).open();
    let run = session.start("Go.").unwrap();
    stopped_by_limit(&session, &run, Reason::Budget).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_meter_is_cut_when_its_text_cannot_have_fewer_tokens() {
    let flood = || vec![Act::Flood("another ", 8_000), Act::usage(10, 600), Act::end()];
    let model = ScriptedModel::new([flood()]);
    let session = agent(&model).limits(Limits::new().tokens(60)).open();
    let run = session.start("Go.").unwrap();
    stopped_by_limit(&session, &run, Reason::Budget).await;
    let shown = run.outcome().await.text_so_far().len();
    assert!((60 * 512..64_000).contains(&shown), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_estimated_only_near_its_limit_and_then_after_each_quarter_of_what_is_left() {
    let meter = Arc::<CountingMeter>::default();
    let model = Counted(ScriptedModel::new([reports_at_its_end(), reports_at_its_end()]), Arc::clone(&meter));
    let agent = Agent::builder().model(model).runtime(&runtime());
    let far = agent.limits(Limits::new().tokens(100_000)).open();
    assert_eq!(far.run("Go.").await.unwrap().stop_reason(), "end_turn");
    assert_eq!(meter.asked(), 0);
    let near = far.prompt("Go.").limits(Limits::new().tokens(5_000)).start().unwrap();
    assert_eq!(near.outcome().await.stop_reason(), "end_turn");
    assert_eq!(
        meter.asked(),
        4,
        "at once, as the history may use up the limit, then after each quarter of what is left"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_estimated_at_once_if_its_tools_or_instructions_may_use_up_the_limit() {
    let long = "long ".repeat(8_000);
    let estimates = async |instructions: &str, description: &str| {
        let tool = FnTool::new("look", description, json!({"type": "object"}), |_| async { Ok("seen".into()) });
        let meter = Arc::<CountingMeter>::default();
        let model = Counted(ScriptedModel::new([reports_at_its_end()]), Arc::clone(&meter));
        let agent = Agent::builder().model(model).runtime(&runtime()).instructions(instructions).tool(tool);
        let session = agent.limits(Limits::new().tokens(30_000)).open();
        assert_eq!(session.run("Go.").await.unwrap().stop_reason(), "end_turn");
        meter.asked()
    };
    assert_eq!(estimates("Look.", "Looks.").await, 0);
    assert_eq!((estimates(&long, "Looks.").await, estimates("Look.", &long).await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn attempts_that_were_refused_use_none_of_the_limit() {
    let busy = || vec![Act::Fail(ModelError::retryable("503"))];
    let model = ScriptedModel::new([busy(), busy(), busy(), says("Well.")]).metered(&Arc::default());
    let session = agent(&model).limits(Limits::new().tokens(10_000)).open();
    let outcome = session.run("long ".repeat(4_000).as_str()).await.unwrap();
    assert_eq!((outcome.stop_reason(), model.calls()), ("end_turn", 4));
}

#[tokio::test(start_paused = true)]
async fn the_note_of_a_budget_says_how_many_tokens_are_used() {
    let session = agent(&dear_answer()).limits(Limits::new().tokens(100)).open();
    let run = session.start("Go.").unwrap();
    let note = stopped_by_limit(&session, &run, Reason::Budget).await;
    assert_eq!(note, "the limit of 100 tokens was reached: at least 110 are used");
}

#[tokio::test(start_paused = true)]
async fn limits_of_one_prompt_tighten_the_agents_and_never_loosen_them() {
    let agent_has = Limits::new().turns(5).deadline(secs(60));
    let session = scripted([says_and_hangs("Hm"), says_and_hangs("Hm")]).limits(agent_has).open();
    let asked = Limits::new().deadline(secs(1)).turns(9).tokens(7);
    let run = session.prompt("Go.").limits(asked).start().unwrap();
    stopped_by_limit(&session, &run, Reason::Deadline).await;
    let on_record = |run: &Run| match &run.records()[0].event {
        Event::RunAccepted { accepted } => accepted.limits,
        other => panic!("{other:?}"),
    };
    let both = Limits::new().deadline(secs(1)).turns(5).tokens(7);
    assert_eq!(on_record(&run), both);

    let prompt = session.prompt("Go.").limits(Limits::new().deadline(secs(9)));
    let run = prompt.limits(asked).start().unwrap();
    stopped_by_limit(&session, &run, Reason::Deadline).await;
    assert_eq!(on_record(&run), both, "each call tightens");
    let zero = Limits::new().turns(0);
    let error = session.prompt("Go.").limits(zero).start().unwrap_err();
    assert_eq!(error, StartError::ZeroLimit("turns"));
    assert_eq!(
        error.to_string(),
        "the limit \"turns\" is zero, so the run would stop before it began: raise it, or leave it out"
    );
}

#[tokio::test(start_paused = true)]
async fn only_override_limits_puts_a_prompts_limits_in_the_place_of_the_agents() {
    let tight = Limits::new().deadline(secs(1)).turns(1);
    let slow = vec![Act::Pause(secs(30)), Act::text("Done."), Act::end()];
    let session = scripted([slow]).limits(tight).open();
    let long = Limits::new().deadline(secs(3_600));
    let run = session.prompt("Go.").override_limits(long).start().unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    let zero = Limits::new().tokens(0);
    let error = session.prompt("Go.").override_limits(zero).start().unwrap_err();
    assert_eq!(error, StartError::ZeroLimit("tokens"));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_too_long_fails_without_a_retry_and_its_session_is_kept() {
    let overflow = vec![Act::Fail(ModelError::context_overflow("200,001 tokens do not fit into 200,000"))];
    let model = ScriptedModel::new([says("First."), overflow]);
    let session = agent(&model).open();
    session.run("One.").await.unwrap();
    let (_, outcome) = run_to_end(&session, "Two.").await;
    let message = "200,001 tokens do not fit into 200,000";
    assert_eq!(*outcome.ending, failed(FailureKind::ContextOverflow, message));
    assert_eq!((outcome.stop_reason(), model.calls()), ("context_overflow", 2));
    assert_usable(&session).await;
    assert_eq!(texts(&session.history().await.unwrap()), ["One.", "First.", "Two.", "And now?", "Well."]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_retried_after_a_wait_that_doubles() {
    let busy = || vec![Act::Fail(ModelError::retryable("503"))];
    let model = ScriptedModel::new([busy(), busy(), busy(), says("At last.")]);
    let session = agent(&model).open();
    let run = session.start("Go.").unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "At last.");
    let waits = delays(&run);
    for (wait, whole) in waits.iter().zip([500, 1000, 2000]) {
        assert!((whole / 2..=whole).contains(wait), "{waits:?}");
    }
    assert_eq!((waits.len(), model.calls()), (3, 4));
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_is_waited_for_exactly() {
    let session = scripted([vec![Act::Fail(ModelError::retry_after(secs(42), "429"))], says("Now.")]).open();
    let began = Instant::now();
    let (run, _) = run_to_end(&session, "Go.").await;
    assert_eq!((began.elapsed(), delays(&run)), (secs(42), vec![42_000]));
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_that_is_too_long_fails_at_once() {
    let model = ScriptedModel::new([vec![Act::Fail(ModelError::retry_after(secs(3_600), "429: come back later"))]]);
    let session = agent(&model).open();
    let began = Instant::now();
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!(*outcome.ending, failed(FailureKind::Model, "429: come back later"));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn attempts_that_are_used_up_fail_the_run_and_say_how_often_it_was_tried() {
    let busy = || vec![Act::Fail(ModelError::retryable("503: overloaded"))];
    let model = ScriptedModel::new([busy(), busy(), busy()]);
    let retry = Retry::default().attempts(3);
    let session = agent(&model).retry(retry).open();
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!(*outcome.ending, failed(FailureKind::Model, "503: overloaded (tried 3 times)"));
    assert_eq!(model.calls(), 3);
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_that_will_not_pass_is_not_retried() {
    let model = ScriptedModel::new([vec![Act::Fail(ModelError::fatal("401: the key is wrong"))]]);
    let session = agent(&model).open();
    let run = session.start("Go.").unwrap();
    assert_eq!(*settled(&session, &run).await.ending, failed(FailureKind::Model, "401: the key is wrong"));
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_after_text_was_shown_is_never_retried_and_the_text_is_kept() {
    let model = ScriptedModel::new([vec![Act::text("Shown "), Act::Fail(ModelError::retryable("reset by peer"))]]);
    let session = agent(&model).open();
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!(*outcome.ending, failed(FailureKind::StreamBroken, "reset by peer"));
    assert_eq!((outcome.text_so_far().as_str(), model.calls()), ("Shown ", 1));
    assert_usable(&session).await;
    let sent = model.requests()[1].prompt();
    let note = "[Your previous answer broke off because of an error, and is incomplete.]";
    assert!(sent.last().unwrap().text().starts_with(note), "{sent:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_turn_has_all_its_attempts_again() {
    let busy = || vec![Act::Fail(ModelError::retryable("503"))];
    let model = ScriptedModel::new([busy(), calls(&[("a", "look")]), busy(), says("Done.")]);
    let retry = Retry::default().attempts(2);
    let session = agent(&model).retry(retry).tool(tools::quick("look", &ToolLog::new())).open();
    assert_eq!(session.run("Go.").await.unwrap().completed().unwrap().text(), "Done.");
}
