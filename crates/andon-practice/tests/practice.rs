//! What the practice model does for which prompt, how long it takes, and the usage that it reports.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use andon_practice::Practice;
use andon_runtime::core::message::ResultStatus;
use andon_runtime::{
    Agent, Answer, Cancel, Effect, FeedItem, FnTool, Kind, Message, Model, ModelRequest, ModelStop, Part, Piece, Role,
    Run, RunId, Runtime, Session, ToolOutput, ToolSpec, Usage,
};
use serde_json::json;
use tokio::time::Instant;

fn spec(name: &str) -> Arc<ToolSpec> {
    let mut spec = ToolSpec::new(
        name,
        "For practice.",
        json!({"type": "object", "properties": {"to": {"type": "integer"}}, "required": ["to"]}),
    );
    spec.effect = Effect::ReadOnly;
    spec.grace = Duration::ZERO;
    Arc::new(spec)
}

fn request(prompt: &str) -> ModelRequest {
    ModelRequest::new(RunId::new("r").unwrap(), 1, vec![Arc::new(Message::user(prompt))])
        .tools([spec("slow_count"), spec("dice")].into())
}

async fn next(answer: &mut Box<dyn Answer>) -> Option<Piece> {
    poll_fn(|cx| answer.poll_piece(cx)).await.map(Result::unwrap)
}

async fn all(model: &Practice, prompt: &str) -> Vec<Piece> {
    let mut answer = model.call(request(prompt));
    let mut pieces = Vec::new();
    while let Some(piece) = next(&mut answer).await {
        pieces.push(piece);
    }
    pieces
}

fn text(pieces: &[Piece]) -> String {
    let words = pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        _ => None,
    });
    words.collect()
}

#[tokio::test]
async fn an_answer_says_that_it_comes_from_a_practice_model_and_has_a_few_paragraphs() {
    for seed in 0..50 {
        let text = text(&all(&Practice::instant().seed(seed), "What is the meaning of life?").await);
        assert!(text.contains("practice model"), "{text}");
        assert!(text.contains("What is the meaning of life?"), "{text}");
        assert!(text.split("\n\n").count() >= 4, "{text}");
    }
}

#[tokio::test]
async fn the_same_seed_and_prompt_give_the_same_pieces_and_others_give_others() {
    let model = Practice::instant().seed(7);
    let pieces = all(&model, "Think, then roll the dice").await;
    assert_eq!(pieces, all(&model, "Think, then roll the dice").await);
    assert_ne!(pieces, all(&Practice::instant().seed(8), "Think, then roll the dice").await);
    assert_ne!(text(&all(&model, "Hello").await), text(&all(&model, "Good morning").await));
}

