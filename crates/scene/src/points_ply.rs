//! Point clouds in PLY, as Nerfstudio's `ply_file_path` names them: positions and colours only.
//!
//! 1. The header lists elements and their scalar properties; `vertex` must have `x`, `y`, `z`, may
//!    have `red`, `green`, `blue`, and what else it has is skipped.
//! 2. Elements before `vertex` with a fixed size are skipped; lists there are refused.
//! 3. Body: text, little-endian or big-endian. The count is compared with the file's size first.

use crate::{Error, Point, Result};

/// A PLY scalar type.
#[derive(Clone, Copy)]
enum Scalar {
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
    fn named(name: &str) -> Option<Self> {
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

    const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Whether colours of this type run from 0 to 1.
    const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// The value in `bytes`, which start with it; 0 if they are too short.
    fn read(self, bytes: &[u8], big_endian: bool) -> f64 {
        let mut raw = [0u8; 8];
        let size = self.size();
        if let Some(from) = bytes.get(..size) {
            raw[..size].copy_from_slice(from);
        }
        if big_endian {
            raw[..size].reverse();
        }
        let [a, b, c, d, ..] = raw;
        match self {
            Self::I8 => f64::from(a as i8),
            Self::U8 => f64::from(a),
            Self::I16 => f64::from(i16::from_le_bytes([a, b])),
            Self::U16 => f64::from(u16::from_le_bytes([a, b])),
            Self::I32 => f64::from(i32::from_le_bytes([a, b, c, d])),
            Self::U32 => f64::from(u32::from_le_bytes([a, b, c, d])),
            Self::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
            Self::F64 => f64::from_le_bytes(raw),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Text,
    Little,
    Big,
}

struct Element {
    name: String,
    count: usize,
    /// Name, type and byte offset in a binary record.
    properties: Vec<(String, Scalar, usize)>,
    /// Bytes of a binary record.
    stride: usize,
    has_list: bool,
}

impl Element {
    fn find(&self, name: &str) -> Option<usize> {
        self.properties.iter().position(|p| p.0 == name)
    }
}

fn wrong(what: impl Into<String>, file: &str) -> Error {
    Error::input(what)
        .at(file)
        .hint("the point cloud must be a PLY file with x, y, z per vertex: export it again")
}

/// Points of a PLY file and how many were dropped because their position is not finite.
pub fn parse_points_ply(bytes: &[u8], file: &str) -> Result<(Vec<Point>, usize)> {
    let (encoding, elements, body) = header(bytes, file)?;
    let Some(at) = elements.iter().position(|e| e.name == "vertex") else {
        return Err(wrong("the PLY file has no vertices", file));
    };
    let (before, vertex) = (&elements[..at], &elements[at]);
    if before.iter().any(|e| e.has_list) || vertex.has_list {
        return Err(wrong(
            "the PLY file has lists before or in its vertices",
            file,
        ));
    }
    let position = ["x", "y", "z"].map(|name| vertex.find(name));
    let [Some(x), Some(y), Some(z)] = position else {
        return Err(wrong("the PLY file's vertices have no x, y, z", file));
    };
    let colour = match ["red", "green", "blue"].map(|name| vertex.find(name)) {
        [Some(r), Some(g), Some(b)] => Some([r, g, b]),
        _ => None,
    };
    let channel = |value: f64, scalar: Scalar| {
        // `as` saturates and turns NaN to 0.
        (if scalar.is_float() {
            value * 255.0
        } else {
            value
        })
        .round() as u8
    };
    let mut points = Vec::new();
    let mut dropped = 0;
    let mut push = |get: &dyn Fn(usize) -> f64| {
        let position = [get(x), get(y), get(z)].map(|v| v as f32);
        if position.iter().all(|v| v.is_finite()) {
            let rgb = colour.map_or([128; 3], |c| {
                c.map(|i| channel(get(i), vertex.properties[i].1))
            });
            points.push(Point { position, rgb });
        } else {
            dropped += 1;
        }
    };
    if encoding == Encoding::Text {
        let text =
            std::str::from_utf8(body).map_err(|_| wrong("the PLY file is not text", file))?;
        let skip: usize = before
            .iter()
            .map(|e| e.count)
            .fold(0, usize::saturating_add);
        let mut lines = text.lines().filter(|l| !l.trim().is_empty()).skip(skip);
        for index in 0..vertex.count {
            let short = || {
                wrong(
                    format!("the PLY file ends or is damaged at vertex {index}"),
                    file,
                )
            };
            let values: Vec<f64> = lines
                .next()
                .ok_or_else(short)?
                .split_whitespace()
                .map_while(|field| field.parse().ok())
                .collect();
            if values.len() < vertex.properties.len() {
                return Err(short());
            }
            push(&|i| values[i]);
        }
    } else {
        let size = |e: &Element| e.count.checked_mul(e.stride);
        let skip = before
            .iter()
            .try_fold(0usize, |sum, e| sum.checked_add(size(e)?));
        let records = skip.and_then(|skip| body.get(skip..)).unwrap_or(&[]);
        let Some(records) = size(vertex).and_then(|length| records.get(..length)) else {
            return Err(wrong(
                format!(
                    "the PLY file says it has {} vertices of {} bytes, but only {} bytes follow",
                    vertex.count,
                    vertex.stride,
                    records.len()
                ),
                file,
            ));
        };
        for record in records.chunks_exact(vertex.stride) {
            push(&|i| {
                let (_, scalar, offset) = vertex.properties[i];
                scalar.read(&record[offset..], encoding == Encoding::Big)
            });
        }
    }
    Ok((points, dropped))
}

/// Encoding, elements and the bytes after the header.
fn header<'a>(bytes: &'a [u8], file: &str) -> Result<(Encoding, Vec<Element>, &'a [u8])> {
    let mut rest = bytes;
    let mut encoding = None;
    let mut elements: Vec<Element> = Vec::new();
    let mut first = true;
    loop {
        let Some(end) = rest.iter().position(|&b| b == b'\n') else {
            return Err(wrong("the PLY file's header has no end", file));
        };
        let line = String::from_utf8_lossy(&rest[..end]);
        rest = &rest[end + 1..];
        let words: Vec<&str> = line.split_whitespace().collect();
        if std::mem::take(&mut first) && words != ["ply"] {
            return Err(wrong("this is not a PLY file", file));
        }
        match words[..] {
            ["format", "ascii", _] => encoding = Some(Encoding::Text),
            ["format", "binary_little_endian", _] => encoding = Some(Encoding::Little),
            ["format", "binary_big_endian", _] => encoding = Some(Encoding::Big),
            ["element", name, count] => elements.push(Element {
                name: name.to_owned(),
                count: count
                    .parse()
                    .map_err(|_| wrong(format!("the PLY file's header says \"{line}\""), file))?,
                properties: Vec::new(),
                stride: 0,
                has_list: false,
            }),
            ["property", "list", ..] => {
                if let Some(element) = elements.last_mut() {
                    element.has_list = true;
                }
            }
            ["property", kind, name] => {
                let (Some(element), Some(scalar)) = (elements.last_mut(), Scalar::named(kind))
                else {
                    return Err(wrong(
                        format!("the PLY file's header says \"{line}\""),
                        file,
                    ));
                };
                element
                    .properties
                    .push((name.to_owned(), scalar, element.stride));
                element.stride += scalar.size();
            }
            ["end_header"] => break,
            _ => {}
        }
    }
    match encoding {
        Some(encoding) => Ok((encoding, elements, rest)),
        None => Err(wrong("the PLY file's header names no format", file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "element camera 1\nproperty uchar id\nelement vertex 2\nproperty double x\n\
        property float y\nproperty float z\nproperty uchar red\nproperty uchar green\n\
        property uchar blue\nproperty short rest\nelement face 0\nproperty list uchar int i\n\
        end_header\n";

    fn binary(big: bool) -> Vec<u8> {
        let kind = if big { "big" } else { "little" };
        let mut bytes = format!("ply\nformat binary_{kind}_endian 1.0\n{HEAD}").into_bytes();
        bytes.push(9);
        for (x, y, z) in [(1.5f64, -2.0f32, 3.25f32), (f64::NAN, 0.0, 0.0)] {
            let order = |mut raw: Vec<u8>| {
                if big {
                    raw.reverse();
                }
                raw
            };
            bytes.extend(order(x.to_le_bytes().to_vec()));
            bytes.extend(order(y.to_le_bytes().to_vec()));
            bytes.extend(order(z.to_le_bytes().to_vec()));
            bytes.extend([10, 20, 30, 0, 1]);
        }
        bytes
    }

    #[test]
    fn all_encodings_give_the_same_points() {
        let want = (
            vec![Point {
                position: [1.5, -2.0, 3.25],
                rgb: [10, 20, 30],
            }],
            1,
        );
        let text = format!(
            "ply\r\nformat ascii 1.0\ncomment made by hand\n{HEAD}9\n1.5 -2 3.25 10 20 30 0\nnan 0 0 1 2 3 0\n"
        );
        assert_eq!(parse_points_ply(text.as_bytes(), "t").unwrap(), want);
        assert_eq!(parse_points_ply(&binary(false), "l").unwrap(), want);
        assert_eq!(parse_points_ply(&binary(true), "b").unwrap(), want);
    }

    #[test]
    fn a_cut_or_lying_file_is_an_error() {
        let whole = binary(false);
        for length in 0..whole.len() {
            assert!(
                parse_points_ply(&whole[..length], "cut").is_err(),
                "{length}"
            );
        }
        for encoding in ["ascii", "binary_little_endian"] {
            let lie = format!(
                "ply\nformat {encoding} 1.0\nelement vertex 99999999999999\nproperty float x\n\
                 property float y\nproperty float z\nend_header\n"
            );
            assert!(parse_points_ply(lie.as_bytes(), "lie").is_err());
        }
    }
}
