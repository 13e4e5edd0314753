//! `andon serve`: what it prints, what it serves, and how it ends.

use std::net::TcpStream;

use andon_store::SqliteJournal;

use crate::child::without_settings;
use crate::child::*;
use crate::server::Served;

/// What a run's receipt says when its server is gone.
fn receipt(db: &Database, run: &str) -> Value {
    db.run(&["receipt", run, "--json"]).json().remove(0)
}

fn commands_printed(served: &Served) -> Vec<String> {
    let lines = served.program.seen.lines();
    lines.filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
}

#[test]
fn andon_alone_serves_and_what_it_prints_can_be_pasted() {
    let db = Database::new();
    let served = Served::of(db.start(&["--bind", "127.0.0.1:0"]));
    let lines = commands_printed(&served);
    let [start, stop, others @ ..] = lines.as_slice() else { panic!("{lines:?}") };
    let paste = |line: &str| {
        let mut shell = Command::new("sh");
        // The server is on this machine, so no proxy is needed.
        without_settings(&mut shell).args(["-c", line]).env("no_proxy", "*").env("XDG_DATA_HOME", "/nonexistent");
        shell.current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
        shell
    };
    let mut watching = paste(start).stdout(Stdio::piped()).spawn().unwrap();
    let mut feed = watching.stdout.take().unwrap();
    let (mut seen, mut buffer) = (String::new(), [0; 4096]);
    while !seen.contains("\"text\"") {
        let length = feed.read(&mut buffer).unwrap();
        assert!(length > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    let stopped = paste(stop).output().unwrap();
    let stopped: Value = serde_json::from_slice(&stopped.stdout).unwrap();
    assert_eq!(stopped["cancelled"], 1, "{stopped}");
    feed.read_to_string(&mut seen).unwrap();
    assert!(watching.wait().unwrap().success());
    assert!(seen.contains("run_settled") && seen.contains("requested"), "{seen}");

    let ends = |line: &str| line.split(" --").next().unwrap().rsplit(" andon ").next().unwrap().to_owned();
    let words: Vec<String> = others.iter().map(|line| ends(line)).collect();
    let program = env!("CARGO_BIN_EXE_andon");
    let expected = ["chat", "runs", "line hold", "line open"].map(|words| format!("{program} {words}"));
    assert_eq!(words, expected);
    for line in others {
        let ended = paste(line).output().unwrap();
        assert!(ended.status.success(), "{line}: {}", String::from_utf8_lossy(&ended.stdout));
    }
    assert_eq!(served.get("/openapi.json").0, 200);
    served.program.interrupt();
    assert_eq!(served.program.end_without_closing().code, Some(0));
}

#[test]
fn a_server_can_keep_everything_in_memory() {
    let served = Served::of(Program::start(&["--bind", "127.0.0.1:0", "--instant"]));
    assert!(commands_printed(&served).iter().any(|line| line.ends_with(&format!("chat --server {}", served.url))));
    let run = served.run("roll 3 dice");
    served.wait_for(&run, "run_settled");
    let ended = served.terminate();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("Shutting down: no run is in progress."), "{}", ended.stdout);
}

#[test]
fn a_port_in_use_is_an_error_that_suggests_another_one() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    let address = served.url.strip_prefix("http://").unwrap();
    let ended = Program::run(&["serve", "--bind", address]);
    let (host, port) = address.rsplit_once(':').unwrap();
    let next = format!("--bind {host}:{}", port.parse::<u16>().unwrap().checked_add(1).unwrap_or(0));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("is in use by another program") && ended.stderr.contains(&next), "{}", ended.stderr);
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let ended = Program::run(&["--bind", address]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        for words in ["can be reached from other machines", "--auth"] {
            assert!(ended.stderr.contains(words), "{}", ended.stderr);
        }
    }
}

#[test]
fn the_address_is_beside_the_database_while_the_server_runs() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    let owner = SqliteJournal::owner(db.file("andon.db")).unwrap();
    assert_eq!((owner.program.as_str(), owner.address.as_deref()), ("andon serve", Some(served.url.as_str())));
    let why = db.refused(&["serve", "--bind", "127.0.0.1:0"]);
    let holder = format!("process {} (andon serve", served.program.id());
    for words in [&holder, &served.url, "--db PATH"] {
        assert!(why.contains(words), "{words} is not in {why}");
    }
    assert_eq!(served.terminate().code, Some(0));
    assert_eq!(SqliteJournal::owner(db.file("andon.db")), None);
    assert!(!std::fs::read_to_string(db.file("andon.db.owner")).unwrap().contains("http"));
}

