//! What a store keeps about sessions besides the facts of their runs: their state, and the lists that people look
//! through.

use std::collections::BTreeMap;

use andon_core::id::{RunId, SessionKey};
use andon_core::message::{Message, Part};
use andon_core::outcome::Ending;
use andon_core::progress::RunState;
use andon_core::time::Wall;
use andon_core::with;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::journal::{JournalError, JournaledRun};
use crate::lanes::BoxFuture;

/// A session's state: its keys and their values.
///
/// A key's prefix is its scope, as in ADK: `app:` is shared by all sessions of an app, `user:` by all sessions of a
/// user of that app, and `temp:` is never stored. Any other key belongs to the session alone.
pub type StateMap = Map<String, Value>;

/// A change of state: the new value of each key, or `None` to remove it.
pub type StateChange = BTreeMap<String, Option<Value>>;

/// What a store keeps about sessions.
pub trait Sessions: Send + Sync {
    /// Creates a session; returns `false` and changes nothing if there is already one with this key.
    fn create(&self, session: &SessionKey, at: Wall, state: StateMap) -> BoxFuture<Result<bool, JournalError>>;

    /// A session's state, including what it shares; `None` if there is no such session.
    fn state(&self, session: &SessionKey) -> BoxFuture<Result<Option<StateMap>, JournalError>>;

    /// Changes a session's state, all of it or nothing. Creates the session if it does not exist.
    fn change_state(&self, session: &SessionKey, at: Wall, change: StateChange) -> BoxFuture<Result<(), JournalError>>;

    /// Keeps things with a session, each replacing the one of the same kind and name, and changes the session's state:
    /// all of it or nothing. Returns `false` and does nothing if there is no such session.
    fn attach(
        &self,
        session: &SessionKey,
        at: Wall,
        things: Vec<Attachment>,
        change: StateChange,
    ) -> BoxFuture<Result<bool, JournalError>>;

    /// All things of a kind that are kept with a session, in the order of their names.
    fn attachments(&self, session: &SessionKey, kind: &str) -> BoxFuture<Result<Vec<Attachment>, JournalError>>;

    /// Removes something that is kept with a session; returns whether it was there.
    fn discard_attachment(&self, session: &SessionKey, kind: &str, name: &str)
    -> BoxFuture<Result<bool, JournalError>>;

    /// Lists sessions, the most recently used first.
    fn list(&self, which: SessionFilter) -> BoxFuture<Result<Vec<SessionInfo>, JournalError>>;

    /// As [`list`](Self::list), each with its [state](Self::state).
    fn list_with_state(&self, which: SessionFilter) -> BoxFuture<Result<Vec<(SessionInfo, StateMap)>, JournalError>>;

    /// Lists runs, the newest first.
    fn runs(&self, which: RunFilter) -> BoxFuture<Result<Vec<RunInfo>, JournalError>>;

    /// Deletes a session with its runs, their records, its own state and what is kept with it, so that nothing of it
    /// remains; returns whether there was one. Refused while a run of it has not settled.
    fn delete(&self, session: &SessionKey) -> BoxFuture<Result<bool, JournalError>>;

    /// A whole session, to be put into another store; `None` if there is no such session.
    fn copy_whole(&self, session: &SessionKey) -> BoxFuture<Result<Option<SessionCopy>, JournalError>>;

    /// As [`copy_whole`](Self::copy_whole), but with only one kind of the things that are kept with the session: for
    /// reading, not for another store.
    fn copy_with_attachments(
        &self,
        session: &SessionKey,
        kind: &str,
    ) -> BoxFuture<Result<Option<SessionCopy>, JournalError>>;

    /// Adds a session from another store, all of it or nothing. Refused if the session or one of its runs exists here
    /// already. A value that it shares with other sessions is added only if that key has no value yet.
    fn put(&self, moved: SessionCopy) -> BoxFuture<Result<(), JournalError>>;
}

/// Something that is kept with a session, and deleted with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attachment {
    /// What kind of thing it is.
    pub kind: String,
    /// Its name among those of its kind.
    pub name: String,
    /// When it was kept.
    pub at: Wall,
    /// Its value.
    pub value: Value,
}

impl Attachment {
    /// A value under a kind and a name.
    pub fn new(kind: impl Into<String>, name: impl Into<String>, at: Wall, value: Value) -> Self {
        Self { kind: kind.into(), name: name.into(), at, value }
    }
}

/// Which sessions to list: those that match every field that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionFilter {
    /// Only those of this tenant.
    pub tenant: Option<String>,
    /// Only those of this app.
    pub app: Option<String>,
    /// Only those of this user.
    pub user: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
}

with!(SessionFilter: tenant: text String, app: text String, user: text String, limit: into Option<usize>);

impl SessionFilter {
    /// All sessions: `SessionFilter::new().app("support")` finds those of one app.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a session with this key matches. For stores that find sessions in other ways.
    pub fn matches(&self, key: &SessionKey) -> bool {
        is(&self.tenant, &key.tenant) && is(&self.app, &key.app) && is(&self.user, &key.user)
    }
}

