//! Text files of other programs: byte order marks, and UTF-16 as Windows programs save it.
//!
//! 1. A UTF-8 byte order mark is removed.
//! 2. UTF-16 is decoded if it has a byte order mark, or if the first eight bytes are four ASCII
//!    characters of two bytes each. Files with a binary count at their head cannot have this form.
//! 3. All other bytes are returned unchanged.

use std::borrow::Cow;

/// UTF-8 byte order mark.
const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Returns the bytes of a text file as UTF-8: without a byte order mark, UTF-16 decoded.
///
/// Bytes that are neither are returned unchanged, so the caller still has to validate them.
pub fn to_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    if let Some(rest) = bytes.strip_prefix(&UTF8_MARK) {
        return Cow::Borrowed(rest);
    }
    match from_utf16(bytes) {
        Some(text) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(bytes),
    }
}

/// Returns true if the bytes are certainly UTF-16.
pub fn is_utf16(bytes: &[u8]) -> bool {
    utf16_order(bytes).is_some()
}

/// Byte order of UTF-16 text.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn unit(self, pair: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(pair),
            Self::Big => u16::from_be_bytes(pair),
        }
    }
}

/// Returns the byte order and the length of the mark.
fn utf16_order(bytes: &[u8]) -> Option<(Order, usize)> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    for order in [Order::Little, Order::Big] {
        let unit = |i: usize| pairs.get(i).map(|&pair| order.unit(pair));
        // A line of text begins with ASCII in all files that Dapple reads.
        let is_ascii = |i: usize| unit(i).is_some_and(|unit| (0x09..0x7f).contains(&unit));
        let marked = unit(0) == Some(0xfeff);
        if marked && (1..pairs.len().min(3)).all(is_ascii) {
            return Some((order, 2));
        }
        if (0..4).all(is_ascii) {
            return Some((order, 0));
        }
    }
    None
}

fn from_utf16(bytes: &[u8]) -> Option<String> {
    let (order, mark) = utf16_order(bytes)?;
    let (pairs, _) = bytes.get(mark..)?.as_chunks::<2>();
    let units = pairs.iter().map(|&pair| order.unit(pair));
    char::decode_utf16(units).collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, big: bool) -> Vec<u8> {
        let unit = |unit: u16| match big {
            true => unit.to_be_bytes(),
            false => unit.to_le_bytes(),
        };
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn marks_are_removed_and_utf_16_is_decoded() {
        let text = "{\"n\": \"Ünï😀\"}\r\n";
        let mut marked = UTF8_MARK.to_vec();
        marked.extend(text.as_bytes());
        let with_mark = |big| utf16(&format!("\u{feff}{text}"), big);
        for bytes in [
            text.as_bytes().to_vec(),
            marked,
            utf16(text, false),
            utf16(text, true),
            with_mark(false),
            with_mark(true),
        ] {
            assert_eq!(*to_utf8(&bytes), *text.as_bytes(), "{bytes:?}");
        }
    }

    #[test]
    fn binary_counts_and_broken_text_stay_unchanged() {
        // 65 279 and 130 815 records: their low bytes are a byte order mark of UTF-16.
        for count in [65_279u64, 130_815, 16, 0] {
            let mut bytes = count.to_le_bytes().to_vec();
            bytes.extend([7, 0, 0, 0]);
            assert_eq!(*to_utf8(&bytes), *bytes);
            assert!(!is_utf16(&bytes));
        }
        // Half of a surrogate pair.
        let broken = [0xff, 0xfe, b'a', 0, b'b', 0, 0x00, 0xd8];
        assert_eq!(*to_utf8(&broken), broken);
        assert_eq!(*to_utf8(b""), *b"");
        assert_eq!(*to_utf8(b"\xff\xfe\x01"), *b"\xff\xfe\x01");
    }
}
