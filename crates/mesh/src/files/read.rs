//! Reading of meshes and point sets in PLY files.

use crate::mesh::Mesh;
use dapple_base::{Error, Result};
use glam::{DVec3, Vec3};

/// Element of a PLY file.
struct Element {
    name: String,
    count: usize,
    /// Names and kinds; a list has two kinds.
    properties: Vec<(String, Vec<String>)>,
}

/// Mesh of a file, and what the file has of its triangles.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    /// Mesh.
    pub mesh: Mesh,
    /// Number of cameras that see each triangle (property `seen` of the faces); empty if the file has none.
    pub seen: Vec<u32>,
}

/// Reads a PLY file: positions, triangles (polygons become fans), colours. A file without faces is a set of points.
///
/// # Errors
/// A file that is no PLY file, is cut off, or has indices without a vertex.
pub fn read_ply(bytes: &[u8]) -> Result<Mesh> {
    Ok(read_counted_ply(bytes)?.mesh)
}

/// Reads a PLY file as [`read_ply`] does, and the number of cameras that see each triangle.
///
/// # Errors
/// Those of [`read_ply`].
pub fn read_counted_ply(bytes: &[u8]) -> Result<Counted> {
    let end = b"end_header\n";
    let at = bytes
        .windows(end.len())
        .take(1 << 16)
        .position(|window| window == end);
    let Some(at) = at.filter(|_| bytes.starts_with(b"ply")) else {
        return Err(Error::input("this is no PLY file").hint("give a mesh as .glb, .obj or .ply"));
    };
    let header = String::from_utf8_lossy(&bytes[..at]);
    let mut body = Body {
        bytes: &bytes[at + end.len()..],
        is_text: header.contains("format ascii"),
    };
    if header.contains("format binary_big_endian") {
        return Err(Error::unsupported("a big-endian PLY file is not supported")
            .hint("write it as binary_little_endian"));
    }
    let mut mesh = Mesh::default();
    let mut seen = Vec::new();
    for element in elements(&header)? {
        for _ in 0..element.count {
            let mut rgb = [0u8; 3];
            let mut place = Vec3::NAN;
            let mut has_colour = false;
            for (name, kinds) in &element.properties {
                let values = body.property(kinds)?;
                let first = values.first().copied().unwrap_or(0.0);
                match (element.name.as_str(), name.as_str()) {
                    ("vertex", "x") => place.x = first as f32,
                    ("vertex", "y") => place.y = first as f32,
                    ("vertex", "z") => place.z = first as f32,
                    ("vertex", "red") => (rgb[0], has_colour) = (first as u8, true),
                    ("vertex", "green") => rgb[1] = first as u8,
                    ("vertex", "blue") => rgb[2] = first as u8,
                    ("face", "vertex_indices" | "vertex_index") => {
                        let of = |k: usize| values[k] as u32;
                        for k in 2..values.len() {
                            mesh.triangles.push([of(0), of(k - 1), of(k)]);
                        }
                    }
                    ("face", "seen") => seen.resize(mesh.triangles.len(), first as u32),
                    _ => {}
                }
            }
            if element.name == "vertex" {
                if !place.is_finite() {
                    return Err(Error::input(format!(
                        "vertex {} has no finite position",
                        mesh.positions.len()
                    )));
                }
                mesh.positions.push(place);
                if has_colour {
                    mesh.colours.push(rgb);
                }
            }
        }
    }
    let most = mesh.triangles.as_flattened().iter().max().copied();
    if most.is_some_and(|most| most as usize >= mesh.positions.len()) {
        return Err(Error::input(
            "a face names a vertex that the file does not have",
        ));
    }
    Ok(Counted { mesh, seen })
}

