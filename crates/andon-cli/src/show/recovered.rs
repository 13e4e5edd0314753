//! What happened to the runs that a dead program left open, in a line or two.

use andon_runtime::core::id::LOCAL;
use andon_runtime::{Ending, Fate, Reason, Recovered, RunState, SessionKey};

use crate::client::Target;
use crate::names::PRACTICE;
use crate::paste::quoted;

/// A line for each kind of run that was found. `here` is the session that the person is in, if in any.
pub(crate) fn recovered(found: &[Recovered], here: Option<&SessionKey>, target: &Target) -> Vec<String> {
    let mut lines = Vec::new();
    let settled = |is_it: fn(&Ending) -> bool| {
        found.iter().filter(|run| run.fate.ending().is_some_and(|ending| is_it(ending))).count()
    };
    let ended = [
        (settled(|ending| !ending.is_cancelled()), "lost, but its text is kept", "lost, but their text is kept"),
        (settled(is_left_alone), "stopped, because its reader was gone", "stopped, because their readers were gone"),
        (
            settled(|ending| ending.is_cancelled() && !is_left_alone(ending)),
            "stopped, as requested",
            "stopped, as requested",
        ),
    ];
    for (count, one, many) in ended {
        match count {
            0 => {}
            1 => lines.push(format!("1 run that an earlier program left open has been settled: {one}.")),
            count => lines.push(format!("{count} runs that earlier programs left open have been settled: {many}.")),
        }
    }
    lines.extend(found.iter().filter_map(|run| one_line(run, here, target)));
    lines
}

/// Whether a run was stopped because its last reader was gone.
fn is_left_alone(ending: &Ending) -> bool {
    matches!(ending, Ending::Cancelled { reason: Reason::ClientDisconnected })
}

/// The line for a single run, if it needs one.
fn one_line(run: &Recovered, here: Option<&SessionKey>, target: &Target) -> Option<String> {
    match &run.fate {
        Fate::Settled { .. } => None,
        Fate::LivesOn { session, state } if Some(session) == here => Some(match state {
            RunState::Waiting => "1 run continues. It needs your approval.".to_owned(),
            _ => "1 queued run continues.".to_owned(),
        }),
        Fate::LivesOn { session, state: RunState::Waiting } => {
            let talk = is_own(session).then(|| {
                let words = format!("chat --session {}", quoted(session.session.as_str()));
                format!(": decide in `{}`", target.command(&words))
            });
            Some(format!("1 run in session {} needs approval{}.", session_shown(session), talk.unwrap_or_default()))
        }
        Fate::LivesOn { session, .. } => Some(format!("1 queued run in session {} continues.", session_shown(session))),
        Fate::Parked { session, .. } => {
            let name = session_shown(session);
            Some(format!(
                "1 run in session {name} is waiting: it continues once the agent {} is available.",
                session.app
            ))
        }
        Fate::Unreadable { why } => {
            Some(format!("The record of run {} cannot be read and was left as it is: {why}.", run.run))
        }
        #[cfg(not(andon_whole))]
        _ => None,
    }
}

fn is_own(session: &SessionKey) -> bool {
    (&*session.tenant, &*session.app, &*session.user) == (LOCAL, PRACTICE, LOCAL)
}

/// A session as commands accept it: its name alone if it is the practice agent's.
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
        Recovered::new(RunId::new("run-1").unwrap(), fate)
    }

    fn cancelled(reason: Reason) -> Arc<Ending> {
        Arc::new(Ending::Cancelled { reason })
    }

    #[test]
    fn each_kind_of_recovered_run_has_its_line() {
        let here = SessionKey::new(PRACTICE, LOCAL, "here").unwrap();
        let there = SessionKey::new(PRACTICE, LOCAL, "there").unwrap();
        let other = SessionKey::new("shop", "ada", "s1").unwrap();
        let db = Target::Database(Db::named(&DbArgs { db: Some("x.db".into()) }).unwrap());
        assert_eq!(recovered(&[], Some(&here), &db), Vec::<String>::new());
        let lost = found(Fate::Settled { session: here.clone(), ending: Arc::new(Ending::Lost) });
        let runs = [
            lost.clone(),
            lost,
            found(Fate::Settled { session: here.clone(), ending: cancelled(Reason::ClientDisconnected) }),
            found(Fate::Settled { session: here.clone(), ending: cancelled(Reason::Operator) }),
            found(Fate::LivesOn { session: here.clone(), state: RunState::Waiting }),
            found(Fate::LivesOn { session: there, state: RunState::Waiting }),
            found(Fate::Parked { session: other, state: RunState::Queued }),
        ];
        let program = crate::paste::program();
        let expected = [
            "2 runs that earlier programs left open have been settled: lost, but their text is kept.",
            "1 run that an earlier program left open has been settled: stopped, because its reader was gone.",
            "1 run that an earlier program left open has been settled: stopped, as requested.",
            "1 run continues. It needs your approval.",
            &format!("1 run in session there needs approval: decide in `{program} chat --session there --db x.db`."),
            "1 run in session shop/ada/s1 is waiting: it continues once the agent shop is available.",
        ];
        assert_eq!(recovered(&runs, Some(&here), &db), expected);
    }
}
