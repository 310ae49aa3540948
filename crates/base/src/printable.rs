//! File names made safe for terminals.

use std::borrow::Cow;

/// Returns `text` in one line, without characters that move the cursor, change colours or imitate the
/// program's messages. Control characters, also Unicode's for the direction of writing, are escaped as
/// in Rust: `\n`, `\u{1b}`. File names and file contents may contain any of them.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Does the same as [`printable`] for text of several lines: line breaks and tabs are not escaped.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, hides: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hides) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match hides(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_would_move_it() {
        assert_eq!(printable("Foto 1 (ä).jpg"), "Foto 1 (ä).jpg");
        assert_eq!(
            printable("a\nerror: b\x1b[31m\r.png"),
            "a\\nerror: b\\u{1b}[31m\\r.png"
        );
        assert_eq!(printable("gpj\u{202e}.exe"), "gpj\\u{202e}.exe");
        assert_eq!(printable_lines("a\n\tb\x07"), "a\n\tb\\u{7}");
    }
}