#[test]
fn a_run_that_ends_within_the_drain_completes_and_no_new_run_starts() {
    let db = Database::new();
    let mut served = Served::start(&db, &["--drain", "1h"]);
    let run = served.run("count slowly to 1000");
    let seen = served.wait_for(&run, "tool_started");
    let call = seen.split('"').find(|word| word.starts_with("call-")).unwrap();
    served.program.signal(Signal::TERM);
    served.program.wait_for("Shutting down: 1 run is in progress and has 1h to finish.");
    let (status, problem) = served.post("/v1/runs", &json!({ "app": "practice", "input": "hello" }));
    assert_eq!((status, &problem["status"]), (503, &json!(503)), "{problem}");
    // The run ends only after its slow call is cancelled here, however slow the machine is.
    let (status, told) = served.post(&format!("/v1/runs/{run}/calls/{call}/cancel"), &json!({}));
    assert!((200..300).contains(&status), "{status} {told}");
    let ended = served.program.end_without_closing();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(receipt(&db, &run)["outcome"]["kind"], "completed");
}

#[test]
fn a_run_that_outlasts_the_drain_is_cancelled_with_reason_shutdown() {
    let db = Database::new();
    let served = Served::start(&db, &["--drain", "50ms"]);
    let run = served.run("tell me a long story");
    served.wait_for(&run, "\"text\"");
    let ended = served.terminate();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("Shut down: all runs have settled, and 1 run was stopped."), "{}", ended.stdout);
    let receipt = receipt(&db, &run);
    assert_eq!(receipt["outcome"], json!({ "kind": "cancelled", "reason": "shutdown" }));
}

#[test]
fn a_second_signal_stops_runs_now() {
    let db = Database::new();
    let mut served = Served::start(&db, &["--drain", "1h"]);
    let run = served.run("count stubbornly to 1000");
    served.wait_for(&run, "tool_started");
    served.program.signal(Signal::TERM);
    served.program.wait_for("Shutting down: 1 run is in progress");
    served.program.interrupt();
    served.program.wait_for("Stopping all runs now.");
    let ended = served.program.end_without_closing();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("1 run was stopped"), "{}", ended.stdout);
    let receipt = receipt(&db, &run);
    assert_eq!((&receipt["outcome"]["reason"], &receipt["force"]), (&json!("shutdown"), &json!("now")));
}

/// The address of the server that holds a database, once it serves.
fn address(db: &Database) -> String {
    loop {
        if let Some(address) = SqliteJournal::owner(db.file("andon.db")).and_then(|owner| owner.address) {
            return address;
        }
        std::thread::yield_now();
    }
}

#[test]
fn signals_work_while_the_terminal_accepts_no_output() {
    let db = Database::new();
    let paused = db.start_paused(&["serve", "--bind", "127.0.0.1:0"]);
    address(&db);
    paused.signal(Signal::TERM);
    assert_eq!(paused.end(), Some(0));

    let paused = db.start_paused(&["serve", "--bind", "127.0.0.1:0", "--drain", "1h"]);
    let url = address(&db);
    let run = db.run(&["run", "--detach", "--server", &url, "count stubbornly to 1000"]).stdout;
    let run = run.trim().to_owned();
    let mut watch = db.start(&["watch", &run, "--json"]);
    watch.wait_for("\"type\":\"tool_started\"");
    paused.signal(Signal::TERM);
    // It has got the first signal when it accepts nothing more: two that come together count as one.
    while db.start(&["run", "--detach", "--server", &url, "hello"]).end().code == Some(0) {}
    paused.signal(Signal::TERM);
    assert_eq!(paused.end(), Some(0));
    let receipt = receipt(&db, &run);
    assert_eq!((&receipt["outcome"]["reason"], &receipt["force"]), (&json!("shutdown"), &json!("now")));
}

#[test]
fn a_third_signal_exits_at_once() {
    let served = Served::of(Program::start(&["--bind", "127.0.0.1:0", "--drain", "1h"]));
    // The shutdown waits a little for a request that never ends.
    let mut stream = TcpStream::connect(served.url.strip_prefix("http://").unwrap()).unwrap();
    let head =
        "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    let run = served.run("tell me a long story");
    served.wait_for(&run, "\"text\"");
    assert_eq!(served.program.interrupt_until_gone(), Some(130));
}

#[test]
fn runs_that_did_not_settle_in_time_are_named() {
    let db = Database::new();
    let served = Served::start(&db, &["--drain", "0s", "--settle", "100ms"]);
    let run = served.run("tell me a long story");
    served.wait_for(&run, "\"text\"");
    // A disk that accepts nothing more.
    let disk = rusqlite::Connection::open(db.file("andon.db")).unwrap();
    disk.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ended = served.terminate();
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    for words in [&format!("run {run} of session"), "1 run did not settle in time: the next start"] {
        assert!(ended.stderr.contains(words), "{words} is not in {}", ended.stderr);
    }
    drop(disk);
    let served = Served::start(&db, &[]);
    assert!(served.program.seen.contains("1 run that an earlier program left open has been settled"));
    assert_eq!(served.get(&format!("/v1/runs/{run}")).1["state"], "settled");
}

