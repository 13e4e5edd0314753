//! Folders of agents, on disk.

mod bad;
mod mcp;
mod reload;
mod slow;

use std::path::{Path, PathBuf};

use andon_runtime::{Agent, Runtime};
use andon_server::{App, Apps};
use tempfile::TempDir;

use super::*;

/// A folder of agents, and a runtime that serves it.
struct World {
    dir: TempDir,
    apps: Apps,
    folder: AgentFolder,
}

impl World {
    fn new() -> Self {
        Self::on(tempfile::tempdir().unwrap(), &Runtime::builder().build())
    }

    fn on(dir: TempDir, runtime: &Runtime) -> Self {
        let apps = Apps::new();
        let folder = AgentFolder::new(dir.path(), runtime, apps.clone()).unwrap();
        Self { dir, apps, folder }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file, and the folders above it.
    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn write_agent(&self, app: &str, text: impl AsRef<[u8]>) {
        self.write(&format!("{app}/{FILE}"), text);
    }

    /// Scans once, and waits for all builds.
    async fn scan(&mut self) -> Report {
        let mut report = self.folder.rescan().await;
        while let Some((app, built)) = self.folder.builds.next().await {
            self.folder.take_up(app, built, &mut report);
        }
        report.sort();
        report
    }

    #[track_caller]
    fn agent(&self, app: &str) -> Agent {
        match self.apps.get(app) {
            Some(App::Served { agent, .. }) => agent,
            other => panic!("{app} is not served: {other:?}"),
        }
    }

    /// Why an app is refused.
    #[track_caller]
    fn why(&self, app: &str) -> String {
        match self.apps.get(app) {
            Some(App::Refused { why }) => why,
            other => panic!("{app} is not refused: {other:?}"),
        }
    }
}

/// A practice agent, with more lines.
fn practice(more: &str) -> String {
    format!("name: some_name\nmodel: practice\ninstruction: Practise.\n{more}")
}

fn loaded(apps: &[&str]) -> Report {
    Report { loaded: apps.iter().map(|app| (*app).to_owned()).collect(), ..Report::default() }
}

#[tokio::test]
async fn an_app_has_the_name_of_its_folder_and_its_description() {
    let mut world = World::new();
    world.write_agent("shop", practice("description: Sells things.\n"));
    world.write_agent("café", practice(""));
    assert_eq!(world.scan().await, loaded(&["café", "shop"]));
    let Some(App::Served { agent, description }) = world.apps.get("shop") else { panic!("it is served") };
    assert_eq!((agent.name(), description.as_deref()), ("shop", Some("Sells things.")));
    assert_eq!(world.scan().await, Report::default(), "nothing has changed");
}

#[tokio::test]
async fn tools_work_in_the_named_folder_beside_the_file() {
    let mut world = World::new();
    world.write("shop/files/note.txt", "buy milk");
    world.write_agent("shop", practice("tools:\n- name: read_file\n  args: {folder: files}\n- name: shell\n"));
    assert_eq!(world.scan().await, loaded(&["shop"]));
    let agent = world.agent("shop");
    assert!(agent.run("read_file: note.txt").await.unwrap().completed().unwrap().text().contains("buy milk"));
    assert!(
        agent.run("shell: ls").await.unwrap().completed().unwrap().text().contains(FILE),
        "a shell starts beside the file"
    );
}

#[tokio::test]
async fn a_tool_that_needs_approval_waits_for_it() {
    let mut world = World::new();
    world.write_agent("shop", practice("tools:\n- name: shell\n  args: {needs_approval: true}\n"));
    world.scan().await;
    let run = world.agent("shop").start("shell: echo done").unwrap();
    let mut feed = run.feed();
    let call = loop {
        let item = feed.next().await.unwrap();
        let line = serde_json::to_value(&item).unwrap();
        assert_ne!(line["type"], "tool_started", "before it was approved");
        if line["type"] == "approval_requested" {
            break line["call"].as_str().unwrap().to_owned();
        }
    };
    run.decide(&andon_runtime::CallId::new(call).unwrap()).approve().by("ada").send().unwrap();
    assert!(run.outcome().await.text_so_far().contains("done"));
}

#[tokio::test]
async fn the_examples_that_need_no_key_load() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents");
    let apps = Apps::new();
    let mut folder = AgentFolder::new(&examples, &Runtime::builder().build(), apps.clone()).unwrap();
    let report = folder.load().await;
    // The other one loads as well if its key is set.
    assert!(report.loaded.iter().any(|app| app == "practice_shop"), "{:?}", report.lines());
    assert!(report.refused.iter().all(|refused| refused.why.contains("needs a key")), "{:?}", report.lines());
    assert_eq!(apps.all().len(), 2);
}

#[test]
fn a_missing_folder_is_an_error_at_once() {
    let error = AgentFolder::new("/nowhere/at/all", &Runtime::builder().build(), Apps::new()).err().unwrap();
    assert!(error.to_string().contains("/nowhere/at/all is not a folder"), "{error}");
}
