//! A command that cannot be started is refused with the reason; one that is started sees only what it should.
//!
//! If one of these fails, a secret leaks, or nobody learns why nothing happens.

use andon_tools::process::Stdin;

use crate::roles;
use crate::world::*;

tests![
    a_command_that_does_not_exist_is_named,
    a_file_that_is_not_a_program_is_named,
    a_folder_that_does_not_exist_is_named,
    a_folder_that_is_a_file_is_named,
    a_nul_byte_is_refused,
    a_long_argument_arrives_whole,
    an_argument_that_is_too_long_is_refused,
    non_utf8_arguments_arrive_unchanged,
    a_process_starts_in_its_folder,
    an_exit_by_signal_differs_from_an_exit_code,
    only_the_named_variables_of_the_host_are_passed_on,
    a_logged_command_reveals_no_value_and_no_text,
    a_tool_has_the_signals_and_descriptors_of_a_fresh_process,
    a_tool_gets_signals_that_its_host_ignores,
    a_tool_leads_its_own_session,
    a_shims_arguments_on_the_command_line_do_nothing,
    a_helper_can_be_named_instead,
    a_helper_that_is_not_a_shim_is_refused,
    a_helper_that_hangs_is_ended,
];

fn error(command: &Command) -> String {
    block_on(async {
        let tree = Tree::new();
        let error = command.run(&tree, &never(), |_| {}).await.unwrap_err();
        assert!(tree.end().await.is_none());
        assert_eq!(shims(), []);
        error.to_string()
    })
}

fn a_command_that_does_not_exist_is_named() {
    let want =
        "there is no command `no-such-command` (or the interpreter that its first line names): check its name and PATH";
    assert_eq!(error(&Command::new("no-such-command")), want);
}

fn a_file_that_is_not_a_program_is_named() {
    let want = "`/etc/passwd` may not be executed: check that it is a program and its permissions";
    assert_eq!(error(&Command::new("/etc/passwd")), want);
}

fn a_folder_that_does_not_exist_is_named() {
    let want = "the working folder `/no/such/folder` does not exist: create it, or name another";
    assert_eq!(error(&Command::new("true").cwd("/no/such/folder")), want);
}

fn a_folder_that_is_a_file_is_named() {
    let want = "the working folder `/etc/passwd` is not a folder: name one";
    assert_eq!(error(&Command::new("true").cwd("/etc/passwd")), want);
}

fn a_nul_byte_is_refused() {
    assert!(error(&Command::new("echo").arg("a\0b")).contains("contains a NUL byte"));
}

fn a_long_argument_arrives_whole() {
    // Longer than the socket to the shim holds at once.
    let long = "x".repeat(100_000);
    let command = (0..5).fold(Command::new("printf").arg("%s"), |command, _| command.arg(&long)).max_output(1_000_000);
    let (finished, _) = block_on(run(command));
    assert_eq!(finished.stdout.into_text().len(), 500_000);
}

fn an_argument_that_is_too_long_is_refused() {
    let want = "the arguments of `true` are longer than the system allows: put them into a file";
    // Linux refuses an argument of 128 KiB or more.
    assert_eq!(error(&Command::new("true").arg("x".repeat(200_000))), want);
}

fn non_utf8_arguments_arrive_unchanged() {
    use std::os::unix::ffi::OsStringExt;
    let strange = std::ffi::OsString::from_vec(b"a\xff\n\xfe".to_vec());
    let (finished, _) = block_on(run(Command::new("printf").arg("%s").arg(strange)));
    assert_eq!(finished.stdout.head, b"a\xff\n\xfe");
}

fn a_process_starts_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (finished, _) = block_on(run(Command::new("pwd").cwd(&folder)));
    assert_eq!(finished.stdout.into_text().trim_end(), folder.to_str().unwrap());
}

fn an_exit_by_signal_differs_from_an_exit_code() {
    for (script, want) in [
        ("exit 0", Status::Code(0)),
        ("exit 42", Status::Code(42)),
        ("kill -SEGV $$", Status::Signal(11)),
        ("kill -KILL $$", Status::Signal(9)),
    ] {
        let (finished, _) = block_on(run(sh(script, Token::new())));
        assert_eq!((finished.status, finished.stopped), (Some(want), false), "{script}");
    }
}

fn only_the_named_variables_of_the_host_are_passed_on() {
    let host = roles::host("environment", Token::new()).env("OPENAI_API_KEY", "canary").env("NAMED", "passes").output();
    let said = String::from_utf8(host.unwrap().stdout).unwrap();
    assert!(said.contains("NAMED=passes"), "{said}");
    assert!(said.contains("SET=by hand"), "{said}");
    assert!(said.contains("PATH="), "{said}");
    assert!(said.contains("the shim's environment: 0 bytes"), "{said}");
    assert!(!said.contains("canary"), "{said}");
}

