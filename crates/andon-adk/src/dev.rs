//! What ADK's web page asks for besides conversations: the graph of an agent, its tests, its traces.
//!
//! What only makes sense with Python files on the server's disk (the builder, tests, evaluations, deploying) does not exist here:
//! lists are empty, and any request that would change something is refused.

use andon_server::dialect::{JsonBody, PathParams, Principal, Problem};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::about::served;
use super::form::Body;
use crate::core::Shared;

/// Nobody is tracked here, whatever is asked.
pub(crate) async fn consent() -> JsonBody<Value> {
    JsonBody(json!({"telemetry": false}))
}

pub(crate) async fn set_consent(headers: HeaderMap, _: Body) -> Result<JsonBody<Value>, Problem> {
    if headers.get("x-adk-telemetry-request").is_none_or(|value| value != "true") {
        return Err(Problem::bad_request("no-header", "Forbidden: missing required security header"));
    }
    Ok(consent().await)
}

/// An agent as a tree.
pub(crate) async fn tree(
    State(core): State<Shared>,
    _: Principal,
    PathParams(app): PathParams<String>,
) -> Result<JsonBody<Value>, Problem> {
    let (agent, description) = served(&core, &app)?;
    let tools: Vec<Value> = agent.tools().iter().map(|tool| json!({"name": tool.name, "type": "tool"})).collect();
    Ok(JsonBody(json!({
        "name": app,
        "root_agent": {
            "name": agent.name(),
            "description": description.unwrap_or_default(),
            "model": agent.model_name(),
            "instruction": agent.instructions().unwrap_or_default(),
            "global_instruction": "",
            "tools": tools,
            "sub_agents": [],
            "rerun_on_resume": false,
            "wait_for_output": false,
            "disallow_transfer_to_parent": false,
            "disallow_transfer_to_peers": false,
            "include_contents": "default",
        },
    })))
}

pub(crate) async fn pictures(
    State(core): State<Shared>,
    _: Principal,
    PathParams(app): PathParams<String>,
) -> Result<JsonBody<Value>, Problem> {
    Ok(JsonBody(json!({"": {"dotSrc": dot(&core, &app)?}})))
}

pub(crate) async fn picture(
    State(core): State<Shared>,
    _: Principal,
    PathParams(app): PathParams<String>,
) -> Result<JsonBody<Value>, Problem> {
    Ok(JsonBody(json!({"dotSrc": dot(&core, &app)?})))
}

/// The whole agent: the event itself says which part of the agent it is about.
pub(crate) async fn event_picture(
    State(core): State<Shared>,
    _: Principal,
    PathParams((app, ..)): PathParams<(String, String, String, String)>,
) -> Result<JsonBody<Value>, Problem> {
    Ok(JsonBody(json!({"dotSrc": dot(&core, &app)?})))
}

/// An agent and its tools as a Graphviz graph.
fn dot(core: &Shared, app: &str) -> Result<String, Problem> {
    let (agent, _) = served(core, app)?;
    let agent_name = quoted(agent.name());
    let mut lines =
        vec!["digraph {".to_owned(), "  node [shape=rect style=rounded]".to_owned(), format!("  {agent_name}")];
    for tool in agent.tools() {
        // The space keeps a tool apart from an agent of the same name.
        let tool = quoted(&format!("{} ", tool.name));
        lines.push(format!("  {tool} [style=\"rounded,dashed\"]"));
        lines.push(format!("  {agent_name} -> {tool}"));
    }
    lines.push("}".to_owned());
    Ok(lines.join("\n"))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// An agent is not shown as a file.
pub(crate) async fn no_builder_file() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], "").into_response()
}

pub(crate) async fn empty_list() -> JsonBody<Value> {
    JsonBody(json!([]))
}

pub(crate) async fn no_eval_sets() -> JsonBody<Value> {
    JsonBody(json!({"evalSetIds": []}))
}

pub(crate) async fn no_eval_results() -> JsonBody<Value> {
    JsonBody(json!({"evalResultIds": []}))
}

pub(crate) async fn no_metrics() -> Problem {
    Problem::bad_request(
        "no-evaluation",
        "Evaluation is not installed: this server runs agents and does not grade them.",
    )
}

pub(crate) async fn not_implemented() -> Problem {
    let detail =
        "Not implemented here: building, testing, evaluating and deploying agents is done with ADK's own tools.";
    Problem::new(StatusCode::NOT_IMPLEMENTED, "not-implemented", detail)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_name_cannot_break_out_of_the_picture() {
        assert_eq!(quoted("a\"b\\"), "\"a\\\"b\\\\\"");
    }
}
