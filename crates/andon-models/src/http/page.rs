//! A page instead of an answer: what proxies, portals and mistyped addresses send.

use crate::refusal::shorten_to;

/// Whether this is an HTML page, by its type or its beginning.
pub(super) fn is_html(content_type: &str, body: &str) -> bool {
    let begin = body.trim_start_matches('\u{feff}').trim_start();
    let begin = begin.get(..begin.floor_char_boundary(64)).unwrap_or_default().to_ascii_lowercase();
    content_type.contains("html") || begin.starts_with("<!doctype html") || begin.starts_with("<html")
}

/// The page's title, if it has one.
pub(super) fn title(body: &str) -> Option<String> {
    let lower = body.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let begin = open + lower.get(open..)?.find('>')? + 1;
    let end = begin + lower.get(begin..)?.find("</title")?;
    let words: Vec<&str> = body.get(begin..end)?.split_whitespace().collect();
    let title = words.join(" ");
    (!title.is_empty()).then(|| shorten_to(&title, 120))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_its_type_or_its_beginning() {
        assert!(is_html("text/html; charset=utf-8", ""));
        assert!(is_html("", "\u{feff}\n <!DOCTYPE HTML><html>"));
        assert!(is_html("text/plain", "<HTML lang=de>"));
        assert!(!is_html("application/json", "{\"html\": 1}"));
        assert!(!is_html("", "é"));
    }

    #[test]
    fn the_title_is_found_in_whatever_spelling() {
        assert_eq!(title("<html><TITLE id=x>\n  Sign  in\n</TITLE>"), Some("Sign in".into()));
        assert_eq!(title("<title>İstanbul</title>"), Some("İstanbul".into()));
        for none in ["", "<title", "<title>", "<title></title>", "<title>half"] {
            assert_eq!(title(none), None, "{none}");
        }
    }
}
