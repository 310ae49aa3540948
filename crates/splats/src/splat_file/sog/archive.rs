//! ZIP archives of stored files: a simple writer, and a reader that validates.
//!
//! The reader accepts entries that are stored or deflated, without encryption, below 4 GiB. It finds them by the
//! directory at the end, and compares each with its checksum. It compares the sizes in the directory with the file
//! before it allocates memory.

use super::DAMAGED;
use crate::splat_file::packed::Cursor;
use crate::{Error, Result};
use std::borrow::Cow;
use std::io::Read;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;

/// Bytes of the end of the directory, without its comment, and the longest comment.
const END_BYTES: usize = 22;
const LONGEST_COMMENT: usize = 65_535;

/// Midnight of 1 January 1980, the earliest possible date: equal splats give equal bytes.
const DAY: u16 = 0x21;

/// Maximum size of one inflated byte of deflate.
const MOST_RATIO: usize = 1032;

/// Returns true if a path within an archive ends in this name.
pub(super) fn is_named(path: &str, name: &str) -> bool {
    path.rsplit('/').next() == Some(name)
}

/// Packs files into an archive.
pub(super) fn pack(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let all: usize = files
        .iter()
        .map(|(name, bytes)| 2 * name.len() + bytes.len() + 76)
        .sum();
    if u32::try_from(all + END_BYTES).is_err() {
        return Err(Error::unsupported("a .sog file holds no more than 4 GiB")
            .hint("name meta.json in a folder: the files are apart there"));
    }
    let mut out = Vec::with_capacity(all + END_BYTES);
    let mut directory = Vec::new();
    let put =
        |out: &mut Vec<u8>, fields: &[u16]| out.extend(fields.iter().flat_map(|f| f.to_le_bytes()));
    for (name, bytes) in files {
        let at = out.len() as u32;
        let mut fields = Vec::new();
        // Version 2.0, no flags, stored, date.
        put(&mut fields, &[20, 0, 0, 0, DAY]);
        let (crc, size) = (crc32fast::hash(bytes), bytes.len() as u32);
        fields.extend([crc, size, size].iter().flat_map(|f| f.to_le_bytes()));
        put(&mut fields, &[name.len() as u16, 0]);
        out.extend(LOCAL.to_le_bytes());
        out.extend_from_slice(&fields);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(bytes);
        directory.extend(CENTRAL.to_le_bytes());
        put(&mut directory, &[20]);
        directory.extend_from_slice(&fields);
        // No comment, first disk, no attributes.
        put(&mut directory, &[0, 0, 0, 0, 0]);
        directory.extend(at.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (at, count) = (out.len() as u32, files.len() as u16);
    out.extend_from_slice(&directory);
    out.extend(END.to_le_bytes());
    put(&mut out, &[0, 0, count, count]);
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(at.to_le_bytes());
    put(&mut out, &[0]);
    Ok(out)
}

/// Files of an archive, by name.
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
    /// Number of bytes behind the archive's end.
    behind: usize,
}

struct Entry {
    name: String,
    method: u16,
    crc: u32,
    packed: usize,
    unpacked: usize,
    header_at: usize,
}

/// Finds the record of the directory's end: the last one after its directory. Bytes behind it are not the archive's.
fn find_end(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(END_BYTES)?;
    let mark = END.to_le_bytes();
    let is_mark = |&at: &usize| bytes[at..at + 4] == mark;
    let is_behind_directory = |&at: &usize| {
        let mut cursor = Cursor::new(bytes, at + 12, ".sog");
        let ends = [(); 2].map(|()| cursor.u32("directory").map_or(0, u64::from));
        ends[0] + ends[1] == at as u64
    };
    let sound = (0..=last).rev().filter(is_mark).find(is_behind_directory);
    let first = bytes.len().saturating_sub(END_BYTES + LONGEST_COMMENT);
    sound.or_else(|| (first..=last).rev().find(is_mark))
}

fn damaged(what: String, at: usize) -> Error {
    Error::input(what).at(format!("byte {at}")).hint(DAMAGED)
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self> {
        let end = find_end(bytes).ok_or_else(|| {
            damaged(
                "the .sog file has no directory at its end".to_owned(),
                bytes.len(),
            )
        })?;
        let mut comment = Cursor::new(bytes, end + END_BYTES - 2, ".sog");
        let comment = usize::from(comment.u16("directory")?);
        let behind = bytes.len().saturating_sub(end + END_BYTES + comment);
        let mut cursor = Cursor::new(bytes, end + 10, ".sog");
        let count = cursor.u16("directory")?;
        let (_, at) = (cursor.u32("directory")?, cursor.u32("directory")?);
        let mut cursor = Cursor::new(bytes, at as usize, ".sog");
        let mut entries = Vec::new();
        for _ in 0..count {
            let at = cursor.at();
            if cursor.u32("directory")? != CENTRAL {
                return Err(damaged(
                    "the .sog file's directory is broken".to_owned(),
                    at,
                ));
            }
            cursor.take(6, "directory")?;
            let method = cursor.u16("directory")?;
            cursor.take(4, "directory")?;
            let crc = cursor.u32("directory")?;
            let [packed, unpacked] =
                [cursor.u32("directory")?, cursor.u32("directory")?].map(|s| s as usize);
            let [name, extra, comment] = [(); 3].map(|()| cursor.u16("directory"));
            cursor.take(8, "directory")?;
            let header_at = cursor.u32("directory")? as usize;
            let name =
                String::from_utf8_lossy(cursor.take(name?.into(), "directory")?).into_owned();
            cursor.take(usize::from(extra?) + usize::from(comment?), "directory")?;
            entries.push(Entry {
                name,
                method,
                crc,
                packed,
                unpacked,
                header_at,
            });
        }
        Ok(Self {
            bytes,
            entries,
            behind,
        })
    }

    /// Returns the content of a file, by its path.
    pub(super) fn get(&self, name: &str) -> Result<Cow<'a, [u8]>> {
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            let what = format!("the .sog file has no {name:?} in it");
            return Err(Error::input(what)
                .at("the archive's directory")
                .hint("it is another ZIP archive under this name, or was not written whole"));
        };
        let mut cursor = Cursor::new(self.bytes, entry.header_at, ".sog");
        if cursor.u32("entry")? != LOCAL {
            return Err(damaged(
                format!("the .sog file's {name} is not where it should be"),
                entry.header_at,
            ));
        }
        cursor.take(22, "entry")?;
        let skip = usize::from(cursor.u16("entry")?) + usize::from(cursor.u16("entry")?);
        cursor.take(skip, "entry")?;
        let at = cursor.at();
        let packed = cursor.take(entry.packed, name)?;
        let content = match entry.method {
            0 => Cow::Borrowed(packed),
            8 => Cow::Owned(inflate(packed, entry, at)?),
            method => {
                let what = format!("the .sog file's {name} is packed by method {method}");
                return Err(Error::unsupported(what).at(format!("byte {at}")).hint(
                    "SOG files are stored, without compression of their own: export it again",
                ));
            }
        };
        match crc32fast::hash(&content) == entry.crc {
            true => Ok(content),
            false => Err(damaged(
                format!("the .sog file's {name} does not have its checksum"),
                at,
            )),
        }
    }

    /// Returns the path of the first file of this name: at the top, else in a folder.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let exact = self.names().find(|path| *path == name);
        exact.or_else(|| self.names().find(|path| is_named(path, name)))
    }

    /// Returns the paths of all files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Returns the number of bytes behind the archive's end.
    pub(super) fn behind(&self) -> usize {
        self.behind
    }

    /// Returns the size of the archive, bytes.
    pub(super) fn all_bytes(&self) -> usize {
        self.bytes.len()
    }
}

