//! The declarations of passes equal those of their shaders, and nothing is declared twice or not at all.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::{AppearanceSettings, CameraModel};
use dapple_gpu::features::appearance;
use dapple_gpu::passes::{Axis, Bits, BufferSizes, Capacity, Code, Entries, Entry, Load, Pass};
use dapple_gpu::plans::{Plan, all};
use dapple_gpu::stages::project::GAUSSIANS;
use dapple_gpu::{Buffers, Precision, Recorder, catalogue, layout};
use dapple_runtime::wgpu::naga;
use dapple_runtime::{Defines, primitives};
use std::collections::{BTreeMap, BTreeSet};

/// Bindings of shaders whose buffers belong to a dispatch.
const OWN: [&str; 5] = [
    "gather_batch",
    "gather_source",
    "gather_from",
    "gather_to",
    "image",
];

/// Returns constants of a device without subgroups, and of the smallest grid.
fn defines() -> Defines {
    let grid = AppearanceSettings {
        cells: [2, 2, 2],
        rate: 1e-3,
        smoothness: 1.0,
        identity: 0.1,
    };
    let defines = appearance::define(catalogue::defines(), &grid);
    let defines = Precision::default().define(defines);
    defines
        .u32("SUBGROUP_SIZE", 32)
        .u32("SCAN_BLOCK", primitives::SCAN_BLOCK)
        .u32("RADIX_BLOCK", 2048)
        .u32("RADIX_THREADS", 256)
}

/// Returns every combination of the bits that a kernel understands. A camera has one model.
fn permutations(code: &Code) -> Vec<Bits> {
    let cameras = CameraModel::all().map(|model| Bits::of_camera(model) & code.bits);
    let cameras: Vec<Bits> = cameras.collect();
    let known = Bits::ALL.iter().map(|(bit, _)| *bit);
    let known: Vec<Bits> = known.filter(|bit| code.bits.has(*bit)).collect();
    (0..1usize << known.len())
        .map(|which| {
            let chosen = known.iter().enumerate();
            let chosen = chosen.filter(|(i, _)| which >> i & 1 == 1);
            chosen.fold(Bits::NONE, |all, (_, bit)| all | *bit)
        })
        .filter(|&bits| cameras.contains(&(bits & Bits::CAMERA)))
        .collect()
}

/// Returns the buffers that a kernel binds in a permutation.
fn bindings(code: &Code, bits: Bits) -> BTreeSet<String> {
    let wgsl = catalogue::shaders()
        .compose(code.shader, &bits.define(defines()))
        .unwrap();
    let module = naga::front::wgsl::parse_str(&wgsl).unwrap();
    let entry = module
        .entry_points
        .iter()
        .position(|e| e.name == code.entry);
    let entry = entry.unwrap_or_else(|| panic!("{code:?} has no such entry point"));
    let flags = naga::valid::ValidationFlags::all();
    let info = naga::valid::Validator::new(flags, naga::valid::Capabilities::all())
        .validate(&module)
        .unwrap();
    let globals = module.global_variables.iter();
    globals
        .filter(|(handle, global)| {
            global.binding.as_ref().is_some_and(|b| b.group == 0)
                && !info.get_entry_point(entry)[*handle].is_empty()
        })
        .map(|(_, global)| global.name.clone().unwrap())
        .collect()
}

/// Returns the bindings of a pass that no pass declares.
fn undeclared(pass: &Pass) -> Vec<String> {
    let is_known = |name: &str| {
        let borrowed = pass.borrows.iter().find(|(binding, _)| *binding == name);
        let name = borrowed.map_or(name, |(_, tensor)| *tensor);
        OWN.contains(&name) || catalogue::tensors().any(|tensor| tensor.name == name)
    };
    let mut found = Vec::new();
    for code in pass.kernels {
        for bits in permutations(code) {
            let unknown = bindings(code, bits).into_iter();
            let unknown = unknown.filter(|name| !is_known(name));
            found.extend(unknown.map(|name| format!("{code:?}, {bits:?}: {name}")));
        }
    }
    found
}

#[test]
fn every_binding_is_a_tensor_that_some_pass_declares() {
    for pass in all() {
        assert_eq!(undeclared(pass), Vec::<String>::new(), "{}", pass.name);
    }
    // The check can fail: without its borrowed tensors, `ranges` binds a buffer that does not exist.
    let ranges = Pass {
        borrows: &[],
        kernels: dapple_gpu::stages::ranges::PASS.kernels,
        ..Pass::new("ranges", |_| Ok(()))
    };
    assert_eq!(undeclared(&ranges).len(), 1, "{:?}", undeclared(&ranges));
}

#[test]
fn nothing_is_declared_twice() {
    let mut tensors = BTreeSet::new();
    for tensor in catalogue::tensors() {
        assert!(tensors.insert(tensor.name), "{}", tensor.name);
    }
    let mut entries = BTreeSet::new();
    for entry in all().flat_map(|pass| pass.entries) {
        assert!(entries.insert(entry.0), "{}", entry.0);
    }
    assert_eq!(entries.len() as u64, catalogue::declared().entries.count());
}

#[test]
fn shaders_number_entries_as_the_host_does() {
    let wgsl = catalogue::entries_wgsl();
    let mut numbers = BTreeMap::new();
    for entry in all().flat_map(|pass| pass.entries) {
        let number = catalogue::declared().entries.number(*entry).unwrap();
        let line = format!("const {}: u32 = {number}u;\n", entry.0);
        assert!(wgsl.contains(&line), "{line}");
        assert_eq!(numbers.insert(number, entry.0), None);
    }
    // A halt clears the entries of a step, and not those of rounds.
    let steps = wgsl.split("STEP_ENTRIES: u32 = ").nth(1).unwrap();
    let steps: u64 = steps.split('u').next().unwrap().parse().unwrap();
    for (number, name) in numbers {
        assert_eq!(number < steps, name.starts_with("GROUPS_"), "{name}");
    }
}

