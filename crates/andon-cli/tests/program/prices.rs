//! What runs cost, where somebody says what models cost.

use serde_json::json;

use crate::child::{Database, Program};
use crate::server::Served;

#[test]
fn a_receipt_tells_what_the_run_cost_and_the_configuration_file_can_name_the_prices() {
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
    // At a unit a token, it costs as much as there were tokens.
    let tokens = ["input", "cache_read", "cache_write", "output"].map(|kind| billed[kind]["value"].as_f64().unwrap());
    let cost = tokens.iter().sum::<f64>();
    assert!(cost > 0.0);
    let expected = json!({"currency": "USD", "value": cost, "low": cost, "high": cost});
    assert_eq!((&receipt["cost"], &receipt["model_calls"][0]["cost"]), (&expected, &expected));
    let shown = ask(&["receipt", &run]).stdout;
    assert!(shown.contains(&format!("{cost} USD")), "{shown}");
}

#[test]
fn without_prices_no_cost_is_told() {
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
        ("currency: USD\nmodels:\n  m: {input: 3, output: 1, cash: 1}\n", "`cash` is not known here"),
        ("currency: USD\nmodels: {}\n", "at least one model"),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = refused(&file);
        assert!(refused.contains(said), "{refused}");
    }
    let refused = refused(&db.file("nowhere.yaml"));
    assert!(refused.contains("nowhere.yaml cannot be read"), "{refused}");
}
