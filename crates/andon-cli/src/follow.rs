//! Following one run to its end, locally or on a server: its feed goes to a listener, its questions to a person.

use std::io;
use std::sync::Arc;

use andon_runtime::core::event::HookChange;
use andon_runtime::{
    ApprovalDecision, CallId, Cursor, Digest, Event, Feed, FeedItem, Force, JournalError, Message, Outcome, Reason,
    Run, RunId, ToolCall, Watcher,
};
use anyhow::{Context, bail};

use crate::client::forms::ServerReceipt;
use crate::client::{FeedUpdate, RemoteFeed, RemoteRun, answer_in};
use crate::how::How;
use crate::print::out::write_beside;
use crate::print::plain_line;
use crate::terminal;
use crate::terminal::input::{Input, TerminalInput};
use crate::terminal::interrupt::SignalTarget;

/// What a run is shown on.
pub(crate) trait Listener {
    /// Shows one item of its feed.
    fn item(&mut self, item: &FeedItem) -> io::Result<()>;

    /// Asks whether a call may be made; the answer comes from the [`Approver`].
    fn ask(&mut self, call: &ToolCall) -> io::Result<()> {
        write_beside(&question(call))
    }

    /// Shows a remark about the run that is not part of it.
    fn aside(&mut self, words: &str) -> io::Result<()> {
        write_beside(&format!("{words}\n"))
    }
}

/// The question, with the model's text made plain.
fn question(call: &ToolCall) -> String {
    format!("May {} run with {}? [y/n] ", plain_line(&call.name), plain_line(&call.arguments))
}

/// Who decides about calls that need approval.
pub(crate) enum Approver<'a> {
    /// A person at standard input.
    Person(&'a mut Input),
    /// Everything is approved.
    Yes,
    /// Nobody, so everything is denied.
    Nobody,
    /// Somebody elsewhere, with this command.
    Elsewhere(String),
}

/// The person left during a run, which goes on.
#[derive(Debug, thiserror::Error)]
#[error("left")]
pub(crate) struct LeftRunning;

/// A run to follow.
#[derive(Debug)]
pub(crate) enum Subject {
    /// In this process.
    Local(Run),
    /// On a server.
    Remote(RemoteRun),
}

impl Subject {
    pub(crate) fn id(&self) -> &RunId {
        match self {
            Self::Local(run) => run.id(),
            Self::Remote(run) => run.id(),
        }
    }

    /// Counts as one of its readers until dropped. A server counts its readers itself.
    pub(crate) fn watch(&self) -> Option<Watcher> {
        match self {
            Self::Local(run) => Some(run.watch()),
            Self::Remote(_) => None,
        }
    }

    /// What signals do to it.
    pub(crate) fn target(&self) -> SignalTarget {
        match self {
            Self::Local(run) => {
                let cord = run.cord();
                SignalTarget { pull: Box::new(move |how| drop(cord.pull(how.cancel()))), last_words: None }
            }
            Self::Remote(run) => {
                let (id, client) = (run.id(), run.client());
                let stop = client.command(&format!("cancel {id} --now"));
                let last_words = format!("Run {id} may still be running at {}. To stop it: {stop}", client.shown());
                let run = run.clone();
                SignalTarget { pull: Box::new(move |how| run.pull(how)), last_words: Some(last_words) }
            }
        }
    }

    fn pull(&self, how: How) {
        match self {
            Self::Local(run) => drop(run.cancel(how.cancel())),
            Self::Remote(run) => run.pull(how),
        }
    }

    // A decision that comes too late is refused, and the feed says why: the run was stopped.
    fn approve(&self, call: &CallId, digest: Digest, by: &str) {
        match self {
            Self::Local(run) => drop(run.decide(call).approve_exactly(digest).by(by).send()),
            Self::Remote(run) => run.approve(call, digest),
        }
    }

    fn deny(&self, call: &CallId, by: Option<&str>, why: Option<&str>) {
        match self {
            Self::Local(run) => drop(denial(run, call, by, why).send()),
            Self::Remote(run) => run.deny(call, why),
        }
    }

