//! A server that is a program.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::Remains;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::process::{Command, Running, StartError, Tree, in_words};

use super::wire::Wire;

/// How much of a program's standard error is kept.
const SAID: usize = 2 * 1024;
/// How long to wait, once everything has ended, until the rest of the standard error is read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A program and everything that it starts. It is created before the start, so that it can be ended at any moment.
#[derive(Default)]
pub(super) struct Program {
    tree: Tree,
    running: Option<Running>,
    listening: Option<JoinHandle<()>>,
}

impl Program {
    /// Starts it. Its standard error is read, so that it never blocks on it, and the end of it is kept.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, the program may have been started: [`end`](Self::end) ends it.
    pub(super) async fn start(
        &mut self,
        command: &Command,
        wire: &Arc<Wire>,
    ) -> Result<(Receiver, Sender), StartError> {
        let mut running = command.start(&self.tree).await?;
        let pipes = (running.stdin.take(), running.stdout.take(), running.stderr.take());
        self.running = Some(running);
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err(StartError::Lost) };
        self.listening = Some(tokio::runtime::Handle::current().spawn(listen(stderr, Arc::clone(wire))));
        Ok((stdout, stdin))
    }

    /// Waits a while for it to end, unless there is a hurry, then ends it and everything that it has started, and reads its last
    /// words. Returns how it ended, if it was started, and what remains.
    pub(super) async fn end(self, patience: Duration, hurry: &CancellationToken) -> (Option<String>, Remains) {
        let how = match &self.running {
            None => None,
            Some(running) => {
                let exited = tokio::select! {
                    biased;
                    exited = running.exited() => Some(exited),
                    () = hurry.cancelled() => None,
                    () = tokio::time::sleep(patience) => None,
                };
                Some(match exited {
                    Some(Some(status)) => format!("its program has ended ({})", in_words(status)),
                    Some(None) => "its program was lost".to_owned(),
                    None => "its program was ended".to_owned(),
                })
            }
        };
        let left = self.tree.end().await;
        if let Some(listening) = self.listening {
            tokio::select! {
                biased;
                _ = listening => {}
                // A process that is left may keep its standard error open.
                () = hurry.cancelled() => {}
                () = tokio::time::sleep(LAST_WORDS) => {}
            }
        }
        if left.leaked.is_empty() {
            (how, left)
        } else {
            (Some(format!("some of its processes could not be ended: {}", left.leaked.join(", "))), left)
        }
    }
}

async fn listen(mut stderr: Receiver, wire: Arc<Wire>) {
    let mut piece = vec![0; 4 * 1024];
    while let Ok(read) = stderr.read(&mut piece).await {
        match piece.get(..read) {
            None | Some([]) => break,
            Some(said) => wire.heard(said, SAID),
        }
    }
}
