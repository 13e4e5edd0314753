//! The database: which file it is, and how to open it.

use std::path::PathBuf;
use std::sync::Arc;

use andon_runtime::{Runtime, RuntimeBuilder};
use andon_store::{OpenError, Options, Owner, OwnerKey, SqliteJournal, default_path};
use anyhow::{Context, anyhow};

use crate::args::DbArgs;
use crate::paste::{program, quoted};

/// Where runs are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Db {
    /// The file; `None` for memory.
    file: Option<PathBuf>,
    /// The flag that other commands need to find the same file.
    flag: String,
}

/// Why a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenFor {
    /// To run prompts. That also works in memory.
    Running,
    /// To change what is on record.
    Changing,
}

impl Db {
    /// The database named by the command line or its variable, or the default.
    pub(crate) fn named(args: &DbArgs) -> anyhow::Result<Self> {
        let Some(name) = args.db.as_ref().filter(|name| !name.is_empty()) else {
            let file = default_path().context("you have no data folder: name a file with --db PATH")?;
            return Ok(Self { file: Some(file), flag: String::new() });
        };
        let is_variable = std::env::var_os("ANDON_DB").as_ref() == Some(name);
        let flag = if is_variable { String::new() } else { format!(" --db {}", quoted(&name.to_string_lossy())) };
        Ok(Self { file: (name != "memory").then(|| PathBuf::from(name)), flag })
    }

    /// Opens it for writing, in the name of this program; creates the file if there is none.
    pub(crate) fn open(&self, program: &str, why: OpenFor) -> anyhow::Result<Runtime> {
        let Some(file) = &self.file else {
            return match why {
                OpenFor::Running => Ok(Runtime::builder().build()),
                OpenFor::Changing => Err(anyhow!("`--db memory` keeps nothing: name a file with --db PATH")),
            };
        };
        let journal = SqliteJournal::open_with(file, &Options::new().program(program));
        let journal = journal.map_err(|error| with_advice(error, why))?;
        Ok(Runtime::builder().journal(Arc::new(journal)).build())
    }

    /// Like [`open`](Self::open), for a server, which writes its address beside the file.
    pub(crate) fn open_to_serve(&self, program: &str, runtime: RuntimeBuilder) -> anyhow::Result<(Runtime, Address)> {
        let Some(file) = &self.file else { return Ok((runtime.build(), Address(None))) };
        let journal = SqliteJournal::open_with(file, &Options::new().program(program));
        let journal = Arc::new(journal.map_err(|error| with_advice(error, OpenFor::Running))?);
        Ok((runtime.journal(Arc::clone(&journal)).build(), Address(Some(journal))))
    }

    /// Opens it for reading, even while another process writes it; `None` if nothing was recorded yet.
    pub(crate) fn open_to_read(&self) -> anyhow::Result<Option<Runtime>> {
        let journal = self.journal_to_read()?;
        Ok(journal.map(|journal| Runtime::builder().journal(Arc::new(journal)).build()))
    }

