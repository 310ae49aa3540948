//! Reads splats from a glTF file.

use super::accessors::Accessors;
use super::buffers::Buffers;
use super::container::Chunks;
use super::json::Gltf;
use super::nodes::{Instance, instances};
use super::place::{Change, place};
use super::primitive::{self, Part, holds_splats, promised};
use super::{EXTENSION, colour, refuse};
use crate::order::append;
use crate::splat_file::files::Files;
use crate::splat_file::packed::{linear_scale, logit};
use crate::splat_file::{ReadOptions, SplatMetadata, extras};
use crate::{Error, Result, Splats};
use dapple_base::quantiles;
use std::collections::BTreeMap;

/// Bytes of a Gaussian in memory, and maximum growth of a byte of a file, as in packed formats: one mesh may be shown
/// in many places.
const GAUSSIAN_BYTES: usize = 236;
const MOST_RATIO: usize = 4800;

/// Tolerance for numbers that rounding moves out of their range.
const ROUNDING: f32 = 1e-3;

/// Reads a file whose folder is not known.
pub(in crate::splat_file) fn parse(
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<(Splats, SplatMetadata)> {
    read(bytes, None, options)
}

/// Reads a file, and the files next to it.
pub(in crate::splat_file) fn parse_beside(
    bytes: &[u8],
    files: &dyn Files,
    options: &ReadOptions,
) -> Result<(Splats, SplatMetadata)> {
    read(bytes, Some(files), options)
}

fn read(
    bytes: &[u8],
    files: Option<&dyn Files>,
    options: &ReadOptions,
) -> Result<(Splats, SplatMetadata)> {
    let chunks = Chunks::find(bytes)?;
    let gltf = Gltf::parse(chunks.json, chunks.json_at)?;
    let buffers = Buffers::new(&gltf, chunks.numbers, files);
    let file = File {
        gltf: &gltf,
        accessors: Accessors::new(&gltf, buffers, options.keeps_non_finite()),
        options,
        bytes: bytes.len(),
    };
    let mut metadata = SplatMetadata {
        moved: extras::moved(&gltf.asset.extras),
        ..SplatMetadata::default()
    };
    let splats = file.splats(&mut metadata.notes)?;
    metadata.notes.extend(file.accessors.notes());
    metadata.notes.extend(chunks.notes);
    Ok((splats, metadata))
}

struct File<'a> {
    gltf: &'a Gltf,
    accessors: Accessors<'a>,
    options: &'a ReadOptions,
    bytes: usize,
}

/// Splats of meshes, by the meshes' numbers.
type Meshes = BTreeMap<usize, Vec<Part>>;

