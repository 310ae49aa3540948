//! The stages from `begin` to `ranges` against the `f64` reference: every test scene, odd image sizes, Gaussians of all
//! sizes, every precision, insufficient capacity, nothing to see.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;
use crate::support::front;

use dapple_engine::{RenderSettings, constants};
use dapple_gpu::layout::{self, State};
use dapple_gpu::precision::{Values, pack, unpack};
use dapple_gpu::{Context, Storage};
use dapple_reference::scenes;
use dapple_reference::{self as reference, Gaussian, PixelRect, Projected, TileLists};
use dapple_scene::{Camera, Lens, Pose, Splats};
use dapple_synth as synth;
use front::{Capacity, Front, Outcome};
use glam::DVec3;
use support::{context, context_without_subgroups, groups};

/// Exact pairs of a Gaussian and a tile that it touches.
struct Touching<'a> {
    visible: &'a [Projected],
    camera: &'a Camera,
    lists: TileLists,
}

/// If the ellipse misses a tile's pixel centres by less, in ln(alpha), `f32` may decide differently: the margin that
/// the shaders add to the ellipse (1e-5 of at most 8 bits), and rounding.
const MARGIN: f64 = 1e-4;

impl Touching<'_> {
    /// Returns the distance by which the ellipse of a Gaussian reaches into a tile.
    fn depth_in(&self, tile: usize, position: usize) -> f64 {
        let across = self.lists.tiles_x;
        let rect = PixelRect::of_tile(tile as u32 % across, tile as u32 / across, self.camera);
        let p = &self.visible[position];
        let level = (p.opacity / f64::from(constants::ALPHA_MIN)).ln();
        level - reference::least_power_in_rect(p, rect)
    }
}

/// Compares a frame with the reference; returns the number of (Gaussian, tile) pairs within the margin.
fn check(
    name: &str,
    out: &Outcome,
    splats: &Splats,
    camera: &Camera,
    settings: &RenderSettings,
) -> usize {
    let visible = reference::visible(&Gaussian::all(splats), camera, settings).unwrap();
    let touching = Touching {
        visible: &visible,
        camera,
        lists: TileLists::touching(&visible, camera),
    };
    let close = check_tiles(name, out, &touching);
    check_splats(name, out, &visible);
    check_order(name, out, splats.len());
    check_slots(name, out);
    check_buckets(name, out, settings.max_gaussians_per_tile);
    close
}

/// Compares tile lists as sets.
fn check_tiles(name: &str, out: &Outcome, touching: &Touching<'_>) -> usize {
    let mut position_of = vec![None; out.tiles_touched.len()];
    for (position, p) in touching.visible.iter().enumerate() {
        position_of[p.index] = Some(position);
    }
    assert_eq!(
        out.tile_start.len(),
        touching.lists.lists.len() + 1,
        "{name}"
    );
    let mut close = 0;
    for (tile, expected) in touching.lists.lists.iter().enumerate() {
        let mut found: Vec<usize> = out
            .tile(tile)
            .map(|place| {
                let gaussian = out.sorted_gaussian[place] as usize;
                position_of[gaussian]
                    .unwrap_or_else(|| panic!("{name}: Gaussian {gaussian} is absent"))
            })
            .collect();
        found.sort_unstable();
        assert!(
            found.windows(2).all(|w| w[0] < w[1]),
            "{name}: twice in tile {tile}"
        );
        let differs = |a: &[usize], b: &[usize]| -> Vec<usize> {
            a.iter().copied().filter(|p| !b.contains(p)).collect()
        };
        for position in [differs(&found, expected), differs(expected, &found)].concat() {
            let depth = touching.depth_in(tile, position);
            let index = touching.visible[position].index;
            assert!(
                depth.abs() < MARGIN,
                "{name}: Gaussian {index}, tile {tile}: {depth}"
            );
            close += 1;
        }
    }
    close
}

/// Constant term of a colour; `f32` rounds a colour at the size of this term, however small the sum is.
const COLOUR_OFFSET: f64 = 0.5;

