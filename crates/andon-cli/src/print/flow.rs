//! Wraps text between words while it streams into a terminal.

use anstream::adapter::strip_str;

/// Where the cursor is, and where a line ends.
pub(crate) struct Flow {
    width: Option<usize>,
    column: usize,
    /// Whether the last character was part of a word.
    in_word: bool,
}

impl Flow {
    /// A flow that wraps lines at `width`, or not at all.
    pub(crate) fn new(width: Option<usize>) -> Self {
        Self { width, column: 0, in_word: false }
    }

    /// Changes the width.
    pub(crate) fn set_width(&mut self, width: Option<usize>) {
        self.width = width;
    }

    /// Whether the cursor is at the beginning of a line.
    pub(crate) fn at_start(&self) -> bool {
        self.column == 0
    }

    /// Whether the text fits on the current line after a space.
    pub(crate) fn has_room_for(&self, text: &str) -> bool {
        self.width.is_none_or(|width| self.column + 1 + seen(text) <= width)
    }

    /// Notes that the line was ended elsewhere.
    pub(crate) fn line_ended(&mut self) {
        self.column = 0;
        self.in_word = false;
    }

    /// The text with a line break before each word that does not fit. A word that is still incomplete is shown as it comes.
    pub(crate) fn broken(&mut self, text: &str) -> String {
        let Some(width) = self.width else {
            let after = text.rsplit_once('\n').map_or(text, |(_, after)| after);
            let goes_on = if text.contains('\n') { 0 } else { self.column };
            self.column = goes_on + after.chars().count();
            return text.to_owned();
        };
        let mut out = String::with_capacity(text.len() + 8);
        for token in text.split_inclusive(char::is_whitespace) {
            let word = token.trim_end();
            let length = seen(word);
            if !self.in_word && self.column > 0 && self.column + length > width {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                self.column = 0;
            }
            out.push_str(token);
            self.column =
                if token.ends_with('\n') { 0 } else { self.column + length + (token.len() - word.len()).min(1) };
            self.in_word = token.len() == word.len();
        }
        out
    }
}

/// How many columns a word takes; styles take none.
fn seen(word: &str) -> usize {
    if word.contains('\x1b') { strip_str(word).map(|part| part.chars().count()).sum() } else { word.chars().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_wherever_the_pieces_are_divided() {
        let mut flow = Flow::new(Some(10));
        assert_eq!(flow.broken("The line stops with "), "The line\nstops with ");
        assert_eq!(flow.broken("nothing half"), "\nnothing\nhalf");
        assert_eq!(flow.broken("-made.\n"), "-made.\n");
        assert!(flow.at_start());
    }

    #[test]
    fn styles_take_no_room() {
        let bold = crate::print::Style::BOLD;
        let text = format!("{bold}The line{bold:#} stops {bold}here{bold:#}");
        assert_eq!(Flow::new(Some(14)).broken(&text), format!("{bold}The line{bold:#} stops\n{bold}here{bold:#}"));
    }

    #[test]
    fn without_a_width_every_byte_is_as_it_was() {
        let mut flow = Flow::new(None);
        assert_eq!(flow.broken("a  b\n\nc"), "a  b\n\nc");
        assert!(!flow.at_start());
    }
}
