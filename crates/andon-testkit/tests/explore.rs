//! The explorer for users: their own promises, their own models and tools, and what it says when something is broken.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![expect(clippy::disallowed_methods, reason = "these tools spawn as a user's do")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use andon_runtime::{
    Agent, Answer, FnTool, Model, ModelError, ModelRequest, ModelStop, OnCancel, Piece, Returned, ToolOutput, Usage,
};
use andon_testkit::explore::{Mode, Report, Script, explore};
use andon_testkit::{Act, explore as root};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

const MILLIS: Duration = Duration::from_millis(1);

fn calling(names: &[&str]) -> Vec<Vec<Act>> {
    let calls = names.iter().enumerate();
    let calls = calls.flat_map(|(index, name)| Act::call(index, &format!("c{index}"), name, "{}"));
    let first = std::iter::once(Act::text("Calling. ")).chain(calls).chain([Act::usage(5, 5), Act::tool_use()]);
    vec![first.collect(), vec![Act::text("Done."), Act::usage(9, 1), Act::end()]]
}

fn tool<F: Future<Output = Returned> + Send + 'static>(
    name: &str,
    work: impl Fn() -> F + Send + Sync + 'static,
) -> FnTool {
    FnTool::new(name, "A tool.", json!({"type": "object"}), move |_| work())
}

fn done() -> Returned {
    Ok(ToolOutput::from("done"))
}

