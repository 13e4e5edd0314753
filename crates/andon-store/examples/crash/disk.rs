//! Where a round has its database: in a folder, or on its own small disk, which can become full.
//!
//! In a separate namespace a disk can be mounted without root, so the program starts itself again in one. Everything mounted
//! there is gone when the program ends, however it ends.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// Tells the program that it can mount disks.
pub(crate) const INSIDE: &str = "--inside";

const DISK: &str = "disk";
/// Far more than a round needs, and quickly filled.
const SIZE: &str = "size=8m";

/// The database of a round.
pub(crate) fn database(folder: &Path) -> PathBuf {
    folder.join(DISK).join("andon.db")
}

/// Starts the program again where it can mount disks; returns if that is not possible.
pub(crate) fn go_inside() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]);
        command
    };
    let tried = unshare().args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).stderr(Stdio::null()).status();
    if tried.is_ok_and(|status| status.success())
        && let Ok(program) = env::current_exe()
    {
        // It only returns if it fails.
        let _ = unshare().arg(program).arg(INSIDE).args(env::args_os().skip(1)).exec();
    }
}

/// What a round's database is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// The disk that everything else is on.
    Shared,
    /// A small disk, mounted for this round.
    Own,
}

impl Disk {
    pub(crate) fn set_up(self, folder: &Path) -> Result<()> {
        let disk = folder.join(DISK);
        fs::create_dir_all(&disk)?;
        match self {
            Self::Shared => Ok(()),
            Self::Own => run(Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(disk)),
        }
    }

    /// Unmounts the disk and leaves its files in its place.
    pub(crate) fn take_down(self, folder: &Path) -> Result<()> {
        let (disk, kept) = (folder.join(DISK), folder.join("kept"));
        if self == Self::Own {
            run(Command::new("cp").arg("-r").args([&disk, &kept]))?;
            run(Command::new("umount").arg("--lazy").arg(&disk))?;
            fs::remove_dir(&disk)?;
            fs::rename(kept, disk)?;
        }
        Ok(())
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
