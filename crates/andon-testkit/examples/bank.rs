//! A bank under the explorer: a tool that moves money, a promise of your own, and the stop that breaks it. In your project these are
//! tests; here they are a program: `cargo run -p andon-testkit --example bank`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use andon_runtime::{Agent, FnTool};
use andon_testkit::explore::Script;
use andon_testkit::{Act, explore};
use serde_json::json;
use tokio::time::sleep;

/// Two accounts, which hold 100 together.
#[derive(Clone)]
struct Bank(Arc<Mutex<(i64, i64)>>);

impl Bank {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((100, 0))))
    }

    fn change(&self, from: i64, to: i64) {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *accounts = (accounts.0 + from, accounts.1 + to);
    }

    fn total(&self) -> i64 {
        let accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.0 + accounts.1
    }
}

/// A tool that moves 10.
#[derive(Clone, Copy)]
enum Transfer {
    /// Takes the money, waits for the bank, gives the money. What if it is stopped in between?
    InTwoSteps,
    /// Waits for the bank, and then does all of it between two awaits, where nothing can stop it.
    InOneStep,
}

fn transfer(bank: Bank, how: Transfer) -> FnTool {
    let schema = json!({"type": "object"});
    FnTool::new("transfer", "Moves 10 from the first account to the second.", schema, move |_| {
        let bank = bank.clone();
        async move {
            match how {
                Transfer::InTwoSteps => {
                    bank.change(-10, 0);
                    sleep(Duration::from_millis(100)).await;
                    bank.change(0, 10);
                }
                Transfer::InOneStep => {
                    sleep(Duration::from_millis(100)).await;
                    bank.change(-10, 10);
                }
            }
            Ok("moved 10".into())
        }
    })
}

/// The model's part: it calls the tool, and then answers.
fn answers() -> [Vec<Act>; 2] {
    let first = [vec![Act::text("Moving. ")], Act::call(0, "call-1", "transfer", "{}"), vec![Act::tool_use()]];
    [first.concat(), vec![Act::text("Done."), Act::end()]]
}

fn moving_money(name: &str, how: Transfer) -> Script {
    explore(name).play(move |world| async move {
        let bank = Bank::new();
        world.check("no money is lost", {
            let bank = bank.clone();
            move |_| assert_eq!(bank.total(), 100, "what both accounts hold")
        });
        let session = world.open(Agent::builder().model(world.model(answers())).tool(transfer(bank, how)));
        world.play(session.prompt("Move 10.")).await;
    })
}

fn main() {
    let report = moving_money("a transfer in two steps", Transfer::InTwoSteps).run();
    println!("{report}");
    assert!(!report.is_whole(), "the explorer finds the stop between the two steps");
    moving_money("a transfer in one step", Transfer::InOneStep).assert();
    println!("A transfer in one step loses nothing, wherever it is stopped.");
}
