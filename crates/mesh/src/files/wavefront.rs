//! Reading of OBJ files.
//!
//! The reader is written here because the crate `tobj` (4.0.5) panics at some damaged files, gives corners without a
//! texture place the place of another corner, and reports no line. `obj`, `obj-rs` and `wavefront_obj` read no colours per
//! vertex.

use super::drawable::Drawable;
use super::materials::Materials;
use crate::mesh::Mesh;
use dapple_base::{Error, Result};
use glam::{DVec3, Vec2, Vec3};
use std::collections::HashMap;
use std::path::Path;

/// Colour of vertices without one.
const GREY: [u8; 3] = [200; 3];

/// Number of a texture place or a material that does not exist.
const NONE: u32 = u32::MAX;

/// Most numbers of a line that are read: position and colour with alpha.
const NUMBERS: usize = 7;

/// Hint for a damaged file.
const AGAIN: &str = "copy or export the file again";

/// Corner of a face: its vertex, and its texture place or [`NONE`].
type Corner = [u32; 2];

/// Content of an OBJ file. Polygons are split into fans of triangles.
#[derive(Debug, Default)]
pub(super) struct Obj {
    positions: Vec<Vec3>,
    /// Colour of each vertex, 0 to 1 or 0 to 255; NaN for vertices without one. Empty if no vertex has a colour.
    colours: Vec<[f32; 3]>,
    places: Vec<Vec2>,
    triangles: Vec<[Corner; 3]>,
    /// Material of each triangle, as an index of `materials`, and its line.
    about: Vec<[u32; 2]>,
    /// Names of materials, in the order of their first use.
    materials: Vec<String>,
    /// Names of material files.
    libraries: Vec<String>,
    /// Origin that `dapple mesh` recorded.
    pub origin: DVec3,
    is_own: bool,
    /// Corners of the face that is read.
    corners: Vec<Corner>,
}

