//! The `shell` tool in an agent: the result for the model, and the receipt.
//!
//! If one of these fails, the report on a stop is wrong.

use std::sync::Arc;

use andon_runtime::core::message::ResultStatus;
use andon_runtime::{Agent, Cancel, Content, Event, FeedItem, Outcome, Part, Session, Verdict};
use andon_testkit::model::{Act, ScriptedModel};
use andon_tools::Shell;
use serde_json::json;

use crate::ends::{DAEMON, GROUP};
use crate::world::*;

tests![
    the_model_gets_the_output_and_the_exit_code,
    a_command_that_we_killed_is_not_reported_as_out_of_memory,
    a_command_that_is_not_found_is_an_error,
    a_command_that_begins_with_a_dash_is_a_command,
    output_is_shown_while_the_command_runs,
    a_graceful_stop_keeps_what_was_printed,
    a_stop_with_force_now_keeps_what_was_printed_too,
    a_stop_with_force_now_leaves_nothing_either,
    a_command_that_takes_too_long_is_stopped_and_the_run_goes_on,
];

fn asks(command: &str) -> ScriptedModel {
    let input = json!({ "command": command }).to_string();
    let call = [Act::call(0, "call-1", "shell", &input), vec![Act::tool_use()]].concat();
    ScriptedModel::new([call, vec![Act::text("Done."), Act::end()]])
}

/// In the scripts of the tree shapes `$0` is the token.
fn with_token(script: &str, token: Token) -> String {
    format!("exec sh -c '{}' {token}", script.replace('\'', r"'\''"))
}

pub(crate) fn agent(shell: Shell, command: &str) -> Session {
    Agent::builder().model(asks(command)).tool(shell).build().unwrap().new_session("ada").unwrap()
}

/// The result of the one call, and whether it is an error.
async fn result(session: &Session) -> (String, bool) {
    let history = session.history().await.unwrap();
    let mut results = history.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    });
    let result = results.next_back().unwrap();
    let texts = result.content.iter().map(|content| match content {
        Content::Text { text } => text.as_str(),
        Content::Image(_) => "",
        #[cfg(not(andon_whole))]
        _ => "",
    });
    (texts.collect(), result.status == ResultStatus::Error)
}

async fn answer(command: &str) -> (String, bool) {
    let session = agent(Shell::new(), command);
    session.run("go").await.unwrap();
    result(&session).await
}

fn verdict(outcome: &Arc<Outcome>) -> Verdict {
    outcome.receipt.calls[0].verdict
}

fn the_model_gets_the_output_and_the_exit_code() {
    block_on(async {
        assert_eq!(answer("echo out; echo err >&2").await, ("out\nerr\n[exit code 0]".to_owned(), false));
        assert_eq!(answer("exit 3").await, ("[exit code 3]".to_owned(), false));
        let killed = "[ended by signal 11 (SIGSEGV: invalid memory access)]";
        assert_eq!(answer("kill -SEGV $$").await, (killed.to_owned(), true));
    });
}

fn a_command_that_we_killed_is_not_reported_as_out_of_memory() {
    block_on(async {
        // It tells its own supervisor to end, which ends it.
        let ended = "up\n[it was killed because its supervisor was told to end]";
        assert_eq!(answer("echo up; kill -TERM $PPID; sleep 1000000").await, (ended.to_owned(), true));
        let killed = "[ended by signal 9 (SIGKILL: killed; perhaps it used too much memory)]";
        assert_eq!(answer("kill -KILL $$").await, (killed.to_owned(), true));
    });
}

fn a_command_that_is_not_found_is_an_error() {
    block_on(async {
        let (text, is_error) = answer("no-such-command --at-all").await;
        assert!(
            text.contains("no-such-command") && text.ends_with("[exit code 127: the command was not found]"),
            "{text}"
        );
        assert!(is_error);
        let session = agent(Shell::new().cwd("/no/such/folder"), "true");
        session.run("go").await.unwrap();
        let want = "the working folder `/no/such/folder` does not exist: create it, or name another";
        assert_eq!(result(&session).await, (want.to_owned(), true));
    });
}

