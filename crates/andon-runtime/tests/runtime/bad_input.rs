//! Mistakes of a program, a model or a provider are reported clearly, and never leave a history that cannot go on (P2).

use andon_runtime::Piece;
use andon_runtime::core::message::{Image, Part};
use serde_json::Value;

use crate::common::*;

fn build_error(agent: AgentBuilder) -> String {
    agent.build().expect_err("this agent cannot be built").to_string()
}

fn tool(name: &str, schema: Value) -> FnTool {
    FnTool::new(name, "Does nothing.", schema, |_| async { Ok("nothing".into()) })
}

fn plain() -> AgentBuilder {
    scripted([])
}

/// Plays one answer to an agent with the tool `look`, which has an optional integer argument `n`.
async fn play(first: Vec<Act>) -> (Run, Arc<Outcome>, Vec<Arc<Message>>, ToolLog) {
    let log = ToolLog::new();
    let session = scripted([first]).tool(tools::quick("look", &log)).open();
    let (run, outcome) = run_to_end(&session, "Go.").await;
    let history = session.history().await.unwrap();
    assert_usable(&session).await;
    (run, outcome, history, log)
}

fn begin(id: &str, name: &str) -> Act {
    Act::Piece(Piece::Call { id: id.into(), name: name.into() })
}

fn input(index: usize, json: &str) -> Act {
    Act::Piece(Piece::CallInput { index, json: json.into() })
}

fn call(id: &str, name: &str, arguments: &str) -> Vec<Act> {
    answer([Act::call(0, id, name, arguments), vec![Act::tool_use()]])
}

// ---- what a program gets wrong ----

#[tokio::test]
async fn an_agent_without_a_model_cannot_be_built() {
    let expected = "an agent needs a model: call .model(..), for example .model(Practice::new())";
    assert_eq!(build_error(Agent::builder()), expected);
}

#[tokio::test]
async fn two_tools_of_one_name_cannot_be_told_apart() {
    let object = || json!({"type": "object"});
    let expected = "two tools are called \"look\": rename one of them, because the model calls tools by name";
    assert_eq!(build_error(plain().tool(tool("look", object())).tool(tool("look", object()))), expected);
}

#[tokio::test]
async fn a_schema_that_does_not_describe_an_object_is_refused() {
    let expected = "the schema of tool \"look\" cannot be used: \
                    it must describe an object: write {\"type\": \"object\", \"properties\": {..}}";
    for schema in [json!({"type": "string"}), json!(true), json!({}), json!([]), json!({"type": ["object", "null"]})] {
        assert_eq!(build_error(plain().tool(tool("look", schema))), expected);
    }
}

#[tokio::test]
async fn a_schema_that_is_itself_wrong_is_refused() {
    let wrong = tool("look", json!({"type": "object", "properties": {"n": {"type": "no"}}}));
    let checked = andon_runtime::Tool::spec(&wrong).check().unwrap_err().to_string();
    let error = build_error(plain().tool(wrong));
    assert_eq!(checked, error, "what is checked beforehand is what an agent wants");
    assert!(error.starts_with("the schema of tool \"look\" cannot be used: "), "{error}");
    assert!(error.contains("no"), "{error}");
}

#[tokio::test]
async fn limits_of_zero_are_refused_by_name() {
    let zero = std::time::Duration::ZERO;
    let cases = [
        ("deadline", Limits::new().deadline(zero)),
        ("silence", Limits::new().silence(zero)),
        ("turns", Limits::new().turns(0)),
        ("tokens", Limits::new().tokens(0)),
    ];
    for (name, limits) in cases {
        let expected =
            format!("the limit {name:?} is zero, so every run would stop before it began: raise it, or leave it out");
        assert_eq!(build_error(plain().limits(limits)), expected);
    }
}

#[tokio::test]
async fn no_tool_at_once_is_refused() {
    let expected = "tools_at_once is zero, so no tool could run: use 1 to run them one after another";
    assert_eq!(build_error(plain().tools_at_once(0)), expected);
}

