//! [`DispatchList`]: a render of this engine as a dispatch list that a page runs with WebGPU, without this program.
//!
//! 1. The passes of a render ([`Plan::Front`], [`Plan::Shown`]) are listed in the order in which the engine records
//!    them, in the permutation of a device that promises no more than WebGPU's default limits.
//! 2. For each dispatch: its WGSL, its bindings by name, and the number of its workgroups. A kernel that binds more
//!    than 8 storage buffers gets joined buffers, as in the engine ([`dapple_runtime::join`]).
//! 3. For each buffer: the axis that gives its number of items, and the size of an item. The page computes the sizes,
//!    from the Gaussians and the picture.
//!
//! The page's part is `page/export/webgpu.js` of the viewer: it makes buffers, writes the camera, runs the list, and
//! grows buffers that were too small, like the engine.

use crate::catalogue;
use crate::layout::{self, State, Step, View};
use crate::passes::{Bits, BufferSizes, Capacity, Code, Entry, Pass, Tensor, Words};
use crate::plans::Plan;
use crate::precision::{Precision, Storage};
use crate::recorder::Sort;
use crate::stages::{emit, order, project, sort};
use dapple_runtime::join::{self, JOINED_AT, Joins};
use dapple_runtime::{Defines, ShaderSet, bindings_of, primitives, without_immediates};
use dapple_scene::{Error, Result};
use serde::Serialize;
use std::mem::offset_of;

/// Bits of a tile number: pictures of up to 16 megapixels.
const TILE_BITS: u32 = 16;

/// A page's harmonics are whole multiples of 1/128: half floats hold them exactly.
const PRECISION: Precision = Precision {
    sh: Storage::F16,
    moments: Storage::F32,
};

/// Sizes that decide which buffers are joined: about a million Gaussians on two megapixels.
const USUAL: Capacity = Capacity {
    gaussians: 1 << 20,
    visible: 1 << 19,
    instances: 4 << 20,
    buckets: 1 << 16,
    pixels: 2 << 20,
    tiles: 1 << 13,
};

/// Dispatch list of a render: all that a page needs.
#[derive(Debug, Clone, Serialize)]
pub struct DispatchList {
    /// WGSL texts.
    pub shaders: Vec<String>,
    /// Dispatches, in order.
    pub commands: Vec<Command>,
    /// Buffers that the commands bind.
    pub buffers: Vec<Sized>,
    /// Edge length of a tile, pixels.
    pub tile: u32,
    /// Instances of a bucket.
    pub bucket: u32,
    /// Gaussians of a workgroup.
    pub workgroup: u32,
    /// Pairs of a block of the sort.
    pub radix_block: u32,
    /// Words of the counts, and the places of the members that the page reads and writes.
    pub state: Places,
    /// Words of the numbers that change from picture to picture, and the places of the members that the page writes.
    pub step: Places,
    /// Words of a camera, and the places of the members that the page writes.
    pub view: Places,
    /// `state.halted` where the instances exceed their capacity.
    pub halt_instances: u32,
}

/// A struct: its words, and the first words of some of its members.
#[derive(Debug, Clone, Serialize)]
pub struct Places {
    /// Words of the whole struct.
    pub words: usize,
    /// Names of members, and their first words.
    pub at: Vec<(&'static str, usize)>,
}

/// A buffer and the rule for its size.
#[derive(Debug, Clone, Serialize)]
pub struct Sized {
    /// Name of the buffer.
    pub name: String,
    /// Axis that gives the number of items.
    pub axis: String,
    /// Words of an item.
    pub words: u32,
    /// Items in addition to those of the axis.
    pub spare: u64,
}

/// A dispatch.
#[derive(Debug, Clone, Serialize)]
pub struct Command {
    /// Shader and entry point, for messages.
    pub label: String,
    /// Index of its text in [`DispatchList::shaders`].
    pub shader: usize,
    /// Entry point.
    pub entry: &'static str,
    /// Bindings of the dispatch.
    pub bindings: Vec<BoundBuffer>,
    /// Workgroups of the dispatch.
    pub groups: Workgroups,
    /// Arrays that are copied into one buffer before the dispatch, and back after it.
    pub joined: Vec<Joined>,
    /// A separate uniform block, under the name `radix_pass`.
    pub constant: Option<[u32; 4]>,
}

/// A binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoundBuffer {
    /// Bind group.
    pub group: u32,
    /// Number of the binding.
    pub binding: u32,
    /// WebGPU's name of the kind of binding.
    pub kind: &'static str,
    /// The buffer, or `step`, `radix_pass`, `joined_at`, or a joined buffer.
    pub buffer: String,
}

