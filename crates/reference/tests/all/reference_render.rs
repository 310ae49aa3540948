//! The reference's forward pass against independently known values.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use dapple_engine::{Gradients, RenderSettings};
use dapple_reference as reference;
use dapple_reference::scenes::{self, Random, TestScene};
use dapple_reference::{
    self, Image, Projected, TileLists, ellipse_touches_rect, sh_basis, sh_basis_gradient,
};
use dapple_scene::{Camera, ErrorKind, Lens, Pose, Splats};
use glam::{DVec2, DVec3};
use std::f64::consts::TAU;

fn render(scene: &TestScene) -> Image {
    reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap()
}

fn visible(scene: &TestScene) -> Vec<Projected> {
    let gaussians = reference::Gaussian::all(&scene.splats);
    reference::visible(&gaussians, &scene.camera, &scene.settings).unwrap()
}

fn gradients(scene: &TestScene) -> Gradients<f64> {
    let pixels = (scene.camera.width * scene.camera.height) as usize;
    let mut random = Random::new(1);
    let rgb: Vec<f64> = (0..3 * pixels).map(|_| random.uniform(-1.0, 1.0)).collect();
    let alpha: Vec<f64> = (0..pixels).map(|_| random.uniform(-1.0, 1.0)).collect();
    let (camera, settings) = (&scene.camera, &scene.settings);
    reference::gradients(&scene.splats, camera, settings, &rgb, Some(&alpha)).unwrap()
}

/// Creates a Gaussian on the optical axis, 2 in front of a camera whose axis is the middle pixel's
/// centre.
fn single(sigma: f32, logit: f32, sh0: [f32; 3]) -> TestScene {
    let mut splats = Splats::empty(0);
    splats.means.push([0.0, 0.0, 2.0]);
    splats.scales.push([sigma.ln(); 3]);
    splats.quats.push([0.5, -1.0, 2.0, 0.3]);
    splats.opacities.push(logit);
    splats.sh0.push(sh0);
    TestScene {
        name: "single",
        splats,
        camera: Camera::pinhole(31, 21, 40.0, Pose::IDENTITY),
        settings: RenderSettings {
            background: [0.0, 0.5, 1.0],
            ..RenderSettings::default()
        },
    }
}

#[test]
fn one_isotropic_gaussian() {
    let sigma = 0.15;
    let image = render(&single(sigma as f32, 1.0, [1.0, -0.5, -3.0]));
    // On the axis the Jacobian is f / z: a circle of (0.15 * 40 / 2)^2 + 0.3 pixels squared.
    let variance = (sigma * 20.0f64).powi(2) + 0.3;
    let opacity = 1.0 / (1.0 + (-1.0f64).exp());
    let c0 = 0.282_094_791_773_878_14;
    let colour = [0.5 + c0, 0.5 - 0.5 * c0, 0.0];
    for (dx, dy) in [(0i32, 0i32), (3, 0), (-2, 5), (0, -8)] {
        let i = ((10 + dy) * 31 + 15 + dx) as usize;
        let alpha = opacity * (-0.5 * f64::from(dx * dx + dy * dy) / variance).exp();
        assert!((image.alpha[i] - alpha).abs() < 1e-6);
        for (k, background) in [0.0, 0.5, 1.0].into_iter().enumerate() {
            let expected = alpha * colour[k] + (1.0 - alpha) * background;
            assert!((image.rgb[3 * i + k] - expected).abs() < 1e-6);
        }
    }
    // Contributions with alpha below 1/255 are skipped.
    assert_eq!(image.alpha[0], 0.0);
    assert_eq!(image.rgb[..3], [0.0, 0.5, 1.0]);
}

#[test]
fn the_nearer_of_two_hides_the_other_and_alpha_is_clamped() {
    let mut scene = single(0.5, 20.0, [1.0; 3]);
    let mut behind = single(0.5, 20.0, [-1.0; 3]).splats;
    behind.means[0][2] = 3.0;
    // The farther one comes first in memory.
    scene.splats.means.insert(0, behind.means[0]);
    scene.splats.scales.insert(0, behind.scales[0]);
    scene.splats.quats.insert(0, behind.quats[0]);
    scene.splats.opacities.insert(0, behind.opacities[0]);
    scene.splats.sh0.insert(0, behind.sh0[0]);
    let image = render(&scene);
    let middle = 10 * 31 + 15;
    // The second would leave 1e-6 < 1e-4 of the light: the pixel ends after the first.
    assert!((image.alpha[middle] - 0.999).abs() < 1e-6);
    let near = 0.5 + 0.282_094_8;
    assert!((image.rgb[3 * middle] - 0.999 * near).abs() < 1e-5);
    let g = gradients(&scene);
    assert!(g.sh0[0][0].abs() < g.sh0[1][0].abs());
}