/// Checks the fields of `splats2d` of visible Gaussians.
fn check_splats(name: &str, out: &Outcome, visible: &[Projected]) {
    let seen: Vec<&Projected> = visible
        .iter()
        .filter(|p| out.tiles_touched[p.index] > 0)
        .collect();
    if seen.is_empty() {
        return;
    }
    let half = -0.5 * std::f64::consts::LOG2_E;
    let fields: [fn(&Projected) -> f64; 12] = [
        |p| p.centre.x,
        |p| p.centre.y,
        |p| p.conic[0],
        |p| 2.0 * p.conic[1],
        |p| p.conic[2],
        |p| p.opacity.log2(),
        |p| p.colour.x,
        |p| p.colour.y,
        |p| p.colour.z,
        |p| p.depth,
        |p| radius(p, 0),
        |p| radius(p, 2),
    ];
    for (field, expected) in fields.iter().enumerate() {
        let scale = if (2..5).contains(&field) { half } else { 1.0 };
        let offset = if (6..9).contains(&field) {
            COLOUR_OFFSET
        } else {
            0.0
        };
        let actual: Vec<f64> = seen
            .iter()
            .map(|p| f64::from(out.splats2d[p.index][field]) + offset)
            .collect();
        let expected: Vec<f64> = seen.iter().map(|p| expected(p) * scale + offset).collect();
        let error = reference::compare::relative_l2(&actual, &expected);
        assert!(error <= 1e-5, "{name}: field {field}: {error:e}");
    }
}

/// Returns half the extent of the ellipse that the shaders use: slightly beyond alpha = 1/255.
fn radius(p: &Projected, axis: usize) -> f64 {
    let bits = (p.opacity / f64::from(constants::ALPHA_MIN)).log2();
    let reach = bits * 1.000_01 + 1e-5;
    (p.covariance[axis] * reach * 2.0 * std::f64::consts::LN_2).sqrt()
}

/// Checks that every visible Gaussian occurs once, by depth, ties by index.
fn check_order(name: &str, out: &Outcome, gaussians: usize) {
    let depth = |g: u32| out.splats2d[g as usize][9].to_bits();
    let mut expected: Vec<u32> = (0..gaussians as u32)
        .filter(|&g| out.tiles_touched[g as usize] > 0)
        .collect();
    expected.sort_by_key(|&g| (depth(g), g));
    assert_eq!(out.depth_values, expected, "{name}");
    assert!(
        expected
            .iter()
            .map(|&g| depth(g))
            .eq(out.depth_keys.iter().copied()),
        "{name}"
    );
}

/// Checks slots: contiguous by Gaussian, in depth order, row by row; each in one place of the sorted list.
fn check_slots(name: &str, out: &Outcome) {
    let mut start = 0;
    for (rank, &g) in out.depth_values.iter().enumerate() {
        assert_eq!(out.emit_starts[rank], start, "{name}: rank {rank}");
        let end = start + out.tiles_touched[g as usize];
        let own = &out.instance_gaussian[start as usize..end as usize];
        assert!(own.iter().all(|&owner| owner == g), "{name}: Gaussian {g}");
        start = end;
    }
    assert_eq!(out.emit_starts[out.depth_values.len()], start, "{name}");
    assert_eq!(out.state.instances, start, "{name}");
    let mut tile_of = vec![None; start as usize];
    for tile in 0..out.tile_start.len() - 1 {
        let slots = &out.sorted_slot[out.tile(tile)];
        // Slots are in depth order, and so is the tile's list.
        assert!(slots.is_sorted_by(|a, b| a < b), "{name}: tile {tile}");
        for &slot in slots {
            assert_eq!(
                tile_of[slot as usize].replace(tile),
                None,
                "{name}: slot {slot}"
            );
        }
    }
    assert!(tile_of.iter().all(Option::is_some), "{name}");
    for (rank, &g) in out.depth_values.iter().enumerate() {
        let own = &tile_of[out.emit_starts[rank] as usize..out.emit_starts[rank + 1] as usize];
        assert!(own.is_sorted_by(|a, b| a < b), "{name}: Gaussian {g}");
    }
    let gathered = out
        .sorted_slot
        .iter()
        .map(|&slot| out.instance_gaussian[slot as usize]);
    assert!(gathered.eq(out.sorted_gaussian.iter().copied()), "{name}");
}

