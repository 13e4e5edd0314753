//! The scripts that the explorer plays: every kind of thing that a run can be doing when it is stopped.

mod figures;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use andon_runtime::core::event::{Event, Learnt};
use andon_runtime::{
    Agent, AgentBuilder, AgentReply, Cancel, CompensateError, DecideError, Decision, FeedItem, FnTool, JournalError,
    Limits, ModelError, OnCancel, Piece, Retry, Run, Runtime, StartError, State, Verdict, What, WhenBusy,
};
use tokio::time::sleep;

use crate::explore::{Script, World};
use crate::model::{Act, ScriptedModel};
use crate::tools::{self, ToolLog};

type Play = Pin<Box<dyn Future<Output = ()>>>;

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A tool's default grace, plus the time to drop it.
const GRACE: Duration = millis(2_100);

macro_rules! script {
    (|$log:ident| $tool:expr, $name:literal $(, $settles_within:expr)?) => {{
        fn play(world: World) -> Play {
            let $log = &world.tools;
            let tool = $tool;
            Box::pin(play_one_tool(world, tool))
        }
        script!(play, $name $(, $settles_within)?)
    }};
    ($play:path, $name:literal) => {
        script!($play, $name, Duration::ZERO, None)
    };
    ($play:path, $name:literal, $settles_within:expr) => {
        script!($play, $name, $settles_within, None)
    };
    ($play:path, $name:literal, $settles_within:expr, $disk:expr) => {{
        fn boxed(world: World) -> Play {
            Box::pin($play(world))
        }
        Script { name: $name, settles_within: $settles_within, disk: $disk, observer: None, play: boxed }
    }};
}

/// All scripts.
#[expect(clippy::too_many_lines, reason = "a list, one line for each script")]
pub fn all() -> Vec<Script> {
    let slow_disk = millis(30);
    vec![
        script!(plain_text, "plain text"),
        script!(thinking_then_text, "thinking then text"),
        script!(text_and_one_tool, "text and one tool", GRACE),
        script!(parallel_tools, "parallel tools of which some finished", GRACE),
        script!(sequential_tools, "sequential tools", GRACE),
        script!(half_streamed_arguments, "half-streamed tool arguments", GRACE),
        script!(silent_model, "a silent model"),
        script!(retry_with_back_off, "retry with back-off"),
        script!(approval, "approval", GRACE),
        script!(denied_approval, "an approval that is denied", GRACE),
        script!(waiting_hook, "a waiting hook", GRACE),
        script!(stubborn_tool, "a stubborn tool", millis(600)),
        script!(reader_that_stopped, "a reader that stopped"),
        script!(several_turns, "several turns", GRACE),
        script!(limit_that_fires, "a limit that fires", GRACE),
        script!(silence_limit, "a silence limit that fires"),
        script!(figures::limited, "a token limit that a provider reports too late"),
        script!(supersede, "supersede", GRACE),
        script!(queued, "a queued run", GRACE),
        script!(one_call_cancelled, "one call cancelled alone", GRACE),
        script!(slow_disk_answer, "a slow disk", millis(150), Some(slow_disk)),
        script!(slow_disk_tools, "tools on a slow disk", GRACE + millis(300), Some(slow_disk)),
        script!(broken_stream, "a stream that breaks"),
        script!(bad_calls, "calls that cannot be made", GRACE),
        script!(panicking_tool, "a tool that panics", GRACE),
        script!(steady_stream, "a steady stream"),
        script!(empty_pieces, "empty pieces", GRACE),
        script!(denying_hook, "a hook that denies", GRACE),
        script!(cancelling_hook, "a hook that cancels", GRACE),
        script!(agent_cancel, "a cancel of the whole agent", GRACE),
        script!(question_after_a_restart, "a question after a restart", GRACE),
        script!(queue_after_a_restart, "a queue after a restart", GRACE),
        script!(
            |log| tools::slow("tool", millis(300), log).on_cancel(OnCancel::Drop),
            "a tool that is dropped at once"
        ),
        script!(|log| may_finish(300, log), "a tool that may finish", millis(500)),
        script!(|log| may_finish(900, log), "a tool that may finish and is too slow", millis(500)),
        script!(detached_tool, "a tool that outlives its run", GRACE),
        script!(
            |log| tools::stubborn("tool", Duration::from_secs(9), log).timeout(millis(200)),
            "a tool that takes too long",
            millis(600)
        ),
        script!(|log| tools::talkative("tool", 4, log), "a tool that shows its work", GRACE),
        script!(
            talkative_on_slow_disk,
            "a tool that shows its work on a slow disk",
            GRACE + slow_disk * 10,
            Some(slow_disk)
        ),
        script!(|log| tools::with_process("tool", millis(300), millis(50), log), "a process", GRACE + millis(60)),
        script!(|log| tools::elsewhere("tool", millis(300), log), "a tool that works elsewhere"),
        script!(|log| tools::on_thread("tool", millis(300), true, log), "a thread that looks at its cord", millis(600)),
        script!(|log| tools::on_thread("tool", millis(2_000), false, log), "a thread that goes on", millis(700)),
        script!(threads_in_a_queue, "more threads than slots", millis(700)),
        script!(compensated_call, "a call that is undone", GRACE),
        script!(figures::looked_up, "a cut call that is looked up", GRACE),
        script!(
            figures::looked_up,
            "a cut call that is looked up while the disk is slow",
            GRACE + slow_disk * 10,
            Some(slow_disk)
        ),
        script!(figures::drained, "a cut call that is drained"),
        script!(figures::never_learned, "a figure that never comes"),
        script!(figures::metered, "a model with a meter", GRACE),
        script!(figures::rough, "a meter that is not prepared", GRACE),
    ]
}

