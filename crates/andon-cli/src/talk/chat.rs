//! `andon chat`: a conversation in the terminal.

use std::sync::Arc;

use andon_runtime::core::id::LOCAL;
use andon_runtime::{Outcome, Recovered};
use tokio::time::timeout;

use super::conversation::Conversation;
use super::run_once::LAST_WORD;
use super::start::{Start, TalkRequest, start};
use crate::args::ConversationArgs;
use crate::client::Target;
use crate::follow::{Approver, LeftRunning, Subject, follow};
use crate::names::PRACTICE;
use crate::paste::quoted;
use crate::print::{Style, plain, plain_line};
use crate::records;
use crate::show::{Screen, Streams, flowing, history, own_flowing, recap, receipt, recovered, with_command};
use crate::terminal::Hushed;
use crate::terminal::input::{Input, PROMPT, TerminalInput};
use crate::terminal::interrupt::{Interrupt, Interrupts, SignalGuard};

/// The words that the practice model understands.
const PRACTICE_HELP: &str = "\
Say anything. Some words do more:
  tell me a long story      an answer that takes more than a minute
  think about it            thinking first, then the answer
  wait                      half a minute of silence, then the answer
  count slowly to 20        a tool that takes a second per number, and stops when told
  count stubbornly to 20    the same tool, which stops only when its grace of 2 s is over
  roll 3 dice, what time    tools that answer at once
  both                      a slow tool and a quick one at the same time
  write a note: buy milk    a tool that needs your approval
  dice {\"sides\": 8}         any tool with its arguments; with --tool shell also: shell: ls -l
";

const HELP: &str = "\
Ctrl-C stops the answer, a second one stops it now, a third one exits at once.
  /receipt                  the receipt of the last run
  /history                  the conversation so far
  /session, /sessions       where this session is stored; the latest sessions
  /help, /quit              this text; quit, like Ctrl-D";

/// How many sessions `/sessions` lists.
const LISTED: usize = 10;

/// Talks until the person leaves.
pub(crate) async fn chat(args: &ConversationArgs) -> anyhow::Result<()> {
    let needs_a_server = args.served.needs_a_server();
    let wanted = TalkRequest { program: "andon chat", args, run_id: None, needs_a_server };
    let Start { conversation, model, target, is_new, recovered } = start(&wanted).await?;
    let interrupts = Interrupts::listen()?;
    let input = Input::open()?;
    let screen = Screen::new(Streams::Together);
    let mut chat =
        Chat { conversation, model, target, interrupts, input, screen, last: None, is_left: false, has_talked: false };
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
    conversation: Conversation,
    /// The name of its model.
    model: String,
    target: Target,
    interrupts: Interrupts,
    input: Input,
    screen: Screen,
    /// How the last run ended, and the run itself if it was followed here.
    last: Option<(Option<Subject>, Arc<Outcome>)>,
    /// Whether the person left during a run, which goes on.
    is_left: bool,
    /// Whether there is a conversation to come back to.
    has_talked: bool,
}

impl Chat {
    async fn greet(&mut self, is_new: bool, found: &[Recovered]) -> anyhow::Result<()> {
        let (bold, dim) = (Style::BOLD, Style::DIM);
        let stop = "Ctrl-C stops it, Ctrl-D quits, /help shows more.";
        self.screen.note(&own_flowing(&match is_new {
            _ if self.model != PRACTICE => {
                format!("{bold}Andon{bold:#}: {}, which you can stop at any moment. {stop}", plain_line(&self.model))
            }
            false => format!("{bold}Andon{bold:#}: a practice agent. {stop}"),
            true => format!(
                "{bold}Andon{bold:#}: a practice agent that you can stop at any moment. It needs no key and no network.\n\
                 Try: tell me a long story {dim}|{dim:#} count slowly to 20 {dim}|{dim:#} think about it {dim}|{dim:#} both\n\
                 {stop}"
            ),
        }))?;
        for line in recovered(found, Some(self.conversation.key()), &self.target) {
            self.screen.note(&flowing(&line))?;
        }
        if let Target::Server(client) = &self.target {
            let words =
                format!("It runs on the server at {}. If you quit during an answer, it goes on there.", client.shown());
            self.screen.note(&flowing(&words))?;
        }
        let name = &self.conversation.key().session;
        self.screen.note(&match (self.target.is_kept(), is_new) {
            (false, _) => own_flowing("This conversation is in memory only, and gone when you quit.\n"),
            (true, true) => {
                let sentence = format!("Session {bold}{name}{bold:#}. To continue later:");
                format!("{}\n", with_command(&sentence, &self.how_to_continue()))
            }
            (true, false) => own_flowing(&format!("Session {bold}{name}{bold:#}, where you left off:\n")),
        })?;
        if !is_new {
            let said = recap(&self.conversation.history().await?);
            if !said.is_empty() {
                self.screen.note(&said)?;
            }
        }
        Ok(())
    }

    fn how_to_continue(&self) -> String {
        let key = self.conversation.key();
        let of = |flag: &str, name: &str, usual: &str| match name == usual {
            true => String::new(),
            false => format!(" --{flag} {}", quoted(name)),
        };
        let (app, user) = (of("app", &key.app, PRACTICE), of("user", &key.user, LOCAL));
        self.target.command(&format!("chat --session {}{app}{user}", quoted(key.session.as_str())))
    }

    /// Follows the runs in progress in this session, such as one that a dead program left waiting: its question is asked again.
    async fn go_on(&mut self) -> anyhow::Result<()> {
        while let Some(earlier) = self.conversation.current().await? {
            if !earlier.prompt.is_empty() {
                let bold = Style::BOLD;
                self.screen.note(&format!("{bold}{PROMPT}{}{bold:#}", plain(&earlier.prompt)))?;
            }
            // A run whose reader died with an earlier program has a reader again.
            let _reader = earlier.run.watch();
            let aimed = self.interrupts.aim_at(earlier.run.target());
            self.follow(earlier.run, aimed).await?;
            if self.is_left {
                break;
            }
        }
        Ok(())
    }

    /// Ends the chat, and says how to continue it later.
    async fn leave(&mut self) -> anyhow::Result<()> {
        self.conversation.leave().await?;
        if let Some((Some(Subject::Local(run)), _)) = &self.last {
            // Late corrections to the receipt would be lost with the program. A signal ends the wait.
            tokio::select! {
                biased;
                _ = self.interrupts.while_idle() => {}
                _ = timeout(LAST_WORD, run.last_word()) => {}
            }
        }
        if self.has_talked && self.target.is_kept() {
            let dim = Style::DIM;
            self.screen.note(&format!("{dim}To continue later: {}{dim:#}", self.how_to_continue()))?;
        }
        Ok(())
    }

    /// The next line that the person types; `None` when they quit.
    async fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        if self.is_left {
            return Ok(None);
        }
        let mut was_hinted = false;
        loop {
            let typed = tokio::select! {
                biased;
                interrupt = self.interrupts.while_idle() => match interrupt {
                    Interrupt::CtrlC => TerminalInput::Interrupted,
                    Interrupt::Terminate => TerminalInput::End,
                },
                typed = self.input.prompt() => typed,
            };
            match typed {
                TerminalInput::Line(line) => {
                    if !self.input.is_terminal() && !line.trim().is_empty() {
                        // Nobody saw it being typed, so show it.
                        self.screen.note(&format!("{PROMPT}{}", plain(&line)))?;
                    }
                    return Ok(Some(line));
                }
                TerminalInput::Interrupted if !was_hinted => {
                    was_hinted = true;
                    self.screen.note("Nothing is running. Press Ctrl-C again, or Ctrl-D, to quit.")?;
                }
                TerminalInput::Interrupted | TerminalInput::End => return Ok(None),
            }
        }
    }

    /// One run, from its prompt to its receipt.
    async fn talk(&mut self, prompt: &str) -> anyhow::Result<()> {
        let aim = |run: &Subject| self.interrupts.aim_at(run.target());
        match self.conversation.start(prompt, None, aim).await {
            Ok((run, aimed)) => self.follow(run, aimed).await,
            // A server that refuses now may accept later: the conversation is not over.
            Err(error) if matches!(self.conversation, Conversation::Remote(_)) => self.complain(&error),
            Err(error) => Err(error),
        }
    }

    async fn follow(&mut self, run: Subject, aimed: SignalGuard) -> anyhow::Result<()> {
        let followed = {
            let _hushed = Hushed::new();
            follow(&run, &mut self.screen, &mut Approver::Person(&mut self.input)).await
        };
        drop(aimed);
        let (outcome, shown) = match (followed, &run) {
            (Err(error), Subject::Remote(_)) if error.is::<LeftRunning>() => {
                (self.is_left, self.has_talked) = (true, true);
                return Ok(self.screen.note(&format!("\nRun {} goes on.", run.id()))?);
            }
            (Err(error), Subject::Remote(_)) => return self.complain(&error),
            (followed, _) => followed?,
        };
        shown?;
        let told = match (outcome.stop_reason(), &run) {
            // Whoever stopped it sees the whole receipt, with the cost if the server knows it.
            ("cancelled", Subject::Remote(_)) => run.receipt().await.ok().flatten(),
            _ => None,
        };
        self.screen.account(&outcome, told.as_ref().and_then(|told| told.cost.as_ref()))?;
        self.screen.note("")?;
        (self.last, self.has_talked) = (Some((Some(run), outcome)), true);
        Ok(())
    }

    fn complain(&mut self, error: &anyhow::Error) -> anyhow::Result<()> {
        let bad = Style::BAD;
        Ok(self.screen.note(&format!("{bad}error:{bad:#} {}\n", plain(&format!("{error:#}"))))?)
    }

    fn show_help(&mut self) -> std::io::Result<()> {
        let words = if self.model == PRACTICE { PRACTICE_HELP } else { "" };
        self.screen.note(&format!("{words}{HELP}"))
    }

    async fn show_receipt(&mut self) -> anyhow::Result<()> {
        if self.last.is_none() {
            self.last = self.conversation.last_outcome().await?.map(|outcome| (None, outcome));
        }
        Ok(match &self.last {
            Some((run, outcome)) => {
                // More may have been learned since.
                let newer = match (run, &self.target) {
                    (Some(run), _) => run.receipt().await?,
                    (None, Target::Server(client)) => Some(client.receipt(&outcome.receipt.run).await?),
                    (None, Target::Database(_)) => None,
                };
                let told = newer.unwrap_or_else(|| outcome.receipt.clone().into());
                let (receipt, cost) = (told.receipt, told.cost);
                let outcome = (**outcome).clone().with_receipt(receipt);
                self.screen.note(&receipt::full(&outcome, cost.as_ref()))
            }
            None => self.screen.note("Nothing has run yet."),
        }?)
    }

    async fn show_history(&mut self) -> anyhow::Result<()> {
        let messages = self.conversation.history().await?;
        Ok(self.screen.note(&history(&messages))?)
    }

    fn show_session(&mut self) -> std::io::Result<()> {
        let name = &self.conversation.key().session;
        if !self.target.is_kept() {
            return self.screen.note(&format!("Session {name}, in memory only: it is gone when you quit."));
        }
        let (target, later) = (self.target.shown(), self.how_to_continue());
        let kept = if matches!(self.target, Target::Server(_)) { "on" } else { "in" };
        self.screen.note(&format!("Session {name}, stored {kept} {target}\nTo continue later: {later}"))
    }

    async fn show_sessions(&mut self) -> anyhow::Result<()> {
        let sessions = self.conversation.sessions(LISTED).await?;
        let shown = match sessions.as_slice() {
            [] => "There are no sessions yet.".to_owned(),
            sessions => records::sessions_table(sessions),
        };
        Ok(self.screen.note(shown.trim_end())?)
    }
}
