//! Runs written by hand: what a driver would hand to its journal, entry by entry.

use std::sync::Arc;

use andon_runtime::core::answer::{AnswerEnd, CallHead, Kind, Lump, MarkKind, Span, assemble};
use andon_runtime::core::cancel::{CancelRequest, Force, Reason};
use andon_runtime::core::event::{Accepted, Addendum, Entry, Epoch, Event, ModelEnd, Record, Seq};
use andon_runtime::core::message::{Cut, Message, Role};
use andon_runtime::core::outcome::{Ending, ModelStop};
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::core::usage::{Usage, Used};
use andon_runtime::{Append, Batch, CallId, Journal, JournaledRun, RunId, SessionKey};

use super::subject::Subject;

/// A run that is written by hand. Each entry continues from the one before.
#[derive(Debug, Clone)]
pub(super) struct Story {
    run: RunId,
    session: SessionKey,
    pub(super) prompt: String,
    /// The writer's epoch.
    pub(super) epoch: Epoch,
    /// The number of the last event.
    pub(super) seq: Seq,
    /// When the next event happens.
    pub(super) wall: u64,
    /// What streamed since the last event.
    span: Span,
    /// What streamed since the model was called.
    spans: Vec<Span>,
    model_calls: u32,
}

pub(super) fn session(id: &str) -> SessionKey {
    SessionKey::new("shop", "ada", id).unwrap()
}

pub(super) fn key(tenant: &str, app: &str, user: &str, id: &str) -> SessionKey {
    SessionKey::new(app, user, id).unwrap().tenant(tenant)
}

pub(super) fn stamp(wall: u64) -> Stamp {
    Stamp { wall: Wall(wall), mono_us: wall }
}

pub(super) fn request(note: &str) -> CancelRequest {
    CancelRequest::new(Reason::Requested, Force::Graceful, stamp(7)).by("ada").note(note)
}

pub(super) fn call(id: &str) -> CallId {
    CallId::new(id).unwrap()
}

/// A call's input, as a kind of streamed text.
pub(super) fn input(index: usize, id: &str) -> Kind {
    Kind::ToolInput(Arc::new(CallHead { index, id: call(id), name: "look".to_owned() }))
}

/// All that is stored of a run, for comparison.
pub(super) type Parts = (Epoch, Vec<Entry>, Vec<Addendum>, Vec<Arc<CancelRequest>>, Option<Stamp>);

pub(super) fn parts(stored: JournaledRun) -> Parts {
    (stored.epoch, stored.entries, stored.addenda, stored.requests, stored.settled_at)
}

impl Story {
    pub(super) fn new(run: &str) -> Self {
        Self::within(run, &session("s"))
    }

    pub(super) fn within(run: &str, session: &SessionKey) -> Self {
        Self {
            run: RunId::new(run).unwrap(),
            session: session.clone(),
            prompt: format!("What about {run}?"),
            epoch: 1,
            seq: 0,
            wall: 1_000,
            span: Span::default(),
            spans: Vec::new(),
            model_calls: 0,
        }
    }

    pub(super) fn at(mut self, wall: u64) -> Self {
        self.wall = wall;
        self
    }

    pub(super) fn asking(mut self, prompt: &str) -> Self {
        prompt.clone_into(&mut self.prompt);
        self
    }

    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    pub(super) fn key(&self) -> &SessionKey {
        &self.session
    }

    // ---- entries ----

    pub(super) fn fact(&mut self, event: Event) -> Entry {
        self.seq += 1;
        self.wall += 1;
        if !self.span.is_empty() {
            self.spans.push(self.span.clone());
        }
        self.span = Span::new(self.seq);
        let (seq, epoch, at) = (self.seq, self.epoch, stamp(self.wall));
        Entry::Fact(Arc::new(Record::new(seq, epoch, at, event)))
    }

    pub(super) fn accepted(&mut self) -> Entry {
        let input = Arc::new(Message::user(self.prompt.clone()));
        let (run, session) = (self.run.clone(), self.session.clone());
        let accepted = Accepted::new(run, session, input);
        self.fact(Event::RunAccepted { accepted: Arc::new(accepted) })
    }

    pub(super) fn started(&mut self) -> Entry {
        self.fact(Event::RunStarted)
    }

    /// The first two events of a run that need not wait.
    pub(super) fn begun(&mut self) -> Vec<Entry> {
        vec![self.accepted(), self.started()]
    }

    /// An event that says little and may happen at any time.
    pub(super) fn quieted(&mut self) -> Entry {
        self.fact(Event::RunQuieted)
    }

    pub(super) fn model_started(&mut self) -> Entry {
        self.model_calls += 1;
        self.spans.clear();
        self.fact(Event::model_started(self.model_calls, "told"))
    }

    /// Text that streams.
    pub(super) fn streamed(&mut self, kind: &Kind, text: &str) -> Entry {
        self.lump(|span| span.push(kind, text))
    }

    /// A mark in what streams, without bytes.
    pub(super) fn marked(&mut self, what: MarkKind) -> Entry {
        self.lump(|span| span.mark(what))
    }

