//! What can be wrong with a server, and what its errors mean.

use std::error::Error as _;
use std::time::Duration;

use andon_runtime::JournalError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::check::OLDEST;
use super::schema::VERSION;

/// Why a journal on a server cannot be used, and what to do. Says nothing of the password.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum PostgresError {
    /// The address makes no sense.
    #[error("the address of the database is not valid: {why}; it looks like postgres://USER@HOST/DATABASE")]
    Address {
        /// What is wrong with it.
        why: String,
    },
    /// The name of the schema makes no sense.
    #[error("`{schema}` cannot be the name of a schema: choose one of at most 63 bytes that does not begin with `pg_`")]
    Schema {
        /// The name.
        schema: String,
    },
    /// Nobody answers.
    #[error(
        "{address} cannot be reached: {why}; check that the server is running, and that its host and port are right"
    )]
    Unreachable {
        /// The server and the database.
        address: String,
        /// Why.
        why: String,
    },
    /// The server refuses this user, or wants another password.
    #[error(
        "{address} does not let this user in: {why}; check the user and the password, which may be in the address, in PGPASSWORD or in ~/.pgpass"
    )]
    Login {
        /// The server and the database.
        address: String,
        /// The server's message.
        why: String,
    },
    /// There is no such database.
    #[error("{address} does not exist: {why}; create it, for example with `createdb`")]
    Missing {
        /// The server and the database.
        address: String,
        /// The server's message.
        why: String,
    },
    /// The user may not do what is needed.
    #[error(
        "{address} does not permit what is needed: {why}; let its owner run `CREATE SCHEMA {schema} AUTHORIZATION` and the user's name, \
         or grant it what is missing"
    )]
    Rights {
        /// The server and the database.
        address: String,
        /// The schema.
        schema: String,
        /// The server's message.
        why: String,
    },
    /// The server is too old.
    #[error("{address} runs PostgreSQL {found}, and {OLDEST} or newer is needed")]
    TooOld {
        /// The server and the database.
        address: String,
        /// Its version.
        found: String,
    },
    /// The server only reads.
    #[error("{address} can only be read, because {why}: name the server that can be written")]
    ReadOnly {
        /// The server and the database.
        address: String,
        /// Why.
        why: &'static str,
    },
    /// With this setting the server would lose what it has acknowledged, or change it.
    #[error("{address} has {setting} = {value}, {why}: set it to {wanted}")]
    Setting {
        /// The server and the database.
        address: String,
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What that means.
        why: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// The schema belongs to something else.
    #[error("the schema {schema} of {address} is not Andon's: it was not changed, choose another")]
    NotOurs {
        /// The server and the database.
        address: String,
        /// The schema.
        schema: String,
    },
    /// A newer version of Andon has written it.
    #[error(
        "the schema {schema} of {address} was written by a newer version of Andon (format {found}, and this version knows {VERSION}): \
         use that version"
    )]
    Newer {
        /// The server and the database.
        address: String,
        /// The schema.
        schema: String,
        /// Its format.
        found: i64,
    },
    /// Something else.
    #[error("{address} cannot be used: {why}")]
    Other {
        /// The server and the database.
        address: String,
        /// What happened.
        why: String,
    },
}

impl PostgresError {
    /// Adds why there was no password, if that is why the server refuses this user.
    pub(crate) fn because(self, warning: Option<String>) -> Self {
        match (self, warning) {
            (Self::Login { address, why }, Some(warning)) => Self::Login { address, why: format!("{why}; {warning}") },
            (error, _) => error,
        }
    }
}

/// Why something that was asked of the server was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{}", words(.0))]
    Server(#[from] Error),
    #[error("it has not answered for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("it has closed the connection")]
    Gone,
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Unusable(Box<PostgresError>),
}

/// The server's own words, or those of whatever failed below.
fn words(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// What to do about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The server is away, or cannot write at all: the same may succeed once it is back.
    Away,
    /// It got in the way of another transaction, and was rolled back: the same may succeed at once.
    InTheWay,
    /// This statement cannot succeed.
    Statement,
}

/// What to do about a fault. A commit may have been made although its answer was lost, if the server is away.
pub(crate) fn cause(fault: &Fault) -> Cause {
    let Fault::Server(error) = fault else { return Cause::Away };
    let Some(code) = error.code() else {
        // A value that cannot be encoded is found before anything is sent.
        let is_ours =
            error.to_string().starts_with("error serializing") || error.to_string().starts_with("error deserializing");
        return if is_ours { Cause::Statement } else { Cause::Away };
    };
    if [&SqlState::T_R_DEADLOCK_DETECTED, &SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::LOCK_NOT_AVAILABLE]
        .contains(&code)
    {
        return Cause::InTheWay;
    }
    // The classes of errors that are about the data of the statement.
    match (code.code().get(..2), code.code()) {
        // Somebody has removed the tables or taken the rights away, and may bring them back.
        (_, "42P01" | "42501") => Cause::Away,
        (Some("0A" | "21" | "22" | "23" | "42" | "54"), _) => Cause::Statement,
        _ => Cause::Away,
    }
}

/// A fault as the journal's callers see it.
pub(crate) fn explain(fault: &Fault) -> JournalError {
    let hint = match fault {
        Fault::Unusable(error) => return JournalError::Storage(error.to_string()),
        Fault::Server(error) => match error.code().map(SqlState::code) {
            Some("53100") => "the database server's disk is full: make room",
            Some("25006") => "the database can only be read at the moment",
            Some("53300") => "the database server has no free connection",
            Some(code) if matches!(code.get(..2), Some("23")) => "it would break the order of the record",
            Some(code) if matches!(code.get(..2), Some("0A" | "21" | "22" | "42" | "54")) => {
                "the database cannot store it"
            }
            _ => "the database server cannot be used",
        },
        Fault::Silent(_) | Fault::Gone | Fault::Tls(_) => "the database server cannot be used",
    };
    JournalError::Storage(format!("{hint} ({fault})"))
}

/// What a fault means when opening the database.
pub(crate) fn refused(address: &str, schema: &str, fault: Fault) -> PostgresError {
    let (address, why) = (address.to_owned(), fault.to_string());
    let code = match &fault {
        Fault::Unusable(_) => None,
        Fault::Server(error) => error.code().map(|code| code.code().to_owned()),
        Fault::Silent(_) | Fault::Gone => return PostgresError::Unreachable { address, why },
        Fault::Tls(_) => return PostgresError::Other { address, why },
    };
    match (fault, code.as_deref()) {
        (Fault::Unusable(error), _) => *error,
        (_, Some(code)) if code.starts_with("28") => PostgresError::Login { address, why },
        (_, Some("3D000")) => PostgresError::Missing { address, why },
        (_, Some("42501")) => PostgresError::Rights { address, schema: schema.to_owned(), why },
        (_, Some(code)) if code.starts_with("08") || code.starts_with("57P") || code == "53300" => {
            PostgresError::Unreachable { address, why }
        }
        (_, Some(_)) => PostgresError::Other { address, why },
        (_, None) if why.contains("password") => PostgresError::Login { address, why },
        (_, None) => PostgresError::Unreachable { address, why },
    }
}
