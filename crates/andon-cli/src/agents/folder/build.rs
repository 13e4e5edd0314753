//! Builds an agent from its file: sets up the model, and connects to MCP servers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use andon_practice::Practice;
use andon_runtime::{Agent, BoxFuture, Invocation, Model, Returned, Runtime, Tool, ToolSpec, Undo, Work};
use andon_tools::{HttpGet, ReadFile, Shell, WriteFile};

use super::file::{AgentFile, placeholder};
use super::mcp::McpEntry;
use super::tool_entry::{ToolEntry, ToolKind};
use crate::names::PRACTICE;
use crate::yaml::fields::{FieldError, Located};
use crate::yaml::{NodeIndex, cut};

/// An agent, and what its operator should know.
pub(super) struct Built {
    pub(super) agent: Agent,
    pub(super) description: Option<String>,
    pub(super) notes: Vec<(NodeIndex, String)>,
}

/// Where an app lives.
#[derive(Debug, Clone)]
pub(super) struct AppFolder {
    /// The app's name, which is its folder's.
    pub(super) app: String,
    /// The folder of all apps.
    pub(super) dir: PathBuf,
}

impl AppFolder {
    fn folder(&self) -> PathBuf {
        self.dir.join(&self.app)
    }
}

/// Builds an agent.
///
/// # Cancel safety
///
/// Cancel safe: its connections to MCP servers are closed.
pub(super) async fn build(file: AgentFile, home: &AppFolder, runtime: &Runtime) -> Result<Built, FieldError> {
    let model = model(&file.model)?;
    let mut notes = Vec::new();
    if let Some((at, name)) = placeholder(&file.instruction) {
        let why = "is sent to the model as it is: nothing is filled in from the session's state";
        notes.push((at, format!("`{{{}}}` in `instruction` {why}", cut(&name))));
    }
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    let mut names = BTreeSet::new();
    for entry in &file.tools {
        for tool in tools_of(entry, home, &mut notes).await? {
            if !names.insert(tool.spec().name.clone()) {
                let why = format!(
                    "there is already a tool `{}`: leave one out, or give a McpToolset a `tool_name_prefix`",
                    cut(&tool.spec().name)
                );
                return Err(FieldError::new(entry.at, why));
            }
            tools.push(if entry.needs_approval { Arc::new(Asking::new(tool)) } else { tool });
        }
    }
    let agent = Agent::builder()
        .name(&home.app)
        .runtime(runtime)
        .model(model)
        .instructions(file.instruction.value)
        .limits(file.limits)
        .tools(tools);
    let agent = agent.build().map_err(|error| FieldError::new(file.model.at, error.to_string()))?;
    Ok(Built { agent, description: file.description, notes })
}

/// The model with this name. As in ADK, Google's own models may be named without their provider.
fn model(name: &Located<String>) -> Result<Arc<dyn Model>, FieldError> {
    let wanted = name.value.trim();
    if wanted == PRACTICE {
        return Ok(Arc::new(Practice::new()));
    }
    let is_bare = wanted.starts_with("gemini-") && !wanted.contains('/');
    let whole = if is_bare { format!("gemini/{wanted}") } else { wanted.to_owned() };
    andon_models::by_name(&whole).map_err(|error| FieldError::new(name.at, error.to_string()))
}

async fn tools_of(
    entry: &ToolEntry,
    home: &AppFolder,
    notes: &mut Vec<(NodeIndex, String)>,
) -> Result<Vec<Arc<dyn Tool>>, FieldError> {
    let tool: Arc<dyn Tool> = match &entry.wanted {
        ToolKind::Shell { folder, timeout } => {
            let folder = folder.as_ref().map_or(Ok(home.folder()), |folder| existing(folder, home))?;
            let shell = Shell::new().cwd(folder);
            Arc::new(match timeout {
                Some(timeout) => shell.timeout(*timeout),
                None => shell,
            })
        }
        ToolKind::ReadFile { folder } => Arc::new(ReadFile::new(existing(folder, home)?)),
        ToolKind::WriteFile { folder } => Arc::new(WriteFile::new(harmless(folder, home)?)),
        ToolKind::HttpGet { timeout } => Arc::new(match timeout {
            Some(timeout) => HttpGet::new().timeout(*timeout),
            None => HttpGet::new(),
        }),
        ToolKind::Mcp(mcp) => return remote(mcp, entry.at, home, notes).await,
    };
    Ok(vec![tool])
}

/// The tools of an MCP server. Its connection lives as long as they do.
async fn remote(
    mcp: &McpEntry,
    at: NodeIndex,
    home: &AppFolder,
    notes: &mut Vec<(NodeIndex, String)>,
) -> Result<Vec<Arc<dyn Tool>>, FieldError> {
    let folder = mcp.cwd.as_ref().map_or(Ok(home.folder()), |folder| existing(folder, home))?;
    // The error names the server without any secret in its address.
    let connected = mcp.server.clone().cwd(folder).connect().await;
    let toolset = connected
        .map_err(|error| FieldError::passing(at, format!("{error}; this is tried again from time to time")))?;
    for (tool, why) in toolset.unusable() {
        let line = format!("the tool `{}` of the MCP server `{}` is left out: {why}", cut(&tool), toolset.server());
        notes.push((at, line));
    }
    Ok(toolset.tools().into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>).collect())
}

/// A folder that exists. A relative path is relative to the file.
fn existing(folder: &Located<PathBuf>, home: &AppFolder) -> Result<PathBuf, FieldError> {
    let path = home.folder().join(&folder.value);
    // Links are followed now: a tool works in the folder that existed when the file was loaded.
    let real = path.canonicalize().ok().filter(|real| real.is_dir());
    real.ok_or_else(|| {
        let shown = folder.value.display();
        let why = format!("there is no folder `{shown}`: create it; a relative path is relative to this file");
        FieldError::passing(folder.at, why)
    })
}

/// A folder in which the agent cannot write any agent's file: with that it could give itself any tool.
fn harmless(folder: &Located<PathBuf>, home: &AppFolder) -> Result<PathBuf, FieldError> {
    let real = existing(folder, home)?;
    let dir = home.dir.canonicalize().unwrap_or_else(|_| home.dir.clone());
    let own = home.folder().canonicalize().unwrap_or_else(|_| home.folder());
    // The folder of any app is directly below that of all apps.
    let holds_a_file = dir.starts_with(&real) || own.starts_with(&real) || real.parent() == Some(&*dir);
    if holds_a_file {
        let why = "in this folder the agent could rewrite agents, including itself: name a folder without agents, such as \
                   `folder: files`";
        return Err(FieldError::new(folder.at, why));
    }
    Ok(real)
}

/// A tool whose calls need approval.
struct Asking {
    spec: Arc<ToolSpec>,
    tool: Arc<dyn Tool>,
}

impl Asking {
    fn new(tool: Arc<dyn Tool>) -> Self {
        let mut spec = ToolSpec::clone(tool.spec());
        spec.needs_approval = true;
        Self { spec: Arc::new(spec), tool }
    }
}

impl Tool for Asking {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, invocation: Invocation) -> Work {
        self.tool.call(invocation)
    }

    fn compensate(&self, undo: Undo) -> BoxFuture<Returned> {
        self.tool.compensate(undo)
    }
}
