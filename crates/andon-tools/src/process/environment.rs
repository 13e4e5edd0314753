//! Which of the host's variables a tool sees: only a few, because the environment holds secrets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables that every tool gets, besides all that begin with `LC_`.
const PASSED: [&str; 7] = ["PATH", "HOME", "LANG", "TZ", "TERM", "TMPDIR", "USER"];

/// The `PATH` of a tool if the host has none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A tool's whole environment: the usual variables, those named, and those set.
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
    fn a_variable_that_was_not_named_does_not_reach_a_tool() {
        let host =
            [("PATH", "/bin"), ("LC_ALL", "C"), ("OPENAI_API_KEY", "sk"), ("SSH_AUTH_SOCK", "/s"), ("NAMED", "1")];
        let host = host.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let got = environment(host.into_iter(), &["NAMED".into()], &[("SET".into(), "2".into())]);
        let want = [("LC_ALL", "C"), ("NAMED", "1"), ("PATH", "/bin"), ("SET", "2")];
        assert_eq!(got, want.map(|(name, value)| (OsString::from(name), OsString::from(value))));
    }

    #[test]
    fn a_tool_has_a_path_even_if_the_host_has_none() {
        assert_eq!(environment([].into_iter(), &[], &[]), [("PATH".into(), PATH.into())]);
    }
}
