//! Changes on disk while runs are in progress.

use std::sync::Arc;

use andon_runtime::RunState;
use andon_testkit::TestJournal;

use super::*;

#[tokio::test]
async fn a_change_is_picked_up_and_a_run_in_progress_keeps_its_agent() {
    let mut world = World::new();
    world.write_agent("shop", practice("tools:\n- name: shell\n"));
    world.scan().await;
    let go = world.path("go");
    let command = format!("shell: while [ ! -e {} ]; do sleep 0.01; done; echo went on", go.display());
    let run = world.agent("shop").start(command).unwrap();
    let mut feed = run.feed();
    while serde_json::to_value(feed.next().await.unwrap()).unwrap()["type"] != "tool_started" {}
    world.write_agent("shop", practice("tools:\n- name: shell\n  args: {needs_approval: true}\n"));
    let changed = Report { changed: vec!["shop".to_owned()], ..Report::default() };
    assert_eq!(world.scan().await, changed);
    std::fs::write(go, "").unwrap();
    let outcome = run.outcome().await;
    assert!(outcome.text_so_far().contains("went on"), "{}", outcome.text_so_far());
    let next = world.agent("shop").start("shell: echo done").unwrap();
    let mut feed = next.feed();
    while serde_json::to_value(feed.next().await.unwrap()).unwrap()["type"] != "approval_requested" {}
    next.cancel(andon_runtime::Cancel::now());
    next.outcome().await;
}

#[tokio::test]
async fn only_what_changed_is_loaded_again() {
    let mut world = World::new();
    world.write_agent("one", practice(""));
    world.write_agent("two", practice(""));
    world.scan().await;
    world.agent("two").cancel();
    world.write_agent("one", practice("description: New.\n"));
    world.write_agent("three", practice(""));
    let report = world.scan().await;
    assert_eq!((report.loaded, report.changed), (vec!["three".to_owned()], vec!["one".to_owned()]));
    assert!(world.agent("two").disarm(), "the agent is the same, and still armed");
}

#[tokio::test]
async fn after_a_broken_edit_the_last_good_version_is_still_served() {
    let mut world = World::new();
    world.write_agent("shop", practice("description: Good.\n"));
    world.scan().await;
    world.write_agent("shop", practice("descripton: Bad.\n"));
    let report = world.scan().await;
    let [refused] = &report.refused[..] else { panic!("{report:?}") };
    assert_eq!(refused.meanwhile, Meanwhile::Earlier);
    assert!(refused.why.starts_with("shop/root_agent.yaml:4:1: unknown key"), "{refused:?}");
    assert!(report.lines()[0].ends_with("until this is fixed, the earlier version is served"), "{:?}", report.lines());
    assert!(matches!(world.apps.get("shop"), Some(App::Served { description: Some(good), .. }) if good == "Good."));
    assert_eq!(world.scan().await, Report::default(), "it is reported once");
    world.write_agent("shop", practice("descripton: Still bad.\n"));
    assert_eq!(world.scan().await.refused.len(), 1, "a new version is reported again");
    world.write_agent("shop", practice("description: Better.\n"));
    assert_eq!(world.scan().await.changed, ["shop"]);
    assert!(
        matches!(world.apps.get("shop"), Some(App::Served { description: Some(better), .. }) if better == "Better.")
    );
}

#[tokio::test]
async fn a_file_that_was_bad_from_the_start_is_refused_by_name_until_it_is_fixed() {
    let mut world = World::new();
    world.write_agent("shop", "name: shop\n");
    let report = world.scan().await;
    assert!(!report.has_new_apps() && report.refused[0].meanwhile == Meanwhile::Nothing);
    assert!(world.why("shop").starts_with("shop/root_agent.yaml:1:1: `model` is missing"), "{}", world.why("shop"));
    world.write_agent("shop", practice(""));
    let report = world.scan().await;
    assert!(report.has_new_apps());
    assert_eq!(report, loaded(&["shop"]));
}

#[tokio::test]
async fn an_app_is_removed_when_its_file_is_missing_in_two_scans() {
    let mut world = World::new();
    world.write_agent("shop", practice(""));
    world.scan().await;
    std::fs::remove_file(world.path("shop/root_agent.yaml")).unwrap();
    assert_eq!(world.scan().await, Report::default(), "an editor may be about to write it");
    world.agent("shop");
    world.write_agent("shop", practice(""));
    assert_eq!(world.scan().await, Report::default());
    std::fs::remove_dir_all(world.path("shop")).unwrap();
    world.scan().await;
    let report = world.scan().await;
    assert_eq!(report.removed, ["shop"]);
    assert!(world.apps.get("shop").is_none());
    world.write_agent("shop", practice(""));
    assert_eq!(world.scan().await, loaded(&["shop"]));
}

