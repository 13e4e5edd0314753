//! The scripts that the explorer plays: every kind of thing that a run can be doing when it is stopped.

mod figures;
mod hooks;
mod own;
mod sessions;
mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use andon_runtime::core::event::{AddendumKind, Event};
use andon_runtime::core::id::LOCAL;
use andon_runtime::{
    Agent, AgentBuilder, AgentReply, Cancel, CompensateError, DecideError, FeedItem, FnTool, JournalError, Limits,
    ModelError, OnCancel, Piece, Retry, Run, RunState, Runtime, Session, StartError, Verdict, WhenBusy,
};
use tokio::time::sleep;

use crate::explore::{Script, World, explore};
use crate::model::{Act, ScriptedModel};
use crate::tools::{self, ToolLog};

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A tool's default grace, plus the time to drop it.
const GRACE: Duration = millis(2_100);

/// A stop that waits for nothing.
const AT_ONCE: Duration = Duration::ZERO;

/// All scripts.
#[expect(clippy::too_many_lines, reason = "a list, one line for each script")]
pub fn all() -> Vec<Script> {
    let slow_disk = millis(30);
    vec![
        explore("plain text").play(plain_text).within(AT_ONCE),
        explore("thinking then text").play(thinking_then_text).within(AT_ONCE),
        explore("text and one tool").play(text_and_one_tool).within(GRACE),
        explore("parallel tools of which some finished").play(parallel_tools).within(GRACE),
        explore("sequential tools").play(sequential_tools).within(GRACE),
        explore("half-streamed tool arguments").play(half_streamed_arguments).within(GRACE),
        explore("a silent model").play(silent_model).within(AT_ONCE),
        explore("retry with back-off").play(retry_with_back_off).within(AT_ONCE),
        explore("approval").play(approval).within(GRACE),
        explore("an approval that is denied").play(denied_approval).within(GRACE),
        explore("a waiting hook").play(hooks::waiting).within(GRACE),
        explore("a stubborn tool").play(stubborn_tool).within(millis(600)),
        explore("a reader that stopped").play(reader_that_stopped).within(AT_ONCE),
        explore("several turns").play(several_turns).within(GRACE),
        explore("a limit that fires").play(limit_that_fires).within(GRACE),
        explore("a silence limit that fires").play(silence_limit).within(AT_ONCE),
        explore("a token limit that a provider reports too late").play(figures::limited).within(AT_ONCE),
        explore("supersede").play(supersede).within(GRACE),
        explore("a queued run").play(queued).within(GRACE),
        explore("one call cancelled alone").play(one_call_cancelled).within(GRACE),
        explore("a slow disk").play(slow_disk_answer).disk(slow_disk).within(millis(150)),
        explore("tools on a slow disk").play(slow_disk_tools).disk(slow_disk).within(GRACE + millis(300)),
        explore("a stream that breaks").play(broken_stream).within(AT_ONCE),
        explore("calls that cannot be made").play(bad_calls).within(GRACE),
        explore("a tool that panics").play(panicking_tool).within(GRACE),
        explore("a steady stream").play(steady_stream).within(AT_ONCE),
        explore("empty pieces").play(empty_pieces).within(GRACE),
        explore("a hook that denies").play(hooks::denying).within(GRACE),
        explore("a hook that cancels").play(hooks::cancelling).within(GRACE),
        explore("hooks that change everything").play(hooks::changing).within(GRACE),
        explore("a hook that changes a prompt with a history of its own")
            .play(hooks::changing_after_history)
            .within(GRACE),
        explore("hooks that change everything on a slow disk")
            .play(hooks::changing)
            .disk(slow_disk)
            .within(GRACE + slow_disk * 10),
        explore("a hook that withdraws an answer").play(hooks::withdrawing).within(GRACE),
        explore("a hook that answers a call").play(hooks::answering).within(GRACE),
        explore("a hook that asks a person").play(hooks::asking).within(GRACE),
        explore("a hook that changes a call into one that needs approval").play(hooks::needing_approval).within(GRACE),
        explore("hooks that change a call in turn").play(hooks::changing_in_turn).within(GRACE),
        explore("a hook that changes a call anew after its approval").play(hooks::changing_anew).within(GRACE),
        explore("a hook that renames a call after its approval").play(hooks::renaming_after_approval).within(GRACE),
        explore("a hook that changes a call into one that cannot be made").play(hooks::misfitting).within(GRACE),
        explore("a hook that fails the run while a tool runs").play(hooks::failing_beside_a_tool).within(GRACE),
        explore("a hook that fails the run after a model call").play(hooks::failing_after_a_model).within(GRACE),
        explore("a hook that fails the run at its end").play(hooks::failing_at_the_end).within(GRACE),
        explore("a hook that returns an impossible request").play(hooks::impossible).within(GRACE),
        explore("a hook's question after a restart").play(hooks::question_after_a_restart).within(GRACE),
        explore("a cancel of the whole agent").play(agent_cancel).within(GRACE),
        explore("a cancel of one session").play(sessions::one_of_several).within(AT_ONCE),
        explore("a question after a restart").play(question_after_a_restart).within(GRACE),
        explore("a queue after a restart").play(queue_after_a_restart).within(GRACE),
        one_tool("a tool that is dropped at once", |log| {
            tools::slow("tool", millis(300), log).on_cancel(OnCancel::Drop)
        })
        .within(AT_ONCE),
        one_tool("a tool that may finish", |log| may_finish(300, log)).within(millis(500)),
        one_tool("a tool that may finish and is too slow", |log| may_finish(900, log)).within(millis(500)),
        explore("a tool that outlives its run").play(detached_tool).within(GRACE),
        one_tool("a tool that takes too long", |log| {
            tools::stubborn("tool", Duration::from_secs(9), log).timeout(millis(200))
        })
        .within(millis(600)),
        one_tool("a tool that shows its work", |log| tools::talkative("tool", 4, log)).within(GRACE),
        explore("a tool that shows its work on a slow disk")
            .play(talkative_on_slow_disk)
            .disk(slow_disk)
            .within(GRACE + slow_disk * 10),
        one_tool("a process", |log| tools::with_process("tool", millis(300), millis(50), log))
            .within(GRACE + millis(60)),
        one_tool("a tool that works elsewhere", |log| tools::elsewhere("tool", millis(300), log)).within(AT_ONCE),
        one_tool("a thread that looks at its cord", |log| tools::on_thread("tool", millis(300), true, log))
            .within(millis(600)),
        one_tool("a thread that goes on", |log| tools::on_thread("tool", millis(2_000), false, log))
            .within(millis(700)),
        explore("more threads than slots").play(threads_in_a_queue).within(millis(700)),
        explore("a history of its own").play(waits::own_history).within(GRACE),
        explore("a history of its own in a session that has one").play(waits::second_history).within(GRACE),
        explore("a wait that is dropped").play(waits::dropped).within(GRACE),
        explore("a wait that is dropped while its run is queued").play(waits::dropped_in_a_queue).within(GRACE),
        explore("approvals that are decided together").play(waits::decided_together).within(GRACE),
        explore("a call that is undone").play(compensated_call).within(GRACE),
        explore("a cut call that is looked up").play(figures::looked_up).within(GRACE),
        explore("a cut call that is looked up while the disk is slow")
            .play(figures::looked_up)
            .disk(slow_disk)
            .within(GRACE + slow_disk * 10),
        explore("a cut call that is drained").play(figures::drained).within(AT_ONCE),
        explore("a figure that never comes").play(figures::never_learned).within(AT_ONCE),
        explore("a model with a meter").play(figures::metered).within(GRACE),
        explore("a meter that is not prepared").play(figures::rough).within(GRACE),
        explore("a tool with typed arguments").play(own::typed).within(GRACE),
        explore("a model made from a stream").play(own::streamed).within(AT_ONCE),
        explore("a layer around a model").play(own::layered).within(GRACE),
    ]
}

