//! Lines from standard input, read on a separate thread and only on demand.
//!
//! # Invariants
//!
//! 1. At most one read is in progress. If nobody waits for it any more, its line goes to the next caller.
//! 2. The terminal is in raw mode only while a prompt is edited, so that at any other time Ctrl-C is a signal.

use std::io::{BufRead, IsTerminal, stdin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, EventHandler, KeyEvent, Movement, RepeatCount,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::modes::{remember, take_end};
use crate::print::out::is_terminal;
use crate::print::write;

/// The prompt before the line that a person types.
pub(crate) const PROMPT: &str = "> ";

/// How often to check whether Ctrl-D was pressed.
const LOOK: Duration = Duration::from_millis(50);

/// What was read from standard input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TerminalInput {
    /// A line, without its end.
    Line(String),
    /// Ctrl-C at an empty prompt.
    Interrupted,
    /// The end of the input.
    End,
}

/// How to read a line.
enum ReadMode {
    /// With editing and history, if it is a terminal.
    Prompt,
    /// Without editing.
    Plain,
}

/// Standard input.
pub(crate) struct Input {
    asks: Sender<ReadMode>,
    typed: UnboundedReceiver<TerminalInput>,
    is_reading: bool,
    is_terminal: bool,
}

impl Input {
    /// Starts the thread, which reads on demand.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let is_terminal = stdin().is_terminal() && is_terminal();
        remember();
        let (asks, asked) = channel();
        let (tell, typed) = unbounded_channel();
        let read = move || read(is_terminal, &asked, &tell);
        std::thread::Builder::new()
            .name("andon-input".to_owned())
            .spawn(read)
            .context("cannot start the thread that reads the input")?;
        Ok(Self { asks, typed, is_reading: false, is_terminal })
    }

    /// Whether a person is typing.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The next prompt, edited in the terminal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a line that was being typed goes to the next caller.
    pub(crate) async fn prompt(&mut self) -> TerminalInput {
        self.next(ReadMode::Prompt).await
    }

    /// The next line, without editing.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a line that was being typed goes to the next caller.
    pub(crate) async fn line(&mut self) -> TerminalInput {
        self.next(ReadMode::Plain).await
    }

    /// Waits for Ctrl-D in a terminal while no line is being read. Whatever else is typed is kept for the next prompt. The end
    /// of a pipe does not count: whoever sends prompts from a file wants the answers.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn left(&self) {
        while self.is_reading || !self.is_terminal || !take_end() {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn next(&mut self, ask: ReadMode) -> TerminalInput {
        if !self.is_reading {
            self.is_reading = self.asks.send(ask).is_ok();
        } else if matches!(ask, ReadMode::Prompt) && self.is_terminal {
            // A read may already be in progress without a prompt before it.
            let _ = write(PROMPT);
        }
        let typed = self.typed.recv().await;
        self.is_reading = false;
        typed.unwrap_or(TerminalInput::End)
    }
}

/// The thread: reads one line per request.
fn read(is_terminal: bool, asked: &Receiver<ReadMode>, tell: &UnboundedSender<TerminalInput>) {
    let mut editor = if is_terminal { editor().ok() } else { None };
    for ask in asked {
        let typed = match (ask, &mut editor) {
            (ReadMode::Prompt, Some(editor)) => edit(editor),
            (ReadMode::Prompt, None) | (ReadMode::Plain, _) => read_plain(),
        };
        if tell.send(typed).is_err() {
            return;
        }
    }
}

fn read_plain() -> TerminalInput {
    let mut line = Vec::new();
    match stdin().lock().read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => TerminalInput::End,
        Ok(_) => TerminalInput::Line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()),
    }
}

fn editor() -> rustyline::Result<Editor<(), MemHistory>> {
    let mut editor = Editor::with_history(rustyline::Config::default(), MemHistory::new())?;
    editor.set_auto_add_history(true);
    editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(ClearFirst)));
    Ok(editor)
}

fn edit(editor: &mut Editor<(), MemHistory>) -> TerminalInput {
    match editor.readline(PROMPT) {
        Ok(line) => TerminalInput::Line(line),
        Err(ReadlineError::Interrupted) => TerminalInput::Interrupted,
        Err(_) => TerminalInput::End,
    }
}

/// Ctrl-C clears the line, and interrupts only if it is empty.
struct ClearFirst;

impl ConditionalEventHandler for ClearFirst {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let empty = context.line().is_empty();
        Some(if empty { Cmd::Interrupt } else { Cmd::Kill(Movement::WholeLine) })
    }
}
