//! What a process prints.
//!
//! If one of these fails, a user loses output, or the host its memory.

use std::os::unix::process::CommandExt;

use andon_tools::process::Stdin;

use crate::world::*;

tests![
    both_outputs_are_read_at_once,
    merged_outputs_keep_their_order,
    a_gigabyte_is_read_and_little_of_it_is_kept,
    non_utf8_output_is_kept_in_a_form_that_can_be_read_back,
    text_for_it_to_read_arrives_and_then_ends,
    a_process_that_closes_its_outputs_can_still_read,
    a_process_that_does_not_read_its_text_is_not_an_error,
    it_reads_nothing_unless_it_is_given_something,
    a_process_that_keeps_the_pipe_open_does_not_hold_up_the_call,
];

fn both_outputs_are_read_at_once() {
    // One output gets more than a pipe holds before the other is written: reading one after the other would wait forever.
    let script = "head -c 300000 /dev/zero | tr '\\0' e >&2; echo out; head -c 300000 /dev/zero | tr '\\0' f >&2";
    let (finished, _) = block_on(run(sh(script, Token::new()).max_output(1_000_000)));
    assert_eq!(finished.stdout.into_text(), "out\n");
    assert_eq!(finished.stderr.into_text(), "e".repeat(300_000) + &"f".repeat(300_000));
}

fn merged_outputs_keep_their_order() {
    let script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done";
    let (finished, _) = block_on(run(sh(script, Token::new()).merge_outputs()));
    let want: String = (1..=5).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(finished.stdout.into_text(), want);
}

fn a_gigabyte_is_read_and_little_of_it_is_kept() {
    let token = Token::new();
    let script = "echo first; head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo last";
    let before = andon_testkit::bench::memory();
    let (finished, remains) = block_on(run(sh(script, token).max_output(10_000)));
    assert_eq!(finished.status, Some(Status::Code(0)));
    assert!(remains.is_none());
    assert_eq!(finished.stdout.dropped, 1_073_741_824 + 12 - 10_000);
    let text = finished.stdout.into_text();
    assert!(text.starts_with("first\nxxx") && text.ends_with("xxx\nlast\n"));
    assert!(text.contains("\n[1073731836 bytes of output left out here]\n"));
    let grown = andon_testkit::bench::memory().saturating_sub(before);
    assert!(grown < 50_000_000, "the host grew by {grown} bytes");
}

fn non_utf8_output_is_kept_in_a_form_that_can_be_read_back() {
    block_on(async {
        let mut shown = String::new();
        let tree = Tree::new();
        // The euro sign comes in two pieces.
        let command = sh(r"printf 'a\377\\b\342'; sleep 0.1; printf '\202\254'", Token::new());
        let finished = command.run(&tree, &never(), |text| shown.push_str(text)).await.unwrap();
        assert_eq!(finished.stdout.head, b"a\xff\\b\xe2\x82\xac");
        assert!(finished.stdout.into_text().starts_with("a\\xff\\\\b€\n[not all of this is UTF-8"));
        assert_eq!(shown, "a\\xff\\b€");
        tree.end().await;
    });
}

fn text_for_it_to_read_arrives_and_then_ends() {
    let text = "zeile\n".repeat(50_000);
    let command = sh("wc -c; cat", Token::new()).stdin(Stdin::Text(text.clone().into_bytes()));
    let (finished, _) = block_on(run(command));
    assert_eq!(finished.stdout.into_text().trim(), text.len().to_string());
}

fn a_process_that_closes_its_outputs_can_still_read() {
    // More than a pipe holds, and the process reads it only after it has closed its outputs.
    let folder = tempfile::tempdir().unwrap();
    let script = "exec > file 2>&1; sleep 0.1; exec cat";
    let command = sh(script, Token::new()).cwd(folder.path()).stdin(Stdin::Text(vec![b'x'; 1_000_000]));
    let (finished, _) = block_on(async { tokio::time::timeout(Duration::from_secs(60), run(command)).await })
        .expect("the call hangs forever");
    assert_eq!(finished.status, Some(Status::Code(0)));
    assert_eq!(std::fs::metadata(folder.path().join("file")).unwrap().len(), 1_000_000);
}

fn a_process_that_does_not_read_its_text_is_not_an_error() {
    let command = sh("exec <&-; echo done", Token::new()).stdin(Stdin::Text(vec![b'x'; 1_000_000]));
    let (finished, _) = block_on(run(command));
    assert_eq!((finished.status, finished.stdout.into_text().as_str()), (Some(Status::Code(0)), "done\n"));
}

fn it_reads_nothing_unless_it_is_given_something() {
    let (finished, _) = block_on(run(Command::new("cat")));
    assert_eq!((finished.status, finished.stdout.into_text().as_str()), (Some(Status::Code(0)), ""));
}

fn a_process_that_keeps_the_pipe_open_does_not_hold_up_the_call() {
    with_tree(async |token, tree| {
        // A process outside the tree opens the tool's output, as a debugger or a daemon could, and never closes it.
        let mut holder = None;
        let finished = sh(r#"echo up; sleep 0.3"#, token)
            .run(&tree, &never(), |_| {
                let tool = token.processes().into_iter().find(|one| one.name == "sh").unwrap();
                let pipe = std::fs::OpenOptions::new().write(true).open(format!("/proc/{}/fd/1", tool.pid)).unwrap();
                let mut command = std::process::Command::new("sleep");
                holder = Some(command.arg0("sleep").arg("3600").stdout(pipe).spawn().unwrap());
            })
            .await
            .unwrap();
        let mut holder = holder.unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!((finished.status, finished.stdout.into_text().as_str()), (Some(Status::Code(0)), "up\n"));
        assert!(tree.end().await.is_none());
    });
}
