//! Every shader, in every permutation that the engine can request, is valid within the limits of any device, and has a
//! translation for Vulkan, Metal and DX12. No device is needed.
//!
//! 1. Shaders are listed from disk, so that all are covered; each must be in the engine's set.
//! 2. Each is composed once for every combination of the [`axes`] that its text (with imports) names, with the
//!    [`precisions`] in turn. A flag without an axis is a failure.
//! 3. Each is translated. Subgroup operations and packing of `f16` are granted only where the permutation needs them.
//!    Each entry point must be within the limits of the smallest device.
//! 4. Shaders without subgroups are translated once more for a device with WebGPU's default limits: with joined
//!    bindings, and within those limits.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::{AppearanceSettings, CameraModel};
use dapple_gpu::features::appearance;
use dapple_gpu::passes::Bits;
use dapple_gpu::{Precision, Storage, catalogue, layout, nearest};
use dapple_runtime::join::{self, Joins};
use dapple_runtime::{Defines, EntryNeeds, ShaderFeatures, ShaderSet, primitives, translate_with};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Least storage buffers of a supported device: `dapple_runtime` refuses devices with fewer.
const STORAGE_BUFFERS: u32 = 16;
/// Storage buffers within WebGPU's default limits, where bindings are joined.
const LEAST_STORAGE_BUFFERS: usize = 8;
const LEAST_WORKGROUP_BYTES: u32 = 16 << 10;
/// The limit of Apple's GPUs and Mesa's software renderer.
const WORKGROUP_BYTES: u32 = 32 << 10;
/// WebGPU's default, and the least that devices are opened with.
const INVOCATIONS: u32 = 256;

/// One difference between permutations: the names of its flags and constants, and its settings.
struct Axis {
    names: &'static [&'static str],
    settings: Vec<Setting>,
}

struct Setting {
    label: String,
    /// Features that a device needs for it.
    needs: ShaderFeatures,
    apply: Box<dyn Fn(Defines) -> Defines>,
}

const NOTHING: ShaderFeatures = ShaderFeatures {
    subgroups: false,
    packs_f16: false,
};

/// Features with which joined bindings are translated: the other translation checks whether a permutation packs.
const NOTHING_BUT_F16: ShaderFeatures = ShaderFeatures {
    packs_f16: true,
    ..NOTHING
};

/// Labels of settings, the features that a device needs for them, and the definitions.
type Permutation = (String, ShaderFeatures, Defines);

impl Setting {
    /// Returns a permutation with this setting.
    fn of(&self, (label, needs, defines): &Permutation) -> Permutation {
        let needs = ShaderFeatures {
            subgroups: needs.subgroups || self.needs.subgroups,
            packs_f16: needs.packs_f16 || self.needs.packs_f16,
        };
        let label = format!("{label} [{}]", self.label);
        (label, needs, (self.apply)(defines.clone()))
    }
}

fn setting(label: impl Into<String>, apply: impl Fn(Defines) -> Defines + 'static) -> Setting {
    Setting {
        label: label.into(),
        needs: NOTHING,
        apply: Box::new(apply),
    }
}

fn switch(names: &'static [&'static str]) -> Axis {
    let name = names[0];
    Axis {
        names,
        settings: vec![
            setting("", |d| d),
            setting(name, move |d| d.flag(name, true)),
        ],
    }
}

/// Sets the same definitions as `primitives::defines`, for any device. 0 lanes = no subgroup operations.
fn lanes(defines: Defines, lanes: u32) -> Defines {
    let size = if lanes == 0 { 32 } else { lanes };
    let threads = if lanes == 0 { 128 } else { (8 * size).min(256) };
    let few = lanes > 0 && threads < 256;
    defines
        .flag("SUBGROUPS", lanes > 0)
        .flag("WIDE_SUBGROUPS", size > 32)
        .u32("SUBGROUP_SIZE", size)
        .u32("SCAN_BLOCK", primitives::SCAN_BLOCK)
        .u32("RADIX_BLOCK", threads * if few { 16 } else { 8 })
        .u32("RADIX_THREADS", threads)
}

