//! The database: which one it is, and how to open it.

use std::path::PathBuf;
use std::sync::Arc;

use andon_runtime::{Journal, Runtime, RuntimeBuilder};
use andon_store::{
    OpenError, Options, Owner, OwnerKey, PostgresAddress, PostgresJournal, PostgresOptions, SqliteJournal, default_path,
};
use anyhow::{Context, anyhow};

use crate::args::DbArgs;
use crate::paste::{program, quoted};
use crate::print::{Style, aside, plain_line};

/// Where runs are recorded.
#[derive(Debug, Clone)]
pub(crate) struct Db {
    place: Place,
    /// The flag that other commands need to find the same database. It has no password.
    flag: String,
}

#[derive(Debug, Clone)]
enum Place {
    Memory,
    /// An SQLite database.
    File(PathBuf),
    /// A database on a PostgreSQL server.
    Server(Arc<PostgresAddress>),
}

/// Why a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenFor {
    /// To run prompts. That also works in memory.
    Running,
    /// To change what is on record.
    Changing,
}

/// Whether the name of a database is that of a file.
pub(crate) fn is_file(name: &str) -> bool {
    name != "memory" && !PostgresAddress::is_meant(name)
}

/// The address of a database on a server without its password, and the password, if it has one.
pub(crate) fn split_password(url: &str) -> Option<(String, Vec<u8>)> {
    PostgresAddress::split_password(url)
}

impl Db {
    /// The database named by the command line or its variable, or the default.
    pub(crate) fn named(args: &DbArgs) -> anyhow::Result<Self> {
        let Some(name) = args.db.as_ref().filter(|name| !name.is_empty()) else {
            let file = default_path().context("you have no data folder: name a file with --db PATH")?;
            return Ok(Self { place: Place::File(file), flag: String::new() });
        };
        let (place, shown) = match name.to_str() {
            Some("memory") => (Place::Memory, "memory".to_owned()),
            Some(url) if !is_file(url) => {
                let address = PostgresAddress::read(url)?;
                if let Some(warning) = address.warning() {
                    let stop = Style::STOP;
                    aside(&format!("{stop}warning:{stop:#} {}\n", plain_line(&warning)));
                }
                let shown = address.without_password().to_owned();
                (Place::Server(Arc::new(address)), shown)
            }
            _ => (Place::File(PathBuf::from(name)), name.to_string_lossy().into_owned()),
        };
        let is_variable = std::env::var_os("ANDON_DB").as_ref() == Some(name);
        let flag = if is_variable { String::new() } else { format!(" --db {}", quoted(&shown)) };
        Ok(Self { place, flag })
    }

    /// Opens it for writing, in the name of this program; creates what is missing.
    pub(crate) async fn open(&self, program: &'static str, why: OpenFor) -> anyhow::Result<Runtime> {
        match &self.place {
            Place::Memory => match why {
                OpenFor::Running => Ok(Runtime::builder().build()),
                OpenFor::Changing => Err(anyhow!("`--db memory` keeps nothing: name a file with --db PATH")),
            },
            Place::File(file) => {
                let journal = SqliteJournal::open_with(file, &Options::new().program(program));
                let journal = journal.map_err(|error| with_advice(error, why))?;
                Ok(Runtime::builder().journal(Arc::new(journal)).build())
            }
            Place::Server(address) => {
                Ok(Runtime::builder().journal(Arc::new(connect(address, program).await?)).build())
            }
        }
    }

    /// Like [`open`](Self::open), for a server, which writes its address beside a file.
    pub(crate) async fn open_to_serve(
        &self,
        program: &'static str,
        runtime: RuntimeBuilder,
    ) -> anyhow::Result<(Runtime, Address)> {
        match &self.place {
            Place::Memory => Ok((runtime.build(), Address::Nowhere)),
            Place::File(file) => {
                let journal = SqliteJournal::open_with(file, &Options::new().program(program));
                let journal = Arc::new(journal.map_err(|error| with_advice(error, OpenFor::Running))?);
                Ok((runtime.journal(Arc::clone(&journal)).build(), Address::BesideFile(journal)))
            }
            Place::Server(address) => {
                let journal = Arc::new(connect(address, program).await?);
                Ok((runtime.journal(Arc::clone(&journal)).build(), Address::OnServer(journal)))
            }
        }
    }

    /// Opens it for reading, even while another process writes it; `None` if nothing was recorded yet.
    pub(crate) async fn open_to_read(&self) -> anyhow::Result<Option<Runtime>> {
        let journal = self.journal_to_read().await?;
        Ok(journal.map(|journal| Runtime::builder().journal(journal).build()))
    }

    /// Like [`open_to_read`](Self::open_to_read), for data that belongs to no run.
    pub(crate) async fn journal_to_read(&self) -> anyhow::Result<Option<Arc<dyn Journal>>> {
        match &self.place {
            Place::Memory => Ok(None),
            Place::File(file) => match SqliteJournal::open_to_read(file) {
                Ok(journal) => Ok(Some(Arc::new(journal))),
                Err(OpenError::Missing { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            },
            Place::Server(address) => {
                let address = Arc::clone(address);
                let open = move || PostgresJournal::open_to_read(&address, &PostgresOptions::new());
                let journal = tokio::task::spawn_blocking(open).await??;
                Ok(journal.map(|journal| Arc::new(journal) as Arc<dyn Journal>))
            }
        }
    }

    /// Whether a process has it open for writing, as far as that can be known: several may share one on a server.
    pub(crate) fn is_held(&self) -> bool {
        self.is_shared() || self.owner().is_some()
    }

    /// The process that has it open for writing. A database on a server has no such process.
    pub(crate) fn owner(&self) -> Option<Owner> {
        match &self.place {
            Place::File(file) => SqliteJournal::owner(file),
            Place::Memory | Place::Server(_) => None,
        }
    }

    /// Whether several processes may write it at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.place, Place::Server(_))
    }

    /// The flag that other commands need to find the same database.
    pub(crate) fn flag(&self) -> &str {
        &self.flag
    }

    /// Whether conversations outlive the program.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(self.place, Place::Memory)
    }