/// Starts a prompt and reads its feed to the end.
async fn play(world: &World, agent: &Agent, prompt: &str) {
    if let Ok(run) = world.start(agent.prompt(prompt)) {
        world.follow(&run).await;
    }
}

/// Plays one prompt with an agent that is built for it.
async fn ask(world: &World, agent: AgentBuilder, prompt: &str) {
    play(world, &world.open(agent), prompt).await;
}

/// Plays one prompt, which the model answers without any tool.
async fn tell(world: &World, prompt: &str, text: Vec<Act>) {
    ask(world, world.agent(&world.model([text])), prompt).await;
}

fn words(text: &str) -> Vec<Act> {
    text.split_inclusive(' ').map(Act::text).collect()
}

fn answer(parts: impl IntoIterator<Item = Vec<Act>>) -> Vec<Act> {
    parts.into_iter().flatten().collect()
}

/// Words, and then calls of tools by id and name, all with the same empty arguments.
fn calling(said: &str, calls: &[(&str, &str)]) -> Vec<Act> {
    let calls = calls.iter().enumerate().flat_map(|(index, (id, name))| Act::call(index, id, name, "{}"));
    answer([words(said), calls.collect(), vec![Act::tool_use()]])
}

/// Words, and then silence for a while.
fn drip(said: &str, pause_ms: u64) -> Vec<Act> {
    answer([words(said), vec![Act::Pause(millis(pause_ms))]])
}

fn done() -> Vec<Act> {
    answer([words("All done now."), vec![Act::usage(20, 4), Act::end()]])
}

async fn plain_text(world: World) {
    let text = answer([
        vec![Act::usage(12, 0)],
        words("One two three "),
        vec![Act::Yield],
        drip("four five ", 10),
        words("six."),
        vec![Act::usage(12, 6), Act::end()],
    ]);
    tell(&world, "Count.", text).await;
}

async fn thinking_then_text(world: World) {
    let text = answer([
        vec![Act::thinking("Hm, "), Act::thinking("let me see."), Act::Yield, Act::signed()],
        words("It is two."),
        vec![Act::Yield, Act::usage(5, 9), Act::end()],
    ]);
    tell(&world, "Think.", text).await;
}

