//! Scenes that a panorama shows: all round, across the left and right edge, and at the poles.

use super::{BATCH, Batch, Random, TestScene, scatter, scene, slope_of, tilted_camera};
use dapple_scene::{Camera, Panorama, Rays, Splats};
use glam::DVec3;

/// Width and height of the panoramas. The width is no multiple of a tile.
const SIZE: [u32; 2] = [104, 52];

/// Every scene of this module, in a fixed order.
pub(super) fn all() -> Vec<TestScene> {
    let sphere = Panorama::Equirectangular;
    let cylinder = Panorama::Cylindrical;
    vec![
        all_round(sphere, "panorama"),
        seam(sphere, "panorama_seam"),
        poles(sphere, "panorama_poles"),
        around_the_eye(sphere, "panorama_near"),
        all_round(cylinder, "cylinder"),
        seam(cylinder, "cylinder_seam"),
        poles(cylinder, "cylinder_borders"),
        around_the_eye(cylinder, "cylinder_near"),
        beyond_the_borders(cylinder, "cylinder_beyond"),
    ]
}

/// Names of scenes with Gaussians across the left and right edge, one a model.
pub const SEAMS: [&str; 2] = ["panorama_seam", "cylinder_seam"];

/// Returns the point of this depth that lands on a pixel, in camera coordinates; `reach` is that of the lens.
pub(super) fn point_at(camera: &Camera, reach: f64, place: [f64; 2], depth: f64) -> DVec3 {
    if !camera.lens.is_perspective() {
        let ray = Rays::new(camera).ray(place.into());
        return ray.unwrap_or_default() * depth;
    }
    let [a, b] = slope_of(camera, reach, place);
    DVec3::new(a * depth, b * depth, depth)
}

/// A scene to draw: model and name of its camera, and its seed.
type Drawn = (Panorama, &'static str, u64);

fn drawn((panorama, name, seed): Drawn, sh_degree: u8, batches: &[Batch]) -> TestScene {
    let camera = panorama.camera(SIZE[0], SIZE[1], tilted_camera().camera_from_world);
    let mut splats = Splats::empty(sh_degree);
    let random = &mut Random::new(seed);
    for &batch in batches {
        scatter(&mut splats, random, &camera, batch);
    }
    scene(name, splats, camera)
}

/// Gaussians in all directions: half of them are behind +z.
fn all_round(panorama: Panorama, name: &'static str) -> TestScene {
    let batch = Batch {
        count: 300,
        window: [0.0, 104.0, 3.0, 49.0],
        ..BATCH
    };
    drawn((panorama, name, 701), 3, &[batch])
}

/// Gaussians across the left and right edge, from small ones to some that cover the whole width.
fn seam(panorama: Panorama, name: &'static str) -> TestScene {
    let at = |window, count, sigma| Batch {
        count,
        window,
        sigma,
        logit: [-2.0, 2.0],
        ..BATCH
    };
    drawn(
        (panorama, name, 702),
        1,
        &[
            at([-6.0, 6.0, 8.0, 44.0], 80, [0.4, 6.0]),
            at([98.0, 110.0, 8.0, 44.0], 20, [4.0, 12.0]),
            at([0.0, 104.0, 8.0, 44.0], 12, [20.0, 60.0]),
        ],
    )
}

/// Gaussians at the upper and lower edge: on a sphere at both poles, also within half a pixel, where derivatives are
/// bounded.
fn poles(panorama: Panorama, name: &'static str) -> TestScene {
    let at = |low: f64, high: f64, count, depth| Batch {
        count,
        window: [0.0, 104.0, low, high],
        depth,
        sigma: [0.4, 3.0],
        logit: [-2.0, 1.0],
    };
    drawn(
        (panorama, name, 703),
        1,
        &[
            at(0.6, 6.0, 40, [2.0, 4.0]),
            at(46.0, 51.4, 40, [4.2, 8.0]),
            at(0.2, 0.45, 4, [1.0, 1.4]),
            at(51.55, 51.8, 4, [1.5, 1.9]),
        ],
    )
}

/// Gaussians above and below the image, up to the vertical axis: slopes beyond the limits of the Jacobian. Only models that
/// have such places.
fn beyond_the_borders(panorama: Panorama, name: &'static str) -> TestScene {
    let at = |low: f64, high: f64, depth| Batch {
        count: 40,
        window: [0.0, 104.0, low, high],
        depth,
        sigma: [1.0, 14.0],
        logit: [-1.0, 2.0],
    };
    drawn(
        (panorama, name, 705),
        1,
        &[
            at(-20.0, 4.0, [2.0, 4.0]),
            at(48.0, 72.0, [4.2, 8.0]),
            at(-400.0, -60.0, [0.2, 1.0]),
            at(2.0, 50.0, [8.2, 12.0]),
        ],
    )
}

/// Gaussians so near that they are large, and some nearer than the near plane.
fn around_the_eye(panorama: Panorama, name: &'static str) -> TestScene {
    let at = |depth, count, sigma| Batch {
        count,
        window: [0.0, 104.0, 4.0, 48.0],
        depth,
        sigma,
        logit: [-3.0, 0.0],
    };
    drawn(
        (panorama, name, 704),
        0,
        &[
            at([0.02, 0.4], 40, [2.0, 20.0]),
            at([0.001, 0.009], 20, [1.0, 9.0]),
            at([2.0, 6.0], 60, [0.4, 6.0]),
        ],
    )
}
