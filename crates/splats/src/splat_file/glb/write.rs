//! Writes splats to a GLB file.

use super::{BIN_CHUNK, EXTENSION, FLOAT, JSON_CHUNK, MAGIC, POINTS, coefficient, signs};
use crate::splat_file::WriteOptions;
use crate::splat_file::extras::extras;
use crate::splat_file::packed::{alpha, unit};
use crate::splat_file::watch::Watch;
use crate::{Error, Progress, Result, Splats};
use rayon::prelude::*;
use serde_json::{Value, json};

/// Size in bytes from which packing reports progress, and rows that are packed between two reports.
const TOLD_BYTES: usize = 64 << 20;
const ROWS_AT_ONCE: usize = 1 << 14;

/// Attributes during encoding.
struct Attributes<'a> {
    watch: Watch<'a>,
    bin: Vec<u8>,
    views: Vec<Value>,
    accessors: Vec<Value>,
    names: serde_json::Map<String, Value>,
}

impl Attributes<'_> {
    /// Adds an attribute of `[N, width]` floats; zeros if the operation was stopped.
    fn add<const WIDTH: usize>(
        &mut self,
        name: &str,
        count: usize,
        bounds: Option<[[f32; 3]; 2]>,
        row: impl Fn(usize) -> [f32; WIDTH] + Sync,
    ) {
        let offset = self.bin.len();
        self.bin.resize(offset + 4 * WIDTH * count, 0);
        self.bin[offset..]
            .par_chunks_mut(4 * WIDTH * ROWS_AT_ONCE)
            .enumerate()
            .filter(|_| !self.watch.should_stop())
            .for_each(|(part, to)| {
                for (i, to) in to.chunks_exact_mut(4 * WIDTH).enumerate() {
                    let row = row(part * ROWS_AT_ONCE + i);
                    for (to, value) in to.as_chunks_mut::<4>().0.iter_mut().zip(row) {
                        *to = value.to_le_bytes();
                    }
                }
                self.watch.advance(to.len());
            });
        let kind = ["SCALAR", "VEC2", "VEC3", "VEC4"][WIDTH - 1];
        let mut accessor = json!({
            "bufferView": self.views.len(), "componentType": FLOAT, "count": count, "type": kind,
        });
        if let Some([low, high]) = bounds {
            accessor["min"] = json!(low);
            accessor["max"] = json!(high);
        }
        self.names
            .insert(name.to_owned(), json!(self.accessors.len()));
        self.accessors.push(accessor);
        self.views.push(
            json!({ "buffer": 0, "byteOffset": offset, "byteLength": self.bin.len() - offset }),
        );
    }
}

pub(in crate::splat_file) fn encode(
    splats: &Splats,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<Vec<u8>> {
    let (count, signs) = (splats.len(), signs());
    let mean = |i: usize| [0, 1, 2].map(|k| splats.means[i][k] * signs.mean[k]);
    let start = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
    let bounds = (0..count).map(mean).fold(start, |[low, high], m| {
        [
            [0, 1, 2].map(|k: usize| low[k].min(m[k])),
            [0, 1, 2].map(|k| high[k].max(m[k])),
        ]
    });
    // Mean, rotation, scale, opacity and colour, and the harmonics of a Gaussian.
    let all = 4 * count * (14 + splats.sh_rest_stride());
    let mut attributes = Attributes {
        watch: Watch::start(progress, "packing splats", all, TOLD_BYTES),
        bin: Vec::with_capacity(all),
        views: Vec::new(),
        accessors: Vec::new(),
        names: serde_json::Map::new(),
    };
    attributes.add("POSITION", count, Some(bounds), mean);
    attributes.add(&format!("{EXTENSION}:ROTATION"), count, None, |i| {
        let [w, x, y, z] = unit(splats.quats[i]);
        let [sx, sy, sz] = signs.quat;
        [x * sx, y * sy, z * sz, w]
    });
    attributes.add(&format!("{EXTENSION}:SCALE"), count, None, |i| {
        splats.scales[i].map(f32::exp)
    });
    attributes.add(&format!("{EXTENSION}:OPACITY"), count, None, |i| {
        [alpha(splats.opacities[i])]
    });
    attributes.add(&coefficient(0, 0), count, None, |i| splats.sh0[i]);
    let stride = splats.sh_rest_stride();
    for degree in 1..=usize::from(splats.sh_degree) {
        for n in 0..2 * degree + 1 {
            let k = degree * degree - 1 + n;
            attributes.add(&coefficient(degree, n), count, None, |i| {
                [0, 1, 2].map(|channel| splats.sh_rest[i * stride + 3 * k + channel] * signs.sh[k])
            });
        }
    }
    attributes.watch.check()?;
    let bin = attributes.bin;
    let mut asset = json!({
        "version": "2.0",
        "generator": format!("Dapple {}", env!("CARGO_PKG_VERSION")),
    });
    if let Some(extras) = extras(options) {
        asset["extras"] = extras;
    }
    let json = json!({
        "asset": asset,
        "extensionsUsed": [EXTENSION],
        "scene": 0,
        "scenes": [{ "nodes": [0] }],
        "nodes": [{ "mesh": 0 }],
        "meshes": [{ "primitives": [{
            "mode": POINTS,
            "attributes": attributes.names,
            "extensions": { EXTENSION: {
                "kernel": "ellipse",
                "colorSpace": "srgb_rec709_display",
                "projection": "perspective",
                "sortingMethod": "cameraDistance",
            } },
        }] }],
        "buffers": [{ "byteLength": bin.len() }],
        "bufferViews": attributes.views,
        "accessors": attributes.accessors,
    });
    let json = serde_json::to_vec(&json)
        .map_err(|e| Error::internal("the JSON of a glTF file cannot be written").caused_by(e))?;
    container(json, bin)
}

/// Builds the file of both chunks.
fn container(mut json: Vec<u8>, mut bin: Vec<u8>) -> Result<Vec<u8>> {
    json.resize(json.len().next_multiple_of(4), b' ');
    bin.resize(bin.len().next_multiple_of(4), 0);
    let all = 12 + 8 + json.len() + 8 + bin.len();
    let size = u32::try_from(all).map_err(|_| {
        Error::unsupported(format!(
            "a .glb file holds no more than 4 GiB, and this were {all} bytes"
        ))
    })?;
    let mut out = Vec::with_capacity(all);
    out.extend(MAGIC);
    out.extend(
        [2, size, json.len() as u32, JSON_CHUNK]
            .iter()
            .flat_map(|w: &u32| w.to_le_bytes()),
    );
    out.extend(json);
    out.extend(
        [bin.len() as u32, BIN_CHUNK]
            .iter()
            .flat_map(|w| w.to_le_bytes()),
    );
    out.extend(bin);
    Ok(out)
}
