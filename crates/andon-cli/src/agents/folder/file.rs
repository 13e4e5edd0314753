//! The settings in a `root_agent.yaml`, read and checked without looking at anything else.

use andon_runtime::Limits;

use super::tool_entry::{self, ToolEntry, ToolKind};
use crate::yaml::fields::{FieldError, Fields, Keys, Located, list};
use crate::yaml::{Node, NodeIndex, Value, cut};

/// An agent as its file describes it.
#[derive(Debug)]
pub(super) struct AgentFile {
    pub(super) model: Located<String>,
    pub(super) instruction: Located<String>,
    pub(super) description: Option<String>,
    pub(super) tools: Vec<ToolEntry>,
    pub(super) limits: Limits,
}

/// The classes that mean an agent with a model.
const LLM_AGENT: [&str; 3] = ["LlmAgent", "google.adk.agents.LlmAgent", "google.adk.agents.llm_agent.LlmAgent"];

const IN_RUST: &str = "leave it out, or build the agent in Rust, where hooks do this";
const ONE_AGENT: &str = "leave it out: an agent works alone";
const PLAIN_TEXT: &str = "leave it out, and describe the answer's format in `instruction`";

const KEYS: Keys = Keys {
    known: &["name", "model", "instruction", "description", "tools", "limits", "agent_class"],
    not_yet: &[
        ("sub_agents", "leave it out, or make each agent an app"),
        ("disallow_transfer_to_parent", ONE_AGENT),
        ("disallow_transfer_to_peers", ONE_AGENT),
        ("mode", ONE_AGENT),
        ("max_iterations", "it belongs to LoopAgent; to limit a run, write `limits: {turns: 10}`"),
        ("edges", "it belongs to workflows; write an agent with a model and its tools"),
        ("model_code", "write `model: provider/name`, such as anthropic/claude-sonnet-5"),
        ("static_instruction", "write it into `instruction`"),
        ("global_instruction", "write it into `instruction`"),
        ("input_schema", "leave it out: a prompt is text"),
        ("output_schema", PLAIN_TEXT),
        ("output_key", "leave it out: the answer is in the session's history, and in the run's outcome"),
        ("accumulate_output_key", "leave it out: it belongs to `output_key`"),
        ("include_contents", "leave it out: an agent always gets its session's history"),
        ("generate_content_config", "leave it out: the model's own settings are used"),
        ("planner", "leave it out"),
        ("code_executor", "leave it out, or give the agent the tool `shell`"),
        ("before_agent_callbacks", IN_RUST),
        ("after_agent_callbacks", IN_RUST),
        ("before_model_callbacks", IN_RUST),
        ("after_model_callbacks", IN_RUST),
        ("before_tool_callbacks", IN_RUST),
        ("after_tool_callbacks", IN_RUST),
        ("<<", "write the keys themselves"),
    ],
};

const LIMITS: Keys = Keys { known: &["deadline", "silence", "turns", "tokens"], not_yet: &[] };

impl AgentFile {
    /// Whether it has MCP servers, which must be connected first.
    pub(super) fn has_servers(&self) -> bool {
        self.tools.iter().any(|tool| matches!(tool.wanted, ToolKind::Mcp(_)))
    }

