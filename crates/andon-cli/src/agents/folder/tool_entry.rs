//! The entries of `tools`: built-in tools, and those of MCP servers.

use std::path::PathBuf;
use std::time::Duration;

use super::mcp::{self, McpEntry};
use crate::yaml::fields::{FieldError, Fields, Keys, Located, nearest};
use crate::yaml::{Node, NodeIndex, Value, cut};

/// One entry of `tools`.
#[derive(Debug)]
pub(super) struct ToolEntry {
    pub(super) at: NodeIndex,
    pub(super) wanted: ToolKind,
    /// Whether each call needs approval.
    pub(super) needs_approval: bool,
}

/// What an entry of `tools` asks for.
#[derive(Debug)]
pub(super) enum ToolKind {
    Shell { folder: Option<Located<PathBuf>>, timeout: Option<Duration> },
    ReadFile { folder: Located<PathBuf> },
    WriteFile { folder: Located<PathBuf> },
    HttpGet { timeout: Option<Duration> },
    Mcp(Box<McpEntry>),
}

/// The names that an entry may have.
const NAMES: [&str; 5] = ["shell", "read_file", "write_file", "http_get", "McpToolset"];

/// Names that ADK has tools for.
const ADK: [&str; 15] = [
    "google_search",
    "google_maps_grounding",
    "enterprise_web_search",
    "url_context",
    "load_memory",
    "preload_memory",
    "load_artifacts",
    "get_user_choice",
    "exit_loop",
    "transfer_to_agent",
    "AgentTool",
    "ExampleTool",
    "LongRunningFunctionTool",
    "VertexAiSearchTool",
    "OpenAPIToolset",
];

const ENTRY: Keys = Keys { known: &["name", "args"], not_yet: &[] };
const ASK: (&str, &str) = ("require_confirmation", "write `needs_approval: true`");
const SHELL: Keys = Keys { known: &["folder", "timeout", "needs_approval"], not_yet: &[ASK] };
const FILES: Keys = Keys { known: &["folder", "needs_approval"], not_yet: &[ASK] };
const HTTP_GET: Keys = Keys { known: &["timeout", "needs_approval"], not_yet: &[ASK] };

/// Reads one entry.
pub(super) fn read(node: &Node) -> Result<ToolEntry, FieldError> {
    if let Value::Text(name) = &node.value {
        let why = format!("write a tool as `- name: {}`, with its settings under `args`", cut(name));
        return Err(FieldError::new(node.at, why));
    }
    let entry = Fields::of(node, "a tool", &ENTRY)?;
    let Some(name) = entry.text("name")? else {
        return Err(FieldError::new(node.at, "a tool needs a name, such as `- name: shell`"));
    };
    let nothing = Node { at: node.at, value: Value::Null };
    let args = entry.get("args").unwrap_or(&nothing);
    if let Value::List(_) = args.value {
        let why = format!(
            "`args` of `{}` must have keys and values, such as `key: value`: it is not a list",
            cut(name.value)
        );
        return Err(FieldError::new(args.at, why));
    }
    let what = format!("the `args` of {}", cut(name.value));
    let (wanted, needs_approval) = match name.value {
        "shell" => {
            let args = Fields::of(args, &what, &SHELL)?;
            let wanted = ToolKind::Shell { folder: args.path("folder")?, timeout: args.time("timeout")? };
            (wanted, args.is_true("needs_approval")?)
        }
        "read_file" | "write_file" => {
            let args = Fields::of(args, &what, &FILES)?;
            let Some(folder) = args.path("folder")? else { return Err(no_folder(node, name.value)) };
            let wanted = match name.value {
                "read_file" => ToolKind::ReadFile { folder },
                _ => ToolKind::WriteFile { folder },
            };
            (wanted, args.is_true("needs_approval")?)
        }
        "http_get" => {
            let args = Fields::of(args, &what, &HTTP_GET)?;
            (ToolKind::HttpGet { timeout: args.time("timeout")? }, args.is_true("needs_approval")?)
        }
        // ADK's older name is still in many files.
        "McpToolset" | "MCPToolset" => {
            let (wanted, needs_approval) = mcp::read(args, &what)?;
            (ToolKind::Mcp(Box::new(wanted)), needs_approval)
        }
        other => return Err(FieldError::new(name.at, unknown(other))),
    };
    Ok(ToolEntry { at: node.at, wanted, needs_approval })
}

fn no_folder(node: &Node, name: &str) -> FieldError {
    let why = format!("`{name}` needs a folder to work in: add `args: {{folder: files}}`, a folder beside this file");
    FieldError::new(node.at, why)
}

fn unknown(name: &str) -> String {
    let known = NAMES.join(", ");
    if ADK.contains(&name) {
        return format!("the tool `{name}` is not supported yet: leave it out; the tools are {known}");
    }
    if let Some(meant) = nearest(name, &NAMES) {
        return format!("there is no tool `{}`: did you mean `{meant}`? The tools are {known}", cut(name));
    }
    if name.contains('.') {
        let why = "Andon does not run Python tools: serve them with an MCP server, and name that in a McpToolset";
        return format!("there is no tool `{}`; {why}", cut(name));
    }
    format!("there is no tool `{}`: the tools are {known}", cut(name))
}
