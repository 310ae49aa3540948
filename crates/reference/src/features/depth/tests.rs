//! The reference's depths: definitions, gradients against central finite differences, normals.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::finite_differences::{
    Recipe, Scene, assert_agrees, assert_close, central_difference, dot, weights,
};
use crate::{self as reference, Image, Projected};
use dapple_engine::{
    DepthImage, DepthSample, Gradients, ImageDerivative, PosedCamera, check_depths, depth,
};
use dapple_scene::{Camera, Lens, Pose};
use glam::DVec3;

fn differentiate(scene: &Scene, derivative: &ImageDerivative<'_, f64>) -> Gradients<f64> {
    let stride = (scene.gaussians[0].sh.len() - 1) * 3;
    let (camera, settings) = (&scene.camera, &scene.settings);
    reference::differentiate_gaussians(&scene.gaussians, stride, camera, settings, derivative)
        .unwrap()
}

/// Random weights on colours, alpha and depth at once, in scenes where alpha is clamped, tiles have
/// a limit and the principal point is off the centre.
#[test]
fn every_parameter_and_the_pose_through_depth() {
    let plain = Recipe::PLAIN;
    for recipe in [
        plain,
        Recipe {
            off_centre: true,
            ..plain
        },
        Recipe { cap: 4, ..plain },
        Recipe {
            logit_max: 16.0,
            size: 4.0,
            ..plain
        },
    ] {
        let scene = recipe.draw();
        let n = scene.pixels();
        let (rgb, alpha, depth) = (weights(1, 3 * n), weights(2, n), weights(3, n));
        let scalar = |scene: &Scene| {
            let image = scene.render();
            dot(&rgb, &image.rgb) + dot(&alpha, &image.alpha) + dot(&depth, &image.depth)
        };
        let derivative = ImageDerivative {
            rgb: &rgb,
            alpha: Some(&alpha),
            depth: Some(&depth),
        };
        assert_agrees(&scene, &differentiate(&scene, &derivative), scalar);
    }
}

/// Depth without colours is blended like a colour, and moves centres along the camera's z.
#[test]
fn depth_of_the_blend_alone() {
    let scene = Recipe::PLAIN.draw();
    let visible = scene.visible();
    let (camera, settings) = (&scene.camera, &scene.settings);
    let lists = reference::ranges(&visible, camera, 0);
    let n = scene.pixels();
    let (none, by_depth) = (vec![0.0; 3 * n], weights(4, n));
    let derivative = ImageDerivative {
        rgb: &none,
        alpha: None,
        depth: Some(&by_depth),
    };
    let slots = reference::blend_backward(&visible, &lists, camera, settings, &derivative);
    let moved = |i: usize, by: f64| {
        let mut visible: Vec<Projected> = visible.clone();
        visible[i].depth += by;
        dot(
            &by_depth,
            &reference::blend(&visible, &lists, camera, settings).depth,
        )
    };
    let numeric: Vec<f64> = (0..visible.len())
        .map(|i| central_difference(|by| moved(i, by)))
        .collect();
    let analytic: Vec<f64> = slots.iter().map(|slot| slot.depth).collect();
    assert_close("depth", &analytic, &numeric);
}

/// Returns samples on a part of the pixels, at depths that are wrong by up to a third.
fn samples(image: &Image) -> Vec<DepthSample> {
    let factors = weights(5, image.depth.len());
    let mut out = Vec::new();
    for (i, factor) in factors.iter().enumerate() {
        if i % 3 == 0 && image.alpha[i] > 0.01 {
            let expected = image.depth[i] / image.alpha[i];
            out.push(DepthSample {
                pixel: i as u32,
                inverse_depth: (1.0 / (expected * (1.0 + 0.3 * factor))) as f32,
                weight: 0.01 + 0.02 * (i % 5) as f32,
            });
        }
    }
    out
}

#[test]
fn the_whole_chain_from_the_depth_loss() {
    let scene = Recipe {
        sh_degree: 2,
        ..Recipe::PLAIN
    }
    .draw();
    let samples = samples(&scene.render());
    assert!(samples.len() > 50);
    let value = |image: &Image| reference::depth_loss(image, &samples, 7.0);
    let loss = value(&scene.render());
    // Without colours, some of the tensors would be zero.
    let rgb = weights(6, 3 * scene.pixels());
    let derivative = ImageDerivative {
        rgb: &rgb,
        alpha: Some(&loss.by_alpha),
        depth: Some(&loss.by_depth),
    };
    let analytic = differentiate(&scene, &derivative);
    assert_agrees(&scene, &analytic, |scene| {
        let image = scene.render();
        value(&image).value + dot(&rgb, &image.rgb)
    });
}