/// Returns the flags of shaders of these camera models; all, with that of a pinhole, of all bits.
fn camera_flags(bits: Bits) -> Vec<&'static str> {
    let named = Bits::ALL.iter().filter(|(bit, _)| bits.has(*bit));
    let pinhole = (bits == Bits::NONE || bits == Bits::CAMERA).then_some("PINHOLE");
    named.map(|(_, name)| *name).chain(pinhole).collect()
}

/// Returns all axes of the engine's permutations.
fn axes() -> Vec<Axis> {
    let subgroups = [0, 8, 16, 32, 64].map(|size| Setting {
        needs: ShaderFeatures {
            subgroups: size > 0,
            ..NOTHING
        },
        ..setting(format!("{size} lanes"), move |d| lanes(d, size))
    });
    // Digits have 1 to 8 bits.
    let bits = [1, 4, 7, 8]
        .map(|bits| setting(format!("{bits} bits"), move |d| d.u32("RADIX_BITS", bits)));
    // A single cell, the largest grid, the default.
    let grids = [[1, 1, 1], [64, 64, 8], [16, 16, 8]].map(|cells| {
        let learnt = AppearanceSettings {
            cells,
            rate: 1e-3,
            smoothness: 10.0,
            identity: 0.1,
        };
        setting(format!("{cells:?}"), move |d| {
            appearance::define(d, &learnt)
        })
    });
    vec![
        Axis {
            names: &[
                "SUBGROUPS",
                "WIDE_SUBGROUPS",
                "SUBGROUP_SIZE",
                "SCAN_BLOCK",
                "RADIX_BLOCK",
                "RADIX_THREADS",
            ],
            settings: subgroups.into(),
        },
        Axis {
            names: &["RADIX_BITS"],
            settings: bits.into(),
        },
        switch(&["IOTA"]),
        switch(&["GATHER"]),
        switch(&["IMAGE_ONLY"]),
        switch(&["COUNTS"]),
        // No render has both.
        Axis {
            names: &["CHOSEN_TILES", "FRAMES"],
            settings: vec![
                setting("", |d| d),
                setting("CHOSEN_TILES", |d| d.flag("CHOSEN_TILES", true)),
                setting("FRAMES", |d| d.flag("FRAMES", true)),
            ],
        },
        switch(&["EXTRAS"]),
        Axis {
            names: &["BATCH", "SHARDED"],
            settings: vec![
                setting("", |d| d),
                setting("BATCH", |d| d.flag("BATCH", true)),
                setting("BATCH and SHARDED", |d| {
                    d.flag("BATCH", true).flag("SHARDED", true)
                }),
            ],
        },
        Axis {
            names: &["ABSOLUTE", "DEPTH", "EXTRA_SLOTS"],
            settings: vec![
                setting("", |d| d),
                setting("ABSOLUTE", |d| {
                    d.flag("ABSOLUTE", true).flag("EXTRA_SLOTS", true)
                }),
                setting("DEPTH", |d| d.flag("DEPTH", true).flag("EXTRA_SLOTS", true)),
                setting("ABSOLUTE and DEPTH", |d| {
                    let d = d.flag("ABSOLUTE", true).flag("DEPTH", true);
                    d.flag("EXTRA_SLOTS", true)
                }),
            ],
        },
        Axis {
            names: camera_flags(Bits::CAMERA).leak(),
            settings: CameraModel::all()
                .map(|model| {
                    let flags = camera_flags(Bits::of_camera(model));
                    let label = flags.join(" and ");
                    setting(label, move |d| {
                        flags.iter().fold(d, |d, name| d.flag(name, true))
                    })
                })
                .collect(),
        },
        // Both flags together: no shader reads a declaration of the other flag.
        Axis {
            names: &["MLP", "NORMALS"],
            settings: vec![
                setting("", |d| d),
                setting("MLP and NORMALS", |d| {
                    d.flag("MLP", true).flag("NORMALS", true)
                }),
            ],
        },
        switch(&["SMALL_WORKGROUPS"]),
        Axis {
            names: &["ANTIALIAS"],
            settings: vec![
                setting("", |d| d),
                setting("ANTIALIAS", |d| layout::antialias(d, true)),
            ],
        },
        Axis {
            names: &["GRID_X", "GRID_Y", "GRID_L", "GRID_SLICES", "LUMA_R"],
            settings: grids.into(),
        },
        Axis {
            names: &["PARTS", "PART"],
            settings: vec![
                setting("", |d| d),
                setting("PARTS", |d| d.flag("PARTS", true).u32("PART", 3)),
            ],
        },
    ]
}