/// Computes integrals over the sphere by a product rule that is exact for these polynomials.
#[test]
fn spherical_harmonics_are_orthonormal() {
    let (rings, sectors) = (400, 16);
    let mut gram = [[0.0; 16]; 16];
    for i in 0..rings {
        let z = -1.0 + (f64::from(i) + 0.5) * 2.0 / f64::from(rings);
        for j in 0..sectors {
            let phi = TAU * f64::from(j) / f64::from(sectors);
            let r = (1.0 - z * z).sqrt();
            let basis = sh_basis(3, DVec3::new(r * phi.cos(), r * phi.sin(), z));
            let area = 2.0 / f64::from(rings) * TAU / f64::from(sectors);
            for a in 0..16 {
                for b in 0..16 {
                    gram[a][b] += area * basis[a] * basis[b];
                }
            }
        }
    }
    for (a, row) in gram.iter().enumerate() {
        for (b, value) in row.iter().enumerate() {
            let expected = if a == b { 1.0 } else { 0.0 };
            assert!((value - expected).abs() < 1e-3, "{a} {b} {value}");
        }
    }
}

/// The signs and constants that splat files rely on, from the 3DGS paper's code, as decimals.
#[test]
fn spherical_harmonics_follow_the_files_convention() {
    let basis = sh_basis(3, DVec3::new(0.48, 0.6, 0.64));
    let expected = [
        0.282_094_791_773_878_1,
        -0.488_602_511_902_919_9 * 0.6,
        0.488_602_511_902_919_9 * 0.64,
        -0.488_602_511_902_919_9 * 0.48,
        1.092_548_430_592_079_2 * 0.48 * 0.6,
        -1.092_548_430_592_079_2 * 0.6 * 0.64,
        0.315_391_565_252_520_05 * (2.0 * 0.4096 - 0.2304 - 0.36),
        -1.092_548_430_592_079_2 * 0.48 * 0.64,
        0.546_274_215_296_039_6 * (0.2304 - 0.36),
        -0.590_043_589_926_643_5 * 0.6 * (3.0 * 0.2304 - 0.36),
        2.890_611_442_640_554 * 0.48 * 0.6 * 0.64,
        -0.457_045_799_464_465_8 * 0.6 * (4.0 * 0.4096 - 0.2304 - 0.36),
        0.373_176_332_590_115_4 * 0.64 * (2.0 * 0.4096 - 3.0 * 0.2304 - 3.0 * 0.36),
        -0.457_045_799_464_465_8 * 0.48 * (4.0 * 0.4096 - 0.2304 - 0.36),
        1.445_305_721_320_277 * 0.64 * (0.2304 - 0.36),
        -0.590_043_589_926_643_5 * 0.48 * (0.2304 - 3.0 * 0.36),
    ];
    assert_eq!(basis.len(), expected.len());
    for (k, (value, expected)) in basis.iter().zip(expected).enumerate() {
        assert!((value - expected).abs() < 1e-12, "{k}: {value} {expected}");
    }
    for degree in 0..=3 {
        let count = (usize::from(degree) + 1).pow(2);
        assert_eq!(sh_basis(degree, DVec3::Z).len(), count);
        assert_eq!(sh_basis_gradient(degree, DVec3::Z).len(), count);
    }
}

#[test]
fn an_empty_scene_is_background() {
    let scene = scenes::named("empty");
    let image = render(&scene);
    assert!(image.alpha.iter().all(|&a| a == 0.0));
    for pixel in image.rgb.chunks(3) {
        assert_eq!(pixel, scene.settings.background.map(f64::from));
    }
    assert_eq!(gradients(&scene), Gradients::zeros(0, 24));
}