impl File<'_> {
    fn splats(&self, notes: &mut Vec<String>) -> Result<Splats> {
        let gltf = self.gltf;
        let holds = |mesh: usize| {
            let mesh = gltf.meshes.get(mesh);
            mesh.is_some_and(|mesh| mesh.primitives.iter().any(holds_splats))
        };
        if !(0..gltf.meshes.len()).any(holds) {
            return Err(Error::unsupported(format!(
                "the glTF file has no primitive with {EXTENSION}"
            ))
            .at("its JSON")
            .hint("it holds meshes or points, not splats: export splats as .ply, .spz or .sog"));
        }
        let mut shown: Vec<Instance> = instances(gltf)?;
        if let Some(bad) = shown.iter().find(|s| s.mesh >= gltf.meshes.len()) {
            return refuse(
                format!(
                    "node {} of the glTF file has mesh {}, which there is not",
                    bad.node, bad.mesh
                ),
                "nodes",
            );
        }
        shown.retain(|instance| holds(instance.mesh));
        self.note_what_is_not_read(&shown, holds, notes);
        if shown.is_empty() {
            notes.push(
                "no node of the scene shows the splats: they are read where they are".to_owned(),
            );
            shown = (0..gltf.meshes.len())
                .filter(|&mesh| holds(mesh))
                .map(|mesh| Instance {
                    mesh,
                    node: usize::MAX,
                    world: glam::DMat4::IDENTITY,
                })
                .collect();
        }
        let mut meshes = self.meshes(&shown)?;
        settle(&mut meshes, notes);
        self.placed(meshes, &shown, notes)
    }

    /// Adds notes on the file's other content.
    fn note_what_is_not_read(
        &self,
        shown: &[Instance],
        holds: impl Fn(usize) -> bool,
        notes: &mut Vec<String>,
    ) {
        let gltf = self.gltf;
        let is_shown = |mesh: usize| shown.iter().any(|s| s.mesh == mesh);
        let hidden = (0..gltf.meshes.len().min(1000)).filter(|&m| holds(m) && !is_shown(m));
        let hidden = hidden.count();
        if hidden > 0 && !shown.is_empty() {
            notes.push(format!(
                "{hidden} meshes of splats are in no node of the scene that is shown, unread"
            ));
        }
        let primitives = gltf.meshes.iter().flat_map(|mesh| &mesh.primitives);
        let others = primitives
            .filter(|primitive| !holds_splats(primitive))
            .count();
        if others > 0 {
            notes.push(format!(
                "{others} primitives of the glTF file hold no splats: meshes and points are skipped"
            ));
        }
        if !gltf.animations.is_empty() {
            notes.push("animations are not played: nodes are where they are at rest".to_owned());
        }
        for instance in shown {
            let node = &gltf.nodes[instance.node];
            let moved = node
                .extensions
                .keys()
                .find(|name| name.contains("instancing"));
            let moved = moved.map(String::as_str);
            if let Some(what) = moved.or(node.skin.map(|_| "a skin")) {
                notes.push(format!(
                    "node {} shows its splats by {what}, which is ignored",
                    instance.node
                ));
            }
        }
    }

    /// Reads each visible mesh once. Before that, compares the memory of all instances with the file's size.
    fn meshes(&self, shown: &[Instance]) -> Result<Meshes> {
        let mut meshes = Meshes::new();
        let (mut total, mut read) = (0usize, 0usize);
        let spend = |count: usize, sum: &mut usize| {
            *sum = sum.saturating_add(count);
            let bytes = self.bytes.max(self.accessors.buffers.all_bytes());
            if sum.saturating_mul(GAUSSIAN_BYTES) > MOST_RATIO.saturating_mul(bytes) {
                let what = format!(
                    "the glTF file shows {sum} Gaussians, one mesh in many places, which {bytes} bytes are too few for"
                );
                return Err(Error::unsupported(what)
                    .at("nodes")
                    .hint("export it with fewer instances"));
            }
            Ok(())
        };
        for instance in shown {
            if !meshes.contains_key(&instance.mesh) {
                let mut parts = Vec::new();
                for (p, primitive) in self.gltf.meshes[instance.mesh]
                    .primitives
                    .iter()
                    .enumerate()
                {
                    if !holds_splats(primitive) {
                        continue;
                    }
                    let at = format!("mesh {}, primitive {p}", instance.mesh);
                    // Several primitives may declare the same numbers; a single declaration is refused at its reading.
                    if !parts.is_empty() || !meshes.is_empty() {
                        spend(promised(primitive, &self.accessors), &mut read)?;
                    }
                    parts.push(primitive::read(
                        primitive,
                        &self.accessors,
                        self.options,
                        &at,
                    )?);
                }
                meshes.insert(instance.mesh, parts);
            }
            let parts = meshes.get(&instance.mesh).into_iter().flatten();
            spend(parts.map(|part| part.splats.len()).sum(), &mut total)?;
        }
        Ok(meshes)
    }

    /// Places the instances of meshes, one after the other.
    fn placed(
        &self,
        mut meshes: Meshes,
        shown: &[Instance],
        notes: &mut Vec<String>,
    ) -> Result<Splats> {
        let mut left: BTreeMap<usize, usize> = BTreeMap::new();
        for instance in shown {
            *left.entry(instance.mesh).or_default() += 1;
        }
        let mut splats = Splats::empty(0);
        for instance in shown {
            let remaining = left.entry(instance.mesh).or_default();
            *remaining -= 1;
            // The last instance needs no copy.
            let parts: Vec<Splats> = match (*remaining, meshes.get_mut(&instance.mesh)) {
                (0, Some(parts)) => parts.drain(..).map(|part| part.splats).collect(),
                (_, Some(parts)) => parts.iter().map(|part| part.splats.clone()).collect(),
                (_, None) => Vec::new(),
            };
            for mut part in parts {
                let node = instance.node;
                match place(&mut part, &instance.world) {
                    Change::Similar => {}
                    Change::Stretched => notes.push(format!(
                        "node {node} stretches its splats: their sizes and rotations follow it, harmonics by the \
                         nearest rotation"
                    )),
                    Change::Mirrored => notes.push(format!(
                        "node {node} mirrors its splats, for which glTF gives no rule: they are mirrored with it"
                    )),
                    Change::Nothing => {
                        notes.push(format!(
                            "node {node} has a scale of 0: its splats are dropped"
                        ));
                        continue;
                    }
                }
                append(&mut splats, part);
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        notes.extend(coarse(&splats));
        Ok(splats)
    }
}

/// Decides the encoding of scales and opacities for all meshes together, and converts them to logarithms and logits.
fn settle(meshes: &mut Meshes, notes: &mut Vec<String>) {
    let mut parts: Vec<&mut Part> = meshes.values_mut().flatten().collect();
    let is_below = |v: &f32| v.is_finite() && *v < -1e-6;
    let is_beyond = |v: &f32| v.is_finite() && !(-ROUNDING..=1.0 + ROUNDING).contains(v);
    let plain = || parts.iter().filter(|part| !part.is_known);
    let are_logarithms = plain().any(|part| part.splats.scales.iter().flatten().any(is_below));
    let are_logits = plain().any(|part| part.splats.opacities.iter().any(is_beyond));
    if are_logarithms {
        notes.push(
            "SCALE has numbers below 0, which no length is: all are read as logarithms, as drafts of the extension \
             had them"
                .to_owned(),
        );
    }
    if are_logits {
        notes.push("OPACITY has numbers beyond 0 and 1: all are read as logits".to_owned());
    }
    let is_linear = parts.iter().any(|part| part.is_linear);
    for part in &mut parts {
        notes.append(&mut part.notes);
        if !part.is_known {
            let Splats {
                scales, opacities, ..
            } = &mut part.splats;
            if !are_logarithms {
                scales.iter_mut().for_each(|s| *s = s.map(linear_scale));
            }
            if !are_logits {
                opacities.iter_mut().for_each(|o| *o = logit(*o));
            }
        }
        if part.is_linear {
            colour::to_display(&mut part.splats);
        }
    }
    if is_linear {
        notes.push(
            "colours are linear: each Gaussian's becomes that of a display, but where several blend the picture \
             differs a little"
                .to_owned(),
        );
    }
}

/// Returns a note if floats are too coarse for the positions of the nodes.
fn coarse(splats: &Splats) -> Option<String> {
    let far = splats
        .means
        .iter()
        .flatten()
        .fold(0.0f32, |far, v| far.max(v.abs()));
    let step = far * f32::EPSILON;
    let longest = |s: &[f32; 3]| s.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let median = quantiles::median(splats.scales.iter().map(longest).collect())?;
    if !far.is_finite() {
        return None;
    }
    (step > 0.2 * median.exp()).then(|| {
        format!(
            "the splats are up to {far:.0} units from the origin, where positions are {step:.2} apart, and half of \
             them are smaller than {:.2}: move them to the origin before export",
            median.exp()
        )
    })
}