/// Whether a filter's field is not set or has this value.
pub(crate) fn is(wanted: &Option<String>, found: &str) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted == found)
}

/// Which runs to list: those that match every field that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFilter {
    /// Only those of this tenant.
    pub tenant: Option<String>,
    /// Only those of this app.
    pub app: Option<String>,
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those of sessions with this id.
    pub session: Option<String>,
    /// Only this run.
    pub run: Option<RunId>,
    /// Only those that have settled, or only those that have not.
    pub settled: Option<bool>,
    /// Only those in this state.
    pub state: Option<RunState>,
    /// Only those with this text in the title, the id, the user or the session, ignoring case.
    pub text: Option<String>,
    /// Only those accepted at this time or later.
    pub since: Option<Wall>,
    /// Only those accepted before this time.
    pub until: Option<Wall>,
    /// Only those that are older than this run. If it is unknown there are none.
    pub before: Option<RunId>,
    /// At most this many.
    pub limit: Option<usize>,
}

with!(RunFilter: tenant: text String, app: text String, user: text String, session: text String, run: into Option<RunId>,
    settled: into Option<bool>, state: into Option<RunState>, text: text String, since: into Option<Wall>, until: into Option<Wall>,
    before: into Option<RunId>, limit: into Option<usize>);

impl RunFilter {
    /// All runs: `RunFilter::new().app("support").settled(false)` finds those of one app that have not settled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether one of these texts contains [`text`](Self::text). For stores that cannot ignore the case of every
    /// script's letters themselves.
    pub fn finds(&self, texts: [&str; 4]) -> bool {
        let Some(wanted) = self.text.as_ref().map(|text| text.to_lowercase()) else { return true };
        texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    }
}

/// A session, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its key.
    pub key: SessionKey,
    /// When it was created.
    pub created_at: Wall,
    /// When a run of it was last accepted or settled, or its state changed.
    pub updated_at: Wall,
    /// How many runs it has.
    pub runs: u64,
    /// The beginning of its first prompt.
    pub title: Option<String>,
}

with!(SessionInfo: runs: u64, title: text String);

impl SessionInfo {
    /// A session without runs.
    pub fn new(key: SessionKey, created_at: Wall, updated_at: Wall) -> Self {
        Self { key, created_at, updated_at, runs: 0, title: None }
    }
}

/// A run, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunInfo {
    /// Its id.
    pub run: RunId,
    /// Its session.
    pub session: SessionKey,
    /// Its state.
    pub state: RunState,
    /// When it was accepted.
    pub accepted_at: Wall,
    /// When its last event was made, once it has settled: a little before it was on disk.
    pub ended_at: Option<Wall>,
    /// When it settled, which is when its outcome was on disk. Also `None` if that instant is not on record.
    pub settled_at: Option<Wall>,
    /// How it ended.
    pub ending: Option<Ending>,
    /// The beginning of its prompt.
    pub title: String,
}

with!(RunInfo: ended_at: into Option<Wall>, settled_at: into Option<Wall>, ending: into Option<Ending>);

impl RunInfo {
    /// A run that has not ended.
    pub fn new(run: RunId, session: SessionKey, state: RunState, accepted_at: Wall, title: impl Into<String>) -> Self {
        let title = title.into();
        Self { run, session, state, accepted_at, ended_at: None, settled_at: None, ending: None, title }
    }
}

/// How many characters of a prompt its title has at most.
const TITLE: usize = 80;

/// The beginning of a prompt, on one line, for lists. Only as much of the prompt is read as the title needs.
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

/// A whole session, on its way from one store to another.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionCopy {
    /// Its key.
    pub session: SessionKey,
    /// When it was created.
    pub created_at: Wall,
    /// Its state, including what it shares.
    pub state: StateMap,
    /// What is kept with it, ordered by kind and name.
    pub kept: Vec<Attachment>,
    /// Its runs: those that started, in the order in which they started, then the others.
    pub runs: Vec<(RunId, JournaledRun)>,
}

with!(SessionCopy: state: StateMap, kept: Vec<Attachment>, runs: Vec<(RunId, JournaledRun)>);

impl SessionCopy {
    /// A session with nothing in it.
    pub fn new(session: SessionKey, created_at: Wall) -> Self {
        Self { session, created_at, state: StateMap::new(), kept: Vec::new(), runs: Vec::new() }
    }
}

/// Which sessions share a key of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All sessions of an app.
    App,
    /// All sessions of a user of an app.
    User,
    /// One session.
    Session,
    /// None: the key is never stored.
    Temp,
}

impl Scope {
    /// A key's scope, by its prefix.
    pub fn of(key: &str) -> Self {
        match key.split_once(':') {
            Some(("app", _)) => Self::App,
            Some(("user", _)) => Self::User,
            Some(("temp", _)) => Self::Temp,
            _ => Self::Session,
        }
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
    fn the_prefix_of_a_key_is_its_scope() {
        let scopes = ["app:a", "user:b", "temp:c", "d", "application", "other:e"].map(Scope::of);
        let expected = [Scope::App, Scope::User, Scope::Temp, Scope::Session, Scope::Session, Scope::Session];
        assert_eq!(scopes, expected);
    }
}
