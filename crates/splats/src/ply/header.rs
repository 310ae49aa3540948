//! The header of a PLY file (Turk 1994): lines of text that describe the data layout.
//!
//! 1. The first line is `ply`, the last `end_header`; lines end with LF or CR LF.
//! 2. `format` names the encoding, `element` a table with its number of rows, `property` a column of the element above
//!    it.
//! 3. `comment` lines are stored, because some programs write metadata there; `obj_info` is skipped.

use crate::{Error, Result};

/// Maximum header size: a file without `end_header` is not PLY.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// Encoding of the data after the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Ascii,
    LittleEndian,
    BigEndian,
}

/// Type of a number in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    F64,
}

impl Scalar {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "char" | "int8" => Self::I8,
            "uchar" | "uint8" => Self::U8,
            "short" | "int16" => Self::I16,
            "ushort" | "uint16" => Self::U16,
            "int" | "int32" => Self::I32,
            "uint" | "uint32" => Self::U32,
            "float" | "float32" => Self::F32,
            "double" | "float64" => Self::F64,
            _ => return None,
        })
    }

    /// Returns the bytes of one value in a binary file.
    pub(super) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// A column; the type is `None` for a list, whose rows have no fixed size.
#[derive(Debug, Clone)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) scalar: Option<Scalar>,
}

/// A table of the file.
#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) rows: u64,
    pub(super) properties: Vec<Property>,
}

impl Element {
    /// Returns the bytes of a row in a binary file; `None` if it holds a list.
    pub(super) fn stride(&self) -> Option<usize> {
        self.properties
            .iter()
            .map(|p| p.scalar.map(Scalar::size))
            .sum()
    }
}

/// Parsed header, and the byte at which the data begins.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) encoding: Encoding,
    pub(super) elements: Vec<Element>,
    pub(super) data_at: usize,
    /// Texts of the `comment` lines.
    pub(super) comments: Vec<String>,
}

impl Header {
    /// Reads the header at the beginning of `bytes`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut lines = Lines { bytes, at: 0 };
        if lines.next().is_none_or(|line| line != b"ply") {
            return Err(Error::input(
                "this is not a PLY file: it does not begin with the line \"ply\"",
            )
            .hint("name a .ply file; other formats need converting first"));
        }
        let mut encoding = None;
        let mut elements: Vec<Element> = Vec::new();
        let mut comments = Vec::new();
        let mut number = 1;
        while let Some(line) = lines.next() {
            number += 1;
            let text = String::from_utf8_lossy(line);
            let mut words = text.split_ascii_whitespace();
            let understood = match words.next() {
                None | Some("obj_info") => Some(()),
                Some("comment") => {
                    comments.push(words.collect::<Vec<_>>().join(" "));
                    Some(())
                }
                Some("end_header") => {
                    let encoding = encoding.ok_or_else(|| {
                        Error::input("the PLY header has no \"format\" line").hint(DAMAGED)
                    })?;
                    return Ok(Self {
                        encoding,
                        elements,
                        data_at: lines.at,
                        comments,
                    });
                }
                Some("format") => parse_format(&mut words).map(|found| encoding = Some(found)),
                Some("element") => parse_element(&mut words).map(|found| elements.push(found)),
                Some("property") => match (elements.last_mut(), parse_property(&mut words)) {
                    (Some(element), Some(property)) => {
                        element.add(property, number)?;
                        Some(())
                    }
                    _ => None,
                },
                Some(_) => None,
            };
            if understood.is_none() {
                let shown: String = text.chars().take(60).collect();
                return Err(Error::input(format!(
                    "cannot understand the PLY header line {shown:?}"
                ))
                .at(format!("line {number}"))
                .hint(DAMAGED));
            }
        }
        Err(
            Error::input("the PLY header does not end: there is no \"end_header\" line")
                .hint(DAMAGED),
        )
    }
}

const DAMAGED: &str = "the file is damaged or was cut off: copy or export it again";

impl Element {
    fn add(&mut self, property: Property, line: usize) -> Result<()> {
        if self.properties.iter().any(|p| p.name == property.name) {
            return Err(Error::input(format!(
                "the PLY header declares property {:?} of {:?} twice",
                property.name, self.name
            ))
            .at(format!("line {line}"))
            .hint(DAMAGED));
        }
        self.properties.push(property);
        Ok(())
    }
}

type Words<'a, 'b> = &'a mut std::str::SplitAsciiWhitespace<'b>;

fn parse_format(words: Words<'_, '_>) -> Option<Encoding> {
    let encoding = match words.next()? {
        "ascii" => Encoding::Ascii,
        "binary_little_endian" => Encoding::LittleEndian,
        "binary_big_endian" => Encoding::BigEndian,
        _ => return None,
    };
    (words.next()? == "1.0").then_some(encoding)
}

fn parse_element(words: Words<'_, '_>) -> Option<Element> {
    Some(Element {
        name: words.next()?.to_owned(),
        rows: words.next()?.parse().ok()?,
        properties: Vec::new(),
    })
}

fn parse_property(words: Words<'_, '_>) -> Option<Property> {
    let scalar = match words.next()? {
        "list" => {
            Scalar::from_name(words.next()?)?;
            Scalar::from_name(words.next()?)?;
            None
        }
        name => Some(Scalar::from_name(name)?),
    };
    Some(Property {
        name: words.next()?.to_owned(),
        scalar,
    })
}

/// Lines without their ends. A last line without LF is not a line: a header always has data or at least an LF behind
/// it.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self
            .bytes
            .get(self.at..MAX_HEADER_BYTES.min(self.bytes.len()))?;
        let end = rest.iter().position(|&b| b == b'\n')?;
        self.at += end + 1;
        let line = &rest[..end];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}
