//! Agents whose MCP servers do not answer.

use super::*;

/// An agent whose server starts and never answers while a test runs.
fn mute(more: &str) -> String {
    let tools = "tools:\n- name: McpToolset\n  args:\n    stdio_connection_params:\n      server_params: {command: sleep, \
                 args: ['1000']}\n      timeout: 120\n";
    practice(&format!("{tools}{more}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_does_not_wait_for_a_server_that_never_answers() {
    let mut world = World::new();
    world.write_agent("mute", mute(""));
    world.write_agent("good", practice(""));
    let report = world.folder.load().await;
    assert_eq!(report.loaded, ["good"]);
    world.agent("good");
    let why = "mute/root_agent.yaml: the agent is not ready: its MCP server has not answered yet";
    assert_eq!((report.notes, world.why("mute")), (vec![why.to_owned()], why.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_picked_up_while_an_agent_waits_for_its_server() {
    let mut world = World::new();
    // More than may wait at the same time.
    for number in 0..20 {
        world.write_agent(&format!("mute{number}"), mute(""));
    }
    assert_eq!(world.folder.rescan().await, Report::default());
    world.write_agent("good", practice(""));
    assert_eq!(world.folder.rescan().await, loaded(&["good"]), "an agent without servers waits for nobody");
    world.write_agent("good", practice("description: New.\n"));
    assert_eq!(world.folder.rescan().await.changed, ["good"]);
    world.write_agent("mute0", practice(""));
    assert_eq!(world.folder.rescan().await, loaded(&["mute0"]), "the newest version replaces the one that waited");
    std::fs::remove_dir_all(world.path("mute1")).unwrap();
    world.folder.rescan().await;
    assert_eq!(world.folder.rescan().await.removed, ["mute1"]);
    assert!(world.apps.get("mute1").is_none() && !world.folder.builds.has("mute1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_new_server_never_answers_keeps_its_earlier_version() {
    let mut world = World::new();
    world.write_agent("shop", practice("description: Earlier.\n"));
    world.folder.rescan().await;
    world.write_agent("shop", mute("description: Later.\n"));
    assert_eq!(world.folder.rescan().await, Report::default());
    assert!(matches!(world.apps.get("shop"), Some(App::Served { description: Some(it), .. }) if it == "Earlier."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_reports_a_slow_build() {
    let mut world = World::new();
    let later = mute("").replace("command: sleep, args: ['1000']", "command: sh, args: ['-c', 'read x; read y']");
    world.write_agent("slow", later.replace("timeout: 120", "timeout: 0.3"));
    assert_eq!(world.folder.rescan().await, Report::default());
    let closing = CancellationToken::new();
    let told = std::sync::Mutex::new(Vec::new());
    let watching = world.folder.watch(closing.clone(), |report| {
        told.lock().unwrap().extend(report.lines());
        closing.cancel();
    });
    tokio::time::timeout(Duration::from_secs(60), watching).await.unwrap();
    let told = told.into_inner().unwrap();
    assert!(told.len() == 1 && told[0].contains("was not ready within 300ms"), "{told:?}");
}