fn a_logged_command_reveals_no_value_and_no_text() {
    let command = Command::new("env").env("TOKEN", "canary").stdin(Stdin::Text(b"canary".to_vec()));
    let shell = andon_tools::Shell::new().env("TOKEN", "canary");
    let config = andon_shim::Config { env: vec![("TOKEN".into(), "canary".into())], ..Default::default() };
    for shown in [format!("{command:?}"), format!("{shell:#?}"), format!("{config:?}")] {
        assert!(shown.contains("TOKEN") && shown.contains("6 bytes"), "{shown}");
        assert!(!shown.contains("canary") && !shown.contains("99, 97, 110"), "{shown}");
    }
}

fn a_tool_has_the_signals_and_descriptors_of_a_fresh_process() {
    let (finished, _) = block_on(run(Command::new("cat").arg("/proc/self/status")));
    let text = finished.stdout.into_text();
    assert_eq!((signals(&text, "SigBlk"), signals(&text, "SigIgn")), (0, 0), "{text}");
    // Even if the host, or whoever started it, has left one open for its children.
    let secret = std::fs::File::open("/proc/self/environ").unwrap();
    let left_open = rustix::io::dup(&secret).unwrap();
    let (finished, _) = block_on(run(Command::new("ls").arg("/proc/self/fd")));
    drop(left_open);
    // The last one belongs to `ls` itself.
    assert_eq!(finished.stdout.into_text(), "0\n1\n2\n3\n");
}

/// The named signals in a line of a process's status.
fn signals(status: &str, kind: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(kind)).unwrap();
    u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap() & 0x7fff_ffff
}

fn a_tool_gets_signals_that_its_host_ignores() {
    let host = roles::host("signals", Token::new());
    let mut shell = std::process::Command::new("sh");
    // Like `nohup` and a shell's background, and more.
    shell
        .args(["-c", r#"trap "" HUP INT QUIT TERM USR1; exec "$@""#, "sh"])
        .arg(host.get_program())
        .args(host.get_args());
    let said = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    assert_eq!((signals(&said, "SigBlk"), signals(&said, "SigIgn")), (0, 0), "{said}");
}

fn a_tool_leads_its_own_session() {
    let (finished, _) = block_on(run(sh("cat /proc/$$/stat", Token::new())));
    let text = finished.stdout.into_text();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let pid = text.split(' ').next().unwrap();
    assert_eq!((fields[2], fields[3]), (pid, pid), "group and session are its own: {text}");
}

fn a_shims_arguments_on_the_command_line_do_nothing() {
    use std::os::unix::process::CommandExt;
    let itself = std::env::current_exe().unwrap();
    let own = std::process::id().to_string();
    // A person could type them, or another program could pass them: the program runs as it would without them.
    let mut command = std::process::Command::new(itself);
    command.arg0(andon_shim::SHIM).args([andon_shim::SHIM, &own]).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("0 passed, 0 failed"), "it did not run as itself: {said}");
}

fn a_helper_can_be_named_instead() {
    let token = Token::new();
    let host = roles::host("helper", token).output().unwrap();
    let said = String::from_utf8_lossy(&host.stdout).into_owned();
    assert!(said.contains("leaked: [] notes: []"), "{said}");
    token.assert_none_lives(&[]);
}

fn a_helper_that_is_not_a_shim_is_refused() {
    let host = roles::host("no helper", Token::new()).output().unwrap();
    let said = String::from_utf8_lossy(&host.stdout).into_owned();
    assert!(said.contains("the shim `/no/such/helper` cannot be executed (No such file"), "{said}");
    assert!(said.contains("the shim ended before it started the process"), "{said}");
}

fn a_helper_that_hangs_is_ended() {
    use std::os::unix::fs::PermissionsExt;
    let token = Token::new();
    let folder = tempfile::tempdir().unwrap();
    let helper = folder.path().join("helper");
    // It neither reads nor writes, and ignores signals. The shell waits, so there are two processes.
    std::fs::write(&helper, format!("#!/bin/sh\ntrap '' TERM HUP\nsleep {token}\nexit\n")).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let host = roles::host("a helper that hangs", token).env("HELPER", &helper).output().unwrap();
    let said = String::from_utf8_lossy(&host.stdout).into_owned();
    token.assert_none_lives(&[]);
    let took = |what: &str| -> u128 {
        let line = said.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_else(|| panic!("{what}: {said}"));
        line.trim().parse().unwrap()
    };
    // The grace is 300 ms, and a start fails after ten seconds: neither a stop nor an end waits for that.
    assert!(took("a stop took") < 10_000, "{said}");
    assert!(took("the end of five together took") < 10_000, "{said}");
    assert!(took("a start was given up after") >= 10_000, "{said}");
    assert!(said.contains("the shim ended before it started the process, or never answered"), "{said}");
}
