//! Figures are what the facts say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::{Event, Remains, ToolEnd};
use andon_runtime::{Agent, Cancel, Observer as _, Runtime, ShownFact, TestClock};
use andon_telemetry::Figures;
use andon_testkit::tools::{self, ToolLog};
use andon_testkit::{Act, ScriptedModel, TestJournal, until};

fn watched() -> (Arc<Figures>, Runtime) {
    let figures = Figures::new();
    let clock = Arc::new(TestClock::new());
    let runtime = Runtime::builder().one_lane().seed(1).clock(clock).observer(Arc::clone(&figures)).build();
    (figures, runtime)
}

/// The value of a series, by its name with all its labels; `None` if there is none.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(start_paused = true)]
async fn a_completed_run_is_counted_with_its_tokens_and_tools() {
    let (figures, runtime) = watched();
    let asks = Act::call(0, "a", "look", "{}").into_iter().chain([Act::usage(10, 2), Act::tool_use()]).collect();
    let model = ScriptedModel::new([asks, vec![Act::text("Done."), Act::usage(20, 3), Act::end()]]);
    let agent =
        Agent::builder().name("clerk").model(model).runtime(&runtime).tool(tools::quick("look", &ToolLog::new()));
    agent.build().unwrap().run("Go.").await.unwrap();
    runtime.idle().await;
    let text = figures.render(&runtime);
    for (series, expected) in [
        ("andon_runs_started_total{app=\"clerk\"}", 1.0),
        ("andon_runs_settled_total{app=\"clerk\",outcome=\"completed\"}", 1.0),
        ("andon_run_seconds_count{outcome=\"completed\"}", 1.0),
        ("andon_model_calls_total{model=\"scripted\",end=\"answered\"}", 2.0),
        ("andon_tool_calls_total{tool=\"look\",verdict=\"finished\"}", 1.0),
        ("andon_tokens_total{kind=\"input\",account=\"delivered\",provenance=\"reported\",model=\"scripted\"}", 30.0),
        ("andon_tokens_total{kind=\"output\",account=\"billed\",provenance=\"reported\",model=\"scripted\"}", 5.0),
        ("andon_runs{state=\"running\"}", 0.0),
        ("andon_leaked_work", 0.0),
        ("andon_observer_panics_total", 0.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_counted_with_its_times_and_what_is_unknown_is_not_zero() {
    let (figures, runtime) = watched();
    let model = ScriptedModel::new([vec![Act::text("Half"), Act::Silence]]);
    let agent = Agent::builder().name("clerk").model(model).runtime(&runtime).build().unwrap();
    let run = agent.start("Go.").unwrap();
    until(&run, |event| matches!(event, Event::ModelStarted { .. })).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(value(&figures.render(&runtime), "andon_runs{state=\"running\"}"), Some(1.0));
    run.cancel(Cancel::now());
    run.outcome().await;
    runtime.idle().await;
    let text = figures.render(&runtime);
    for (series, expected) in [
        ("andon_cancels_total{reason=\"requested\",force=\"now\"}", 1.0),
        ("andon_cancel_seconds_count{phase=\"model\",instant=\"recorded\"}", 1.0),
        ("andon_cancel_seconds_count{phase=\"model\",instant=\"delivered\"}", 1.0),
        ("andon_cancel_seconds_count{phase=\"model\",instant=\"quiet\"}", 1.0),
        ("andon_cancel_seconds_count{phase=\"model\",instant=\"settled\"}", 1.0),
        ("andon_model_calls_total{model=\"scripted\",end=\"cut\"}", 1.0),
        ("andon_usage_unknown_total{kind=\"input\",account=\"billed\",model=\"scripted\"}", 1.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series} in\n{text}");
    }
    assert!(!text.contains("andon_tokens_total{kind=\"input\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_settled_when_it_is_on_disk_and_never_before_its_request_is() {
    let (figures, clock) = (Figures::new(), Arc::new(TestClock::new()));
    let journal = Arc::new(TestJournal::slow(None, Duration::from_millis(30)));
    let builder = Runtime::builder().journal(journal).one_lane().seed(1).clock(clock);
    let runtime = builder.observer(Arc::clone(&figures)).build();
    let model = ScriptedModel::new([vec![Act::text("Half"), Act::Silence]]);
    let agent = Agent::builder().name("clerk").model(model).runtime(&runtime).build().unwrap();
    let run = agent.start("Go.").unwrap();
    until(&run, |event| matches!(event, Event::ModelStarted { .. })).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.cancel(Cancel::graceful());
    run.outcome().await;
    runtime.idle().await;
    let text = figures.render(&runtime);
    let sum = |instant| value(&text, &format!("andon_cancel_seconds_sum{{phase=\"model\",instant=\"{instant}\"}}"));
    assert_eq!(
        [sum("delivered"), sum("quiet"), sum("recorded"), sum("settled")],
        [Some(0.0), Some(0.0), Some(0.03), Some(0.03)],
        "{text}"
    );
    let whole = value(&text, "andon_run_seconds_sum{outcome=\"cancelled\"}").unwrap();
    assert!(whole >= 1.03, "{whole}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_the_model_made_up_is_not_a_label() {
    let (figures, runtime) = watched();
    let asks = Act::call(0, "a", "made_up_by_the_model", "{}").into_iter().chain([Act::usage(1, 2), Act::tool_use()]);
    let model = ScriptedModel::new([asks.collect(), vec![Act::text("Done."), Act::usage(2, 3), Act::end()]]);
    let agent =
        Agent::builder().name("clerk").model(model).runtime(&runtime).tool(tools::quick("look", &ToolLog::new()));
    agent.build().unwrap().run("Go.").await.unwrap();
    runtime.idle().await;
    let text = figures.render(&runtime);
    assert!(!text.contains("made_up"), "{text}");
    assert_eq!(value(&text, "andon_tool_calls_total{tool=\"other\",verdict=\"never_started\"}"), Some(1.0), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaked_work_is_counted_and_ends_when_its_late_result_comes() {
    let figures = Figures::new();
    let runtime = Runtime::builder().observer(Arc::clone(&figures)).build();
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
    let tool = andon_runtime::FnTool::blocking("stuck", "Waits.", serde_json::json!({"type": "object"}), move |_| {
        started.send(()).unwrap();
        let _ = held.lock().recv();
        Ok("late".into())
    });
    let asks = Act::call(0, "a", "stuck", "{}").into_iter().chain([Act::usage(1, 2), Act::tool_use()]);
    let model = ScriptedModel::new([asks.collect()]);
    let agent = Agent::builder().name("clerk").model(model).runtime(&runtime).tool(tool).build().unwrap();
    let run = agent.start("Go.").unwrap();
    has_started.recv().await.unwrap();
    run.cancel(Cancel::now());
    run.outcome().await;
    until(&run, |event| matches!(event, Event::RunSettled { .. })).await;
    let text = loop {
        let text = figures.render(&runtime);
        if text.contains("andon_runs_settled_total{") {
            break text;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(value(&text, "andon_leaked_work"), Some(1.0), "{text}");
    assert_eq!(value(&text, "andon_leaked_work_total{app=\"clerk\"}"), Some(1.0));
    let_go.send(()).unwrap();
    while value(&figures.render(&runtime), "andon_leaked_work") != Some(0.0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(value(&figures.render(&runtime), "andon_leaked_work_total{app=\"clerk\"}"), Some(1.0));
}

/// Nobody learns when an unkillable process ends, or a call elsewhere that was told to stop: a gauge would show them as running
/// forever.
#[tokio::test(start_paused = true)]
async fn leaked_work_whose_end_nobody_learns_is_counted_and_not_shown_as_running() {
    let (figures, runtime) = watched();
    let asks = Act::call(0, "a", "look", "{}").into_iter().chain([Act::usage(10, 2), Act::tool_use()]).collect();
    let model = ScriptedModel::new([asks, vec![Act::text("Done."), Act::usage(20, 3), Act::end()]]);
    let agent = Agent::builder().name("clerk").model(model).runtime(&runtime);
    let agent = agent.tool(tools::quick("look", &ToolLog::new())).build().unwrap();
    let run = agent.start("Go.").unwrap();
    run.outcome().await;
    let records = run.records();
    let place = records.iter().position(|record| matches!(record.event, Event::ToolFinished { .. })).unwrap();
    let mut record = (*records[place]).clone();
    let Event::ToolFinished { end, remains, .. } = &mut record.event else { panic!("it is one") };
    let leaked = vec!["process 7".into(), "process 8".into()];
    *end = ToolEnd::Leaked;
    *remains = Some(Box::new(Remains::new().leaked(leaked).unended("told")));
    let record = Arc::new(record);
    let seen = ShownFact::new(run.id(), run.session(), &record, &records[..place], record.at, None);
    figures.fact(&seen);
    let text = figures.render(&runtime);
    assert_eq!(value(&text, "andon_leaked_work_total{app=\"clerk\"}"), Some(3.0), "{text}");
    assert_eq!(value(&text, "andon_leaked_work"), Some(0.0), "{text}");
}
