//! A session as JSON Lines: its whole journal, so that it can be moved to another machine or a bug replayed.
//!
//! The first line is the session, then what is kept with it, then each run with its entries in order. The last line
//! says how many lines came before it, so that a file that was cut short is noticed, and nothing of it is imported.

use std::sync::Arc;

use andon_core::answer::Lump;
use andon_core::cancel::CancelRequest;
use andon_core::event::{Addendum, Entry, Epoch, Event, Record};
use andon_core::id::{RunId, SessionKey};
use andon_core::progress::RunProgress;
use andon_core::time::{Stamp, Wall};
use andon_core::{FORMAT_VERSION, is_known_format};
use serde::{Deserialize, Serialize};

use crate::journal::sessions::{Attachment, SessionCopy, StateMap};
use crate::journal::{JournalError, JournaledRun};

/// Each process that takes up a run raises its epoch by one, so no run comes near this.
const MAX_EPOCH: Epoch = 1_000_000;

/// One line of an export.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "line")]
enum Line {
    Session {
        v: u16,
        session: SessionKey,
        created_at: Wall,
        state: StateMap,
    },
    Kept {
        kept: Attachment,
    },
    Run {
        run: RunId,
        epoch: Epoch,
        /// When its outcome was on disk, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settled_at: Option<Stamp>,
    },
    Fact {
        fact: Arc<Record>,
    },
    Lump {
        lump: Arc<Lump>,
    },
    Addendum {
        addendum: Addendum,
    },
    Request {
        request: Arc<CancelRequest>,
    },
    End {
        lines: usize,
    },
}

/// Why a session was not imported. Nothing of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ImportError {
    /// A line is not one that an export writes.
    #[error("line {line} is not one that `export` writes: {why}")]
    BadLine {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The export is cut short, or lines are missing.
    #[error("the export is incomplete: {0}; export the session again")]
    NotWhole(String),
    /// A run's record is not valid.
    #[error("the record of run {run} is not valid: {why}")]
    BadRun {
        /// The run.
        run: RunId,
        /// What is wrong with it.
        why: String,
    },
    /// The journal refused it.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Writes a session.
pub(crate) fn write(moved: &SessionCopy) -> Result<String, JournalError> {
    let SessionCopy { session, created_at, state, kept, runs } = moved;
    let (session, created_at, state) = (session.clone(), *created_at, state.clone());
    let mut text = String::new();
    add_line(&mut text, &Line::Session { v: FORMAT_VERSION, session, created_at, state })?;
    for kept in kept {
        add_line(&mut text, &Line::Kept { kept: kept.clone() })?;
    }
    for (run, stored) in runs {
        add_line(&mut text, &Line::Run { run: run.clone(), epoch: stored.epoch, settled_at: stored.settled_at })?;
        for entry in &stored.entries {
            let line = match entry {
                Entry::Fact(fact) => Line::Fact { fact: Arc::clone(fact) },
                Entry::Lump(lump) => Line::Lump { lump: Arc::clone(lump) },
            };
            add_line(&mut text, &line)?;
        }
        for addendum in &stored.addenda {
            add_line(&mut text, &Line::Addendum { addendum: addendum.clone() })?;
        }
        for request in &stored.requests {
            add_line(&mut text, &Line::Request { request: Arc::clone(request) })?;
        }
    }
    let lines = text.lines().count();
    add_line(&mut text, &Line::End { lines })?;
    Ok(text)
}

fn add_line(text: &mut String, line: &Line) -> Result<(), JournalError> {
    let json = serde_json::to_string(line).map_err(|error| JournalError::Storage(error.to_string()))?;
    text.push_str(&json);
    text.push('\n');
    Ok(())
}

/// Reads a session, and checks that the record of each of its runs is valid.
pub(crate) fn read(lines: &str) -> Result<SessionCopy, ImportError> {
    let mut moved: Option<SessionCopy> = None;
    let mut said = None;
    let mut count = 0;
    for (place, text) in lines.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let bad = |why: String| ImportError::BadLine { line: place + 1, why };
        let line: Line = serde_json::from_str(text).map_err(|error| bad(explain(&error)))?;
        if said.is_some() {
            return Err(bad("it comes after the end line".to_owned()));
        }
        match (line, &mut moved) {
            (Line::Session { v, .. }, None) if !is_known_format(v) => {
                return Err(bad(format!(
                    "version {v} is not supported here, only up to {FORMAT_VERSION}: use a newer program"
                )));
            }
            (Line::Session { session, created_at, state, .. }, none @ None) => {
                *none = Some(SessionCopy { session, created_at, state, kept: Vec::new(), runs: Vec::new() });
            }
            (_, None) => return Err(bad("the first line must be the session".to_owned())),
            (Line::End { lines }, Some(_)) => said = Some(lines),
            (line, Some(moved)) => add(moved, line).map_err(|why| bad(why.to_owned()))?,
        }
        count += 1;
    }
    let Some(moved) = moved else { return Err(ImportError::NotWhole("it is empty".to_owned())) };
    match said {
        None => return Err(ImportError::NotWhole("its last line is missing".to_owned())),
        Some(said) if said + 1 != count => {
            return Err(ImportError::NotWhole(format!("it has {} of {said} lines", count - 1)));
        }
        Some(_) => {}
    }
    for (number, (run, stored)) in moved.runs.iter().enumerate() {
        check(&moved.session, run, stored).map_err(|why| ImportError::BadRun { run: run.clone(), why })?;
        if moved.runs.iter().take(number).any(|(other, _)| other == run) {
            return Err(ImportError::BadRun { run: run.clone(), why: "the export contains it twice".to_owned() });
        }
    }
    Ok(moved)
}