/// Returns the origin that the header of a PLY file records; zero without one.
pub fn origin_of(bytes: &[u8]) -> DVec3 {
    let head = &bytes[..bytes.len().min(1 << 14)];
    let header = String::from_utf8_lossy(head);
    let rows = header.lines().take_while(|row| *row != "end_header");
    let mut rows = rows.filter_map(|row| row.strip_prefix("comment origin "));
    let values = rows.next().map(|row| {
        let values = row.split_whitespace().map_while(|v| v.parse().ok());
        values.collect::<Vec<f64>>()
    });
    match values.as_deref() {
        Some(&[x, y, z]) => DVec3::new(x, y, z),
        _ => DVec3::ZERO,
    }
}

fn elements(header: &str) -> Result<Vec<Element>> {
    let mut found: Vec<Element> = Vec::new();
    for line in header.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["element", name, count] => {
                let count = count
                    .parse()
                    .map_err(|_| Error::input(format!("the header has a bad count: {line:?}")))?;
                let (name, properties) = (name.to_owned(), Vec::new());
                found.push(Element {
                    name,
                    count,
                    properties,
                });
            }
            ["property", "list", count, kind, name] => {
                if let Some(last) = found.last_mut() {
                    last.properties
                        .push((name.to_owned(), vec![count.to_owned(), kind.to_owned()]));
                }
            }
            ["property", kind, name] => {
                if let Some(last) = found.last_mut() {
                    last.properties
                        .push((name.to_owned(), vec![kind.to_owned()]));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Numbers after the header.
struct Body<'a> {
    bytes: &'a [u8],
    is_text: bool,
}

impl Body<'_> {
    fn property(&mut self, kinds: &[String]) -> Result<Vec<f64>> {
        match kinds {
            [kind] => Ok(vec![self.number(kind)?]),
            [count, kind] => {
                let count = self.number(count)?;
                if !(0.0..=1e6).contains(&count) {
                    return Err(Error::input("a face has a bad number of corners"));
                }
                (0..count as usize).map(|_| self.number(kind)).collect()
            }
            _ => Err(Error::internal("a property of a PLY file without a kind")),
        }
    }

    fn number(&mut self, kind: &str) -> Result<f64> {
        let cut =
            || Error::input("the file ends in the middle of its data").hint("copy the file again");
        if self.is_text {
            let start = self
                .bytes
                .iter()
                .position(|b| !b.is_ascii_whitespace())
                .ok_or_else(cut)?;
            let rest = &self.bytes[start..];
            let length = rest
                .iter()
                .position(u8::is_ascii_whitespace)
                .unwrap_or(rest.len());
            let text = String::from_utf8_lossy(&rest[..length]);
            let value = text
                .parse()
                .map_err(|_| Error::input(format!("{text:?} is no number")))?;
            self.bytes = &rest[length..];
            return Ok(value);
        }
        let mut take = |count: usize| {
            let taken = self.bytes.split_at_checked(count).ok_or_else(cut)?;
            self.bytes = taken.1;
            Ok::<_, Error>(taken.0)
        };
        fn bytes<const N: usize>(slice: &[u8]) -> [u8; N] {
            std::array::from_fn(|i| slice[i])
        }
        Ok(match kind {
            "char" | "int8" => f64::from(take(1)?[0] as i8),
            "uchar" | "uint8" => f64::from(take(1)?[0]),
            "short" | "int16" => f64::from(i16::from_le_bytes(bytes(take(2)?))),
            "ushort" | "uint16" => f64::from(u16::from_le_bytes(bytes(take(2)?))),
            "int" | "int32" => f64::from(i32::from_le_bytes(bytes(take(4)?))),
            "uint" | "uint32" => f64::from(u32::from_le_bytes(bytes(take(4)?))),
            "float" | "float32" => f64::from(f32::from_le_bytes(bytes(take(4)?))),
            "double" | "float64" => f64::from_le_bytes(bytes(take(8)?)),
            _ => {
                return Err(Error::input(format!(
                    "{kind:?} is no kind of number of a PLY file"
                )));
            }
        })
    }
}
