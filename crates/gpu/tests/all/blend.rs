//! `blend` and `blend_backward` against the `f64` reference, from lists made on the host.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;
use crate::support::blend;

use blend::{Case, FLOATS, Stages, TILE_PIXELS, distances, run, screen_gradients, shown};
use dapple_engine::RenderSettings;
use dapple_engine::constants::TILE_SIZE;
use dapple_gpu::layout;
use dapple_reference::scenes::{self, Random};
use dapple_reference::{self as reference, Projected, TileLists};
use dapple_scene::{Camera, Pose};
use glam::{DVec2, DVec3};
use support::{context, context_without_subgroups};

/// Returns the number of instances up to the last that each pixel of each tile blends, by the
/// reference, in whole words.
fn reference_ends(case: &Case) -> Vec<u32> {
    let mut tiles = TileLists::touching(&case.visible, &case.camera);
    for list in &mut tiles.lists {
        list.truncate(case.cap());
    }
    let mut ends = Vec::new();
    for tile in 0..tiles.lists.len() as u32 {
        for i in 0..TILE_SIZE * TILE_SIZE {
            let x = tile % tiles.tiles_x * TILE_SIZE + i % TILE_SIZE;
            let y = tile / tiles.tiles_x * TILE_SIZE + i / TILE_SIZE;
            let list = tiles.at(x, y);
            let centre = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
            let is_inside = x < case.camera.width && y < case.camera.height;
            let blended = reference::contributions(&case.visible, list, centre).0;
            let end = blended.last().map_or(0, |last| {
                1 + list.iter().position(|&p| p == last.position).unwrap()
            });
            ends.push(if is_inside {
                end.next_multiple_of(32) as u32
            } else {
                0
            });
        }
    }
    ends
}

fn all_cases() -> Vec<(&'static str, Case)> {
    let scene = |s: scenes::TestScene| (s.name, Case::of_scene(s));
    // The cases run the kernels of pinhole cameras; conformance tests run those of rings.
    let flat = |s: &scenes::TestScene| s.camera.lens.is_perspective();
    let mut cases: Vec<_> = scenes::all().into_iter().filter(flat).map(scene).collect();
    cases.push(("full_tile", full_tile(0)));
    cases.push(("full_tile_cut", full_tile(300)));
    cases.push(("layers", layers(&LAYERS)));
    // Only the first layers are blended, whole buckets are dead, and transmittance underflows.
    cases.push(("wall", layers(&[0.9999; 100])));
    cases
}

/// Returns 2000 Gaussians of every shape in the second tile of five, some of them opaque.
fn full_tile(cap: u32) -> Case {
    let random = &mut Random::new(17);
    let camera = Camera::pinhole(41, 23, 40.0, Pose::IDENTITY);
    let gaussian = |index| {
        let sigma = [0, 1].map(|_| random.uniform(-0.7, 2.0).exp());
        let angle = random.uniform(0.0, std::f64::consts::PI);
        let axis = DVec2::from_angle(angle);
        let [u, v] = sigma.map(|s| s * s);
        let covariance = [
            0.3 + u * axis.x * axis.x + v * axis.y * axis.y,
            (u - v) * axis.x * axis.y,
            0.3 + u * axis.y * axis.y + v * axis.x * axis.x,
        ];
        let [xx, xy, yy] = covariance;
        let determinant = xx * yy - xy * xy;
        Projected {
            index,
            centre: DVec2::new(random.uniform(16.0, 32.0), random.uniform(0.0, 16.0)),
            depth: 1.0 + index as f64,
            period: 0.0,
            covariance,
            conic: [yy, -xy, xx].map(|v| v / determinant),
            opacity: if index % 501 == 500 {
                0.9999
            } else {
                random.uniform(0.004, 0.03)
            },
            colour: DVec3::from_array([0; 3].map(|_| random.uniform(0.0, 1.0))),
        }
    };
    let settings = RenderSettings {
        max_gaussians_per_tile: cap,
        background: [0.3, 0.1, 0.6],
        ..RenderSettings::default()
    };
    Case::new((0..2000).map(gaussian).collect(), camera, settings)
}

/// Opacities whose running transmittance comes close to its minimum, then an opacity that is
/// refused, and one that would fit but comes after the end. 0.9999 is clamped.
const LAYERS: [f64; 6] = [0.5, 0.9999, 0.7, 0.6, 0.01, 0.1];

/// Returns layers so wide that they are flat.
fn layers(opacities: &[f64]) -> Case {
    let variance: f64 = 1e12;
    let layer = |(index, &opacity): (usize, &f64)| Projected {
        index,
        centre: DVec2::new(3.0, 5.0),
        depth: 1.0 + index as f64,
        period: 0.0,
        covariance: [variance, 0.0, variance],
        conic: [variance.recip(), 0.0, variance.recip()],
        opacity,
        colour: DVec3::new(0.25, 0.5, 1.0 / (1.0 + index as f64)),
    };
    let visible = opacities.iter().enumerate().map(layer).collect();
    let camera = Camera::pinhole(17, 5, 20.0, Pose::IDENTITY);
    Case::new(visible, camera, RenderSettings::default())
}

