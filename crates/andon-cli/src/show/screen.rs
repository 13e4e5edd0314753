//! A run in the terminal, as it happens.

use std::io::{self, IsTerminal};

use andon_runtime::core::event::{Approval, HookChange, ModelEnd, ToolEnd};
use andon_runtime::core::message::ResultStatus;
use andon_runtime::{CallId, Delta, Event, FeedItem, Force, Kind, Outcome, ToolCall, ToolResult};

use super::{one_line, receipt, result_line};
use crate::client::forms::Cost;
use crate::follow::Listener;
use crate::print::{Flow, Style, out, plain, plain_line, text_columns};
use crate::terminal::interrupt::was_pulled;

/// Where things are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Everything to standard output: a conversation.
    Together,
    /// The answer to standard output and everything else to standard error: for use in a script.
    Apart,
}

/// What the open line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Answer,
    Thought,
    /// What a running tool shows of its work.
    Tool,
}

/// A terminal that shows a run.
pub(crate) struct Screen {
    streams: Streams,
    flow: Flow,
    speaker: Speaker,
    /// The calls that were announced, to show results by name.
    calls: Vec<ToolCall>,
    /// The calls in progress.
    running: Vec<CallId>,
    /// Whether the open line is a question.
    is_asking: bool,
    /// Whether the last line was a tool's result: an empty line then separates it from the answer.
    is_after_result: bool,
}

impl Screen {
    pub(crate) fn new(streams: Streams) -> Self {
        Self {
            streams,
            flow: Flow::new(text_columns()),
            speaker: Speaker::Answer,
            calls: Vec::new(),
            running: Vec::new(),
            is_asking: false,
            is_after_result: false,
        }
    }

    /// Writes a line beside the answer.
    pub(crate) fn note(&mut self, line: &str) -> io::Result<()> {
        self.end_line()?;
        self.write_beside(&format!("{line}\n"))
    }

    /// Writes a run's receipt: all of it if the run was stopped, otherwise one line.
    pub(crate) fn account(&mut self, outcome: &Outcome, cost: Option<&Cost>) -> io::Result<()> {
        let text = match outcome.stop_reason() {
            "cancelled" => receipt::full(outcome, cost),
            _ => receipt::short(outcome),
        };
        self.end_line()?;
        (self.speaker, self.is_after_result) = (Speaker::Answer, false);
        self.write_beside(&format!("\n{text}"))
    }

    fn say(&mut self, speaker: Speaker, text: &str) -> io::Result<()> {
        if speaker != self.speaker {
            self.end_line()?;
            if self.speaker == Speaker::Thought {
                self.write_beside("\n")?;
            }
            self.speaker = speaker;
        }
        if std::mem::take(&mut self.is_after_result) {
            self.write_beside("\n")?;
        }
        // A terminal may change its size.
        self.flow.set_width(text_columns());
        let text = self.flow.broken(text);
        match speaker {
            Speaker::Answer => out::write_answer(&text),
            Speaker::Thought | Speaker::Tool => {
                let dim = Style::DIM;
                self.write_beside(&format!("{dim}{text}{dim:#}"))
            }
        }
    }

    /// Ends the line that is open, on the stream where it is open.
    fn end_line(&mut self) -> io::Result<()> {
        if self.flow.at_start() {
            return Ok(());
        }
        self.flow.line_ended();
        match self.speaker {
            Speaker::Answer => out::write_answer("\n"),
            Speaker::Thought | Speaker::Tool => self.write_beside("\n"),
        }
    }

    fn write_beside(&mut self, text: &str) -> io::Result<()> {
        match self.streams {
            Streams::Together => out::write(text),
            Streams::Apart => out::write_beside(text),
        }
    }

    fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        match &delta.kind {
            // A program that reads the answer gets it unchanged; a terminal would obey what is in it.
            Kind::Text if out::is_terminal() => self.say(Speaker::Answer, &plain(&delta.text)),
            Kind::Text => self.say(Speaker::Answer, &delta.text),
            Kind::Thinking => self.say(Speaker::Thought, &plain(&delta.text)),
            // A call is shown when its arguments are whole.
            Kind::ToolInput(_) => Ok(()),
            Kind::ToolOutput(_) => self.say(Speaker::Tool, &plain(&delta.text)),
            #[cfg(not(andon_whole))]
            _ => Ok(()),
        }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Message { message } => message.calls().try_for_each(|call| self.call(call)),
            Event::HookFinished { change: Some(change), .. } => self.changed(change),
            Event::ToolStarted { call, .. } => {
                self.running.push(call.clone());
                Ok(())
            }
            Event::ToolFinished { call, end, result, .. } => {
                self.running.retain(|running| running != call);
                self.result(call, tool_word(*end, result), result)
            }
            Event::ToolRefused { call, result, .. } => self.result(call, "was refused", result),
            Event::ApprovalResolved { verdict, .. } => self.resolved(verdict),
            Event::CancelRequested { request, .. } => self.stopping(request.force),
            Event::GraceEnded { calls } => calls.iter().try_for_each(|call| {
                let line = format!("  {}: its grace is over", self.name_of(call));
                self.note(&line)
            }),
            Event::ModelFinished { end: ModelEnd::Failed { failure }, .. } => {
                let bad = Style::BAD;
                self.note(&format!("{bad}The model call failed:{bad:#} {}", plain_line(&failure.to_string())))
            }
            Event::BackoffStarted { delay_ms } => self.note(&format!("Trying again in {delay_ms} ms.")),
            _ => Ok(()),
        }
    }

    /// A hook has changed something that was shown, or that a person may be asked about.
    fn changed(&mut self, change: &HookChange) -> io::Result<()> {
        match change {
            HookChange::Call { call } => {
                self.note("A rule of the program changed this call:")?;
                self.calls.retain(|known| known.id != call.id);
                self.call(call)
            }
            HookChange::Result { result } => self.result(&result.call, "was replaced", result),
            HookChange::Answer { answer, is_withdrawn } => {
                let what = if *is_withdrawn { "withdrew this answer" } else { "changed this answer" };
                self.note(&format!("A rule of the program {what}: {}", plain_line(&answer.text())))
            }
            HookChange::Input { input } => {
                self.note(&format!("A rule of the program changed the prompt: {}", plain_line(&input.text())))
            }
            // It was not shown either.
            HookChange::Request { .. } => Ok(()),
            #[cfg(not(andon_whole))]
            _ => Ok(()),
        }
    }

    fn call(&mut self, call: &ToolCall) -> io::Result<()> {
        self.calls.push(call.clone());
        let (tool, name, arguments) = (Style::TOOL, plain_line(&call.name), one_line(&call.arguments));
        self.note(&format!("{tool}→ {name}{tool:#} {arguments}"))
    }

    fn result(&mut self, call: &CallId, word: &str, result: &ToolResult) -> io::Result<()> {
        let (tool, name, line) = (Style::TOOL, self.name_of(call), result_line(result));
        self.note(&format!("{tool}← {name}{tool:#} {word}: {line}"))?;
        self.is_after_result = true;
        Ok(())
    }

    fn resolved(&mut self, verdict: &Approval) -> io::Result<()> {
        // If a person typed the answer, that ended the line of the question.
        let was_typed = io::stdin().is_terminal() && !matches!(verdict, Approval::Closed);
        if std::mem::take(&mut self.is_asking) && !was_typed {
            self.write_beside("\n")?;
        }
        match verdict {
            Approval::Approved { .. } => self.note("  approved"),
            Approval::Denied { .. } => self.note("  denied"),
            Approval::Closed => self.note("  no longer needed"),
            #[cfg(not(andon_whole))]
            other => self.note(&format!("  {}", other.as_str())),
        }
    }

    fn name_of(&self, call: &CallId) -> String {
        let known = self.calls.iter().rev().find(|known| known.id == *call);
        known.map_or_else(|| plain_line(call.as_str()), |known| plain_line(&known.name))
    }

    /// Announces a stop if tools are running, which may take a while. Otherwise the receipt comes at once.
    fn stopping(&mut self, force: Force) -> io::Result<()> {
        if self.running.is_empty() {
            return Ok(());
        }
        let (stop, names) = (Style::STOP, self.running.iter().map(|call| self.name_of(call)).collect::<Vec<_>>());
        let (has, was, is, it) =
            if names.len() == 1 { ("has", "was", "is", "it") } else { ("have", "were", "are", "them") };
        let names = names.join(" and ");
        let how = match force {
            Force::AfterTurn => format!("after {names} {has} finished."),
            // Without a Ctrl-C here, this terminal cannot stop it harder.
            Force::Graceful if was_pulled() => format!("{names} {was} told to stop. Ctrl-C again stops {it} now."),
            Force::Graceful => format!("{names} {was} told to stop."),
            Force::Now => format!("{names} {is} being stopped now."),
        };
        self.note(&format!("{stop}■ Stopping:{stop:#} {how}"))
    }
}

impl Listener for Screen {
    fn item(&mut self, item: &FeedItem) -> io::Result<()> {
        match item {
            FeedItem::Fact(record) => self.event(&record.event),
            FeedItem::Delta(delta) => self.delta(delta),
            FeedItem::TextLost { .. } => self.note("(some text was lost in a crash)"),
            #[cfg(not(andon_whole))]
            _ => Ok(()),
        }
    }

    fn ask(&mut self, call: &ToolCall) -> io::Result<()> {
        let stop = Style::STOP;
        self.end_line()?;
        self.is_asking = true;
        // The line that announced the call may have been cut, and a person must see all of what they approve.
        if one_line(&call.arguments).ends_with('…') {
            self.write_beside(&format!("{}\n", plain_line(&call.arguments)))?;
        }
        self.write_beside(&format!("{stop}?{stop:#} May {} run? [y/n] ", plain_line(&call.name)))
    }

    fn aside(&mut self, words: &str) -> io::Result<()> {
        let dim = Style::DIM;
        self.note(&format!("{dim}({words}){dim:#}"))
    }
}

fn tool_word(end: ToolEnd, result: &ToolResult) -> &'static str {
    match (end, result.status) {
        (ToolEnd::Finished, ResultStatus::Ok) => "answered",
        (ToolEnd::Finished, _) => "failed",
        (ToolEnd::Panicked, _) => "crashed",
        (ToolEnd::Cut, _) => "stopped",
        (ToolEnd::Unknown, _) => "stopped, effect unknown",
        (ToolEnd::NeverStarted, _) => "not run",
        (ToolEnd::Leaked, _) => "leaked",
        (ToolEnd::Detached, _) => "still running in the background",
        #[cfg(not(andon_whole))]
        _ => "ended",
    }
}