#[tokio::test]
async fn names_that_cannot_be_ids_are_refused() {
    let told = |name: &str| build_error(plain().name(name));
    let prefix = "the agent's name cannot be used: ";
    assert_eq!(told(""), format!("{prefix}an id must not be empty"));
    let expected = format!("{prefix}an id must not contain '/': use letters, digits and punctuation other than '/'");
    assert_eq!(told("a/b"), expected);
    assert_eq!(told(&"x".repeat(300)), format!("{prefix}an id has at most 256 bytes, this one has 300"));

    let agent = plain().build().unwrap();
    assert_eq!(agent.session(LOCAL, "").unwrap_err().to_string(), "an id must not be empty");
    assert!(agent.session("a\nb", "s").is_err());
    let expected = "\"\" cannot be a tool's name: use 1 to 64 letters, digits, '_' and '-'";
    assert_eq!(build_error(plain().tool(tool("", json!({"type": "object"})))), expected);
}

#[tokio::test]
async fn a_tools_name_that_no_provider_accepts_is_refused() {
    for name in ["look around", "schön", "a.b", "a/b", &"x".repeat(65)] {
        let built = plain().tool(tool(name, json!({"type": "object"}))).build();
        assert!(built.is_err(), "{name:?} was taken");
    }
}

// ---- what a model gets wrong ----

