//! Anti-aliasing in the reference: its gradients against central finite differences, and its purpose.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::compare::relative_l2;
use crate::finite_differences::{
    Recipe, Scene, assert_agrees, assert_close, dot, numeric, parameters, weights,
};
use crate::scenes::Random;
use crate::{self as reference, Gaussian};
use dapple_engine::constants::{MIP_DILATION, SMOOTHING_VARIANCE};
use dapple_engine::filter_3d;
use dapple_scene::{Camera, Pose, Splats};
use glam::DVec3;

const ANTIALIASED: Recipe = Recipe {
    antialias: true,
    ..Recipe::PLAIN
};

/// Some Gaussians are thinner than a pixel, where the compensation is largest.
#[test]
fn the_mip_filter_is_differentiated() {
    for recipe in [
        ANTIALIASED,
        Recipe {
            size: 0.4,
            off_centre: true,
            logit_max: 4.0,
            ..ANTIALIASED
        },
        Recipe {
            outside: 16.0,
            ..ANTIALIASED
        },
    ] {
        let scene = recipe.draw();
        let compensations = scene.visible().into_iter().map(|v| {
            let logit = scene.gaussians[v.index].opacity;
            v.opacity * (1.0 + (-logit).exp())
        });
        let least = compensations.fold(1.0, f64::min);
        assert!(least < 0.8, "nothing is compensated: {least}");
        let (rgb, alpha) = (weights(1, 3 * scene.pixels()), weights(2, scene.pixels()));
        let scalar = |scene: &Scene| {
            let image = scene.render();
            dot(&rgb, &image.rgb) + dot(&alpha, &image.alpha)
        };
        let analytic = scene.gradients(&rgb, Some(&alpha));
        assert_agrees(&scene, &analytic, scalar);
    }
}

/// Returns deviations from a third of a Gaussian's width to three times of it, and zero.
fn deviations(scene: &Scene) -> Vec<f64> {
    let mut random = Random::new(4);
    let one = |(i, g): (usize, &Gaussian)| {
        let ratio = random.uniform(-1.0, 1.0);
        if i % 5 == 4 {
            0.0
        } else {
            (g.scale[1] + ratio).exp()
        }
    };
    scene.gaussians.iter().enumerate().map(one).collect()
}

fn with_filter_3d(scene: &Scene, deviations: &[f64]) -> Scene {
    let pairs = scene.gaussians.iter().zip(deviations);
    Scene {
        gaussians: pairs
            .map(|(g, &d)| reference::with_filter_3d(g, d))
            .collect(),
        ..scene.clone()
    }
}

#[test]
fn the_3d_filter_is_differentiated() {
    let fused = |scene: &Scene| with_filter_3d(scene, &deviations(scene));
    let scene = ANTIALIASED.draw_where(|scene| fused(scene).is_smooth());
    let deviations = deviations(&scene);
    let rgb = weights(1, 3 * scene.pixels());
    let analytic = reference::with_filter_3d_gradients(
        &scene.gaussians,
        &deviations,
        scene.sh_rest_stride(),
        &scene.camera,
        &scene.settings,
        (&rgb, None),
    )
    .unwrap();
    for parameter in parameters(scene.settings.sh_degree) {
        let tensors = analytic.tensors();
        let (_, values) = tensors
            .iter()
            .find(|(name, _)| *name == parameter.name)
            .unwrap();
        let scalar = |scene: &Scene| dot(&rgb, &with_filter_3d(scene, &deviations).render().rgb);
        assert_close(parameter.name, values, &numeric(&scene, &parameter, scalar));
    }
}

/// Renders a Gaussian of 0.8 pixels, and of 0.2 in an image of a quarter of the size. With the filter,
/// its light relative to the image's area is about unchanged, except for contributions below 1/255.
/// Without the filter, its light grows as if the Gaussian were larger.
#[test]
fn light_stays_when_pixels_grow() {
    let light = |pixels: u32, antialias: bool| {
        let pose = Pose::look_at(DVec3::new(0.0, 0.0, -4.0), DVec3::ZERO, DVec3::NEG_Y);
        let camera = Camera::pinhole(pixels, pixels, f64::from(pixels), pose);
        let splats = Splats {
            means: vec![[0.0; 3]],
            scales: vec![[0.05f32.ln(); 3]],
            quats: vec![[1.0, 0.0, 0.0, 0.0]],
            opacities: vec![0.0],
            sh0: vec![[1.0; 3]],
            ..Splats::empty(0)
        };
        let settings = dapple_engine::RenderSettings {
            antialias,
            ..dapple_engine::RenderSettings::default()
        };
        let image = reference::render(&splats, &camera, &settings).unwrap();
        image.rgb.iter().sum::<f64>() / f64::from(pixels * pixels)
    };
    let change = |antialias| light(16, antialias) / light(64, antialias);
    let (with, without) = (change(true), change(false));
    assert!((0.7..1.3).contains(&with), "{with}");
    assert!(without > 2.0, "{without}");
}

