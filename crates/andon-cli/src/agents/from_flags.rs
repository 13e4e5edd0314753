//! The agent that the command line describes: a model and its tools.

use std::path::Path;
use std::sync::Arc;

use andon_practice::Practice;
use andon_runtime::{Agent, AgentBuilder, Runtime, Tool};
use andon_tools::mcp::{McpServer, McpTool};
use andon_tools::{HttpGet, ReadFile, Shell, WriteFile};
use anyhow::{Context, bail};

use super::practice_tools;
use crate::args::{BuiltIn, Options};
use crate::names::PRACTICE;
use crate::print::{Style, aside, plain};

/// Builds the agent.
pub(crate) async fn build_agent(options: &Options, runtime: &Runtime) -> anyhow::Result<Agent> {
    let folder = match &options.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().context("the current folder does not exist: name one with --folder")?,
    };
    if !folder.is_dir() {
        bail!("{} is not a folder: name one with --folder", folder.display());
    }
    let mut named = options.tools.clone();
    named.sort();
    named.dedup();
    let mut remote = Vec::new();
    for server in &options.mcp {
        remote.extend(tools_of(server, &folder).await?);
    }
    let agent = Agent::builder()
        .name(PRACTICE)
        .runtime(runtime)
        .limits(options.limits())
        .tools(named.into_iter().map(|tool| built_in(tool, &folder)))
        .tools(remote);
    let agent = if options.model == PRACTICE { practise(agent, options) } else { with_model(agent, options)? };
    Ok(agent.build()?)
}

/// Adds the practice model and harmless tools.
fn practise(agent: AgentBuilder, options: &Options) -> AgentBuilder {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let model = if options.instant { Practice::instant() } else { Practice::new() };
    let instructions = options.instructions.as_deref().unwrap_or("You are a practice agent in a terminal.");
    agent
        .model(model.seed(seed))
        .instructions(instructions)
        .tool(practice_tools::slow_count())
        .tool(practice_tools::dice(seed))
        .tool(practice_tools::clock())
        .tool(practice_tools::write_note())
}

fn with_model(agent: AgentBuilder, options: &Options) -> anyhow::Result<AgentBuilder> {
    let model = andon_models::by_name(&options.model)?;
    let instructions = options.instructions.as_deref().unwrap_or("You are an assistant in a terminal. Be brief.");
    Ok(agent.model(model).instructions(instructions))
}

/// The tools of an MCP server. Its connection lives as long as they do.
async fn tools_of(server: &str, folder: &Path) -> anyhow::Result<Vec<McpTool>> {
    let is_address = server.starts_with("http://") || server.starts_with("https://");
    let named = if is_address {
        McpServer::http(server)
    } else {
        let words =
            shlex::split(server).with_context(|| format!("the command {server:?} has a quote that is not closed"))?;
        let (program, args) = words.split_first().context("--mcp needs a command or an address")?;
        McpServer::stdio(program, args).cwd(folder)
    };
    // The error names the server without any secret in its address.
    let toolset = named.connect().await?;
    for (tool, why) in toolset.unusable() {
        let line = plain(&format!("the tool `{tool}` of the MCP server `{}` is left out: {why}", toolset.server()));
        let stop = Style::STOP;
        aside(&format!("{stop}warning:{stop:#} {line}\n"));
    }
    Ok(toolset.tools())
}

fn built_in(tool: BuiltIn, folder: &Path) -> Arc<dyn Tool> {
    match tool {
        BuiltIn::Shell => Arc::new(Shell::new().cwd(folder)),
        BuiltIn::ReadFile => Arc::new(ReadFile::new(folder)),
        BuiltIn::WriteFile => Arc::new(WriteFile::new(folder)),
        BuiltIn::HttpGet => Arc::new(HttpGet::new()),
    }
}