#[tokio::test]
async fn the_built_in_agent_is_served_whenever_the_folder_has_no_usable_app_of_its_name() {
    let (dir, runtime, apps) = (tempfile::tempdir().unwrap(), Runtime::builder().build(), Apps::new());
    let built_in =
        Agent::builder().name("shop").runtime(&runtime).model(andon_practice::Practice::instant()).build().unwrap();
    apps.put(built_in, Some("Built in.".to_owned()));
    let folder = AgentFolder::new(dir.path(), &runtime, apps.clone()).unwrap();
    let mut world = World { dir, apps, folder };
    let described = |world: &World| match world.apps.get("shop") {
        Some(App::Served { description, .. }) => description.unwrap(),
        other => panic!("it is not served: {other:?}"),
    };
    world.write_agent("shop", "name: shop\n");
    let report = world.scan().await;
    assert_eq!((report.refused[0].meanwhile, described(&world)), (Meanwhile::BuiltIn, "Built in.".to_owned()));
    assert!(report.lines()[0].ends_with("until this is fixed, the built-in agent is served"));
    world.write_agent("shop", practice("description: Mine.\n"));
    assert_eq!(world.scan().await.loaded, ["shop"]);
    assert_eq!(described(&world), "Mine.");
    std::fs::remove_dir_all(world.path("shop")).unwrap();
    world.scan().await;
    let report = world.scan().await;
    assert_eq!((report.back, report.removed), (vec!["shop".to_owned()], vec![]));
    assert_eq!(described(&world), "Built in.");
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_changes_nothing_and_is_reported_once() {
    let mut world = World::new();
    world.write_agent("shop", practice(""));
    world.scan().await;
    let (here, away) = (world.dir.path().to_owned(), world.dir.path().with_extension("away"));
    std::fs::rename(&here, &away).unwrap();
    let report = world.scan().await;
    assert!(report.notes[0].contains("cannot read") && report.notes.len() == 1, "{report:?}");
    assert_eq!(world.scan().await, Report::default());
    assert_eq!(world.scan().await, Report::default());
    world.agent("shop");
    std::fs::rename(&away, &here).unwrap();
    assert_eq!(world.scan().await, Report::default());
}

#[tokio::test]
async fn a_problem_that_may_go_away_is_tried_again_less_and_less_often_and_reported_once() {
    let mut world = World::new();
    world.write_agent("shop", practice("tools:\n- name: read_file\n  args:\n    folder: later\n"));
    let report = world.scan().await;
    assert!(report.refused[0].why.starts_with("shop/root_agent.yaml:7:13: there is no folder `later`"), "{report:?}");
    // It is tried again at the fifth scan, and not reported again.
    for _ in 0..5 {
        assert_eq!(world.scan().await, Report::default());
    }
    std::fs::create_dir(world.path("shop/later")).unwrap();
    for scan in 1..10 {
        assert_eq!(world.scan().await, Report::default(), "scan {scan}");
    }
    assert_eq!(world.scan().await, loaded(&["shop"]), "at the tenth scan after that");
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_changes_and_ends_when_it_is_closed() {
    let world = World::new();
    world.write_agent("shop", practice(""));
    let closing = CancellationToken::new();
    let told = std::sync::Mutex::new(Vec::new());
    let watch = world.folder.watch(closing.clone(), |report| {
        told.lock().unwrap().push(report.clone());
        closing.cancel();
    });
    // A server spawns it, so it must be `Send`.
    let watch = std::pin::pin!(watch) as std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>;
    tokio::time::timeout(Duration::from_secs(600), watch).await.unwrap();
    assert_eq!(*told.lock().unwrap(), [loaded(&["shop"])]);
    assert!(world.apps.get("shop").is_some());
}

#[tokio::test]
async fn a_run_that_a_dead_server_left_waiting_is_recovered_when_its_app_is_fixed() {
    let good = practice("tools:\n- name: shell\n  args: {needs_approval: true}\n");
    let journal = TestJournal::new(andon_runtime::MemoryJournal::new(), None);
    let first = Runtime::builder().journal(Arc::new(journal.clone())).build();
    let mut world = World::on(tempfile::tempdir().unwrap(), &first);
    world.write_agent("shop", &good);
    world.scan().await;
    let waiting = world.agent("shop").start("shell: echo done").unwrap();
    while waiting.state() != RunState::Waiting {
        tokio::task::yield_now().await;
    }
    journal.crash();

    let journal = TestJournal::new(journal.durable(), None);
    let next = Runtime::builder().journal(Arc::new(journal)).build();
    let mut world = World::on(world.dir, &next);
    world.write_agent("shop", "name: shop\n");
    assert_eq!(world.scan().await.refused.len(), 1);
    next.recover().await.unwrap();
    assert_eq!(next.parked(), [waiting.id().clone()]);
    world.write_agent("shop", &good);
    let closing = CancellationToken::new();
    tokio::time::timeout(Duration::from_secs(60), world.folder.watch(closing.clone(), |_| closing.cancel()))
        .await
        .unwrap();
    assert_eq!(next.parked(), []);
    assert_eq!(next.find(waiting.id()).await.unwrap().unwrap().state(), RunState::Waiting);
}
