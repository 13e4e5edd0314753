//! Names that may contain any character. PostgreSQL's texts cannot hold U+0000, which keys of a state may have.

use std::borrow::Cow;

/// The character that begins an escaped one. It is so rare in names that most are stored as they are.
const ESCAPE: char = '\u{1}';

/// A name as it is stored. Names keep their order.
pub(super) fn stored(name: &str) -> Cow<'_, str> {
    if !name.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(name);
    }
    let mut stored = String::with_capacity(name.len() + 8);
    for letter in name.chars() {
        match letter {
            '\0' => stored.extend([ESCAPE, '0']),
            ESCAPE => stored.extend([ESCAPE, '1']),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// The name that was stored.
pub(super) fn read(stored: String) -> String {
    if !stored.contains(ESCAPE) {
        return stored;
    }
    let mut letters = stored.chars();
    let mut name = String::with_capacity(stored.len());
    while let Some(letter) = letters.next() {
        match letter {
            ESCAPE => name.push(if letters.next() == Some('0') { '\0' } else { ESCAPE }),
            other => name.push(other),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_stored_and_keeps_its_place() {
        let mut names = ["", "a", "\0", "\0a", "\0\0", "\u{1}", "\u{1}0", "\u{1}1", "a\0b", "a\u{1}", "ä", "\u{2}"];
        names.sort_unstable();
        let all: Vec<_> = names.iter().map(|name| stored(name).into_owned()).collect();
        assert!(all.is_sorted() && all.iter().all(|stored| !stored.contains('\0')), "{all:?}");
        assert_eq!(all.into_iter().map(read).collect::<Vec<_>>(), names);
    }
}