#[tokio::test(start_paused = true)]
async fn a_call_of_an_unknown_tool_is_answered_with_the_names_of_the_known_ones() {
    for name in ["nobody", "", "look around, please!"] {
        let (_, outcome, history, log) = play(call("x", name, "{}")).await;
        assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 0));
        let result = result_of(&history, "x");
        assert_eq!(result.status, ResultStatus::Refused);
        assert_eq!(result.to_text(), "Not run: there is no tool of this name. The tools are: look.");
        assert_eq!(outcome.receipt.calls[0].refused, Some(Refusal::UnknownTool));
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_with_half_a_character_are_not_changed_into_others_and_the_model_is_told() {
    for (arguments, half) in [
        (r#"{"n": 1, "x": "a\ud800b"}"#, r"\ud800"),
        (r#"{"x": "\ud83d\ude00\uDE00"}"#, r"\uDE00"),
        (r#"{"\udfff": 1}"#, r"\udfff"),
        (r#"{"x": "\\\ud83d\n"}"#, r"\ud83d"),
        (r#"{"x": "\ud83d\ud83d\ude00"}"#, r"\ud83d"),
    ] {
        let (_, outcome, history, log) = play(call("x", "look", arguments)).await;
        assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 0), "{arguments}");
        let told = result_of(&history, "x").to_text();
        assert!(told.contains(&format!("half of a character, {half},")), "{arguments}: {told}");
        assert_eq!(outcome.receipt.calls[0].refused, Some(Refusal::BadArguments));
    }
    // A whole character, and an escape that is itself escaped.
    for arguments in [r#"{"x": "\ud83d\ude00"}"#, r#"{"x": "\\ud800"}"#] {
        let (.., log) = play(call("x", "look", arguments)).await;
        assert_eq!(log.started(), 1, "{arguments}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_model_is_told_about_arguments_that_are_not_json_or_break_the_schema() {
    let deep = "[".repeat(100_000);
    let cases = [
        ("{\"n\": ", "They are not valid JSON: "),
        ("nonsense", "They are not valid JSON: "),
        ("{} {}", "They are not valid JSON: "),
        (deep.as_str(), "They are not valid JSON: "),
        ("{\"n\": \"one\"}", "At /n: "),
        ("[1]", "At the arguments: "),
        ("null", "At the arguments: "),
    ];
    for (arguments, why) in cases {
        let (_, outcome, history, log) = play(call("x", "look", arguments)).await;
        assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 0));
        let told = result_of(&history, "x").to_text();
        assert!(told.starts_with(&format!("Not run: the arguments are not what this tool takes. {why}")), "{told}");
        assert_eq!(outcome.receipt.calls[0].verdict, Verdict::NeverStarted);
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_of_ten_megabytes_are_refused_in_words_and_stored_as_they_were_written() {
    let long = format!("{{\"n\": 1, \"text\": \"{}\"}}", "x".repeat(10_000_000));
    let (_, outcome, history, log) = play(call("x", "look", &long)).await;
    assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 0));
    let stored = history[1].calls().next().unwrap();
    assert!(stored.arguments == long, "stored as it was written");
    let told = result_of(&history, "x").to_text();
    assert!(told.contains(&format!("They are {} bytes long, and at most 1048576 are allowed.", long.len())), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_error_result_for_huge_bad_arguments_stays_small() {
    let long = format!("{{\"n\": \"{}\"}}", "x".repeat(10_000_000));
    let (_, _, history, _) = play(call("x", "look", &long)).await;
    let told = result_of(&history, "x").to_text();
    assert!(told.len() < 10_000, "{} bytes are told to the model", told.len());
}

#[tokio::test(start_paused = true)]
async fn a_tool_result_of_fifty_megabytes_is_cut_and_the_model_is_told_how_much_is_missing() {
    const WHOLE: usize = 50_000_000;
    const KEPT: usize = 1 << 20;
    let huge = FnTool::new("look", "Looks.", json!({"type": "object"}), |_| async { Ok("x".repeat(WHOLE).into()) });
    let session = scripted([calls(&[("x", "look")]), says("Done.")]).tool(huge).open();
    assert_eq!(run_to_end(&session, "Go.").await.1.text_so_far(), "Done.");
    let history = session.history().await.unwrap();
    let told = result_of(&history, "x").to_text();
    let notice = format!("[{} bytes of this result were cut: it is over the limit]", WHOLE - KEPT);
    assert!(told.ends_with(&notice), "{}", told.chars().rev().take(100).collect::<String>());
    assert!(told.len() < KEPT + 200, "{} bytes are kept", told.len());
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn empty_arguments_are_an_empty_object() {
    for arguments in ["", "  "] {
        let (_, outcome, _, log) = play(call("x", "look", arguments)).await;
        assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 1));
    }
}

#[tokio::test(start_paused = true)]
async fn one_id_for_two_calls_of_an_answer_runs_the_first_and_refuses_the_second_under_an_id_of_its_own() {
    let twice = answer([Act::call(0, "x", "look", "{}"), Act::call(1, "x", "look", "{}"), vec![Act::tool_use()]]);
    let (_, outcome, history, log) = play(twice).await;
    assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 1));
    assert_eq!(result_of(&history, "x").status, ResultStatus::Ok);
    let second = &outcome.receipt.calls.iter().find(|account| account.refused.is_some()).unwrap();
    assert_eq!(second.refused, Some(Refusal::DuplicateId));
    assert_ne!(second.call, id("x"));
}

/// Checks P5: a call that is asked for twice is made once, even if an earlier call had its id.
#[tokio::test(start_paused = true)]
async fn one_id_for_two_calls_of_an_answer_that_an_earlier_call_has_had_runs_the_first_of_the_two() {
    let log = ToolLog::new();
    let two =
        |second| answer([Act::call(0, "x", "look", "{}"), Act::call(1, second, "look", "{}"), vec![Act::tool_use()]]);
    // The first got the id `x-2`, which the model then uses itself.
    let model = ScriptedModel::new([call("x", "look", "{}"), two("x"), two("x-2"), says("Done.")]);
    let session = agent(&model).tool(tools::quick("look", &log)).open();
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!(log.started(), 4);
    let refused: Vec<_> = outcome.receipt.calls.iter().filter_map(|account| account.refused).collect();
    assert_eq!(refused, [Refusal::DuplicateId]);
}

#[tokio::test(start_paused = true)]
async fn one_id_in_two_turns_is_two_calls_under_two_ids() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([call("x", "look", "{}"), call("x", "look", "{}"), says("Done.")]);
    let session = agent(&model).tool(tools::quick("look", &log)).open();
    let run = session.start("Go.").unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    assert_eq!(log.started(), 2);
    let again = session.run("Again.").await.unwrap();
    assert_eq!(again.stop_reason(), "end_turn");
}

#[tokio::test(start_paused = true)]
async fn one_id_in_two_runs_of_a_session_is_two_calls_under_two_ids() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([call("x", "look", "{}"), says("One."), call("x", "look", "{}"), says("Two.")]);
    let session = agent(&model).tool(tools::quick("look", &log)).open();
    for text in ["One.", "Two."] {
        assert_eq!(run_to_end(&session, "Go.").await.1.text_so_far(), text);
    }
    assert_eq!(log.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_empty_or_cannot_be_ids_are_replaced() {
    for wrong in ["", "a/b", "a\nb", &"x".repeat(300)] {
        let (_, outcome, history, log) = play(call(wrong, "look", "{}")).await;
        assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 1));
        let made = history[1].calls().next().unwrap().id.clone();
        assert_eq!(result_of(&history, made.as_str()).status, ResultStatus::Ok);
    }
}

