//! What a store keeps of sessions beside the facts of their runs: their state, and the lists that people look through.

use std::collections::BTreeMap;
use std::fmt;

use andon_core::id::{RunId, SessionKey};
use andon_core::message::{Message, Part};
use andon_core::outcome::Ending;
use andon_core::progress::State;
use andon_core::time::Wall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::journal::{JournalError, Stored};
use crate::lanes::BoxFuture;

/// A session's state: what its keys hold.
///
/// A key's beginning says how far it reaches, as in ADK: `app:` is shared by all sessions of an app, `user:` by all
/// sessions of a user of that app, and `temp:` is never stored. Any other key is the session's own.
pub type StateMap = Map<String, Value>;

/// A change of state: what each key is to hold, or nothing to remove it.
pub type StateChange = BTreeMap<String, Option<Value>>;

/// What a store keeps of sessions.
pub trait Sessions: Send + Sync {
    /// Begins a session; says no, and changes nothing, if there is one of this key.
    fn create(&self, session: &SessionKey, at: Wall, state: StateMap) -> BoxFuture<Result<bool, JournalError>>;

    /// A session's state, with what it shares; nothing if there is no such session.
    fn state(&self, session: &SessionKey) -> BoxFuture<Result<Option<StateMap>, JournalError>>;

    /// Changes a session's state, all of it or nothing. A session that does not exist is begun.
    fn change_state(&self, session: &SessionKey, at: Wall, change: StateChange) -> BoxFuture<Result<(), JournalError>>;

    /// Keeps things with a session, each in place of the one of its kind and name that was there, and changes its state: all of
    /// it or nothing. Says no, and does nothing, if there is no such session.
    fn keep_with(
        &self,
        session: &SessionKey,
        at: Wall,
        things: Vec<Kept>,
        change: StateChange,
    ) -> BoxFuture<Result<bool, JournalError>>;

    /// All things of a kind that are kept with a session, in the order of their names.
    fn kept_with(&self, session: &SessionKey, kind: &str) -> BoxFuture<Result<Vec<Kept>, JournalError>>;

    /// Keeps something with a session no longer; says whether it was there.
    fn discard_with(&self, session: &SessionKey, kind: &str, name: &str) -> BoxFuture<Result<bool, JournalError>>;

    /// Sessions, the one that was last used first.
    fn list(&self, which: SessionFilter) -> BoxFuture<Result<Vec<SessionInfo>, JournalError>>;

    /// As [`list`](Self::list), each with its [state](Self::state).
    fn list_with_state(&self, which: SessionFilter) -> BoxFuture<Result<Vec<(SessionInfo, StateMap)>, JournalError>>;

    /// Runs, the newest first.
    fn runs(&self, which: RunFilter) -> BoxFuture<Result<Vec<RunInfo>, JournalError>>;

    /// Removes a session with its runs, their record, its own state and what is kept with it, so that nothing of it remains; says whether there
    /// was one. Refused while a run of it has not settled.
    fn delete(&self, session: &SessionKey) -> BoxFuture<Result<bool, JournalError>>;

    /// All of a session, to be put into another store; nothing if there is no such session.
    fn take_copy(&self, session: &SessionKey) -> BoxFuture<Result<Option<Moved>, JournalError>>;

    /// As [`take_copy`](Self::take_copy), but of what is kept with the session only the things of one kind: to be read, and
    /// not to be put anywhere.
    fn copy_with(&self, session: &SessionKey, kind: &str) -> BoxFuture<Result<Option<Moved>, JournalError>>;

    /// Puts a session from another store in, all of it or nothing. Refused if the session or one of its runs is here
    /// already. What it shares with other sessions is taken only where there is nothing yet.
    fn put(&self, moved: Moved) -> BoxFuture<Result<(), JournalError>>;
}

/// Something that is kept with a session, and goes with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What kind of thing it is.
    pub kind: String,
    /// Its name among those of its kind.
    pub name: String,
    /// When it was kept.
    pub at: Wall,
    /// What it is.
    pub value: Value,
}

/// Which sessions to list: those that match all that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this app.
    pub app: Option<String>,
    /// Of this user.
    pub user: Option<String>,
    /// No more than this many.
    pub limit: Option<usize>,
}

