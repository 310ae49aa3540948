//! Density control makes the same decisions as the CPU engine, in the same order.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;
use crate::support::world;

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::{DensifyPlan, DensifyReport, Engine, EngineExt, OptimizerState, Report};
use dapple_gpu::layout::{HALT_GAUSSIANS, HALT_INSTANCES, State, plane};
use dapple_gpu::{Precision, Storage};
use dapple_scene::Splats;
use support::context;
use world::{DEGREE, Device, SH_PLANES, World, planes, random, rows};

fn plan() -> DensifyPlan {
    DensifyPlan {
        step: 700,
        seed: 0x1234_5678_9abc,
        grow_gradient: Some(0.1),
        split_scale: 0.15,
        prune_opacity: Some(0.01),
        prune_scale: Some(0.33),
        max_gaussians: 1_000_000,
        reset_opacity: None,
        room_share: 1.0,
        ..DensifyPlan::NOTHING
    }
}

fn on_cpu(
    splats: &Splats,
    state: &OptimizerState,
    plan: &DensifyPlan,
) -> (Splats, OptimizerState, DensifyReport) {
    let mut engine = CpuEngine::new(CpuOptions::default()).unwrap();
    engine.upload(splats, Some(state)).unwrap();
    engine.densify(plan).unwrap();
    let (splats, state) = engine.download().unwrap();
    match engine.poll().unwrap().pop() {
        Some(Report::Densify(report)) => (splats, state, report),
        other => panic!("{other:?}"),
    }
}

fn assert_same_bits(actual: &[Vec<f32>], expected: &[Vec<f32>], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (i, (a, b)) in actual.iter().zip(expected).enumerate() {
        let bits = |row: &[f32]| row.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(a), bits(b), "{what}, Gaussian {i}: {a:?}, not {b:?}");
    }
}

/// Runs both engines on the same splats and compares everything.
fn compare(
    device: &Device,
    splats: &Splats,
    state: &OptimizerState,
    plan: &DensifyPlan,
    what: &str,
) {
    let n = splats.len();
    let world = World::new(device, 2 * n + 3);
    world.upload(splats, state);
    world.densify(plan);
    let (expected, expected_state, report) = on_cpu(splats, state, plan);
    let counts = world.state();
    assert_eq!(counts.halted, 0, "{what}");
    let actual = DensifyReport {
        step: plan.step,
        cloned: counts.cloned.into(),
        split: counts.split.into(),
        pruned: counts.pruned.into(),
        refused: counts.refused.into(),
        relocated: counts.relocated.into(),
        added: counts.added.into(),
        total: counts.gaussians.into(),
    };
    assert_eq!(actual, report, "{what}");
    let entry: Vec<u32> = world.context.gpu.read(world.buffer("groups"), 4).unwrap();
    assert_eq!(
        entry[..2],
        [
            counts.gaussians.div_ceil(256),
            u32::from(counts.gaussians > 0)
        ]
    );

    // Quaternions, colours and moments are only copied: they identify the Gaussians.
    let expected = rows(&expected);
    let part = |rows: &[Vec<f32>], from: usize, to: usize| -> Vec<Vec<f32>> {
        rows.iter().map(|row| row[from..to].to_vec()).collect()
    };
    let geometry = world.rows("geometry", 0, plane::GEOMETRY);
    let all = plane::GEOMETRY + SH_PLANES;
    let sh = world.rows("sh_rest", 0, SH_PLANES);
    assert_same_bits(&sh, &part(&expected, plane::GEOMETRY, all), what);
    let exact = plane::QUAT..plane::OPACITY;
    let quats = part(&geometry, exact.start, exact.end);
    assert_same_bits(&quats, &part(&expected, exact.start, exact.end), what);
    let sh0 = part(&geometry, plane::SH0, plane::GEOMETRY);
    assert_same_bits(&sh0, &part(&expected, plane::SH0, plane::GEOMETRY), what);
    // A split moves a centre by up to 5.6 standard deviations of up to e^-1.
    for (i, (a, b)) in geometry.iter().zip(&expected).enumerate() {
        for p in (0..plane::QUAT).chain([plane::OPACITY]) {
            let tolerance = 1e-6 * (1.0 + b[p].abs());
            assert!(
                (a[p] - b[p]).abs() <= tolerance,
                "{what}, {i}, {p}: {} {}",
                a[p],
                b[p]
            );
        }
    }
    for (splats, first, sh) in [
        (&expected_state.first_moments, 0, "sh_first"),
        (&expected_state.second_moments, plane::GEOMETRY, "sh_second"),
    ] {
        let expected = rows(splats);
        let moments = world.rows("geometry_moments", first, plane::GEOMETRY);
        assert_same_bits(&moments, &part(&expected, 0, plane::GEOMETRY), what);
        let moments = world.rows(sh, 0, SH_PLANES);
        assert_same_bits(&moments, &part(&expected, plane::GEOMETRY, all), what);
    }
    let stats = world.rows("stats", 0, 2);
    let expected = expected_state
        .gradient_sums
        .iter()
        .zip(&expected_state.visible_counts);
    let expected: Vec<Vec<f32>> = expected.map(|(&g, &v)| vec![g, v]).collect();
    assert_same_bits(&stats, &expected, what);
}