    fn lump(&mut self, add: impl FnOnce(&mut Span)) -> Entry {
        let (bytes, marks) = (self.span.text.len(), self.span.marks.len());
        add(&mut self.span);
        let lump: Lump = self.span.lump_from(bytes, marks).expect("something streamed");
        Entry::Lump(Arc::new(lump))
    }

    /// The whole answer that streamed since the model was called, and the end of the call.
    pub(super) fn answered(&mut self, stop: ModelStop) -> Vec<Entry> {
        let parts = assemble(self.spans.iter().chain([&self.span]), AnswerEnd::Whole(stop));
        let message = Arc::new(Message::new(Role::Assistant, parts));
        let (call, used) = (self.model_calls, Used::whole(Usage::reported(3, 5)));
        let end = ModelEnd::Answered { stop };
        vec![
            self.fact(Event::Message { message }),
            self.fact(Event::Usage {
                call,
                used: Box::new(used),
                pending: None,
                answered_by: Some("story-1".into()),
                request_id: Some("req_1".into()),
                answer_changed: false,
            }),
            self.fact(Event::ModelFinished { call, end, first_piece_us: Some(4) }),
        ]
    }

    /// A part of an answer that was cut, and the end of the call. Nothing was reported.
    pub(super) fn cut(&mut self, text: &str) -> Vec<Entry> {
        let cut = Some(Cut::Cancelled(Reason::Requested));
        let message = Arc::new(Message::assistant(text).cut(cut));
        let (call, estimated) = (self.model_calls, Used::cut(Usage::reported(9, 1).running()));
        let end = ModelEnd::Cut;
        vec![
            self.fact(Event::Message { message }),
            self.fact(Event::usage(call, estimated)),
            self.fact(Event::ModelFinished { call, end, first_piece_us: Some(4) }),
        ]
    }

    pub(super) fn settled(&mut self) -> Entry {
        self.ended(Ending::Completed { stop: ModelStop::EndTurn })
    }

    pub(super) fn ended(&mut self, ending: Ending) -> Entry {
        self.fact(Event::RunSettled { outcome: Arc::new(ending) })
    }

    /// A run from its beginning to its end, which answers with this text.
    pub(super) fn whole(&mut self, answer: &str) -> Vec<Entry> {
        let mut entries = self.begun();
        entries.push(self.model_started());
        entries.push(self.streamed(&Kind::Text, answer));
        entries.extend(self.answered(ModelStop::EndTurn));
        entries.push(self.settled());
        entries
    }

    // ---- handing over ----

    /// Hands entries to a journal. Await it for the result.
    pub(super) fn give(&self, journal: &Arc<dyn Journal>, entries: impl Into<Vec<Entry>>) -> Append {
        journal.append(Batch::new(self.run.clone(), self.epoch, entries.into()))
    }

    /// Hands entries to a journal that must accept them.
    pub(super) async fn write(&self, subject: &Subject, entries: impl Into<Vec<Entry>>) {
        let given = self.give(subject.journal(), entries).await;
        assert_eq!(given, Ok(()), "run {}, epoch {}", self.run, self.epoch);
    }

    /// Tells more of the run, and hands it to a journal that must accept it.
    pub(super) async fn tell<E: Into<Vec<Entry>>>(&mut self, subject: &Subject, more: impl FnOnce(&mut Self) -> E) {
        let entries = more(self);
        self.write(subject, entries).await;
    }

    /// Hands entries to a journal that must refuse them and stay as it was.
    pub(super) async fn is_refused(&self, subject: &Subject, entries: impl Into<Vec<Entry>>, what: &str) {
        let before = subject.journal().read(&self.run).await.unwrap().map(parts);
        let entries = entries.into();
        let given = self.give(subject.journal(), entries.clone()).await;
        assert!(given.is_err(), "{what} was taken: {entries:?}");
        let after = subject.journal().read(&self.run).await.unwrap().map(parts);
        assert_eq!(before, after, "{what} was refused and has changed something");
    }

    /// A run that the journal has accepted and started.
    pub(super) async fn open(run: &str, subject: &Subject) -> Self {
        let mut story = Self::new(run);
        story.tell(subject, Self::begun).await;
        story
    }

    /// Hands one more event to a journal that must accept it.
    pub(super) async fn go_on(&mut self, subject: &Subject) {
        self.tell(subject, |run| [run.quieted()]).await;
    }

    /// Hands one more event to a journal that must refuse it.
    pub(super) async fn cannot_go_on(&mut self, subject: &Subject, what: &str) {
        let next = self.quieted();
        self.is_refused(subject, [next], what).await;
    }

    /// Hands the run's end to a journal that must accept it.
    pub(super) async fn settle(&mut self, subject: &Subject) {
        self.tell(subject, |run| [run.settled()]).await;
    }

    /// The same run, handed whole to a journal that must accept it.
    pub(super) async fn whole_in(mut self, subject: &Subject, answer: &str) -> Self {
        self.write_whole(subject, answer).await;
        self
    }

    /// Hands a whole run to a journal that must accept it.
    pub(super) async fn write_whole(&mut self, subject: &Subject, answer: &str) {
        self.tell(subject, |run| run.whole(answer)).await;
    }
}