/// Number of workgroups of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workgroups {
    /// A fixed number.
    Direct([u32; 3]),
    /// The number that the GPU has counted, at this byte of `groups`.
    Counted(u64),
    /// One for each group of this many tiles, and one more tile.
    Tiles(u32),
}

/// Arrays that are joined in one buffer.
#[derive(Debug, Clone, Serialize)]
pub struct Joined {
    /// Name of the joined buffer.
    pub name: String,
    /// Bytes of an item.
    pub item_bytes: u64,
    /// Buffers of the arrays; true if the kernel writes the array.
    pub members: Vec<(String, bool)>,
}

/// Returns the dispatch list for renders of splats with harmonics of this degree.
///
/// # Errors
/// Shaders that do not parse or bind too many buffers: a bug of this crate.
pub fn script(sh_degree: u8, antialias: bool) -> Result<DispatchList> {
    let bits = Bits::IMAGE_ONLY | Bits::BYTES | Bits::when(antialias, Bits::ANTIALIAS);
    let defines =
        primitives::portable_defines(crate::catalogue::defines()).flag("SMALL_WORKGROUPS", true);
    let mut writer = Writer {
        bits,
        defines: PRECISION.define(defines),
        set: catalogue::shaders(),
        sizes: BufferSizes {
            capacity: USUAL,
            precision: PRECISION,
            sh_degree,
            asked: bits,
        },
        shaders: Vec::new(),
        commands: Vec::new(),
        buffers: Vec::new(),
    };
    let plans = [Plan::Front, Plan::Shown];
    for pass in plans.iter().flat_map(|plan| plan.passes()) {
        if pass.is_part_of(bits) {
            writer.pass(pass)?;
        }
    }
    let view = |name, at: usize| (name, at / 4);
    Ok(DispatchList {
        shaders: writer.shaders,
        commands: writer.commands,
        buffers: writer.buffers,
        tile: dapple_engine::constants::TILE_SIZE,
        bucket: layout::BUCKET,
        workgroup: layout::WORKGROUP,
        radix_block: primitives::portable_radix_block(),
        state: Places {
            words: size_of::<State>() / 4,
            at: vec![
                view("gaussians", offset_of!(State, gaussians)),
                view("capacity", offset_of!(State, capacity)),
                view("visible_capacity", offset_of!(State, visible_capacity)),
                view("instance_capacity", offset_of!(State, instance_capacity)),
                view("bucket_capacity", offset_of!(State, bucket_capacity)),
                view("halted", offset_of!(State, halted)),
                view("wanted", offset_of!(State, wanted)),
            ],
        },
        step: Places {
            words: size_of::<Step>() / 4,
            at: vec![
                view("sh_degree", offset_of!(Step, sh_degree)),
                view("background", offset_of!(Step, background)),
                view("near", offset_of!(Step, near)),
            ],
        },
        view: Places {
            words: size_of::<View>() / 4,
            at: vec![
                view("rows", offset_of!(View, rows)),
                view("centre", offset_of!(View, centre)),
                view("focal", offset_of!(View, focal)),
                view("principal", offset_of!(View, principal)),
                view("jacobian_min", offset_of!(View, jacobian_min)),
                view("jacobian_max", offset_of!(View, jacobian_max)),
                view("size", offset_of!(View, size)),
                view("tiles", offset_of!(View, tiles)),
            ],
        },
        halt_instances: layout::HALT_INSTANCES,
    })
}

/// Parts of the list while it is built.
struct Writer {
    bits: Bits,
    defines: Defines,
    set: ShaderSet,
    sizes: BufferSizes,
    shaders: Vec<String>,
    commands: Vec<Command>,
    buffers: Vec<Sized>,
}