async fn text_and_one_tool(world: World) {
    let first =
        answer([words("I look. "), Act::call(0, "c1", "look", "{\"n\":1}"), vec![Act::usage(5, 9), Act::tool_use()]]);
    let model = world.model([first, done()]);
    let tool = tools::slow("look", millis(300), &world.tools);
    ask(&world, world.agent(&model).tool(tool), "Look.").await;
}

fn three_calls() -> Vec<Act> {
    calling("Three at once. ", &[("a", "quick"), ("b", "slow"), ("c", "kind")])
}

/// The tools that [`three_calls`] calls.
fn three_tools(agent: AgentBuilder, slow_ms: u64, kind_ms: u64, log: &ToolLog) -> AgentBuilder {
    agent.tool(tools::quick("quick", log)).tool(tools::slow("slow", millis(slow_ms), log)).tool(tools::cooperative(
        "kind",
        millis(kind_ms),
        log,
    ))
}

async fn parallel_tools(world: World) {
    let model = world.model([three_calls(), done()]);
    let agent = three_tools(world.agent(&model), 800, 500, &world.tools);
    ask(&world, agent, "All three.").await;
}

async fn sequential_tools(world: World) {
    let model = world.model([three_calls(), done()]);
    let agent = three_tools(world.agent(&model).sequential_tools(), 800, 500, &world.tools);
    ask(&world, agent, "One after the other.").await;
}

async fn half_streamed_arguments(world: World) {
    let input = |index, json: &str| Act::Piece(Piece::CallInput { index, json: json.to_owned() });
    let first = vec![
        Act::text("Calling. "),
        Act::Piece(Piece::Call { id: "h1".into(), name: "quick".into() }),
        input(0, "{\"n\""),
        Act::Yield,
        Act::Piece(Piece::Call { id: "h2".into(), name: "quick".into() }),
        input(1, "{"),
        input(0, ":1}"),
        Act::Pause(millis(5)),
        Act::Piece(Piece::CallEnd { index: 0 }),
        input(1, "}"),
        Act::Piece(Piece::CallEnd { index: 1 }),
        Act::tool_use(),
    ];
    let model = world.model([first, done()]);
    ask(&world, world.agent(&model).tool(tools::quick("quick", &world.tools)), "Call.").await;
}

async fn silent_model(world: World) {
    let pause = || vec![Act::Pause(Duration::from_secs(30))];
    let text = answer([pause(), words("Sorry, "), pause(), words("I was away."), vec![Act::end()]]);
    tell(&world, "Hello?", text).await;
}

async fn retry_with_back_off(world: World) {
    let model = world.model([
        vec![Act::Fail(ModelError::retryable("503"))],
        vec![Act::Yield, Act::Fail(ModelError::retry_after(Duration::from_secs(40), "429"))],
        done(),
    ]);
    ask(&world, world.agent(&model).retry(Retry::default()), "Try.").await;
}

fn is_question(item: &FeedItem) -> bool {
    matches!(item, FeedItem::Fact(record) if matches!(record.event, Event::ApprovalRequested { .. }))
}

fn is_tool_start(item: &FeedItem) -> bool {
    matches!(item, FeedItem::Fact(record) if matches!(record.event, Event::ToolStarted { .. }))
}

fn call_id(id: &str) -> Option<andon_runtime::CallId> {
    andon_runtime::CallId::new(id).ok()
}

fn two_calls_one_guarded() -> Vec<Act> {
    calling("May I? ", &[("free", "quick"), ("guarded", "danger")])
}

async fn decide(world: World, decision: impl Fn(&Run, &andon_runtime::CallId) -> Result<(), DecideError>) {
    let model = world.model([two_calls_one_guarded(), done()]);
    let danger = tools::slow("danger", millis(50), &world.tools).needs_approval();
    let agent = world.open(world.agent(&model).tool(tools::quick("quick", &world.tools)).tool(danger));
    let Ok(run) = world.start(agent.prompt("Do it.")) else { return };
    if world.follow_until(&run, is_question).await {
        sleep(Duration::from_secs(5)).await;
        if let Some(call) = call_id("guarded") {
            let was_told = run.cord().is_pulled();
            if decision(&run, &call).is_ok() && was_told {
                world.broken("P1: a decision was accepted although the run had been told to stop");
            }
        }
    }
    world.follow(&run).await;
}

