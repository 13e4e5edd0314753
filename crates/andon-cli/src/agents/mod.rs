//! The agents that this program runs: its own, which the command line describes, and those in YAML files.

mod folder;
mod from_flags;
mod practice_tools;

pub(crate) use folder::{AgentFolder, Report};
pub(crate) use from_flags::build_agent;