/// Returns the axis of precisions. Combinations of all others take these in turn: the test would take two minutes with all
/// for each, and no other flag changes how a number is stored.
fn precisions() -> Axis {
    let storages = [Storage::F32, Storage::F16, Storage::Bf16];
    let precisions = storages
        .iter()
        .flat_map(|&sh| storages.map(|moments| (sh, moments)));
    let precisions = precisions.map(|(sh, moments)| {
        let precision = Precision { sh, moments };
        let label = format!("SH {sh}, moments {moments}");
        Setting {
            needs: ShaderFeatures {
                packs_f16: [sh, moments].contains(&Storage::F16),
                ..NOTHING
            },
            ..setting(label, move |d| precision.define(d))
        }
    });
    Axis {
        names: &[
            "MOMENT_SCALE",
            "SH_F16",
            "SH_BF16",
            "SH_PACKED",
            "MOMENTS_F16",
            "MOMENTS_BF16",
            "MOMENTS_PACKED",
        ],
        settings: precisions.collect(),
    }
}

/// Reads the text of every shader and shader include under `folder`, by name.
fn on_disk(folder: &Path, prefix: &str, texts: &mut BTreeMap<String, String>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() {
            on_disk(&path, &format!("{prefix}{stem}/"), texts);
        } else if path.extension().is_some_and(|e| e == "wgsl") {
            texts.insert(
                format!("{prefix}{stem}"),
                std::fs::read_to_string(&path).unwrap(),
            );
        }
    }
}

/// Returns the arguments of a directive in `text`.
fn arguments<'a>(text: &'a str, directive: &'a str) -> impl Iterator<Item = &'a str> {
    let argument = move |line: &'a str| {
        let rest = line.trim().strip_prefix(directive)?;
        rest.starts_with(' ').then(|| rest.trim())
    };
    text.lines().filter_map(argument)
}

/// Adds `name` and all its imports to `seen`.
fn reach<'a>(name: &'a str, texts: &'a BTreeMap<String, String>, seen: &mut BTreeSet<&'a str>) {
    if let Some(text) = texts.get(name)
        && seen.insert(name)
    {
        arguments(text, "#import").for_each(|import| reach(import, texts, seen));
    }
}