impl Obj {
    /// Reads the text of an OBJ file.
    ///
    /// # Errors
    /// No vertex, a line that cannot be read, or a face with a number that the file does not have. The place of the
    /// error is the line.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut obj = Self::default();
        let mut material = NONE;
        // Lines that a backslash continues.
        let mut begun = String::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            let is_comment = begun.is_empty() && line.starts_with('#');
            if let Some(start) = line.strip_suffix('\\').filter(|_| !is_comment) {
                begun += start;
                begun.push(' ');
                continue;
            }
            let done = match begun.is_empty() {
                true => obj.line(line, number, &mut material),
                false => obj.line(&(std::mem::take(&mut begun) + line), number, &mut material),
            };
            done.map_err(|e| match e.hint_text() {
                Some(_) => e.at(format!("line {number}")),
                None => e.at(format!("line {number}")).hint(AGAIN),
            })?;
        }
        if !begun.is_empty() {
            return Err(Error::input("the last line is continued, and the file ends").hint(AGAIN));
        }
        if obj.positions.is_empty() {
            return Err(Error::input("this is no OBJ file: it has no vertex")
                .hint("give a mesh as .glb, .obj or .ply"));
        }
        obj.check()?;
        Ok(obj)
    }

    fn line(&mut self, line: &str, number: u32, material: &mut u32) -> Result<()> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "v" => self.vertex(rest)?,
            "vt" => self.place(rest)?,
            "f" => self.face(rest, *material, number)?,
            "usemtl" => *material = self.material(rest.trim()),
            "mtllib" => self.libraries.push(rest.trim().to_owned()),
            "#" => self.comment(rest.trim()),
            _ => {}
        }
        Ok(())
    }

    fn vertex(&mut self, rest: &str) -> Result<()> {
        let (values, count) = numbers(rest)?;
        let place = Vec3::new(values[0], values[1], values[2]);
        // A fourth number alone is a weight of rational curves.
        if count < 3 || count == 5 {
            return Err(Error::input(format!("a vertex has {count} numbers"))
                .hint("a vertex needs x y z, and may have a colour: x y z r g b"));
        }
        if !place.is_finite() {
            return Err(Error::input("a vertex has no finite position"));
        }
        if count >= 6 {
            self.colours.resize(self.positions.len(), [f32::NAN; 3]);
            self.colours.push([values[3], values[4], values[5]]);
        } else if !self.colours.is_empty() {
            self.colours.push([f32::NAN; 3]);
        }
        self.positions.push(place);
        Ok(())
    }

    fn place(&mut self, rest: &str) -> Result<()> {
        let (values, count) = numbers(rest)?;
        if count == 0 || !values[0].is_finite() || !values[1].is_finite() {
            return Err(Error::input("a texture place has no finite numbers"));
        }
        // The origin of OBJ is the lower left corner.
        self.places.push(Vec2::new(values[0], 1.0 - values[1]));
        Ok(())
    }

    fn face(&mut self, rest: &str, material: u32, line: u32) -> Result<()> {
        let mut corners = std::mem::take(&mut self.corners);
        corners.clear();
        for word in without_comment(rest).split_whitespace() {
            corners.push(self.corner(word)?);
        }
        if corners.len() < 3 {
            let what = format!("a face has {} corners, and needs three", corners.len());
            return Err(Error::input(what).hint(AGAIN));
        }
        for k in 2..corners.len() {
            self.triangles
                .push([corners[0], corners[k - 1], corners[k]]);
            self.about.push([material, line]);
        }
        self.corners = corners;
        Ok(())
    }

    /// Reads a corner: `vertex`, `vertex/place`, `vertex//normal` or `vertex/place/normal`.
    fn corner(&self, word: &str) -> Result<Corner> {
        let bad = || Error::input(format!("{word:?} is no corner of a face"));
        let mut parts = word.split('/');
        let mut next = |count: usize| match parts.next() {
            None | Some("") => Some(NONE),
            Some(text) => index(text, count),
        };
        let vertex = next(self.positions.len()).ok_or_else(bad)?;
        let place = next(self.places.len()).ok_or_else(bad)?;
        // Normals are not used, and not counted.
        next(u32::MAX as usize).ok_or_else(bad)?;
        match vertex == NONE || parts.next().is_some() {
            true => Err(bad()),
            false => Ok([vertex, place]),
        }
    }

    fn material(&mut self, name: &str) -> u32 {
        let known = self.materials.iter().position(|other| other == name);
        let index = known.unwrap_or_else(|| {
            self.materials.push(name.to_owned());
            self.materials.len() - 1
        });
        index as u32
    }

    fn comment(&mut self, text: &str) {
        self.is_own |= text == "made by dapple mesh";
        let origin = text.strip_prefix("origin ").filter(|_| self.is_own);
        let values = origin.unwrap_or_default().split_whitespace();
        let values: Vec<f64> = values.filter_map(|v| v.parse().ok()).collect();
        if let &[x, y, z] = values.as_slice()
            && values.iter().all(|v| v.is_finite())
        {
            self.origin = DVec3::new(x, y, z);
        }
    }

    /// Refuses faces with numbers that the file does not have.
    fn check(&self) -> Result<()> {
        let counts = [self.positions.len(), self.places.len()];
        for (triangle, [_, line]) in self.triangles.iter().zip(&self.about) {
            for &[vertex, place] in triangle {
                let has_place = place == NONE || (place as usize) < counts[1];
                if (vertex as usize) < counts[0] && has_place {
                    continue;
                }
                let what = match has_place {
                    true => format!("vertex {}, and the file has {}", vertex + 1, counts[0]),
                    false => format!(
                        "texture place {}, and the file has {}",
                        place + 1,
                        counts[1]
                    ),
                };
                return Err(Error::input(format!("a face names {what}"))
                    .at(format!("line {line}"))
                    .hint(AGAIN));
            }
        }
        Ok(())
    }

    /// Returns positions, triangles and colours per vertex.
    pub fn mesh(self) -> Mesh {
        let colours = self.bytes();
        let vertices = |triangle: &[Corner; 3]| triangle.map(|[vertex, _]| vertex);
        Mesh {
            triangles: self.triangles.iter().map(vertices).collect(),
            positions: self.positions,
            colours,
            ..Mesh::default()
        }
    }

    /// Returns the colours per vertex as bytes.
    fn bytes(&self) -> Vec<[u8; 3]> {
        // Some programs write colours from 0 to 255.
        let most = self.colours.as_flattened().iter().copied();
        let scale = match most.fold(0.0, f32::max) > 1.0 {
            true => 1.0,
            false => 255.0,
        };
        let byte = |v: f32| (v * scale).round().clamp(0.0, 255.0) as u8;
        let colours = self.colours.iter().map(|rgb| match rgb[0].is_nan() {
            true => GREY,
            false => rgb.map(byte),
        });
        colours.collect()
    }

    /// Returns the mesh as renderers draw it, with the picture or the colours of its materials. Their files are in
    /// `folder`.
    ///
    /// # Errors
    /// A material file or a picture that exists and cannot be read.
    pub fn drawable(self, folder: &Path) -> Result<Drawable> {
        let mut materials = Materials::read(folder, &self.libraries, &self.materials)?;
        let picture = match self.places.is_empty() {
            true => None,
            false => materials.picture(folder)?,
        };
        let has_tints = picture.is_none() && self.colours.is_empty() && materials.have_colours();
        let colours = self.bytes();
        let mut out = Drawable {
            origin: self.origin,
            notes: materials.notes,
            ..Drawable::default()
        };
        let mut known = HashMap::new();
        for (triangle, &[material, _]) in self.triangles.iter().zip(&self.about) {
            let is_on = picture
                .as_ref()
                .is_some_and(|(_, on)| on.contains(&material));
            let corners = triangle.map(|[vertex, place]| {
                let place = if is_on { place } else { NONE };
                let tint = if has_tints { material } else { NONE };
                let next = out.mesh.positions.len() as u32;
                let index = *known.entry([vertex, place, tint]).or_insert(next);
                if index == next {
                    out.mesh.positions.push(self.positions[vertex as usize]);
                    if let Some(&colour) = colours.get(vertex as usize) {
                        out.mesh.colours.push(colour);
                    } else if has_tints {
                        let colour = materials.colours.get(tint as usize).copied().flatten();
                        out.mesh.colours.push(colour.unwrap_or(GREY));
                    }
                    if picture.is_some() {
                        let place = self.places.get(place as usize);
                        out.places.push(place.copied().unwrap_or_default());
                    }
                }
                index
            });
            out.mesh.triangles.push(corners);
        }
        out.picture = picture.map(|(picture, _)| picture);
        Ok(out)
    }
}

