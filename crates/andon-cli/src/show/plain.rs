//! Text that does nothing to a terminal but be shown.
//!
//! Prompts, notes, names of tools, a provider's errors: what was stored may be anybody's. A terminal obeys what is written to
//! it: a title, the clipboard, the cursor. And it hides what it cannot show, or turns the order of letters round, so that a
//! person says yes to something else than they read.

/// What stands in the place of a character that does something, or that nobody sees.
const STAND_IN: char = '\u{fffd}';

/// A text in which every character is one that is seen. Lines and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(seen).collect()
}

/// As [`plain`], on one line: what it stands in cannot be made to look like two lines.
pub(crate) fn plain_line(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { ' ' } else { seen(c) }).collect()
}

/// JSON that means the same, with what nobody sees spelt out. The characters can only be in its texts.
pub(super) fn spelt_out(json: &str) -> String {
    if !json.chars().any(is_hidden) {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        match is_hidden(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            false => out.push(c),
        }
    }
    out
}

pub(super) fn seen(c: char) -> char {
    if is_hidden(c) { STAND_IN } else { c }
}

/// Whether a character does something to a terminal, or to the text around it, or is not seen at all.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        _ if c.is_control() => true,
        // What turns the order of letters round.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Lines that are none to most programs.
        '\u{2028}' | '\u{2029}' => true,
        // What takes no room, or is blank: whole messages were hidden in these. Those that join letters and choose the
        // looks of an emoji (U+200C, U+200D, U+FE0E, U+FE0F) stay, since many scripts need them.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}' => true,
        '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fe00}'..='\u{fe0d}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' => true,
        '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_or_is_not_seen_is_replaced_and_letters_stay() {
        for hidden in "\x1b\x07\x08\r\x7f\u{9b}\u{9d}\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}\u{ad}\u{2028}".chars() {
            assert_eq!(plain(&format!("a{hidden}b")), "a\u{fffd}b", "{hidden:?}");
        }
        for text in ["two\nlines\tand more", "naïve — “so”", "海の底", "שלום", "می‌خواهم", "👩‍👩‍👧 ❤️"]
        {
            assert_eq!(plain(text), text);
        }
        assert_eq!(plain_line("one\nCall it done\r"), "one Call it done\u{fffd}");
    }

    #[test]
    fn json_that_is_spelt_out_means_the_same() {
        let text = "a\u{9b}31m\u{202e}\u{7f}\u{e0041}\n海";
        let json = serde_json::to_string(text).unwrap();
        let out = spelt_out(&json);
        assert_eq!(out, r#""a\u009b31m\u202e\u007f\udb40\udc41\n海""#);
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
    }
}