/// A Gaussian that projects to a line has no area: it covers nothing and has no non-finite gradient.
#[test]
fn a_gaussian_without_area_is_absent() {
    let mut scene = ANTIALIASED.draw();
    for gaussian in &mut scene.gaussians {
        gaussian.scale[0] = -800.0;
        gaussian.scale[1] = -800.0;
    }
    assert!(scene.visible().is_empty());
    let rgb = weights(1, 3 * scene.pixels());
    let tensors = scene.gradients(&rgb, None).tensors();
    assert!(
        tensors
            .iter()
            .all(|(_, values)| values.iter().all(|&v| v == 0.0))
    );
}

#[test]
fn the_nearest_photo_that_sees_a_gaussian_says_how_fine_it_may_be() {
    let from = |distance: f64, focal: f64| {
        let eye = DVec3::new(0.0, 0.0, -distance);
        let pose = Pose::look_at(eye, DVec3::ZERO, DVec3::NEG_Y);
        Camera::pinhole(100, 80, focal, pose)
    };
    let cameras = [from(4.0, 50.0), from(2.0, 40.0), from(0.05, 900.0)];
    let at = |x: f64| reference::deviation(DVec3::new(x, 0.0, 0.0), &cameras, 0.1).unwrap();
    let filter = f64::from(SMOOTHING_VARIANCE).sqrt();
    // The third is too near; the range of the second ends at 2 * 50 / 40 plus the margin.
    assert!((at(0.0) - filter * 2.0 / 40.0).abs() < 1e-7);
    assert!((at(2.5 * 1.29) - filter * 2.0 / 40.0).abs() < 1e-7);
    assert!((at(2.5 * 1.31) - filter * 4.0 / 50.0).abs() < 1e-7);
    assert_eq!(at(100.0), 0.0);
    assert_eq!(at(f64::NAN), 0.0);
}

/// Splat files hold splats with baked filters: their renders equal those with separate filters.
#[test]
fn fused_splats_look_the_same() {
    let mut splats = Splats::empty(0);
    let mut random = Random::new(8);
    for i in 0..40 {
        let mut value = |low: f64, high: f64| random.uniform(low, high) as f32;
        splats.means.push(std::array::from_fn(|_| value(-1.0, 1.0)));
        splats
            .scales
            .push(std::array::from_fn(|_| value(-5.0, -2.0)));
        splats.quats.push(std::array::from_fn(|_| value(-1.0, 1.0)));
        splats
            .opacities
            .push(if i == 0 { 60.0 } else { value(-4.0, 9.0) });
        splats.sh0.push([value(-1.0, 1.0); 3]);
    }
    let deviations: Vec<f32> = (0..40).map(|i| 0.002 * (i % 20) as f32).collect();
    let mut fused = splats.clone();
    filter_3d::bake(&mut fused, &deviations);
    assert_eq!(fused.scales[20], splats.scales[20]);
    let expected: Vec<Gaussian> = Gaussian::all(&splats)
        .iter()
        .zip(&deviations)
        .map(|(g, &d)| reference::with_filter_3d(g, d.into()))
        .collect();
    for (fused, expected) in Gaussian::all(&fused).iter().zip(&expected) {
        assert!(relative_l2(&fused.scale, &expected.scale) < 1e-6);
        assert!((fused.opacity - expected.opacity).abs() < 1e-5);
    }
    for ((g, e), &d) in Gaussian::all(&splats)
        .iter()
        .zip(&expected)
        .zip(&deviations)
    {
        let mass = |g: &Gaussian| g.scale.iter().sum::<f64>() - (1.0 + (-g.opacity).exp()).ln();
        assert!((mass(g) - mass(e)).abs() < 1e-9);
        for k in 0..3 {
            let square = |g: &Gaussian| (2.0 * g.scale[k]).exp();
            let sum = square(g) + f64::from(d).powi(2);
            assert!((square(e) / sum - 1.0).abs() < 1e-9);
        }
    }
}

/// Both filters together widen a Gaussian, at the photos' own resolution, by the dilation of other
/// renders.
#[test]
fn both_filters_make_the_usual_dilation() {
    let sum = MIP_DILATION + SMOOTHING_VARIANCE;
    assert!((sum - dapple_engine::constants::DILATION).abs() < 1e-6);
}