    /// Like [`open_to_read`](Self::open_to_read), for data that belongs to no run.
    pub(crate) fn journal_to_read(&self) -> anyhow::Result<Option<SqliteJournal>> {
        let Some(file) = &self.file else { return Ok(None) };
        match SqliteJournal::open_to_read(file) {
            Ok(journal) => Ok(Some(journal)),
            Err(OpenError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a process has it open for writing.
    pub(crate) fn is_held(&self) -> bool {
        self.owner().is_some()
    }

    /// The process that has it open for writing.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.file.as_ref().and_then(SqliteJournal::owner)
    }

    /// The flag that other commands need to find the same file.
    pub(crate) fn flag(&self) -> &str {
        &self.flag
    }

    /// Whether conversations outlive the program.
    pub(crate) fn is_kept(&self) -> bool {
        self.file.is_some()
    }

    /// A description for people.
    pub(crate) fn shown(&self) -> String {
        self.file.as_ref().map_or_else(|| "memory".to_owned(), |file| file.display().to_string())
    }

    /// A command that reaches the server of this database, to paste into any terminal in any folder.
    pub(crate) fn client_command(&self, words: &str, server: &str) -> String {
        // Memory has no file beside which a client could find the server.
        let place = self.place().unwrap_or_else(|| format!(" --server {}", quoted(server)));
        format!("{} {words}{place}", program())
    }

    /// The command that serves this database, to type in another terminal; `None` for memory, which no other process can see.
    pub(crate) fn serve_command(&self) -> Option<String> {
        Some(format!("{} serve{}", program(), self.place()?))
    }

    /// The flag that finds the same file from any folder, whatever the variables say; `None` for memory.
    fn place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        if default_path().as_ref() == Some(file) {
            return Some(String::new());
        }
        let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        Some(format!(" --db {}", quoted(&file.to_string_lossy())))
    }

    /// The error of a command that needs a server.
    pub(crate) fn no_server(&self) -> String {
        match self.serve_command() {
            Some(serve) => {
                format!("no server is using {}: start one with `{serve}`, or name one with --server", self.shown())
            }
            None => {
                "other programs cannot see what is in memory: name a server with --server, or its database with --db"
                    .to_owned()
            }
        }
    }

    /// A command for people to type that works on the same database.
    pub(crate) fn command(&self, words: &str) -> String {
        format!("{} {words}{}", program(), self.flag)
    }
}

/// The file beside the database where clients look for its server.
pub(crate) struct Address(Option<Arc<SqliteJournal>>);

impl Address {
    /// Writes the server's address, and the key for whoever may read the database.
    pub(crate) fn say(&self, address: String, key: Option<&str>) -> anyhow::Result<()> {
        if let (Some(journal), Some(key)) = (&self.0, key) {
            let said = journal.set_key(Some(OwnerKey::new(key)));
            said.context("cannot write the server's key beside the database")?;
        }
        self.set(Some(address)).context("cannot write the server's address beside the database")
    }

    /// Removes the address when the server shuts down.
    pub(crate) fn withdraw(&self) {
        // If this fails, the released lock says the same.
        let _ = self.set(None);
    }

    fn set(&self, address: Option<String>) -> std::io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |journal| journal.set_address(address))
    }
}

/// The store says what is wrong; this adds the flag that helps.
fn with_advice(error: OpenError, why: OpenFor) -> anyhow::Error {
    match (&error, why) {
        (OpenError::InUse { .. } | OpenError::Locked { .. }, OpenFor::Running) => {
            anyhow!("{error}, with --db PATH; or use --db memory, which keeps nothing")
        }
        (OpenError::Missing { .. } | OpenError::Newer { .. } | OpenError::Other { .. }, _) => error.into(),
        _ => anyhow!("{error}, with --db PATH"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_means_the_default_and_memory_is_not_a_file() {
        let db = |name: &str| Db::named(&DbArgs { db: Some(name.into()) }).unwrap();
        assert!(db("").is_kept() || default_path().is_none());
        assert!(!db("memory").is_kept());
        assert_eq!(db("./memory").shown(), "./memory");
        assert_eq!(db("a b.db").command("runs"), format!("{} runs --db 'a b.db'", program()));
    }

    #[test]
    fn a_missing_server_error_says_how_to_start_one() {
        let db = |name: &str| Db::named(&DbArgs { db: Some(name.into()) }).unwrap();
        let folder = std::env::current_dir().unwrap();
        let file = quoted(&folder.join("x.db").to_string_lossy());
        assert_eq!(db("x.db").serve_command(), Some(format!("{} serve --db {file}", program())));
        assert_eq!(db("memory").serve_command(), None);
        assert!(!db("memory").no_server().contains("start one"));
    }

    #[test]
    fn an_address_with_brackets_is_quoted() {
        let db = Db::named(&DbArgs { db: Some("memory".into()) }).unwrap();
        assert!(db.client_command("chat", "http://[::1]:80").ends_with(" chat --server 'http://[::1]:80'"));
    }
}