async fn approval(world: World) {
    decide(world, |run, call| run.approve(call, Some("ada"))).await;
}

async fn denied_approval(world: World) {
    decide(world, |run, call| run.deny(call, Some("ada"), Some("too dangerous"))).await;
}

async fn waiting_hook(world: World) {
    let model = world.model([calling("Hooked. ", &[("k", "quick")]), done()]);
    let pause = |pause_ms| {
        move |_| async move {
            sleep(millis(pause_ms)).await;
            Decision::Continue
        }
    };
    let agent = world
        .agent(&model)
        .tool(tools::quick("quick", &world.tools))
        .before_run(pause(5))
        .before_model(pause(2_900))
        .after_model(pause(10))
        .before_tool(pause(7))
        .after_tool(pause(3))
        .after_run(pause(1));
    ask(&world, agent, "Wait.").await;
}

async fn stubborn_tool(world: World) {
    let model = world.model([calling("Slowly. ", &[("m", "mule")])]);
    let agent = world.open(world.agent(&model).tool(tools::stubborn("mule", Duration::from_secs(60), &world.tools)));
    let Ok(run) = world.start(agent.prompt("Go.")) else { return };
    if world.follow_until(&run, is_tool_start).await {
        sleep(millis(20)).await;
        run.cancel(Cancel::graceful().by("script"));
    }
    world.follow(&run).await;
}

async fn reader_that_stopped(world: World) {
    let text = answer([vec![Act::Flood("drop ", 40)], words("sea."), vec![Act::usage(3, 41), Act::end()]]);
    let model = world.model([text]);
    let agent = world.open(world.agent(&model));
    let Ok(run) = world.start(agent.prompt("Flood.")) else { return };
    let mut reader = run.feed();
    // It reads twice and then never again, and is still there when the run ends.
    for _ in 0..2 {
        reader.next().await;
    }
    run.outcome().await;
    drop(reader);
}

async fn several_turns(world: World) {
    let turn = |number: usize| {
        answer([
            words("A turn. "),
            Act::call(0, &format!("t{number}"), "quick", "{}"),
            vec![Act::usage(10, 5), Act::tool_use()],
        ])
    };
    let model = world.model([turn(1), turn(2), turn(3), done()]);
    let agent = world.open(world.agent(&model).tool(tools::quick("quick", &world.tools)));
    play(&world, &agent, "Three turns.").await;
    play(&world, &agent, "And another prompt.").await;
}

async fn limit_that_fires(world: World) {
    let turn =
        |id| answer([words("Again. "), Act::call(0, id, "quick", "{}"), vec![Act::usage(10, 5), Act::tool_use()]]);
    let model = world.model([turn("l1"), turn("l2"), turn("l3")]);
    let limits = Limits::new().turns(2);
    let agent = world.open(world.agent(&model).limits(limits).tool(tools::quick("quick", &world.tools)));
    play(&world, &agent, "Forever.").await;
    let limits = Limits::new().deadline(millis(250));
    let slow = tools::slow("look", Duration::from_secs(30), &world.tools);
    let model = world.model([calling("", &[("l9", "look")])]);
    ask(&world, world.agent(&model).limits(limits).tool(slow), "Too long.").await;
}

async fn silence_limit(world: World) {
    let model = world.model([answer([words("And then "), vec![Act::Silence]])]);
    let limits = Limits::new().silence(Duration::from_secs(10));
    ask(&world, world.agent(&model).limits(limits), "Say more.").await;
}