#[tokio::test]
async fn usage_is_exact_at_every_piece_and_final_at_the_end() {
    for prompt in ["Hello", "Think about it", "Use both dice and slow_count", "Tell me a long story"] {
        let mut answer = Practice::instant().call(request(prompt));
        let Some(Piece::Usage(first)) = next(&mut answer).await else { panic!("the first piece is the input's usage") };
        let input = first.input.value.unwrap();
        assert!(input > 0);
        let (mut output, mut reasoning, mut last) = (0, 0, None);
        while let Some(piece) = next(&mut answer).await {
            match &piece {
                Piece::Text(_) | Piece::Call { .. } | Piece::CallInput { .. } => output += 1,
                Piece::Thinking(_) => (output, reasoning) = (output + 1, reasoning + 1),
                Piece::Usage(usage) => last = Some(**usage),
                Piece::ThinkingEnd { .. } | Piece::CallEnd { .. } | Piece::End(_) => {}
                #[cfg(not(andon_whole))]
                _ => {}
            }
            let so_far = answer.usage_so_far();
            assert_eq!((so_far.input.value, so_far.output.value), (Some(input), Some(output)), "{piece:?}");
            assert_eq!(so_far.reasoning.value, Some(reasoning));
        }
        let [input, output, reasoning] = [input, output, reasoning].map(andon_runtime::Figure::reported);
        let whole = Usage::NONE.input(input).output(output).reasoning(reasoning);
        assert_eq!(last, Some(whole), "{prompt}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_story_lasts_at_least_a_minute_and_a_normal_answer_a_few_seconds() {
    for seed in 0..5 {
        let began = Instant::now();
        all(&Practice::new().seed(seed), "Tell me a long story").await;
        assert!(began.elapsed() >= Duration::from_secs(60), "{:?}", began.elapsed());
        let began = Instant::now();
        all(&Practice::new().seed(seed), "Hello").await;
        let took = began.elapsed();
        assert!(took > Duration::from_secs(3) && took < Duration::from_secs(15), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn thinking_comes_first_for_several_seconds_and_is_signed_at_its_end() {
    let mut answer = Practice::new().call(request("Think about it"));
    let began = Instant::now();
    let mut thought = String::new();
    let signature = loop {
        match next(&mut answer).await.unwrap() {
            Piece::Thinking(text) => thought.push_str(&text),
            Piece::ThinkingEnd { signature } => break signature,
            Piece::Usage(_) => {}
            other => panic!("{other:?} came before the thought's end"),
        }
    };
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(signature.is_some_and(|seal| !seal.value.is_empty()) && thought.contains("Think about it"));
    assert!(matches!(next(&mut answer).await, Some(Piece::Text(_) | Piece::Usage(_))));
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_reports_its_input_and_then_is_silent_for_thirty_seconds() {
    let mut answer = Practice::new().call(request("Be silent"));
    let began = Instant::now();
    assert!(matches!(next(&mut answer).await, Some(Piece::Usage(_))));
    assert_eq!(began.elapsed(), Duration::ZERO);
    while matches!(next(&mut answer).await, Some(Piece::Usage(_))) {}
    assert!(began.elapsed() >= Duration::from_secs(30));
}

#[test]
fn an_instant_model_needs_no_timer_at_all() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let pieces = runtime.block_on(all(&Practice::instant(), "Be silent, think, and tell me a long story"));
    assert_eq!(pieces.last(), Some(&Piece::End(ModelStop::EndTurn)));
}

#[tokio::test]
async fn both_asks_for_two_tools_at_once() {
    let pieces = all(&Practice::instant(), "both").await;
    let names: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Call { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["slow_count", "dice"]);
    assert_eq!(pieces.last(), Some(&Piece::End(ModelStop::ToolUse)));
}

// ---- with an agent around it ----

fn agent(model: Practice) -> Session {
    let schema = || json!({"type": "object", "properties": {"to": {"type": "integer"}}, "required": ["to"]});
    let count = FnTool::new("slow_count", "Counts.", schema(), |call| async move {
        tokio::select! {
            () = call.cord.pulled() => Ok(ToolOutput::from("It had come to 2.")),
            () = tokio::time::sleep(Duration::from_secs(10)) => Ok(format!("counted to {}", call.input["to"]).into()),
        }
    });
    let dice = FnTool::new("dice", "Rolls.", schema(), |_| async { Ok("4 and 2".into()) });
    let runtime = Runtime::builder().one_lane().seed(1).build();
    let agent = Agent::builder().model(model).tool(count.effect(Effect::ReadOnly)).tool(dice).runtime(&runtime);
    agent.build().unwrap().new_session("ada").unwrap()
}

async fn wait_for(run: &Run, mut wanted: impl FnMut(&FeedItem) -> bool) {
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if wanted(&item) {
            return;
        }
    }
    panic!("the run ended first");
}

fn is_text(item: &FeedItem) -> bool {
    matches!(item, FeedItem::Delta(delta) if delta.kind == Kind::Text)
}

fn is_fact(item: &FeedItem, kind: &str) -> bool {
    serde_json::to_value(item).unwrap()["type"] == kind
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_once_with_arguments_from_the_prompt_and_its_result_is_repeated() {
    let session = agent(Practice::new());
    let outcome = session.run("Count slowly to 12").await.unwrap();
    assert_eq!(outcome.stop_reason(), "end_turn");
    assert!(outcome.text_so_far().contains("counted to 12"), "{}", outcome.text_so_far());
    assert_eq!((outcome.receipt.calls.len(), outcome.receipt.model_calls.len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn after_a_cut_answer_it_says_that_it_knows_and_only_once() {
    let session = agent(Practice::new());
    let run = session.start("Tell me a long story").unwrap();
    wait_for(&run, is_text).await;
    run.cancel(Cancel::graceful());
    let outcome = run.outcome().await;
    assert!(outcome.is_cancelled());
    let words = outcome.text_so_far().split_whitespace().count() as u64;
    let delivered = outcome.usage.delivered.output.value.unwrap();
    assert!(delivered == words || delivered == words + 1, "{delivered} tokens for {words} words");

    let next = session.run("Hello").await.unwrap().completed().unwrap().text();
    assert!(next.contains("I know that my last answer was stopped"), "{next}");
    let after = session.run("Hello").await.unwrap().completed().unwrap().text();
    assert!(!after.contains("stopped after"), "{after}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_reported_as_stopped_beside_the_one_that_finished() {
    let session = agent(Practice::new());
    let run = session.start("Use both").unwrap();
    wait_for(&run, |item| is_fact(item, "tool_finished")).await;
    let history = run.records();
    let message = history.iter().find_map(|record| match &record.event {
        andon_runtime::Event::Message { message } => Some(Arc::clone(message)),
        _ => None,
    });
    let call = message.unwrap().calls().find(|call| call.name == "slow_count").unwrap().id.clone();
    run.cancel_call(&call, Cancel::graceful());
    let text = run.outcome().await.text_so_far();
    assert!(text.contains("`dice` answered: 4 and 2"), "{text}");
    assert!(text.contains("`slow_count` was stopped") && text.contains("It had come to 2."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_among_tools_the_next_prompt_may_call_them_again() {
    let session = agent(Practice::new());
    let run = session.start("Count slowly to 3").unwrap();
    wait_for(&run, |item| is_fact(item, "tool_started")).await;
    run.cancel(Cancel::graceful());
    assert!(run.outcome().await.is_cancelled());
    let outcome = session.run("Count slowly to 3").await.unwrap();
    assert_eq!(outcome.receipt.calls.len(), 1);
    let history = session.history().await.unwrap();
    let says = |message: &&Arc<Message>| {
        message.text().contains("I know that I was stopped last time, before my tools were done")
    };
    assert_eq!(history.iter().filter(|message| message.role == Role::Assistant).filter(says).count(), 1);
    let stopped = history.iter().flat_map(|message| message.results()).next().unwrap();
    assert_eq!(stopped.status, ResultStatus::Cut);
    assert!(history.iter().flat_map(|message| &message.parts).any(|part| matches!(part, Part::ToolCall(_))));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_tokens_stops_it_in_the_middle_of_an_answer() {
    let session = agent(Practice::new());
    let limits = andon_runtime::Limits::new().tokens(200);
    let outcome = session.prompt("Tell me a long story").limits(limits).run().await.unwrap();
    assert!(outcome.is_cancelled());
    let used = outcome.usage.delivered.at_least();
    assert!((200..230).contains(&used), "{used}");
}
