//! Hooks: a program's own code that sees and changes what a run does. Log, shorten, forbid, ask, cancel.

use std::sync::atomic::{AtomicU32, Ordering};

use andon::hook::{CallDecision, RequestDecision, ResultDecision};
use andon::{Agent, Cancel, Practice, Reason, Verdict, tool};

/// Shreds a file.
#[tool]
async fn shred(path: Option<String>) -> String {
    format!("shredded {path:?}")
}

/// Looks around.
#[tool(effect = "read_only")]
async fn look() -> &'static str {
    "a cat, a dog, a horse, and a long list of other animals that nobody has asked for"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let looks = AtomicU32::new(0);
    let agent = Agent::builder()
        .model(Practice::instant())
        .tools([shred, look])
        .before_run(|moment| println!("{} begins: {}", moment.run, moment.input.text()))
        .before_model(|moment| async move {
            let mut request = moment.request;
            request.settings.temperature = Some(0.2);
            RequestDecision::Change(request)
        })
        .before_tool(|moment| if moment.call.name == "shred" { CallDecision::deny("No.") } else { CallDecision::GoOn })
        .before_tool(move |_| match looks.fetch_add(1, Ordering::SeqCst) {
            0 => CallDecision::GoOn,
            _ => CallDecision::Cancel(Cancel::now().reason(Reason::Policy).by("policy").note("two looks")),
        })
        .after_tool(|moment| match moment.result.to_text() {
            long if long.len() > 60 => {
                ResultDecision::replace(long.chars().take(60).collect::<String>() + " [shortened]")
            }
            _ => ResultDecision::GoOn,
        })
        .after_tool(|moment| println!("{} gave {}", moment.call.name, moment.result.to_text()))
        .build()?;

    let denied = agent.run("shred it").await?;
    assert_eq!(denied.receipt.calls.first().map(|call| call.verdict), Some(Verdict::NeverStarted));
    let looked = agent.run("look").await?;
    assert!(looked.receipt.calls.iter().all(|call| call.changed_by_hook));
    assert!(looked.completed()?.text().contains("[shortened]"));
    let stopped = agent.run("look").await?;
    println!("{}: {:?}", stopped.stop_reason(), stopped.receipt.note);
    assert_eq!(stopped.receipt.reason, Some(Reason::Policy));
    Ok(())
}
