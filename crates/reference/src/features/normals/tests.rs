//! Normal consistency: gradients against central finite differences, and the Gaussians that it moves into a surface.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::oracle::{NormalConsistency, PlaneImage, normal_loss};
use crate::finite_differences::{
    Recipe, Scene, assert_agrees_without, assert_close, central_difference, weights,
};
use crate::{self as reference, Gaussian};
use dapple_engine::RenderSettings;
use dapple_scene::{Camera, Lens, Panorama, Pose};
use glam::{DQuat, DVec3};

fn loss(scene: &Scene) -> NormalConsistency {
    let (camera, settings) = (&scene.camera, &scene.settings);
    let stride = scene.sh_rest_stride();
    reference::normal_consistency(&scene.gaussians, stride, camera, settings, 50.0).unwrap()
}

/// Random flat Gaussians that overlap at similar depths, so that many pixels have a normal.
fn crowd(recipe: Recipe) -> Scene {
    let mut scene = recipe.draw();
    let eye = reference::PosedLens::new(&scene.camera).unwrap();
    for gaussian in &mut scene.gaussians {
        let point = eye.to_camera(gaussian.mean);
        let nearer = point * (3.0 + 0.1 * (point.z - 3.0)) / point.z;
        gaussian.mean = eye.rotation.transpose() * (nearer - eye.translation);
        gaussian.opacity += 2.0;
    }
    scene
}

#[test]
fn every_parameter_and_the_pose_through_normals() {
    let plain = Recipe {
        size: 3.0,
        ..Recipe::PLAIN
    };
    for recipe in [
        plain,
        Recipe {
            off_centre: true,
            ..plain
        },
        Recipe {
            antialias: true,
            ..plain
        },
        Recipe {
            lens: Lens::OpenCv([-0.16, 0.05, 0.012, -0.015]),
            ..plain
        },
    ] {
        let scene = crowd(recipe);
        let at = loss(&scene);
        assert!(at.counted > 50, "{} pixels have a normal", at.counted);
        let scalar = |scene: &Scene| loss(scene).value;
        assert_agrees_without(&scene, &at.gradients, &["sh0", "sh_rest"], scalar);
    }
}

/// The channels of a wavy surface: every derivative of the loss of the image.
#[test]
fn every_channel_of_the_image() {
    let panoramas = Panorama::ALL.map(Lens::Panorama);
    for lens in std::iter::once(Lens::Pinhole).chain(panoramas) {
        let mut camera = Camera::pinhole(9, 7, 12.0, Pose::IDENTITY);
        camera.lens = lens;
        let n = 9 * 7;
        let noise = weights(3, 5 * n);
        let image = PlaneImage {
            normals: (0..n)
                .map(|i| {
                    let turn = DVec3::new(noise[i], noise[n + i], noise[2 * n + i]);
                    let ray = dapple_scene::Rays::new(&camera)
                        .ray(glam::DVec2::new((i % 9) as f64 + 0.5, (i / 9) as f64 + 0.5));
                    -0.8 * ray.unwrap().normalize() + 0.02 * turn
                })
                .collect(),
            distances: (0..n).map(|i| -2.0 + 0.01 * noise[3 * n + i]).collect(),
            alpha: (0..n).map(|i| 0.85 + 0.05 * noise[4 * n + i]).collect(),
        };
        let at = normal_loss(&camera, &image, 7.0);
        assert!(at.counted > 10, "{} pixels", at.counted);
        let moved = |change: &dyn Fn(&mut PlaneImage)| {
            let mut image = image.clone();
            change(&mut image);
            normal_loss(&camera, &image, 7.0).value
        };
        let numeric = |change: &dyn Fn(&mut PlaneImage, f64)| {
            central_difference(|by| moved(&|image| change(image, by)))
        };
        let normals: Vec<f64> = (0..3 * n)
            .map(|i| numeric(&|image, by| image.normals[i / 3][i % 3] += by))
            .collect();
        let flat: Vec<f64> = at.by.normals.iter().flat_map(|v| v.to_array()).collect();
        assert_close("normals", &flat, &normals);
        let distances: Vec<f64> = (0..n)
            .map(|i| numeric(&|image, by| image.distances[i] += by))
            .collect();
        assert_close("distances", &at.by.distances, &distances);
        let alpha: Vec<f64> = (0..n)
            .map(|i| numeric(&|image, by| image.alpha[i] += by))
            .collect();
        assert_close("alpha", &at.by.alpha, &alpha);
    }
}

fn disc(mean: DVec3, turn: DQuat) -> Gaussian {
    Gaussian {
        mean,
        scale: [0.3f64, 0.3, 1e-3].map(f64::ln),
        quat: [turn.w, turn.x, turn.y, turn.z],
        opacity: 3.0,
        shown: 1.0,
        sh: vec![DVec3::ZERO],
    }
}

/// Discs in a tilted plane have no loss; discs that are turned, or are before and behind it, move into it.
#[test]
fn discs_move_into_a_plane() {
    let tilt = DQuat::from_rotation_x(0.4);
    let camera = Camera::pinhole(32, 32, 50.0, Pose::IDENTITY);
    let settings = RenderSettings::default();
    let at = |discs: &[Gaussian]| {
        reference::normal_consistency(discs, 0, &camera, &settings, 1.0).unwrap()
    };
    let noise = weights(4, 4 * 49);
    let discs = |turned: f64, moved: f64| -> Vec<Gaussian> {
        let of = |i: usize| {
            let place = DVec3::new((i % 7) as f64 - 3.0, (i / 7) as f64 - 3.0, 0.0);
            let place = tilt * (0.3 * place) + 4.0 * DVec3::Z;
            let axis = DVec3::new(noise[4 * i], noise[4 * i + 1], noise[4 * i + 2]).normalize();
            let turn = DQuat::from_axis_angle(axis, turned) * tilt;
            disc(place * (1.0 + moved * noise[4 * i + 3]), turn)
        };
        (0..49).map(of).collect()
    };
    let fitting = at(&discs(0.0, 0.0));
    assert!(fitting.counted > 500, "{} pixels", fitting.counted);
    assert!(fitting.value < 1e-4, "{}", fitting.value);
    for (turned, moved) in [(0.3, 0.0), (0.0, 0.01)] {
        let mut discs = discs(turned, moved);
        let before = at(&discs);
        for _ in 0..60 {
            let g = at(&discs).gradients;
            for (i, disc) in discs.iter_mut().enumerate() {
                disc.mean -= 0.1 * DVec3::from(g.means[i]);
                disc.quat = std::array::from_fn(|k| disc.quat[k] - 0.5 * g.quats[i][k]);
            }
        }
        let after = at(&discs).value;
        assert!(
            after < 0.5 * before.value,
            "{after}, before {}",
            before.value
        );
    }
}