/// One call of a tool, and then a last answer.
fn one_tool(name: &'static str, make: impl Fn(&ToolLog) -> FnTool + 'static) -> Script {
    explore(name).play(move |world| {
        let tool = make(&world.tools);
        play_one_tool(world, tool)
    })
}

/// Starts a prompt and reads its feed to the end.
async fn play(world: &World, session: &Session, prompt: &str) {
    world.play(session.prompt(prompt)).await;
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
    let session = world.open(world.agent(&model).tool(tools::quick("quick", &world.tools)).tool(danger));
    let Ok(run) = world.start(session.prompt("Do it.")) else { return };
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
    decide(world, |run, call| run.decide(call).approve().by("ada").send()).await;
}

async fn denied_approval(world: World) {
    decide(world, |run, call| run.decide(call).deny().by("ada").note("too dangerous").send()).await;
}

async fn stubborn_tool(world: World) {
    let model = world.model([calling("Slowly. ", &[("m", "mule")])]);
    let session = world.open(world.agent(&model).tool(tools::stubborn("mule", Duration::from_secs(60), &world.tools)));
    let Ok(run) = world.start(session.prompt("Go.")) else { return };
    if world.follow_until(&run, is_tool_start).await {
        sleep(millis(20)).await;
        run.cancel(Cancel::graceful().by("script"));
    }
    world.follow(&run).await;
}

async fn reader_that_stopped(world: World) {
    let text = answer([vec![Act::Flood("drop ", 40)], words("sea."), vec![Act::usage(3, 41), Act::end()]]);
    let model = world.model([text]);
    let session = world.open(world.agent(&model));
    let Ok(run) = world.start(session.prompt("Flood.")) else { return };
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
    let session = world.open(world.agent(&model).tool(tools::quick("quick", &world.tools)));
    play(&world, &session, "Three turns.").await;
    play(&world, &session, "And another prompt.").await;
}

