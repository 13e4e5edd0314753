//! Following one run to its end: its feed to a listener, its questions to a person.

use std::io;
use std::sync::Arc;

use andon::core::event::Approval;
use andon::{CallId, Cancel, Event, FeedItem, Outcome, Reason, Run, ToolCall};

use crate::input::{Input, Typed};
use crate::terminal;

/// Who is shown a run.
pub(crate) trait Listener {
    /// Shows one item of its feed.
    fn item(&mut self, item: &FeedItem) -> io::Result<()>;

    /// Asks whether a call may be made; the answer comes from the [`Approver`].
    fn ask(&mut self, call: &ToolCall) -> io::Result<()>;
}

/// Who decides about calls that need a yes.
pub(crate) enum Approver<'a> {
    /// A person at standard input.
    Person(&'a mut Input),
    /// Yes to everything.
    Yes,
    /// Nobody: so no.
    Nobody,
}

/// Shows a run until it has settled. If the listener cannot be written to any more, the run is stopped: nobody is there
/// to want its answer.
pub(crate) async fn follow(
    run: &Run,
    listener: &mut dyn Listener,
    approver: &mut Approver<'_>,
) -> (Arc<Outcome>, io::Result<()>) {
    let mut following = Following { run, listener, calls: Vec::new(), open: Vec::new() };
    let shown = following.until_settled(approver).await;
    if shown.is_err() {
        let gone = Cancel::graceful().reason(Reason::ClientDisconnected).by("terminal");
        run.cancel(gone.note("the output was closed"));
    }
    (run.outcome().await, shown)
}

struct Following<'a> {
    run: &'a Run,
    listener: &'a mut dyn Listener,
    calls: Vec<ToolCall>,
    /// Calls that wait for a yes, the one that is asked about first.
    open: Vec<CallId>,
}

enum Next {
    Item(FeedItem),
    Typed(Typed),
}

impl Following<'_> {
    async fn until_settled(&mut self, approver: &mut Approver<'_>) -> io::Result<()> {
        let mut feed = self.run.feed();
        loop {
            let next = tokio::select! {
                biased;
                item = feed.next() => item.map(Next::Item),
                typed = typed(approver), if !self.open.is_empty() => Some(Next::Typed(typed)),
            };
            match next {
                None => return Ok(()),
                Some(Next::Item(item)) => self.show(&item, approver)?,
                Some(Next::Typed(typed)) => self.answer(&typed)?,
            }
        }
    }

    fn show(&mut self, item: &FeedItem, approver: &Approver<'_>) -> io::Result<()> {
        self.listener.item(item)?;
        let FeedItem::Fact(record) = item else { return Ok(()) };
        match &record.event {
            Event::Message { message } => self.calls.extend(message.calls().cloned()),
            Event::ApprovalRequested { call, .. } => self.question(call, approver)?,
            Event::ApprovalResolved { call, verdict } => {
                let asked = self.open.first().cloned();
                self.open.retain(|open| open != call);
                // The question on the screen was closed by a stop; another may be open still.
                if asked.as_ref() == Some(call) && matches!(**verdict, Approval::Closed) {
                    self.ask_next()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn question(&mut self, call: &CallId, approver: &Approver<'_>) -> io::Result<()> {
        // A decision that comes too late is refused, and the feed tells why: the run was stopped.
        match approver {
            Approver::Yes => self.approve(call, "--yes"),
            Approver::Nobody => drop(self.run.deny(call, None, Some("Nobody was there to be asked."))),
            Approver::Person(_) => {
                self.open.push(call.clone());
                if self.open.len() == 1 {
                    return self.ask_next();
                }
            }
        }
        Ok(())
    }

    /// Says yes to what was shown, and to nothing else. As above: one that comes too late changes nothing.
    fn approve(&self, call: &CallId, by: &str) {
        if let Some(shown) = self.calls.iter().find(|shown| shown.id == *call) {
            let _ = self.run.approve_exactly(call, shown.digest(), Some(by));
        }
    }

    /// Puts the first open question on the screen, with what is typed visible.
    fn ask_next(&mut self) -> io::Result<()> {
        let first = self.open.first();
        let call = self.calls.iter().find(|call| Some(&call.id) == first);
        match call {
            Some(call) => {
                terminal::restore();
                self.listener.ask(call)
            }
            None => {
                terminal::hush();
                Ok(())
            }
        }
    }

    fn answer(&mut self, typed: &Typed) -> io::Result<()> {
        let Some(call) = self.open.first().cloned() else { return Ok(()) };
        let word = match typed {
            Typed::Line(line) => line.trim().to_lowercase(),
            Typed::Interrupted | Typed::End => "n".to_owned(),
        };
        // As above: a decision that comes too late changes nothing.
        match word.as_str() {
            "y" | "yes" => self.approve(&call, "terminal"),
            "n" | "no" => drop(self.run.deny(&call, Some("terminal"), None)),
            _ => return self.ask_next(),
        }
        self.open.remove(0);
        self.ask_next()
    }
}

/// The next line of the person who decides.
async fn typed(approver: &mut Approver<'_>) -> Typed {
    match approver {
        Approver::Person(input) => input.line().await,
        Approver::Yes | Approver::Nobody => std::future::pending().await,
    }
}
