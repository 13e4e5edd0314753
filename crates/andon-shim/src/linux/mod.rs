//! The shim on Linux.

pub mod cgroup;
mod control;
mod limits;
pub mod proc;
mod start;
mod supervisor;
mod sweep;

use std::ffi::OsString;

use crate::protocol::SHIM;

pub use control::send_stdin;
pub use limits::rlimits;

/// Does a shim's work and exits, if this process was executed as a shim.
pub(crate) fn serve_if_asked() {
    let args: Vec<OsString> = std::env::args_os().take(4).collect();
    let [name, word, host] = args.as_slice() else { return };
    if name != SHIM || word != SHIM {
        return;
    }
    let Some(host) = host.to_str().and_then(|host| host.parse().ok()).and_then(rustix::process::Pid::from_raw) else {
        return;
    };
    // The kernel knows who created the socket. A person's terminal, a file or a pipe is not such a socket.
    let made_by = rustix::net::sockopt::socket_peercred(rustix::stdio::stdin()).map(|peer| peer.pid);
    if made_by == Ok(host) {
        std::process::exit(supervisor::serve(host));
    }
}