/// Reads positions, triangles and colours per vertex of an OBJ file. A file without faces is a set of points.
///
/// # Errors
/// No vertex, a line that cannot be read, or a face with a number that the file does not have.
pub fn read_obj(bytes: &[u8]) -> Result<Mesh> {
    Ok(Obj::parse(bytes)?.mesh())
}

fn without_comment(rest: &str) -> &str {
    rest.split_once('#').map_or(rest, |(before, _)| before)
}

/// Returns the numbers of a line, zeros after them, and their count, at most [`NUMBERS`].
fn numbers(rest: &str) -> Result<([f32; NUMBERS], usize)> {
    let mut values = [0.0; NUMBERS];
    let words = without_comment(rest).split_whitespace();
    let mut count = 0;
    for (value, word) in values.iter_mut().zip(words) {
        *value = word
            .parse()
            .map_err(|_| Error::input(format!("{word:?} is no number")))?;
        count += 1;
    }
    Ok((values, count))
}

/// Returns the index of a number: from 1 on, or from the last of `count` backwards; `None` if it is none.
fn index(text: &str, count: usize) -> Option<u32> {
    let number: i64 = text.parse().ok()?;
    let index = match number > 0 {
        true => number - 1,
        false if number < 0 => number.checked_add(i64::try_from(count).ok()?)?,
        false => return None,
    };
    u32::try_from(index).ok().filter(|&index| index != NONE)
}