/// Checks buckets, counts and dispatches.
fn check_buckets(name: &str, out: &Outcome, cap: u32) {
    let tiles = out.tile_start.len() - 1;
    let (mut buckets, mut cut, mut most) = (0, 0, 0);
    for tile in 0..tiles {
        assert_eq!(out.bucket_start[tile], buckets, "{name}: tile {tile}");
        let count = out.tile(tile).len() as u32;
        let blended = if cap == 0 { count } else { count.min(cap) };
        let end = buckets + blended.div_ceil(layout::BUCKET);
        let own = &out.bucket_tile[buckets as usize..end as usize];
        assert!(own.iter().all(|&t| t == tile as u32), "{name}: tile {tile}");
        buckets = end;
        cut += count - blended;
        most = most.max(count);
    }
    assert_eq!(out.bucket_start[tiles], buckets, "{name}");
    let state = &out.state;
    // Every tile once, those with more than twice the mean first.
    let full = state.instances / tiles as u32 * 2;
    let is_full = |&tile: &u32| {
        let count = out.tile(tile as usize).len() as u32;
        let blended = if cap == 0 { count } else { count.min(cap) };
        blended > full
    };
    assert!(
        out.tile_order.is_sorted_by_key(|tile| !is_full(tile)),
        "{name}"
    );
    let mut every = out.tile_order.clone();
    every.sort_unstable();
    assert!(every.iter().copied().eq(0..tiles as u32), "{name}");
    assert_eq!(state.visible as usize, out.depth_values.len(), "{name}");
    assert_eq!(
        (state.buckets, state.cut_instances, state.max_per_tile),
        (buckets, cut, most),
        "{name}"
    );
    assert_eq!((state.halted, state.wanted), (0, 0), "{name}");
    for (entry, count) in [
        (groups::GAUSSIANS, state.gaussians.div_ceil(256)),
        (
            groups::UPDATE,
            state.gaussians.div_ceil(layout::UPDATE_THREADS),
        ),
        (groups::VISIBLE, state.visible.div_ceil(256)),
        (
            groups::SLOT_SUMS,
            state.visible.div_ceil(layout::SLOT_SUMS_GAUSSIANS),
        ),
        (groups::EMIT, state.instances.div_ceil(layout::EMIT_BLOCK)),
        (groups::BUCKETS, buckets),
        (groups::PIXELS, tiles as u32),
    ] {
        let [x, y, z, _] = out.groups[groups::number(entry)];
        assert_eq!(x * y * z, count, "{name}: dispatch {entry:?}");
    }
}

fn settings(splats: &Splats) -> RenderSettings {
    RenderSettings {
        sh_degree: splats.sh_degree,
        ..RenderSettings::default()
    }
}

fn check_scenes(context: Context) {
    let front = Front::new(context, 8);
    let mut close = 0;
    // Pinholes: through lenses whole engines are compared (`conformance`).
    for scene in scenes::all()
        .into_iter()
        .filter(|s| s.camera.lens == Lens::Pinhole)
    {
        let capacity = Capacity::for_splats(&scene.splats);
        let run = || front.run(&scene.splats, &scene.camera, &scene.settings, capacity);
        let out = run();
        close += check(
            scene.name,
            &out,
            &scene.splats,
            &scene.camera,
            &scene.settings,
        );
        assert!(out == run(), "{}: two runs differ", scene.name);
        let shuffled = front.run_shuffled(&scene.splats, &scene.camera, &scene.settings, capacity);
        assert!(out == shuffled, "{}: places matter", scene.name);
    }
    eprintln!("pairs within the margin: {close}");
    assert!(close < 5, "{close}");
}

#[test]
fn scenes_are_as_the_reference_has_them() {
    require_gpu!();
    check_scenes(context());
}

#[test]
fn scenes_are_as_the_reference_has_them_without_subgroups() {
    require_gpu!();
    check_scenes(context_without_subgroups());
}

