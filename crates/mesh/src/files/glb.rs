//! GLB: binary glTF 2.0 with an unlit material.
//!
//! Positions are the capture's. A node turns the capture's up direction to +y, which glTF viewers expect. The node's
//! extras record origin, up direction and voxel.

use super::About;
use super::flat::Flat;
use crate::mesh::Mesh;
use dapple_base::{Error, Result};
use glam::{Quat, Vec3};
use serde_json::{Value, json};

const FLOAT: u32 = 5126;
const UINT: u32 = 5125;
const UBYTE: u32 = 5121;
const ARRAY: u32 = 34962;
const ELEMENTS: u32 = 34963;
/// Largest size of a GLB file.
const MOST_BYTES: usize = u32::MAX as usize;

/// Buffer with its views and accessors.
#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    views: Vec<Value>,
    accessors: Vec<Value>,
}

impl Parts {
    fn view(&mut self, bytes: &[u8], target: Option<u32>) -> usize {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
        let mut view =
            json!({"buffer": 0, "byteOffset": self.bytes.len(), "byteLength": bytes.len()});
        if let Some(target) = target {
            view["target"] = json!(target);
        }
        self.bytes.extend(bytes);
        self.views.push(view);
        self.views.len() - 1
    }

    fn accessor(&mut self, bytes: &[u8], target: u32, accessor: Value) -> usize {
        let view = self.view(bytes, Some(target));
        let mut accessor = accessor;
        accessor["bufferView"] = json!(view);
        self.accessors.push(accessor);
        self.accessors.len() - 1
    }
}

/// Returns the bytes of a GLB file. `picture` is the texture as JPEG or PNG, with its media type.
///
/// # Errors
/// A mesh without triangles, or too large for the format.
pub fn glb(mesh: &Mesh, about: &About, picture: Option<(&[u8], &str)>) -> Result<Vec<u8>> {
    if mesh.triangles.is_empty() {
        return Err(Error::input("the mesh has no triangle"));
    }
    let flat = Flat::from_mesh(mesh);
    let mut parts = Parts::default();
    let mut attributes = attributes(mesh, &flat, &mut parts);
    let indices: Vec<u8> = flat
        .triangles
        .as_flattened()
        .iter()
        .flat_map(|i| i.to_le_bytes())
        .collect();
    let count = 3 * flat.triangles.len();
    let indices = parts.accessor(
        &indices,
        ELEMENTS,
        json!({"componentType": UINT, "count": count, "type": "SCALAR"}),
    );
    let mut pbr = json!({"metallicFactor": 0.0, "roughnessFactor": 1.0});
    let mut root = json!({
        "asset": {"version": "2.0", "generator": "dapple mesh"},
        "extensionsUsed": ["KHR_materials_unlit"],
        "scene": 0,
        "scenes": [{"nodes": [0]}],
    });
    if let Some((bytes, kind)) = picture {
        let view = parts.view(bytes, None);
        root["images"] = json!([{"bufferView": view, "mimeType": kind}]);
        root["samplers"] =
            json!([{"magFilter": 9729, "minFilter": 9987, "wrapS": 33071, "wrapT": 33071}]);
        root["textures"] = json!([{"source": 0, "sampler": 0}]);
        pbr["baseColorTexture"] = json!({"index": 0});
    } else if let Some(attributes) = attributes.as_object_mut() {
        attributes.remove("TEXCOORD_0");
    }
    root["materials"] = json!([{
        "pbrMetallicRoughness": pbr,
        "extensions": {"KHR_materials_unlit": {}},
    }]);
    root["meshes"] = json!([{
        "primitives": [{"attributes": attributes, "indices": indices, "material": 0}],
    }]);
    root["nodes"] = json!([node(about)]);
    root["accessors"] = Value::Array(std::mem::take(&mut parts.accessors));
    root["bufferViews"] = Value::Array(std::mem::take(&mut parts.views));
    while !parts.bytes.len().is_multiple_of(4) {
        parts.bytes.push(0);
    }
    root["buffers"] = json!([{"byteLength": parts.bytes.len()}]);
    file(&root, &parts.bytes)
}

