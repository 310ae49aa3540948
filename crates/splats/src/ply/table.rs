//! Rows of one element, for all encodings.
//!
//! 1. Skip the elements before it. Compare the number of rows in the header with the size of the data before anything
//!    is allocated.
//! 2. ASCII is converted to rows of little-endian `f64`, so that the later steps handle one kind of row.
//! 3. A loop compiled for the scalar type gathers a column for a block of rows; the first non-finite value is recorded.

use super::header::{Element, Encoding, Header, Scalar};
use crate::{Error, Result};
use std::borrow::Cow;

/// Rows per block: 248 bytes per row at degree 3, so that a block remains in the second-level cache while its columns
/// are gathered one after the other.
pub(super) const BLOCK_ROWS: usize = 2048;

/// A column of a [`Table`].
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    /// Type that the header declares.
    pub(super) declared: Scalar,
    /// Type in the rows: `f64` for ASCII.
    stored: Scalar,
    offset: usize,
}

/// The rows of an element.
#[derive(Debug)]
pub(super) struct Table<'a> {
    rows: usize,
    stride: usize,
    big_endian: bool,
    columns: Vec<Column>,
    data: Cow<'a, [u8]>,
}

/// A value that is NaN or infinite.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotFinite {
    pub(super) row: usize,
    pub(super) value: f32,
}

impl Column {
    /// Returns true if the column's numbers may have more digits than an `f32` holds.
    pub(super) fn is_wide(&self) -> bool {
        matches!(self.stored, Scalar::I32 | Scalar::U32 | Scalar::F64)
    }
}

impl<'a> Table<'a> {
    /// Finds the rows of the element `name` in a PLY file whose header is known.
    pub(super) fn find(header: &Header, bytes: &'a [u8], name: &str) -> Result<Self> {
        let data = bytes.get(header.data_at..).unwrap_or_default();
        match header.encoding {
            Encoding::Ascii => Self::from_ascii(header, data, name),
            Encoding::LittleEndian | Encoding::BigEndian => Self::from_binary(header, data, name),
        }
    }

    fn from_binary(header: &Header, data: &'a [u8], name: &str) -> Result<Self> {
        let mut begin = 0u64;
        for element in &header.elements {
            let Some(stride) = element.stride() else {
                return Err(list_error(element));
            };
            let size = element.rows.checked_mul(stride as u64);
            let end = size.and_then(|size| size.checked_add(begin));
            let Some(end) = end.filter(|&end| end <= data.len() as u64) else {
                let needed = element.rows.saturating_mul(stride as u64);
                return Err(too_short(
                    element,
                    &format!(
                        "needs {needed} bytes, but {} are there",
                        data.len() as u64 - begin
                    ),
                )
                .at(format!("byte {}", header.data_at as u64 + begin)));
            };
            if element.name == name {
                let mut offset = 0;
                let columns = columns(element, |scalar| {
                    offset += scalar.size();
                    (scalar, offset - scalar.size())
                });
                return Ok(Self {
                    // Both fit: they are within `data`.
                    rows: element.rows as usize,
                    stride,
                    big_endian: header.encoding == Encoding::BigEndian,
                    columns,
                    data: Cow::Borrowed(&data[begin as usize..end as usize]),
                });
            }
            begin = end;
        }
        Err(no_element(header, name))
    }