#[test]
fn every_scene_is_finite_and_shows_something() {
    for scene in scenes::all() {
        let image = render(&scene);
        assert!(image.rgb.iter().chain(&image.alpha).all(|v| v.is_finite()));
        let g = gradients(&scene);
        for (name, values) in g.tensors() {
            assert!(
                values.iter().all(|v| v.is_finite()),
                "{} {name}",
                scene.name
            );
        }
        assert!(g.pose.iter().all(|v| v.is_finite()));
        if scene.name != "empty" {
            let covered = image.alpha.iter().filter(|&&a| a > 0.1).count();
            let share = covered as f64 / image.alpha.len() as f64;
            let least = match scene.name {
                "deep_stack" => 0.02,
                "cylinder_borders" => 0.2,
                _ => 0.3,
            };
            assert!(share > least, "{}: {share} covered", scene.name);
        }
    }
}

#[test]
fn absent_gaussians_are_those_named_and_have_no_gradient() {
    let absent = |name: &str| {
        let scene = scenes::named(name);
        let absent = reference::absent(&scene.splats, &scene.camera, &scene.settings).unwrap();
        let g = gradients(&scene);
        for &i in &absent {
            assert_eq!((g.means[i], g.quats[i]), ([0.0; 3], [0.0; 4]));
            assert_eq!((g.opacities[i], g.sh0[i]), (0.0, [0.0; 3]));
        }
        absent
    };
    let planted = (0..3)
        .flat_map(|j| (0..6).map(move |k| 10 * j + k))
        .chain([40]);
    assert_eq!(absent("non_finite"), planted.collect::<Vec<_>>());
    assert_eq!(
        absent("quaternions"),
        (0..30).map(|i| 10 * i + 3).collect::<Vec<_>>()
    );
    // Sixty behind the camera and six in front of the near plane.
    assert_eq!(absent("out_of_sight"), (80..146).collect::<Vec<_>>());
    assert_eq!(
        absent("opacity_extremes"),
        (0..60).map(|i| 5 * i + 1).collect::<Vec<_>>()
    );
}

/// Removing absent Gaussians changes nothing.
#[test]
fn absent_gaussians_can_be_removed() {
    let mut scene = scenes::named("non_finite");
    let before = render(&scene);
    let absent = reference::absent(&scene.splats, &scene.camera, &scene.settings).unwrap();
    scene.splats.retain(|i| !absent.contains(&i));
    assert_eq!(render(&scene), before);
}

#[test]
fn ties_in_depth_are_blended_by_index() {
    let scene = scenes::named("depth_ties");
    let visible = visible(&scene);
    let ties = visible.windows(2).filter(|w| w[0].depth == w[1].depth);
    assert!(ties.clone().count() > 200);
    assert!(ties.clone().all(|w| w[0].index < w[1].index));
}

#[test]
fn an_ellipse_touches_the_rectangles_its_points_lie_in() {
    let mut random = Random::new(9);
    let scene = scenes::named("needles");
    let (mut touching, mut missing) = (0, 0);
    for v in visible(&scene) {
        let corner = DVec2::new(random.uniform(-20.0, 80.0), random.uniform(-20.0, 60.0));
        let size = DVec2::new(random.uniform(0.0, 15.0), random.uniform(0.0, 15.0));
        let rect = reference::PixelRect {
            min: corner,
            max: corner + size,
        };
        // By sampling: the least power on a fine grid is slightly above the true one.
        let [a, b, c] = v.conic;
        let mut least = f64::INFINITY;
        for i in 0..=200 {
            for j in 0..=200 {
                let at = DVec2::new(f64::from(i), f64::from(j)) / 200.0;
                let d = corner + size * at - v.centre;
                least = least.min(0.5 * (a * d.x * d.x + c * d.y * d.y) + b * d.x * d.y);
            }
        }
        let exact = reference::least_power_in_rect(&v, rect);
        assert!(exact <= least + 1e-9, "{exact} {least}");
        let slack = 1e-3 + 0.05 * least;
        assert!(exact >= least - slack, "{exact} {least}");
        if ellipse_touches_rect(&v, rect) {
            touching += 1;
        } else {
            missing += 1;
        }
    }
    assert!(touching > 5 && missing > 5, "{touching} {missing}");
}

