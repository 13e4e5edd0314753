//! What a journal in memory keeps of sessions.

use std::future::ready;
use std::sync::Arc;

use andon_core::event::Event;
use andon_core::id::{RunId, SessionKey};
use andon_core::progress::{RunProgress, RunState};
use andon_core::time::Wall;
use serde_json::Value;

use super::room::Resized;
use super::{MemoryJournal, MemoryState, SharedKey, StoredRun, StoredSession, check_order, room};
use crate::journal::sessions::{
    Attachment, RunFilter, RunInfo, Scope, SessionCopy, SessionFilter, SessionInfo, Sessions, StateChange, StateMap,
    is, title,
};
use crate::journal::{JournalError, JournaledRun};
use crate::lanes::BoxFuture;

impl MemoryState {
    /// Where the keys of a scope are kept; `None` for a scope that is never stored.
    fn table(&mut self, session: &SessionKey, scope: Scope, at: Wall) -> Option<&mut StateMap> {
        match scope {
            Scope::Temp => None,
            Scope::Session => {
                let own = self.sessions.entry(session.clone()).or_insert_with(|| Box::new(StoredSession::new(at)));
                Some(&mut own.state)
            }
            Scope::App | Scope::User => Some(self.shared.entry(shared_key(session, scope)).or_default()),
        }
    }

    pub(super) fn change(&mut self, session: &SessionKey, at: Wall, change: StateChange) {
        let own = self.sessions.entry(session.clone()).or_insert_with(|| Box::new(StoredSession::new(at)));
        own.updated_at = own.updated_at.max(at);
        let mut resized = Resized::default();
        for (key, value) in change {
            let scope = Scope::of(&key);
            let Some(table) = self.table(session, scope, at) else { continue };
            let more = value.as_ref().map_or(0, |value| room::weight_of_field(&key, value));
            let less = table.get(&key).map_or(0, |value| room::weight_of_field(&key, value));
            match value {
                Some(value) => drop(table.insert(key, value)),
                None => drop(table.remove(&key)),
            }
            if scope == Scope::Session {
                // What sessions share is nobody's alone, and stays when one of them is forgotten.
                resized.more += more;
                resized.less += less;
            }
        }
        if let Some(own) = self.sessions.get_mut(session) {
            self.room.resize(&mut own.occupancy, resized);
            self.room.use_now(session, &mut own.occupancy);
        }
        self.make_room();
    }

    fn state_of(&self, session: &SessionKey) -> Option<StateMap> {
        let mut state = self.sessions.get(session)?.state.clone();
        for scope in [Scope::App, Scope::User] {
            let shared = self.shared.get(&shared_key(session, scope)).into_iter().flatten();
            state.extend(shared.map(|(key, value)| (key.clone(), value.clone())));
        }
        Some(state)
    }

    /// A copy of a session, with everything that is kept with it or only the things of one kind.
    fn copy_of(&self, session: &SessionKey, kind: Option<&str>) -> Option<SessionCopy> {
        let stored = self.sessions.get(session)?;
        let runs = stored.runs.iter();
        let runs = runs.filter_map(|run| self.runs.get(run).map(|stored| (run.clone(), stored.stored.clone())));
        let kept = stored.kept.values().filter(|kept| kind.is_none_or(|kind| kept.kind == kind));
        Some(SessionCopy {
            session: session.clone(),
            created_at: stored.created_at,
            state: self.state_of(session).unwrap_or_default(),
            kept: kept.cloned().collect(),
            runs: runs.collect(),
        })
    }

    fn info(&self, key: &SessionKey, session: &StoredSession) -> SessionInfo {
        let first = session.runs.first().and_then(|run| self.runs.get(run)).and_then(|run| run_info(&run.stored));
        SessionInfo {
            key: key.clone(),
            created_at: session.created_at,
            updated_at: session.updated_at,
            runs: session.runs.len() as u64,
            title: first.map(|info| info.title),
        }
    }

    fn list(&self, which: &SessionFilter) -> Vec<SessionInfo> {
        let all = self.sessions.iter().filter(|(key, _)| which.matches(key));
        let mut sessions: Vec<SessionInfo> = all.map(|(key, session)| self.info(key, session)).collect();
        sessions.sort_by(|one, other| other.updated_at.cmp(&one.updated_at).then_with(|| one.key.cmp(&other.key)));
        sessions.truncate(which.limit.unwrap_or(usize::MAX));
        sessions
    }

    fn delete(&mut self, session: &SessionKey) -> Result<bool, JournalError> {
        let runs = self.sessions.get(session).map(|session| session.runs.clone()).unwrap_or_default();
        let unsettled = |run: &&RunId| self.runs.get(*run).is_some_and(|run| !run.settled);
        if let Some(run) = runs.iter().find(unsettled) {
            return Err(JournalError::SessionBusy { session: Box::new(session.clone()), run: run.clone() });
        }
        let is_there = self.remove(session);
        self.order.retain(|run| !runs.contains(run));
        Ok(is_there)
    }