fn inflate(packed: &[u8], entry: &Entry, at: usize) -> Result<Vec<u8>> {
    let fails = || {
        damaged(
            format!("the .sog file's {} cannot be unpacked", entry.name),
            at,
        )
    };
    if entry.unpacked > packed.len().saturating_mul(MOST_RATIO) {
        return Err(fails());
    }
    let mut bytes = Vec::new();
    let stream = flate2::bufread::DeflateDecoder::new(packed);
    let read = stream.take(entry.unpacked as u64).read_to_end(&mut bytes);
    match read {
        Ok(_) if bytes.len() == entry.unpacked => Ok(bytes),
        Ok(_) => Err(fails()),
        Err(e) => Err(fails().caused_by(e)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_is_packed_is_there_and_what_is_damaged_is_told() {
        let files = [("a.txt", b"hello".to_vec()), ("b", vec![7; 300])];
        let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
        let packed = pack(&files).unwrap();
        let archive = Archive::open(&packed).unwrap();
        for (name, bytes) in &files {
            assert_eq!(archive.get(name).unwrap()[..], bytes[..]);
        }
        assert!(archive.get("c").unwrap_err().what().contains("\"c\""));
        let mut flipped = packed.clone();
        flipped[37] ^= 1;
        let archive = Archive::open(&flipped).unwrap();
        assert!(
            archive
                .get("a.txt")
                .unwrap_err()
                .what()
                .contains("checksum")
        );
        for end in 0..packed.len() {
            assert!(Archive::open(&packed[..end]).is_err(), "{end}");
        }
    }
}
