//! ADK's `McpToolset`.
//!
//! Its keys mean the same as in ADK, with two differences: a program starts in the agent's folder, and `${NAME}` in the value of
//! a variable or a header stands for an environment variable of this process.

use std::path::PathBuf;
use std::time::Duration;

use andon_tools::mcp::McpServer;

use crate::yaml::fields::{FieldError, Fields, Keys, Located};
use crate::yaml::{Key, Node, cut};

/// The longest time that a file may give a server to be ready.
const LONGEST: Duration = Duration::from_secs(120);

/// A server, not connected yet, with its choice of tools.
#[derive(Debug)]
pub(super) struct McpEntry {
    pub(super) server: McpServer,
    /// The folder that its program runs in, if the file names one.
    pub(super) cwd: Option<Located<PathBuf>>,
}

const WAYS: [&str; 3] = ["stdio_server_params", "stdio_connection_params", "streamable_http_connection_params"];
const NO_AUTH: &str = "write the header under `headers`, such as `Authorization: Bearer ${TOKEN}`";

const TOOLSET: Keys = Keys {
    known: &[
        "stdio_server_params",
        "stdio_connection_params",
        "streamable_http_connection_params",
        "tool_filter",
        "tool_name_prefix",
        "needs_approval",
    ],
    not_yet: &[
        ("sse_connection_params", "use streamable_http_connection_params"),
        ("sse_server_params", "use streamable_http_connection_params"),
        ("auth_scheme", NO_AUTH),
        ("auth_credential", NO_AUTH),
        ("credential_key", NO_AUTH),
        ("tool_list_cache_ttl_seconds", "leave it out: the tools are listed when the file is loaded"),
        ("use_mcp_resources", "leave it out: only tools are used"),
        ("require_confirmation", "write `needs_approval: true`"),
    ],
};
const STDIO: Keys = Keys { known: &["server_params", "timeout"], not_yet: &[] };
const PROGRAM: Keys = Keys {
    known: &["command", "args", "env", "cwd"],
    not_yet: &[
        ("encoding", "leave it out: it is always UTF-8"),
        ("encoding_error_handler", "leave it out: a line that is not UTF-8 is an error"),
    ],
};
const HTTP: Keys = Keys {
    known: &["url", "headers", "timeout"],
    not_yet: &[
        ("sse_read_timeout", "leave it out: a call may take as long as its run, which `limits: {deadline: 5m}` limits"),
        ("terminate_on_close", "leave it out: the session is always terminated"),
        ("httpx_client_factory", "leave it out"),
    ],
};

/// Reads the `args` of a `McpToolset`, and whether each of its calls needs approval.
pub(super) fn read(node: &Node, what: &str) -> Result<(McpEntry, bool), FieldError> {
    let args = Fields::of(node, what, &TOOLSET)?;
    let mut ways = WAYS.iter().filter_map(|way| args.get(way).map(|node| (*way, node)));
    let Some((way, node)) = ways.next() else {
        return Err(FieldError::new(args.at, format!("a McpToolset needs a server: add one of {}", WAYS.join(", "))));
    };
    if let Some((_, second)) = ways.next() {
        return Err(FieldError::new(second.at, "a McpToolset has one server: write a second McpToolset for the other"));
    }
    let mut entry = match way {
        "stdio_server_params" => program(node)?,
        "stdio_connection_params" => {
            let params = Fields::of(node, "`stdio_connection_params`", &STDIO)?;
            let missing =
                || FieldError::new(node.at, "`stdio_connection_params` needs `server_params` with a `command`");
            let McpEntry { server, cwd } = program(params.get("server_params").ok_or_else(missing)?)?;
            McpEntry { server: with_timeout(server, &params)?, cwd }
        }
        _ => McpEntry { server: http(node)?, cwd: None },
    };
    let tools = args.texts("tool_filter")?;
    if !tools.is_empty() {
        entry.server = entry.server.only(tools);
    }
    if let Some(prefix) = args.text("tool_name_prefix")? {
        // ADK adds the underscore, too.
        entry.server = entry.server.prefix(format!("{}_", prefix.value));
    }
    Ok((entry, args.is_true("needs_approval")?))
}

