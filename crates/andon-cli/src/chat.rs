//! `andon chat`: a conversation in the terminal.

use std::sync::Arc;

use andon::{Agent, Outcome};

use crate::Exit;
use crate::agent::practice_agent;
use crate::args::Options;
use crate::follow::{Approver, follow};
use crate::input::{Input, PROMPT, Typed};
use crate::interrupt::{Interrupt, Interrupts};
use crate::show::{Screen, Streams, Style, history, receipt};
use crate::terminal::Hushed;

const HELP: &str = "\
Say anything. Some words do more:
  tell me a long story      an answer of more than a minute
  think about it            a thought first, then the answer
  wait                      half a minute of silence, then the answer
  count slowly to 20        a tool that takes a second for each number, and stops when told
  count stubbornly to 20    the same, but it has to be stopped when its grace of 2 s is over
  roll 3 dice, what time    tools that answer at once
  both                      a slow tool and a quick one together
  write a note: buy milk    a tool that needs your yes
Ctrl-C stops the answer, again stops it now, a third time leaves at once.
/receipt tells all about the last run, /history what was said, /quit or Ctrl-D leaves.";

/// Talks until the person leaves.
pub(crate) async fn chat(options: &Options) -> anyhow::Result<Exit> {
    let agent = practice_agent(options)?;
    let interrupts = Interrupts::listen()?;
    let input = Input::open()?;
    let mut chat = Chat { agent, interrupts, input, screen: Screen::new(Streams::Together), last: None };
    chat.greet()?;
    loop {
        let Some(line) = chat.next_line().await? else { return Ok(Exit::Completed) };
        match line.trim() {
            "" => {}
            "/quit" | "/exit" | "/q" => return Ok(Exit::Completed),
            "/help" | "/h" | "/?" => chat.screen.note(HELP)?,
            "/receipt" => chat.show_receipt()?,
            "/history" => chat.show_history().await?,
            command if command.starts_with('/') => {
                chat.screen.note(&format!("There is no {command}: try /help, /receipt, /history or /quit."))?;
            }
            prompt => chat.talk(prompt).await?,
        }
    }
}

struct Chat {
    agent: Agent,
    interrupts: Interrupts,
    input: Input,
    screen: Screen,
    /// How the last run ended.
    last: Option<Arc<Outcome>>,
}

impl Chat {
    fn greet(&mut self) -> std::io::Result<()> {
        let (bold, dim) = (Style::BOLD, Style::DIM);
        self.screen.note(&format!(
            "{bold}Andon{bold:#}: a practice agent that you can stop at any moment. It needs no key and no network.\n\
             Try: tell me a long story {dim}|{dim:#} count slowly to 20 {dim}|{dim:#} think about it {dim}|{dim:#} both\n\
             Stop it with Ctrl-C, leave with Ctrl-D. /help tells more.\n"
        ))
    }

    /// The next line that a person types; nothing when they leave.
    async fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        let mut was_hinted = false;
        loop {
            let typed = tokio::select! {
                biased;
                interrupt = self.interrupts.while_idle() => match interrupt {
                    Interrupt::CtrlC => Typed::Interrupted,
                    Interrupt::Terminate => Typed::End,
                },
                typed = self.input.prompt() => typed,
            };
            match typed {
                Typed::Line(line) => {
                    if !self.input.is_terminal() && !line.trim().is_empty() {
                        // Nobody saw it being typed, so it is shown where it was said.
                        self.screen.note(&format!("{PROMPT}{line}"))?;
                    }
                    return Ok(Some(line));
                }
                Typed::Interrupted if !was_hinted => {
                    was_hinted = true;
                    self.screen.note("Nothing is running. Press Ctrl-C again, or Ctrl-D, to leave.")?;
                }
                Typed::Interrupted | Typed::End => return Ok(None),
            }
        }
    }

    /// One run, from its prompt to its receipt.
    async fn talk(&mut self, prompt: &str) -> anyhow::Result<()> {
        let run = self.agent.start(prompt)?;
        let (outcome, shown) = {
            let _aimed = self.interrupts.aim_at(run.cord());
            let _hushed = Hushed::new();
            follow(&run, &mut self.screen, &mut Approver::Person(&mut self.input)).await
        };
        shown?;
        self.screen.account(&outcome)?;
        self.screen.note("")?;
        self.last = Some(outcome);
        Ok(())
    }

    fn show_receipt(&mut self) -> std::io::Result<()> {
        match &self.last {
            Some(outcome) => self.screen.note(&receipt::full(outcome)),
            None => self.screen.note("Nothing has run yet."),
        }
    }

    async fn show_history(&mut self) -> anyhow::Result<()> {
        let messages = self.agent.history().await?;
        Ok(self.screen.note(&history(&messages))?)
    }
}