#[test]
fn an_entry_that_no_pass_declares_is_an_error() {
    let nothing = Entry("GROUPS_NOTHING");
    let message = |entries: &Entries, entry| entries.number(entry).unwrap_err().to_string();
    let entries = &catalogue::declared().entries;
    assert!(message(entries, nothing).contains("GROUPS_NOTHING"));
    assert!(entries.offset(nothing).is_err());
    assert!(entries.count() <= layout::MOST_ENTRIES.into());
    // The buffer has no place for this many.
    let many = (0..layout::MOST_ENTRIES).map(|_| Entry("GROUPS_MANY"));
    let entries = Entries::new(many, [nothing].into_iter());
    assert!(message(&entries, nothing).contains("holds 32"));
}

#[test]
fn a_dispatch_of_an_entry_that_no_pass_declares_is_not_recorded() {
    const REPORT: Code = Code::new("report", "densify_report");
    require_gpu!();
    let context = support::context();
    let mut buffers = Buffers::default();
    let sizes = BufferSizes::default();
    buffers.fit(&context, &sizes, Bits::NONE, None).unwrap();
    let mut recorder = Recorder::new(&context, &buffers, Bits::NONE);
    let known = Pass::new("report", |r| r.run(&REPORT, GAUSSIANS));
    recorder.pass(&known).unwrap();
    let unknown = Pass::new("report", |r| r.run(&REPORT, Entry("GROUPS_NOTHING")));
    let error = recorder.pass(&unknown).unwrap_err().to_string();
    assert!(error.contains("GROUPS_NOTHING"), "{error}");
}

#[test]
fn recordings_are_shared_by_all_that_a_plan_does_not_know() {
    let knows = |plan: Plan, bits: Bits| plan.understands().has(bits);
    // A render does not depend on bits of later passes, nor the backward pass on those of the bilateral grid.
    assert!(
        !Plan::Front
            .understands()
            .meets(Bits::POSES | Bits::EXTRAS | Bits::APPEARANCE)
    );
    assert!(knows(
        Plan::Front,
        Bits::LENS | Bits::ANTIALIAS | Bits::DEPTH | Bits::IMAGE_ONLY
    ));
    assert!(!knows(Plan::Back, Bits::APPEARANCE) && knows(Plan::Loss, Bits::APPEARANCE));
    assert!(knows(
        Plan::Back,
        Bits::POSES | Bits::EXTRAS | Bits::ABSOLUTE
    ));
    for part in Plan::Step.parts() {
        assert!(knows(Plan::Step, part.understands()), "{part:?}");
    }
    assert_eq!(Plan::Finite.understands(), Bits::NONE);
}

#[test]
fn sizes_follow_from_room_and_from_what_was_asked() {
    let sizes = BufferSizes {
        capacity: Capacity {
            gaussians: 300,
            visible: 200,
            instances: 1000,
            buckets: 40,
            pixels: 500,
            tiles: 2,
        },
        sh_degree: 1,
        ..BufferSizes::default()
    };
    let bytes = |name: &str, sizes: &BufferSizes| {
        let mut all = catalogue::tensors();
        all.find(|tensor| tensor.name == name).unwrap().bytes(sizes)
    };
    assert_eq!(bytes("geometry", &sizes), Some(4 * 14 * 300));
    assert_eq!(bytes("sh_rest", &sizes), Some(4 * 9 * 300));
    assert_eq!(bytes("group_visible", &sizes), Some(4 * (2 + 1)));
    assert_eq!(bytes("emit_starts", &sizes), Some(4 * 201));
    assert_eq!(bytes("slots", &sizes), Some(4 * 9 * 1001));
    assert_eq!(bytes("checkpoints", &sizes), Some(4 * 4 * 256 * 40));
    assert_eq!(bytes("pixel_end", &sizes), Some(4 * 256 * 2));
    assert_eq!(bytes("views", &sizes), None, "who uploads them makes them");
    assert_eq!(
        bytes("geometry", &BufferSizes::default()),
        None,
        "no Gaussians yet"
    );
    let asked = |asked| BufferSizes { asked, ..sizes };
    assert_eq!(bytes("extra_slots", &asked(Bits::DEPTH)), Some(4 * 1001));
    let both = asked(Bits::DEPTH | Bits::ABSOLUTE);
    assert_eq!(bytes("extra_slots", &both), Some(4 * 3 * 1001));
    for tensor in catalogue::tensors().filter(|tensor| tensor.is_state()) {
        assert_eq!(tensor.axis, Axis::Gaussian, "{}", tensor.name);
    }
}

#[test]
fn every_stage_of_a_step_tells_its_bytes() {
    let load = Load {
        gaussians: 10,
        visible: 4,
        instances: 196,
        pixels: 1000,
        tiles: 2,
        sh_degree: 0,
        ssim: true,
    };
    let of = |stage: &str| catalogue::bytes(stage, &load, Precision::default());
    for stage in [
        "project",
        "order",
        "emit",
        "sort",
        "ranges",
        "blend",
        "loss",
        "blend_backward",
        "update",
    ] {
        assert!(of(stage) > 0, "{stage}");
    }
    assert_eq!(of("sort"), 36 * 196);
    assert_eq!(of("nothing"), 0);
}
