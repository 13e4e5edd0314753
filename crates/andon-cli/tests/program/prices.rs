//! What runs cost, with a file of prices.

use crate::child::*;
use crate::server::Served;

#[test]
fn a_receipt_shows_what_the_run_cost_and_the_configuration_file_can_name_the_prices() {
    let db = Database::new();
    let file = db.file("andon.yaml");
    std::fs::write(db.file("prices.yaml"), "currency: USD\nmodels:\n  practice*: {input: 1000000, output: 1000000}\n")
        .unwrap();
    std::fs::write(&file, "prices: prices.yaml\ndb: andon.db\nbind: 127.0.0.1:0\ninstant: true\n").unwrap();
    let served = Served::of(Program::start_in("", &[], &["serve", "--config", &file]));
    let ask = |args: &[&str]| {
        let ended = Program::start_in("", &[], &[args, &["--server", &served.url]].concat()).end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended
    };
    let run = ask(&["run", "--detach", "hello"]).stdout.trim().to_owned();
    ask(&["watch", &run]);
    let receipt = ask(&["receipt", &run, "--json"]).json().remove(0);
    let billed = &receipt["usage"]["billed"];
    // At a price of one per token, the cost is the number of tokens.
    let tokens = ["input", "cache_read", "cache_write", "output"].map(|kind| billed[kind]["value"].as_f64().unwrap());
    let cost = tokens.iter().sum::<f64>();
    assert!(cost > 0.0);
    let expected = json!({"currency": "USD", "value": cost, "provenance": "reported", "low": cost, "high": cost});
    assert_eq!((&receipt["cost"], &receipt["model_calls"][0]["cost"]), (&expected, &expected));
    let shown = ask(&["receipt", &run]).stdout;
    assert!(shown.contains(&format!("{cost} USD")), "{shown}");
}

#[test]
fn cancel_with_wait_shows_what_the_run_cost() {
    let prices = Database::new();
    let file = prices.file("prices.yaml");
    std::fs::write(&file, "currency: USD\nmodels:\n  practice*: {input: 3, output: 15}\n").unwrap();
    let served = crate::served::Served::with(&["--prices", &file]);
    let stopped = |flags: &[&str]| {
        let run = served.detach(&[], "tell me a story");
        served.wait_for(&run, "delta");
        (served.run(&[&["cancel", &run, "--wait"], flags].concat()), served.receipt(&run)["cost"].clone())
    };
    let (told, cost) = stopped(&["--json"]);
    let told = told.json().remove(0);
    assert_eq!((&told["receipt"]["cost"], cost["currency"].as_str()), (&cost, Some("USD")));
    assert_eq!(told["receipt"]["model_calls"][0]["cost"], cost);
    let (told, cost) = stopped(&[]);
    assert!(!cost.is_null() && told.stdout.contains("cost ") && told.stdout.contains("USD"), "{}", told.stdout);
}

#[test]
fn the_receipts_of_a_chat_show_what_a_run_cost() {
    let prices = Database::new();
    let file = prices.file("prices.yaml");
    std::fs::write(&file, "currency: USD\nmodels:\n  practice*: {input: 3, output: 15}\n").unwrap();
    let served = crate::served::Served::with(&["--prices", &file, "--instant"]);
    let mut chat = served.start(&["chat"]);
    chat.say("hello", "Completed");
    chat.say("/receipt", " USD");
    assert_eq!(chat.end().code, Some(0));
}

#[test]
fn without_prices_no_cost_is_shown() {
    let served = crate::served::Served::with(&["--instant"]);
    let run = served.detach(&[], "hello");
    served.run(&["watch", &run]);
    assert!(served.receipt(&run).get("cost").is_none());
    assert!(!served.run(&["receipt", &run]).stdout.contains("cost"));
}

#[test]
fn a_bad_price_list_is_refused_at_the_start_with_its_line() {
    let db = Database::new();
    let file = db.file("prices.yaml");
    let refused = |file: &str| {
        let ended = db.start(&["serve", "--bind", "127.0.0.1:0", "--prices", file]).end();
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        ended.stderr
    };
    for (text, said) in [
        ("currency: USD\nmodels:\n  m: {input: -3, output: 1}\n", "prices.yaml:3:"),
        ("currency: USD\nmodels:\n  m: {input: .nan, output: 1}\n", "prices.yaml:3:"),
        ("currency: USD\nmodels:\n  m: {input: 3, output: 1, cash: 1}\n", "`cash` is not a key here"),
        ("currency: USD\nmodels:\n  m: {input: 3, output: 1, currency: EUR}\n", "prices.yaml:3:"),
        ("currency: USD\nmodels: {}\n", "at least one model"),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = refused(&file);
        assert!(refused.contains(said), "{refused}");
    }
    let refused = refused(&db.file("nowhere.yaml"));
    assert!(refused.contains("cannot read the prices in"), "{refused}");
}