async fn supersede(world: World) {
    let first = answer([drip("An old answer ", 60_000), words("is slow."), vec![Act::end()]]);
    let model = world.model([first, done()]);
    let agent = world.open(world.agent(&model));
    let Ok(old) = world.start(agent.prompt("Old.")) else { return };
    world.follow_until(&old, |item| matches!(item, FeedItem::Delta(_))).await;
    let Ok(new) = world.start(agent.prompt("New.").when_busy(WhenBusy::Supersede)) else { return };
    world.follow(&old).await;
    world.follow(&new).await;
}

async fn queued(world: World) {
    let first = answer([drip("First ", 40), words("come."), vec![Act::end()]]);
    let model = world.model([first, done()]);
    let agent = world.open(world.agent(&model));
    let Ok(first) = world.start(agent.prompt("First.")) else { return };
    let refused = world.start(agent.prompt("Me too."));
    debug_assert!(matches!(refused, Err(StartError::Busy { .. })) || first.try_outcome().is_some());
    let Ok(second) = world.start(agent.prompt("Second.").when_busy(WhenBusy::Queue)) else { return };
    world.follow(&first).await;
    world.follow(&second).await;
}

/// The script's agent in an earlier process.
fn earlier_agent(runtime: &Runtime, answers: Vec<Vec<Act>>) -> AgentBuilder {
    Agent::builder().name("script").model(ScriptedModel::new(answers)).runtime(runtime)
}

async fn question_after_a_restart(world: World) {
    world
        .earlier(|runtime| async move {
            let log = ToolLog::new();
            let danger = tools::quick("danger", &log).needs_approval();
            let agent = earlier_agent(&runtime, vec![two_calls_one_guarded()]);
            let agent = agent.tool(tools::quick("quick", &log)).tool(danger).build();
            let Some(Ok(agent)) = agent.ok().map(|agent| agent.session("s")) else { return };
            let Ok(run) = agent.start("Do it.") else { return };
            while run.state() != State::Waiting {
                sleep(millis(1)).await;
            }
        })
        .await;
    let model = world.model([done()]);
    let danger = tools::slow("danger", millis(50), &world.tools).needs_approval();
    let _agent = world.open(world.agent(&model).tool(danger).tool(tools::quick("quick", &world.tools)));
    for run in world.recover().await {
        if world.follow_until(&run, is_question).await {
            sleep(Duration::from_secs(5)).await;
            // A run that was stopped first accepts no decision.
            let _ = call_id("guarded").map(|call| run.approve(&call, Some("ada")));
        }
        world.follow(&run).await;
    }
}

async fn queue_after_a_restart(world: World) {
    world
        .earlier(|runtime| async move {
            let agent = earlier_agent(&runtime, vec![answer([words("Busy "), vec![Act::Silence]])]).build();
            let Some(Ok(agent)) = agent.ok().map(|agent| agent.session("s")) else { return };
            let first = agent.start("First.");
            let queue = |text: &str| agent.prompt(text).when_busy(WhenBusy::Queue).start();
            let (Ok(_first), Ok(second), Ok(third)) = (first, queue("Second."), queue("Third.")) else { return };
            while second.seq() == 0 || third.seq() == 0 {
                sleep(millis(1)).await;
            }
        })
        .await;
    let model = world.model([done(), done()]);
    let _agent = world.open(world.agent(&model));
    for run in world.recover().await {
        world.follow(&run).await;
    }
}

async fn one_call_cancelled(world: World) {
    let model = world.model([calling("Two. ", &[("keep", "slow"), ("stop", "kind")]), done()]);
    let agent = world.agent(&model).tool(tools::slow("slow", millis(100), &world.tools)).tool(tools::cooperative(
        "kind",
        Duration::from_secs(50),
        &world.tools,
    ));
    let agent = world.open(agent);
    let Ok(run) = world.start(agent.prompt("Both.")) else { return };
    if world.follow_until(&run, is_tool_start).await
        && let Some(call) = call_id("stop")
    {
        run.cancel_call(&call, Cancel::graceful().by("script"));
    }
    world.follow(&run).await;
}

