//! Reading of GLB files.
//!
//! The reader is written here because the crate `gltf` (1.4.1) panics at some damaged files. Chunks and the curve of sRGB
//! are those of glTF files of splats.

use super::drawable::{Drawable, Picture};
use dapple_base::{Error, Result};
use dapple_scene::splat_file::glb::{Chunks, srgb};
use glam::{DVec3, Mat4, Quat, Vec2, Vec3};
use serde_json::Value;

/// Deepest nodes.
const DEEPEST: usize = 64;

/// Most visits of nodes, so that a file that names one node many times ends.
const MOST_NODES: usize = 100_000;

/// Colour of vertices without one.
const GREY: [u8; 3] = [200; 3];

const BYTE: u64 = 5121;
const SHORT: u64 = 5123;
const INT: u64 = 5125;
const FLOAT: u64 = 5126;

/// Mode of a primitive of separate triangles.
const TRIANGLES: u64 = 4;

/// Reads a GLB file: the triangles of all nodes of its scene, with the first texture of base colours. Meshes that `dapple
/// mesh` wrote come back in the axes of their capture; others in those of the file's scene.
///
/// # Errors
/// A file that is no GLB file, is cut off, is compressed, needs data of other files, or has no triangle.
pub fn read_glb(bytes: &[u8]) -> Result<Drawable> {
    let chunks = Chunks::find(bytes).map_err(|e| damaged(&e.to_string()).caused_by(e))?;
    let root: Value =
        serde_json::from_slice(chunks.json).map_err(|e| damaged(&e.to_string()).caused_by(e))?;
    let required = root["extensionsRequired"].as_array();
    if let Some(name) = required.and_then(|names| names.first()) {
        return Err(
            Error::unsupported(format!("the mesh needs the glTF extension {name}"))
                .hint("write it without compression"),
        );
    }
    let mut reader = Reader {
        root: &root,
        blob: chunks.numbers.unwrap_or_default(),
        out: Drawable::default(),
        page: None,
        visits: 0,
    };
    let scene = &root["scenes"][root["scene"].as_u64().unwrap_or(0) as usize];
    for node in list(&scene["nodes"]) {
        reader.node(node, Mat4::IDENTITY, 0)?;
    }
    let page = reader.page;
    reader.out.picture = page.map(|page| reader.picture(page)).transpose()?;
    let mut out = reader.out;
    let mesh = &out.mesh;
    if mesh.triangles.is_empty() {
        return Err(Error::input("the mesh has no triangle"));
    }
    if !mesh.positions.iter().all(|p| p.is_finite()) {
        return Err(Error::input("a vertex has no finite position"));
    }
    if out.picture.is_none() {
        out.places.clear();
    }
    Ok(out)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn damaged(what: &str) -> Error {
    Error::input(format!("the mesh cannot be read: {what}"))
        .hint("give a .glb file without compression, or a .ply file")
}

/// Values of an accessor: `parts` numbers each, `[count][parts]`.
struct Values {
    kind: u64,
    normalized: bool,
    parts: usize,
    numbers: Vec<f64>,
}

impl Values {
    /// Iterates over the values, as `N` numbers each: positions and places as they are, colours from 0 to 1.
    fn rows<const N: usize>(&self) -> impl Iterator<Item = [f32; N]> + '_ {
        let scale = match (self.normalized, self.kind) {
            (true, BYTE) => 1.0 / 255.0,
            (true, SHORT) => 1.0 / 65535.0,
            _ => 1.0,
        };
        let rows = self.numbers.chunks_exact(self.parts);
        rows.map(move |row| {
            std::array::from_fn(|k| (row.get(k).copied().unwrap_or(0.0) * scale) as f32)
        })
    }
}

/// Mesh so far.
struct Reader<'a> {
    root: &'a Value,
    blob: &'a [u8],
    out: Drawable,
    /// Number of the picture of base colours.
    page: Option<u64>,
    visits: usize,
}