/// Which runs to list: those that match all that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this app.
    pub app: Option<String>,
    /// Of this user.
    pub user: Option<String>,
    /// Of sessions of this id.
    pub session: Option<String>,
    /// This one alone.
    pub run: Option<RunId>,
    /// Only those that have settled, or only those that have not.
    pub settled: Option<bool>,
    /// Only those in this state.
    pub state: Option<State>,
    /// With these words in its title, its id, its user or its session, in capitals or not.
    pub text: Option<String>,
    /// Accepted at this time or later.
    pub since: Option<Wall>,
    /// Accepted before this time.
    pub until: Option<Wall>,
    /// Only those that are older than this one. If it is not known there are none.
    pub before: Option<RunId>,
    /// No more than this many.
    pub limit: Option<usize>,
}

impl RunFilter {
    /// Whether the words that are looked for are in one of these texts. A store that cannot compare letters of every script
    /// asks this of each run.
    pub fn finds(&self, texts: [&str; 4]) -> bool {
        let Some(wanted) = self.text.as_ref().map(|text| text.to_lowercase()) else { return true };
        texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    }
}

/// A session, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Which it is.
    pub key: SessionKey,
    /// When it was begun.
    pub created_at: Wall,
    /// When a run of it was last accepted or settled, or its state changed.
    pub updated_at: Wall,
    /// How many runs it has.
    pub runs: u64,
    /// The beginning of its first prompt.
    pub title: Option<String>,
}

/// A run, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInfo {
    /// Which it is.
    pub run: RunId,
    /// Its session.
    pub session: SessionKey,
    /// Its state.
    pub state: State,
    /// When it was accepted.
    pub accepted_at: Wall,
    /// When its last event was made, once it has settled: a little before that was on disk.
    pub ended_at: Option<Wall>,
    /// When it settled: its outcome was on disk. Nothing, too, if that instant is not on record.
    pub settled_at: Option<Wall>,
    /// How it ended.
    pub ending: Option<Ending>,
    /// The beginning of its prompt.
    pub title: String,
}

/// How many characters of a prompt are its title.
const TITLE: usize = 80;

/// The beginning of a prompt, on one line, for lists. No more of the prompt is looked at than that takes.
pub fn title(prompt: &Message) -> String {
    let (mut title, mut left, mut is_apart) = (String::new(), TITLE, false);
    for letter in prompt.parts.iter().filter_map(Part::as_text).flat_map(str::chars) {
        if letter.is_whitespace() {
            is_apart = left < TITLE;
            continue;
        }
        for letter in is_apart.then_some(' ').into_iter().chain([letter]) {
            if left == 0 {
                title.push('…');
                return title;
            }
            title.push(letter);
            left -= 1;
        }
        is_apart = false;
    }
    title
}

/// All of a session, on its way from one store to another.
#[derive(Debug, Clone)]
pub struct Moved {
    /// Which it is.
    pub session: SessionKey,
    /// When it was begun.
    pub created_at: Wall,
    /// Its state, with what it shares.
    pub state: StateMap,
    /// What is kept with it, in the order of kinds and names.
    pub kept: Vec<Kept>,
    /// Its runs: those that started, in that order, then the others.
    pub runs: Vec<(RunId, Stored)>,
}

/// How far a key of the state reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All sessions of an app.
    App,
    /// All sessions of a user of an app.
    User,
    /// One session.
    Session,
    /// Nothing beyond the moment: it is never stored.
    Temp,
}

impl Scope {
    /// How far a key reaches: its beginning says so.
    pub fn of(key: &str) -> Self {
        match key.split_once(':') {
            Some(("app", _)) => Self::App,
            Some(("user", _)) => Self::User,
            Some(("temp", _)) => Self::Temp,
            _ => Self::Session,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::User => "user",
            Self::Session => "session",
            Self::Temp => "temp",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_and_no_longer_than_a_list_can_show() {
        assert_eq!(title(&Message::user("  Tell\n me   all ")), "Tell me all");
        let long = title(&Message::user("ä".repeat(200)));
        assert_eq!((long.chars().count(), long.ends_with('…')), (TITLE + 1, true));
        assert_eq!(title(&Message::user("")), "");
        let exact = "x".repeat(TITLE - 2);
        assert_eq!(title(&Message::user(format!("{exact} y \n"))), format!("{exact} y"));
        assert_eq!(title(&Message::user(format!("{exact} y z"))), format!("{exact} y…"));
    }

    #[test]
    fn the_beginning_of_a_key_says_how_far_it_reaches() {
        let scopes = ["app:a", "user:b", "temp:c", "d", "application", "other:e"].map(Scope::of);
        let expected = [Scope::App, Scope::User, Scope::Temp, Scope::Session, Scope::Session, Scope::Session];
        assert_eq!(scopes, expected);
    }
}
