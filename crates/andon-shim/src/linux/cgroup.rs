//! A cgroup for each tool, if this process may create one: in addition to the shim's other means, never instead of them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The cgroup of one tool's processes.
#[derive(Debug, Clone)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Creates one below this process's own; `None` if that is not possible, for whatever reason.
    pub fn make(name: &str) -> Option<Self> {
        let path = own()?.join(name);
        fs::create_dir(&path).ok()?;
        let made = Self { path };
        // Without `cgroup.kill` (before Linux 5.14) it is useless.
        if !made.path.join("cgroup.kill").exists() {
            made.remove();
            return None;
        }
        Some(made)
    }

    /// An existing one.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process into it; whatever that process starts later is in it, too. It takes some milliseconds.
    pub fn take_in(&self, pid: i32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }

    /// Kills all processes in it at once; none can fork away.
    pub fn kill(&self) {
        // If it fails, the shim's other means remain, and only those count as proof.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// The processes in it.
    pub fn pids(&self) -> Vec<i32> {
        let procs = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        procs.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Removes it, which works only if it is empty. Returns whether it is gone.
    pub fn remove(&self) -> bool {
        fs::remove_dir(&self.path).is_ok() || !self.path.exists()
    }
}

/// The folder of this process's cgroup, in the unified hierarchy.
fn own() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let place = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let mount = mounts.split(|&byte| byte == b'\n').find_map(unified)?;
    Some(mount.join(place))
}

/// The mount point, if this line of `mountinfo` is a whole unified hierarchy.
fn unified(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|&byte| byte == b' ').collect::<Vec<_>>();
    let dash = line.iter().position(|&field| field == b"-")?;
    let (kind, root, point) = (line.get(dash + 1)?, line.get(3)?, line.get(4)?);
    // A path with a space is escaped; such a mount is ignored.
    let plain = !point.contains(&b'\\');
    (*kind == b"cgroup2" && *root == b"/" && plain).then(|| PathBuf::from(OsString::from_vec(point.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_hierarchy_is_found_among_the_mounts() {
        let line = b"31 23 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(unified(line), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(unified(b"31 23 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu"), None);
        assert_eq!(unified(b""), None);
    }
}
