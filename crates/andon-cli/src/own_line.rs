//! Takes a database's password out of this program's own command line, which everybody on a machine can read. The environment, where
//! it goes, only this user can.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::db::split_password;

/// Starts this program again in the same process if its command line has a password, and does not return then. If that is not
/// possible, it goes on as it is.
pub(crate) fn hide_password() {
    let words: Vec<OsString> = std::env::args_os().collect();
    let Some((hidden, password)) = without_password(&words) else { return };
    let (Ok(program), Some((name, rest))) = (std::env::current_exe(), hidden.split_first()) else { return };
    // It returns only if it has failed.
    let _ = Command::new(program).arg0(name).args(rest).env("PGPASSWORD", password).exec();
}

/// The command line without the password, and the password.
fn without_password(words: &[OsString]) -> Option<(Vec<OsString>, OsString)> {
    let mut hidden = words.to_vec();
    let mut password = None;
    let mut is_db = false;
    for word in hidden.iter_mut().take_while(|word| *word != "--") {
        let text = word.to_str().unwrap_or_default();
        let (flag, url) = match text.split_once('=') {
            Some(("--db", url)) => ("--db=", url),
            _ if is_db => ("", text),
            _ => ("", ""),
        };
        let split = split_password(url);
        is_db = word == OsStr::new("--db");
        if let Some((url, found)) = split {
            *word = format!("{flag}{url}").into();
            password = Some(OsString::from_vec(found));
        }
    }
    Some((hidden, password?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(words: &[&str]) -> Option<(Vec<String>, String)> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        let (words, password) = without_password(&words)?;
        let words = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        Some((words, password.into_string().unwrap()))
    }

    #[test]
    fn only_the_password_of_a_database_is_taken_out() {
        let own = "postgres://ada@db/app?schema=shop";
        let given = "postgres://ada:se%20cret@db/app?schema=shop";
        let expected =
            |words: &[&str]| Some((words.iter().map(|word| (*word).to_owned()).collect(), "se cret".to_owned()));
        assert_eq!(hidden(&["andon", "runs", "--db", given]), expected(&["andon", "runs", "--db", own]));
        let joined = (format!("--db={given}"), format!("--db={own}"));
        assert_eq!(hidden(&["andon", &joined.0, "runs"]), expected(&["andon", &joined.1, "runs"]));
        for left in
            [&["andon", "run", given][..], &["andon", "runs", "--db", own], &["andon", "run", "--", "--db", given]]
        {
            assert_eq!(hidden(left), None, "{left:?}");
        }
    }
}