    /// Removes a session and its runs, but not from the order in which they came.
    pub(super) fn remove(&mut self, session: &SessionKey) -> bool {
        let Some(removed) = self.sessions.remove(session) else { return false };
        for run in &removed.runs {
            self.runs.remove(run);
        }
        self.room.forget(&removed.occupancy);
        true
    }

    fn put_session(&mut self, moved: SessionCopy) -> Result<(), JournalError> {
        if self.sessions.contains_key(&moved.session) {
            return Err(JournalError::SessionExists(Box::new(moved.session)));
        }
        if let Some((run, _)) = moved.runs.iter().find(|(run, _)| self.runs.contains_key(run)) {
            return Err(JournalError::RunExists(run.clone()));
        }
        for (place, (run, stored)) in moved.runs.iter().enumerate() {
            check_order(0, &stored.entries)?;
            if moved.runs.iter().take(place).any(|(other, _)| other == run) {
                return Err(JournalError::RunExists(run.clone()));
            }
        }
        let mut session = StoredSession::new(moved.created_at);
        let change = session.keep(moved.kept);
        self.room.resize(&mut session.occupancy, change);
        self.room.use_now(&moved.session, &mut session.occupancy);
        self.sessions.insert(moved.session.clone(), Box::new(session));
        let mut own_state = 0;
        for (key, value) in moved.state {
            let scope = Scope::of(&key);
            let Some(table) = self.table(&moved.session, scope, moved.created_at) else { continue };
            if scope == Scope::Session {
                own_state += room::weight_of_field(&key, &value);
            }
            table.entry(key).or_insert(value);
        }
        if let Some(own) = self.sessions.get_mut(&moved.session) {
            self.room.resize(&mut own.occupancy, Resized { more: own_state, less: 0 });
        }
        for (run, moved) in moved.runs {
            let mut here = Box::<StoredRun>::default();
            here.stored.addenda = moved.addenda;
            let touch = here.put(moved.epoch, moved.entries);
            here.stored.requests = moved.requests;
            here.stored.settled_at = moved.settled_at.filter(|_| here.settled);
            if let Some(accepted) = here.stored.accepted() {
                self.touch(accepted, &touch);
            }
            self.order.push(run.clone());
            self.runs.insert(run, here);
        }
        self.make_room();
        Ok(())
    }
}

impl StoredSession {
    /// Keeps things with it, and returns how its size changes.
    fn keep(&mut self, things: Vec<Attachment>) -> Resized {
        let mut change = Resized::default();
        for thing in things {
            change.more += room::weight_of_kept(&thing);
            let replaced = self.kept.insert((thing.kind.clone(), thing.name.clone()), thing);
            change.less += replaced.as_ref().map_or(0, room::weight_of_kept);
        }
        change
    }
}

fn shared_key(session: &SessionKey, scope: Scope) -> SharedKey {
    let user = (scope == Scope::User).then(|| Arc::clone(&session.user));
    (Arc::clone(&session.tenant), Arc::clone(&session.app), user)
}

/// A run as a list shows it. If its record cannot be read, only whether it has settled is known; it must not hide the
/// others.
fn run_info(stored: &JournaledRun) -> Option<RunInfo> {
    let accepted = stored.accepted()?;
    let accepted_at = stored.facts().next()?.at.wall;
    let ended = stored.facts().next_back().and_then(|record| match &record.event {
        Event::RunSettled { outcome } => Some((record.at.wall, (**outcome).clone())),
        _ => None,
    });
    let state = match &ended {
        Some(_) => RunState::Settled,
        None => RunProgress::fold(&stored.entries).map_or(RunState::Running, |progress| progress.state()),
    };
    let (ended_at, ending) = ended.unzip();
    Some(RunInfo {
        run: accepted.run.clone(),
        session: accepted.session.clone(),
        state,
        accepted_at,
        ended_at,
        settled_at: stored.settled_at.map(|at| at.wall),
        ending,
        title: title(&accepted.input),
    })
}

impl Sessions for MemoryJournal {
    fn create(&self, session: &SessionKey, at: Wall, state: StateMap) -> BoxFuture<Result<bool, JournalError>> {
        let mut stored = self.state.lock();
        let is_new = !stored.sessions.contains_key(session);
        if is_new {
            let change = state.into_iter().map(|(key, value): (String, Value)| (key, Some(value)));
            stored.change(session, at, change.collect());
        }
        Box::pin(ready(Ok(is_new)))
    }

    fn state(&self, session: &SessionKey) -> BoxFuture<Result<Option<StateMap>, JournalError>> {
        Box::pin(ready(Ok(self.state.lock().state_of(session))))
    }

    fn change_state(&self, session: &SessionKey, at: Wall, change: StateChange) -> BoxFuture<Result<(), JournalError>> {
        self.state.lock().change(session, at, change);
        Box::pin(ready(Ok(())))
    }