/// Returns the node that turns the up direction to +y.
fn node(about: &About) -> Value {
    let mut node = json!({"mesh": 0, "name": "surface"});
    let mut extras = json!({
        "origin": about.origin.to_array(),
        "voxel": about.voxel,
    });
    if let Some(up) = about.up {
        let turn = Quat::from_rotation_arc(up.normalize_or(Vec3::Y), Vec3::Y).normalize();
        node["rotation"] = json!(turn.to_array());
        extras["up"] = json!(up.to_array());
    }
    node["extras"] = extras;
    node
}

fn attributes(mesh: &Mesh, flat: &Flat, parts: &mut Parts) -> Value {
    let count = flat.vertices.len();
    let floats = |values: &mut dyn Iterator<Item = f32>| -> Vec<u8> {
        values.flat_map(f32::to_le_bytes).collect()
    };
    let of = |values: &[Vec3]| {
        let values = flat.vertices.iter().map(|&i| values[i as usize].to_array());
        floats(&mut values.flatten())
    };
    let used = mesh.gathered(&flat.vertices);
    let [low, high] = used.bounds().unwrap_or_default();
    let position = parts.accessor(
        &of(&mesh.positions),
        ARRAY,
        json!({"componentType": FLOAT, "count": count, "type": "VEC3",
               "min": low.to_array(), "max": high.to_array()}),
    );
    let mut attributes = json!({"POSITION": position});
    if mesh.normals.len() == mesh.positions.len() {
        let normals = parts.accessor(
            &of(&mesh.normals),
            ARRAY,
            json!({"componentType": FLOAT, "count": count, "type": "VEC3"}),
        );
        attributes["NORMAL"] = json!(normals);
    }
    if !flat.places.is_empty() {
        let places = floats(&mut flat.places.iter().flat_map(|p| p.to_array()));
        let places = parts.accessor(
            &places,
            ARRAY,
            json!({"componentType": FLOAT, "count": count, "type": "VEC2"}),
        );
        attributes["TEXCOORD_0"] = json!(places);
    } else if mesh.colours.len() == mesh.positions.len() {
        // glTF multiplies linear colours.
        let colours = flat.vertices.iter().flat_map(|&i| {
            let [r, g, b] = mesh.colours[i as usize].map(linear);
            [r, g, b, 255]
        });
        let colours: Vec<u8> = colours.collect();
        let colours = parts.accessor(
            &colours,
            ARRAY,
            json!({"componentType": UBYTE, "normalized": true, "count": count, "type": "VEC4"}),
        );
        attributes["COLOR_0"] = json!(colours);
    }
    attributes
}

/// Converts a byte of sRGB to one of linear light.
fn linear(byte: u8) -> u8 {
    let v = f32::from(byte) / 255.0;
    let v = if v <= 0.04045 {
        v / 12.92
    } else {
        ((v + 0.055) / 1.055).powf(2.4)
    };
    (v * 255.0).round() as u8
}

fn file(root: &Value, binary: &[u8]) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec(root)
        .map_err(|e| Error::internal(format!("the description of the mesh: {e}")))?;
    while !text.len().is_multiple_of(4) {
        text.push(b' ');
    }
    let total = 12 + 8 + text.len() + 8 + binary.len();
    if total > MOST_BYTES {
        return Err(Error::unsupported("the mesh is too large for a .glb file")
            .hint("write a .ply file, or fewer triangles: --triangles"));
    }
    let mut bytes = Vec::with_capacity(total);
    bytes.extend(b"glTF");
    for number in [2, total as u32, text.len() as u32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"JSON");
    bytes.extend(&text);
    bytes.extend((binary.len() as u32).to_le_bytes());
    bytes.extend(b"BIN\0");
    bytes.extend(binary);
    Ok(bytes)
}
