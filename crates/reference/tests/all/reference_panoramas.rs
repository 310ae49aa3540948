//! Panoramas: the reference's projection against `Rays`, its derivatives against central finite differences, and the
//! copies of ellipses that tiles see.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use dapple_engine::camera_model::least_cosine;
use dapple_engine::{ImageDerivative, PosedCamera, RenderSettings};
use dapple_reference::finite_differences::{
    Scene, assert_agrees, central_difference, dot, weights,
};
use dapple_reference::scenes::Random;
use dapple_reference::{self as reference, Gaussian, PosedLens};
use dapple_scene::{Camera, Panorama, Pose, Rays, sh_coefficient_count};
use glam::{DVec2, DVec3};

fn camera(panorama: Panorama) -> Camera {
    let pose = Pose::look_at(
        DVec3::new(0.9, -0.5, -3.0),
        DVec3::new(0.1, 0.0, 0.2),
        DVec3::new(0.1, -1.0, 0.2),
    );
    panorama.camera(40, 20, pose)
}

/// Returns points in all directions, without the half pixel around the poles.
fn points(camera: &Camera, seed: u64) -> Vec<DVec3> {
    let (mut random, rays) = (Random::new(seed), Rays::new(camera));
    (0..200)
        .map(|_| {
            let pixel = DVec2::new(random.uniform(0.0, 40.0), random.uniform(0.6, 19.4));
            rays.ray(pixel).unwrap() * random.uniform(0.1, 5.0)
        })
        .collect()
}

#[test]
fn points_land_where_rays_say() {
    for camera in Panorama::ALL.map(camera) {
        let (eye, rays) = (PosedLens::new(&camera).unwrap(), Rays::new(&camera));
        for point in points(&camera, 1) {
            let got = eye.lens.project(point).centre;
            assert!(got.distance(rays.pixel(point).unwrap()) < 1e-9, "{point}");
            assert!(eye.lens.shows(point));
            assert!((eye.lens.depth(point) - rays.depth(point)).abs() < 1e-12);
        }
    }
}

#[test]
fn the_projection_its_jacobian_and_the_depth_have_the_right_derivatives() {
    for (eye, point) in Panorama::ALL.iter().flat_map(|&panorama| {
        let camera = camera(panorama);
        points(&camera, 2)
            .into_iter()
            .map(move |point| (PosedLens::new(&camera).unwrap(), point))
    }) {
        let here = eye.lens.project(point);
        for axis in 0..3 {
            let moved = |by: f64| eye.lens.project(point + DVec3::AXES[axis] * by);
            let depth = central_difference(|by| eye.lens.depth(point + DVec3::AXES[axis] * by));
            assert_near(point, eye.lens.depth_gradient(point)[axis], depth);
            for row in 0..2 {
                let numeric = central_difference(|by| moved(by).centre[row]);
                assert_near(point, here.centre_gradient[row][axis], numeric);
                assert_near(point, here.jacobian[row][axis], numeric);
                for column in 0..3 {
                    let numeric = central_difference(|by| moved(by).jacobian[row][column]);
                    assert_near(point, here.jacobian_gradient[row][column][axis], numeric);
                }
            }
        }
    }
}

#[track_caller]
fn assert_near(point: DVec3, analytic: f64, numeric: f64) {
    let off = (analytic - numeric).abs();
    assert!(
        off < 1e-5 * (50.0 + analytic.abs()),
        "{point}: {analytic} {numeric}"
    );
}

/// Up to the pole itself, no derivative exceeds that at half a pixel.
#[test]
fn derivatives_at_the_poles_are_bounded() {
    let camera = camera(Panorama::Equirectangular);
    let eye = PosedLens::new(&camera).unwrap();
    let (fx, fy) = (camera.fx, camera.fy);
    let most = fx / f64::from(least_cosine(fy as f32));
    for off in [0.0, 1e-12, 1e-6, 1e-3, 0.01] {
        for y in [-1.0, 1.0] {
            let shape = eye.lens.project(DVec3::new(-0.6 * off, y, 0.8 * off));
            assert!(shape.centre.is_finite());
            let [u, v] = shape.jacobian;
            assert!(u.length() <= most * (1.0 + 1e-6) && v.length() <= fy * (1.0 + 1e-6));
            let second = shape.jacobian_gradient.as_flattened().iter();
            let bound = 4.0 * most / f64::from(least_cosine(fy as f32));
            assert!(second.clone().all(|g| g.is_finite() && g.length() < bound));
        }
    }
}

/// Returns a smooth scene with Gaussians in these windows of pixels; sizes in pixels.
fn scene(camera: &Camera, windows: &[([f64; 4], [f64; 2])], antialias: bool) -> Scene {
    (0..2000)
        .map(|seed| draw(seed, camera, windows, antialias))
        .find(|scene| scene.is_smooth())
        .unwrap()
}