fn a_command_that_begins_with_a_dash_is_a_command() {
    block_on(async {
        let (text, _) = answer("-c 'echo no'").await;
        assert!(text.ends_with("[exit code 127: the command was not found]"), "{text}");
    });
}

fn output_is_shown_while_the_command_runs() {
    block_on(async {
        let session = agent(Shell::new(), "echo shown at once; sleep 1000000");
        let run = session.start("go").unwrap();
        let mut feed = run.feed();
        while let Some(item) = feed.next().await {
            if format!("{item:?}").contains("shown at once") && !format!("{item:?}").contains("command") {
                break;
            }
        }
        run.cancel(Cancel::graceful());
        let outcome = run.outcome().await;
        assert_eq!((outcome.stop_reason(), verdict(&outcome)), ("cancelled", Verdict::Unknown));
    });
}

fn a_stop_with_force_now_keeps_what_was_printed_too() {
    block_on(async {
        let session = agent(Shell::new(), "echo shown at once; sleep 1000000");
        let run = session.start("go").unwrap();
        let mut feed = run.feed();
        while let Some(item) = feed.next().await {
            if matches!(&item, FeedItem::Delta(delta) if delta.text.contains("shown at once\n")) {
                break;
            }
        }
        run.cancel(Cancel::now());
        let outcome = run.outcome().await;
        assert_eq!((outcome.stop_reason(), verdict(&outcome)), ("cancelled", Verdict::Unknown));
        let (text, _) = result(&session).await;
        assert!(text.contains("may have had its effect") && text.contains("shown at once\n"), "{text}");
    });
}

fn a_graceful_stop_keeps_what_was_printed() {
    let token = Token::new();
    block_on(async {
        let shell = Shell::new().grace(Duration::from_secs(2));
        let session = agent(shell, &with_token(&format!("echo kept; {GROUP}"), token));
        let run = session.start("go").unwrap();
        let known = token.at_least(8).await;
        run.cancel(Cancel::graceful());
        let outcome = run.outcome().await;
        token.assert_none_lives(&known);
        assert_eq!((outcome.stop_reason(), verdict(&outcome)), ("cancelled", Verdict::Unknown));
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
        let (text, _) = result(&session).await;
        assert!(text.contains("kept\n[stopped before it was done; it was killed]"), "{text}");
    });
}

fn a_stop_with_force_now_leaves_nothing_either() {
    let token = Token::new();
    block_on(async {
        // With any grace, this would wait forever.
        let session = agent(Shell::new().grace(Duration::from_secs(3600)), &with_token(DAEMON, token));
        let run = session.start("go").unwrap();
        let known = token.at_least(4).await;
        run.cancel(Cancel::now());
        let outcome = run.outcome().await;
        token.assert_none_lives(&known);
        assert_eq!(outcome.stop_reason(), "cancelled");
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
        assert_eq!(outcome.receipt.calls[0].notes, Vec::<String>::new());
        // The agent can be used again at once.
        assert_eq!(session.run("and now?").await.unwrap().stop_reason(), "end_turn");
    });
}

fn a_command_that_takes_too_long_is_stopped_and_the_run_goes_on() {
    let token = Token::new();
    block_on(async {
        let shell = Shell::new().timeout(Duration::from_millis(300)).grace(Duration::from_millis(400));
        let session = agent(shell, &with_token(GROUP, token));
        let run = session.start("go").unwrap();
        let outcome = run.outcome().await;
        token.assert_none_lives(&[]);
        assert_eq!(outcome.stop_reason(), "end_turn", "the run goes on");
        assert_ne!(verdict(&outcome), Verdict::Finished);
        assert!(run.records().iter().any(|record| matches!(record.event, Event::ToolFinished { .. })));
    });
}
