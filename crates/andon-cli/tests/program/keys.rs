//! `andon keys`, and a server that asks for them.

use std::os::unix::fs::PermissionsExt as _;

use crate::child::*;
use crate::served::Served;

/// Runs a command on a server with a key in the variable.
fn with_key(served: &Served, key: &str, args: &[&str]) -> crate::child::Ended {
    let args = [args, &["--server", &served.address]].concat();
    Program::start_in("memory", &[("ANDON_KEY", key)], &args).end()
}

#[test]
fn a_server_that_asks_for_keys_serves_whoever_can_read_its_database_and_others_with_a_key() {
    let served = Served::with(&["--auth", "--instant"]);
    // Whoever can read the database needs no key.
    served.run(&["run", "--json", "hello"]);
    assert!(served.run(&["line", "status"]).stdout.contains("The line is open"));
    let scopes = ["--scope", "run:create", "--scope", "run:read"];
    let made = served.run(&[&["keys", "create", "ada", "--expires", "30d"][..], &scopes].concat());
    let key = made.stdout.trim();
    assert!(key.starts_with("andon_") && !key.contains(char::is_whitespace), "{key}");
    assert!(!made.stderr.contains(key) && made.stderr.contains("shown only once"), "{}", made.stderr);

    let none = with_key(&served, "", &["runs"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("ANDON_KEY") && none.stderr.contains("--key-file"), "{}", none.stderr);
    let ran = with_key(&served, key, &["run", "hello"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let listed = with_key(&served, key, &["runs", "--json"]).json().remove(0);
    assert_eq!(listed["user"], json!("ada"), "{listed}");
    let refused = with_key(&served, key, &["cancel", "--all"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("run:cancel"), "{}", refused.stderr);

    let file = served.db.file("key");
    std::fs::write(&file, format!("{key}\n")).unwrap();
    let by_file = Program::run(&["runs", "--server", &served.address, "--key-file", &file]);
    assert_eq!(by_file.code, Some(0), "{}", by_file.stderr);

    let list = served.run(&["keys", "list", "--json"]);
    let id = list.json().remove(0)["id"].as_str().unwrap().to_owned();
    assert!(!list.stdout.contains(key.splitn(3, '_').nth(2).unwrap()), "a secret is listed");
    assert!(served.run(&["keys", "revoke", &id]).stdout.contains("Revoked the"));
    assert_eq!(with_key(&served, key, &["runs"]).code, Some(1));
    assert!(served.run(&["keys", "list"]).stdout.contains("revoked"));
    assert!(served.db.refused(&["keys", "revoke", "none"]).contains("no such key"));
}

/// Checks P7 and P9.
#[test]
fn beside_the_database_the_users_key_is_used_and_named_or_else_the_owners() {
    let served = Served::with(&["--auth"]);
    let run = served.detach(&["--user", "bob"], "tell me a long story");
    let scopes = ["--scope", "run:create", "--scope", "run:read", "--scope", "run:cancel"];
    let made = served.run(&[&["keys", "create", "me", "--json"][..], &scopes].concat()).json().remove(0);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let beside = |args: &[&str]| Program::start_in(served.db.file("andon.db"), &[("ANDON_KEY", key)], args).end();
    let told = beside(&["cancel", "--all"]);
    let said = format!(
        "Nothing was stopped: looked for all of me's runs, but found none in progress. No other run that you can reach was in \
         progress.\n\
         This used key {id} of me (from ANDON_KEY), which can reach all of me's runs; without ANDON_KEY, the owner's key \
         beside the database is used, which can reach everything.\n"
    );
    assert_eq!((told.code, told.stdout), (Some(0), said), "{}", told.stderr);
    let json = beside(&["cancel", "--all", "--json"]).json().remove(0);
    assert_eq!(json["asked_by"], json!({"name": "me", "key": id, "reach": "all of me's runs"}), "{json}");
    for refused in [&["line", "hold"][..], &["cancel", &run]] {
        let refused = beside(refused);
        assert_eq!(refused.code, Some(1), "{}", refused.stdout);
        assert!(
            refused.stderr.contains("without ANDON_KEY, the owner's key beside the database"),
            "{}",
            refused.stderr
        );
    }
    let told = with_key(&served, key, &["cancel", "--all"]).stdout;
    assert!(told.contains(&format!("This used key {id} of me")) && !told.contains("the owner's key"), "{told}");
    let told = served.run(&["cancel", "--all", "--wait"]).stdout;
    assert!(told.contains(&run) && told.contains("Looked for everything on this server."), "{told}");
}

/// Checks P7.
#[test]
fn the_key_in_the_greeting_can_do_everything_that_the_greeting_shows() {
    let db = Database::new();
    let mut program = db.start(&["serve", "--bind", "127.0.0.1:0", "--auth"]);
    program.wait_for("Ctrl-C shuts the server down");
    let lines: Vec<&str> = program.seen.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let export = lines.iter().find(|line| line.starts_with("export ANDON_KEY=")).unwrap();
    db.run(&["run", "--detach", "--user", "bob", "tell me a long story"]);
    let hold = lines.iter().find(|line| line.contains("line hold")).unwrap();
    let cancel = hold.replace("line hold", "cancel --all --wait");
    let open = hold.replace("line hold", "line open");
    let script = [*export, hold, &cancel, &open].join(" && ");
    let ended = std::process::Command::new("sh").args(["-c", &script]).env_remove("ANDON_KEY").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said} {}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains("1 run cancelled, all settled") && said.contains("everything on this server"), "{said}");
}

#[test]
fn only_the_owner_of_the_database_can_read_the_key_beside_it() {
    let served = Served::with(&["--auth"]);
    let beside = format!("{}.owner", served.db.file("andon.db"));
    let mode = std::fs::metadata(&beside).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(std::fs::read_to_string(&beside).unwrap().contains("andon_local_"));
    let held = served.db.refused(&["serve", "--bind", "127.0.0.1:0"]);
    assert!(!held.contains("andon_local_"), "{held}");
}

#[test]
fn a_key_that_is_created_without_a_server_works_when_one_is_started() {
    let db = Database::new();
    assert!(db.run(&["keys", "list"]).stdout.contains("There are no keys"));
    let made = db.run(&["keys", "create", "ops", "--scope", "admin", "--json"]).json().remove(0);
    let key = made["key"].as_str().unwrap();
    assert_eq!((&made["name"], &made["scopes"]), (&json!("ops"), &json!(["admin"])));
    let mut program = db.start(&["serve", "--bind", "127.0.0.1:0", "--auth"]);
    program.wait_for("Ctrl-C shuts the server down");
    assert!(
        program.seen.contains("The server asks for a key") && program.seen.contains("keys create me"),
        "{}",
        program.seen
    );
    let url = program.seen.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let url = url.trim_end_matches(',').to_owned();
    let line = Program::start_in("memory", &[("ANDON_KEY", key)], &["line", "hold", "--server", &url]).end();
    assert!(line.stdout.contains("by ops"), "{} {}", line.stdout, line.stderr);
}

#[test]
fn a_bad_key_is_refused_with_what_to_do() {
    let db = Database::new();
    for (args, why) in [
        (&["keys", "create", "ada"][..], "--scope"),
        (&["keys", "create", "ada", "--scope", "fly"], "choose from run:create"),
        (&["keys", "create", "ada", "--scope", "admin", "--expires", "0s"], "more than zero"),
    ] {
        let ended = db.start(args).end();
        assert!(ended.code == Some(2) && ended.stderr.contains(why), "{}", ended.stderr);
    }
    assert!(db.refused(&["keys", "create", "a/b", "--scope", "admin"]).contains("name"));
    assert!(db.run(&["keys", "list"]).stdout.contains("There are no keys"));
}