    fn from_ascii(header: &Header, data: &[u8], name: &str) -> Result<Self> {
        let mut lines = data
            .split(|&b| b == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty());
        for element in &header.elements {
            let wanted = element.name == name;
            if wanted && element.stride().is_none() {
                return Err(list_error(element));
            }
            // A value takes two bytes or more with its separator; the last one in the file takes one.
            let width = element.properties.len().max(1) as u64;
            if element.rows > (data.len() as u64 + 1) / (2 * width) {
                return Err(too_short(element, "cannot be in a file of this size"));
            }
            if !wanted {
                for _ in 0..element.rows {
                    lines.next();
                }
                continue;
            }
            let stride = element.properties.len() * size_of::<f64>();
            let mut values = Vec::with_capacity(element.rows as usize * stride);
            for row in 0..element.rows {
                let Some(line) = lines.next() else {
                    return Err(too_short(element, &format!("ends after {row}")));
                };
                append_ascii_row(&mut values, line, element.properties.len()).ok_or_else(|| {
                    Error::input(format!(
                        "{name} {row} does not consist of {} numbers",
                        element.properties.len()
                    ))
                    .hint("the file is damaged: export it again")
                })?;
            }
            let mut offset = 0;
            let columns = columns(element, |_| {
                offset += size_of::<f64>();
                (Scalar::F64, offset - size_of::<f64>())
            });
            return Ok(Self {
                rows: element.rows as usize,
                stride,
                big_endian: false,
                columns,
                data: Cow::Owned(values),
            });
        }
        Err(no_element(header, name))
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the column of this name.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Returns the columns of these names, or an error that names the missing ones.
    pub(super) fn require(&self, names: &[&str], what: &str) -> Result<Vec<&Column>> {
        let missing: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| self.column(name).is_none())
            .collect();
        if missing.is_empty() {
            return Ok(names.iter().filter_map(|name| self.column(name)).collect());
        }
        let there: Vec<&str> = self
            .columns
            .iter()
            .map(|c| c.name.as_str())
            .take(20)
            .collect();
        Err(Error::input(format!(
            "the PLY file lacks {} that {what} needs",
            missing.join(", ")
        ))
        .hint(format!("its vertices have: {}", there.join(", "))))
    }

    /// Returns all columns' names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Reads the bits of a column of 32-bit integers, row by row.
    pub(super) fn words(&self, column: &Column, first: usize, mut put: impl FnMut(usize, u32)) {
        let begin = (first * self.stride).min(self.data.len());
        let end = ((first + BLOCK_ROWS) * self.stride).min(self.data.len());
        let block = &self.data[begin..end];
        let at = (self.stride, column.offset);
        match (column.stored, self.big_endian) {
            // ASCII: a whole number of either sign, held exactly.
            (Scalar::F64, _) => strided(
                block,
                at,
                |bytes| f64::from_le_bytes(bytes) as i64 as u32,
                put,
            ),
            (_, true) => strided(block, at, u32::from_be_bytes, &mut put),
            (_, false) => strided(block, at, u32::from_le_bytes, &mut put),
        }
    }

    /// Calls `put(i, value)` for row `first + i` of a column, `i < rows`. Returns the first value that is not finite as
    /// `f32`.
    pub(super) fn gather(
        &self,
        column: &Column,
        first: usize,
        rows: usize,
        put: impl FnMut(usize, f32),
    ) -> Option<NotFinite> {
        self.gather_unless(column, first, rows, put, |value| !value.is_finite())
    }

    /// Calls `put(i, value)` for row `first + i` of a column in doubles, `i < rows`.
    pub(super) fn gather_wide(
        &self,
        column: &Column,
        first: usize,
        rows: usize,
        put: impl FnMut(usize, f64),
    ) {
        let begin = (first * self.stride).min(self.data.len());
        let end = ((first + rows) * self.stride).min(self.data.len());
        let (block, at) = (&self.data[begin..end], (self.stride, column.offset));
        macro_rules! gather {
            ($number:ty) => {
                if self.big_endian {
                    strided(
                        block,
                        at,
                        |bytes| f64::from(<$number>::from_be_bytes(bytes)),
                        put,
                    )
                } else {
                    strided(
                        block,
                        at,
                        |bytes| f64::from(<$number>::from_le_bytes(bytes)),
                        put,
                    )
                }
            };
        }
        match column.stored {
            Scalar::I8 => gather!(i8),
            Scalar::U8 => gather!(u8),
            Scalar::I16 => gather!(i16),
            Scalar::U16 => gather!(u16),
            Scalar::I32 => gather!(i32),
            Scalar::U32 => gather!(u32),
            Scalar::F32 => gather!(f32),
            Scalar::F64 => gather!(f64),
        }
    }