    /// Its current receipt.
    pub(crate) async fn receipt(&self) -> anyhow::Result<Option<ServerReceipt>> {
        match self {
            Self::Local(run) => Ok(run.receipt().map(ServerReceipt::from)),
            Self::Remote(run) => Ok(Some(run.client().receipt(run.id()).await?)),
        }
    }
}

/// The feed of a run.
enum Items {
    Local(Feed),
    Remote(RemoteFeed),
}

impl Items {
    /// # Cancel safety
    ///
    /// Cancel safe: a step is taken only when it is returned.
    async fn next(&mut self) -> FeedUpdate {
        match self {
            Self::Local(feed) => {
                feed.next().await.map_or(FeedUpdate::End(Ok(())), |item| FeedUpdate::Item(Box::new(item)))
            }
            Self::Remote(feed) => feed.next().await,
        }
    }
}

/// Shows a run until it has settled. If the listener can no longer be written to, the run is stopped: nobody wants its answer.
pub(crate) async fn follow(
    run: &Subject,
    listener: &mut dyn Listener,
    approver: &mut Approver<'_>,
) -> anyhow::Result<(Arc<Outcome>, io::Result<()>)> {
    let mut following = Following::new(run, listener, Cursor::default());
    let shown = following.until_settled(approver).await?;
    if shown.is_err() {
        let gone = How::asked(Force::Graceful, Some("the output was closed"));
        run.pull(How { reason: Reason::ClientDisconnected, by: "terminal".into(), ..gone });
        following.drain().await?;
    }
    Ok((following.outcome().await?, shown))
}

/// Shows a run from a cursor on until it has settled, and does nothing to it.
pub(crate) async fn watch(
    run: &Subject,
    from: Cursor,
    listener: &mut dyn Listener,
    how_to_approve: String,
) -> anyhow::Result<Arc<Outcome>> {
    let mut following = Following::new(run, listener, from);
    following.until_settled(&mut Approver::Elsewhere(how_to_approve)).await??;
    following.outcome().await
}

struct Following<'a> {
    run: &'a Subject,
    /// Where to start.
    from: Cursor,
    items: Items,
    listener: &'a mut dyn Listener,
    calls: Vec<ToolCall>,
    /// What each question asks to approve. It is not always the digest of the call's arguments: the server says what it is.
    digests: Vec<(CallId, Digest)>,
    /// Calls that need approval; the first is being asked about.
    open: Vec<CallId>,
    /// The last answer.
    answer: Option<Arc<Message>>,
    /// Whether the person was told that the journal cannot record the run's end.
    is_stalled: bool,
}

enum Next {
    Update(FeedUpdate),
    Stalled(JournalError),
    Typed(TerminalInput),
    Left,
}

/// Waits until the journal fails to record the end of a local run. A server reports that itself.
async fn stalled(run: &Subject) -> JournalError {
    if let Subject::Local(run) = run
        && let Err(why) = run.settled().await
    {
        return why;
    }
    std::future::pending().await
}

impl<'a> Following<'a> {
    fn new(run: &'a Subject, listener: &'a mut dyn Listener, from: Cursor) -> Self {
        let items = match run {
            Subject::Local(run) => Items::Local(run.feed_from(from)),
            Subject::Remote(run) => Items::Remote(run.feed(from)),
        };
        Self {
            run,
            from,
            items,
            listener,
            calls: Vec::new(),
            digests: Vec::new(),
            open: Vec::new(),
            answer: None,
            is_stalled: false,
        }
    }

