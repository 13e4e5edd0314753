//! Where a command works, as the command line says it.

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::{Args, DbArgs};
use crate::config;
use crate::db::quoted;

/// A server, or a database.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PlaceArgs {
    /// Ask the server at this address. Unless told otherwise it is the one that holds the database, if there is one.
    // An empty text is as good as none.
    #[arg(long, value_name = "URL", env = "ANDON_SERVER", hide_env_values = true)]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) db: DbArgs,
}

impl PlaceArgs {
    /// The server that is named, and what a command needs on its line to find it again. What is on the line comes before what
    /// is in a variable, and that before what is in the configuration file.
    pub(crate) fn server(&self) -> Option<(&str, String)> {
        let server = self.server.as_deref().filter(|server| !server.is_empty())?;
        let db = self.db.db.as_ref().filter(|db| !db.is_empty());
        let is_variable = std::env::var_os("ANDON_SERVER").is_some_and(|variable| variable == *server);
        let db_is_variable = db.is_some() && std::env::var_os("ANDON_DB").as_ref() == db;
        let is_flag = !is_variable && !config::is_from_file("server");
        let db_is_flag = db.is_some() && !db_is_variable && !config::is_from_file("db");
        if config::is_from_file("server") && db_is_variable {
            return None;
        }
        match (is_flag, db_is_flag) {
            (true, true) => {
                let why = "--server and --db name two places: a server has its own database";
                Args::command().error(ErrorKind::ArgumentConflict, why).exit()
            }
            (true, false) => Some((server, format!(" --server {}", quoted(server)))),
            (false, true) => None,
            (false, false) if is_variable => Some((server, String::new())),
            (false, false) => Some((server, format!(" --server {}", quoted(server)))),
        }
    }
}