#[test]
fn decides_as_the_cpu_engine_does() {
    require_gpu!();
    let device = Device::with_subgroups();
    for n in [1, 2, 255, 256, 257, 3000] {
        let (splats, state) = random(n, n as u64);
        compare(&device, &splats, &state, &plan(), &format!("{n} Gaussians"));
    }
    let (splats, state) = random(1000, 5);
    compare(
        &Device::without_subgroups(),
        &splats,
        &state,
        &plan(),
        "no subgroups",
    );
}

#[test]
fn the_largest_gradients_grow_first_and_ties_by_index() {
    require_gpu!();
    let device = Device::with_subgroups();
    for (seed, capacity) in [(1, 0), (2, 1), (3, 57), (4, 300)] {
        let (splats, mut state) = random(2000, seed);
        // Few different means, reached by different sums.
        for (sum, count) in state.gradient_sums.iter_mut().zip(&state.visible_counts) {
            *sum = (*sum * 5.0).floor() * 0.1 * count.max(1.0);
        }
        let scarce = DensifyPlan {
            max_gaussians: splats.len() + capacity,
            ..plan()
        };
        compare(
            &device,
            &splats,
            &state,
            &scarce,
            &format!("room for {capacity}"),
        );
    }
    let (splats, state) = random(700, 9);
    let full = DensifyPlan {
        max_gaussians: 400,
        ..plan()
    };
    compare(
        &Device::without_subgroups(),
        &splats,
        &state,
        &full,
        "more than full",
    );
}

#[test]
fn every_part_of_a_plan_can_be_left_out() {
    require_gpu!();
    let device = Device::with_subgroups();
    let (mut splats, state) = random(900, 11);
    for (i, value) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]
        .into_iter()
        .enumerate()
    {
        splats.means[10 + i][1] = value;
        splats.scales[20 + i] = [value; 3];
        splats.quats[300 + i][3] = value;
        splats.opacities[40 + i] = value;
        splats.sh_rest[SH_PLANES * (50 + i) + 8] = value;
    }
    splats.quats[77] = [0.0; 4];
    let only = DensifyPlan {
        grow_gradient: None,
        prune_opacity: None,
        prune_scale: None,
        ..plan()
    };
    let plans = [
        ("nothing", only),
        (
            "grow",
            DensifyPlan {
                grow_gradient: Some(0.05),
                ..only
            },
        ),
        (
            "grow all",
            DensifyPlan {
                grow_gradient: Some(-1.0),
                ..only
            },
        ),
        (
            "split all",
            DensifyPlan {
                grow_gradient: Some(-1.0),
                split_scale: 0.0,
                ..only
            },
        ),
        (
            "scarce",
            DensifyPlan {
                grow_gradient: Some(-1.0),
                max_gaussians: 1000,
                ..only
            },
        ),
        (
            "transparent",
            DensifyPlan {
                prune_opacity: Some(0.1),
                ..only
            },
        ),
        (
            "large",
            DensifyPlan {
                prune_scale: Some(0.2),
                ..only
            },
        ),
        (
            "prune all",
            DensifyPlan {
                prune_scale: Some(1e-9),
                ..only
            },
        ),
        (
            "reset",
            DensifyPlan {
                reset_opacity: Some(0.01),
                ..plan()
            },
        ),
    ];
    for (what, plan) in plans {
        compare(&device, &splats, &state, &plan, what);
    }
    compare(
        &device,
        &Splats::empty(DEGREE),
        &random(0, 0).1,
        &plan(),
        "no Gaussians",
    );
}

