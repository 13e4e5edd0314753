//! Bad files, folders and links.

use super::*;

#[tokio::test]
async fn a_bad_file_affects_only_its_own_app() {
    let mut world = World::new();
    world.write_agent("good", practice(""));
    let cases: [(&str, &[u8], &str); 12] = [
        ("bomb", b"a: &a [x, x]\nb: &b [*a, *a]\nc: *b\n", ":1:1: unknown key `a` in an agent"),
        ("empty", b"", ":1:1: the file is empty"),
        ("large", &[b'#'; crate::yaml::MAX_BYTES + 1], ": the file is larger than 1 MiB"),
        ("latin", b"name: latin\ndescription: caf\xe9\n", ":2: this is not UTF-8"),
        ("list", b"- name: list\n", ":1:1: the file must have keys"),
        ("model", b"name: m\nmodel: antropic/claude\ninstruction: x\n", ":2:8: there is no provider \"antropic\""),
        ("bare", b"name: m\nmodel: claude-sonnet-5\ninstruction: x\n", ":2:8: \"claude-sonnet-5\" names no provider"),
        ("nul", b"name: \0\n", ":1:1: this is not valid YAML (control characters are not allowed): remove"),
        ("tab", b"name: tab\n\tmodel: practice\n", ":2:1: this is not valid YAML"),
        (
            "tool",
            b"name: t\nmodel: practice\ninstruction: x\ntools:\n- name: hammer\n",
            ":5:9: there is no tool `hammer`",
        ),
        ("twice", b"name: t\nname: t\n", ":2:1: duplicate key `name`"),
        ("types", b"name: t\nmodel: [practice]\n", ":2:8: `model` must be text"),
    ];
    for (app, text, _) in cases {
        world.write_agent(app, text);
    }
    let report = world.scan().await;
    assert_eq!((report.loaded, report.refused.len()), (vec!["good".to_owned()], cases.len()));
    for (app, _, words) in cases {
        let why = world.why(app);
        assert!(why.starts_with(&format!("{app}/root_agent.yaml{words}")), "{app}: {why}");
    }
    world.agent("good");
}

#[tokio::test]
async fn what_looks_like_an_agent_but_is_not_is_reported_once() {
    let mut world = World::new();
    world.write("yml/root_agent.yml", practice(""));
    world.write("python/agent.py", "root_agent = None\n");
    world.write("docs/README.md", "nothing to see");
    world.write("root_agent.yaml", practice(""));
    world.write(".hidden/root_agent.yaml", practice(""));
    world.write("a\nb/root_agent.yaml", practice(""));
    let report = world.scan().await;
    let notes = report.notes.join("\n");
    for words in [
        "yml/root_agent.yml is ignored: rename it to root_agent.yaml",
        "python has no root_agent.yaml: Andon does not run Python agents",
        "root_agent.yaml is not in its own folder",
        "the folder \"a\\nb\" is not an app",
        "there are no agents in",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    assert_eq!((report.notes.len(), world.apps.all().len()), (5, 0), "{notes}");
    assert_eq!(world.scan().await, Report::default());
}

#[tokio::test]
async fn links_are_followed_and_one_that_leads_nowhere_is_refused() {
    use std::os::unix::fs::symlink;
    let mut world = World::new();
    let elsewhere = World::new();
    elsewhere.write_agent("shop", practice(""));
    symlink(elsewhere.path("shop"), world.path("linked_folder")).unwrap();
    std::fs::create_dir(world.path("linked_file")).unwrap();
    symlink(elsewhere.path("shop/root_agent.yaml"), world.path("linked_file/root_agent.yaml")).unwrap();
    std::fs::create_dir(world.path("dangling")).unwrap();
    symlink("/nowhere/at/all", world.path("dangling/root_agent.yaml")).unwrap();
    std::fs::create_dir_all(world.path("folder/root_agent.yaml")).unwrap();
    assert_eq!(world.scan().await.loaded, ["linked_file", "linked_folder"]);
    assert!(world.why("dangling").contains("this link leads nowhere"));
    assert!(world.why("folder").contains("this is not a file"));
    elsewhere.write_agent("shop", practice("description: New.\n"));
    assert_eq!(world.scan().await.changed, ["linked_file", "linked_folder"]);
}

#[tokio::test]
async fn an_agent_gets_no_folder_in_which_it_could_rewrite_agents() {
    let mut world = World::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(world.path("shop/files")).unwrap();
    std::os::unix::fs::symlink(world.dir.path(), world.path("shop/link")).unwrap();
    let outside = outside.path().to_str().unwrap();
    let cases = [
        (".", false),
        ("..", false),
        ("/", false),
        ("../other", false),
        ("link", false),
        ("files", true),
        (outside, true),
    ];
    std::fs::create_dir_all(world.path("other")).unwrap();
    for (folder, is_fine) in cases {
        world.write_agent("shop", practice(&format!("tools:\n- name: write_file\n  args: {{folder: {folder}}}\n")));
        let report = world.scan().await;
        let refused = report.refused.first().map(|refused| refused.why.clone()).unwrap_or_default();
        let expected = "shop/root_agent.yaml:6:18: in this folder the agent could rewrite agents";
        assert_eq!(refused.starts_with(expected), !is_fine, "{folder}: {refused}");
    }
}

#[tokio::test]
async fn placeholders_are_noted_with_their_line() {
    let mut world = World::new();
    world.write_agent("shop", "name: shop\nmodel: practice\ninstruction: Sell {thing}.\n");
    let report = world.scan().await;
    assert_eq!(report.loaded, ["shop"]);
    assert!(report.notes[0].starts_with("shop/root_agent.yaml:3:14: `{thing}` in `instruction` is sent"), "{report:?}");
}

#[tokio::test]
async fn a_second_tool_with_the_same_name_is_refused_at_its_entry() {
    let mut world = World::new();
    world.write_agent("shop", practice("tools:\n- name: shell\n- name: http_get\n- name: shell\n"));
    world.scan().await;
    assert!(world.why("shop").starts_with("shop/root_agent.yaml:7:3: there is already a tool `shell`"));
}