    /// Like [`Table::gather`], with a custom choice of the non-finite values to report.
    pub(super) fn gather_unless(
        &self,
        column: &Column,
        first: usize,
        rows: usize,
        mut put: impl FnMut(usize, f32),
        refused: impl Fn(f32) -> bool,
    ) -> Option<NotFinite> {
        let begin = (first * self.stride).min(self.data.len());
        let end = ((first + rows) * self.stride).min(self.data.len());
        let block = &self.data[begin..end];
        let mut bad = None;
        let checked = |i: usize, value: f32| {
            if !value.is_finite() && bad.is_none() && refused(value) {
                let row = first + i;
                bad = Some(NotFinite { row, value });
            }
            put(i, value);
        };
        macro_rules! gather {
            ($number:ty) => {
                if self.big_endian {
                    let read = |bytes| <$number>::from_be_bytes(bytes) as f32;
                    strided(block, (self.stride, column.offset), read, checked)
                } else {
                    let read = |bytes| <$number>::from_le_bytes(bytes) as f32;
                    strided(block, (self.stride, column.offset), read, checked)
                }
            };
        }
        match column.stored {
            Scalar::I8 => gather!(i8),
            Scalar::U8 => gather!(u8),
            Scalar::I16 => gather!(i16),
            Scalar::U16 => gather!(u16),
            Scalar::I32 => gather!(i32),
            Scalar::U32 => gather!(u32),
            Scalar::F32 => gather!(f32),
            Scalar::F64 => gather!(f64),
        }
        bad
    }
}

/// Counts the data after the last row that the header declares: bytes of a binary file, lines of an ASCII one. `None`
/// if rows have no fixed size, or there are fewer than declared.
pub(super) fn left_over(header: &Header, bytes: &[u8]) -> Option<u64> {
    let data = bytes.get(header.data_at..)?;
    let rows = |element: &Element| match header.encoding {
        Encoding::Ascii => Some(element.rows),
        _ => element.rows.checked_mul(element.stride()? as u64),
    };
    let mut promised = 0u64;
    for element in &header.elements {
        promised = promised.checked_add(rows(element)?)?;
    }
    let there = match header.encoding {
        Encoding::Ascii => {
            let lines = data.split(|&b| b == b'\n');
            lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64
        }
        _ => data.len() as u64,
    };
    there.checked_sub(promised)
}

/// Iterates over the values at `offset` bytes in each row.
fn strided<T, const SIZE: usize>(
    block: &[u8],
    (stride, offset): (usize, usize),
    read: impl Fn([u8; SIZE]) -> T,
    mut put: impl FnMut(usize, T),
) {
    for (i, row) in block.chunks_exact(stride).enumerate() {
        if let Some(bytes) = row.get(offset..).and_then(|rest| rest.first_chunk()) {
            put(i, read(*bytes));
        }
    }
}

fn columns(element: &Element, mut place: impl FnMut(Scalar) -> (Scalar, usize)) -> Vec<Column> {
    let scalars = element.properties.iter();
    scalars
        .filter_map(|property| {
            let declared = property.scalar?;
            let (stored, offset) = place(declared);
            Some(Column {
                name: property.name.clone(),
                declared,
                stored,
                offset,
            })
        })
        .collect()
}

/// Appends a line's numbers; `None` unless there are `width`.
fn append_ascii_row(values: &mut Vec<u8>, line: &[u8], width: usize) -> Option<()> {
    let text = std::str::from_utf8(line).ok()?;
    let mut found = 0;
    for word in text.split_ascii_whitespace() {
        found += 1;
        if found > width {
            return None;
        }
        values.extend(word.parse::<f64>().ok()?.to_le_bytes());
    }
    (found == width).then_some(())
}

fn list_error(element: &Element) -> Error {
    Error::unsupported(format!(
        "the element {:?} holds lists, so its rows have no fixed size",
        element.name
    ))
    .hint("this looks like a mesh: export its vertices alone, as a point cloud")
}

fn too_short(element: &Element, why: &str) -> Error {
    Error::input(format!(
        "the PLY file is shorter than its header says: {} x {:?} {why}",
        element.rows, element.name
    ))
    .hint("the file was cut off: copy or export it again")
}

fn no_element(header: &Header, name: &str) -> Error {
    let there: Vec<&str> = header
        .elements
        .iter()
        .map(|element| element.name.as_str())
        .take(20)
        .collect();
    let there = match there.is_empty() {
        true => "none".to_owned(),
        false => there.join(", "),
    };
    Error::input(format!("the PLY file has no element {name:?}")).hint(format!(
        "splats and point clouds keep theirs there, and this file has: {there}; export it as \
         plain PLY"
    ))
}
