//! The database: which file it is, and how a program opens it.

use std::path::PathBuf;
use std::sync::Arc;

use andon_runtime::{Runtime, RuntimeBuilder};
use andon_store::{OpenError, Options, Owner, OwnerKey, SqliteJournal, default_path};
use anyhow::{Context, anyhow};

use crate::args::DbArgs;

/// Where runs are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Db {
    /// The file; nothing if it is memory.
    file: Option<PathBuf>,
    /// What a command needs on its line to find the same file again.
    flag: String,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// To run prompts: without a file it works too.
    Running,
    /// To change what is on record.
    Changing,
}

impl Db {
    /// The database that is meant by the command line, its variable or neither.
    pub(crate) fn named(args: &DbArgs) -> anyhow::Result<Self> {
        let Some(name) = args.db.as_ref().filter(|name| !name.is_empty()) else {
            let file = default_path().context("no data folder is known for you: name a file with --db PATH")?;
            return Ok(Self { file: Some(file), flag: String::new() });
        };
        let is_variable = std::env::var_os("ANDON_DB").as_ref() == Some(name);
        let flag = if is_variable { String::new() } else { format!(" --db {}", quoted(&name.to_string_lossy())) };
        Ok(Self { file: (name != "memory").then(|| PathBuf::from(name)), flag })
    }

    /// Opens it to write, as this program; makes a file if there is none.
    pub(crate) fn open(&self, program: &str, why: For) -> anyhow::Result<Runtime> {
        let Some(file) = &self.file else {
            return match why {
                For::Running => Ok(Runtime::builder().build()),
                For::Changing => Err(anyhow!("`--db memory` keeps nothing: name a file with --db PATH")),
            };
        };
        let journal = SqliteJournal::open_with(file, &Options::new().program(program));
        let journal = journal.map_err(|error| with_advice(error, why))?;
        Ok(Runtime::builder().journal(Arc::new(journal)).build())
    }

    /// As [`open`](Self::open), for a server: where it can be reached is said beside the file.
    pub(crate) fn open_to_serve(&self, program: &str, runtime: RuntimeBuilder) -> anyhow::Result<(Runtime, Address)> {
        let Some(file) = &self.file else { return Ok((runtime.build(), Address(None))) };
        let journal = SqliteJournal::open_with(file, &Options::new().program(program));
        let journal = Arc::new(journal.map_err(|error| with_advice(error, For::Running))?);
        Ok((runtime.journal(Arc::clone(&journal) as _).build(), Address(Some(journal))))
    }

    /// Opens it to look, also while another process writes it; nothing if nothing was recorded yet.
    pub(crate) fn open_to_read(&self) -> anyhow::Result<Option<Runtime>> {
        let journal = self.journal_to_read()?;
        Ok(journal.map(|journal| Runtime::builder().journal(Arc::new(journal)).build()))
    }

