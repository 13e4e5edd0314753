//! What of the host's environment a tool sees: next to nothing, because secrets live there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// What passes by itself; with it everything that begins with `LC_`.
const PASSED: [&str; 7] = ["PATH", "HOME", "LANG", "TZ", "TERM", "TMPDIR", "USER"];

/// Where programs are looked for if the host has no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A tool's whole environment: what passes by itself, what was named, and what was set.
pub(crate) fn environment(
    host: impl Iterator<Item = (OsString, OsString)>,
    named: &[OsString],
    set: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::from([("PATH".into(), PATH.into())]);
    environment.extend(host.filter(|(name, _)| passes(name) || named.contains(name)));
    environment.extend(set.iter().cloned());
    environment.into_iter().collect()
}

fn passes(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| PASSED.contains(&name) || name.starts_with("LC_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_that_was_not_named_so_no_key_reaches_a_tool() {
        let host =
            [("PATH", "/bin"), ("LC_ALL", "C"), ("OPENAI_API_KEY", "sk"), ("SSH_AUTH_SOCK", "/s"), ("NAMED", "1")];
        let host = host.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let got = environment(host.into_iter(), &["NAMED".into()], &[("SET".into(), "2".into())]);
        let want = [("LC_ALL", "C"), ("NAMED", "1"), ("PATH", "/bin"), ("SET", "2")];
        assert_eq!(got, want.map(|(name, value)| (OsString::from(name), OsString::from(value))));
    }

    #[test]
    fn a_host_without_a_path_leaves_the_tool_one_all_the_same() {
        assert_eq!(environment([].into_iter(), &[], &[]), [("PATH".into(), PATH.into())]);
    }
}
