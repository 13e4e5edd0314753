//! The tools of an MCP server: listed, called by an agent, and stopped.
//!
//! ```text
//! cargo run -p andon-tools --example mcp -- [--stop-after MS] [--say PROMPT] SERVER [ARG..]
//! ```
//!
//! `SERVER` is a program with its arguments, or an `http://` or `https://` address. With `--say` the practice model is asked,
//! which calls the tool whose name is in the prompt; without it the tools are only listed.

use std::time::Duration;

use andon_practice::Practice;
use andon_runtime::{Agent, Cancel, FeedItem, Kind, Run, Tool as _};
use andon_tools::mcp::{McpServer, McpToolset};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // The server's whole process tree ends with us, because this program can be its own shim.
    andon_shim::init();
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let stop_after = option(&mut words, "--stop-after").map(|after| after.parse()).transpose()?;
    let prompt = option(&mut words, "--say");
    if words.is_empty() {
        println!("usage: mcp [--stop-after MS] [--say PROMPT] SERVER [ARG..]");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(use_server(words, prompt, stop_after.map(Duration::from_millis)))
}

async fn use_server(
    mut words: Vec<String>,
    prompt: Option<String>,
    stop_after: Option<Duration>,
) -> Result<(), Failure> {
    let first = words.remove(0);
    let server = if first.starts_with("http://") || first.starts_with("https://") {
        McpServer::http(first)
    } else {
        McpServer::stdio(first, words)
    };
    let toolset = server.connect().await?;
    for tool in toolset.tools() {
        println!("{:<24} {:?}: {}", tool.name(), tool.spec().effect, tool.spec().description);
    }
    if let Some(prompt) = prompt {
        ask(&toolset, &prompt, stop_after).await?;
    }
    toolset.close().await;
    Ok(())
}

async fn ask(toolset: &McpToolset, prompt: &str, stop_after: Option<Duration>) -> Result<(), Failure> {
    let model = Practice::new().pace(Duration::from_millis(5));
    let agent = Agent::builder().model(model).tools(toolset.tools()).build()?;
    let run = agent.start(prompt)?;
    let stop = async {
        match stop_after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
        run.cancel(Cancel::graceful().note("the example's time was up"));
    };
    let (shown, stopped) = (show(&run), stop);
    tokio::pin!(shown);
    tokio::select! {
        () = &mut shown => {}
        () = stopped => shown.await,
    }
    let outcome = run.outcome().await;
    println!("\n{}", outcome.stop_reason());
    for call in &outcome.receipt.calls {
        println!("{}: {:?} {:?}", call.tool, call.verdict, call.notes);
    }
    Ok(())
}

/// Prints what the calls show and what the model says.
async fn show(run: &Run) {
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if let FeedItem::Delta(delta) = item
            && matches!(delta.kind, Kind::Text | Kind::ToolOutput(_))
        {
            print!("{}", delta.text);
        }
    }
}

/// Takes an option and its value out of the arguments, if it comes before the server.
fn option(words: &mut Vec<String>, name: &str) -> Option<String> {
    let at = words.iter().take(4).position(|word| word == name)?;
    (at + 1 < words.len()).then(|| {
        words.remove(at);
        words.remove(at)
    })
}