/// What is wrong with a line. The JSON reader saw each line as line 1, so its position is left out.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line 1 column") {
        Some((what, column)) => format!("{what} at column{column}"),
        None => text,
    }
}

fn add(moved: &mut SessionCopy, line: Line) -> Result<(), &'static str> {
    let run = moved.runs.last_mut().map(|(_, run)| run).ok_or("the run that it belongs to is missing");
    match line {
        Line::Kept { kept } => moved.kept.push(kept),
        Line::Run { run, epoch, settled_at } => {
            moved.runs.push((run, JournaledRun { epoch, settled_at, ..JournaledRun::default() }));
        }
        Line::Fact { fact } => run?.entries.push(Entry::Fact(fact)),
        Line::Lump { lump } => run?.entries.push(Entry::Lump(lump)),
        Line::Addendum { addendum } => run?.addenda.push(addendum),
        Line::Request { request } => run?.requests.push(request),
        Line::Session { .. } => return Err("an export has only one session"),
        Line::End { .. } => {}
    }
    Ok(())
}

/// Checks that a run folds, has the id that its line says, and belongs to the session.
fn check(session: &SessionKey, run: &RunId, stored: &JournaledRun) -> Result<(), String> {
    let progress = RunProgress::fold(&stored.entries).map_err(|error| error.to_string())?;
    if progress.accepted().run != *run {
        return Err(format!("it is the record of run {}", progress.accepted().run));
    }
    if progress.accepted().session != *session {
        return Err(format!("it belongs to session {}", progress.accepted().session));
    }
    if stored.settled_at.is_some() && stored.end().is_none() {
        return Err("it says when it settled, but has no end".to_owned());
    }
    let results = stored.facts().filter_map(|record| match &record.event {
        Event::ToolFinished { result, .. } => Some(result.images()),
        _ => None,
    });
    andon_core::history::check(&progress.accepted().history).map_err(|error| error.to_string())?;
    // Those that hooks have put there are among the messages.
    let said = progress
        .messages()
        .iter()
        .flat_map(|message| message.images().chain(message.results().flat_map(|result| result.images())));
    for image in progress.accepted().input.images().chain(results.flatten()).chain(said) {
        image.check().map_err(|error| error.to_string())?;
    }
    if stored.epoch > MAX_EPOCH {
        return Err(format!("its epoch {} is higher than any run can have", stored.epoch));
    }
    if let Some(record) = stored.facts().find(|record| record.epoch > stored.epoch) {
        return Err(format!("event {} has epoch {}, the run has {}", record.seq, record.epoch, stored.epoch));
    }
    Ok(())
}
