//! Reads COLMAP's database: features of each photo, and verified matches of each pair.
//!
//! The database is an SQLite file. This module walks the B-trees of three tables and reads no more than their first
//! columns ([file format](https://www.sqlite.org/fileformat2.html)).

use dapple_base::{Error, Result, bounded};
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;

/// Ids of a pair are `first * BASE + second`, in every version of COLMAP.
const BASE: i64 = 2_147_483_647;

/// Deepest tree that is walked: SQLite's own limit is 20.
const DEEPEST: u32 = 32;

/// Relation between two photos that COLMAP verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Names of both photos.
    pub names: [String; 2],
    /// Matches that agree with one motion of the camera.
    pub inliers: u64,
    /// True if the camera turned without moving (COLMAP's configuration PANORAMIC).
    pub only_turned: bool,
}

/// Content of the database.
#[derive(Debug, Clone, Default)]
pub struct Database {
    /// Number of features of each photo, by name.
    pub features: HashMap<String, u64>,
    /// Ids of each photo and of its camera, by name.
    pub ids: HashMap<String, (u32, u32)>,
    /// Verified pairs, ordered by ids.
    pub pairs: Vec<Pair>,
}

impl Database {
    /// Reads the file.
    ///
    /// # Errors
    /// A missing file, or one that is no database of COLMAP.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = bounded::read("cannot read COLMAP's database", path, bounded::MODEL_BYTES)?;
        Self::parse(&bytes).ok_or_else(|| {
            Error::input("the database of COLMAP cannot be read")
                .at_path(path)
                .hint("delete the file, then run the same command again")
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let file = Sqlite::open(bytes)?;
        let mut names = HashMap::new();
        let mut found = Self::default();
        for row in file.rows("images")? {
            let (id, camera) = (row.id.try_into().ok()?, row.number(2)?.try_into().ok()?);
            found.ids.insert(row.text(1)?, (id, camera));
            names.insert(row.id, row.text(1)?);
        }
        for row in file.rows("keypoints")? {
            if let Some(name) = names.get(&row.id) {
                found
                    .features
                    .insert(name.clone(), row.number(1)?.try_into().ok()?);
            }
        }
        for row in file.rows("two_view_geometries")? {
            let (first, second) = (row.id / BASE, row.id % BASE);
            let (Some(first), Some(second)) = (names.get(&first), names.get(&second)) else {
                continue;
            };
            // pair_id, rows, cols, data, config
            found.pairs.push(Pair {
                names: [first.clone(), second.clone()],
                inliers: row.number(1)?.try_into().ok()?,
                only_turned: row.number(4) == Some(5),
            });
        }
        Some(found)
    }
}

struct Sqlite<'a> {
    bytes: &'a [u8],
    page: usize,
    /// Bytes of a page that content uses.
    usable: usize,
    /// Pages that may still be visited: a damaged tree may refer to one page many times.
    visits: Cell<usize>,
}

/// Row of a table.
struct Row {
    id: i64,
    payload: Vec<u8>,
}

impl<'a> Sqlite<'a> {
    fn open(bytes: &'a [u8]) -> Option<Self> {
        let page = match be(bytes.get(16..18)?)? {
            1 => 65_536,
            size => size as usize,
        };
        let reserved = usize::from(*bytes.get(20)?);
        let usable = page.checked_sub(reserved)?;
        let is_sound = bytes.starts_with(b"SQLite format 3\0") && page >= 512 && usable >= 480;
        is_sound.then(|| Self {
            bytes,
            page,
            usable,
            visits: Cell::new(4 * (bytes.len() / page) + 64),
        })
    }

    /// Returns the rows of a table, by rowid.
    fn rows(&self, table: &str) -> Option<Vec<Row>> {
        let mut schema = Vec::new();
        self.walk(1, 0, &mut schema)?;
        // type, name, table, root page, SQL
        let is_ours = |row: &&Row| {
            row.text(0).as_deref() == Some("table") && row.text(1).as_deref() == Some(table)
        };
        let root = schema.iter().find(is_ours)?.number(3)?;
        let mut rows = Vec::new();
        self.walk(usize::try_from(root).ok()?, 0, &mut rows)?;
        Some(rows)
    }

    /// Adds the rows of a tree, given the number of its root page.
    fn walk(&self, number: usize, depth: u32, rows: &mut Vec<Row>) -> Option<()> {
        let start = number.checked_sub(1)?.checked_mul(self.page)?;
        let page = self.bytes.get(start..start.checked_add(self.page)?)?;
        let header = if number == 1 { 100 } else { 0 };
        let kind = *page.get(header)?;
        let cells = be(page.get(header + 3..header + 5)?)? as usize;
        let pointers = header + if kind == 5 { 12 } else { 8 };
        if depth > DEEPEST {
            return None;
        }
        self.visits.set(self.visits.get().checked_sub(1)?);
        for index in 0..cells {
            let at = pointers + 2 * index;
            let cell = page.get(be(page.get(at..at + 2)?)? as usize..)?;
            match kind {
                5 => self.walk(be(cell.get(..4)?)? as usize, depth + 1, rows)?,
                13 => rows.push(self.row(cell)?),
                _ => return None,
            }
        }
        match kind {
            5 => self.walk(
                be(page.get(header + 8..header + 12)?)? as usize,
                depth + 1,
                rows,
            ),
            _ => Some(()),
        }
    }