/// A script that calls each of these tools once.
fn with_tools<const N: usize>(make: impl Fn() -> [FnTool; N] + 'static) -> Script {
    let make = Arc::new(make);
    explore("tools").play(move |world| {
        let tools = make();
        async move {
            let names: Vec<String> = tools.iter().map(|tool| andon_runtime::Tool::spec(tool).name.clone()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let session = world.open(Agent::builder().model(world.model(calling(&names))).tools(tools));
            world.play(session.prompt("Call.")).await;
        }
    })
}

fn kinds(report: &Report) -> Vec<&str> {
    let mut kinds: Vec<&str> = report.violations.iter().map(|violation| violation.what.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Takes from one side, waits, and gives to the other: the sum is 0 unless it is stopped in between.
fn in_two_steps() -> Script {
    explore("two steps").play(|world| async move {
        let sum = Arc::new(AtomicI64::new(0));
        let (checked, moved) = (Arc::clone(&sum), Arc::clone(&sum));
        world.check("the sum is whole", move |_| match checked.load(Ordering::SeqCst) {
            0 => Ok(()),
            sum => Err(format!("it is {sum}")),
        });
        let transfer = tool("transfer", move || {
            let sum = Arc::clone(&moved);
            async move {
                sum.fetch_sub(10, Ordering::SeqCst);
                sleep(100 * MILLIS).await;
                sum.fetch_add(10, Ordering::SeqCst);
                done()
            }
        });
        let session = world.open(Agent::builder().model(world.model(calling(&["transfer"]))).tool(transfer));
        world.play(session.prompt("Move 10.")).await;
    })
}

#[test]
fn a_check_finds_the_stop_between_two_steps_and_its_point_is_played_alone() {
    let report = in_two_steps().modes([Mode::Graceful, Mode::Now]).run();
    let what = "check \"the sum is whole\": it is -10";
    assert_eq!(kinds(&report), [what]);
    let first = report.violations.first().unwrap().place.unwrap();
    // Its grace is longer than the transfer.
    assert_eq!(first.mode, Mode::Now);

    let alone = in_two_steps().only(first.mode, first.point).run();
    assert_eq!((alone.points, kinds(&alone)), (1, vec![what]));
    assert_eq!(alone.violations.first().unwrap().place, Some(first));
    assert!(alone.story.iter().any(|line| line.contains("tool_started")), "{:#?}", alone.story);
}

#[test]
fn a_check_is_asked_after_a_crash_when_a_new_process_has_recovered() {
    let (recovered, whole) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&recovered), Arc::clone(&whole));
    let script = explore("a crash").play(move |world| {
        let (recovered, whole) = counts.clone();
        async move {
            world.check("it is asked", move |left| {
                assert!(left.receipts().iter().all(|receipt| receipt.outcome.is_some()), "all runs have settled");
                if left.is_recovered() { &recovered } else { &whole }.fetch_add(1, Ordering::SeqCst);
            });
            let session = world.open(Agent::builder().model(world.model(calling(&[]))));
            world.play(session.prompt("Talk.")).await;
        }
    });
    let report = script.modes([Mode::Crash]).run();
    assert!(report.is_whole(), "{report}");
    // The script is played twice undisturbed.
    assert_eq!((recovered.load(Ordering::SeqCst), whole.load(Ordering::SeqCst)), (report.points, 2));
}

#[test]
fn a_check_sees_what_became_of_the_calls_and_what_the_model_is_told() {
    let script = explore("a lie").play(|world| async move {
        let moved = Arc::new(AtomicUsize::new(0));
        let checked = Arc::clone(&moved);
        world.check("the model is told the truth", move |left| {
            let has_moved = checked.load(Ordering::SeqCst) > 0;
            let is_denied = left.results().any(|result| result.to_text().contains("nothing was moved"));
            !(has_moved && is_denied)
        });
        let transfer = FnTool::new("transfer", "Moves.", json!({"type": "object"}), move |call| {
            let moved = Arc::clone(&moved);
            async move {
                moved.fetch_add(1, Ordering::SeqCst);
                tokio::select! {
                    biased;
                    () = call.cord.pulled() => Ok("nothing was moved".into()),
                    () = sleep(100 * MILLIS) => done(),
                }
            }
        });
        let session = world.open(Agent::builder().model(world.model(calling(&["transfer"]))).tool(transfer));
        world.play(session.prompt("Move.")).await;
    });
    let report = script.modes([Mode::Graceful]).run();
    assert_eq!(kinds(&report), ["check \"the model is told the truth\": it does not hold"]);
    assert!(report.violations.iter().all(|violation| violation.place.is_some()), "{report}");
}

#[test]
fn a_check_asserts_or_says_whether_it_holds_or_why_it_does_not() {
    let script = explore("three checks").play(|world| async move {
        world.check("asserted", |_| assert_eq!(1 + 1, 3, "sums"));
        world.check("said", |_| false);
        world.check("explained", |_| Err::<(), _>("because"));
    });
    let report = script.run();
    let found: Vec<&str> = report.violations.iter().map(|violation| violation.what.as_str()).collect();
    let [asserted, said, explained] = found.as_slice() else { panic!("{found:?}") };
    assert!(asserted.starts_with("check \"asserted\": assertion `left == right` failed: sums"), "{asserted}");
    assert!(asserted.ends_with(")"), "it says where: {asserted}");
    assert_eq!([*said, *explained], ["check \"said\": it does not hold", "check \"explained\": because"]);
}

const STRAY: &str =
    "P12: the tool `stray` (c0) spawned a task that outlived the run: await it, and end it when the tool is dropped";

#[test]
fn a_task_that_outlives_its_tool_when_it_is_stopped_is_found_and_named() {
    let script = with_tools(|| {
        [tool("stray", || async {
            tokio::spawn(sleep(100 * MILLIS)).await.unwrap();
            done()
        })]
    });
    let report = script.modes([Mode::Graceful, Mode::Now, Mode::AfterTurn]).run();
    assert_eq!(kinds(&report), [STRAY]);
    let modes: Vec<Mode> = report.violations.iter().map(|violation| violation.place.unwrap().mode).collect();
    assert!(modes.iter().all(|mode| *mode == Mode::Now), "the grace is longer than the task: {modes:?}");
}

#[test]
fn a_task_that_nobody_awaits_is_found_when_nobody_stops_the_run() {
    let script = with_tools(|| {
        [tool("stray", || async {
            drop(tokio::spawn(sleep(100 * MILLIS)));
            done()
        })]
    });
    let report = script.modes([]).run();
    let found: Vec<_> = report.violations.iter().map(|violation| (violation.place, violation.what.as_str())).collect();
    assert_eq!(found, [(None, STRAY)]);
}

#[test]
fn a_task_that_goes_on_while_the_session_does_is_found_when_its_run_has_settled() {
    let script = explore("two runs").play(|world| async move {
        let stray = tool("stray", || async {
            drop(tokio::spawn(sleep(100 * MILLIS)));
            done()
        });
        let mut answers = calling(&["stray"]);
        answers.push(vec![Act::Pause(1_000 * MILLIS), Act::end()]);
        let session = world.open(Agent::builder().model(world.model(answers)).tool(stray));
        world.play(session.prompt("Call.")).await;
        world.play(session.prompt("Wait.")).await;
    });
    assert_eq!(kinds(&script.modes([]).run()), [STRAY]);
}

#[test]
fn tasks_that_end_with_their_tool_are_no_strays() {
    let script = with_tools(|| {
        [tool("tidy", || async {
            // Dropping the set aborts its tasks.
            let mut tasks = JoinSet::new();
            tasks.spawn(sleep(50 * MILLIS));
            tasks.spawn(sleep(70 * MILLIS));
            while tasks.join_next().await.is_some() {}
            done()
        })]
    });
    script.assert();
}

#[test]
fn of_two_tools_that_spawn_the_one_that_leaves_a_task_is_named() {
    let script = with_tools(|| {
        let stray = tool("stray", || async {
            sleep(200 * MILLIS).await;
            drop(tokio::spawn(sleep(100 * MILLIS)));
            done()
        });
        let tidy = tool("tidy", || async {
            tokio::spawn(sleep(50 * MILLIS)).await.unwrap();
            done()
        });
        [stray, tidy]
    });
    assert_eq!(kinds(&script.modes([]).run()), [STRAY]);
}

#[test]
fn a_tool_that_may_outlive_its_run_may_have_tasks_while_it_lives() {
    let script = with_tools(|| {
        let detached = tool("detached", || async {
            let mut tasks = JoinSet::new();
            tasks.spawn(sleep(3_000 * MILLIS));
            tasks.join_next().await;
            done()
        });
        [detached.on_cancel(OnCancel::Detach)]
    });
    script.modes([Mode::Graceful, Mode::Now]).assert();
}

#[test]
fn a_scripts_own_tasks_are_no_strays() {
    let script = explore("a server of one's own").play(|world| async move {
        drop(tokio::spawn(std::future::pending::<()>()));
        let tidy = tool("tidy", || async {
            tokio::spawn(sleep(50 * MILLIS)).await.unwrap();
            done()
        });
        let session = world.open(Agent::builder().model(world.model(calling(&["tidy"]))).tool(tidy));
        world.play(session.prompt("Call.")).await;
    });
    script.modes([Mode::Graceful]).assert();
}

/// A model from scratch.
struct Mine {
    says_zero: bool,
}

struct MyAnswer {
    said: usize,
    says_zero: bool,
}

impl Model for Mine {
    fn name(&self) -> &str {
        "mine"
    }

    fn call(&self, _: ModelRequest) -> Box<dyn Answer> {
        Box::new(MyAnswer { said: 0, says_zero: self.says_zero })
    }
}

impl Answer for MyAnswer {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        self.said += 1;
        Poll::Ready(Some(Ok(match self.said {
            1..4 => Piece::Text("word ".to_owned()),
            4 => Piece::Usage(Box::new(Usage::reported(5, 3))),
            _ => Piece::End(ModelStop::EndTurn),
        })))
    }

    fn usage_so_far(&self) -> Usage {
        if self.says_zero { Usage::reported(0, 0) } else { Usage::UNKNOWN }
    }
}