    /// Shows everything until the end; the inner error is the screen's.
    async fn until_settled(&mut self, approver: &mut Approver<'_>) -> anyhow::Result<io::Result<()>> {
        loop {
            let (is_asked, can_be_left) = (!self.open.is_empty(), matches!(self.run, Subject::Remote(_)));
            let next = tokio::select! {
                biased;
                step = self.items.next() => Next::Update(step),
                why = stalled(self.run), if !self.is_stalled => Next::Stalled(why),
                next = typed(approver, is_asked, can_be_left) => next,
            };
            let shown = match next {
                Next::Update(FeedUpdate::End(end)) => return end.map(Ok).with_context(|| self.left_behind()),
                Next::Update(FeedUpdate::Item(item)) => self.show(&item, approver),
                Next::Update(FeedUpdate::Note(words)) => self.listener.aside(&words),
                Next::Stalled(why) => {
                    self.is_stalled = true;
                    let words = format!("{why}. The run was stopped; its end is recorded as soon as possible.");
                    self.listener.aside(&words)
                }
                Next::Typed(typed) => self.answer(&typed),
                Next::Left => bail!(LeftRunning),
            };
            if shown.is_err() {
                return Ok(shown);
            }
        }
    }

    /// Waits for the end, and shows nothing.
    async fn drain(&mut self) -> anyhow::Result<()> {
        loop {
            match self.items.next().await {
                FeedUpdate::End(end) => return end.with_context(|| self.left_behind()),
                FeedUpdate::Item(item) => self.take_in(&item),
                FeedUpdate::Note(_) => {}
            }
        }
    }

    /// How the run ended, once it has.
    async fn outcome(self) -> anyhow::Result<Arc<Outcome>> {
        match self.run {
            Subject::Local(run) => Ok(run.outcome().await),
            Subject::Remote(run) => run.outcome(self.answer).await,
        }
    }

    /// The error for a run that can no longer be followed.
    fn left_behind(&self) -> String {
        let id = self.run.id();
        match self.run {
            Subject::Local(_) => format!("run {id} cannot be followed"),
            Subject::Remote(run) => {
                let watch = run.client().command(&format!("watch {id}"));
                format!(
                    "run {id} can no longer be followed, but may still be running: to watch it later, use `{watch}`"
                )
            }
        }
    }

    fn take_in(&mut self, item: &FeedItem) {
        if let Some(answer) = answer_in(item) {
            self.calls.extend(answer.calls().cloned());
            self.answer = Some(Arc::clone(answer));
        }
        let FeedItem::Fact(record) = item else { return };
        match &record.event {
            Event::ApprovalRequested { call, arguments: Some(digest) } => self.digests.push((call.clone(), *digest)),
            Event::HookFinished { change: Some(change), .. } => {
                // A person is asked about the call as it is now.
                if let HookChange::Call { call } = &**change
                    && let Some(shown) = self.calls.iter_mut().find(|shown| shown.id == call.id)
                {
                    shown.clone_from(call);
                }
            }
            _ => {}
        }
    }

