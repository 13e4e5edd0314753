//! The commands that show, move and delete what is on record. Those that only read work while another program writes.

mod delete;
mod export;
mod history;
mod import;
mod receipt;
mod runs;
mod sessions;
mod usage;

pub(crate) use delete::delete;
pub(crate) use export::export;
pub(crate) use history::history;
pub(crate) use import::import;
pub(crate) use receipt::{find, no_run, receipt};
pub(crate) use runs::runs;
pub(crate) use sessions::{sessions, table as sessions_table};
pub(crate) use usage::usage;

use andon_runtime::{Runtime, SessionKey};

use crate::client::Target;
use crate::db::Db;
use crate::print::write;
use crate::show::session_shown;

/// The text for a database without runs.
fn nothing_recorded(target: &Target) -> String {
    match target.is_kept() {
        true => {
            format!("Nothing has been recorded yet {}. Start with `{}`.", where_it_is(target), target.command("chat"))
        }
        false => "`--db memory` keeps nothing: name a file with --db PATH.".to_owned(),
    }
}

/// "in FILE" or "on the server at ADDRESS".
fn where_it_is(target: &Target) -> String {
    let word = if matches!(target, Target::Server(_)) { "on" } else { "in" };
    format!("{word} {}", target.shown())
}

/// Opens a database to read a session; fails if there is no such session.
async fn open_session(db: &Db, key: &SessionKey) -> anyhow::Result<Runtime> {
    let unknown = || no_session(&Target::Database(db.clone()), key);
    let runtime = db.open_to_read().await?.ok_or_else(unknown)?;
    if runtime.state(key).await?.is_none() {
        return Err(unknown());
    }
    Ok(runtime)
}

/// The error for a session that does not exist.
fn no_session(target: &Target, key: &SessionKey) -> anyhow::Error {
    let (name, list) = (session_shown(key), target.command("sessions"));
    anyhow::anyhow!("there is no session {name} {}: list them with `{list}`", where_it_is(target))
}
