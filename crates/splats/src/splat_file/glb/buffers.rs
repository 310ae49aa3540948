//! Locates the numbers of a glTF file: in its own chunk, in files next to it, or as text in the JSON.

use super::json::{Buffer, Gltf};
use super::{DAMAGED, refuse};
use crate::splat_file::files::{Files, is_inside};
use crate::{Error, Result};
use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use std::borrow::Cow;
use std::cell::OnceCell;

/// Maximum padding of a chunk or a file to a multiple of 4, bytes.
const PADDING: usize = 3;

/// Buffers, each read at its first use.
pub(super) struct Buffers<'a> {
    declared: &'a [Buffer],
    /// Chunk of numbers of a binary file.
    chunk: Option<&'a [u8]>,
    /// Files next to the glTF file, if its folder is known.
    files: Option<&'a dyn Files>,
    read: Vec<OnceCell<Cow<'a, [u8]>>>,
}

impl<'a> Buffers<'a> {
    pub(super) fn new(
        gltf: &'a Gltf,
        chunk: Option<&'a [u8]>,
        files: Option<&'a dyn Files>,
    ) -> Self {
        // Files of early writers have a chunk that no buffer declares.
        let count = gltf.buffers.len().max(1);
        Self {
            declared: &gltf.buffers,
            chunk,
            files,
            read: (0..count).map(|_| OnceCell::new()).collect(),
        }
    }

    /// Returns the bytes of a buffer.
    pub(super) fn get(&self, index: usize) -> Result<&[u8]> {
        let Some(cell) = self.read.get(index) else {
            return refuse(
                format!("the glTF file has no buffer {index}"),
                "its bufferViews",
            );
        };
        if let Some(bytes) = cell.get() {
            return Ok(bytes);
        }
        let bytes = self.find(index)?;
        Ok(cell.get_or_init(|| bytes))
    }

    /// Returns notes on buffers that were read, and whose length differs from the one in the JSON.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (k, (buffer, read)) in self.declared.iter().zip(&self.read).enumerate() {
            let (Some(bytes), length) = (read.get(), buffer.byte_length) else {
                continue;
            };
            if bytes.len() < length || bytes.len() > length.saturating_add(PADDING) {
                notes.push(format!(
                    "buffer {k} has {} bytes, and the JSON says {length}",
                    bytes.len()
                ));
            }
        }
        notes
    }

    /// Returns the bytes of all buffers that were read.
    pub(super) fn all_bytes(&self) -> usize {
        let read = self.read.iter().filter_map(OnceCell::get);
        read.map(|bytes| bytes.len()).sum()
    }

    fn find(&self, index: usize) -> Result<Cow<'a, [u8]>> {
        let uri = self.declared.get(index).and_then(|b| b.uri.as_deref());
        match (uri, self.chunk) {
            (None, Some(chunk)) if index == 0 => Ok(Cow::Borrowed(chunk)),
            (None, _) => Err(Error::input(format!(
                "buffer {index} of the glTF file has neither a chunk of numbers nor a file"
            ))
            .at(format!("buffers[{index}]"))
            .hint("its numbers may be compressed by an extension: export it without compression, or as .glb")),
            (Some(uri), _) => match uri.strip_prefix("data:") {
                Some(data) => Ok(Cow::Owned(inline(data, index)?)),
                None => self.beside(uri, index),
            },
        }
    }

    /// Reads a file next to the glTF file.
    fn beside(&self, uri: &str, index: usize) -> Result<Cow<'a, [u8]>> {
        let shown: String = uri.chars().take(200).collect();
        let at = format!("buffers[{index}]");
        let is_remote = uri.contains("://") || uri.starts_with("//");
        if is_remote {
            return Err(Error::unsupported(format!(
                "a buffer of the glTF file is at {shown:?}, not next to it"
            ))
            .at(at)
            .hint(
                "download that file next to it, and put its name into the JSON, or export as .glb",
            ));
        }
        let Some(files) = self.files else {
            return Err(Error::unsupported(format!(
                "a buffer of the glTF file is in the file {shown:?}, and its folder is not known"
            ))
            .at(at)
            .hint("read it by its path, or pack it as .glb"));
        };
        // Programs write names escaped and not, and some with the slashes of Windows.
        let tidy = |name: &str| name.trim_start_matches("./").replace('\\', "/");
        let names = [tidy(&unescaped(uri)), tidy(uri)];
        if !names.iter().all(|name| is_inside(name)) {
            return Err(Error::input(format!(
                "a buffer of the glTF file is {shown:?}, which leads out of its folder"
            ))
            .at(at)
            .hint("put that file next to it and its name alone into the JSON, or export as .glb"));
        }
        let found = names.iter().find(|name| !files.is_missing(name));
        let Some(name) = found else {
            return Err(Error::input(format!(
                "the file {:?} is missing, which holds numbers of the glTF file",
                names[0]
            ))
            .at(at)
            .hint("copy it along with the .gltf file, or export as .glb, which is one file"));
        };
        Ok(Cow::Owned(files.get(name)?.into_owned()))
    }
}

/// Decodes `%20` and other escapes in text; if the result is not UTF-8, the text is unchanged.
fn unescaped(text: &str) -> String {
    let bytes = unescape(text.as_bytes());
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|d| d as u8);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let escaped = match text[at..] {
            [b'%', high, low, ..] => digit(high).zip(digit(low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                out.push(16 * high + low);
                at += 3;
            }
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

/// Decodes a data URI, given the part after `data:`.
fn inline(data: &str, index: usize) -> Result<Vec<u8>> {
    let refused = |what: &str| {
        Error::input(format!(
            "the text of buffer {index} of the glTF file {what}"
        ))
        .at(format!("buffers[{index}]"))
        .hint(DAMAGED)
    };
    let Some((kind, content)) = data.split_once(',') else {
        return Err(refused("has no comma before its content"));
    };
    if !kind.to_ascii_lowercase().ends_with(";base64") {
        return Ok(unescape(content.as_bytes()));
    }
    // With padding or without it, and with the line breaks of some programs.
    let settings = NO_PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, settings);
    let folded = |byte: &u8| !byte.is_ascii_whitespace();
    let text: Vec<u8> = unescape(content.as_bytes())
        .into_iter()
        .filter(folded)
        .collect();
    engine
        .decode(text)
        .map_err(|e| refused("is no base64").caused_by(e))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn escapes_are_undone_and_others_stay() {
        assert_eq!(unescaped("scene%20data.bin"), "scene data.bin");
        assert_eq!(unescaped("100%.bin"), "100%.bin");
        assert_eq!(unescaped("%e4%b8%AD%"), "\u{4e2d}%");
        assert_eq!(unescaped("%ff"), "%ff");
    }

    #[test]
    fn data_uris_are_read_whatever_their_kind() {
        for data in [
            "application/octet-stream;base64,AQIDBA==",
            "application/gltf-buffer;base64,AQIDBA",
            ";base64,AQID\nBA==",
            ",%01%02%03%04",
        ] {
            assert_eq!(inline(data, 0).unwrap(), [1, 2, 3, 4], "{data}");
        }
        for data in ["application/octet-stream;base64", ";base64,A!"] {
            let error = inline(data, 0).unwrap_err();
            assert!(
                error.place().is_some() && error.hint_text().is_some(),
                "{data}"
            );
        }
    }
}