/// Returns the faults of shader `name`, and the number of permutations that were tried.
fn examine(set: &ShaderSet, texts: &BTreeMap<String, String>, name: &str) -> (Vec<String>, usize) {
    let (axes, precisions) = (axes(), precisions());
    let mut pieces = BTreeSet::new();
    reach(name, texts, &mut pieces);
    let all: String = pieces.iter().map(|piece| texts[*piece].as_str()).collect();
    let mut wrong = Vec::new();
    for flag in arguments(&all, "#if").map(|flag| flag.trim_start_matches('!')) {
        let mut known = axes.iter().chain([&precisions]);
        if !known.any(|axis| axis.names.contains(&flag)) {
            wrong.push(format!("{name}: this test does not know the flag {flag}"));
        }
    }
    let mut permutations = vec![(String::new(), NOTHING, catalogue::defines())];
    let is_named = |axis: &&Axis| axis.names.iter().any(|n| all.contains(n));
    for axis in axes.iter().filter(is_named) {
        let with = |from: Permutation| axis.settings.iter().map(move |setting| setting.of(&from));
        permutations = permutations.into_iter().flat_map(with).collect();
    }
    if is_named(&&precisions) {
        let turns = &precisions.settings;
        // At least one for each, and none is tied to a setting of another axis whose number divides theirs.
        let rounds = turns.len().div_ceil(permutations.len());
        let all = permutations
            .iter()
            .cycle()
            .take(rounds * permutations.len());
        let with =
            |(i, from): (usize, &Permutation)| turns[(i + i / turns.len()) % turns.len()].of(from);
        permutations = all.enumerate().map(with).collect();
    }
    let tried = permutations.len();
    for (label, grants, defines) in permutations {
        let translated = set.compose(name, &defines).and_then(|wgsl| {
            let translated = translate_with(&wgsl, grants)?;
            if !grants.subgroups && defines == in_browsers(&all, defines.clone()) {
                let beyond = translated
                    .entries
                    .iter()
                    .filter_map(|entry| joined(&wgsl, entry));
                wrong.extend(beyond.map(|what| format!("{name}{label}: {what}")));
            }
            Ok(translated)
        });
        match translated {
            Ok(t) if t.entries.is_empty() => wrong.push(format!("{name}{label}: no entry point")),
            Ok(t) => {
                let beyond = t.entries.iter().filter_map(exceeds);
                wrong.extend(beyond.map(|what| format!("{name}{label}: {what}")));
            }
            Err(e) => wrong.push(format!("{name}{label}: {e}")),
        }
    }
    (wrong, tried)
}

/// Returns the permutation that replaces this one on a device with WebGPU's default limits.
fn in_browsers(text: &str, defines: Defines) -> Defines {
    match text.contains("SMALL_WORKGROUPS") {
        true => defines.and(&Defines::new().flag("SMALL_WORKGROUPS", true)),
        false => defines,
    }
}

/// Returns the fault of an entry point within WebGPU's default limits. The sizes of tensors are such that all are
/// equally good to join.
fn joined(wgsl: &str, entry: &EntryNeeds) -> Option<String> {
    let examined = || {
        let bindings = join::storage_bindings(wgsl, &entry.name)?;
        let joins = Joins::choose(&bindings, |_| 1 << 10, LEAST_STORAGE_BUFFERS)?;
        let translated = translate_with(&joins.apply(wgsl), NOTHING_BUT_F16)?;
        let found = translated.entries.into_iter();
        Ok::<_, dapple_scene::Error>(found.filter(|found| found.name == entry.name).collect())
    };
    let entries: Vec<EntryNeeds> = match examined() {
        Ok(entries) => entries,
        Err(e) => return Some(format!("{}, joined: {e}", entry.name)),
    };
    let within = |entry: &EntryNeeds| {
        entry.storage_buffers as usize <= LEAST_STORAGE_BUFFERS
            && entry.workgroup_bytes <= LEAST_WORKGROUP_BYTES
    };
    let beyond = entries.iter().find(|entry| !within(entry))?;
    Some(format!("{beyond:?} is more than WebGPU's default limits"))
}

/// Returns the needs of an entry point that exceed the limits.
fn exceeds(entry: &EntryNeeds) -> Option<String> {
    let within = entry.storage_buffers <= STORAGE_BUFFERS
        && entry.workgroup_bytes <= WORKGROUP_BYTES
        && entry.invocations <= INVOCATIONS;
    (!within).then(|| format!("{entry:?} is more than every device has"))
}