/// A dispatch before its shader is known.
struct Wanted<'a> {
    code: Code,
    defines: Defines,
    groups: Workgroups,
    /// Buffers of bindings whose names differ from the buffers'.
    names: &'a [(&'static str, &'static str)],
    constant: Option<[u32; 4]>,
}

impl Writer {
    /// Lists a pass's kernels in the order of their declaration, which is their order of execution; then its sorts.
    fn pass(&mut self, pass: &Pass) -> Result<()> {
        for code in pass.kernels {
            self.command(&Wanted {
                code: *code,
                defines: (self.bits & code.bits).define(self.defines.clone()),
                groups: workgroups(code)?,
                names: pass.borrows,
                constant: None,
            })?;
        }
        match pass.name {
            "order" => self.sort(&order::SORT),
            "sort" => self.sort(&sort::by_tile(TILE_BITS)),
            _ => Ok(()),
        }
    }

    /// Lists the dispatches of a sort, in the order in which `RadixSort` appends them.
    fn sort(&mut self, sort: &Sort) -> Result<()> {
        let (mut from, mut to) = ((sort.keys, sort.values), (sort.keys_alt, sort.values_alt));
        let counted = counted(sort.size)?;
        let mut shift = 0;
        for bits in primitives::radix_digits(sort.bits) {
            let names = [
                ("radix_count", sort.count.0),
                ("radix_keys", from.0),
                ("radix_values", from.1),
                ("radix_keys_out", to.0),
                ("radix_values_out", to.1),
            ];
            let digits = Workgroups::Direct([1 << bits, 1, 1]);
            for (entry, groups) in [
                ("histogram", counted),
                ("digits", digits),
                ("scatter", counted),
            ] {
                let numbers = sort.numbered && shift == 0 && entry == "scatter";
                let defines = self.defines.clone().u32("RADIX_BITS", bits);
                self.command(&Wanted {
                    code: Code::new("radix", entry),
                    defines: defines.flag("IOTA", numbers),
                    groups,
                    names: &names,
                    constant: Some([shift, sort.count.1, 0, 0]),
                })?;
            }
            (from, to) = (to, from);
            shift += bits;
        }
        Ok(())
    }

    fn command(&mut self, wanted: &Wanted<'_>) -> Result<()> {
        let Code { shader, entry, .. } = wanted.code;
        let label = format!("{shader}.{entry}");
        let wgsl = self.set.compose(shader, &wanted.defines)?;
        let tensor_of = |binding: &str| {
            let mut given = wanted.names.iter();
            let named = given.find(|(name, _)| *name == binding);
            named.map_or(binding, |(_, tensor)| tensor).to_owned()
        };
        let bytes_of = |name: &str| {
            let tensor = catalogue::tensors().find(|tensor| tensor.name == tensor_of(name));
            tensor
                .and_then(|tensor| tensor.bytes(&self.sizes))
                .unwrap_or(256)
        };
        let stored = join::storage_bindings(&wgsl, entry)?;
        let most = layout::LEAST_STORAGE_BUFFERS as usize;
        let joins = Joins::choose(&stored, bytes_of, most).map_err(|e| e.at(label.clone()))?;
        let text = plain(&without_immediates(&joins.apply(&wgsl)));
        let groups = joins.groups.iter().map(|group| Joined {
            name: group.name.clone(),
            item_bytes: group.item_bytes(),
            members: group
                .members
                .iter()
                .enumerate()
                .map(|(number, member)| (tensor_of(member), group.writes(number)))
                .collect(),
        });
        let joined: Vec<Joined> = groups.collect();
        let mut bindings = Vec::new();
        for binding in bindings_of(&text, entry)? {
            let kind = match (binding.is_uniform, binding.writes) {
                (true, _) => "uniform",
                (false, true) => "storage",
                (false, false) => "read-only-storage",
            };
            let own = [JOINED_AT, "step", "radix_pass"].contains(&binding.name.as_str());
            let own = own || joined.iter().any(|one| one.name == binding.name);
            let buffer = match own {
                true => binding.name,
                false => tensor_of(&binding.name),
            };
            if !own {
                self.need(&buffer)?;
            }
            bindings.push(BoundBuffer {
                group: binding.group,
                binding: binding.binding,
                kind,
                buffer,
            });
        }
        for (member, _) in joined.iter().flat_map(|one| &one.members) {
            self.need(member)?;
        }
        let known = self.shaders.iter().position(|shader| *shader == text);
        let shader = known.unwrap_or(self.shaders.len());
        if known.is_none() {
            self.shaders.push(text);
        }
        self.commands.push(Command {
            label,
            shader,
            entry,
            bindings,
            groups: wanted.groups,
            joined,
            constant: wanted.constant,
        });
        Ok(())
    }

