//! How SQLite was built, compared with the build that Andon's figures are measured with.
//!
//! Its options are in `.cargo/config.toml` of Andon's repository, which a program that depends on this crate does not read. Without
//! them commits are just as durable, but slower: whoever compares figures should know.

use std::sync::Once;

use rusqlite::Connection;

/// As SQLite lists it.
const NO_STATISTICS: &str = "DEFAULT_MEMSTATUS=0";

/// SQLite does not list this one, so what counts is whether the build asked for it.
const FDATASYNC: &str = "HAVE_FDATASYNC";

/// What the build asked for. The library is built by the same cargo command as this crate, and this crate again when the library is.
const ASKED_FOR: Option<&str> = option_env!("LIBSQLITE3_FLAGS");

/// Logs, once in a process, which options SQLite was built without, if any.
pub(super) fn log_what_is_missing(connection: &Connection) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A library that does not tell its options is no reason to refuse a database, nor to say that they are missing.
        let listed = listed(connection).unwrap_or_default();
        if let Some(sentence) = what_is_missing(&listed, ASKED_FOR.unwrap_or_default()) {
            tracing::info!("{sentence}");
        }
    });
}

/// The options that SQLite lists, without `SQLITE_` in front.
fn listed(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection.prepare("PRAGMA compile_options")?.query_map([], |row| row.get(0))?.collect()
}

/// The missing options and what each changes, as a sentence.
fn what_is_missing(listed: &[String], asked_for: &str) -> Option<String> {
    if listed.is_empty() {
        return None;
    }
    let counts_memory = !listed.iter().any(|option| option == NO_STATISTICS);
    // What was asked for may not have reached the library: it could be the system's.
    let reached = !(counts_memory && asks_for(asked_for, &format!("SQLITE_{NO_STATISTICS}")));
    // Elsewhere SQLite never calls `fdatasync`.
    let syncs_times = cfg!(target_os = "linux") && !(reached && asks_for(asked_for, FDATASYNC));
    let times =
        syncs_times.then(|| format!("{FDATASYNC} (so each commit calls fsync, which also writes the file's times)"));
    let statistics = counts_memory
        .then(|| format!("{NO_STATISTICS} (so it counts its memory, under a lock that all connections share)"));
    let missing: Vec<String> = times.into_iter().chain(statistics).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "SQLite was built without {}: commits are as durable, but slower than Andon's figures say",
            missing.join(" and without ")
        )
    })
}

/// Whether flags for the compiler define an option.
fn asks_for(flags: &str, option: &str) -> bool {
    let defined = flags.split_whitespace().map(|flag| flag.strip_prefix("-D").unwrap_or(flag));
    defined.map(|flag| flag.strip_suffix("=1").unwrap_or(flag)).any(|flag| flag == option)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "-DHAVE_FDATASYNC=1 -DSQLITE_DEFAULT_MEMSTATUS=0";

    fn listing(options: &[&str]) -> Vec<String> {
        options.iter().map(|option| (*option).to_owned()).collect()
    }

    #[test]
    fn in_this_repository_nothing_is_missing() {
        let listed = listed(&Connection::open_in_memory().unwrap()).unwrap();
        assert!(listed.iter().any(|option| option.starts_with("THREADSAFE=")), "{listed:?}");
        assert_eq!(what_is_missing(&listed, ASKED_FOR.unwrap_or_default()), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_build_by_somebody_else_says_what_is_slower() {
        let expected = "SQLite was built without HAVE_FDATASYNC (so each commit calls fsync, which also writes the file's times) \
                        and without DEFAULT_MEMSTATUS=0 (so it counts its memory, under a lock that all connections share): \
                        commits are as durable, but slower than Andon's figures say";
        assert_eq!(what_is_missing(&listing(&["THREADSAFE=1"]), "").as_deref(), Some(expected));
        // The system's library, which was built elsewhere and without them.
        assert_eq!(what_is_missing(&listing(&["THREADSAFE=1"]), OURS).as_deref(), Some(expected));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_the_missing_option_is_named() {
        let expected = "SQLite was built without HAVE_FDATASYNC (so each commit calls fsync, which also writes the file's times): \
                        commits are as durable, but slower than Andon's figures say";
        let listed = listing(&["DEFAULT_MEMSTATUS=0", "THREADSAFE=1"]);
        assert_eq!(what_is_missing(&listed, "SQLITE_DEFAULT_MEMSTATUS=0").as_deref(), Some(expected));
        assert_eq!(what_is_missing(&listed, OURS), None);
    }

    #[test]
    fn a_library_that_lists_no_options_is_not_accused() {
        assert_eq!(what_is_missing(&[], ""), None);
    }
}
