//! From a file to splats.

use super::{BIN_CHUNK, EXTENSION, JSON_CHUNK, MAGIC, coefficient, signs};
use crate::edit::order::append;
use crate::ply::empty;
use crate::splat_file::packed::{Cursor, linear_scale, logit, unit};
use crate::splat_file::{Aside, NON_FINITE_HINT, ReadOptions};
use crate::{Error, MAX_SH_DEGREE, Result, Splats};
use serde::Deserialize;
use std::collections::BTreeMap;

const DAMAGED: &str =
    "the file is damaged, or was written by a program that takes glTF otherwise: export it again";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gltf {
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    meshes: Vec<Mesh>,
    #[serde(default)]
    accessors: Vec<Accessor>,
    #[serde(default)]
    buffer_views: Vec<View>,
}

#[derive(Deserialize)]
struct Node {
    mesh: Option<usize>,
    matrix: Option<[f32; 16]>,
    translation: Option<[f32; 3]>,
    rotation: Option<[f32; 4]>,
    scale: Option<[f32; 3]>,
}

impl Node {
    fn is_plain(&self) -> bool {
        let identity = |m: [f32; 16]| (0..16).all(|k| m[k] == f32::from(u8::from(k % 5 == 0)));
        self.matrix.is_none_or(identity)
            && self.translation.is_none_or(|t| t == [0.0; 3])
            && self.rotation.is_none_or(|r| r == [0.0, 0.0, 0.0, 1.0])
            && self.scale.is_none_or(|s| s == [1.0; 3])
    }
}

#[derive(Deserialize)]
struct Mesh {
    primitives: Vec<Primitive>,
}

#[derive(Deserialize)]
struct Primitive {
    #[serde(default)]
    attributes: BTreeMap<String, usize>,
    #[serde(default)]
    extensions: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accessor {
    buffer_view: Option<usize>,
    #[serde(default)]
    byte_offset: usize,
    component_type: u32,
    #[serde(default)]
    normalized: bool,
    count: usize,
    #[serde(rename = "type")]
    kind: String,
    sparse: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct View {
    #[serde(default)]
    buffer: usize,
    #[serde(default)]
    byte_offset: usize,
    byte_length: usize,
    byte_stride: Option<usize>,
}

fn refuse<T>(what: String, at: &str) -> Result<T> {
    Err(Error::input(what).at(at.to_owned()).hint(DAMAGED))
}

pub(in crate::splat_file) fn parse(bytes: &[u8], options: &ReadOptions) -> Result<(Splats, Aside)> {
    let mut cursor = Cursor::new(bytes, 0, ".glb");
    let magic = cursor.take(4, "header")?;
    let (version, length) = (cursor.u32("header")?, cursor.u32("header")? as usize);
    if magic != MAGIC || version != 2 {
        return refuse(
            format!("this is no binary glTF file of version 2, but of {version}"),
            "byte 0",
        );
    }
    let mut chunks: [&[u8]; 2] = [&[]; 2];
    for (chunk, kind) in chunks.iter_mut().zip([JSON_CHUNK, BIN_CHUNK]) {
        let size = cursor.u32("chunk")? as usize;
        let at = cursor.at();
        if cursor.u32("chunk")? != kind {
            return refuse(
                "the glTF file has a chunk of another kind than JSON and numbers".to_owned(),
                &format!("byte {at}"),
            );
        }
        *chunk = cursor.take(size, "chunk")?;
    }
    let gltf: Gltf = serde_json::from_slice(chunks[0]).map_err(|e| {
        Error::input(format!("the glTF file's JSON is not understood: {e}"))
            .at(format!(
                "byte 20, line {} column {} of the JSON",
                e.line(),
                e.column()
            ))
            .hint(DAMAGED)
    })?;
    let mut aside = Aside::default();
    if length != cursor.at() {
        aside.notes.push(format!(
            "the file says that it has {length} bytes, and its chunks end at {}",
            cursor.at()
        ));
    }
    let file = File {
        gltf,
        bin: chunks[1],
        keeps_non_finite: options.keeps_non_finite(),
    };
    Ok((file.splats(&mut aside)?, aside))
}

struct File<'a> {
    gltf: Gltf,
    bin: &'a [u8],
    keeps_non_finite: bool,
}

impl File<'_> {
    fn splats(&self, aside: &mut Aside) -> Result<Splats> {
        let mut splats = Splats::empty(0);
        let mut found = false;
        for (m, mesh) in self.gltf.meshes.iter().enumerate() {
            let shown = self
                .gltf
                .nodes
                .iter()
                .any(|node| node.mesh == Some(m) && !node.is_plain());
            for (p, primitive) in mesh.primitives.iter().enumerate() {
                if !primitive.extensions.contains_key(EXTENSION) {
                    continue;
                }
                if shown {
                    aside.notes.push(format!(
                        "a node moves mesh {m}: it is read where it is without the node"
                    ));
                }
                found = true;
                let part = self.primitive(primitive, &format!("mesh {m}, primitive {p}"))?;
                append(&mut splats, part);
            }
        }
        match found {
            true => Ok(splats),
            false => Err(Error::unsupported(format!("the glTF file has no primitive with {EXTENSION}"))
                .at("its JSON")
                .hint("files of meshes or with compressed splats (spz_2) are not read: export .ply, .spz or .sog")),
        }
    }

