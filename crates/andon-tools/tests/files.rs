//! The file tools in an agent: what they refuse, and what is left when a write is cut.
//!
//! If one of these fails, a user loses files outside the folder, or half a file.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

use std::os::unix::fs::symlink;
use std::path::Path;

use andon_runtime::core::message::ResultStatus;
use andon_runtime::{Agent, Content, Effect, Part, Tool};
use andon_testkit::model::{Act, ScriptedModel};
use andon_tools::{ReadFile, WriteFile};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The result of a call with this input.
async fn ask(root: &Path, tool: &str, input: Value) -> (ResultStatus, String) {
    let call = [Act::call(0, "call-1", tool, &input.to_string()), vec![Act::tool_use()]].concat();
    let model = ScriptedModel::new([call, vec![Act::text("Done."), Act::end()]]);
    let session = Agent::builder()
        .model(model)
        .tool(ReadFile::new(root))
        .tool(WriteFile::new(root))
        .build()
        .unwrap()
        .new_session("ada")
        .unwrap();
    session.run("go").await.unwrap();
    let history = session.history().await.unwrap();
    let mut results = history.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    });
    let result = results.next_back().unwrap();
    match result.content.as_slice() {
        [Content::Text { text }] => (result.status, text.clone()),
        other => panic!("{other:?}"),
    }
}

/// A folder to work in, a secret file beside it, and links of every kind that lead out of the folder.
fn world() -> (TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(outer.path().join("secret"), "secret").unwrap();
    std::fs::write(root.join("sub/file"), "one\ntwo\n").unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink(outer.path().join("secret"), root.join("absolute")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("sub", root.join("within")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    (outer, root)
}

#[tokio::test]
async fn a_file_is_read_whole_or_some_of_its_lines() {
    let (_outer, root) = world();
    assert_eq!(ask(&root, "read_file", json!({"path": "sub/file"})).await, (ResultStatus::Ok, "one\ntwo\n".into()));
    let part = ask(&root, "read_file", json!({"path": "within/file", "offset": 2, "limit": 1})).await;
    assert_eq!(part, (ResultStatus::Ok, "two\n".into()));
}

#[tokio::test]
async fn no_path_leads_out_of_the_folder() {
    let (outer, root) = world();
    let secret = outer.path().join("secret");
    let ways = ["../secret", "sub/../../secret", "out", "absolute", "up/secret", "loop", secret.to_str().unwrap()];
    for path in ways {
        let (status, text) = ask(&root, "read_file", json!({"path": path})).await;
        assert_eq!(status, ResultStatus::Error, "{path}: {text}");
        assert!(text.contains("is refused") || text.contains("is a link"), "{path}: {text}");
        let (status, text) = ask(&root, "write_file", json!({"path": path, "content": "gone"})).await;
        assert_eq!(status, ResultStatus::Error, "{path}: {text}");
    }
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "secret");
    assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 2, "nothing was made outside");
}

#[tokio::test]
async fn what_is_not_a_file_is_refused_at_once() {
    let (_outer, root) = world();
    let made = std::process::Command::new("mkfifo").arg(root.join("fifo")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    for (path, what) in [("sub", "a folder"), ("fifo", "a FIFO"), ("socket", "a socket")] {
        for (tool, input) in
            [("read_file", json!({"path": path})), ("write_file", json!({"path": path, "content": "x"}))]
        {
            let want = format!("`{path}` is {what}, not a file");
            assert_eq!(ask(&root, tool, input).await, (ResultStatus::Error, want), "{tool}");
        }
    }
    let missing = ask(&root, "read_file", json!({"path": "nothing/here"})).await;
    assert_eq!(missing, (ResultStatus::Error, "there is no file `nothing/here`".into()));
    let (status, _) = ask(Path::new("/dev"), "read_file", json!({"path": "null"})).await;
    assert_eq!(status, ResultStatus::Error);
}

#[tokio::test]
async fn bytes_that_are_not_text_can_be_read_too() {
    let (_outer, root) = world();
    std::fs::write(root.join("bytes"), b"a\\\xff\x00b\n").unwrap();
    let (_, text) = ask(&root, "read_file", json!({"path": "bytes"})).await;
    assert!(text.starts_with("a\\\\\\xff\0b\n"), "{text:?}");
    assert!(text.contains("not all of this is UTF-8"));
}

#[tokio::test]
async fn a_file_is_written_and_its_folders_are_created() {
    let (_outer, root) = world();
    let done = ask(&root, "write_file", json!({"path": "new/deep/file", "content": "häl"})).await;
    assert_eq!(done, (ResultStatus::Ok, "wrote 4 bytes to the new file `new/deep/file`".into()));
    let done = ask(&root, "write_file", json!({"path": "new/deep/file", "content": "lo", "append": true})).await;
    assert_eq!(done, (ResultStatus::Ok, "added 2 bytes to the end of `new/deep/file`".into()));
    assert_eq!(std::fs::read_to_string(root.join("new/deep/file")).unwrap(), "hällo");
}

#[test]
fn a_reader_sees_the_old_file_or_the_new_one() {
    let (_outer, root) = world();
    let file = root.join("big");
    let texts = ["a".repeat(200_000), "b".repeat(400_000)];
    std::fs::write(&file, &texts[0]).unwrap();
    let writer = std::thread::spawn({
        let (root, texts) = (root.clone(), texts.clone());
        move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            for number in 1..20 {
                let input = json!({"path": "big", "content": texts[number % 2]});
                assert_eq!(runtime.block_on(ask(&root, "write_file", input)).0, ResultStatus::Ok);
            }
        }
    });
    let mut looks = 0;
    while !writer.is_finished() {
        let seen = std::fs::read_to_string(&file).unwrap();
        assert!(texts.contains(&seen), "half a file: {} bytes", seen.len());
        looks += 1;
    }
    writer.join().unwrap();
    assert!(looks > 10, "{looks} looks are not enough to say anything");
}

#[test]
fn the_effect_of_each_tool_is_declared() {
    assert_eq!(ReadFile::new("/").spec().effect, Effect::ReadOnly);
    assert_eq!(WriteFile::new("/").spec().effect, Effect::Effect, "adding twice is not adding once");
    assert_eq!(WriteFile::new("/").without_append().spec().effect, Effect::Idempotent);
}