/// A limit that no tile reaches changes nothing: Gaussians that a pixel sees are in its tile's
/// list.
#[test]
fn tile_lists_hold_everything_that_pixels_see() {
    for mut scene in scenes::all() {
        scene.settings.max_gaussians_per_tile = 0;
        let free = render(&scene);
        scene.settings.max_gaussians_per_tile = u32::MAX;
        assert_eq!(render(&scene), free, "{}", scene.name);
    }
}

#[test]
fn the_cap_cuts_where_it_should() {
    let mut scene = scenes::named("tile_cap");
    let cap = scene.settings.max_gaussians_per_tile as usize;
    let tiles = TileLists::touching(&visible(&scene), &scene.camera);
    assert!(tiles.lists.iter().any(|list| list.len() > 2 * cap));
    let capped = render(&scene);
    scene.settings.max_gaussians_per_tile = 0;
    let free = render(&scene);
    assert_ne!(capped, free);
    // Fewer layers let more light through.
    assert!(capped.alpha.iter().zip(&free.alpha).all(|(c, f)| c <= f));
}

/// Engines decide in `f32`. Scenes must not depend on the last bits of a decision that moves many
/// pixels: the order in depth and the lists of limited tiles.
#[test]
fn scenes_leave_f32_a_margin() {
    for scene in scenes::all() {
        let visible = visible(&scene);
        for pair in visible.windows(2) {
            let gap = (pair[1].depth - pair[0].depth) / pair[0].depth;
            assert!(gap == 0.0 || gap > 2e-6, "{}: {gap:e}", scene.name);
        }
        if scene.settings.max_gaussians_per_tile > 0 {
            let tiles = TileLists::touching(&visible, &scene.camera);
            for y in 0..tiles.tiles_y {
                for x in 0..tiles.tiles_x {
                    let rect = reference::PixelRect::of_tile(x, y, &scene.camera);
                    for v in &visible {
                        let limit = (v.opacity * 255.0).ln();
                        let least = reference::least_power_in_rect(v, rect);
                        assert!((least - limit).abs() > 1e-4, "{}", scene.name);
                    }
                }
            }
        }
    }
}

/// The Jacobian's limits are 0.3 of half the field of view outside each edge. Computed by hand for
/// an image of 26 x 18 with its principal point near a corner.
#[test]
fn the_jacobian_is_limited_from_the_images_edges() {
    let camera = Camera {
        fx: 31.0,
        fy: 19.0,
        cx: 5.3,
        cy: 13.9,
        ..Camera::pinhole(26, 18, 1.0, Pose::IDENTITY)
    };
    let eye = reference::PosedLens::new(&camera).unwrap();
    for (point, u, v) in [
        (DVec3::new(-9.0, -9.0, 2.0), -(5.3 + 3.9), -(13.9 + 2.7)),
        (DVec3::new(9.0, 9.0, 2.0), 20.7 + 3.9, 4.1 + 2.7),
        (DVec3::new(0.1, -0.2, 2.0), 31.0 * 0.05, 19.0 * -0.1),
    ] {
        // The last column is -f slope / z, and f slope is a distance in pixels.
        let [row_u, row_v] = eye.lens.project(point).jacobian;
        assert!((row_u.z + u / 2.0).abs() < 1e-6, "{row_u} {u}");
        assert!((row_v.z + v / 2.0).abs() < 1e-6, "{row_v} {v}");
        assert_eq!((row_u.x, row_u.y, row_v.x, row_v.y), (15.5, 0.0, 0.0, 9.5));
    }
}

#[test]
fn bad_cameras_and_sizes_are_errors() {
    let scene = scenes::named("random_sh0");
    let kind = |camera: Camera| {
        let result = reference::render(&scene.splats, &camera, &scene.settings);
        result.unwrap_err().kind()
    };
    let good = scene.camera;
    let fisheye = Lens::Fisheye([f64::NAN, 0.0, 0.0, 0.0]);
    assert_eq!(
        kind(Camera {
            lens: fisheye,
            ..good
        }),
        ErrorKind::Input
    );
    assert_eq!(
        kind(Camera {
            fx: f64::NAN,
            ..good
        }),
        ErrorKind::Input
    );
    assert_eq!(kind(Camera { fy: 0.0, ..good }), ErrorKind::Input);
    assert_eq!(kind(Camera { width: 0, ..good }), ErrorKind::Input);
    let short = [0.0; 3];
    let result = reference::gradients(&scene.splats, &good, &scene.settings, &short, None);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Input);
}
