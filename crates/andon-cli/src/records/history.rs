//! `andon history`.

use super::{no_session, open_session, write};
use crate::args::HistoryArgs;
use crate::client::Target;
use crate::print::write_line;
use crate::show::transcript;

/// Shows the conversation of a session.
pub(crate) async fn history(args: &HistoryArgs) -> anyhow::Result<()> {
    let key = args.session.key()?;
    let target = Target::named(&args.target)?;
    let messages = match &target {
        Target::Server(client) => client.history(&key).await?.ok_or_else(|| no_session(&target, &key))?,
        Target::Database(db) => open_session(db, &key).await?.history(&key).await?,
    };
    if args.json {
        for message in &messages {
            write_line(&serde_json::to_string(message)?)?;
        }
        return Ok(());
    }
    Ok(match messages.as_slice() {
        [] => write("No run of this session has settled yet.\n"),
        messages => write(&transcript(messages)),
    }?)
}