    fn primitive(&self, primitive: &Primitive, at: &str) -> Result<Splats> {
        let find = |name: &str| match primitive.attributes.get(name) {
            Some(&index) => self.floats(index, &format!("{at}, {name}")),
            None => refuse(format!("the splats of the glTF file lack {name}"), at),
        };
        let (means, _) = find("POSITION")?;
        let attribute = |name: &str| find(&format!("{EXTENSION}:{name}"));
        let degree = (0..=usize::from(MAX_SH_DEGREE))
            .rev()
            .find(|&degree| primitive.attributes.contains_key(&coefficient(degree, 0)))
            .unwrap_or(0);
        let count = means.len() / 3;
        let mut splats = empty(count, degree as u8);
        let signs = signs();
        let widths = |values: &[f32], width: usize, name: &str| match values.len() == width * count
        {
            true => Ok(()),
            false => refuse(
                format!(
                    "{name} of the glTF file's splats has {} numbers for {count}",
                    values.len()
                ),
                at,
            ),
        };
        let (quats, scales, opacities) = (
            attribute("ROTATION")?.0,
            attribute("SCALE")?.0,
            attribute("OPACITY")?.0,
        );
        let (sh0, _) = find(&coefficient(0, 0))?;
        widths(&means, 3, "POSITION")?;
        widths(&quats, 4, "ROTATION")?;
        widths(&scales, 3, "SCALE")?;
        widths(&opacities, 1, "OPACITY")?;
        widths(&sh0, 3, "SH_DEGREE_0_COEF_0")?;
        for i in 0..count {
            let three = |of: &[f32]| [0, 1, 2].map(|k| of[3 * i + k]);
            splats.means[i] = [0, 1, 2].map(|k| means[3 * i + k] * signs.mean[k]);
            splats.scales[i] = three(&scales).map(linear_scale);
            let [x, y, z, w] = [0, 1, 2, 3].map(|k| quats[4 * i + k]);
            let [sx, sy, sz] = signs.quat;
            let quat = [w, x * sx, y * sy, z * sz];
            splats.quats[i] = match quat.iter().all(|q| q.is_finite()) {
                true => unit(quat),
                false => quat,
            };
            splats.opacities[i] = open_logit(opacities[i]);
            splats.sh0[i] = three(&sh0);
        }
        let stride = splats.sh_rest_stride();
        for degree in 1..=degree {
            for n in 0..2 * degree + 1 {
                let name = coefficient(degree, n);
                let (values, _) = find(&name)?;
                widths(&values, 3, &name)?;
                let k = degree * degree - 1 + n;
                for i in 0..count {
                    for channel in 0..3 {
                        splats.sh_rest[i * stride + 3 * k + channel] =
                            values[3 * i + channel] * signs.sh[k];
                    }
                }
            }
        }
        Ok(splats)
    }