    /// Lists a buffer.
    fn need(&mut self, name: &str) -> Result<()> {
        if self.buffers.iter().any(|buffer| buffer.name == name) {
            return Ok(());
        }
        let sized = if name == "radix_scratch" {
            // See `RadixSort::scratch_words`.
            Sized {
                name: name.to_owned(),
                axis: "SortBlock".to_owned(),
                words: 256,
                spare: 1,
            }
        } else {
            let tensor = catalogue::tensors().find(|tensor| tensor.name == name);
            let tensor =
                tensor.ok_or_else(|| Error::internal(format!("no pass declares \"{name}\"")))?;
            sized(tensor, &self.sizes)
        };
        self.buffers.push(sized);
        Ok(())
    }
}

fn sized(tensor: &Tensor, sizes: &BufferSizes) -> Sized {
    let words = match tensor.words {
        // Words of the single camera.
        Words::Each(0) => (size_of::<View>() / 4) as u32,
        _ => tensor.words(sizes),
    };
    Sized {
        name: tensor.name.to_owned(),
        axis: format!("{:?}", tensor.axis),
        words,
        spare: tensor.spare,
    }
}

/// Returns the workgroups of a render's kernels, equal to those in the `record` functions of their stages. A page with
/// other numbers shows another picture than the engine; the test of `dapple export` detects this.
fn workgroups(code: &Code) -> Result<Workgroups> {
    match (code.shader, code.entry) {
        ("begin", "begin") | ("order", "count") | ("emit", "total") => {
            Ok(Workgroups::Direct([1, 1, 1]))
        }
        ("project", "project") | ("order", "compact") => counted(project::GAUSSIANS),
        ("emit", "sums" | "starts") => counted(order::VISIBLE),
        ("emit", "list") | ("ranges", "gather") => counted(emit::EMIT),
        ("ranges", "buckets") => Ok(Workgroups::Tiles(layout::WORKGROUP)),
        ("blend", "blend") | ("bytes", "bytes") => counted(project::PIXELS),
        (shader, entry) => Err(Error::internal(format!(
            "the page has no workgroup count for {shader}.{entry}"
        ))),
    }
}

/// Returns the workgroups that the GPU has counted in an entry.
fn counted(entry: Entry) -> Result<Workgroups> {
    let entries = &catalogue::declared().entries;
    Ok(Workgroups::Counted(entries.offset(entry)?))
}

/// Returns WGSL without comments and indentation.
fn plain(wgsl: &str) -> String {
    let lines = wgsl
        .lines()
        .map(|line| line.split("//").next().unwrap_or("").trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_page_gets_what_webgpu_promises_everywhere_and_no_more() {
        for (degree, antialias) in [(0, false), (3, false), (3, true)] {
            let script = script(degree, antialias).unwrap();
            for command in &script.commands {
                let kinds = command.bindings.iter().map(|bound| bound.kind);
                let stored = kinds
                    .clone()
                    .filter(|kind| kind.ends_with("storage"))
                    .count();
                assert!(stored <= 8, "{} binds {stored}", command.label);
                assert!(kinds.filter(|kind| *kind == "uniform").count() <= 12);
                let text = &script.shaders[command.shader];
                assert!(!text.contains("subgroup") && !text.contains("immediate"));
            }
            let bytes: usize = script.shaders.iter().map(String::len).sum();
            println!("{degree}: {} texts of {bytes} bytes", script.shaders.len());
            assert!(bytes < 200_000, "{bytes}");
            let smooths = script
                .buffers
                .iter()
                .any(|buffer| buffer.name == "filter_3d");
            assert_eq!(smooths, antialias);
        }
    }
}