    /// Reads the tree of a file. The app's name is for error messages.
    pub(super) fn read(root: &Node, app: &str) -> Result<Self, FieldError> {
        match &root.value {
            Value::Map(_) => {}
            Value::Null => return Err(FieldError::new(root.at, missing("the file is empty: it needs at least", app))),
            _ => {
                return Err(FieldError::new(
                    root.at,
                    missing("the file must have keys and values; it needs at least", app),
                ));
            }
        }
        check_class(root)?;
        let fields = Fields::of(root, "an agent", &KEYS)?;
        let needed = |key: &str, example: &str| {
            let found = fields.text(key)?;
            found.ok_or_else(|| FieldError::new(fields.at, format!("`{key}` is missing: add `{key}: {example}`")))
        };
        check_name(needed("name", app)?)?;
        let model = needed("model", "practice` to try it without a key, or `model: anthropic/claude-sonnet-5")?;
        let instruction = needed("instruction", "You are …")?;
        let tools = match fields.get("tools") {
            Some(tools) => list(tools, "`tools`")?.iter().map(tool_entry::read).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(Self {
            model: Located { at: model.at, value: model.value.to_owned() },
            instruction: Located { at: instruction.at, value: instruction.value.to_owned() },
            description: fields.text("description")?.map(|text| text.value.trim().to_owned()),
            tools,
            limits: limits(&fields)?,
        })
    }
}

fn missing(wrong: &str, app: &str) -> String {
    format!("{wrong} `name: {app}`, `model: practice` and `instruction: You are …`, each on its own line")
}

/// Checked before the other keys, which another class may not have.
fn check_class(root: &Node) -> Result<(), FieldError> {
    let Value::Map(entries) = &root.value else { return Ok(()) };
    let Some((_, class)) = entries.iter().find(|(key, _)| key.text == "agent_class") else { return Ok(()) };
    match &class.value {
        Value::Null => Ok(()),
        Value::Text(name) if name.is_empty() || LLM_AGENT.contains(&name.as_str()) => Ok(()),
        Value::Text(name) => {
            let why = format!(
                "agents of class `{}` are not supported yet: write an LlmAgent, with a model and its tools",
                cut(name)
            );
            Err(FieldError::new(class.at, why))
        }
        _ => Err(FieldError::new(class.at, "`agent_class` must be LlmAgent, or left out")),
    }
}

/// Checks ADK's rules. The app has its folder's name, so nothing else uses this one.
fn check_name(name: Located<&str>) -> Result<(), FieldError> {
    let starts = |letter: char| letter.is_alphabetic() || letter == '_';
    let mut letters = name.value.chars();
    let is_identifier =
        letters.next().is_some_and(starts) && letters.all(|letter| starts(letter) || letter.is_numeric());
    if !is_identifier || name.value.len() > andon_runtime::core::id::MAX_ID_BYTES {
        let why = "`name` must be letters, digits and _, and must not begin with a digit, such as my_agent";
        return Err(FieldError::new(name.at, why));
    }
    if name.value == "user" {
        return Err(FieldError::new(name.at, "`name` must not be `user`, which means the person: choose another"));
    }
    Ok(())
}

fn limits(fields: &Fields<'_>) -> Result<Limits, FieldError> {
    let Some(node) = fields.get("limits") else { return Ok(Limits::NONE) };
    let limits = Fields::of(node, "`limits`", &LIMITS)?;
    let turns = limits.count("turns")?.map(u32::try_from).transpose();
    let too_many = |_| FieldError::new(limits.get("turns").map_or(limits.at, |turns| turns.at), "`turns` is too large");
    Ok(Limits::new()
        .deadline(limits.time("deadline")?)
        .silence(limits.time("silence")?)
        .turns(turns.map_err(too_many)?)
        .tokens(limits.count("tokens")?))
}

/// The first placeholder that ADK would fill in from the session's state. Here it is sent as it is.
pub(super) fn placeholder(instruction: &Located<String>) -> Option<(NodeIndex, String)> {
    let mut rest = instruction.value.as_str();
    while let Some((_, after)) = rest.split_once('{') {
        let inner = after.split(['{', '}']).next().unwrap_or_default();
        let is_closed = after.get(inner.len()..).is_some_and(|end| end.starts_with('}'));
        let name = inner.trim_end_matches('?');
        let is_name = |part: &str| {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            part.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_') && part.chars().all(plain)
        };
        let name =
            ["app:", "user:", "temp:", "artifact."].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        if is_closed && is_name(name) {
            return Some((instruction.at, inner.to_owned()));
        }
        rest = after;
    }
    None
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
