//! What receipts say a conversation cost, compared with a provider that knows.

use andon_testkit::provider::{BadProvider, Dialect, Protocol, Reply, Script, Tokens};
use serde_json::Value;

use crate::child::*;
use crate::server::Served;

const PRICES: &str = "currency: USD
models:
  gpt-4o*: {input: 3, cache_read: 0.3, output: 15}
";

/// A server whose model is that of a provider on this machine.
struct House {
    provider: BadProvider,
    db: Database,
    served: Option<Served>,
    /// What the provider charges for each call, in dollars.
    charged: Vec<f64>,
}

impl House {
    fn new() -> Self {
        let db = Database::new();
        std::fs::write(db.file("prices.yaml"), PRICES).unwrap();
        let provider = BadProvider::start_on_thread(Protocol::Http1);
        let mut house = Self { provider, db, served: None, charged: Vec::new() };
        house.start();
        house
    }

    fn start(&mut self) {
        let address = self.provider.base_url();
        let variables = [("OPENAI_BASE_URL", address.as_str()), ("OPENAI_API_KEY", "sk-none")];
        let prices = self.db.file("prices.yaml");
        let args = [
            "serve",
            "--bind",
            "127.0.0.1:0",
            "--model",
            "openai/gpt-4o",
            "--instructions",
            "be brief",
            "--prices",
            &prices,
        ];
        self.served = Some(Served::of(Program::start_in(self.db.file("andon.db"), &variables, &args)));
    }

    fn url(&self) -> String {
        self.served.as_ref().unwrap().url.clone()
    }

    /// Runs a command that finds everything by the database's file.
    fn ask(&self, args: &[&str]) -> Ended {
        let ended = Program::start_in(self.db.file("andon.db"), &[], args).end();
        assert!(matches!(ended.code, Some(0 | 3)), "{args:?}: {} {}", ended.stdout, ended.stderr);
        ended
    }

    /// Starts the next turn of the conversation. The provider sends the answer up to its last word and then nothing, or ends it.
    fn turn(&self, answer: &Reply, is_whole: bool) -> String {
        self.turn_in("river", answer, is_whole)
    }

    fn turn_in(&self, session: &str, answer: &Reply, is_whole: bool) -> String {
        let frames = Dialect::OpenAiChat.frames(answer);
        let script = Script::stream(Dialect::OpenAiChat);
        // The first chunk is the role.
        let script = if is_whole {
            script.frames(frames)
        } else {
            script.frames(frames.into_iter().take(1 + answer.text.len())).stall()
        };
        self.provider.answer(script);
        let run = self.ask(&["run", "--detach", "--session", session, "tell me more about the otter and the river"]);
        run.stdout.trim().to_owned()
    }

    /// Waits until the answer's last word is shown.
    fn until_shown(&self, run: &str, word: &str) {
        let mut watch = Program::start_in(self.db.file("andon.db"), &[], &["watch", run]);
        watch.wait_for(word);
        watch.interrupt();
        watch.end();
    }

    /// Enters what the provider charges for its last call: nine tenths of what it read came from its cache, from the second call on.
    fn charge(&mut self, output: u64) -> Tokens {
        let read = tokens_of(&self.provider.all_seen().last().unwrap().json());
        let cache_read = if self.charged.is_empty() { 0 } else { read * 9 / 10 };
        let tokens = Tokens { input: read - cache_read, cache_read, ..Tokens::new(0, output) };
        let micros = tokens.input as f64 * 3.0 + tokens.cache_read as f64 * 0.3 + output as f64 * 15.0;
        self.charged.push(micros / 1e6);
        tokens
    }

    /// The receipt, once no better figure is expected.
    fn last_word(&self, run: &str) -> Value {
        let is_final =
            |receipt: &Value| receipt["model_calls"].as_array().unwrap().iter().all(|call| call["pending"].is_null());
        // Each look starts a program: together they take longer than an estimate may.
        (0..4_000).map(|_| self.receipt(run)).find(is_final).expect("a better figure is recorded, or given up")
    }

    fn receipt(&self, run: &str) -> Value {
        self.ask(&["receipt", run, "--json", "--server", &self.url()]).json().remove(0)
    }
}

/// The provider's own way of counting: a word is a token, and a message has four more.
fn tokens_of(request: &Value) -> u64 {
    let text = |message: &Value| match &message["content"] {
        Value::Array(parts) => parts.iter().map(|part| part["text"].as_str().unwrap_or_default()).collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    };
    let messages = request["messages"].as_array().unwrap();
    messages.iter().map(|message| text(message).split_whitespace().count() as u64 + 4).sum()
}