#[test]
fn a_killed_server_comes_back_with_the_line_held_and_its_run_settled() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    let run = served.run("tell me a long story");
    served.wait_for(&run, "\"text\"");
    let held = served.put("/v1/line", &json!({ "state": "held", "reason": "repairs" }));
    assert_eq!(held.0, 200, "{}", held.1);
    served.program.kill();
    assert_eq!(SqliteJournal::owner(db.file("andon.db")), None);

    let served = Served::start(&db, &[]);
    assert!(served.program.seen.contains("1 run that an earlier program left open has been settled: lost"));
    assert_eq!(served.get(&format!("/v1/runs/{run}")).1["outcome"]["kind"], "lost");
    let (_, line) = served.get("/v1/line");
    assert_eq!((&line["state"], &line["holds"][0]["reason"]), (&json!("held"), &json!("repairs")));
    let hello = json!({ "app": "practice", "input": "hello" });
    let (status, refused) = served.post("/v1/runs", &hello);
    assert!(status == 503 && refused["detail"].as_str().unwrap().contains("repairs"), "{refused}");
    assert_eq!(served.put("/v1/line", &json!({ "state": "open" })).0, 200);
    assert_eq!(served.post("/v1/runs", &hello).0, 201);
}

/// Writes an agent's file.
fn write_agent(db: &Database, app: &str, text: &str) {
    let folder = db.file(&format!("agents/{app}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(format!("{folder}/root_agent.yaml"), text).unwrap();
}

#[test]
fn it_serves_while_an_agents_mcp_server_does_not_answer_and_picks_up_changes() {
    let db = Database::new();
    let mute = "name: mute\nmodel: practice\ninstruction: Wait.\ntools:\n- name: McpToolset\n  args:\n    \
                stdio_connection_params:\n      server_params: {command: sleep, args: ['1000']}\n      timeout: 120\n";
    write_agent(&db, "mute", mute);
    let mut served = Served::start(&db, &["--agents", &db.file("agents")]);
    assert!(served.program.seen.contains("mute/root_agent.yaml: the agent is not ready"), "{}", served.program.seen);
    let (status, refused) = served.post("/v1/runs", &json!({ "app": "mute", "input": "hello" }));
    let why = refused["detail"].as_str().unwrap();
    assert!(status == 503 && why.contains("its MCP server has not answered yet"), "{refused}");
    served.wait_for(&served.run("roll a die"), "run_settled");
    write_agent(&db, "shop", "name: shop\nmodel: practice\ninstruction: Sell things.\n");
    served.program.wait_for("serving shop");
    assert_eq!(served.terminate().code, Some(0));
}

#[test]
fn the_practice_agent_is_served_if_a_folder_of_its_name_is_broken_or_removed() {
    let db = Database::new();
    write_agent(&db, "practice", "name: other\nmodle: practice\n");
    let mut served = Served::start(&db, &["--agents", &db.file("agents"), "--instant"]);
    let words = "until this is fixed, the built-in agent is served";
    assert!(served.program.seen.contains(words), "{}", served.program.seen);
    served.wait_for(&served.run("roll a die"), "run_settled");
    write_agent(&db, "practice", "name: other\nmodel: practice\ninstruction: Be another.\ndescription: Another one.\n");
    served.program.wait_for("serving practice");
    assert!(served.get("/v1/apps").1.to_string().contains("Another one."));
    std::fs::remove_dir_all(db.file("agents/practice")).unwrap();
    served.program.wait_for("no longer serving practice from the folder");
    assert!(served.get("/v1/apps").1.to_string().contains("The built-in agent."));
    served.wait_for(&served.run("roll a die"), "run_settled");
}

#[test]
fn agents_in_a_folder_are_served_beside_the_practice_agent_and_may_replace_it() {
    let db = Database::new();
    let write = |app: &str, text: &str| write_agent(&db, app, text);
    write("shop", "name: shop\nmodel: practice\ninstruction: Sell things.\ndescription: Sells.\n");
    write("bad", "name: bad\nmodle: practice\n");
    let served = Served::start(&db, &["--agents", &db.file("agents")]);
    assert!(served.program.seen.contains("Agents: practice, shop."), "{}", served.program.seen);
    assert!(served.program.seen.contains("bad/root_agent.yaml:2:1: "), "{}", served.program.seen);
    let (status, run) = served.post("/v1/runs", &json!({ "app": "shop", "input": "hello" }));
    assert_eq!(status, 201, "{run}");
    served.wait_for(run["run_id"].as_str().unwrap(), "run_settled");
    assert_eq!(served.post("/v1/runs", &json!({ "app": "bad", "input": "hello" })).0, 503);
    assert_eq!(served.terminate().code, Some(0));

    write("practice", "name: other\nmodel: practice\ninstruction: Be another.\ndescription: Another one.\n");
    let served = Served::start(&db, &["--agents", &db.file("agents")]);
    let (_, apps) = served.get("/v1/apps");
    let text = apps.to_string();
    assert!(text.contains("Another one.") && !text.contains("The built-in agent."), "{text}");
}
