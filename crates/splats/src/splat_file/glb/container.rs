//! The chunks of a binary file.

use super::{BIN_CHUNK, JSON_CHUNK, MAGIC, refuse};
use crate::Result;
use crate::splat_file::packed::Cursor;

/// JSON of a file, and its numbers.
#[derive(Debug)]
pub struct Chunks<'a> {
    /// JSON.
    pub json: &'a [u8],
    /// Chunk of numbers, if there is one.
    pub numbers: Option<&'a [u8]>,
    /// Offset of the JSON, for errors.
    pub json_at: usize,
    /// Deviations of the file from its format, for the user.
    pub notes: Vec<String>,
}

impl<'a> Chunks<'a> {
    /// Finds the chunks of a binary file; bytes without its signature are JSON.
    ///
    /// # Errors
    /// Another version, or a chunk that is cut off.
    pub fn find(bytes: &'a [u8]) -> Result<Self> {
        let mark = b"\xef\xbb\xbf";
        let json_at = if bytes.starts_with(mark) {
            mark.len()
        } else {
            0
        };
        let text = &bytes[json_at..];
        if text.trim_ascii_start().starts_with(b"{") {
            return Ok(Self {
                json: text,
                numbers: None,
                json_at,
                notes: Vec::new(),
            });
        }
        Self::of_binary(bytes)
    }

    fn of_binary(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0, ".glb");
        let magic = cursor.take(4, "header")?;
        let (version, length) = (cursor.u32("header")?, cursor.u32("header")? as usize);
        if magic != MAGIC || version != 2 {
            return refuse(
                format!("this is no binary glTF file of version 2, but of {version}"),
                "byte 0",
            );
        }
        let size = cursor.u32("chunk")? as usize;
        let at = cursor.at();
        if cursor.u32("chunk")? != JSON_CHUNK {
            return refuse(
                "the first chunk of the glTF file is of another kind than JSON".to_owned(),
                &format!("byte {at}"),
            );
        }
        let json_at = cursor.at();
        let json = cursor.take(size, "chunk of JSON")?;
        let mut numbers = None;
        let mut end = cursor.at();
        // Chunks of other kinds may follow, for programs that know them; some writers count the length without chunks.
        while bytes.len() - end >= 8 && (end < length || numbers.is_none()) {
            let size = cursor.u32("chunk")? as usize;
            let is_numbers = cursor.u32("chunk")? == BIN_CHUNK && numbers.is_none();
            let fits = bytes.len() - cursor.at() >= size;
            if !is_numbers && (!fits || end >= length) {
                break;
            }
            let chunk = cursor.take(size, "chunk of numbers")?;
            if is_numbers {
                numbers = Some(chunk);
            }
            end = cursor.at();
        }
        let mut notes = Vec::new();
        if length != end {
            notes.push(format!(
                "the file says that it has {length} bytes, and its chunks end at {end}"
            ));
        }
        let left = bytes.len() - end;
        if left > 0 {
            notes.push(format!(
                "{left} bytes follow the last chunk, unread: is this the file that it should be?"
            ));
        }
        Ok(Self {
            json,
            numbers,
            json_at,
            notes,
        })
    }
}