async fn slow_disk_answer(world: World) {
    let drops = ["It ", "comes ", "drop ", "by ", "drop."].map(|word| drip(word, 20));
    tell(&world, "Drip.", answer(drops.into_iter().chain([vec![Act::end()]]))).await;
}

async fn slow_disk_tools(world: World) {
    let model = world.model([three_calls(), done()]);
    let agent = three_tools(world.agent(&model), 200, 100, &world.tools);
    ask(&world, agent, "All three, slowly.").await;
}

async fn broken_stream(world: World) {
    let first = answer([words("It breaks "), vec![Act::Yield, Act::Break]]);
    let model = world.model([first, vec![Act::Fail(ModelError::context_overflow("too long"))]]);
    let agent = world.open(world.agent(&model));
    play(&world, &agent, "Break.").await;
    play(&world, &agent, "Overflow.").await;
}

async fn bad_calls(world: World) {
    let first = answer([
        Act::call(0, "x", "nobody", "{}"),
        Act::call(1, "x", "quick", "{}"),
        Act::call(2, "y", "quick", "{\"n\": \"text\"}"),
        Act::call(3, "z", "quick", "{\"n\": "),
        Act::call(4, "", "quick", ""),
        vec![Act::tool_use()],
    ]);
    let model = world.model([first, done()]);
    ask(&world, world.agent(&model).tool(tools::quick("quick", &world.tools)), "Go wrong.").await;
}

async fn panicking_tool(world: World) {
    let model = world.model([calling("", &[("p", "bomb"), ("q", "quick")]), done()]);
    let agent =
        world.agent(&model).tool(tools::panicking("bomb", &world.tools)).tool(tools::quick("quick", &world.tools));
    ask(&world, agent, "Boom.").await;
}

async fn steady_stream(world: World) {
    let ticks = (0..12).flat_map(|_| drip("tick ", 9)).collect();
    tell(&world, "Tick.", answer([ticks, vec![Act::usage(2, 12), Act::end()]])).await;
}

async fn empty_pieces(world: World) {
    let pause = || vec![Act::Pause(millis(80))];
    let input = |json: &str| Act::Piece(Piece::CallInput { index: 0, json: json.to_owned() });
    let first = answer([
        vec![Act::text(""), Act::thinking("")],
        pause(),
        words("Hello, "),
        vec![Act::text(""), Act::Piece(Piece::Call { id: "e".into(), name: "quick".into() }), input("")],
        pause(),
        vec![input("{}"), Act::Piece(Piece::CallEnd { index: 0 }), Act::tool_use()],
    ]);
    let model = world.model([first, vec![Act::end()]]);
    ask(&world, world.agent(&model).tool(tools::quick("quick", &world.tools)), "Nothing.").await;
}

async fn denying_hook(world: World) {
    let model = world.model([calling("", &[("no", "quick"), ("yes", "slow")]), done()]);
    let agent = world
        .agent(&model)
        .tool(tools::quick("quick", &world.tools))
        .tool(tools::slow("slow", millis(50), &world.tools))
        .before_tool(|moment| async move {
            sleep(millis(5)).await;
            match moment.what {
                What::BeforeTool { call } if call.name == "quick" => Decision::Deny("not today".to_owned()),
                _ => Decision::Continue,
            }
        });
    ask(&world, agent, "May I?").await;
}

async fn cancelling_hook(world: World) {
    let model = world.model([calling("Then ", &[("x", "slow")]), done()]);
    let agent = world
        .agent(&model)
        .tool(tools::slow("slow", millis(50), &world.tools))
        .after_tool(|_| async { Decision::Cancel(Cancel::graceful().by("hook").note("enough")) })
        .after_run(|_| async {
            sleep(millis(30)).await;
            Decision::Continue
        });
    ask(&world, agent, "Until it is enough.").await;
}

