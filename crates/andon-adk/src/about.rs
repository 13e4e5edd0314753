//! What this server is, and which apps it has.

use andon_runtime::{Agent, ToolSpec};
use andon_server::App;
use andon_server::dialect::{JsonBody, PathParams, Principal, Problem};
use axum::extract::{RawQuery, State};
use serde_json::{Map, Value, json};

use crate::core::Shared;

/// ADK defines two agent languages, and its clients reject any other.
const LANGUAGE: &str = "yaml";

pub(crate) async fn health() -> JsonBody<Value> {
    JsonBody(json!({"status": "ok"}))
}

pub(crate) async fn version() -> JsonBody<Value> {
    let (version, compiler) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_RUST_VERSION"));
    JsonBody(json!({"version": version, "language": "rust", "language_version": compiler}))
}

/// All apps that can be run.
pub(crate) async fn list(State(core): State<Shared>, _: Principal, RawQuery(query): RawQuery) -> JsonBody<Value> {
    let apps = core.host.apps().all().into_iter().filter_map(|(name, app)| match app {
        App::Served { agent, description } => Some((name, agent, description)),
        App::Refused { .. } => None,
    });
    if !is_detailed(query.as_deref().unwrap_or_default()) {
        return JsonBody(apps.map(|(name, ..)| Value::from(name)).collect());
    }
    let apps: Vec<Value> =
        apps.map(|(name, agent, description)| app_info(&name, &agent, description.as_deref())).collect();
    JsonBody(json!({"apps": apps}))
}

fn is_detailed(query: &str) -> bool {
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.any(|(name, value)| name == "detailed" && matches!(value, "true" | "True" | "1" | "on" | "yes"))
}

fn app_info(name: &str, agent: &Agent, description: Option<&str>) -> Value {
    json!({
        "name": name,
        "rootAgentName": agent.name(),
        "description": description.unwrap_or_default(),
        "language": LANGUAGE,
        "isComputerUse": false,
        "agents": null,
    })
}

pub(crate) async fn info(
    State(core): State<Shared>,
    _: Principal,
    PathParams(app): PathParams<String>,
) -> Result<JsonBody<Value>, Problem> {
    let (agent, description) = served(&core, &app)?;
    let description = description.unwrap_or_default();
    let mut info = app_info(&app, &agent, Some(&description));
    let one = json!({
        "name": agent.name(),
        "description": description,
        "instruction": agent.instructions().unwrap_or_default(),
        "tools": agent.tools().iter().map(|tool| declaration(tool)).collect::<Vec<_>>(),
        "sub_agents": [],
    });
    let agents = Map::from_iter([(agent.name().to_owned(), one)]);
    if let Value::Object(info) = &mut info {
        info.insert("agents".to_owned(), agents.into());
    }
    Ok(JsonBody(info))
}

fn declaration(tool: &ToolSpec) -> Value {
    let one = json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema});
    json!({"functionDeclarations": [one]})
}

/// An app's agent and its description.
pub(crate) fn served(core: &Shared, app: &str) -> Result<(Agent, Option<String>), Problem> {
    match core.host.apps().get(app) {
        Some(App::Served { agent, description }) => Ok((agent, description)),
        // The reason may name files on this machine, so only the native API gives it, to whoever runs the server.
        Some(App::Refused { .. }) | None => {
            Err(Problem::not_found("no-such-app", format!("Agent not found: {app:?}. GET /list-apps lists all apps.")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_detailed;

    #[test]
    fn details_are_told_when_they_are_asked_for() {
        assert!(is_detailed("relative_path=./&detailed=true"));
        assert!(!is_detailed("detailed=false"));
        assert!(!is_detailed("relative_path=./"));
    }
}
