//! A response body as text.

use encoding_rs::Encoding;

use crate::process::{begun_at_the_end, lossless};

/// The content type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentType {
    /// Such as `text/html`, in lower case; empty if the server does not say.
    pub(super) essence: String,
    charset: Option<String>,
}

/// Whether a body is text, as far as its type shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IsText {
    Yes,
    No,
    /// The bytes must be checked.
    Maybe,
}

impl ContentType {
    /// Reads a `Content-Type`.
    pub(super) fn new(content_type: &str) -> Self {
        let mut parts = content_type.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default().to_lowercase();
        let charset = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']).to_lowercase())
        });
        Self { essence, charset }
    }

    pub(super) fn is_text(&self) -> IsText {
        let Some((major, minor)) = self.essence.split_once('/') else { return IsText::Maybe };
        let is_written = ["json", "xml", "yaml", "toml", "javascript", "ecmascript", "ndjson", "graphql", "sql"]
            .iter()
            .any(|word| minor == *word || minor.ends_with(&format!("+{word}")) || minor == format!("x-{word}"));
        match (major, minor) {
            ("text", _) => IsText::Yes,
            ("application" | "image" | "model", _) if is_written => IsText::Yes,
            ("application", "x-www-form-urlencoded" | "x-sh" | "x-httpd-php" | "jsonl" | "json-seq" | "x-tex") => {
                IsText::Yes
            }
            ("application", "octet-stream" | "x-unknown") | ("message", _) => IsText::Maybe,
            _ => IsText::No,
        }
    }

    /// The bytes as text, in the charset that the server names. Bytes that are not UTF-8 are written as `\xNN`.
    pub(super) fn text(&self, bytes: Vec<u8>) -> String {
        match self.other_than_utf8(&bytes) {
            Some(encoding) => encoding.decode(&bytes).0.into_owned(),
            None => {
                let text = lossless(bytes);
                text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
            }
        }
    }

    fn other_than_utf8(&self, bytes: &[u8]) -> Option<&'static Encoding> {
        let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
        let named = || self.charset.as_deref().and_then(|charset| Encoding::for_label(charset.as_bytes()));
        marked.or_else(named).filter(|encoding| *encoding != encoding_rs::UTF_8)
    }

    /// Leaves out a character that was cut at the end, which would look like bytes that are not text.
    pub(super) fn leave_out_half_a_character(&self, bytes: &mut Vec<u8>) {
        if self.other_than_utf8(bytes).is_none() {
            bytes.truncate(bytes.len() - begun_at_the_end(bytes));
        }
    }
}

/// Whether bytes of an unknown type look like text.
pub(super) fn look_like_text(bytes: &[u8]) -> bool {
    let is_utf_16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    is_utf_16 || !bytes.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_recognized_by_its_type() {
        for yes in [
            "text/html",
            "text/plain; charset=utf-8",
            "application/json",
            "application/ld+json",
            "image/svg+xml",
            "application/x-ndjson",
            "application/atom+xml",
            "Application/JavaScript",
        ] {
            assert_eq!(ContentType::new(yes).is_text(), IsText::Yes, "{yes}");
        }
        for no in ["image/png", "application/pdf", "application/zip", "video/mp4", "font/woff2", "application/wasm"] {
            assert_eq!(ContentType::new(no).is_text(), IsText::No, "{no}");
        }
        for maybe in ["", "application/octet-stream", "nonsense"] {
            assert_eq!(ContentType::new(maybe).is_text(), IsText::Maybe, "{maybe}");
        }
    }

    #[test]
    fn the_charset_that_the_server_names_is_used() {
        let text = |kind: &str, bytes: &[u8]| ContentType::new(kind).text(bytes.to_vec());
        assert_eq!(text("text/html", "größe".as_bytes()), "größe");
        assert_eq!(text("text/html; charset=\"ISO-8859-1\"", b"gr\xf6\xdfe"), "größe");
        assert_eq!(text("text/html;Charset=shift_jis", b"\x93\xfa\x96{"), "日本");
        assert!(text("text/html", b"gr\xf6\xdfe").starts_with("gr\\xf6\\xdfe\n"));
        assert_eq!(text("text/html; charset=klingon", b"plain"), "plain");
        assert_eq!(text("text/html", b"\xef\xbb\xbfplain"), "plain");
        assert_eq!(text("text/html", b"\xff\xfea\0b\0"), "ab");
    }

    #[test]
    fn half_a_character_at_the_end_is_left_out() {
        for (bytes, kept) in [("aä", 3), ("a€", 4), ("a😀", 5)] {
            for length in 0..=bytes.len() {
                let mut cut = bytes.as_bytes()[..length].to_vec();
                ContentType::new("").leave_out_half_a_character(&mut cut);
                let expected = if length == kept { kept } else { length.min(1) };
                assert_eq!(cut.len(), expected, "{bytes} at {length}");
            }
        }
        let mut bytes = b"\xf6\xdfe".to_vec();
        ContentType::new("").leave_out_half_a_character(&mut bytes);
        assert_eq!(bytes, b"\xf6\xdfe");
    }
}
