//! Runs that are written as fast as a journal takes them.

use std::sync::Arc;

use andon_runtime::core::answer::{Kind, Lump, Span};
use andon_runtime::core::cancel::{CancelRequest, Force, Reason};
use andon_runtime::core::event::{Accepted, AddendumKind, Entry, Event, Record};
use andon_runtime::core::message::Message;
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::core::usage::Used;
use andon_runtime::{Batch, Journal, RequestFate, RunId, SessionKey};

pub(crate) fn stamp(at: u64) -> Stamp {
    Stamp { wall: Wall(at), mono_us: at }
}

pub(crate) fn fact(seq: u64, event: Event) -> Entry {
    Entry::Fact(Arc::new(Record::new(seq, 1, stamp(seq), event)))
}

pub(crate) fn accepted(run: &RunId, session: &SessionKey, prompt: &str) -> Entry {
    let accepted = Accepted::new(run.clone(), session.clone(), Arc::new(Message::user(prompt)));
    fact(1, Event::RunAccepted { accepted: Arc::new(accepted) })
}

fn lump(span: &mut Span, text: &str) -> Entry {
    let (bytes, marks) = (span.text.len(), span.marks.len());
    span.push(&Kind::Text, text);
    let lump: Lump = span.lump_from(bytes, marks).unwrap();
    Entry::Lump(Arc::new(lump))
}

/// Writes a run until it is told to end: facts and text, several batches at a time. Everything must be acknowledged, and stored once.
pub(crate) async fn write_run(journal: Arc<dyn Journal>, name: String, is_over: impl Fn() -> bool) -> usize {
    let (run, session) = (RunId::new(&name).unwrap(), SessionKey::new("shop", "ada", &name).unwrap());
    let batch = |entries: Vec<Entry>| journal.append(Batch::new(run.clone(), 1, entries));
    let mut told = vec![accepted(&run, &session, "Go."), fact(2, Event::RunStarted)];
    batch(told.clone()).await.unwrap();
    let (mut seq, mut asked) = (2, 0);
    while !is_over() {
        let mut appends = Vec::new();
        let mut span = Span::new(seq);
        for _ in 0..fastrand::usize(1..4) {
            let mut entries = Vec::new();
            for _ in 0..fastrand::usize(1..4) {
                if fastrand::bool() {
                    entries.push(lump(&mut span, "so weit "));
                } else {
                    seq += 1;
                    entries.push(fact(seq, Event::RunQuieted));
                    span = Span::new(seq);
                }
            }
            told.extend(entries.clone());
            appends.push(batch(entries));
        }
        for append in appends {
            assert_eq!(append.await, Ok(()), "{name}, before event {seq}");
        }
        if fastrand::u8(..8) == 0 {
            let request = CancelRequest::new(Reason::Requested, Force::Graceful, stamp(asked)).note(format!("{asked}"));
            assert_eq!(journal.request_cancel(&run, request).await, Ok(RequestFate::Recorded));
            let learned = AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::UNKNOWN) };
            assert_eq!(journal.append_addendum(&run, stamp(asked), learned).await, Ok(()));
            asked += 1;
        }
    }
    let end = fact(seq + 1, Event::RunSettled { outcome: Arc::new(Ending::Lost) });
    told.push(end.clone());
    assert_eq!(batch(vec![end]).await, Ok(()));
    let stored = journal.read(&run).await.unwrap().unwrap();
    assert!(stored.entries == told, "{name}: what was acknowledged is not what is stored");
    let notes: Vec<_> =
        stored.requests.iter().filter_map(|request| request.note.as_deref().map(str::to_owned)).collect();
    assert_eq!(notes, (0..asked).map(|number| number.to_string()).collect::<Vec<_>>(), "each request once");
    assert_eq!(stored.addenda.len() as u64, asked, "each addendum once");
    told.len()
}