fn draw(seed: u64, camera: &Camera, windows: &[([f64; 4], [f64; 2])], antialias: bool) -> Scene {
    let mut random = Random::new(0xe9_0000 + seed);
    let (camera, rays) = (*camera, Rays::new(camera));
    let pose = camera.camera_from_world;
    let gaussian = |random: &mut Random,
                    ([left, right, top, bottom], sizes): ([f64; 4], [f64; 2])| {
        let pixel = DVec2::new(random.uniform(left, right), random.uniform(top, bottom));
        let depth = random.uniform(1.0, 5.0);
        let point = rays.ray(pixel).unwrap() * depth;
        Gaussian {
            mean: pose.rotation.conjugate() * (point - pose.translation),
            scale: std::array::from_fn(|_| {
                random.uniform(sizes[0].ln(), sizes[1].ln()) + (depth / camera.fx).ln()
            }),
            quat: std::array::from_fn(|_| random.uniform(-1.5, 1.5)),
            opacity: random.uniform(-2.0, 2.0),
            shown: 1.0,
            sh: (0..sh_coefficient_count(1))
                .map(|_| DVec3::from(std::array::from_fn(|_| random.uniform(-0.6, 0.6))))
                .collect(),
        }
    };
    Scene {
        gaussians: windows
            .iter()
            .flat_map(|&window| (0..4).map(move |_| window))
            .map(|window| gaussian(&mut random, window))
            .collect(),
        camera,
        settings: RenderSettings {
            background: [0.3, 0.7, 0.5],
            sh_degree: 1,
            antialias,
            ..RenderSettings::default()
        },
    }
}

/// From the image to every parameter and the pose: in front, behind, across the left and right edge, and near the poles.
#[test]
fn every_parameter_and_the_pose() {
    for (name, windows) in [
        ("in front", [([12.0, 28.0, 4.0, 16.0], [0.5, 4.0]); 2]),
        (
            "behind",
            [
                ([0.0, 8.0, 4.0, 16.0], [0.5, 3.0]),
                ([32.0, 40.0, 4.0, 16.0], [0.5, 3.0]),
            ],
        ),
        (
            "across the left and right edge",
            [
                ([-2.0, 2.0, 4.0, 16.0], [1.0, 4.0]),
                ([0.0, 40.0, 6.0, 14.0], [3.0, 9.0]),
            ],
        ),
        (
            "near the poles",
            [
                ([0.0, 40.0, 0.7, 2.5], [0.4, 1.5]),
                ([0.0, 40.0, 17.5, 19.3], [0.4, 1.5]),
            ],
        ),
    ] {
        let cases = Panorama::ALL.iter().flat_map(|&p| [(p, false), (p, true)]);
        for (panorama, antialias) in cases {
            println!("{panorama:?}, {name}, {antialias}");
            let scene = scene(&camera(panorama), &windows, antialias);
            let n = scene.pixels();
            let (rgb, alpha, depth) = (weights(1, 3 * n), weights(2, n), weights(3, n));
            let derivative = ImageDerivative {
                rgb: &rgb,
                alpha: Some(&alpha),
                depth: Some(&depth),
            };
            let analytic = reference::differentiate_gaussians(
                &scene.gaussians,
                scene.sh_rest_stride(),
                &scene.camera,
                &scene.settings,
                &derivative,
            );
            assert_agrees(&scene, &analytic.unwrap(), |scene| {
                let image = scene.render();
                dot(&rgb, &image.rgb) + dot(&alpha, &image.alpha) + dot(&depth, &image.depth)
            });
        }
    }
}

/// A camera that turns about its vertical axis by whole pixels shifts its image around: no column is special, not even
/// the first and the last. The shift is a whole number of tiles, so that tiles see the same copies.
#[test]
fn a_turned_panorama_is_a_shifted_one() {
    for panorama in Panorama::ALL {
        let scene = draw(
            5,
            &camera(panorama),
            &[
                ([0.0, 64.0, 4.0, 28.0], [0.5, 9.0]),
                ([-2.0, 2.0, 4.0, 28.0], [0.5, 9.0]),
            ],
            false,
        );
        let at = |turn: f64| {
            let pose = Pose {
                rotation: glam::DQuat::from_rotation_y(turn)
                    * scene.camera.camera_from_world.rotation,
                translation: glam::DQuat::from_rotation_y(turn)
                    * scene.camera.camera_from_world.translation,
            };
            let camera = panorama.camera(64, 32, pose);
            reference::render_gaussians(&scene.gaussians, &camera, &scene.settings).unwrap()
        };
        let (still, turned) = (at(0.0), at(std::f64::consts::TAU / 4.0));
        for y in 0..32 {
            for x in 0..64 {
                let moved = (x + 16) % 64;
                let off = (still.alpha[y * 64 + x] - turned.alpha[y * 64 + moved]).abs();
                assert!(off < 1e-9, "{x} {y}: {off}");
            }
        }
    }
}

#[test]
fn parts_of_a_panorama_are_refused() {
    for whole in Panorama::ALL.map(camera) {
        assert!(PosedCamera::new(&whole).is_ok());
        assert!(PosedCamera::new(&whole.resized(20, 10)).is_ok());
        for part in [
            Camera { width: 20, ..whole },
            Camera { fx: 9.0, ..whole },
            Camera { cx: 3.0, ..whole },
        ] {
            assert!(PosedCamera::new(&part).unwrap_err().hint_text().is_some());
        }
    }
    let whole = camera(Panorama::Equirectangular);
    let part = Camera { cy: 3.0, ..whole };
    assert!(PosedCamera::new(&part).is_err());
}