    /// As [`open_to_read`](Self::open_to_read), for what belongs to no run.
    pub(crate) fn journal_to_read(&self) -> anyhow::Result<Option<SqliteJournal>> {
        let Some(file) = &self.file else { return Ok(None) };
        match SqliteJournal::open_to_read(file) {
            Ok(journal) => Ok(Some(journal)),
            Err(OpenError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a process has it open to write.
    pub(crate) fn is_held(&self) -> bool {
        self.owner().is_some()
    }

    /// The process that has it open to write.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.file.as_ref().and_then(SqliteJournal::owner)
    }

    /// What a command needs on its line to find the same file again.
    pub(crate) fn flag(&self) -> &str {
        &self.flag
    }

    /// Whether what is said outlives the program.
    pub(crate) fn is_kept(&self) -> bool {
        self.file.is_some()
    }

    /// The place, for people.
    pub(crate) fn shown(&self) -> String {
        self.file.as_ref().map_or_else(|| "memory".to_owned(), |file| file.display().to_string())
    }

    /// A command of this very program that finds the server of this database, to be pasted in any terminal and any folder.
    pub(crate) fn client_command(&self, words: &str, server: &str) -> String {
        // What is in memory has no file beside which the server could be found.
        let place = self.place().unwrap_or_else(|| format!(" --server {}", quoted(server)));
        format!("{} {words}{place}", program())
    }

    /// The command that serves this database, to be typed in another terminal; nothing if it is memory, which is its program's
    /// alone.
    pub(crate) fn serve_command(&self) -> Option<String> {
        Some(format!("{} serve{}", program(), self.place()?))
    }

    /// What a command needs on its line to find the same file from any folder, whatever is in the variables; nothing if it is
    /// memory.
    fn place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        if default_path().as_ref() == Some(file) {
            return Some(String::new());
        }
        let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        Some(format!(" --db {}", quoted(&file.to_string_lossy())))
    }

    /// What is said where a server is needed and none is.
    pub(crate) fn no_server(&self) -> String {
        match self.serve_command() {
            Some(serve) => {
                format!("no server has {}: start one with `{serve}`, or name one with --server", self.shown())
            }
            None => "what is in memory is one program's alone: name a server with --server, or its file with --db"
                .to_owned(),
        }
    }

    /// A command that works on this same database, for people to type.
    pub(crate) fn command(&self, words: &str) -> String {
        format!("{} {words}{}", program(), self.flag)
    }
}

/// The place beside the database where clients look for its server.
pub(crate) struct Address(Option<Arc<SqliteJournal>>);

impl Address {
    /// Says where the server is, and what opens it to whoever may read the database.
    pub(crate) fn say(&self, address: String, key: Option<&str>) -> anyhow::Result<()> {
        if let (Some(journal), Some(key)) = (&self.0, key) {
            let said = journal.set_key(Some(OwnerKey::new(key)));
            said.context("the server's key cannot be written beside the database")?;
        }
        self.set(Some(address)).context("the server's address cannot be written beside the database")
    }

    /// Takes that back: the server is gone.
    pub(crate) fn withdraw(&self) {
        // Who cannot write it leaves it: the lock that is let go says the same.
        let _ = self.set(None);
    }

    fn set(&self, address: Option<String>) -> std::io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |journal| journal.set_address(address))
    }
}

/// The store says what is wrong; which option helps is ours to say.
fn with_advice(error: OpenError, why: For) -> anyhow::Error {
    match (&error, why) {
        (OpenError::InUse { .. } | OpenError::Locked { .. }, For::Running) => {
            anyhow!("{error}, with --db PATH; or use --db memory, which records nothing")
        }
        (OpenError::Missing { .. } | OpenError::Newer { .. } | OpenError::Other { .. }, _) => error.into(),
        _ => anyhow!("{error}, with --db PATH"),
    }
}

/// This program, as it can be called again.
pub(crate) fn program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    match std::env::current_exe() {
        // It was called by its path, so it may not be found by its name.
        Ok(program) if called.contains('/') => quoted(&program.to_string_lossy()),
        _ => "andon".to_owned(),
    }
}

/// A text as a shell takes it for one word.
pub(crate) fn quoted(text: &str) -> String {
    // Only a text with a NUL in it cannot be quoted, and no shell could take that.
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_can_be_pasted_into_a_shell() {
        let texts = ["plain-1", "two words", "it's", ""].map(quoted);
        assert_eq!(texts, ["plain-1", "'two words'", "\"it's\"", "''"]);
    }

    #[test]
    fn an_empty_name_is_none_and_memory_is_no_file() {
        let db = |name: &str| Db::named(&DbArgs { db: Some(name.into()) }).unwrap();
        assert!(db("").is_kept() || default_path().is_none());
        assert!(!db("memory").is_kept());
        assert_eq!(db("./memory").shown(), "./memory");
        assert_eq!(db("a b.db").command("runs"), format!("{} runs --db 'a b.db'", program()));
    }

    #[test]
    fn a_server_that_is_not_there_is_one_that_can_be_started() {
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