fn program(node: &Node) -> Result<McpEntry, FieldError> {
    let params = Fields::of(node, "the program of a McpToolset", &PROGRAM)?;
    let Some(command) = params.text("command")? else {
        return Err(FieldError::new(node.at, "the server needs a `command`, such as `command: npx`"));
    };
    if command.value.contains(char::is_whitespace) && params.get("args").is_none() {
        let why = "`command` is only the program: put its arguments under `args`, one per entry";
        return Err(FieldError::new(command.at, why));
    }
    let server = McpServer::stdio(command.value, params.texts("args")?);
    let env = filled(params.pairs("env")?)?;
    let server = env.iter().fold(server, |server, (name, value)| server.env(name, value));
    Ok(McpEntry { server, cwd: params.path("cwd")? })
}

fn http(node: &Node) -> Result<McpServer, FieldError> {
    let params = Fields::of(node, "`streamable_http_connection_params`", &HTTP)?;
    let Some(url) = params.text("url")? else {
        return Err(FieldError::new(node.at, "the server needs a `url`, such as `url: https://example.org/mcp`"));
    };
    if !url.value.starts_with("http://") && !url.value.starts_with("https://") {
        return Err(FieldError::new(url.at, "`url` must begin with http:// or https://"));
    }
    let headers = filled(params.pairs("headers")?)?;
    let server = headers.iter().fold(McpServer::http(url.value), |server, (name, value)| server.header(name, value));
    with_timeout(server, &params)
}

/// Sets how long the server may take to be ready, if the file says so.
fn with_timeout(server: McpServer, params: &Fields<'_>) -> Result<McpServer, FieldError> {
    Ok(match params.seconds("timeout", LONGEST)? {
        Some(timeout) => server.connect_timeout(timeout),
        None => server,
    })
}

fn filled(pairs: Vec<(&Key, Located<&str>)>) -> Result<Vec<(String, String)>, FieldError> {
    let look_up = |name: &str| std::env::var(name).ok();
    let pair = |(name, value): (&Key, Located<&str>)| {
        let filled = fill(value.value, look_up).map_err(|why| {
            FieldError::new(value.at, format!("the value of `{}` cannot be filled in: {why}", cut(&name.text)))
        })?;
        Ok((name.text.clone(), filled))
    };
    pairs.into_iter().map(pair).collect()
}

/// Puts variables in place of `${NAME}`. `$${` stands for `${` itself.
fn fill(text: &str, look_up: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            whole.push_str(before);
            whole.push_str("${");
            rest = after;
            continue;
        }
        whole.push_str(before);
        let is_plain =
            |name: &str| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let Some((name, after)) = after.split_once('}').filter(|(name, _)| is_plain(name)) else {
            return Err("write a variable as ${NAME}, and a literal ${ as $${".to_owned());
        };
        let Some(value) = look_up(name) else {
            return Err(format!("the variable {name} is not set: set it and start the server again"));
        };
        whole.push_str(&value);
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_a_missing_one_is_named() {
        let look_up = |name: &str| (name == "TOKEN").then(|| "hush".to_owned());
        assert_eq!(fill("Bearer ${TOKEN}!", look_up).unwrap(), "Bearer hush!");
        assert_eq!(fill("no $ and $TOKEN and $${TOKEN}", look_up).unwrap(), "no $ and $TOKEN and ${TOKEN}");
        let error = fill("${TOKEN}${GONE}", look_up).unwrap_err();
        assert!(error.contains("the variable GONE is not set") && !error.contains("hush"), "{error}");
        assert!(fill("${", look_up).is_err() && fill("${a b}", look_up).is_err() && fill("${}", look_up).is_err());
    }
}
