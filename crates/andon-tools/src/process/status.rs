//! How a process ended, in words that a model understands.

use andon_shim::Status;

/// `exit code 2`, or the signal and what it usually means.
pub(crate) fn in_words(status: Status) -> String {
    match status {
        Status::Code(126) => "exit code 126: the command was found but could not be executed".to_owned(),
        Status::Code(127) => "exit code 127: the command was not found".to_owned(),
        Status::Code(code) => format!("exit code {code}"),
        Status::Signal(signal) => match name(signal) {
            Some((name, meaning)) => format!("ended by signal {signal} ({name}: {meaning})"),
            None => format!("ended by signal {signal}"),
        },
    }
}

/// The signals whose numbers are the same on every system, and two that are the same on all but a few.
fn name(signal: i32) -> Option<(&'static str, &'static str)> {
    Some(match signal {
        1 => ("SIGHUP", "its terminal was closed"),
        2 => ("SIGINT", "interrupted"),
        3 => ("SIGQUIT", "asked to quit"),
        4 => ("SIGILL", "invalid instruction"),
        6 => ("SIGABRT", "it aborted itself"),
        8 => ("SIGFPE", "arithmetic error"),
        9 => ("SIGKILL", "killed; perhaps it used too much memory"),
        11 => ("SIGSEGV", "invalid memory access"),
        13 => ("SIGPIPE", "nobody reads its output"),
        15 => ("SIGTERM", "asked to end"),
        24 => ("SIGXCPU", "CPU time limit exceeded"),
        25 => ("SIGXFSZ", "file size limit exceeded"),
        _ => return None,
    })
}
