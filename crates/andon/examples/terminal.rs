//! A terminal agent: a conversation, a tool that asks before it does something, and a Ctrl-C that stops the answer and not the chat.
//!
//! Without a terminal it plays a short script: `cargo run -p andon --example terminal < /dev/null`
#![expect(clippy::disallowed_methods, reason = "a program of its own spawns its own tasks")]

use std::io::{IsTerminal, Write, stdin, stdout};
use std::time::Duration;

use andon::feed::Kind;
use andon::{Agent, Cancel, FeedItem, Practice, Run, Session, tool};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Deletes a file.
#[tool(needs_approval)]
async fn delete_file(path: String) -> String {
    format!("{path} is gone (not really)")
}

#[tokio::main]
async fn main() -> Result {
    let agent = Agent::builder().model(Practice::new().pace(Duration::from_millis(10))).tool(delete_file).build()?;
    let chat = agent.new_session("me")?;
    let (mut lines, mut interrupts) = (lines(), signal(SignalKind::interrupt())?);
    while let Some(line) = ask("> ", &mut lines, &mut interrupts).await? {
        let run = chat.start(line)?;
        show(&run, &mut lines, &mut interrupts).await?;
        let outcome = run.outcome().await;
        println!("\n[{}, {} tokens]", outcome.stop_reason(), outcome.usage.delivered.output.at_least());
    }
    if stdin().is_terminal() { Ok(()) } else { check(&chat).await }
}

/// Asks the person for a line; `None` at the end, or if it is Ctrl-C.
async fn ask(question: &str, lines: &mut Receiver<String>, interrupts: &mut Signal) -> Result<Option<String>> {
    print!("{question}");
    stdout().flush()?;
    Ok(tokio::select! { line = lines.recv() => line, _ = interrupts.recv() => None })
}

/// Shows a run as it goes on.
async fn show(run: &Run, lines: &mut Receiver<String>, interrupts: &mut Signal) -> Result {
    let stop = || run.cancel(Cancel::graceful().note("Ctrl-C"));
    let mut feed = run.feed();
    loop {
        tokio::select! {
            item = feed.next() => match item {
                None => return Ok(()),
                Some(FeedItem::Delta(delta)) if delta.kind == Kind::Text => print!("{}", delta.text),
                Some(_) => for call in run.approvals() {
                    let question = format!("\n  {} {}? (y/n) ", call.tool(), call.arguments());
                    match ask(&question, lines, interrupts).await?.as_deref() {
                        Some("y") => call.approve().by("me").send()?,
                        Some(_) => call.deny().by("me").send()?,
                        None => drop(stop()),
                    }
                },
            },
            _ = interrupts.recv() => drop(stop()),
        }
        stdout().flush()?;
    }
}

/// What is typed, line by line; without a terminal, what the script says.
fn lines() -> Receiver<String> {
    let (lines, typed) = channel(1);
    if stdin().is_terminal() {
        // A thread, because reading from a terminal blocks, and the program must be able to end meanwhile.
        std::thread::spawn(move || {
            stdin().lines().map_while(|line| line.ok()).try_for_each(|line| lines.blocking_send(line))
        });
    } else {
        tokio::spawn(async move {
            for line in ["delete_file: notes.txt", "n", "tell me a long story"] {
                lines.send(line.to_owned()).await.ok();
            }
            // When there is room for a line, the last one has been taken, and the story begins. Ctrl-C is in the middle of it.
            drop(lines.reserve().await);
            tokio::time::sleep(Duration::from_millis(500)).await;
            std::process::Command::new("kill").args(["-INT", &std::process::id().to_string()]).status().ok();
            lines.send("hello".to_owned()).await
        });
    }
    typed
}

/// What the script's conversation has come to.
async fn check(chat: &Session) -> Result {
    let history = chat.history().await?;
    assert!(history.iter().any(|message| message.text().contains("was not run")), "the person said no");
    assert_eq!(history.iter().filter(|message| message.cut.is_some() && !message.text().is_empty()).count(), 1);
    assert!(history.last().is_some_and(|message| message.cut.is_none()), "the chat went on");
    Ok(())
}
