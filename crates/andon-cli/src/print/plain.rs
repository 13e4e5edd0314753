//! Text that a terminal shows and does not obey.
//!
//! Prompts, notes, tool names and providers' errors may come from anyone. A terminal obeys control sequences in them: they set
//! its title, the clipboard, the cursor. Invisible characters, and those that reverse the order of letters, can make a person
//! approve something other than what they read.

/// Replaces a character that is invisible or controls the terminal.
const STAND_IN: char = '\u{fffd}';

/// A text with visible characters only. Line ends and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(seen).collect()
}

/// Like [`plain`], on one line, so that it cannot pretend to be two.
pub(crate) fn plain_line(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { ' ' } else { seen(c) }).collect()
}

/// The same JSON with invisible characters escaped. They can only be inside its strings.
pub(super) fn escaped(json: &str) -> String {
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

/// Whether a character is invisible, or controls the terminal or the text around it.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        _ if c.is_control() => true,
        // These change the direction of the text.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // These are line ends, but not to most programs.
        '\u{2028}' | '\u{2029}' => true,
        // These take no room, or are blank: whole messages can be hidden in them. Those that join letters and choose the style
        // of an emoji (U+200C, U+200D, U+FE0E, U+FE0F) stay, because many scripts need them.
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
    fn control_and_invisible_characters_are_replaced_and_letters_stay() {
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
    fn escaped_json_means_the_same() {
        let text = "a\u{9b}31m\u{202e}\u{7f}\u{e0041}\n海";
        let json = serde_json::to_string(text).unwrap();
        let out = escaped(&json);
        assert_eq!(out, r#""a\u009b31m\u202e\u007f\udb40\udc41\n海""#);
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
    }
}