#[test]
fn images_and_gradients_match_the_reference() {
    require_gpu!();
    let stages = Stages::default();
    let mut failures = Vec::new();
    for (name, case) in all_cases() {
        let output = run(&stages, &case);
        let distances = distances(&stages, &case, &output);
        println!("{name:28} {}", shown(&distances));
        assert!(
            output.slots.iter().flatten().all(|v| v.is_finite()),
            "{name}: a slot was not written"
        );
        if !distances.iter().all(|&d| d <= 1e-4) {
            failures.push(format!("{name} {}", shown(&distances)));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_pixel_ends_where_the_reference_ends() {
    require_gpu!();
    let stages = Stages::default();
    for (name, case) in all_cases() {
        // Cases where f32 and f64 may decide differently are not compared.
        let margin = reference::decision_margin(&case.visible, &case.blended(), &case.camera);
        let output = run(&stages, &case);
        let expected = reference_ends(&case);
        let differing = expected
            .iter()
            .zip(&output.pixel_end)
            .filter(|(a, b)| a != b)
            .count();
        let allowed = if margin > 1e-5 {
            0
        } else {
            expected.len() / 500
        };
        assert!(
            differing <= allowed,
            "{name}: {differing} pixels, margin {margin:.1e}"
        );
        for (block, &end) in output.block_end.iter().enumerate() {
            let (tile, block) = (block / 8, block % 8);
            let pixel = |l: usize| (block / 2 * 4 + l / 8) * 16 + block % 2 * 8 + l % 8;
            let largest = (0..32)
                .map(|l| output.pixel_end[tile * TILE_PIXELS + pixel(l)])
                .max();
            assert_eq!(Some(end), largest, "{name}: block {block} of tile {tile}");
        }
    }
}

#[test]
fn runs_repeat_themselves_with_subgroups_and_without() {
    require_gpu!();
    let contexts = [context(), context(), context_without_subgroups()];
    let all = contexts.map(|context| Stages::new(context, layout::BUCKET));
    for name in ["crowd", "tile_cap", "deep_stack"] {
        let case = Case::of_scene(scenes::named(name));
        let outputs = all.each_ref().map(|stages| run(stages, &case));
        for output in &outputs[1..] {
            assert!(*output == outputs[0], "{name}");
        }
    }
}

#[test]
fn larger_buckets_change_next_to_nothing() {
    require_gpu!();
    let small = Stages::default();
    let large = Stages::new(small.context.clone(), 64);
    for (name, case) in all_cases() {
        let (a, b) = (run(&small, &case), run(&large, &case));
        assert!(a.image == b.image && a.pixel_end == b.pixel_end, "{name}");
        let distances = distances(&large, &case, &b);
        assert!(
            distances.iter().all(|&d| d <= 1e-4),
            "{name} {}",
            shown(&distances)
        );
    }
}

#[test]
fn a_pixel_is_finished_before_the_layer_that_would_end_it() {
    require_gpu!();
    let case = layers(&LAYERS);
    let output = run(&Stages::default(), &case);
    // 0.5 * (1 - 0.999) * 0.3 = 1.5e-4; a layer of 0.6 would leave 6e-5.
    let left = 0.5 * (1.0 - f64::from(0.999f32)) * 0.3;
    for pixel in &output.image {
        assert!((f64::from(pixel[3]) / left - 1.0).abs() < 1e-5, "{pixel:?}");
    }
    assert!(output.pixel_end[..5 * 16].iter().all(|&end| end == 32));
    assert!(output.pixel_end[5 * 16..256].iter().all(|&end| end == 0));
    let lists = case.lists(layout::BUCKET as usize);
    let gradients = screen_gradients(&case, &lists, &output);
    for refused in [3, 4, 5] {
        assert_eq!(gradients[refused], [0.0; 9]);
    }
    // A clamped alpha has no gradient, but its colour has.
    assert_eq!(gradients[1][..6], [0.0; 6]);
    assert!(gradients[1][6..].iter().all(|&g| g != 0.0));
}

#[test]
fn what_the_cap_cuts_is_reported_and_has_no_gradient() {
    require_gpu!();
    let case = full_tile(300);
    let lists = case.lists(layout::BUCKET as usize);
    let output = run(&Stages::default(), &case);
    let bounds = lists
        .tile_start
        .windows(2)
        .map(|b| b[0] as usize..b[1] as usize);
    let mut cut = 0;
    for tile in bounds {
        for place in tile.skip(300) {
            cut += 1;
            assert_eq!(
                output.slots[lists.sorted_slot[place] as usize],
                [0.0; FLOATS]
            );
        }
    }
    assert!(cut > 1000);
    let most = (0..case.gradient.len())
        .filter(|p| lists.touching.at(*p as u32 % 41, *p as u32 / 41).len() > 300)
        .map(|p| output.image[p][3])
        .fold(0.0, f32::max);
    assert!(most > 0.01);
    assert_eq!(output.lost_transmittance, most);
    assert_eq!(
        run(&Stages::default(), &full_tile(0)).lost_transmittance,
        0.0
    );
}
