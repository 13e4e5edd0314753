//! The socket between host and shim.

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use crate::protocol::{Config, Order, Word};

/// Sends the host's first byte, and with it the tool's standard input. Without one, the tool reads from `/dev/null`.
pub fn send_stdin(socket: impl AsFd, stdin: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = stdin.into_iter().collect();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    sendmsg(socket, &[IoSlice::new(b"A")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The shim's end.
pub(crate) struct Control {
    socket: BufReader<UnixStream>,
}

/// What the host wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Term,
    /// It has closed its end, or it is gone.
    Kill,
}

impl Control {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket: BufReader::new(UnixStream::from(socket)) }
    }

    /// Waits for the host's first byte, which carries the tool's standard input, if it has one.
    pub(crate) fn receive_stdin(&self) -> io::Result<Option<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let read =
            recvmsg(self.socket.get_ref(), &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if read.bytes == 0 || byte != *b"A" {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok(fds.next())
    }

    /// Waits for the description of what to start.
    pub(crate) fn receive_config(&mut self) -> io::Result<Config> {
        let mut line = Vec::new();
        self.socket.read_until(b'\n', &mut line)?;
        Ok(serde_json::from_slice(&line)?)
    }

    /// The next order, once the socket is readable. Anything that cannot be parsed counts as the end.
    pub(crate) fn receive_order(&mut self) -> Wish {
        let mut line = Vec::new();
        let read = self.socket.read_until(b'\n', &mut line);
        match read.ok().and_then(|_| serde_json::from_slice(&line).ok()) {
            Some(Order::Term) => Wish::Term,
            None => Wish::Kill,
        }
    }

    /// Whether an order is waiting in the buffer.
    pub(crate) fn holds_an_order(&self) -> bool {
        !self.socket.buffer().is_empty()
    }

    /// Tells the host.
    pub(crate) fn say(&self, word: &Word) {
        let Ok(mut line) = serde_json::to_vec(word) else { return };
        line.push(b'\n');
        // It fails only if the host is gone, which is noticed elsewhere.
        let _ = self.socket.get_ref().write_all(&line);
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}