async fn agent_cancel(world: World) {
    let first = answer([drip("On ", 30_000), words("and on."), vec![Act::end()]]);
    let model = world.model([first, done(), done()]);
    let agent = world.open(world.agent(&model));
    let Ok(run) = world.start(agent.prompt("Go on.")) else { return };
    world.follow_until(&run, |item| matches!(item, FeedItem::Delta(_))).await;
    agent.cancel();
    world.follow(&run).await;
    // Idle now: this arms, the next run is cancelled before it begins, and the one after is normal.
    if let AgentReply::Armed = agent.cancel() {
        play(&world, &agent, "Not this one.").await;
    }
    play(&world, &agent, "But this one.").await;
}

/// Plays one call of a tool, and then a last answer.
async fn play_one_tool(world: World, tool: FnTool) {
    let model = world.model([calling("Calling. ", &[("t1", "tool")]), done()]);
    ask(&world, world.agent(&model).tool(tool), "Call it.").await;
}

/// A slow tool that may finish after a pull, within 400 ms.
fn may_finish(takes_ms: u64, log: &ToolLog) -> FnTool {
    let within = millis(400);
    tools::slow("tool", millis(takes_ms), log).on_cancel(OnCancel::Finish { within })
}

async fn detached_tool(world: World) {
    let model = world.model([calling("Two. ", &[("d1", "detached"), ("d2", "kind")]), done()]);
    let agent = world
        .agent(&model)
        .tool(tools::slow("detached", millis(900), &world.tools).on_cancel(OnCancel::Detach))
        .tool(tools::cooperative("kind", millis(300), &world.tools));
    ask(&world, agent, "Call them.").await;
}

async fn talkative_on_slow_disk(world: World) {
    let model = world.model([calling("Two. ", &[("o1", "tool"), ("o2", "short")]), done()]);
    let (tool, short) = (tools::talkative("tool", 8, &world.tools), tools::talkative("short", 2, &world.tools));
    ask(&world, world.agent(&model).tool(tool).tool(short), "Call them.").await;
}

async fn threads_in_a_queue(world: World) {
    let model = world.model([calling("Three. ", &[("q0", "tool"), ("q1", "tool"), ("q2", "tool")]), done()]);
    let tool = tools::on_thread("tool", millis(200), false, &world.tools);
    ask(&world, world.agent(&model).tool(tool), "Call them.").await;
}

fn is_disks<T>(compensated: &Result<T, CompensateError>) -> bool {
    matches!(compensated, Err(CompensateError::Journal(JournalError::Storage(_))))
}

async fn compensated_call(world: World) {
    let model = world.model([calling("Paying. ", &[("u1", "pay")]), done()]);
    let undone = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&undone);
    let pay = tools::slow("pay", millis(100), &world.tools).compensation(Duration::from_secs(1), move |_| {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            sleep(millis(30)).await;
            Ok("paid back".into())
        }
    });
    let agent = world.open(world.agent(&model).tool(pay));
    let Ok(run) = world.start(agent.prompt("Pay.")) else { return };
    world.follow(&run).await;
    let Some(call) = call_id("u1") else { return };
    let ran = run
        .receipt()
        .is_some_and(|receipt| receipt.calls.iter().any(|account| account.verdict != Verdict::NeverStarted));
    let mut compensated = agent.compensate(&run, &call, Some("ada")).await;
    while is_disks(&compensated) && undone.load(Ordering::Relaxed) == 0 {
        // What could not be put on record has not begun. It is requested again once there is room.
        sleep(millis(1)).await;
        compensated = agent.compensate(&run, &call, Some("ada")).await;
    }
    let is_right = compensated.is_ok() == ran || is_disks(&compensated);
    if !is_right || undone.load(Ordering::Relaxed) != usize::from(ran) {
        world.broken(&format!("P7: the call had run: {ran}, and undoing it came to {compensated:?}"));
    }
    let addenda = run.receipt().map(|receipt| receipt.addenda).unwrap_or_default();
    let began = addenda.iter().position(|addendum| matches!(addendum.what, Learnt::CompensationStarted { .. }));
    if ran && began != Some(0) {
        world.broken(&format!("P7: a compensation was not on record before it began: {addenda:?}"));
    }
}
