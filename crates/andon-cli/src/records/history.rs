//! `andon history`.

use super::{no_session, open_session, write};
use crate::Exit;
use crate::args::HistoryArgs;
use crate::client::Place;
use crate::show::{transcript, write_line};

/// Shows the conversation of a session.
pub(crate) async fn history(args: &HistoryArgs) -> anyhow::Result<Exit> {
    let key = args.session.key()?;
    let place = Place::named(&args.place)?;
    let messages = match &place {
        Place::There(client) => client.history(&key).await?.ok_or_else(|| no_session(&place, &key))?,
        Place::Here(db) => open_session(db, &key).await?.history(&key).await?,
    };
    if args.json {
        for message in &messages {
            write_line(&serde_json::to_string(message)?)?;
        }
        return Ok(Exit::Completed);
    }
    match messages.as_slice() {
        [] => write("No run of this session has settled yet.\n")?,
        messages => write(&transcript(messages))?,
    }
    Ok(Exit::Completed)
}