    fn show(&mut self, item: &FeedItem, approver: &Approver<'_>) -> io::Result<()> {
        if let FeedItem::TextLost { at } = item
            && at.seq < self.from.seq
        {
            // Nothing was lost: that event never existed.
            let words = format!("There is no event {} yet, so this starts after {at}.", self.from);
            return self.listener.aside(&words);
        }
        self.listener.item(item)?;
        self.take_in(item);
        let FeedItem::Fact(record) = item else { return Ok(()) };
        match &record.event {
            Event::ApprovalRequested { call, .. } => self.question(call, approver)?,
            Event::ApprovalResolved { call, .. } => {
                let asked = self.open.first().cloned();
                self.open.retain(|open| open != call);
                // The question on the screen was closed by a stop, or answered elsewhere. Another may still be open.
                if asked.as_ref() == Some(call) {
                    self.ask_next()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn question(&mut self, call: &CallId, approver: &Approver<'_>) -> io::Result<()> {
        match approver {
            Approver::Yes => self.approve(call, "--yes"),
            Approver::Nobody => self.run.deny(call, None, Some("Nobody was there to approve it.")),
            Approver::Elsewhere(command) => {
                return self.listener.aside(&format!("This call needs approval. To decide: {command}"));
            }
            Approver::Person(_) => {
                self.open.push(call.clone());
                if self.open.len() == 1 {
                    return self.ask_next();
                }
            }
        }
        Ok(())
    }

    /// Approves exactly what was shown. An approval that comes too late changes nothing.
    fn approve(&self, call: &CallId, by: &str) {
        if let Some(shown) = self.calls.iter().find(|shown| shown.id == *call) {
            let asked = self.digests.iter().rfind(|(asked, _)| asked == call);
            self.run.approve(call, asked.map_or_else(|| shown.digest(), |(_, digest)| *digest), by);
        }
    }

    /// Puts the first open question on the screen, and turns echo back on.
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

    fn answer(&mut self, typed: &TerminalInput) -> io::Result<()> {
        let Some(call) = self.open.first().cloned() else { return Ok(()) };
        let word = match typed {
            TerminalInput::Line(line) => line.trim().to_lowercase(),
            TerminalInput::Interrupted | TerminalInput::End => "n".to_owned(),
        };
        // A decision that comes too late changes nothing.
        match word.as_str() {
            "y" | "yes" => self.approve(&call, "terminal"),
            "n" | "no" => self.run.deny(&call, Some("terminal"), None),
            _ => return self.ask_next(),
        }
        self.open.remove(0);
        self.ask_next()
    }
}

fn denial(run: &Run, call: &CallId, by: Option<&str>, why: Option<&str>) -> ApprovalDecision {
    let mut denial = run.decide(call).deny();
    if let Some(by) = by {
        denial = denial.by(by);
    }
    if let Some(why) = why {
        denial = denial.note(why);
    }
    denial
}

/// The next line from the person who decides, or `Left` if they stopped following.
async fn typed(approver: &mut Approver<'_>, is_asked: bool, can_be_left: bool) -> Next {
    match approver {
        Approver::Person(input) if is_asked => Next::Typed(input.line().await),
        Approver::Person(input) if can_be_left => {
            input.left().await;
            Next::Left
        }
        Approver::Person(_) | Approver::Yes | Approver::Nobody | Approver::Elsewhere(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use andon_runtime::{Agent, CallDecision, Runtime};
    use andon_testkit::ScriptedModel;
    use andon_testkit::model::Act;
    use andon_testkit::tools::{ToolLog, quick};
    use serde_json::json;

    use super::*;

    struct Nowhere;

    impl Listener for Nowhere {
        fn item(&mut self, _: &FeedItem) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_a_hook_changed_is_approved_as_it_is_now() {
        let changes = [
            CallDecision::ChangeArguments(json!({"n": 9})),
            CallDecision::ChangeCall("danger".into(), json!({})),
            CallDecision::ChangeCall("danger".into(), json!({"n": 9})),
        ];
        for change in changes {
            let log = ToolLog::new();
            let call: Vec<Act> = Act::call(0, "c", "look", "{}").into_iter().chain([Act::tool_use()]).collect();
            let model = ScriptedModel::new([call, vec![Act::text("Done."), Act::end()]]);
            let [look, danger] = ["look", "danger"].map(|name| quick(name, &log).needs_approval());
            let runtime = Runtime::builder().one_lane().build();
            let agent = Agent::builder().model(model).tool(look).tool(danger).before_tool(move |_| change.clone());
            let run = agent.runtime(&runtime).build().unwrap().start("Do it.").unwrap();
            let subject = Subject::Local(run);
            let (outcome, shown) = Box::pin(follow(&subject, &mut Nowhere, &mut Approver::Yes)).await.unwrap();
            shown.unwrap();
            assert_eq!((outcome.text_so_far().as_str(), log.started()), ("Done.", 1));
        }
    }

    #[test]
    fn the_terminal_does_not_obey_what_the_model_wrote() {
        let id = CallId::new("c1").unwrap();
        let call = ToolCall::new(id, "sh\u{1b}[2Jell", "{\"a\":\"\u{1b}]0;x\u{7}\"}");
        assert!(!question(&call).contains(['\u{1b}', '\u{7}']));
    }
}
