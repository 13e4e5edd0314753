//! One prompt on a model that you name, stopped after two seconds: `cargo run -p andon-models --example providers --
//! anthropic/claude-sonnet-5`. The key comes from the provider's usual variable.

use std::time::Duration;

use andon_runtime::{Agent, Cancel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(name) = std::env::args().nth(1) else {
        let known: Vec<&str> = andon_models::names::known().collect();
        println!("Name a model: provider/model. The providers are {}.", known.join(", "));
        return Ok(());
    };
    let agent = Agent::builder().model(andon_models::by_name(&name)?).build()?;
    let run = agent.start("Tell me a long story.")?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    run.cancel(Cancel::graceful().note("two seconds are enough"));
    let outcome = run.outcome().await;
    println!("{}", outcome.text_so_far());
    println!("{:?}", outcome.ending);
    // Some figures come a little later.
    if let Some(receipt) = run.last_word().await {
        println!("{}", serde_json::to_string_pretty(&receipt.usage)?);
    }
    Ok(())
}
