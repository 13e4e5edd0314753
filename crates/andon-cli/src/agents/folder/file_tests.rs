//! Which files are accepted, and the errors for the others.

use std::time::Duration;

use super::super::tool_entry::ToolKind;
use super::*;
use crate::yaml::{bad_node, parse};

const HEAD: &str = "name: shop\nmodel: practice\ninstruction: Sell things.\n";

fn read(text: &str) -> AgentFile {
    AgentFile::read(&parse(text).unwrap(), "shop").unwrap()
}

/// The line of what is wrong, and the words.
fn refused(text: &str) -> (usize, String) {
    let fault = AgentFile::read(&parse(text).unwrap(), "shop").unwrap_err();
    let bad = bad_node(text, fault.at, fault.why);
    (bad.line.unwrap(), bad.why)
}

#[track_caller]
fn assert_refused(text: &str, line: usize, words: &str) {
    let (at, why) = refused(text);
    assert!(at == line && why.contains(words), "{text}\n{at}: {why}");
}

#[test]
fn a_file_of_adk_with_its_header_is_read() {
    let text = "# yaml-language-server: $schema=https://example.org/AgentConfig.json\n---\nagent_class: LlmAgent\nname: \
                assistant_2\nmodel: gemini-2.5-flash\ndescription: >\n  Helps\n  people.\ninstruction: |\n  Be kind.\n  Be brief.\ntools:\n";
    let file = read(text);
    assert_eq!(file.model.value, "gemini-2.5-flash");
    assert_eq!(file.description.as_deref(), Some("Helps people."));
    assert_eq!(file.instruction.value, "Be kind.\nBe brief.\n");
    assert_eq!((file.tools.len(), file.limits), (0, Limits::NONE));
}

#[test]
fn limits_and_tools_have_their_settings() {
    let file = read(&format!(
        "{HEAD}limits: {{deadline: 2m, silence: 30s, turns: 5, tokens: 9000}}\ntools:\n- name: shell\n  args: {{timeout: 10s, \
         needs_approval: true}}\n- name: read_file\n  args: {{folder: files}}\n- name: http_get\n"
    ));
    let expected =
        Limits::new().deadline(Duration::from_secs(120)).silence(Duration::from_secs(30)).turns(5).tokens(9000);
    assert_eq!(file.limits, expected);
    assert_eq!(file.tools.iter().map(|tool| tool.needs_approval).collect::<Vec<_>>(), [true, false, false]);
    let [shell, read, get] = &file.tools[..] else { panic!("three tools: {:?}", file.tools) };
    let ten_seconds = Duration::from_secs(10);
    assert!(matches!(shell.wanted, ToolKind::Shell { folder: None, timeout: Some(time) } if time == ten_seconds));
    assert!(matches!(&read.wanted, ToolKind::ReadFile { folder } if folder.value.ends_with("files")));
    assert!(matches!(get.wanted, ToolKind::HttpGet { timeout: None }));
}

#[test]
fn what_is_missing_is_said_with_what_to_add() {
    assert_refused("", 1, "the file is empty: it needs at least `name: shop`");
    assert_refused("# nothing but words\n", 2, "the file is empty");
    assert_refused("- a\n", 1, "the file must have keys and values");
    assert_refused("just words\n", 1, "the file must have keys and values");
    assert_refused("model: practice\ninstruction: x\n", 1, "`name` is missing: add `name: shop`");
    assert_refused("name: shop\ninstruction: x\n", 1, "`model` is missing: add `model: practice`");
    assert_refused("name: shop\nmodel:\ninstruction: x\n", 1, "`model` is missing");
    assert_refused("name: shop\nmodel: practice\n", 1, "`instruction` is missing");
}

