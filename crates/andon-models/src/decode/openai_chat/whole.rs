//! Whether a call's arguments are whole, tracked byte by byte so that no byte is read twice.

/// How far an object has been read.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// How many brackets are open.
    open: usize,
    /// Whether a bracket was ever open.
    has_begun: bool,
    in_text: bool,
    /// The next byte of a text is escaped.
    escaped: bool,
}

impl Whole {
    /// Reads on.
    pub(super) fn read(&mut self, json: &str) {
        for byte in json.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => (self.open, self.has_begun) = (self.open + 1, true),
                b'}' | b']' => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Whether all that was opened is closed.
    pub(super) fn is_whole(&self) -> bool {
        self.has_begun && self.open == 0 && !self.in_text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_whole_where_it_closes_and_nowhere_before() {
        let json = r#"{"a":"}\"]}","b":[{},"\\"],"c":{"d":1}}"#;
        let mut whole = Whole::default();
        for at in 0..json.len() {
            assert!(!whole.is_whole(), "{}", &json[..at]);
            whole.read(&json[at..=at]);
        }
        assert!(whole.is_whole());
        assert!(!Whole::default().is_whole());
    }
}
