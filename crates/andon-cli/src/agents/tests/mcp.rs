//! Agents whose tools are those of a real server, made with the official Python SDK.

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
    let report = world.look().await;
    assert_eq!(report, loaded(&["shop"]), "{:?}", report.lines());
    assert!(world.path("shop/server.log").exists(), "the server runs in the agent's folder");
    let outcome = world.agent("shop").run("my_echo {\"text\": \"good morning\"}").await.unwrap();
    assert_eq!(outcome.receipt.calls.len(), 1);
    assert!(outcome.text().contains("good morning"), "{}", outcome.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_not_the_tool_is_refused_with_those_it_has() {
    let mut world = World::new();
    world.write_agent("shop", toolset("    tool_filter: [hammer]\n"));
    world.write_agent("good", practice(""));
    assert_eq!(world.look().await.loaded, ["good"]);
    let why = world.why("shop");
    assert!(why.starts_with("shop/root_agent.yaml:5:3: the tool `hammer`") && why.contains("`echo`"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_cannot_be_reached_are_refused_in_bounded_time_while_others_load() {
    let mut world = World::new();
    let stdio = |command: &str| {
        format!("tools:\n- name: McpToolset\n  args:\n    stdio_connection_params:\n{command}      timeout: 0.2\n")
    };
    world.write_agent(
        "gone",
        practice(&stdio("      server_params: {command: andon-no-such-command, env: {KEY: hush}}\n")),
    );
    world.write_agent("mute", practice(&stdio("      server_params: {command: sleep, args: ['1000']}\n")));
    let http = "tools:\n- name: McpToolset\n  args:\n    streamable_http_connection_params:\n      url: \
                http://ada:hush@127.0.0.1:1/mcp?key=hush\n      headers: {Authorization: hush}\n";
    world.write_agent("closed", practice(http));
    world.write_agent("good", practice(""));
    let report = world.look().await;
    assert_eq!(report.loaded, ["good"]);
    let expected = [
        ("closed", "the MCP server `http://127.0.0.1:1/mcp` cannot be used"),
        ("gone", "there is no command `andon-no-such-command`"),
        ("mute", "the MCP server `sleep` was not ready within 200ms"),
    ];
    for (app, words) in expected {
        let why = world.why(app);
        assert!(why.starts_with(&format!("{app}/root_agent.yaml:5:3: ")) && why.contains(words), "{why}");
        assert!(why.ends_with("it is tried again now and then") && !why.contains("hush"), "{why}");
    }
}