    /// An accessor's numbers, all of them finite unless others are kept, and how many go together.
    fn floats(&self, index: usize, at: &str) -> Result<(Vec<f32>, usize)> {
        let accessor = self.gltf.accessors.get(index);
        let view = accessor
            .and_then(|a| a.buffer_view)
            .and_then(|v| self.gltf.buffer_views.get(v));
        let (Some(accessor), Some(view)) = (accessor, view) else {
            return refuse(
                "an attribute of the glTF file's splats has no numbers".to_owned(),
                at,
            );
        };
        let width = match accessor.kind.as_str() {
            "SCALAR" => 1,
            "VEC3" => 3,
            "VEC4" => 4,
            _ => 0,
        };
        let size = match accessor.component_type {
            5120 | 5121 => 1,
            5122 | 5123 => 2,
            5126 => 4,
            _ => 0,
        };
        let plain = accessor.sparse.is_none() && view.buffer == 0 && width > 0 && size > 0;
        let stride = view.byte_stride.unwrap_or(width * size);
        let begin = view.byte_offset.checked_add(accessor.byte_offset);
        let room = begin.and_then(|begin| {
            self.bin
                .get(begin..view.byte_offset.checked_add(view.byte_length)?)
        });
        let needed = match accessor.count {
            0 => Some(0),
            count => stride
                .checked_mul(count - 1)
                .and_then(|b| b.checked_add(width * size)),
        };
        let (Some(room), Some(needed), true) = (room, needed, plain && stride >= width * size)
        else {
            return refuse("an attribute of the glTF file's splats is sparse, of another type, or beyond the file".to_owned(), at);
        };
        if needed > room.len() {
            return refuse(
                format!(
                    "an attribute of the glTF file needs {needed} bytes and has {}",
                    room.len()
                ),
                at,
            );
        }
        let mut values = Vec::with_capacity(accessor.count * width);
        for i in 0..accessor.count {
            for bytes in room[i * stride..][..width * size].chunks_exact(size) {
                values.push(number(bytes, accessor.component_type, accessor.normalized));
            }
        }
        match values.iter().position(|v| !v.is_finite()) {
            Some(bad) if !self.keeps_non_finite => Err(Error::input(format!(
                "number {bad} of an attribute of the glTF file is not finite"
            ))
            .at(at.to_owned())
            .hint(NON_FINITE_HINT)),
            _ => Ok((values, width)),
        }
    }
}

/// A component, as a fraction of its type's largest where it is meant so.
fn number(bytes: &[u8], kind: u32, normalized: bool) -> f32 {
    let (value, most) = match (kind, bytes) {
        (5120, &[a]) => (f32::from(a as i8), 127.0),
        (5121, &[a]) => (f32::from(a), 255.0),
        (5122, &[a, b]) => (f32::from(i16::from_le_bytes([a, b])), 32_767.0),
        (5123, &[a, b]) => (f32::from(u16::from_le_bytes([a, b])), 65_535.0),
        (_, &[a, b, c, d]) => return f32::from_le_bytes([a, b, c, d]),
        _ => return 0.0,
    };
    if normalized {
        (value / most).max(-1.0)
    } else {
        value
    }
}

/// The logit of a float's opacity: nearer to 0 and 1 than a byte's.
fn open_logit(alpha: f32) -> f32 {
    if !alpha.is_finite() {
        return f32::NAN;
    }
    match alpha > 1e-6 && alpha < 1.0 - 1e-6 {
        true => (alpha / (1.0 - alpha)).ln(),
        false => logit(alpha),
    }
}
