//! `andon history`.

use super::{open_session, write};
use crate::Exit;
use crate::args::HistoryArgs;
use crate::show::transcript;

/// Shows what was said in a session.
pub(crate) async fn history(args: &HistoryArgs) -> anyhow::Result<Exit> {
    let key = args.session.key()?;
    let (_, runtime) = open_session(&args.db, &key).await?;
    let messages = runtime.history(&key).await?;
    match messages.as_slice() {
        [] => write("Nothing was said yet by a run that has settled.\n")?,
        messages => write(&transcript(messages))?,
    }
    Ok(Exit::Completed)
}