/// An answer of common words, which ends with the number of its turn.
fn answer(turn: usize) -> Reply {
    let words = "the small otter swims down the long river and looks for a fish under the stones near the old bridge ";
    let mut pieces: Vec<String> = words.repeat(3).split_inclusive(' ').map(str::to_owned).collect();
    pieces.push(format!("turn{turn}"));
    Reply::text(pieces).model("gpt-4o-2026-11-01")
}

/// Asserts that the truth is within the bounds, as far as there are any.
fn holds(what: &str, cost: &Value, truth: f64) {
    let (low, high) = (cost["low"].as_f64().unwrap_or(0.0), cost["high"].as_f64().unwrap_or(f64::INFINITY));
    // The sums here are of floats, unlike the server's own.
    let tiny = 1e-12;
    assert!(low <= truth + tiny && truth <= high + tiny, "{what}: {truth} was charged, and the receipt says {cost}");
}

/// Asserts that what was charged for all calls is within the sum of the receipts' bounds.
fn holds_for_the_day(costs: impl Iterator<Item = Value>, charged: &[f64]) {
    let costs: Vec<Value> = costs.collect();
    let sum = |figure: &str| costs.iter().map(|cost| cost[figure].as_f64()).sum::<Option<f64>>();
    let truth: f64 = charged.iter().sum();
    holds("the day", &json!({"low": sum("low"), "high": sum("high")}), truth);
}

/// Asserts that a receipt's estimates are close to what the provider counted.
fn is_close(receipt: &Value, counted: Tokens) {
    let usage = &receipt["usage"]["delivered"];
    for (figure, truth) in [("input", counted.input + counted.cache_read), ("output", counted.output)] {
        let value = usage[figure]["value"].as_f64().unwrap();
        assert!(
            (value / truth as f64 - 1.0).abs() < 0.06,
            "{figure}: {truth} was counted, and the receipt says {usage}"
        );
    }
}

/// Plays a whole turn and then five that are cut; returns the receipts' costs, the oldest first.
fn five_cuts(house: &mut House) -> Vec<(String, Value)> {
    let whole = answer(0);
    // Two words of instructions and nine of a prompt, with four tokens for each message.
    let reported = Tokens::new(19, whole.text.len() as u64);
    let run = house.turn(&whole.clone().usage(reported), true);
    house.ask(&["watch", &run]);
    assert_eq!(house.charge(whole.text.len() as u64), reported, "the provider reports what it charges");
    let mut costs = vec![(run.clone(), house.receipt(&run)["cost"].clone())];
    for turn in 1..=5 {
        let reply = answer(turn);
        let run = house.turn(&reply, false);
        house.until_shown(&run, &format!("turn{turn}"));
        house.ask(&["cancel", &run, "--wait"]);
        // It wrote a little more before it noticed.
        let counted = house.charge(reply.text.len() as u64 + 3);
        let receipt = house.last_word(&run);
        is_close(&receipt, counted);
        costs.push((run.clone(), receipt["cost"].clone()));
    }
    costs
}

#[test]
fn the_receipts_of_a_conversation_that_was_cut_five_times_add_up_to_what_the_provider_charges() {
    let mut house = House::new();
    let costs = five_cuts(&mut house);
    for (turn, ((_, cost), truth)) in costs.iter().zip(&house.charged).enumerate() {
        holds(&format!("turn {turn}"), cost, *truth);
        if turn > 0 {
            assert!(cost["value"].is_f64() && cost["high"].is_f64(), "a cut call has a value and both bounds: {cost}");
            assert_eq!(cost["provenance"], "estimated", "nobody takes it for a bill");
        }
    }
    let exact = &costs[0].1;
    assert_eq!((&exact["provenance"], &exact["low"]), (&json!("reported"), &exact["high"]));
    // The sum of the day, from the list of runs.
    let (_, page) = house.served.as_ref().unwrap().get("/v1/runs");
    let mut listed: Vec<(String, Value)> = page["runs"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|run| (run["run_id"].as_str().unwrap().to_owned(), run["cost"].clone()))
        .collect();
    assert_eq!(listed, costs, "the list says what the receipts say");
    holds_for_the_day(listed.drain(..).map(|(_, cost)| cost), &house.charged);
    for (run, cost) in &costs {
        let (_, one) = house.served.as_ref().unwrap().get(&format!("/v1/runs/{run}"));
        assert_eq!(one["cost"], *cost);
    }
}

/// What the provider reads with each request and nobody else sees.
const UNSEEN: u64 = 455;

/// Plays a turn to its end. The provider reports what it read, and what nobody else sees.
fn whole_turn(house: &House, turn: usize, read: u64) {
    let reply = answer(turn);
    let reported = Tokens::new(UNSEEN + read, reply.text.len() as u64);
    let run = house.turn(&reply.usage(reported), true);
    house.ask(&["watch", &run]);
    let truth = tokens_of(&house.provider.all_seen().last().unwrap().json());
    assert!(truth.abs_diff(read) < 20, "{truth} tokens were read");
}

