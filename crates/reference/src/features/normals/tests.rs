//! Normal consistency: gradients against central finite differences, and the Gaussians that it moves into a surface.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::matching::{Seen, matching_loss};
use super::oracle::{PlaneConsistency, PlaneImage, normal_loss};
use crate::finite_differences::{
    Recipe, Scene, assert_agrees_without, assert_close, central_difference, weights,
};
use crate::{self as reference, Gaussian};
use dapple_engine::RenderSettings;
use dapple_scene::grey::GreyPhoto;
use dapple_scene::{Camera, Lens, Panorama, Pose};
use glam::{DQuat, DVec2, DVec3};

fn loss(scene: &Scene) -> PlaneConsistency {
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

/// A wavy grey pattern that differs between photos.
fn pattern(size: [u32; 2], phase: f64) -> GreyPhoto {
    let [width, height] = size;
    let shade = |i: u32| {
        let (x, y) = (
            f64::from(i % width) / f64::from(width),
            f64::from(i / width) / f64::from(height),
        );
        let waves = (19.0 * x + 7.0 * y + phase).sin() + (23.0 * y - 5.0 * x + 0.5).sin();
        (128.0 + 55.0 * waves) as u8
    };
    GreyPhoto {
        size,
        shades: (0..width * height).map(shade).collect(),
    }
}

/// A neighbour of a camera, a little to its right.
fn neighbour(camera: &Camera, by: f64) -> Camera {
    let mut other = *camera;
    let turn = DQuat::from_rotation_y(-0.2 * by);
    let pose = &mut other.camera_from_world;
    pose.rotation = turn * pose.rotation;
    pose.translation = turn * pose.translation + DVec3::new(0.5 * by, 0.03, 0.02);
    other
}

/// Every channel that the planes of a patch have, with photos of other sizes than their views and with lenses.
#[test]
fn every_channel_through_matching() {
    let lens = Lens::OpenCv([-0.16, 0.05, 0.012, -0.015]);
    let fisheye = Lens::Fisheye([0.05, -0.01, 0.002, 0.001]);
    for (lens, sizes) in [
        (Lens::Pinhole, [[40, 28], [40, 28]]),
        (Lens::Pinhole, [[20, 14], [27, 19]]),
        (lens, [[40, 28], [40, 28]]),
        (fisheye, [[40, 28], [20, 14]]),
    ] {
        let mut camera = Camera::pinhole(40, 28, 40.0, Pose::IDENTITY);
        camera.lens = lens;
        let other = neighbour(&camera, 0.4);
        let photos = sizes.map(|size| pattern(size, 0.3));
        let [own, other] = [(&camera, &photos[0]), (&other, &photos[1])]
            .map(|(camera, photo)| Seen { camera, photo });
        let n = 40 * 28;
        let noise = weights(5, 4 * n);
        let image = PlaneImage {
            normals: (0..n)
                .map(|i| {
                    let turn = DVec3::new(noise[i], noise[n + i], noise[2 * n + i]);
                    -0.8 * DVec3::Z + 0.03 * turn
                })
                .collect(),
            distances: (0..n).map(|i| -2.5 + 0.02 * noise[3 * n + i]).collect(),
            alpha: vec![0.85; n],
        };
        let at = matching_loss(&own, &other, [1, 2], &image, 7.0);
        assert!(at.counted > 9, "{} patches of {lens:?}", at.counted);
        let value = |change: &dyn Fn(&mut PlaneImage)| {
            let mut image = image.clone();
            change(&mut image);
            matching_loss(&own, &other, [1, 2], &image, 7.0).value
        };
        let numeric = |change: &dyn Fn(&mut PlaneImage, f64)| {
            central_difference(|by| value(&|image| change(image, by)))
        };
        let compared: Vec<usize> = (0..n).filter(|&i| at.by.distances[i] != 0.0).collect();
        let normals: Vec<f64> = compared
            .iter()
            .flat_map(|&i| [0, 1, 2].map(|k| numeric(&|image, by| image.normals[i][k] += by)))
            .collect();
        let flat = compared.iter().flat_map(|&i| at.by.normals[i].to_array());
        assert_close("normals", &flat.collect::<Vec<_>>(), &normals);
        let distances: Vec<f64> = compared
            .iter()
            .map(|&i| numeric(&|image, by| image.distances[i] += by))
            .collect();
        let flat: Vec<f64> = compared.iter().map(|&i| at.by.distances[i]).collect();
        assert_close("distances", &flat, &distances);
    }
}

/// A textured plane that two cameras see: a disc that is behind it or turned moves into it.
#[test]
fn planes_move_to_where_photos_agree() {
    let camera = Camera::pinhole(48, 32, 60.0, Pose::IDENTITY);
    let other = neighbour(&camera, 1.0);
    let truth = (DVec3::new(0.2, -0.1, -0.97).normalize(), -3.0);
    let paint = |place: DVec3| (17.0 * place.x).sin() + (15.0 * place.y + 6.0 * place.x).sin();
    let photo = |camera: &Camera| {
        let pose = camera.camera_from_world;
        let (turn, centre) = (pose.rotation.conjugate(), pose.centre());
        let shade = |i: u32| {
            let pixel = DVec2::new(f64::from(i % 48), f64::from(i / 48)) + 0.5;
            let ray = turn * dapple_scene::Rays::new(camera).ray(pixel).unwrap();
            let factor = (truth.1 - truth.0.dot(centre)) / truth.0.dot(ray);
            (128.0 + 60.0 * paint(centre + factor * ray)) as u8
        };
        GreyPhoto {
            size: [48, 32],
            shades: (0..48 * 32).map(shade).collect(),
        }
    };
    let photos = [&camera, &other].map(photo);
    let [own, other] =
        [(&camera, &photos[0]), (&other, &photos[1])].map(|(camera, photo)| Seen { camera, photo });
    let image = |normal: DVec3, distance: f64| PlaneImage {
        normals: vec![normal; 48 * 32],
        distances: vec![distance; 48 * 32],
        alpha: vec![1.0; 48 * 32],
    };
    let loss = |normal: DVec3, distance: f64| {
        let found = matching_loss(&own, &other, [0, 0], &image(normal, distance), 1.0);
        (found.value * 96.0 / found.counted as f64, found)
    };
    let best = loss(truth.0, truth.1).0;
    assert!(best < 0.01, "{best}");
    let start = (DVec3::new(0.1, -0.05, -0.99).normalize(), -3.15);
    let (mut normal, mut distance) = start;
    let first = loss(normal, distance).0;
    for _ in 0..200 {
        let by = loss(normal, distance).1.by;
        normal -= 0.02 * by.normals.iter().sum::<DVec3>();
        distance -= 0.02 * by.distances.iter().sum::<f64>();
    }
    let last = loss(normal, distance).0;
    assert!(last < 0.3 * first, "{last}, before {first}, best {best}");
    // Planes have one scale too many.
    let error = |normal: DVec3, distance: f64| (normal / distance - truth.0 / truth.1).length();
    let (before, after) = (error(start.0, start.1), error(normal, distance));
    assert!(after < 0.3 * before, "{after}, before {before}");
}