fn my_model(says_zero: bool) -> Script {
    explore("my model").play(move |world| async move {
        let session = world.open(Agent::builder().name("mine").model(Mine { says_zero }));
        world.play(session.prompt("Hello.")).await;
    })
}

#[test]
fn each_poll_of_a_model_of_ones_own_is_a_point() {
    let report = my_model(false).run();
    assert!(report.is_whole(), "{report}");
    // The seams before the model's polls are where it may panic, beside the driver's.
    let script = my_model(false).modes([Mode::PanicDriver]).enough(1);
    let panics = script.run();
    assert!(panics.is_whole(), "{panics}");
    assert_eq!(report.by_mode.get(Mode::PanicDriver.name()), Some(&panics.points));
}

#[test]
fn a_model_that_writes_0_for_what_it_does_not_know_is_told() {
    let report = my_model(true).modes([Mode::Graceful]).run();
    let expected = "P4: the model says that a request had 0 tokens: what it does not know yet is unknown";
    assert!(kinds(&report).contains(&expected), "{report}");
}

#[test]
fn an_agent_that_a_tool_asks_is_watched_too() {
    let script = || {
        explore("an expert").play(|world| async move {
            let answer = vec![Act::text("It "), Act::Pause(50 * MILLIS), Act::text("depends."), Act::end()];
            let expert = world.watch(Agent::builder().name("expert").model(world.model([answer]))).build().unwrap();
            let ask = tool("ask", move || {
                let expert = expert.clone();
                async move { Ok(expert.run("Well?").await?.completed()?.text().into()) }
            });
            let session = world.open(Agent::builder().model(world.model(calling(&["ask"]))).tool(ask));
            world.play(session.prompt("Ask.")).await;
        })
    };
    script().modes([Mode::Graceful, Mode::Now, Mode::AfterTurn, Mode::PanicTool, Mode::Crash]).assert();
}