    /// A description for people.
    pub(crate) fn shown(&self) -> String {
        match &self.place {
            Place::Memory => "memory".to_owned(),
            Place::File(file) => file.display().to_string(),
            Place::Server(address) => match address.schema() {
                Some(schema) => format!("{} (schema {schema})", address.shown()),
                None => address.shown().to_owned(),
            },
        }
    }

    /// The same for a command that found no server to ask.
    pub(crate) fn shown_unserved(&self) -> String {
        // Servers do not say in a shared database that they use it.
        if self.is_shared() { self.shown() } else { format!("{}, which no server is using", self.shown()) }
    }

    /// How to name another database, as in "import into …".
    pub(crate) fn another(&self) -> &'static str {
        if self.is_shared() { "another database or schema with --db" } else { "another file with --db PATH" }
    }

    /// A command that reaches the server of this database, to paste into any terminal in any folder.
    pub(crate) fn client_command(&self, words: &str, server: &str) -> String {
        // Only beside a file can a client find the server.
        let place = self.place().filter(|_| !self.is_shared());
        format!("{} {words}{}", program(), place.unwrap_or_else(|| format!(" --server {}", quoted(server))))
    }

    /// A command that works on this database itself, to paste like [`client_command`](Self::client_command).
    pub(crate) fn own_command(&self, words: &str) -> String {
        format!("{} {words}{}", program(), self.place().unwrap_or_default())
    }

    /// The command that serves this database, to type in another terminal; `None` for memory, which no other process can see.
    pub(crate) fn serve_command(&self) -> Option<String> {
        Some(format!("{} serve{}", program(), self.place()?))
    }

    /// The flag that finds the same database from any folder, whatever the variables say; `None` for memory.
    fn place(&self) -> Option<String> {
        let name = match &self.place {
            Place::Memory => return None,
            Place::File(file) if default_path().as_ref() == Some(file) => return Some(String::new()),
            Place::File(file) => {
                std::path::absolute(file).unwrap_or_else(|_| file.clone()).to_string_lossy().into_owned()
            }
            Place::Server(address) => address.without_password().to_owned(),
        };
        Some(format!(" --db {}", quoted(&name)))
    }

    /// The error of a command that needs a server.
    pub(crate) fn no_server(&self) -> String {
        match self.serve_command() {
            Some(serve) if self.is_shared() => format!(
                "{} does not say which servers use it: name one with --server, or start one with `{serve}`",
                self.shown()
            ),
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

/// Connects to a database on a server, aside: nobody may answer for seconds, and a signal must be heard meanwhile.
async fn connect(address: &Arc<PostgresAddress>, program: &'static str) -> anyhow::Result<PostgresJournal> {
    let address = Arc::clone(address);
    let open = move || PostgresJournal::open_at(&address, &PostgresOptions::new().program(program));
    Ok(tokio::task::spawn_blocking(open).await??)
}

/// Where clients look for the server of a database. It keeps the database open.
pub(crate) enum Address {
    /// Nobody else sees what is in memory.
    Nowhere,
    /// In a file beside the database.
    BesideFile(Arc<SqliteJournal>),
    /// A database on a server does not say who serves it.
    OnServer(#[expect(dead_code, reason = "kept open")] Arc<PostgresJournal>),
}

impl Address {
    /// Writes the server's address, and the key for whoever may read the database.
    pub(crate) fn say(&self, address: String, key: Option<&str>) -> anyhow::Result<()> {
        if let (Self::BesideFile(journal), Some(key)) = (self, key) {
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
        match self {
            Self::BesideFile(journal) => journal.set_address(address),
            Self::Nowhere | Self::OnServer(_) => Ok(()),
        }
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
    fn a_database_on_a_server_is_shown_and_pasted_without_its_password() {
        let url = "postgres://ada:secret@db/app?sslmode=require&schema=shop";
        let db = Db::named(&DbArgs { db: Some(url.into()) }).unwrap();
        let pasted = "--db 'postgres://ada@db/app?sslmode=require&schema=shop'";
        assert_eq!(db.shown(), "postgres://db/app (schema shop)");
        assert_eq!(db.command("runs"), format!("{} runs {pasted}", program()));
        assert_eq!(db.serve_command(), Some(format!("{} serve {pasted}", program())));
        assert!(db.client_command("chat", "http://h:1").ends_with(" chat --server http://h:1"));
        assert!(db.is_kept() && db.is_held() && db.owner().is_none());
        assert!(db.no_server().contains("name one with --server"));
        assert!(!format!("{db:?}").contains("secret"));
        let wrong = Db::named(&DbArgs { db: Some("postgres://ada:secret@/app".into()) }).unwrap_err();
        assert!(!format!("{wrong:#}").contains("secret"), "{wrong:#}");
    }

    #[test]
    fn an_address_with_brackets_is_quoted() {
        let db = Db::named(&DbArgs { db: Some("memory".into()) }).unwrap();
        assert!(db.client_command("chat", "http://[::1]:80").ends_with(" chat --server 'http://[::1]:80'"));
    }
}