#[test]
fn too_little_room_halts_and_changes_nothing() {
    require_gpu!();
    let device = Device::with_subgroups();
    let (splats, state) = random(500, 21);
    let (_, _, report) = on_cpu(&splats, &state, &plan());
    assert!(report.total > 501, "{report:?}");
    let world = World::new(&device, report.total as usize - 1);
    world.upload(&splats, &state);
    let (before, counts) = (world.everything(), world.state());
    world.densify(&plan());
    assert!(world.everything() == before);
    let halted = State {
        halted: HALT_GAUSSIANS,
        wanted: report.total as u32,
        ..counts
    };
    assert_eq!(world.state(), halted);
    // No stage of a later step runs.
    let entry: Vec<u32> = world.context.gpu.read(world.buffer("groups"), 4).unwrap();
    assert_eq!(entry[0] * entry[1], 0);

    // Nothing may change in a halted step, whichever stage halted it.
    let halted = State {
        halted: HALT_INSTANCES,
        ..counts
    };
    let world = World::new(&device, 4000);
    world.upload(&splats, &state);
    world.set_state(State {
        capacity: 4000,
        instance_capacity: 4001,
        ..halted
    });
    let before = world.everything();
    world.densify(&plan());
    world.morton();
    assert!(world.everything() == before);
    assert_eq!(
        world.state(),
        State {
            capacity: 4000,
            instance_capacity: 4001,
            ..halted
        }
    );
}

#[test]
fn too_little_scratch_halts_and_changes_nothing() {
    require_gpu!();
    let device = Device::with_subgroups();
    let (splats, state) = random(500, 21);
    for step in [World::morton, |world: &World<'_>| world.densify(&plan())] {
        let world = World::new(&device, 1500);
        world.upload(&splats, &state);
        let before = world.everything();
        let enough = world.state();
        let scarce = State {
            instance_capacity: 1500,
            ..enough
        };
        world.set_state(scarce);
        step(&world);
        assert!(world.everything() == before);
        let halted = State {
            halted: HALT_INSTANCES,
            wanted: 1501,
            ..scarce
        };
        assert_eq!(world.state(), halted);
        world.set_state(enough);
        step(&world);
        assert!(world.everything() != before);
        assert_eq!(world.state().halted, 0);
    }
}

/// Sixteen-bit storage: words are moved unchanged, non-finite halves are detected, and a reset
/// clears only the opacity's half of a word.
#[test]
fn sixteen_bit_words_move_whole() {
    require_gpu!();
    // One non-finite half of each, in the low and in the high half of a word.
    for (storage, infinite) in [(Storage::F16, 0x7c00_u32), (Storage::Bf16, 0x7f80)] {
        let precision = Precision {
            sh: storage,
            moments: storage,
        };
        let device = Device::new(context(), precision);
        let n = 300;
        let world = World::new(&device, n + 5);
        let (splats, state) = random(n, 31);
        world.upload_geometry(&splats, &state);
        for (name, words) in planes(precision) {
            let is_packed = name != "geometry" && name != "stats";
            for p in 0..if is_packed { words as usize } else { 0 } {
                let word = |i: usize| (1000 * p as u32 + i as u32) | 0x0400_0000;
                let plane: Vec<u32> = (0..world.capacity).map(word).collect();
                world.write(name, p, &plane);
            }
        }
        let mut last: Vec<u32> = world.words("sh_rest");
        last[4 * world.capacity + 7] = infinite;
        last[2 * world.capacity + 9] = infinite << 16 | 1;
        // Not an infinite sixteen-bit number, though the bits overlap.
        last[3 * world.capacity + 11] = 0x7800_7800 & (infinite | infinite << 16) & !0x0400_0400;
        world.write("sh_rest", 0, &last);
        let before = world.everything();
        let plan = DensifyPlan {
            grow_gradient: None,
            prune_opacity: None,
            prune_scale: None,
            reset_opacity: Some(0.02),
            ..plan()
        };
        world.densify(&plan);
        assert_eq!(world.state().pruned, 2, "{storage}");
        let after = world.everything();
        let stays: Vec<usize> = (0..n).filter(|i| ![7, 9].contains(i)).collect();
        for ((name, count), (before, after)) in
            planes(precision).into_iter().zip(before.iter().zip(&after))
        {
            for p in 0..count as usize {
                // Plane 10 of 14, twice: word 5 of 7.
                let is_opacity = name == "geometry_moments" && (p == 5 || p == 12);
                if name == "geometry" && p == plane::OPACITY {
                    continue;
                }
                for (j, &i) in stays.iter().enumerate() {
                    let mut expected = before[p * world.capacity + i];
                    if is_opacity {
                        expected &= 0xffff_0000;
                    }
                    assert_eq!(
                        after[p * world.capacity + j],
                        expected,
                        "{storage} {name} {p} {i}"
                    );
                }
            }
        }
    }
}
