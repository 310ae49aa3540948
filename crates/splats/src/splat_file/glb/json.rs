//! The JSON of a glTF file, limited to the keys that concern splats.

use super::DAMAGED;
use crate::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gltf {
    #[serde(default)]
    pub asset: Asset,
    #[serde(default)]
    pub extensions_required: Vec<String>,
    pub scene: Option<usize>,
    #[serde(default)]
    pub scenes: Vec<Scene>,
    #[serde(default)]
    pub nodes: Vec<Node>,
    #[serde(default)]
    pub meshes: Vec<Mesh>,
    #[serde(default)]
    pub accessors: Vec<Accessor>,
    #[serde(default)]
    pub buffer_views: Vec<View>,
    #[serde(default)]
    pub buffers: Vec<Buffer>,
    #[serde(default)]
    pub animations: Vec<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
pub(super) struct Asset {
    #[serde(default)]
    pub extras: Value,
}

#[derive(Deserialize)]
pub(super) struct Scene {
    #[serde(default)]
    pub nodes: Vec<usize>,
}

#[derive(Default, Deserialize)]
pub(super) struct Node {
    #[serde(default)]
    pub children: Vec<usize>,
    pub mesh: Option<usize>,
    pub matrix: Option<[f64; 16]>,
    pub translation: Option<[f64; 3]>,
    pub rotation: Option<[f64; 4]>,
    pub scale: Option<[f64; 3]>,
    pub skin: Option<usize>,
    #[serde(default)]
    pub extensions: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct Mesh {
    pub primitives: Vec<Primitive>,
}

#[derive(Deserialize)]
pub(super) struct Primitive {
    #[serde(default)]
    pub attributes: BTreeMap<String, usize>,
    #[serde(default)]
    pub extensions: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Accessor {
    pub buffer_view: Option<usize>,
    #[serde(default)]
    pub byte_offset: usize,
    pub component_type: u32,
    #[serde(default)]
    pub normalized: bool,
    pub count: usize,
    #[serde(rename = "type")]
    pub kind: String,
    pub sparse: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    #[serde(default)]
    pub buffer: usize,
    #[serde(default)]
    pub byte_offset: usize,
    pub byte_length: usize,
    pub byte_stride: Option<usize>,
    #[serde(default)]
    pub extensions: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Buffer {
    pub uri: Option<String>,
    #[serde(default)]
    pub byte_length: usize,
}

/// Extensions that a file may require: the supported ones, and those that do not concern splats.
const KNOWN: [&str; 8] = [
    super::EXTENSION,
    "KHR_gaussian_splatting_compression_spz",
    "KHR_gaussian_splatting_compression_spz_2",
    "KHR_spz_gaussian_splats_compression",
    "KHR_spz_compression",
    "KHR_mesh_quantization",
    "KHR_lights_punctual",
    "KHR_xmp_json_ld",
];
const HARMLESS: [&str; 4] = [
    "KHR_materials_",
    "KHR_texture_",
    "EXT_texture_",
    "EXT_lights_",
];

impl Gltf {
    /// Reads JSON that begins at byte `at` of its file, and refuses unknown required extensions.
    pub(super) fn parse(bytes: &[u8], at: usize) -> Result<Self> {
        let gltf: Self = serde_json::from_slice(bytes).map_err(|e| {
            let (line, column) = (e.line(), e.column());
            Error::input(format!("the glTF file's JSON is not understood: {e}"))
                .at(format!(
                    "byte {at}, line {line} column {column} of the JSON"
                ))
                .hint(DAMAGED)
        })?;
        let is_known = |name: &&String| {
            KNOWN.contains(&name.as_str()) || HARMLESS.iter().any(|start| name.starts_with(start))
        };
        let unknown = gltf.extensions_required.iter().find(|name| !is_known(name));
        match unknown {
            None => Ok(gltf),
            Some(name) => Err(Error::unsupported(format!(
                "the glTF file requires the extension {name}, which Dapple does not know"
            ))
            .at("extensionsRequired")
            .hint("export it without that extension (without compression, for example), or as .ply or .spz")),
        }
    }
}
