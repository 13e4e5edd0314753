//! What a server says when it begins: what to open, and what to type.

use std::net::SocketAddr;

use andon_server::{App, Server};
use serde_json::json;

use crate::agent::PRACTICE;
use crate::db::{Db, quoted};
use crate::names;
use crate::show::Style;

/// The first key that somebody makes: all that stands below it can be done with it, and it stops what anybody runs.
const KEYS: &str = "keys create me --scope admin";

/// The greeting. Every line that is indented can be pasted into a shell.
pub(super) fn greeting(server: &Server, address: SocketAddr, db: &Db) -> String {
    let (bold, url) = (Style::BOLD, format!("http://{address}"));
    // A shell takes brackets for a pattern.
    let at = |what: &str| quoted(&format!("{url}/v1/{what}"));
    let apps = served(server);
    // The root may lead to ADK's page.
    let page = if server.front_page().is_some() { format!("{url}/ui/") } else { "that".to_owned() };
    let mut lines = vec![
        format!("{bold}Andon{bold:#} is at {bold}{url}{bold:#}, and records in {}.", db.shown()),
        format!("Open {page} in a browser to see what runs, to talk to an agent, and to stop it."),
        format!("It serves {}. All that it can be asked is in {url}/openapi.json.", apps.join(", ")),
        String::new(),
    ];
    let asks = server.owner_key().is_some();
    let command = |words: &str| format!("  {}", db.client_command(words, &url));
    if asks {
        lines.extend([
            "It asks for a key. This one can do everything, and stop whatever runs; it is shown once:".to_owned(),
            format!("  export ANDON_KEY=$({})", command(KEYS).trim()),
            "Others get a key with the scopes run:create, run:read and run:cancel: it reaches their own runs."
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
            "Start a run and watch it; it goes on when you stop watching:".to_owned(),
            format!("  curl -N {} {json} {feed} -d {}", at("runs"), quoted(&run.to_string())),
            "Stop it, from another terminal:".to_owned(),
            format!("  curl {} {json} -d {}", at("cancel"), quoted(&json!({ "session": session }).to_string())),
        ]);
    }
    let drain = humantime::format_duration(server.options().drain);
    lines.extend([
        "Talk to it, see what runs, let nothing new begin, and let it begin again:".to_owned(),
        command("chat"),
        command("runs"),
        command("line hold"),
        command("line open"),
        String::new(),
        format!("Ctrl-C ends it: runs in progress then have {} to finish.", drain),
    ]);
    lines.join("\n")
}

/// The apps that can be run.
fn served(server: &Server) -> Vec<String> {
    let apps = server.apps().all().into_iter();
    apps.filter(|(_, app)| matches!(app, App::Served { .. })).map(|(name, _)| name).collect()
}
