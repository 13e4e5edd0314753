//! What looks at the record, and moves it. Whatever only looks works while another program writes.

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

use andon_runtime::{RunFilter, Runtime, SessionKey};

use crate::args::ListForm;
use crate::client::Place;
use crate::db::Db;
use crate::show::{session_shown, write};
use crate::terminal;

/// Says that a list is empty, and how to begin; nothing where programs read it.
fn write_empty(form: &ListForm, text: &str) -> std::io::Result<()> {
    if form.json { Ok(()) } else { write(&format!("{text}\n")) }
}

/// What is said where nothing was ever recorded.
fn nothing_recorded(place: &Place) -> String {
    match place.is_kept() {
        true => format!("Nothing was recorded yet {}. Begin with `{}`.", where_it_is(place), place.command("chat")),
        false => "Nothing is recorded in memory: name a file with --db PATH.".to_owned(),
    }
}

/// In a file, or at a server.
fn where_it_is(place: &Place) -> String {
    let word = if matches!(place, Place::There(_)) { "at" } else { "in" };
    format!("{word} {}", place.shown())
}

/// A whole terminal's width; nothing where nobody looks.
fn width() -> Option<usize> {
    terminal::columns()
}

/// All runs of a session.
pub(crate) fn runs_of(key: &SessionKey) -> RunFilter {
    RunFilter {
        tenant: Some(key.tenant.to_string()),
        app: Some(key.app.to_string()),
        user: Some(key.user.to_string()),
        session: Some(key.session.to_string()),
        ..RunFilter::default()
    }
}

/// Opens a database to read a session of it; says so if there is none.
async fn open_session(db: &Db, key: &SessionKey) -> anyhow::Result<Runtime> {
    let unknown = || no_session(&Place::Here(db.clone()), key);
    let runtime = db.open_to_read()?.ok_or_else(unknown)?;
    if runtime.state(key).await?.is_none() {
        return Err(unknown());
    }
    Ok(runtime)
}

/// What is said of a session that is not there.
fn no_session(place: &Place, key: &SessionKey) -> anyhow::Error {
    let (name, list) = (session_shown(key), place.command("sessions"));
    anyhow::anyhow!("there is no session {name} {}: `{list}` lists them", where_it_is(place))
}