/// Plays a turn of another conversation and waits until the server has learned from it. From then on it can count.
fn until_it_counts(house: &House) {
    let calls = || {
        let (_, usage) = house.served.as_ref().unwrap().get("/v1/usage");
        usage["models"].as_object().unwrap().values().filter_map(|model| model["calls"].as_u64()).sum::<u64>()
    };
    let (before, reply) = (calls(), answer(9));
    let reported = Tokens::new(UNSEEN + 19, reply.text.len() as u64);
    house.turn_in("elsewhere", &reply.usage(reported), true);
    assert!((0..100_000).any(|_| calls() > before), "it learned from the call");
}

/// Plays a turn that is cut. Its input must be within its bounds, and nearly right. Returns what was read.
fn cut_turn(house: &House, turn: usize) -> u64 {
    let run = house.turn(&answer(turn), false);
    house.until_shown(&run, &format!("turn{turn}"));
    house.ask(&["cancel", &run, "--wait"]);
    let read = tokens_of(&house.provider.all_seen().last().unwrap().json());
    let input = &house.receipt(&run)["model_calls"][0]["usage"]["delivered"]["input"];
    let [value, low, high] = ["value", "low", "high"].map(|part| input[part].as_u64().unwrap());
    let truth = UNSEEN + read;
    assert!(low <= truth && truth <= high, "turn {turn}: {truth} were read, and the receipt says {input}");
    assert!(value.abs_diff(truth) * 20 <= truth, "turn {turn}: {truth} were read, and the receipt says {input}");
    read
}

#[test]
fn the_first_call_of_each_run_is_measured_from_the_run_before_also_by_the_next_server() {
    let mut house = House::new();
    whole_turn(&house, 0, 19);
    until_it_counts(&house);
    let read = cut_turn(&house, 1);
    assert_eq!(house.served.take().unwrap().terminate().code, Some(0));
    house.start();
    until_it_counts(&house);
    cut_turn(&house, 2);
    whole_turn(&house, 3, read + 190);
    house.served.take().unwrap().program.kill();
    house.start();
    until_it_counts(&house);
    cut_turn(&house, 4);
}

#[test]
fn a_receipt_beside_the_database_shows_the_same_cost_as_the_server_also_when_that_has_ended() {
    let mut house = House::new();
    let run = house.turn(&answer(0), false);
    house.until_shown(&run, "turn0");
    house.ask(&["cancel", &run, "--wait"]);
    house.charge(1);
    house.last_word(&run);
    let from_server = house.ask(&["receipt", &run, "--json", "--server", &house.url()]).stdout;
    let shown = house.ask(&["receipt", &run, "--server", &house.url()]).stdout;
    let beside = |house: &House| (house.ask(&["receipt", &run, "--json"]).stdout, house.ask(&["receipt", &run]).stdout);
    assert_eq!(beside(&house).0, from_server);
    assert!(from_server.contains("\"cost\"") && shown.contains(" USD (estimated, "), "{shown}");
    assert_eq!(house.served.take().unwrap().terminate().code, Some(0));
    assert_eq!(beside(&house), (from_server, shown));
    // The next server has no prices, and neither has the file from then on.
    let plain = Served::of(Program::start_in(house.db.file("andon.db"), &[], &["serve", "--bind", "127.0.0.1:0"]));
    assert!(!beside(&house).0.contains("\"cost\""));
    plain.terminate();
    assert!(!beside(&house).0.contains("\"cost\""));
}

#[test]
fn after_kill_nine_no_receipt_of_the_conversation_says_more_than_was_charged() {
    let mut house = House::new();
    let mut costs = five_cuts(&mut house);
    let reply = answer(6);
    let run = house.turn(&reply, false);
    house.until_shown(&run, "turn6");
    let counted = house.charge(reply.text.len() as u64 + 3);
    house.served.take().unwrap().program.kill();
    house.start();
    let receipt = house.last_word(&run);
    is_close(&receipt, counted);
    assert_eq!(receipt["outcome"]["kind"], "lost");
    assert_eq!(receipt["model_calls"][0]["answered_by"], "gpt-4o-2026-11-01", "who answered is on record");
    let cost = receipt["cost"].clone();
    assert!(cost["value"].is_f64(), "the call that the crash cut is estimated: {cost}");
    assert!(cost["high"].is_null(), "nobody knows when the provider stopped: {cost}");
    costs.push((run, cost));
    for (turn, ((run, cost), truth)) in costs.iter().zip(&house.charged).enumerate() {
        holds(&format!("turn {turn}, after the crash"), cost, *truth);
        assert_eq!(house.receipt(run)["cost"], *cost, "turn {turn} is what it was before");
    }
    holds_for_the_day(costs.into_iter().map(|(_, cost)| cost), &house.charged);
}
