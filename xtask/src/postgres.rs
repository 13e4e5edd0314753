//! The journal and the program on PostgreSQL, tested on a real server: its own, in a temporary folder, which only this machine's users of a socket can
//! reach.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::python::{ensure_venv, target_folder};
use crate::stages::{Stages, build_example, example, quietly, test_cargo};

/// Where Debian has the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The wheel that has them for other systems.
const WHEEL: &str = "pgserver==0.1.4";

/// How often the crash harness kills a process.
const KILLS: &str = "60";

/// The server's log-in rules: `guarded` and `keeper`, each a user of one test program, need a password, all others need none.
const LOGINS: &str = "local all guarded,keeper scram-sha-256\nlocal all all trust\n";

/// `cargo xtask postgres`.
pub(crate) fn postgres(words: &[&str]) -> Result<()> {
    let mut stages = Stages::default();
    run(&mut stages, words)?;
    stages.finish()
}

pub(crate) fn run(stages: &mut Stages, words: &[&str]) -> Result<()> {
    // Of the store and of the program. Neither is among the tests that cargo runs by itself: without a server they fail.
    let name = "the journal on PostgreSQL";
    let tests = ["test", "--workspace", "--features", "andon-store/postgres", "--test", "postgres"];
    stages.run("the journal on PostgreSQL, built", test_cargo(&tests).arg("--no-run"))?;
    let Some(server) = stages.needs(name, Server::start()) else { return Ok(()) };
    let mut command = test_cargo(&tests);
    command.arg("--").args(words).arg("--nocapture");
    stages.run(name, server.to(&mut command))?;
    if !words.is_empty() {
        return Ok(());
    }
    build_example("crash")?;
    stages.run("crash, on PostgreSQL", server.to(example("crash").args(["--kills", KILLS])))
}

/// A server of our own. It is stopped when this is dropped.
pub(crate) struct Server {
    programs: PathBuf,
    /// Has the database, the socket and the log.
    folder: PathBuf,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let programs = ensure_programs()?;
        // In the system's folder for temporary files, which every user may enter, and whose path is short enough for a socket.
        let folder = std::env::temp_dir().join(format!("andon-postgres-{}", std::process::id()));
        let server = Self { programs, folder };
        let Self { folder, .. } = &server;
        std::fs::create_dir(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))?;
        let data = folder.join("data");
        let mut create = unprivileged(&server.programs.join("initdb"));
        create.arg("--pgdata").arg(&data).args([
            "--username",
            "andon",
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
            "--no-locale",
        ]);
        quietly(create.current_dir(folder))?;
        std::fs::write(data.join("pg_hba.conf"), LOGINS).context("the server's logins cannot be written")?;
        quietly(Command::new("sh").args(["-c", &format!("{} start", server.control())]))?;
        Ok(server)
    }

    /// The address of the database, for its superuser.
    pub(crate) fn url(&self) -> String {
        format!("postgres://andon@{}/postgres", self.folder.display().to_string().replace('/', "%2F"))
    }

    /// Tells a command where it is.
    pub(crate) fn to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("ANDON_POSTGRES", self.url()).env("ANDON_POSTGRES_CONTROL", self.control())
    }

    /// A shell command that `start` or `stop` completes.
    pub(crate) fn control(&self) -> String {
        let (programs, folder) = (self.programs.display(), self.folder.display());
        let drops = if is_root() { format!("{} ", UNPRIVILEGED.join(" ")) } else { String::new() };
        // Connections that do not end by themselves are cut.
        format!(
            "cd {folder} && {drops}{programs}/pg_ctl --pgdata {folder}/data --log {folder}/log --wait --silent --mode fast \
             --options \"-k {folder} -c listen_addresses='' -c max_connections=300\""
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that is not running is stopped already, and what cannot be removed is removed by the system.
        let _ = quietly(Command::new("sh").args(["-c", &format!("{} stop", self.control())]));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// PostgreSQL refuses to run as root.
const UNPRIVILEGED: [&str; 4] = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"];

fn is_root() -> bool {
    // The folder of this process belongs to its user.
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let [first, rest @ ..] = UNPRIVILEGED;
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command
}

/// The folder with the server's programs, installed or unpacked where that is permitted.
pub(crate) fn ensure_programs() -> Result<PathBuf> {
    if let Some(own) = std::env::var_os("ANDON_POSTGRES_PROGRAMS") {
        return Ok(own.into());
    }
    if let Some(found) = of_debian() {
        return Ok(found);
    }
    if is_root()
        && debian::install("postgresql")
        && let Some(found) = of_debian()
    {
        return Ok(found);
    }
    of_wheel().context(
        "tests need the programs of PostgreSQL 15 or newer (on Debian and Ubuntu: apt-get install postgresql); ANDON_POSTGRES_PROGRAMS \
         names the folder that has initdb and pg_ctl",
    )
}

/// The newest of Debian's.
fn of_debian() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?.flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).max()?;
    let programs = newest.1.join("bin");
    programs.join("initdb").exists().then_some(programs)
}

/// Those of the wheel, unpacked where whoever runs them may enter: root's own folders are closed to others.
fn of_wheel() -> Result<PathBuf> {
    let shared = if is_root() { std::env::temp_dir() } else { target_folder() };
    let folder = shared.join("andon-postgres-programs");
    let programs = folder.join("pgserver").join("pginstall").join("bin");
    if !programs.join("initdb").exists() {
        let mut install = Command::new(ensure_venv()?);
        install.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--upgrade",
            "--target",
        ]);
        quietly(install.arg(&folder).arg(WHEEL))?;
    }
    if !programs.join("initdb").exists() {
        bail!("the wheel {WHEEL} has no initdb");
    }
    Ok(programs)
}
