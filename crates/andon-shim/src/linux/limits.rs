//! A tool's limits in the kernel's form.

use rustix::process::{Resource, Rlimit, getrlimit};

use crate::protocol::Limits;

/// The limits to set in the tool's process: at most those of this process, because the kernel refuses more.
pub fn rlimits(limits: &Limits) -> Vec<(Resource, Rlimit)> {
    let cpu = limits.cpu.map(|time| time.as_secs().max(1));
    let wanted = [
        // One second between the signal that can be caught and the one that cannot.
        (Resource::Cpu, cpu, cpu.map(|seconds| seconds.saturating_add(1))),
        (Resource::As, limits.memory, limits.memory),
        (Resource::Nofile, limits.open_files, limits.open_files),
        (Resource::Fsize, limits.file_size, limits.file_size),
        (Resource::Nproc, limits.processes, limits.processes),
    ];
    let wanted = wanted.into_iter().filter_map(|(resource, soft, hard)| Some((resource, soft?, hard?)));
    wanted.map(|(resource, soft, hard)| (resource, within(getrlimit(resource).maximum, soft, hard))).collect()
}

fn within(ceiling: Option<u64>, soft: u64, hard: u64) -> Rlimit {
    let ceiling = ceiling.unwrap_or(u64::MAX);
    Rlimit { current: Some(soft.min(ceiling)), maximum: Some(hard.min(ceiling)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_never_above_the_hosts() {
        assert_eq!(within(Some(10), 20, 21), Rlimit { current: Some(10), maximum: Some(10) });
        assert_eq!(within(None, 20, 21), Rlimit { current: Some(20), maximum: Some(21) });
    }
}
