//! The practice agent: a model that needs nothing, and tools that harm nothing.

use andon::{Agent, Practice, Runtime};

use crate::args::Options;
use crate::tools;

/// Its name: the app of its sessions.
pub(crate) const PRACTICE: &str = "practice";

/// Builds the practice agent.
pub(crate) fn practice_agent(options: &Options, runtime: &Runtime) -> anyhow::Result<Agent> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let model = if options.instant { Practice::instant() } else { Practice::new() };
    let agent = Agent::builder()
        .name(PRACTICE)
        .runtime(runtime)
        .model(model.seed(seed))
        .instructions("You are a practice agent in a terminal.")
        .limits(options.limits())
        .tool(tools::slow_count())
        .tool(tools::dice(seed))
        .tool(tools::clock())
        .tool(tools::write_note());
    Ok(agent.build()?)
}