#[test]
fn every_permutation_translates_for_every_backend() {
    let mut texts = BTreeMap::new();
    on_disk(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders"),
        "",
        &mut texts,
    );
    let sets = [catalogue::shaders(), nearest::shaders()];
    let set_of = |name: &str| {
        let mut sets = sets.iter();
        sets.find(|set| set.names().any(|known| known == name))
    };
    let missing: Vec<_> = texts.keys().filter(|name| set_of(name).is_none()).collect();
    assert!(missing.is_empty(), "in no set of shaders: {missing:?}");
    let names: Vec<String> = texts.keys().cloned().collect();
    let is_kernel = |name: &&String| !name.starts_with("shared/");
    let kernels: Vec<&String> = names.iter().filter(is_kernel).collect();
    // Shader includes of the runtime have flags too.
    let pieces = primitives::PIECES.into_iter();
    texts.extend(pieces.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let mut imported = BTreeSet::new();
    kernels
        .iter()
        .for_each(|name| reach(name, &texts, &mut imported));
    let unused: Vec<_> = names
        .iter()
        .filter(|n| !imported.contains(n.as_str()))
        .collect();
    assert!(unused.is_empty(), "no shader imports {unused:?}");
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for name in &kernels {
        let set = set_of(name).unwrap();
        let (found, permutations) = examine(set, &texts, name);
        wrong.extend(found);
        tried += permutations;
    }
    println!("{} shaders, {tried} permutations", kernels.len());
    assert!(
        wrong.is_empty(),
        "{} of {tried}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn this_devices_permutation_is_among_them() {
    require_gpu!();
    let gpu = support::context().gpu;
    let asked = primitives::defines(&gpu, Defines::new());
    assert_eq!(
        asked,
        lanes(Defines::new(), gpu.subgroup_size().unwrap_or(0))
    );
    let gpu = support::context_without_subgroups().gpu;
    assert_eq!(
        primitives::defines(&gpu, Defines::new()),
        lanes(Defines::new(), 0)
    );
}

/// The test above can fail: each of these is one mistake in an otherwise good shader.
#[test]
fn planted_mistakes_are_found() {
    const GOOD: &str = "#import piece
var<workgroup> few: array<u32, SUBGROUP_SIZE>;
@group(0) @binding(0) var<storage, read_write> values: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
    few[i % SUBGROUP_SIZE] = 1u;
#if IOTA
    values[i] = twice(i);
#else
#if SUBGROUPS
    values[i] = subgroupAdd(i) + few[0];
#else
    values[i] = few[0];
#endif
#endif
}";
    const PIECE: &str = "fn twice(x: u32) -> u32 { return 2u * x; }";
    let find = |shader: &'static str, piece: &'static str| {
        let set = ShaderSet::new(&[("kernel", shader), ("piece", piece)]);
        let texts = [("kernel", shader), ("piece", piece)];
        let texts = texts
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        examine(&set, &texts, "kernel")
    };
    assert_eq!(find(GOOD, PIECE), (vec![], 10));
    // Text to replace, its replacement, the number of permutations that show the mistake, and the complaint.
    let mistakes: [(&str, &str, usize, &str); 8] = [
        ("= twice(i);", "= thrice(i);", 5, "does not parse"),
        (
            "    values[i] = few[0];",
            "    values[i] = subgroupAdd(i);",
            1,
            "is not valid",
        ),
        (
            "    few[i",
            "    subgroupBarrier(); few[i",
            10,
            "is not valid",
        ),
        ("#if IOTA", "#if IOTAS", 1, "the flag IOTAS"),
        (
            "SUBGROUP_SIZE>",
            "9000>",
            10,
            "is more than every device has",
        ),
        (
            "workgroup_size(64)",
            "workgroup_size(512)",
            10,
            "is more than every device has",
        ),
        ("fn main", "fn main(", 10, "does not parse"),
        (
            "@compute @workgroup_size(64)\nfn main(@builtin(local_invocation_index) i",
            "fn main(i",
            10,
            "no entry point",
        ),
    ];
    for (from, to, count, complaint) in mistakes {
        assert!(GOOD.contains(from), "{from}");
        let (wrong, tried) = find(String::leak(GOOD.replace(from, to)), PIECE);
        let found = wrong.iter().filter(|what| what.contains(complaint)).count();
        assert_eq!(found, count, "{to}, {tried} tried: {wrong:#?}");
    }
    let (wrong, _) = find(GOOD, "fn twice(x: f32) -> u32 { return 2u; }");
    assert_eq!(wrong.len(), 5, "{wrong:#?}");
}