impl<'a> Reader<'a> {
    fn named(&self, list: &str, index: &Value) -> Option<&'a Value> {
        self.root[list].get(usize::try_from(index.as_u64()?).ok()?)
    }

    /// Returns the bytes of a view.
    fn view(&self, index: &Value) -> Option<&'a [u8]> {
        let view = self.named("bufferViews", index)?;
        let is_own = view["buffer"].as_u64()? == 0 && self.root["buffers"][0]["uri"].is_null();
        let at = |key: &str| usize::try_from(view[key].as_u64().unwrap_or(0)).ok();
        let begin = at("byteOffset")?;
        let end = begin.checked_add(at("byteLength")?)?;
        self.blob.get(begin..end).filter(|_| is_own)
    }

    /// Returns the values of an accessor.
    fn values(&self, index: &Value) -> Option<Values> {
        let accessor = self.named("accessors", index)?;
        if !accessor["sparse"].is_null() {
            return None;
        }
        let kind = accessor["componentType"].as_u64()?;
        let bytes = match kind {
            BYTE => 1,
            SHORT => 2,
            INT | FLOAT => 4,
            _ => return None,
        };
        let parts = match accessor["type"].as_str()? {
            "SCALAR" => 1,
            "VEC2" => 2,
            "VEC3" => 3,
            "VEC4" => 4,
            _ => return None,
        };
        let view = self.view(&accessor["bufferView"])?;
        let about = self.named("bufferViews", &accessor["bufferView"])?;
        let least = bytes * parts;
        let stride = about["byteStride"].as_u64().map_or(Some(least), |stride| {
            usize::try_from(stride)
                .ok()
                .filter(|&stride| stride >= least)
        })?;
        let begin = usize::try_from(accessor["byteOffset"].as_u64().unwrap_or(0)).ok()?;
        let count = usize::try_from(accessor["count"].as_u64()?).ok()?;
        let end = begin.checked_add(count.checked_sub(1)?.checked_mul(stride)?)?;
        let all = view.get(begin..end.checked_add(least)?)?;
        let number = |at: &[u8]| match kind {
            BYTE => f64::from(at[0]),
            SHORT => f64::from(u16::from_le_bytes([at[0], at[1]])),
            INT => f64::from(u32::from_le_bytes([at[0], at[1], at[2], at[3]])),
            _ => f64::from(f32::from_le_bytes([at[0], at[1], at[2], at[3]])),
        };
        let rows = all.chunks(stride).map(|row| &row[..least]);
        let numbers = rows.flat_map(|row| row.chunks_exact(bytes).map(number));
        Some(Values {
            kind,
            normalized: accessor["normalized"].as_bool().unwrap_or(false),
            parts,
            numbers: numbers.collect(),
        })
    }

    fn node(&mut self, index: &Value, above: Mat4, depth: usize) -> Result<()> {
        self.visits += 1;
        if depth > DEEPEST || self.visits > MOST_NODES {
            return Err(damaged("its nodes are nested too deeply"));
        }
        let Some(node) = self.named("nodes", index) else {
            return Err(damaged("a node is missing"));
        };
        let about = &node["extras"];
        let all = match about["voxel"].is_null() {
            true => above * transform(node),
            false => {
                let origin = numbers::<3>(&about["origin"]);
                self.out.origin = origin.map_or(DVec3::ZERO, DVec3::from);
                above
            }
        };
        if let Some(mesh) = self.named("meshes", &node["mesh"]) {
            for primitive in list(&mesh["primitives"]) {
                self.primitive(primitive, all)?;
            }
        }
        for child in list(&node["children"]) {
            self.node(child, all, depth + 1)?;
        }
        Ok(())
    }

    fn primitive(&mut self, primitive: &Value, transform: Mat4) -> Result<()> {
        if primitive["mode"].as_u64().unwrap_or(TRIANGLES) != TRIANGLES {
            return Ok(());
        }
        let attributes = &primitive["attributes"];
        let values = |index: &Value, what: &str| {
            self.values(index)
                .ok_or_else(|| damaged(&format!("its {what} are not in the file")))
        };
        let optional = |index: &Value, what: &str| match index.is_null() {
            true => Ok(None),
            false => values(index, what).map(Some),
        };
        let positions = values(&attributes["POSITION"], "positions")?;
        let colours = optional(&attributes["COLOR_0"], "colours")?;
        let indices = optional(&primitive["indices"], "triangles")?;
        let texture = self.base_colours(primitive);
        let places = match texture {
            Some((_, places)) => {
                optional(&attributes[format!("TEXCOORD_{places}")], "texture places")?
            }
            None => None,
        };
        let first = self.out.mesh.positions.len();
        let moved = positions
            .rows::<3>()
            .map(|p| transform.transform_point3(Vec3::from(p)));
        self.out.mesh.positions.extend(moved);
        let count = self.out.mesh.positions.len();
        let (begin, own) = (first as u32, (count - first) as u32);
        let indices: Vec<u32> = match indices {
            Some(indices) => indices.numbers.iter().map(|&i| i as u32).collect(),
            None => (0..own).collect(),
        };
        if indices.iter().any(|&i| i >= own) {
            return Err(damaged(
                "a triangle names a vertex that the file does not have",
            ));
        }
        let triangles = indices.as_chunks::<3>().0.iter();
        self.out
            .mesh
            .triangles
            .extend(triangles.map(|t| t.map(|i| i + begin)));
        if let Some(colours) = colours {
            self.out.mesh.colours.resize(first, GREY);
            let bytes = colours.rows::<3>().map(|rgb| rgb.map(encoded));
            self.out.mesh.colours.extend(bytes);
        }
        if !self.out.mesh.colours.is_empty() {
            self.out.mesh.colours.resize(count, GREY);
        }
        self.out.places.resize(first, Vec2::ZERO);
        if let (Some((page, _)), Some(places)) = (texture, places)
            && *self.page.get_or_insert(page) == page
        {
            self.out.places.extend(places.rows::<2>().map(Vec2::from));
        }
        self.out.places.resize(count, Vec2::ZERO);
        Ok(())
    }

    /// Returns the number of the picture of base colours, and of the places in it.
    fn base_colours(&self, primitive: &Value) -> Option<(u64, u64)> {
        let material = self.named("materials", &primitive["material"])?;
        let texture = &material["pbrMetallicRoughness"]["baseColorTexture"];
        let source = self.named("textures", &texture["index"])?["source"].as_u64()?;
        Some((source, texture["texCoord"].as_u64().unwrap_or(0)))
    }

    /// Returns an embedded picture.
    fn picture(&self, index: u64) -> Result<Picture> {
        let image = self.named("images", &index.into());
        let bytes = image.and_then(|image| self.view(&image["bufferView"]));
        let kind = image.and_then(|image| image["mimeType"].as_str());
        match (bytes, kind) {
            (Some(bytes), Some(kind)) => Ok(Picture {
                bytes: bytes.to_vec(),
                kind: kind.to_owned(),
            }),
            _ => Err(damaged("its texture is not in the file")),
        }
    }
}

/// Returns the transform of a node.
fn transform(node: &Value) -> Mat4 {
    if let Some(matrix) = numbers::<16>(&node["matrix"]) {
        return Mat4::from_cols_array(&matrix.map(|v| v as f32));
    }
    let of = |key: &str, or: f64| {
        numbers::<3>(&node[key])
            .unwrap_or([or; 3])
            .map(|v| v as f32)
    };
    let turn = numbers::<4>(&node["rotation"]).map(|v| v.map(|v| v as f32));
    let turn = turn.map_or(Quat::IDENTITY, |turn| Quat::from_array(turn).normalize());
    let (scale, place) = (of("scale", 1.0), of("translation", 0.0));
    Mat4::from_scale_rotation_translation(scale.into(), turn, place.into())
}

fn numbers<const N: usize>(value: &Value) -> Option<[f64; N]> {
    let values: Vec<f64> = value.as_array()?.iter().filter_map(Value::as_f64).collect();
    values.try_into().ok()
}

/// Converts linear light to a byte of sRGB.
fn encoded(v: f32) -> u8 {
    (srgb(f64::from(v.clamp(0.0, 1.0))) * 255.0).round() as u8
}
