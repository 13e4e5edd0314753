//! A [`Config`](crate::Config) as JSON, which must be UTF-8, while arguments need not be.
//!
//! No argument can contain a NUL byte, so a text that begins with one means that the rest is hexadecimal.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;

use serde::{Deserialize, Serialize};

use crate::protocol::{self, Limits};

#[derive(Serialize, Deserialize)]
pub(crate) struct Config {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    cwd: Option<String>,
    limits: Limits,
    patience_ms: u64,
}

impl From<protocol::Config> for Config {
    fn from(config: protocol::Config) -> Self {
        let protocol::Config { program, args, env, cwd, limits, patience_ms } = config;
        Self {
            program: pack(program),
            args: args.into_iter().map(pack).collect(),
            env: env.into_iter().map(|(name, value)| (pack(name), pack(value))).collect(),
            cwd: cwd.map(pack),
            limits,
            patience_ms,
        }
    }
}

impl From<Config> for protocol::Config {
    fn from(config: Config) -> Self {
        let Config { program, args, env, cwd, limits, patience_ms } = config;
        Self {
            program: unpack(program),
            args: args.into_iter().map(unpack).collect(),
            env: env.into_iter().map(|(name, value)| (unpack(name), unpack(value))).collect(),
            cwd: cwd.map(unpack),
            limits,
            patience_ms,
        }
    }
}

fn pack(word: OsString) -> String {
    word.into_string().unwrap_or_else(|word| {
        let mut text = String::from("\0");
        for byte in word.into_vec() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    })
}

fn unpack(text: String) -> OsString {
    let Some(digits) = text.strip_prefix('\0') else { return text.into() };
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    OsString::from_vec(pairs.filter_map(byte).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_arrives_as_it_was_sent() {
        for bytes in [&b""[..], b"plain", "\u{fc}ber \\ \"".as_bytes(), b"\xff", b"a\xfe\n\x01"] {
            let word = OsString::from_vec(bytes.to_vec());
            assert_eq!(unpack(pack(word.clone())), word);
        }
    }
}
