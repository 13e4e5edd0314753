//! A conversation that outlives its process: each turn of this loop is a program that starts, goes on, and ends.

use andon_practice::Practice;
use andon_runtime::{Agent, Runtime};
use andon_store::SqliteJournal;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("andon.db");
    for prompt in ["Hello", "What did I say first?"] {
        let runtime = Runtime::builder().journal(SqliteJournal::open(&path)?).build();
        let agent = Agent::builder().name("guide").model(Practice::instant()).runtime(&runtime).build()?;
        // Agents first: a run that was waiting goes on with the agent of its name.
        let left = runtime.recover().await?;
        println!("{} runs were left open", left.len());

        let ada = agent.session("ada", "monday")?;
        let answer = ada.run(prompt).await?.completed()?;
        println!("> {prompt}\n{}\n({} messages are on record)", answer.text(), ada.history().await?.len());
        runtime.idle().await;
    }
    Ok(())
}