    fn attach(
        &self,
        session: &SessionKey,
        at: Wall,
        things: Vec<Attachment>,
        change: StateChange,
    ) -> BoxFuture<Result<bool, JournalError>> {
        let mut state = self.state.lock();
        let is_there = state.sessions.contains_key(session);
        let MemoryState { sessions, room, .. } = &mut *state;
        if let Some(stored) = sessions.get_mut(session) {
            let resized = stored.keep(things);
            room.resize(&mut stored.occupancy, resized);
            state.change(session, at, change);
        }
        Box::pin(ready(Ok(is_there)))
    }

    fn attachments(&self, session: &SessionKey, kind: &str) -> BoxFuture<Result<Vec<Attachment>, JournalError>> {
        let state = self.state.lock();
        let all = state.sessions.get(session).into_iter().flat_map(|stored| stored.kept.values());
        let kept = all.filter(|thing| thing.kind == kind).cloned().collect();
        Box::pin(ready(Ok(kept)))
    }

    fn discard_attachment(
        &self,
        session: &SessionKey,
        kind: &str,
        name: &str,
    ) -> BoxFuture<Result<bool, JournalError>> {
        let mut state = self.state.lock();
        let MemoryState { sessions, room, .. } = &mut *state;
        let gone = sessions.get_mut(session).and_then(|stored| {
            let gone = stored.kept.remove(&(kind.to_owned(), name.to_owned()))?;
            room.resize(&mut stored.occupancy, Resized { more: 0, less: room::weight_of_kept(&gone) });
            Some(gone)
        });
        Box::pin(ready(Ok(gone.is_some())))
    }

    fn list(&self, which: SessionFilter) -> BoxFuture<Result<Vec<SessionInfo>, JournalError>> {
        Box::pin(ready(Ok(self.state.lock().list(&which))))
    }

    fn list_with_state(&self, which: SessionFilter) -> BoxFuture<Result<Vec<(SessionInfo, StateMap)>, JournalError>> {
        let state = self.state.lock();
        let with_state = |info: SessionInfo| {
            let own = state.state_of(&info.key).unwrap_or_default();
            (info, own)
        };
        let listed = state.list(&which).into_iter().map(with_state).collect();
        Box::pin(ready(Ok(listed)))
    }

    fn runs(&self, which: RunFilter) -> BoxFuture<Result<Vec<RunInfo>, JournalError>> {
        let state = self.state.lock();
        let wanted = |info: &RunInfo| {
            let key = &info.session;
            is(&which.tenant, &key.tenant)
                && is(&which.app, &key.app)
                && is(&which.user, &key.user)
                && is(&which.session, key.session.as_str())
                && which.run.as_ref().is_none_or(|run| *run == info.run)
                && which.settled.is_none_or(|settled| settled == info.ending.is_some())
                && which.state.is_none_or(|state| state == info.state)
                && which.since.is_none_or(|since| info.accepted_at >= since)
                && which.until.is_none_or(|until| info.accepted_at < until)
                && which.finds([&info.title, info.run.as_str(), &key.user, key.session.as_str()])
        };
        let first = match &which.before {
            None => state.order.len(),
            Some(before) => state.order.iter().position(|run| run == before).unwrap_or(0),
        };
        let newest_first = state.order.iter().take(first).rev().filter_map(|run| state.runs.get(run));
        let runs = newest_first.filter_map(|run| run_info(&run.stored)).filter(wanted);
        let runs = runs.take(which.limit.unwrap_or(usize::MAX)).collect();
        Box::pin(ready(Ok(runs)))
    }

    fn delete(&self, session: &SessionKey) -> BoxFuture<Result<bool, JournalError>> {
        Box::pin(ready(self.state.lock().delete(session)))
    }

    fn copy_whole(&self, session: &SessionKey) -> BoxFuture<Result<Option<SessionCopy>, JournalError>> {
        Box::pin(ready(Ok(self.state.lock().copy_of(session, None))))
    }

    fn copy_with_attachments(
        &self,
        session: &SessionKey,
        kind: &str,
    ) -> BoxFuture<Result<Option<SessionCopy>, JournalError>> {
        Box::pin(ready(Ok(self.state.lock().copy_of(session, Some(kind)))))
    }

    fn put(&self, moved: SessionCopy) -> BoxFuture<Result<(), JournalError>> {
        Box::pin(ready(self.state.lock().put_session(moved)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_started_come_first_in_that_order_and_then_the_others_as_they_came() {
        let id = |name: &str| RunId::new(name).unwrap();
        let mut session = StoredSession::new(Wall::default());
        for run in ["a", "b", "c", "d"] {
            session.runs.push(id(run));
        }
        session.start(&id("c"));
        session.start(&id("a"));
        assert_eq!(session.started(), [id("c"), id("a")]);
        assert_eq!(session.runs, [id("c"), id("a"), id("b"), id("d")]);

        // Neither starts again, nor does one that it does not have.
        session.start(&id("c"));
        session.start(&id("e"));
        assert_eq!(session.started(), [id("c"), id("a")]);
    }
}
