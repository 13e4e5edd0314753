//! Testing your own agent: a scripted model, the promises checked on one run, and your own script stopped at every
//! point. In your project these are tests; here they are a program.

use std::time::Duration;

use andon::tool::{Effect, FnTool};
use andon::{Agent, Cancel, FeedItem};
use andon_testkit::{Act, ScriptedModel, assert_nothing_lost, explore};
use serde_json::json;
use tokio::time::sleep;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    one_stop()?;
    every_stop()
}

/// The tool under test.
fn lookup() -> FnTool {
    let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]});
    let lookup = FnTool::new("lookup", "Looks a word up.", schema, |call| async move {
        tokio::select! {
            () = call.cord.pulled() => Ok("stopped looking".into()),
            () = sleep(Duration::from_millis(300)) => Ok("a cord that stops the line".into()),
        }
    });
    lookup.effect(Effect::ReadOnly)
}

/// What the model will say: it looks up a word, and then answers.
fn answers() -> [Vec<Act>; 2] {
    let mut first = vec![Act::text("Let me "), Act::text("see. ")];
    first.extend(Act::call(0, "call-1", "lookup", r#"{"word": "andon"}"#));
    first.extend([Act::usage(12, 9), Act::tool_use()]);
    let second = vec![Act::text("It is "), Act::text("a cord."), Act::usage(30, 6), Act::end()];
    [first, second]
}

/// One stop, at a place that you choose, with every promise checked afterwards.
#[tokio::main]
async fn one_stop() -> Result<(), Error> {
    let model = ScriptedModel::new(answers());
    let agent = Agent::builder().model(model.clone()).tool(lookup()).build()?;
    let session = agent.new_session("ada")?;
    let run = session.start("What is an andon?")?;
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, FeedItem::Delta(_)) {
            break;
        }
    }
    run.cancel(Cancel::graceful());
    run.outcome().await;
    assert_nothing_lost(&run, &session.history().await?).await;
    assert_eq!(model.open(), 0, "every connection is closed");
    println!("one stop: nothing lost");
    Ok(())
}

/// Every stop: the explorer plays your script, counts every place where it can be stopped, and stops it at each.
fn every_stop() -> Result<(), Error> {
    let script = explore("look a word up").play(|world| async move {
        world.check("the model is told what became of each call", |left| {
            let calls = left.history().iter().flat_map(|message| message.calls());
            let told: Vec<_> = left.results().filter(|result| !result.to_text().is_empty()).collect();
            calls.filter(|call| told.iter().filter(|result| result.call == call.id).count() != 1).count() == 0
        });
        let session = world.open(Agent::builder().model(world.model(answers())).tool(lookup()));
        world.play(session.prompt("What is an andon?")).await;
    });
    let report = script.run();
    println!("every stop: {} points, {} violations", report.points, report.violations.len());
    assert!(report.is_whole(), "{report}");
    Ok(())
}
