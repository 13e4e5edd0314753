//! Text that flows into a terminal as it comes, broken between words.

/// Where the cursor is, and where a line ends.
pub(super) struct Flow {
    width: Option<usize>,
    column: usize,
    /// Whether the last character was part of a word.
    in_word: bool,
}

impl Flow {
    /// A flow that breaks lines at `width`, or leaves them as they are.
    pub(super) fn new(width: Option<usize>) -> Self {
        Self { width, column: 0, in_word: false }
    }

    /// Lines end here from now on.
    pub(super) fn set_width(&mut self, width: Option<usize>) {
        self.width = width;
    }

    /// Whether the cursor is at the beginning of a line.
    pub(super) fn at_start(&self) -> bool {
        self.column == 0
    }

    /// The line was ended by somebody else.
    pub(super) fn line_ended(&mut self) {
        self.column = 0;
        self.in_word = false;
    }

    /// The text with a line break before each word that does not fit. A word that was begun is not held back: it is
    /// shown as it comes.
    pub(super) fn broken(&mut self, text: &str) -> String {
        let Some(width) = self.width else {
            let behind = text.rsplit_once('\n').map_or(text, |(_, behind)| behind);
            let goes_on = if text.contains('\n') { 0 } else { self.column };
            self.column = goes_on + behind.chars().count();
            return text.to_owned();
        };
        let mut out = String::with_capacity(text.len() + 8);
        for token in text.split_inclusive(char::is_whitespace) {
            let word = token.trim_end();
            let length = word.chars().count();
            if !self.in_word && self.column > 0 && self.column + length > width {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                self.column = 0;
            }
            out.push_str(token);
            self.column = if token.ends_with('\n') { 0 } else { self.column + token.chars().count() };
            self.in_word = token.len() == word.len();
        }
        out
    }
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
    fn without_a_width_every_byte_is_as_it_was() {
        let mut flow = Flow::new(None);
        assert_eq!(flow.broken("a  b\n\nc"), "a  b\n\nc");
        assert!(!flow.at_start());
    }
}
