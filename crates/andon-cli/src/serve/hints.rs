//! What a server prints when it starts: what to open, and what to type.

use std::net::SocketAddr;

use andon_server::{App, Server};
use serde_json::json;

use crate::db::Db;
use crate::names;
use crate::names::PRACTICE;
use crate::paste::quoted;
use crate::print::Style;

/// The first key to create: it can do everything in the greeting, and stop anyone's runs.
const KEYS: &str = "keys create me --scope admin";

/// The greeting. Every indented line can be pasted into a shell.
pub(super) fn greeting(server: &Server, address: SocketAddr, db: &Db) -> String {
    let (bold, url) = (Style::BOLD, format!("http://{address}"));
    // A shell would expand the brackets of an IPv6 address.
    let at = |what: &str| quoted(&format!("{url}/v1/{what}"));
    let apps = served(server);
    // With ADK's page, the root leads there.
    let page = if server.front_page().is_some() { format!("{url}/ui/") } else { "it".to_owned() };
    let mut lines = vec![
        format!("{bold}Andon{bold:#} is at {bold}{url}{bold:#}, with its database in {}.", db.shown()),
        format!("Open {page} in a browser to talk to an agent, watch its runs and stop them."),
        format!("Agents: {}. The API is described in {url}/openapi.json.", apps.join(", ")),
        String::new(),
    ];
    let asks = server.owner_key().is_some();
    let command = |words: &str| format!("  {}", db.client_command(words, &url));
    if asks {
        let (when, key) = match db.is_shared() {
            // Nothing beside the database says how to reach this server.
            true => (" It reads the keys when it starts: after this, start it again.", db.own_command(KEYS)),
            false => ("", command(KEYS).trim().to_owned()),
        };
        lines.extend([
            format!(
                "The server asks for a key.{when} To create one that can do everything, including stopping anyone's runs:"
            ),
            format!("  export ANDON_KEY=$({key})"),
            "Give others a key with the scopes run:create, run:read and run:cancel: it reaches only their own runs."
                .to_owned(),
            String::new(),
        ]);
    }
    if let Some(app) = apps.iter().find(|app| *app == PRACTICE).or(apps.first()) {
        let session = names::session_name();
        let run = json!({ "app": app, "session": session, "input": "tell me a long story" });
        let json = match asks {
            true => "-H 'content-type: application/json' -H \"authorization: Bearer $ANDON_KEY\"",
            false => "-H 'content-type: application/json'",
        };
        let feed = "-H 'accept: text/event-stream'";
        lines.extend([
            "To start a run and watch it (it goes on when you stop watching):".to_owned(),
            format!("  curl -N {} {json} {feed} -d {}", at("runs"), quoted(&run.to_string())),
            "To stop it, in another terminal:".to_owned(),
            format!("  curl {} {json} -d {}", at("cancel"), quoted(&json!({ "session": session }).to_string())),
        ]);
    }
    let drain = humantime::format_duration(server.options().drain);
    lines.extend([
        "To talk to an agent, list runs, refuse new runs, and accept them again:".to_owned(),
        command("chat"),
        command("runs"),
        command("line hold"),
        command("line open"),
        String::new(),
        format!("Ctrl-C shuts the server down: runs in progress get {drain} to finish."),
    ]);
    lines.join("\n")
}

/// The apps that can run.
fn served(server: &Server) -> Vec<String> {
    let apps = server.apps().all().into_iter();
    apps.filter(|(_, app)| matches!(app, App::Served { .. })).map(|(name, _)| name).collect()
}
