//! Agents with the tools of a real MCP server, made with the official Python SDK.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use super::*;

/// The Python that has the SDK.
fn python() -> String {
    std::env::var("ANDON_TEST_PYTHON").expect(
        "ANDON_TEST_PYTHON is not set: run these tests with `cargo xtask test`, or set it to what `cargo xtask venv` prints",
    )
}

fn server() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../andon-tools/tests/server/server.py").to_str().unwrap().to_owned()
}

fn toolset(more: &str) -> String {
    let params = format!("command: {}\n        args: [{}, --log, server.log]", python(), server());
    practice(&format!(
        "tools:\n- name: McpToolset\n  args:\n    stdio_connection_params:\n      server_params:\n        {params}\n      \
         timeout: 60\n{more}"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_calls_the_tools_of_its_mcp_server_that_the_filter_names() {
    let mut world = World::new();
    world.write_agent("shop", toolset("    tool_filter: [echo]\n    tool_name_prefix: my\n"));
    let report = world.scan().await;
    assert_eq!(report, loaded(&["shop"]), "{:?}", report.lines());
    assert!(world.path("shop/server.log").exists(), "the server runs in the agent's folder");
    let outcome = world.agent("shop").run("my_echo {\"text\": \"good morning\"}").await.unwrap();
    assert_eq!(outcome.receipt.calls.len(), 1);
    assert!(outcome.text_so_far().contains("good morning"), "{}", outcome.text_so_far());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_beside_the_file_can_be_a_server() {
    let mut world = World::new();
    world.write("shop/serve", format!("#!/bin/sh\nexec {} {} --log server.log\n", python(), server()));
    std::fs::set_permissions(world.path("shop/serve"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let params = "tools:\n- name: MCPToolset\n  args:\n    stdio_server_params: {command: ./serve}\n";
    world.write_agent("shop", practice(params));
    let report = world.scan().await;
    assert_eq!(report.loaded, ["shop"], "{:?}", report.lines());
}

/// A server over HTTP, which ends with this.
struct HttpServer(Child);

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_is_reached_with_its_headers() {
    let mut world = World::new();
    let (log, port) = (world.path("server.log"), world.path("port"));
    let mut command = Command::new(python());
    command.arg(server()).args(["--http", "--token", "Bearer hush", "--log"]).arg(log).arg("--port-file").arg(&port);
    let _server = HttpServer(command.stdin(Stdio::null()).spawn().unwrap());
    while !port.exists() {
        tokio::task::yield_now().await;
    }
    let port = std::fs::read_to_string(port).unwrap();
    let with = |token: &str| {
        let url = format!("url: http://127.0.0.1:{port}/mcp\n      headers: {{Authorization: {token}}}");
        practice(&format!(
            "tools:\n- name: McpToolset\n  args:\n    streamable_http_connection_params:\n      {url}\n    tool_filter: [echo]\n"
        ))
    };
    world.write_agent("in", with("Bearer hush"));
    world.write_agent("out", with("Bearer wrong"));
    assert_eq!(world.scan().await.loaded, ["in"]);
    let outcome = world.agent("in").run("echo {\"text\": \"good morning\"}").await.unwrap();
    assert!(outcome.text_so_far().contains("good morning"), "{}", outcome.text_so_far());
    assert!(world.why("out").contains("401") && !world.why("out").contains("wrong"), "{}", world.why("out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_the_tool_is_refused_with_a_list_of_its_tools() {
    let mut world = World::new();
    world.write_agent("shop", toolset("    tool_filter: [hammer]\n"));
    world.write_agent("good", practice(""));
    assert_eq!(world.scan().await.loaded, ["good"]);
    let why = world.why("shop");
    assert!(why.starts_with("shop/root_agent.yaml:5:3: the tool `hammer`") && why.contains("`echo`"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_cannot_be_reached_are_refused_in_bounded_time_while_others_load() {
    let mut world = World::new();
    let stdio = |server: &str, more: &str| {
        let params = format!("    stdio_connection_params:\n      server_params: {server}\n{more}");
        practice(&format!("tools:\n- name: McpToolset\n  args:\n{params}"))
    };
    world.write_agent("gone", stdio("{command: andon-no-such-command, env: {KEY: hush}}", ""));
    world.write_agent("mute", stdio("{command: sleep, args: ['1000']}", "      timeout: 0.2\n"));
    let http = "tools:\n- name: McpToolset\n  args:\n    streamable_http_connection_params:\n      url: \
                http://ada:hush@127.0.0.1:1/mcp?key=hush\n      headers: {Authorization: hush}\n";
    world.write_agent("closed", practice(http));
    world.write_agent("good", practice(""));
    let report = world.scan().await;
    assert_eq!(report.loaded, ["good"]);
    let expected = [
        ("closed", "the MCP server `http://127.0.0.1:1/mcp` cannot be used"),
        ("gone", "there is no command `andon-no-such-command`"),
        ("mute", "the MCP server `sleep` was not ready within 200ms"),
    ];
    for (app, words) in expected {
        let why = world.why(app);
        assert!(why.starts_with(&format!("{app}/root_agent.yaml:5:3: ")) && why.contains(words), "{why}");
        assert!(why.ends_with("this is tried again from time to time") && !why.contains("hush"), "{why}");
    }
}
