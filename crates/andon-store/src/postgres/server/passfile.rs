//! The file with passwords, `~/.pgpass`: lines of `host:port:database:user:password`, with `*` for any and `\` before a `:` or `\`.
// No well-kept crate reads it: sqlx has a reader inside its own driver, and tokio-postgres has none.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

/// The folders in which PostgreSQL has its socket by default: a connection through one of them is to `localhost`.
const SOCKETS: [&str; 3] = ["/tmp", "/run/postgresql", "/var/run/postgresql"];

/// A file that may be there. It is read for each connection, so that a password can be changed while the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passfile(pub(super) PathBuf);

/// Whom a password is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct For<'a> {
    /// Its name, or the folder of its socket.
    pub(super) host: &'a str,
    pub(super) port: &'a str,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

impl Passfile {
    /// The password for this login, if the file has one and may be used.
    pub(super) fn password(&self, login: For<'_>) -> Option<String> {
        let metadata = fs::metadata(&self.0).ok()?;
        if refusal(&self.0, &metadata).is_some() {
            return None;
        }
        find(&fs::read_to_string(&self.0).ok()?, login)
    }

    /// Why the file is there and is ignored, if that is so.
    pub(super) fn warning(&self) -> Option<String> {
        refusal(&self.0, &fs::metadata(&self.0).ok()?)
    }
}

fn refusal(path: &Path, metadata: &Metadata) -> Option<String> {
    let shown = path.display();
    if !metadata.is_file() {
        return Some(format!("the password file {shown} is ignored, because it is not a plain file"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0 {
        return Some(format!(
            "the password file {shown} is ignored, because others may read it: run `chmod 600 {shown}`"
        ));
    }
    None
}

/// The password of the first line that is for this login.
fn find(text: &str, login: For<'_>) -> Option<String> {
    let host = if SOCKETS.contains(&login.host) { "localhost" } else { login.host };
    let wanted = [host, login.port, login.database, login.user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut rest = line;
        for wanted in wanted {
            let (field, after) = field(rest);
            let is_any = rest.starts_with("*:");
            rest = after.filter(|_| is_any || field == wanted)?;
        }
        Some(field(rest).0).filter(|password| !password.is_empty())
    })
}

/// The text up to the next colon, without its backslashes, and what follows the colon.
fn field(line: &str) -> (String, Option<&str>) {
    let mut text = String::new();
    let mut letters = line.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            ':' => return (text, line.get(place + 1..)),
            '\\' => text.push(letters.next().map_or('\\', |(_, escaped)| escaped)),
            other => text.push(other),
        }
    }
    (text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: For<'_> = For { host: "db.example.com", port: "5432", database: "app", user: "ada" };

    #[test]
    fn the_first_line_that_matches_has_the_password() {
        let file = "# db.example.com:5432:app:ada:comment\n\
            other.example.com:*:*:*:other\n\
            db.example.com:6432:app:ada:port\n\
            db.example.com:5432:*:ada:secret\r\n\
            *:*:*:*:anything\n";
        assert_eq!(find(file, ADA).as_deref(), Some("secret"));
        assert_eq!(find(file, For { port: "6432", ..ADA }).as_deref(), Some("port"));
        assert_eq!(find(file, For { user: "eve", ..ADA }).as_deref(), Some("anything"));
        assert_eq!(find("db.example.com:5432:app:eve:secret", ADA), None);
        // No password, too few fields, a line that ends too early.
        for broken in ["*:*:*:*:", "*:*:*:*", "*", "", ":::::"] {
            assert_eq!(find(broken, ADA), None, "{broken}");
        }
    }

    #[test]
    fn a_backslash_takes_the_next_character_as_it_is() {
        let host = For { host: "fe80::1", ..ADA };
        assert_eq!(find(r"fe80\:\:1:*:*:ada:se\:c\\ret", host).as_deref(), Some(r"se:c\ret"));
        assert_eq!(find(r"\*:*:*:*:secret", ADA), None, "this star is a name");
        assert_eq!(find(r"\*:*:*:*:secret", For { host: "*", ..ADA }).as_deref(), Some("secret"));
        assert_eq!(find(r"*:*:*:*:ends\", ADA).as_deref(), Some(r"ends\"));
        assert_eq!(find("*:*:*:*:one:two", ADA).as_deref(), Some("one"));
        assert_eq!(find("*:*:*:*:grüße*", ADA).as_deref(), Some("grüße*"));
    }

    #[test]
    fn the_usual_socket_is_localhost() {
        let file = "localhost:*:*:*:secret";
        assert_eq!(find(file, For { host: "/run/postgresql", ..ADA }).as_deref(), Some("secret"));
        assert_eq!(find(file, For { host: "/home/ada/pg", ..ADA }), None);
        assert_eq!(find("/home/ada/pg:*:*:*:own", For { host: "/home/ada/pg", ..ADA }).as_deref(), Some("own"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_ignored_with_a_word() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = Passfile(folder.path().join("pgpass"));
        assert_eq!((file.password(ADA), file.warning()), (None, None), "it is not there");
        fs::write(&file.0, "*:*:*:*:secret\n").unwrap();
        for (mode, is_used) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&file.0, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(file.password(ADA).is_some(), is_used, "{mode:o}");
            let warning = file.warning().unwrap_or_default();
            assert_eq!(warning.contains("chmod 600"), !is_used, "{warning}");
        }
        let not_a_file = Passfile(folder.path().to_path_buf());
        assert!(not_a_file.warning().unwrap().contains("plain file") && not_a_file.password(ADA).is_none());
    }
}
