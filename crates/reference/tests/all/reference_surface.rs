//! Surface depths and normals of one and two Gaussians, in closed form.

use dapple_engine::RenderSettings;
use dapple_reference::{Gaussian, SurfacePoint, surface_of_gaussians};
use dapple_scene::{Camera, Pose};
use glam::{DQuat, DVec3};

const DEPTH: f64 = 4.0;

/// Creates a Gaussian on the camera's axis.
fn gaussian(alpha: f64, scales: [f64; 3], turn: DQuat) -> Gaussian {
    Gaussian {
        mean: DVec3::Z * DEPTH,
        scale: scales.map(f64::ln),
        quat: [turn.w, turn.x, turn.y, turn.z],
        opacity: (alpha / (1.0 - alpha)).ln(),
        shown: 1.0,
        sh: vec![DVec3::ZERO],
    }
}

/// Returns the surface of a pixel of a view of 33 x 33 pixels along +z; the middle is pixel (16, 16).
#[expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
fn at(gaussians: &[Gaussian], x: usize, y: usize) -> SurfacePoint {
    let camera = Camera::pinhole(33, 33, 100.0, Pose::IDENTITY);
    let settings = RenderSettings::default();
    let surface = surface_of_gaussians(gaussians, &camera, &settings).unwrap();
    surface.points[y * 33 + x]
}

fn assert_near(actual: f64, expected: f64) {
    let error = (actual - expected).abs();
    assert!(error < 1e-9 * expected.abs(), "{actual}, not {expected}");
}

#[test]
fn a_gaussian_on_the_axis_has_the_depth_of_its_profile() {
    let scales = [0.3, 0.2, 0.07];
    // In front of the peak: sqrt(1 - G) = 1/2.
    let opaque = at(&[gaussian(0.9, scales, DQuat::IDENTITY)], 16, 16);
    assert_near(
        opaque.depth,
        DEPTH - 0.07 * (2.0 * (0.9f64 / 0.75).ln()).sqrt(),
    );
    assert!(opaque.normal.distance(DVec3::NEG_Z) < 1e-12);
    // Behind the peak: (1 - alpha) / sqrt(1 - G) = 1/2.
    let thin = at(&[gaussian(0.6, scales, DQuat::IDENTITY)], 16, 16);
    assert_near(
        thin.depth,
        DEPTH + 0.07 * (2.0 * (0.6f64 / 0.36).ln()).sqrt(),
    );
    // More than a half passes.
    let haze = at(&[gaussian(0.49, scales, DQuat::IDENTITY)], 16, 16);
    assert_eq!((haze.depth, haze.normal), (0.0, DVec3::ZERO));
}

#[test]
fn gaussians_that_overlap_share_a_surface() {
    let one = gaussian(0.8, [0.3, 0.3, 0.05], DQuat::IDENTITY);
    // (1 - G) = 1/2: in front of the depth of one alone.
    let both = at(&[one.clone(), one.clone()], 16, 16);
    assert_near(
        both.depth,
        DEPTH - 0.05 * (2.0 * (0.8f64 / 0.5).ln()).sqrt(),
    );
    // A second peak far behind changes nothing; the second of two hazes has the surface.
    let mut behind = one.clone();
    behind.mean.z += 2.0;
    let alone = at(std::slice::from_ref(&one), 16, 16);
    assert_near(at(&[one, behind.clone()], 16, 16).depth, alone.depth);
    let haze = gaussian(0.3, [0.3, 0.3, 0.05], DQuat::IDENTITY);
    let depth = at(&[haze, behind], 16, 16).depth;
    let passed: f64 = 1.0 - (0.5f64 / 0.7).powi(2);
    assert_near(
        depth,
        DEPTH + 2.0 - 0.05 * (2.0 * (0.8 / passed).ln()).sqrt(),
    );
}

#[test]
fn a_flat_gaussian_has_the_surface_of_its_plane() {
    let turn = DQuat::from_rotation_y(0.6);
    let plane = turn * DVec3::NEG_Z;
    // Large compared with a pixel's dilation, and thin.
    let disc = gaussian(0.95, [0.5, 0.5, 1e-4], turn);
    for (x, y) in [(16, 16), (19, 16), (12, 18), (22, 9)] {
        let point = at(std::slice::from_ref(&disc), x, y);
        let ray = DVec3::new((x as f64 - 16.0) / 100.0, (y as f64 - 16.0) / 100.0, 1.0);
        let expected = DEPTH * plane.z / plane.dot(ray);
        // The dilation of 0.3 pixels squared makes the slanted disc 0.014 thick along the ray.
        let error = (point.depth - expected).abs();
        assert!(error < 0.015, "({x}, {y}): {} of {expected}", point.depth);
        assert!(point.normal.distance(plane) < 1e-3, "{}", point.normal);
    }
}

#[test]
fn the_order_of_centres_does_not_decide() {
    // The nearer centre is a long Gaussian that is behind the disc at this pixel.
    let wall = gaussian(0.9, [0.4, 0.4, 0.01], DQuat::IDENTITY);
    let mut slanted = gaussian(0.9, [1.0, 0.4, 0.01], DQuat::from_rotation_y(-0.8));
    slanted.mean.z -= 0.05;
    let both = [wall.clone(), slanted.clone()];
    let (left, right) = (at(&both, 6, 16).depth, at(&both, 26, 16).depth);
    let slanted_alone = [at(&[slanted.clone()], 6, 16), at(&[slanted], 26, 16)];
    let wall = at(&[wall], 16, 16).depth;
    let nearer = slanted_alone.map(|p| p.depth.min(wall));
    assert!((left - nearer[0]).abs() < 0.03, "{left}, not {nearer:?}");
    assert!((right - nearer[1]).abs() < 0.03, "{right}, not {nearer:?}");
    assert!((left - right).abs() > 0.1, "{left} and {right}");
}
