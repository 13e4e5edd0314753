//! What became of the runs that a dead program left open, in a line or two.

use andon_runtime::core::id::LOCAL;
use andon_runtime::{Ending, Fate, Reason, Recovered, SessionKey, State};

use crate::agent::PRACTICE;
use crate::client::Place;
use crate::db::quoted;

/// Tells what was found; nothing if nothing was. `here` is the session that the person is in.
pub(crate) fn recovered(found: &[Recovered], here: &SessionKey, db: &Place) -> Vec<String> {
    let mut lines = Vec::new();
    let settled = |is_it: fn(&Ending) -> bool| {
        found.iter().filter(|run| run.fate.ending().is_some_and(|ending| is_it(ending))).count()
    };
    let ended = [
        (settled(|ending| !ending.is_cancelled()), "lost; its text is kept", "lost; their text is kept"),
        (settled(is_left_alone), "stopped, because its reader is gone", "stopped, because their readers are gone"),
        (
            settled(|ending| ending.is_cancelled() && !is_left_alone(ending)),
            "stopped, as was asked",
            "stopped, as was asked",
        ),
    ];
    for (count, one, many) in ended {
        match count {
            0 => {}
            1 => lines.push(format!("1 run of an earlier program was left open and is settled now: {one}.")),
            count => {
                lines.push(format!("{count} runs of earlier programs were left open and are settled now: {many}."))
            }
        }
    }
    lines.extend(found.iter().filter_map(|run| one_line(run, here, db)));
    lines
}

/// Whether a run was stopped because nobody reads it any more.
fn is_left_alone(ending: &Ending) -> bool {
    matches!(ending, Ending::Cancelled { reason: Reason::ClientDisconnected })
}

/// What there is to say about one run alone.
fn one_line(run: &Recovered, here: &SessionKey, db: &Place) -> Option<String> {
    match &run.fate {
        Fate::Settled { .. } => None,
        Fate::LivesOn { session, state } if session == here => Some(match state {
            State::Waiting => "1 run waits for your yes, and goes on.".to_owned(),
            _ => "1 run was waiting for its turn, and goes on.".to_owned(),
        }),
        Fate::LivesOn { session, state: State::Waiting } => {
            let talk = is_own(session).then(|| {
                let words = format!("chat --session {}", quoted(session.session.as_str()));
                format!(": `{}` asks you", db.command(&words))
            });
            Some(format!("1 run waits for a yes in session {}{}.", session_shown(session), talk.unwrap_or_default()))
        }
        Fate::LivesOn { session, .. } => {
            Some(format!("1 run was waiting for its turn in session {}, and goes on.", session_shown(session)))
        }
        Fate::Parked { session, .. } => {
            let name = session_shown(session);
            Some(format!("1 run waits in session {name}: it goes on where the agent {} is.", session.app))
        }
        Fate::Unreadable { why } => {
            Some(format!("The record of run {} makes no sense and was left as it is: {why}.", run.run))
        }
    }
}

fn is_own(session: &SessionKey) -> bool {
    (&*session.tenant, &*session.app, &*session.user) == (LOCAL, PRACTICE, LOCAL)
}

/// A session as a command takes it: its name alone if it is one of the practice agent's.
pub(crate) fn session_shown(session: &SessionKey) -> String {
    if is_own(session) { session.session.to_string() } else { session.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::DbArgs;
    use crate::db::Db;
    use andon_runtime::RunId;
    use std::sync::Arc;

    fn found(fate: Fate) -> Recovered {
        Recovered { run: RunId::new("run-1").unwrap(), fate }
    }

    fn cancelled(reason: Reason) -> Arc<Ending> {
        Arc::new(Ending::Cancelled { reason })
    }

    #[test]
    fn what_was_found_is_told_shortly_and_only_if_something_was() {
        let here = SessionKey::new(PRACTICE, LOCAL, "here").unwrap();
        let there = SessionKey::new(PRACTICE, LOCAL, "there").unwrap();
        let other = SessionKey::new("shop", "ada", "s1").unwrap();
        let db = Place::Here(Db::named(&DbArgs { db: Some("x.db".into()) }).unwrap());
        assert_eq!(recovered(&[], &here, &db), Vec::<String>::new());
        let lost = found(Fate::Settled { session: here.clone(), ending: Arc::new(Ending::Lost) });
        let runs = [
            lost.clone(),
            lost,
            found(Fate::Settled { session: here.clone(), ending: cancelled(Reason::ClientDisconnected) }),
            found(Fate::Settled { session: here.clone(), ending: cancelled(Reason::Operator) }),
            found(Fate::LivesOn { session: here.clone(), state: State::Waiting }),
            found(Fate::LivesOn { session: there, state: State::Waiting }),
            found(Fate::Parked { session: other, state: State::Queued }),
        ];
        let program = crate::db::program();
        let expected = [
            "2 runs of earlier programs were left open and are settled now: lost; their text is kept.",
            "1 run of an earlier program was left open and is settled now: stopped, because its reader is gone.",
            "1 run of an earlier program was left open and is settled now: stopped, as was asked.",
            "1 run waits for your yes, and goes on.",
            &format!("1 run waits for a yes in session there: `{program} chat --session there --db x.db` asks you."),
            "1 run waits in session shop/ada/s1: it goes on where the agent shop is.",
        ];
        assert_eq!(recovered(&runs, &here, &db), expected);
    }
}