#[test]
fn images_of_any_size() {
    require_gpu!();
    let front = Front::new(context(), 13);
    let splats = synth::splats(3000, 5);
    let mut settings = settings(&splats);
    for (i, [width, height]) in [[1, 1], [17, 1], [16, 16], [15, 33], [241, 131], [1025, 3]]
        .into_iter()
        .enumerate()
    {
        let camera = synth::bench_camera(width, height);
        settings.max_gaussians_per_tile = [0, 7, 33][i % 3];
        let out = front.run(&splats, &camera, &settings, Capacity::for_splats(&splats));
        let name = format!("{width} x {height}");
        check(&name, &out, &splats, &camera, &settings);
        assert!(out.state.visible > 10, "{name}");
    }
}

/// Returns Gaussians of the given standard deviations in pixels, each 5 % farther, in front of a camera at the origin.
fn row_of(count: usize, camera: &Camera, pixels: impl Fn(usize) -> [f64; 3]) -> Splats {
    let mut random = scenes::Random::new(1);
    let mut splats = Splats::empty(0);
    for i in 0..count {
        let z = 2.0 + 0.05 * i as f64;
        let mut within = |share: f64| (share * z * random.uniform(-1.0, 1.0)) as f32;
        splats.means.push([within(0.5), within(0.4), z as f32]);
        let scales = pixels(i).map(|sigma| (sigma * z / camera.fx).ln() as f32);
        splats.scales.push(scales);
        splats
            .quats
            .push(std::array::from_fn(|_| random.uniform(-1.0, 1.0) as f32));
        splats.opacities.push(random.uniform(-2.0, 3.0) as f32);
        splats.sh0.push([0.5; 3]);
    }
    splats
}

/// From a pixel to thousands of tiles, alternating in depth: blocks of instances begin and end
/// anywhere in a Gaussian.
#[test]
fn gaussians_of_all_sizes() {
    require_gpu!();
    let front = Front::new(context(), 13);
    let camera = Camera::pinhole(1003, 707, 800.0, Pose::IDENTITY);
    let splats = row_of(60, &camera, |i| {
        [1.0, 4.0, 30.0, 400.0, 4000.0].map(|size| [size, 0.7 * size, 0.4 * size])[i % 5]
    });
    let settings = settings(&splats);
    let capacity = Capacity {
        instances: 1 << 17,
        ..Capacity::for_splats(&splats)
    };
    let out = front.run(&splats, &camera, &settings, capacity);
    check("sizes", &out, &splats, &camera, &settings);
    let most = out.tiles_touched.iter().max().unwrap();
    assert!(*most > 2 * layout::EMIT_BLOCK, "{most}");
}

/// Determinants of needles must not cancel: 300 pixels long, thinner than the dilation.
#[test]
fn long_needles_keep_their_shape() {
    require_gpu!();
    let front = Front::new(context(), 13);
    let camera = Camera::pinhole(1003, 707, 800.0, Pose::IDENTITY);
    let splats = row_of(60, &camera, |_| [300.0, 0.01, 0.01]);
    let settings = settings(&splats);
    let out = front.run(&splats, &camera, &settings, Capacity::for_splats(&splats));
    let visible = reference::visible(&Gaussian::all(&splats), &camera, &settings).unwrap();
    assert_eq!(out.state.visible, 60);
    check_splats("needles", &out, &visible);
    check_slots("needles", &out);
}

/// Exactly one block of instances, over the last tile.
#[test]
fn a_block_that_is_just_full() {
    require_gpu!();
    let front = Front::new(context(), 13);
    let camera = Camera::pinhole(512, 512, 800.0, Pose::IDENTITY);
    let splats = row_of(1, &camera, |_| [4000.0; 3]);
    let settings = settings(&splats);
    let out = front.run(&splats, &camera, &settings, Capacity::for_splats(&splats));
    assert_eq!(out.state.instances, layout::EMIT_BLOCK);
    check("full", &out, &splats, &camera, &settings);
}