#[test]
fn wrong_kinds_of_values_are_refused_where_they_stand() {
    assert_refused("name: shop\nmodel: 5\n", 2, "`model` must be text: put it into quotes");
    assert_refused("name: shop\nmodel: [a]\n", 2, "`model` must be text, not a list");
    assert_refused("name: shop\nmodel: practice\ninstruction: ''\n", 3, "`instruction` is empty");
    assert_refused(&format!("{HEAD}tools: shell\n"), 4, "`tools` must be a list");
    assert_refused(&format!("{HEAD}tools:\n- shell\n"), 5, "write a tool as `- name: shell`");
    assert_refused(&format!("{HEAD}tools:\n- args: {{}}\n"), 5, "a tool needs a name");
    assert_refused(&format!("{HEAD}limits: 3\n"), 4, "`limits` must have keys and values");
    assert_refused(&format!("{HEAD}limits:\n  deadline: 30\n"), 5, "such as 30s");
    assert_refused(&format!("{HEAD}limits:\n  silence: 0s\n"), 5, "more than zero");
    assert_refused(&format!("{HEAD}limits:\n  turns: 0\n"), 5, "at least 1");
    assert_refused(&format!("{HEAD}limits:\n  turns: 5000000000\n"), 5, "too large");
    assert_refused(&format!("{HEAD}tools:\n- name: shell\n  args:\n    needs_approval: 'yes'\n"), 7, "true or false");
    assert_refused(&format!("{HEAD}tools:\n- name: shell\n  args:\n  - name: a\n"), 7, "it is not a list");
}

#[test]
fn names_follow_the_rules_of_adk() {
    for bad in ["'two words'", "a-b", "2nd", "a/b"] {
        assert_refused(&format!("model: practice\nname: {bad}\n"), 2, "letters, digits and _");
    }
    assert_refused("model: practice\nname: user\n", 2, "must not be `user`");
}

#[test]
fn another_class_is_refused_by_name_before_its_keys() {
    let text = "name: shop\nsub_agents:\n- config_path: a.yaml\nagent_class: SequentialAgent\n";
    assert_refused(text, 4, "agents of class `SequentialAgent` are not supported yet");
    assert_refused("agent_class: shop.agents.Mine\nname: shop\n", 1, "`shop.agents.Mine` are not supported yet");
}