async fn limit_that_fires(world: World) {
    let turn =
        |id| answer([words("Again. "), Act::call(0, id, "quick", "{}"), vec![Act::usage(10, 5), Act::tool_use()]]);
    let model = world.model([turn("l1"), turn("l2"), turn("l3")]);
    let limits = Limits::new().turns(2);
    let session = world.open(world.agent(&model).limits(limits).tool(tools::quick("quick", &world.tools)));
    play(&world, &session, "Forever.").await;
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
    let session = world.open(world.agent(&model));
    let Ok(old) = world.start(session.prompt("Old.")) else { return };
    world.follow_until(&old, |item| matches!(item, FeedItem::Delta(_))).await;
    let Ok(new) = world.start(session.prompt("New.").when_busy(WhenBusy::Supersede)) else { return };
    world.follow(&old).await;
    world.follow(&new).await;
}

async fn queued(world: World) {
    let first = answer([drip("First ", 40), words("come."), vec![Act::end()]]);
    let model = world.model([first, done()]);
    let session = world.open(world.agent(&model));
    let Ok(first) = world.start(session.prompt("First.")) else { return };
    let refused = world.start(session.prompt("Me too."));
    debug_assert!(matches!(refused, Err(StartError::Busy { .. })) || first.try_outcome().is_some());
    let Ok(second) = world.start(session.prompt("Second.").when_busy(WhenBusy::Queue)) else { return };
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
            let Some(Ok(session)) = agent.ok().map(|agent| agent.session(LOCAL, "s")) else { return };
            let Ok(run) = session.start("Do it.") else { return };
            while run.state() != RunState::Waiting {
                sleep(millis(1)).await;
            }
        })
        .await;
    let model = world.model([done()]);
    let danger = tools::slow("danger", millis(50), &world.tools).needs_approval();
    let _session = world.open(world.agent(&model).tool(danger).tool(tools::quick("quick", &world.tools)));
    for run in world.recover().await {
        if world.follow_until(&run, is_question).await {
            sleep(Duration::from_secs(5)).await;
            // A run that was stopped first accepts no decision.
            let _ = call_id("guarded").map(|call| run.decide(&call).approve().by("ada").send());
        }
        world.follow(&run).await;
    }
}

async fn queue_after_a_restart(world: World) {
    world
        .earlier(|runtime| async move {
            let agent = earlier_agent(&runtime, vec![answer([words("Busy "), vec![Act::Silence]])]).build();
            let Some(Ok(session)) = agent.ok().map(|agent| agent.session(LOCAL, "s")) else { return };
            let first = session.start("First.");
            let queue = |text: &str| session.prompt(text).when_busy(WhenBusy::Queue).start();
            let (Ok(_first), Ok(second), Ok(third)) = (first, queue("Second."), queue("Third.")) else { return };
            while second.seq() == 0 || third.seq() == 0 {
                sleep(millis(1)).await;
            }
        })
        .await;
    let model = world.model([done(), done()]);
    let _session = world.open(world.agent(&model));
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
    let session = world.open(agent);
    let Ok(run) = world.start(session.prompt("Both.")) else { return };
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
    let session = world.open(world.agent(&model));
    play(&world, &session, "Break.").await;
    play(&world, &session, "Overflow.").await;
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

async fn agent_cancel(world: World) {
    let first = answer([drip("On ", 30_000), words("and on."), vec![Act::end()]]);
    let model = world.model([first, done(), done()]);
    let session = world.open(world.agent(&model));
    let Ok(run) = world.start(session.prompt("Go on.")) else { return };
    world.follow_until(&run, |item| matches!(item, FeedItem::Delta(_))).await;
    session.agent().cancel();
    world.follow(&run).await;
    // Idle now: this arms, the next run is cancelled before it begins, and the one after is normal.
    if let AgentReply::Armed = session.agent().cancel() {
        play(&world, &session, "Not this one.").await;
    }
    play(&world, &session, "But this one.").await;
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
    let session = world.open(world.agent(&model).tool(pay));
    let Ok(run) = world.start(session.prompt("Pay.")) else { return };
    world.follow(&run).await;
    let Some(call) = call_id("u1") else { return };
    let ran = run
        .receipt()
        .is_some_and(|receipt| receipt.calls.iter().any(|account| account.verdict != Verdict::NeverStarted));
    let mut compensated = session.agent().compensate(&run, &call, Some("ada")).await;
    while is_disks(&compensated) && undone.load(Ordering::Relaxed) == 0 {
        // What could not be put on record has not begun. It is requested again once there is room.
        sleep(millis(1)).await;
        compensated = session.agent().compensate(&run, &call, Some("ada")).await;
    }
    let is_right = compensated.is_ok() == ran || is_disks(&compensated);
    if !is_right || undone.load(Ordering::Relaxed) != usize::from(ran) {
        world.broken(&format!("P7: the call had run: {ran}, and undoing it came to {compensated:?}"));
    }
    let addenda = run.receipt().map(|receipt| receipt.addenda).unwrap_or_default();
    let began = addenda.iter().position(|addendum| matches!(addendum.what, AddendumKind::CompensationStarted { .. }));
    if ran && began != Some(0) {
        world.broken(&format!("P7: a compensation was not on record before it began: {addenda:?}"));
    }
}