    /// Reads a cell with the pages that it overflows to.
    fn row(&self, cell: &[u8]) -> Option<Row> {
        let (length, rest) = varint(cell)?;
        let (id, rest) = varint(rest)?;
        let length = usize::try_from(length)
            .ok()
            .filter(|&n| n <= self.bytes.len())?;
        let most = self.usable - 35;
        let local = match length <= most {
            true => length,
            false => {
                let least = (self.usable - 12) * 32 / 255 - 23;
                let fitting = least + (length - least) % (self.usable - 4);
                if fitting <= most { fitting } else { least }
            }
        };
        let mut payload = rest.get(..local)?.to_vec();
        let pages = length / (self.usable - 4) + 1;
        self.visits.set(
            self.visits
                .get()
                .checked_sub(if local < length { pages } else { 0 })?,
        );
        let mut next = match local < length {
            true => be(rest.get(local..local + 4)?)? as usize,
            false => 0,
        };
        while payload.len() < length {
            let start = next.checked_sub(1)?.checked_mul(self.page)?;
            let page = self.bytes.get(start..start.checked_add(self.page)?)?;
            next = be(&page[..4])? as usize;
            let part = (length - payload.len()).min(self.usable - 4);
            payload.extend_from_slice(page.get(4..4 + part)?);
        }
        Some(Row { id, payload })
    }
}

impl Row {
    /// Returns the type and the bytes of a column.
    fn column(&self, wanted: usize) -> Option<(i64, &[u8])> {
        let (header, _) = varint(&self.payload)?;
        let header = usize::try_from(header).ok()?;
        let mut types = self
            .payload
            .get(self.payload.len() - varint(&self.payload)?.1.len()..header)?;
        let mut at = header;
        for index in 0..=wanted {
            let (kind, rest) = varint(types)?;
            types = rest;
            let length = match kind {
                0 | 8 | 9 => 0,
                1..=4 => usize::try_from(kind).ok()?,
                5 => 6,
                6 | 7 => 8,
                _ => usize::try_from((kind - 12) / 2).ok()?,
            };
            let bytes = self.payload.get(at..at.checked_add(length)?)?;
            if index == wanted {
                return Some((kind, bytes));
            }
            at += length;
        }
        None
    }

    fn number(&self, column: usize) -> Option<i64> {
        match self.column(column)? {
            (0 | 8, _) => Some(0),
            (9, _) => Some(1),
            (1..=6, bytes) => {
                let sign = if bytes[0] & 0x80 != 0 { -1 } else { 0 };
                Some(
                    bytes
                        .iter()
                        .fold(sign, |value, &byte| (value << 8) | i64::from(byte)),
                )
            }
            _ => None,
        }
    }

    fn text(&self, column: usize) -> Option<String> {
        let (kind, bytes) = self.column(column)?;
        let is_text = kind >= 13 && kind % 2 == 1;
        is_text.then(|| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Reads a big-endian number.
fn be(bytes: &[u8]) -> Option<u32> {
    let fold = |value: u32, &byte: &u8| (value << 8) | u32::from(byte);
    (bytes.len() <= 4).then(|| bytes.iter().fold(0, fold))
}

/// Reads SQLite's variable-length number, and returns the bytes after it.
fn varint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value: u64 = 0;
    for index in 0..9 {
        let byte = *bytes.get(index)?;
        if index == 8 {
            value = (value << 8) | u64::from(byte);
            return Some((value as i64, &bytes[9..]));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value as i64, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn numbers_of_one_to_nine_bytes_are_read() {
        assert_eq!(varint(&[0x05, 9]), Some((5, &[9u8][..])));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, &[][..])));
        assert_eq!(varint(&[0xff; 9]), Some((-1, &[][..])));
        assert_eq!(varint(&[0x81]), None);
    }

    #[test]
    fn other_files_and_cut_files_are_no_database() {
        assert!(Database::parse(b"").is_none());
        assert!(Database::parse(&[0; 4096]).is_none());
        let mut sizeless = vec![0; 4096];
        sizeless[..16].copy_from_slice(b"SQLite format 3\0");
        assert!(Database::parse(&sizeless).is_none());
        let mut header = vec![0; 4096];
        header[..16].copy_from_slice(b"SQLite format 3\0");
        header[16] = 16;
        header[100] = 5;
        // A page that refers to itself.
        header[104] = 200;
        header[108 + 3] = 1;
        assert!(Database::parse(&header).is_none());
    }
}