#[test]
fn a_script_that_panics_is_told_like_a_broken_promise() {
    let script = explore("hasty").play(|world| async move {
        let session = world.open(Agent::builder().model(world.model([vec![Act::text("Hello."), Act::end()]])));
        let run = world.play(session.prompt("Talk.")).await.unwrap();
        assert_eq!(run.outcome().await.stop_reason(), "end_turn", "it is not always so");
    });
    let report = script.modes([Mode::Now]).run();
    let [kind] = kinds(&report)[..] else { panic!("{report}") };
    assert!(kind.starts_with("the script panicked: assertion `left == right` failed: it is not always so"), "{kind}");
    assert!(kind.contains("tests/explore.rs:"), "it says where: {kind}");
}

#[test]
fn a_test_that_fails_says_what_is_broken_and_how_to_play_it_alone() {
    let script = || in_two_steps().modes([Mode::Now]);
    let report = script().run();
    let (points, broken) = (report.points, report.violations.len());
    let place = report.violations.first().unwrap().place.unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| script().assert())).unwrap_err();
    let expected = format!(
        "\"two steps\": {points} points, {broken} violations\n\n\
         check \"the sum is whole\": it is -10\n    \
         now at point {} ({}), and at {} more\n    \
         to play it alone: .only(Mode::Now, {})\n",
        place.point,
        place.seam,
        broken - 1,
        place.point
    );
    assert_eq!(panic.downcast_ref::<String>(), Some(&expected));
}

#[test]
fn a_script_that_starts_nothing_fails() {
    let panic = catch_unwind(|| root("nothing").play(|_| async {}).assert()).unwrap_err();
    let expected = "\"nothing\": 0 points, 0 violations\n\
        There was nothing to stop: open an agent with `world.open`, and play a prompt with `world.play`.\n";
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some(expected));
}

#[test]
fn a_point_that_does_not_exist_is_told() {
    let report = my_model(false).only(Mode::Now, 1_000_000).run();
    let [kind] = kinds(&report)[..] else { panic!("{report}") };
    assert!(kind.starts_with("there is no point 1000000: they are numbered from 0, and there are "), "{kind}");
}

#[test]
fn a_script_is_explored_at_as_many_points_as_are_wanted_and_the_rest_is_told() {
    let all = in_two_steps().modes([Mode::Graceful]).run();
    let some = in_two_steps().modes([Mode::Graceful]).at_most(20).seed(7).run();
    assert_eq!((some.points, some.points + some.left_out), (20, all.points));
    assert!(some.is_whole(), "{some}");
}