#[test]
fn keys_that_are_not_there_yet_are_refused_by_name() {
    for (key, _) in KEYS.not_yet {
        assert_refused(&format!("{HEAD}\n{key}: something\n"), 5, &format!("`{key}` is not supported yet: "));
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
    let (line, why) = refused(&format!("{HEAD}\ninstructions: x\n"));
    assert_eq!(line, 5);
    assert_eq!(
        why,
        "unknown key `instructions` in an agent: did you mean `instruction`? The valid keys are name, model, instruction, \
         description, tools, limits, agent_class"
    );
    assert_refused(
        &format!("{HEAD}colour: red\n"),
        4,
        "unknown key `colour` in an agent: remove it; the valid keys are name",
    );
    assert_refused(&format!("{HEAD}limits: {{turn: 1}}\n"), 4, "did you mean `turns`?");
    assert_refused(&format!("{HEAD}\"a\\nb\": 1\n"), 4, "unknown key `a\\nb` in an agent");
    assert_refused(&format!("{HEAD}{}: 1\n", "é".repeat(500)), 4, &format!("`{}…`", "é".repeat(60)));
}

#[test]
fn a_tool_that_is_not_there_is_refused_at_its_own_line() {
    let with = |tool: &str| format!("{HEAD}tools:\n- name: shell\n- name: {tool}\n");
    assert_refused(
        &with("hammer"),
        6,
        "there is no tool `hammer`: the tools are shell, read_file, write_file, http_get",
    );
    assert_refused(&with("shel"), 6, "did you mean `shell`?");
    assert_refused(&with("mcptoolset"), 6, "did you mean `McpToolset`?");
    assert_refused(&with("google_search"), 6, "the tool `google_search` is not supported yet");
    assert_refused(&with("my_library.tools.roll"), 6, "Andon does not run Python tools");
    assert_refused(&with("read_file"), 6, "`read_file` needs a folder");
    assert_refused(&with("http_get\n  args: {folder: x}"), 7, "unknown key `folder` in the `args` of http_get");
    assert_refused(&with("shell\n  args: {require_confirmation: true}"), 7, "write `needs_approval: true`");
}

#[test]
fn an_mcp_toolset_is_written_as_in_adk() {
    let with = |args: &str| format!("{HEAD}tools:\n- name: McpToolset\n  args:\n{args}");
    let good = [
        "    stdio_server_params:\n      command: npx\n      args: ['-y', server]\n      env: {KEY: value}\n    tool_filter: [a]\n",
        "    stdio_connection_params:\n      server_params: {command: npx}\n      timeout: 2.5\n    tool_name_prefix: n\n",
        "    streamable_http_connection_params:\n      url: https://example.org/mcp\n      headers: {A: b}\n      timeout: 5\n",
    ];
    for args in good {
        assert!(matches!(read(&with(args)).tools[0].wanted, ToolKind::Mcp(_)), "{args}");
        assert_eq!(read(&with(args).replace("McpToolset", "MCPToolset")).tools.len(), 1);
    }
    let bad = [
        ("    tool_filter: [a]\n", 7, "a McpToolset needs a server"),
        (
            "    stdio_server_params: {command: a}\n    streamable_http_connection_params: {url: 'http://b'}\n",
            8,
            "has one server",
        ),
        ("    sse_connection_params: {url: x}\n", 7, "use streamable_http_connection_params"),
        ("    streamable_http_server_params: {url: x}\n", 7, "did you mean `streamable_http_connection_params`?"),
        ("    stdio_connection_params: {timeout: 5}\n", 7, "needs `server_params`"),
        ("    stdio_connection_params: {server_params: {command: a}, timeout: 5000}\n", 7, "at most 120"),
        ("    stdio_connection_params: {server_params: {command: a}, timeout: -1}\n", 7, "more than 0"),
        ("    stdio_server_params: {args: [a]}\n", 7, "needs a `command`"),
        ("    stdio_server_params:\n      command: npx -y server\n", 8, "put its arguments under `args`"),
        (
            "    stdio_server_params:\n      command: a\n      env:\n        PORT: 8080\n",
            10,
            "the value of `PORT` in `env` must be text",
        ),
        ("    stdio_server_params: {command: a, encoding: latin-1}\n", 7, "it is always UTF-8"),
        ("    streamable_http_connection_params:\n      url: ftp://x\n", 8, "must begin with http"),
        ("    streamable_http_connection_params:\n      url: http://x\n      sse_read_timeout: 5\n", 9, "limits"),
        ("    auth_credential: {}\n", 7, "under `headers`"),
    ];
    for (args, line, words) in bad {
        assert_refused(&with(args), line, words);
    }
}

#[test]
fn no_words_and_no_debug_output_hold_a_secret() {
    let with = |args: &str| format!("{HEAD}tools:\n- name: McpToolset\n  args:\n{args}");
    let unset = "    stdio_server_params: {command: a, env: {KEY: 'hush ${ANDON_TEST_NEVER_SET}'}}\n";
    let (line, why) = refused(&with(unset));
    assert_eq!(line, 7);
    assert!(why.contains("the variable ANDON_TEST_NEVER_SET is not set") && !why.contains("hush"), "{why}");
    let file = read(&with("    stdio_server_params: {command: a, args: [hush], env: {KEY: hush}}\n"));
    assert!(!format!("{file:?}").contains("hush"), "{file:?}");
    for wrong in ["    stdio_server_params: {command: [hush]}\n", "    stdio_server_params: {command: a, env: hush}\n"]
    {
        assert!(!refused(&with(wrong)).1.contains("hush"));
    }
}

#[test]
fn what_adk_would_fill_in_is_found_and_other_braces_are_not() {
    let found = |text: &str| {
        let instruction = Located { at: parse("x").unwrap().at, value: text.to_owned() };
        placeholder(&instruction).map(|(_, name)| name)
    };
    for (text, name) in [("About {topic}.", "topic"), ("{user:name?}", "user:name?"), ("{\"a\": {b}}", "b")] {
        assert_eq!(found(text).as_deref(), Some(name), "{text}");
    }
    for text in ["", "{}", "{a b}", "{\"a\": 1}", "{x", "fn() { y }", "{1}"] {
        assert_eq!(found(text), None, "{text}");
    }
}
