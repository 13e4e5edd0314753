//! The user and the password, where the address does not give them: found as in every program that uses PostgreSQL's own library.

use std::env;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::passfile::{For, Passfile};

/// What the surroundings of this process say about logins.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    /// `PGUSER`, or else the name with which somebody has logged in here.
    pub(super) user: Option<String>,
    /// `PGPASSWORD`. Passwords may be in any encoding.
    pub(super) password: Option<Vec<u8>>,
    /// The file that `PGPASSFILE` names, or else the one in the home folder.
    pub(super) passfile: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process. A variable that is empty counts as unset.
    pub(super) fn here() -> Self {
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let usual = if cfg!(windows) { dirs::config_dir() } else { dirs::home_dir() };
        let usual = usual.map(|folder| folder.join(if cfg!(windows) { "postgresql/pgpass.conf" } else { ".pgpass" }));
        Self {
            user: variable("PGUSER").and_then(|user| user.into_string().ok()).or_else(|| whoami::username().ok()),
            password: variable("PGPASSWORD").map(std::ffi::OsString::into_encoded_bytes),
            passfile: variable("PGPASSFILE").map(PathBuf::from).or(usual),
        }
    }

    /// Completes the login, and says in which file its password is looked up if it is not known yet.
    pub(super) fn complete(self, config: &mut Config) -> Option<Passfile> {
        if let (None, Some(user)) = (config.get_user(), self.user) {
            config.user(user);
        }
        if let (None, Some(user)) = (config.get_dbname(), config.get_user().map(str::to_owned)) {
            config.dbname(user);
        }
        if let (None, Some(password)) = (config.get_password(), self.password) {
            config.password(password);
        }
        match config.get_password() {
            Some(_) => None,
            None => self.passfile.map(Passfile),
        }
    }
}

/// Looks the password up. All hosts of an address share one, so that of the first one counts that the file knows.
pub(super) fn look_up(passfile: &Passfile, config: &Config) -> Option<String> {
    let (user, database) = (config.get_user()?, config.get_dbname()?);
    let ports = config.get_ports();
    config.get_hosts().iter().enumerate().find_map(|(number, host)| {
        let host = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        };
        let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432).to_string();
        passfile.password(For { host: &host, port: &port, database, user })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(passfile: Option<PathBuf>) -> Surroundings {
        Surroundings { user: Some("grace".to_owned()), password: Some(b"hopper".to_vec()), passfile }
    }

    fn completed(url: &str, surroundings: Surroundings) -> (String, String, Option<Vec<u8>>, bool) {
        let mut config: Config = url.parse().unwrap();
        let passfile = surroundings.complete(&mut config);
        let [user, database] = [config.get_user(), config.get_dbname()].map(|name| name.unwrap().to_owned());
        (user, database, config.get_password().map(<[u8]>::to_vec), passfile.is_some())
    }

    #[test]
    fn what_the_address_says_comes_first() {
        let said = completed("postgres://ada:secret@db/app", here(None));
        assert_eq!(said, ("ada".to_owned(), "app".to_owned(), Some(b"secret".to_vec()), false));
        let unsaid = completed("postgres://db", here(None));
        assert_eq!(unsaid, ("grace".to_owned(), "grace".to_owned(), Some(b"hopper".to_vec()), false));
        let own = completed("postgres://ada@db", here(Some("pgpass".into())));
        assert_eq!(own, ("ada".to_owned(), "ada".to_owned(), Some(b"hopper".to_vec()), false));
    }

    #[cfg(unix)]
    #[test]
    fn the_file_comes_last_and_is_asked_for_each_host() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pgpass");
        std::fs::write(&file, "b:5433:app:ada:second\nlocalhost:*:*:*:socket\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        for (url, expected) in [
            ("postgres://ada@a:5432,b:5433/app", Some("second")),
            ("postgres://ada@a,b:5432/app", None),
            ("postgres://ada@%2Frun%2Fpostgresql/app", Some("socket")),
            ("postgres://eve@b:5433/app", None),
        ] {
            let mut config: Config = url.parse().unwrap();
            let passfile = Surroundings { password: None, ..here(Some(file.clone())) }.complete(&mut config).unwrap();
            assert_eq!(look_up(&passfile, &config).as_deref(), expected, "{url}");
        }
    }
}