// ---- what a provider gets wrong ----

#[tokio::test(start_paused = true)]
async fn a_part_of_a_call_that_was_never_begun_fails_the_run_with_a_clear_message() {
    for (piece, index) in [(input(0, "{}"), 0), (Act::Piece(Piece::CallEnd { index: 7 }), 7)] {
        let (_, outcome, ..) = play(vec![piece]).await;
        let message = format!("the model sent a piece of tool call {index}, which it had not begun");
        assert_eq!(*outcome.ending, Ending::Failed(Failure::new(FailureKind::Model, message)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_call_that_was_never_begun_after_shown_text_keeps_the_text() {
    let (_, outcome, history, _) = play(vec![Act::text("Shown. "), input(3, "{}")]).await;
    let Ending::Failed(failure) = &*outcome.ending else { panic!("{:?}", outcome.ending) };
    assert_eq!(failure.message, "the model sent a piece of tool call 3, which it had not begun");
    assert_eq!(texts(&history), ["Go.", "Shown.  [cut]"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_saying_so_is_retried_if_nothing_was_shown() {
    let model = ScriptedModel::new([vec![Act::Break], vec![Act::usage(3, 0), Act::Break], says("Third time.")]);
    let session = agent(&model).open();
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!((outcome.text_so_far().as_str(), model.calls()), ("Third time.", 3));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_saying_so_after_shown_text_fails_and_keeps_the_text() {
    let (_, outcome, history, _) = play(vec![Act::text("It breaks"), Act::Break]).await;
    let message = "the model's answer broke off: the stream ended before the model said it was done".to_owned();
    assert_eq!(*outcome.ending, Ending::Failed(Failure::new(FailureKind::StreamBroken, message)));
    assert_eq!(texts(&history), ["Go.", "It breaks [cut]"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_inside_a_call_drops_the_half_call() {
    let (_, outcome, history, log) =
        play(vec![Act::text("I "), begin("x", "look"), input(0, "{\"n"), Act::Break]).await;
    assert_eq!((outcome.stop_reason(), log.started()), ("failed", 0));
    assert_eq!(texts(&history), ["Go.", "I  [cut]"]);
    assert_eq!(history.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_and_one_of_blanks_are_answers() {
    for first in [vec![Act::end()], vec![Act::text(""), Act::end()], vec![Act::text(" \n\t "), Act::end()]] {
        let (_, outcome, ..) = play(first).await;
        assert_eq!(*outcome.ending, Ending::Completed { stop: ModelStop::EndTurn });
        assert_eq!(outcome.text_so_far().trim(), "");
    }
}

#[tokio::test(start_paused = true)]
async fn empty_pieces_between_others_hold_up_nothing() {
    let pause = || Act::Pause(millis(100));
    let empty_text = vec![Act::text(""), pause(), Act::text("Hi."), pause(), Act::text(""), pause(), Act::end()];
    let empty_thought = vec![Act::thinking(""), pause(), Act::text("Hi."), Act::end()];
    let empty_input = vec![
        Act::text("Hi."),
        pause(),
        begin("x", "look"),
        pause(),
        input(0, ""),
        pause(),
        input(0, "{}"),
        Act::Piece(Piece::CallEnd { index: 0 }),
        Act::tool_use(),
    ];
    for (first, tools) in [(empty_text, 0), (empty_thought, 0), (empty_input, 1)] {
        let played = tokio::time::timeout(secs(3_600), play(first)).await;
        let (_, outcome, history, log) = played.expect("the run does not hang");
        assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", tools));
        assert_eq!(texts(&history)[..2], ["Go.", "Hi."]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_asks_for_tools_and_names_none_is_an_end() {
    let (_, outcome, ..) = play(vec![Act::text("Hm."), Act::tool_use()]).await;
    assert_eq!(outcome.stop_reason(), "tool_use");
}

#[tokio::test(start_paused = true)]
async fn a_token_limit_inside_a_call_drops_the_half_call_and_keeps_the_text() {
    let end = Act::Piece(Piece::End(ModelStop::MaxTokens));
    let (_, outcome, history, log) =
        play(vec![Act::text("I look. "), begin("x", "look"), input(0, "{\"n\""), end]).await;
    assert_eq!(*outcome.ending, Ending::Completed { stop: ModelStop::MaxTokens });
    assert_eq!((outcome.text_so_far().as_str(), log.started()), ("I look. ", 0));
    assert_eq!((history.len(), history[1].calls().count()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_token_limit_after_a_whole_call_runs_it() {
    let end = Act::Piece(Piece::End(ModelStop::MaxTokens));
    let first = answer([Act::call(0, "a", "look", "{}"), vec![begin("b", "look"), input(1, "{"), end]]);
    let (_, outcome, history, log) = play(first).await;
    assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 1));
    assert_eq!(history[1].calls().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_end_mark_in_a_whole_answer_is_a_call() {
    let (_, outcome, _, log) = play(vec![begin("x", "look"), input(0, "{}"), Act::tool_use()]).await;
    assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 1));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_panics_fails_its_run_alone_and_the_session_goes_on() {
    struct Bomb;
    impl andon_runtime::Model for Bomb {
        fn name(&self) -> &str {
            "bomb"
        }
        fn call(&self, _: andon_runtime::ModelRequest) -> Box<dyn andon_runtime::Answer> {
            panic!("the adapter is wrong")
        }
    }
    let runtime = runtime();
    let session = Agent::builder().name("a").model(Bomb).runtime(&runtime).open();
    let (_, outcome) = run_to_end(&session, "Go.").await;
    let Ending::Failed(failure) = &*outcome.ending else { panic!("{:?}", outcome.ending) };
    assert_eq!(failure.error, FailureKind::Internal);
    assert!(failure.message.contains("the adapter is wrong"), "{}", failure.message);
    let healthy = Agent::builder().name("a").model(ScriptedModel::new([])).runtime(&runtime).build().unwrap();
    assert_usable(&healthy.session_by_key(session.key()).unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_prompt_with_an_invalid_image_is_refused_with_what_is_accepted_and_so_is_an_import_of_it() {
    let session = scripted([says("Seen.")]).open();
    let with = |media_type: &str| {
        let image = Image::new(media_type, format!("data:{media_type};base64,AAAA"));
        Message::new(Role::User, vec![Part::Image(image)])
    };
    let refused = session.start(with("application/pdf")).expect_err("it is not an image").to_string();
    assert!(refused.contains("`application/pdf` is not an image type") && refused.contains("image/png"), "{refused}");
    assert_eq!(session.history().await.unwrap(), [], "nothing came of it");

    assert_eq!(session.run(with("image/png")).await.unwrap().completed().unwrap().text(), "Seen.");
    let exported = session.agent().runtime().export(session.key()).await.unwrap().unwrap();
    let imported = runtime().import(&exported.replace("image/png", "application/pdf")).await;
    let refused = imported.expect_err("it is not an image").to_string();
    assert!(refused.contains("`application/pdf` is not an image type"), "{refused}");
    runtime().import(&exported).await.unwrap();
}
