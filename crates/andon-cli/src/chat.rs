//! `andon chat`: a conversation in the terminal.

use std::sync::Arc;

use andon::{Agent, Event, Outcome, Recovered, Run, RunFilter, SessionFilter};
use tokio::time::timeout;

use crate::Exit;
use crate::agent::PRACTICE;
use crate::args::ChatArgs;
use crate::db::{Db, quoted};
use crate::follow::{Approver, follow};
use crate::input::{Input, PROMPT, Typed};
use crate::interrupt::{Interrupt, Interrupts};
use crate::records;
use crate::run_once::LAST_WORD;
use crate::show::{Screen, Streams, Style, flowing, history, recap, receipt, recovered};
use crate::start::{Start, start, stop_the_rest};
use crate::terminal::Hushed;

/// What the practice model does with some words.
const PRACTICE_HELP: &str = "\
Say anything. Some words do more:
  tell me a long story      an answer of more than a minute
  think about it            a thought first, then the answer
  wait                      half a minute of silence, then the answer
  count slowly to 20        a tool that takes a second a number, and stops when told
  count stubbornly to 20    the same, stopped only when its 2 s of grace are over
  roll 3 dice, what time    tools that answer at once
  both                      a slow tool and a quick one together
  write a note: buy milk    a tool that needs your yes
  dice {\"sides\": 8}         any tool, spelt out; with --tool shell also: shell: ls -l
";

const HELP: &str = "\
Ctrl-C stops the answer, again stops it now, a third time leaves at once.
  /receipt                  all about the last run
  /history                  what was said in this session
  /session, /sessions       where it is kept, and what else is there
  /help, /quit              this text; leave, as Ctrl-D does";

/// How many sessions `/sessions` lists.
const LISTED: usize = 10;

/// Talks until the person leaves.
pub(crate) async fn chat(args: &ChatArgs) -> anyhow::Result<Exit> {
    let Start { agent, db, is_new, recovered } = start("andon chat", &args.options, &args.talk, &args.db).await?;
    let interrupts = Interrupts::listen()?;
    let input = Input::open()?;
    let screen = Screen::new(Streams::Together);
    let model = args.options.model.clone();
    let mut chat = Chat { agent, model, db, interrupts, input, screen, last: None, has_talked: false };
    chat.greet(is_new, &recovered).await?;
    chat.go_on().await?;
    while let Some(line) = chat.next_line().await? {
        match line.trim() {
            "" => {}
            "/quit" | "/exit" | "/q" => break,
            "/help" | "/h" | "/?" => chat.show_help()?,
            "/receipt" => chat.show_receipt().await?,
            "/history" => chat.show_history().await?,
            "/session" => chat.show_session()?,
            "/sessions" => chat.show_sessions().await?,
            command if command.starts_with('/') => {
                let others = "/help, /receipt, /history, /session, /sessions or /quit";
                chat.screen.note(&format!("There is no {command}: try {others}."))?;
            }
            prompt => chat.talk(prompt).await?,
        }
    }
    chat.leave().await
}

struct Chat {
    agent: Agent,
    /// The name of its model.
    model: String,
    db: Db,
    interrupts: Interrupts,
    input: Input,
    screen: Screen,
    /// The last run, if it was of this program, and how it ended.
    last: Option<(Option<Run>, Arc<Outcome>)>,
    /// Whether a run has ended here, so that there is something to come back to.
    has_talked: bool,
}

impl Chat {
    async fn greet(&mut self, is_new: bool, found: &[Recovered]) -> anyhow::Result<()> {
        let (bold, dim) = (Style::BOLD, Style::DIM);
        let stop = "Stop it with Ctrl-C, leave with Ctrl-D. /help tells more.";
        self.screen.note(&match is_new {
            _ if self.model != PRACTICE => {
                format!("{bold}Andon{bold:#}: {}, which you can stop at any moment. {stop}", self.model)
            }
            false => format!("{bold}Andon{bold:#}: a practice agent. Ctrl-C stops it, Ctrl-D leaves, /help tells more."),
            true => format!(
                "{bold}Andon{bold:#}: a practice agent that you can stop at any moment. It needs no key and no network.\n\
                 Try: tell me a long story {dim}|{dim:#} count slowly to 20 {dim}|{dim:#} think about it {dim}|{dim:#} both\n\
                 {stop}"
            ),
        })?;
        for line in recovered(found, self.agent.session_key(), &self.db) {
            self.screen.note(&flowing(&line))?;
        }
        let name = &self.agent.session_key().session;
        self.screen.note(&match (self.db.is_kept(), is_new) {
            (false, _) => "This conversation is in memory, and gone when you leave.\n".to_owned(),
            (true, true) => format!("Session {bold}{name}{bold:#}. To go on later: {}\n", self.how_to_continue()),
            (true, false) => format!("Session {bold}{name}{bold:#}, where you left it:\n"),
        })?;
        if !is_new {
            let said = recap(&self.agent.history().await?);
            if !said.is_empty() {
                self.screen.note(&said)?;
            }
        }
        Ok(())
    }

    fn how_to_continue(&self) -> String {
        self.db.command(&format!("chat --session {}", quoted(self.agent.session_key().session.as_str())))
    }

    /// Follows what a dead program left waiting in this session: its question is asked again.
    async fn go_on(&mut self) -> anyhow::Result<()> {
        while let Some(run) = self.agent.current() {
            let accepted = run.records().first().and_then(|record| match &record.event {
                Event::RunAccepted { accepted } => Some(Arc::clone(accepted)),
                _ => None,
            });
            if let Some(accepted) = accepted {
                let bold = Style::BOLD;
                self.screen.note(&format!("{bold}{PROMPT}{}{bold:#}", accepted.input.text()))?;
            }
            self.follow(run).await?;
        }
        Ok(())
    }

    /// Leaves, and says how to come back.
    async fn leave(&mut self) -> anyhow::Result<Exit> {
        stop_the_rest(self.agent.runtime()).await?;
        if let Some((Some(run), _)) = &self.last {
            // What is still being learnt would end with the program. A signal ends the wait.
            tokio::select! {
                biased;
                _ = self.interrupts.while_idle() => {}
                _ = timeout(LAST_WORD, run.last_word()) => {}
            }
        }
        if self.has_talked && self.db.is_kept() {
            let dim = Style::DIM;
            self.screen.note(&format!("{dim}Go on later: {}{dim:#}", self.how_to_continue()))?;
        }
        Ok(Exit::Completed)
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
        self.follow(run).await
    }

    async fn follow(&mut self, run: Run) -> anyhow::Result<()> {
        let (outcome, shown) = {
            let _aimed = self.interrupts.aim_at(run.cord());
            let _hushed = Hushed::new();
            follow(&run, &mut self.screen, &mut Approver::Person(&mut self.input)).await
        };
        shown?;
        self.screen.account(&outcome)?;
        self.screen.note("")?;
        (self.last, self.has_talked) = (Some((Some(run), outcome)), true);
        Ok(())
    }

    fn show_help(&mut self) -> std::io::Result<()> {
        let words = if self.model == PRACTICE { PRACTICE_HELP } else { "" };
        self.screen.note(&format!("{words}{HELP}"))
    }

    async fn show_receipt(&mut self) -> anyhow::Result<()> {
        if self.last.is_none() {
            self.last = self.last_on_record().await?.map(|outcome| (None, outcome));
        }
        Ok(match &self.last {
            Some((run, outcome)) => {
                // More may have been learnt since.
                let receipt = run.as_ref().and_then(Run::receipt).unwrap_or_else(|| outcome.receipt.clone());
                let outcome = Outcome { usage: receipt.usage, receipt, ..(**outcome).clone() };
                self.screen.note(&receipt::full(&outcome))
            }
            None => self.screen.note("Nothing has run yet."),
        }?)
    }

    /// How the last run of this session ended, by an earlier program.
    async fn last_on_record(&self) -> anyhow::Result<Option<Arc<Outcome>>> {
        let runtime = self.agent.runtime();
        let which = RunFilter { settled: Some(true), limit: Some(1), ..records::runs_of(self.agent.session_key()) };
        let Some(last) = runtime.list_runs(which).await?.pop() else { return Ok(None) };
        Ok(runtime.find(&last.run).await?.and_then(|run| run.try_outcome()))
    }

    async fn show_history(&mut self) -> anyhow::Result<()> {
        let messages = self.agent.history().await?;
        Ok(self.screen.note(&history(&messages))?)
    }

    fn show_session(&mut self) -> std::io::Result<()> {
        let name = &self.agent.session_key().session;
        if !self.db.is_kept() {
            return self.screen.note(&format!("Session {name}, in memory: it is gone when you leave."));
        }
        let (file, later) = (self.db.shown(), self.how_to_continue());
        self.screen.note(&format!("Session {name}, kept in {file}\nGo on later: {later}"))
    }

    async fn show_sessions(&mut self) -> anyhow::Result<()> {
        let own = self.agent.session_key();
        let which = SessionFilter {
            tenant: Some(own.tenant.to_string()),
            app: Some(own.app.to_string()),
            user: Some(own.user.to_string()),
            limit: Some(LISTED),
        };
        let sessions = self.agent.runtime().list_sessions(which).await?;
        let shown = match sessions.as_slice() {
            [] => "Nothing was said yet.".to_owned(),
            sessions => records::sessions_table(sessions),
        };
        Ok(self.screen.note(shown.trim_end())?)
    }
}