#[test]
fn packed_harmonics_give_the_colours_of_what_was_stored() {
    require_gpu!();
    for storage in [Storage::F16, Storage::Bf16] {
        let front = Front::with_storage(context(), 8, storage);
        for name in [
            "random_sh1",
            "random_sh2",
            "random_sh3",
            "active_degree_below_stored",
        ] {
            let mut scene = scenes::named(name);
            let n = scene.splats.len();
            let stride = scene.splats.sh_rest_stride();
            // Each Gaussian is packed with a capacity of one.
            for row in scene.splats.sh_rest.chunks_mut(stride) {
                let words = pack(storage, Values::Parameters, row, 1);
                row.copy_from_slice(&unpack(storage, Values::Parameters, &words, stride, 1));
            }
            let out = front.run(
                &scene.splats,
                &scene.camera,
                &scene.settings,
                Capacity::for_splats(&scene.splats),
            );
            assert_eq!(out.tiles_touched.len(), n);
            check(
                &format!("{name} {storage}"),
                &out,
                &scene.splats,
                &scene.camera,
                &scene.settings,
            );
        }
    }
}

#[test]
fn too_little_room_halts_and_says_how_much_is_wanted() {
    require_gpu!();
    let front = Front::new(context(), 8);
    let scene = scenes::named("crowd");
    let enough = Capacity::for_splats(&scene.splats);
    let run = |capacity| front.run(&scene.splats, &scene.camera, &scene.settings, capacity);
    let State {
        visible,
        instances,
        buckets,
        ..
    } = run(enough).state;
    for (capacity, halted, wanted) in [
        (
            Capacity {
                visible: visible - 1,
                ..enough
            },
            layout::HALT_VISIBLE,
            visible,
        ),
        (
            Capacity {
                visible: 1,
                ..enough
            },
            layout::HALT_VISIBLE,
            visible,
        ),
        (
            Capacity {
                instances: instances - 1,
                ..enough
            },
            layout::HALT_INSTANCES,
            instances,
        ),
        (
            Capacity {
                instances: 1,
                ..enough
            },
            layout::HALT_INSTANCES,
            instances,
        ),
        (
            Capacity {
                buckets: buckets - 1,
                ..enough
            },
            layout::HALT_BUCKETS,
            buckets,
        ),
    ] {
        let out = run(capacity);
        assert_eq!((out.state.halted, out.state.wanted), (halted, wanted));
        assert_eq!(out.state.buckets, 0);
        assert!(
            out.groups.iter().all(|&[x, y, z, _]| x * y * z == 0),
            "{:?}",
            out.groups
        );
        // While halted, a step does nothing.
        let again = front.run_halted(&scene.splats, &scene.camera, &scene.settings, capacity);
        assert_eq!((again.state.halted, again.state.wanted), (halted, wanted));
        assert_eq!((again.state.visible, again.state.instances), (0, 0));
        // `project` did not run.
        assert!(again.tiles_touched.iter().all(|&n| n == 0));
        assert!(again.groups.iter().all(|&[x, y, z, _]| x * y * z == 0));
    }
    let exact = run(Capacity {
        visible,
        instances,
        buckets,
        ..enough
    });
    check(
        "exact room",
        &exact,
        &scene.splats,
        &scene.camera,
        &scene.settings,
    );
}

#[test]
fn nothing_to_see_leaves_empty_tiles() {
    require_gpu!();
    let front = Front::new(context(), 8);
    let scene = scenes::named("random_sh0");
    let mut away = scene.camera;
    away.camera_from_world = Pose::look_at(
        DVec3::new(0.0, 0.0, -50.0),
        DVec3::new(0.0, 0.0, -100.0),
        DVec3::NEG_Y,
    );
    let none = Splats::empty(2);
    for (name, splats) in [("away", &scene.splats), ("none", &none)] {
        let settings = settings(splats);
        let out = front.run(splats, &away, &settings, Capacity::for_splats(splats));
        check(name, &out, splats, &away, &settings);
        assert_eq!(
            (out.state.visible, out.state.instances, out.state.buckets),
            (0, 0, 0)
        );
        assert!(
            out.tile_start
                .iter()
                .chain(&out.bucket_start)
                .all(|&start| start == 0)
        );
    }
}