#[test]
fn a_loss_pulls_depths_to_the_sample_and_leaves_empty_pixels_alone() {
    let image = |depth: f64, alpha: f64| Image {
        width: 1,
        height: 1,
        rgb: vec![0.0; 3],
        alpha: vec![alpha],
        depth: vec![depth],
        median_depth: vec![0.0],
    };
    let sample = [DepthSample {
        pixel: 0,
        inverse_depth: 0.25,
        weight: 0.5,
    }];
    let loss = |depth, alpha| reference::depth_loss(&image(depth, alpha), &sample, 2.0);
    // Expected depth 5 instead of 4 at alpha 0.8.
    let far = loss(4.0, 0.8);
    assert!((far.value - 0.8 * 0.25).abs() < 1e-12, "{}", far.value);
    assert_eq!((far.by_depth[0], far.by_alpha[0]), (0.25, -1.0));
    assert_eq!(loss(2.0, 0.8).by_depth, [-0.25]);
    assert_eq!(loss(0.0, 0.0).value, 0.0);
    assert_eq!(loss(0.0, 0.0).by_alpha, [0.0]);
}

#[test]
fn samples_that_do_not_fit_their_view_are_refused() {
    let camera = Camera::pinhole(4, 3, 5.0, Pose::IDENTITY);
    let camera = PosedCamera::new(&camera).unwrap();
    let sample = |pixel, inverse_depth, weight| DepthSample {
        pixel,
        inverse_depth,
        weight,
    };
    let sound = sample(7, 0.5, 1.0);
    assert!(check_depths(&camera, &[sound, sample(11, 0.0, 0.0)]).is_ok());
    for bad in [
        [sound, sound],
        [sound, sample(6, 0.5, 1.0)],
        [sound, sample(12, 0.5, 1.0)],
        [sound, sample(8, f32::NAN, 1.0)],
        [sound, sample(8, 0.5, -1.0)],
    ] {
        let error = check_depths(&camera, &bad).unwrap_err();
        assert!(error.hint_text().is_some(), "{bad:?}");
    }
}

/// Two Gaussians, one behind the other: the first with at most half the transmittance behind it is
/// the median.
#[test]
fn expected_and_median_depth_are_what_they_are_called() {
    let render = |opacities: [f64; 2]| {
        let mut scene = Recipe::PLAIN.draw();
        scene.gaussians.truncate(2);
        let pose = Pose::IDENTITY;
        scene.camera = Camera::pinhole(9, 9, 40.0, pose);
        for (i, gaussian) in scene.gaussians.iter_mut().enumerate() {
            gaussian.mean = DVec3::new(0.0, 0.0, [2.0, 5.0][i]);
            gaussian.scale = [0.5; 3];
            gaussian.opacity = (opacities[i] / (1.0 - opacities[i])).ln();
        }
        scene.render()
    };
    let centre = 4 * 9 + 4;
    let image = render([0.3, 0.6]);
    let (near, far) = (0.3, 0.7 * 0.6);
    assert!((image.depth[centre] - (near * 2.0 + far * 5.0)).abs() < 1e-9);
    assert_eq!(image.median_depth[centre], 5.0);
    assert_eq!(render([0.6, 0.6]).median_depth[centre], 2.0);
    // Never half opaque.
    assert_eq!(render([0.2, 0.2]).median_depth[centre], 0.0);
    let depths = DepthImage {
        blended: vec![0.0, 3.0],
        median: vec![0.0; 2],
    };
    assert_eq!(depths.expected(&[0.0, 0.5]), [0.0, 6.0]);
}

/// A tilted plane has one normal, except at its edge with another plane.
#[test]
fn normals_of_planes_are_exact_up_to_the_edge() {
    let mut camera = Camera::pinhole(24, 18, 30.0, Pose::IDENTITY);
    (camera.fy, camera.cx) = (26.0, 10.0);
    normals_of_planes(&camera);
    camera.lens = Lens::OpenCv([-0.16, 0.05, 0.012, -0.015]);
    normals_of_planes(&camera);
    camera.lens = Lens::Fisheye([0.06, -0.03, 0.01, -0.002]);
    normals_of_planes(&camera);
}

fn normals_of_planes(camera: &Camera) {
    let tilted = DVec3::new(0.3, -0.4, -1.0).normalize();
    let facing = DVec3::NEG_Z;
    // n . (z ray) = n . (0, 0, distance).
    let depth_of = |x: u32, y: u32, normal: DVec3, distance: f64| {
        let (u, v) = (
            (f64::from(x) + 0.5 - camera.cx) / camera.fx,
            (f64::from(y) + 0.5 - camera.cy) / camera.fy,
        );
        let (u, v) = camera.lens.undistort(u, v).unwrap();
        let ray = DVec3::new(u, v, 1.0);
        (normal.z * distance / normal.dot(ray)) as f32
    };
    let mut image = Vec::new();
    for y in 0..18 {
        for x in 0..24 {
            image.push(match x {
                0 => 0.0,
                1..12 => depth_of(x, y, tilted, 3.0),
                _ => depth_of(x, y, facing, 9.0),
            });
        }
    }
    let normals = depth::normals(camera, &image);
    for (i, normal) in normals.iter().enumerate() {
        let normal = DVec3::from(normal.map(f64::from));
        let expected = match i % 24 {
            0 => DVec3::ZERO,
            1..12 => tilted,
            _ => facing,
        };
        assert!(normal.distance(expected) < 1e-4, "{i}: {normal}");
    }
}
