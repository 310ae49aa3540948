//! The reference's gradients against central finite differences of its own forward pass.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use dapple_engine::ImageDerivative;
use dapple_engine::slope_range;
use dapple_reference::compare::relative_l2;
use dapple_reference::finite_differences::{
    Recipe, Scene, assert_agrees, assert_close, central_difference, dot, numeric, parameters,
    weights,
};
use dapple_reference::scenes::Random;
use dapple_reference::{self as reference, Gaussian, Projected};
use glam::{DMat2, DVec2};

/// Checks with random weights on every pixel's colour and alpha, so that no gradient cancels by
/// symmetry.
fn check(recipe: Recipe) {
    check_scene(&recipe.draw());
}

fn check_scene(scene: &Scene) {
    let rgb = weights(1, 3 * scene.pixels());
    let alpha = weights(2, scene.pixels());
    let scalar = |scene: &Scene| {
        let image = scene.render();
        dot(&rgb, &image.rgb) + dot(&alpha, &image.alpha)
    };
    let analytic = scene.gradients(&rgb, Some(&alpha));
    assert_agrees(scene, &analytic, scalar);
}

#[test]
fn every_parameter_and_the_pose_at_sh_degree_0() {
    check(Recipe {
        sh_degree: 0,
        ..Recipe::PLAIN
    });
}

/// A channel of exactly zero has two slopes; the gradient is the one to brighter colours, as in PyTorch's clamp.
#[test]
fn a_channel_at_exactly_zero_has_the_slope_to_brighter_colours() {
    let y0 = 0.5 / std::f64::consts::PI.sqrt();
    let mut scene = Recipe {
        sh_degree: 0,
        ..Recipe::PLAIN
    }
    .draw();
    // The last bits of -0.5 / Y_00 until the sum with 0.5 is zero.
    let first = (-0.5f64 / y0).to_bits();
    let black = (first - 8..first + 8)
        .map(f64::from_bits)
        .find(|&sh| sh * y0 + 0.5 == 0.0)
        .unwrap();
    scene.gaussians[0].sh[0][1] = black;
    let weights = weights(1, 3 * scene.pixels());
    let scalar = |scene: &Scene| dot(&weights, &scene.render().rgb);
    let analytic = scene.gradients(&weights, None).sh0[0][1];
    let mut brighter = scene.clone();
    brighter.gaussians[0].sh[0][1] += 1e-3;
    let slope = (scalar(&brighter) - scalar(&scene)) / 1e-3;
    assert!(slope.abs() > 1e-3, "the channel is seen: {slope}");
    assert_close("sh0", &[analytic], &[slope]);
}

#[test]
fn every_parameter_and_the_pose_at_sh_degree_1() {
    check(Recipe::PLAIN);
}

#[test]
fn every_parameter_and_the_pose_at_sh_degree_2() {
    check(Recipe {
        sh_degree: 2,
        ..Recipe::PLAIN
    });
}

#[test]
fn every_parameter_and_the_pose_at_sh_degree_3() {
    check(Recipe {
        sh_degree: 3,
        ..Recipe::PLAIN
    });
}

/// A third of the Gaussians is dropped, and the others are more opaque by the factor of dropout.
#[test]
fn gaussians_left_out() {
    let thinned = |scene: &Scene| {
        let mut scene = scene.clone();
        reference::leave_out(&mut scene.gaussians, 0.3, 3, 6);
        scene
    };
    let recipe = Recipe {
        logit_max: 0.7,
        ..Recipe::PLAIN
    };
    let scene = thinned(&recipe.draw_where(|scene| {
        let mut seen = thinned(scene);
        seen.gaussians.retain(|g| g.shown > 0.0);
        seen.is_smooth()
    }));
    let left_out = scene.gaussians.iter().filter(|g| g.shown == 0.0).count();
    assert!((3..8).contains(&left_out), "{left_out}");
    check_scene(&scene);
}

#[test]
fn off_centre_principal_point_and_unequal_focal_lengths() {
    check(Recipe {
        off_centre: true,
        ..Recipe::PLAIN
    });
}

/// Wide Gaussians with centres beyond the Jacobian's limits, where its derivative changes.
#[test]
fn clamped_jacobian() {
    for off_centre in [false, true] {
        let recipe = Recipe {
            outside: 16.0,
            off_centre,
            ..Recipe::PLAIN
        };
        let scene = recipe.draw();
        let (slope_min, slope_max) = slope_range(&scene.camera);
        let eye = reference::PosedLens::new(&scene.camera).unwrap();
        let is_clamped = |g: &&Gaussian| {
            let p = eye.to_camera(g.mean);
            let slope = p.truncate() / p.z;
            slope.clamp(slope_min, slope_max) != slope
        };
        let clamped = scene.gaussians.iter().filter(is_clamped).count();
        assert!(clamped >= 3, "only {clamped} Gaussians at the limit");
        check(recipe);
    }
}

/// Opaque Gaussians: a clamped alpha has no derivative, and pixels end early.
#[test]
fn clamped_alpha() {
    let recipe = Recipe {
        logit_max: 16.0,
        size: 4.0,
        ..Recipe::PLAIN
    };
    let scene = recipe.draw_where(|scene| {
        let visible = scene.visible();
        let all: Vec<usize> = (0..visible.len()).collect();
        let is_clamped = |i: &u32| {
            let (x, y) = (i % scene.camera.width, i / scene.camera.width);
            let pixel = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
            let (contributions, _) = reference::contributions(&visible, &all, pixel);
            contributions.iter().any(|c| c.clamped)
        };
        (0..scene.pixels() as u32).filter(is_clamped).count() >= 5
    });
    check_scene(&scene);
}

#[test]
fn capped_tiles() {
    let recipe = Recipe {
        cap: 4,
        ..Recipe::PLAIN
    };
    let (capped, mut free) = (recipe.draw(), recipe.draw());
    free.settings.max_gaussians_per_tile = 0;
    assert!(relative_l2(&capped.render().rgb, &free.render().rgb) > 1e-2);
    check(recipe);
}

#[test]
fn a_lower_active_degree_leaves_the_rest_alone() {
    let mut scene = Recipe {
        sh_degree: 3,
        ..Recipe::PLAIN
    }
    .draw();
    scene.settings.sh_degree = 1;
    let rgb = weights(3, 3 * scene.pixels());
    let gradients = scene.gradients(&rgb, None);
    for row in gradients.sh_rest.chunks(45) {
        assert!(row[..9].iter().any(|&v| v != 0.0));
        assert!(row[9..].iter().all(|&v| v == 0.0));
    }
}

fn of_colours(rgb: &[f64]) -> ImageDerivative<'_, f64> {
    ImageDerivative {
        rgb,
        alpha: None,
        depth: None,
    }
}

/// Ellipses for the blend without projection: anisotropic and rotated, so that the off-diagonal is
/// large.
struct Ellipses {
    scene: Scene,
    visible: Vec<Projected>,
    rgb: Vec<f64>,
}

impl Ellipses {
    fn new() -> Self {
        let draw = |seed: u64| {
            let mut scene = Recipe::PLAIN.draw();
            let mut random = Random::new(seed);
            let mut visible = scene.visible();
            visible.truncate(8);
            scene.gaussians.truncate(8);
            for (i, v) in visible.iter_mut().enumerate() {
                // Rotated by about 45 degrees either way, axes 5 : 1.
                let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
                let angle = sign * random.uniform(0.6, 1.0);
                let along = DVec2::from_angle(angle);
                let across = along.perp();
                let outer = |a: DVec2| DMat2::from_cols(a * a.x, a * a.y);
                let covariance = outer(along) * random.uniform(20.0, 30.0) + outer(across) * 1.0;
                *v = with_covariance(
                    v,
                    [
                        covariance.x_axis.x,
                        covariance.x_axis.y,
                        covariance.y_axis.y,
                    ],
                );
                v.centre = DVec2::new(random.uniform(4.0, 22.0), random.uniform(4.0, 14.0));
            }
            let rgb = weights(4, 3 * scene.pixels());
            Self {
                scene,
                visible,
                rgb,
            }
        };
        (0..100)
            .map(draw)
            .find(|e| {
                let lists = reference::ranges(&e.visible, &e.scene.camera, 0);
                reference::decision_margin(&e.visible, &lists, &e.scene.camera) > 1e-4
            })
            .unwrap()
    }

    fn scalar(&self, visible: &[Projected]) -> f64 {
        let (camera, settings) = (&self.scene.camera, &self.scene.settings);
        let lists = reference::ranges(visible, camera, 0);
        dot(
            &self.rgb,
            &reference::blend(visible, &lists, camera, settings).rgb,
        )
    }

    /// Returns central differences of the blend by one number of each ellipse.
    fn numeric(&self, change: impl Fn(&Projected, f64) -> Projected) -> Vec<f64> {
        let one = |i: usize| {
            central_difference(|by| {
                let mut visible = self.visible.clone();
                visible[i] = change(&visible[i], by);
                self.scalar(&visible)
            })
        };
        (0..self.visible.len()).map(one).collect()
    }

    fn analytic(&self) -> Vec<reference::ProjectedGradient> {
        let (camera, settings) = (&self.scene.camera, &self.scene.settings);
        let lists = reference::ranges(&self.visible, camera, 0);
        reference::blend_backward(
            &self.visible,
            &lists,
            camera,
            settings,
            &of_colours(&self.rgb),
        )
    }
}

fn with_covariance(v: &Projected, covariance: [f64; 3]) -> Projected {
    let [xx, xy, yy] = covariance;
    let q = DMat2::from_cols(DVec2::new(xx, xy), DVec2::new(xy, yy)).inverse();
    Projected {
        covariance,
        conic: [q.x_axis.x, q.x_axis.y, q.y_axis.y],
        ..*v
    }
}

#[test]
fn blend_alone_centre_conic_opacity_and_colour() {
    let ellipses = Ellipses::new();
    for v in &ellipses.visible {
        let [xx, xy, yy] = v.conic;
        assert!(xy.abs() > 0.7 * (xx * yy).sqrt(), "off-diagonal too small");
    }
    let analytic = ellipses.analytic();
    for k in 0..3 {
        let numeric = ellipses.numeric(|v, by| {
            let mut v = *v;
            v.conic[k] += by;
            v
        });
        let values: Vec<f64> = analytic.iter().map(|g| g.conic[k]).collect();
        assert_close(["conic xx", "conic xy", "conic yy"][k], &values, &numeric);

        let numeric = ellipses.numeric(|v, by| {
            let mut v = *v;
            v.colour[k] += by;
            v
        });
        let values: Vec<f64> = analytic.iter().map(|g| g.colour[k]).collect();
        assert_close("colour", &values, &numeric);
    }
    for k in 0..2 {
        let numeric = ellipses.numeric(|v, by| {
            let mut v = *v;
            v.centre[k] += by;
            v
        });
        let values: Vec<f64> = analytic.iter().map(|g| g.centre[k]).collect();
        assert_close("centre", &values, &numeric);
    }
    let numeric = ellipses.numeric(|v, by| Projected {
        opacity: v.opacity + by,
        ..*v
    });
    let values: Vec<f64> = analytic.iter().map(|g| g.opacity).collect();
    assert_close("opacity", &values, &numeric);
}

/// Converts the derivative by the conic to dL/d(xx, xy, yy) of the covariance. The off-diagonal's
/// share of the chain is scaled by `xy_share`: 1 is right, 0.5 is the known mistake.
fn covariance_gradient(v: &Projected, conic: [f64; 3], xy_share: f64) -> [f64; 3] {
    let [a, b, c] = v.conic;
    let q = DMat2::from_cols(DVec2::new(a, b), DVec2::new(b, c));
    let half = 0.5 * xy_share * conic[1];
    let g = DMat2::from_cols(DVec2::new(conic[0], half), DVec2::new(half, conic[2]));
    let g = -(q * g * q);
    [g.x_axis.x, g.x_axis.y + g.y_axis.x, g.y_axis.y]
}

/// A known project halved the off-diagonal, and its own check repeated the mistake. The numeric
/// side here uses no formula: it moves both off-diagonal entries of the covariance and blends
/// again.
#[test]
fn off_diagonal_covariance_and_what_halving_it_would_do() {
    let ellipses = Ellipses::new();
    let slots = ellipses.analytic();
    for k in 0..3 {
        let numeric = ellipses.numeric(|v, by| {
            let mut covariance = v.covariance;
            covariance[k] += by;
            with_covariance(v, covariance)
        });
        let analytic = |xy_share: f64| -> Vec<f64> {
            let pairs = ellipses.visible.iter().zip(&slots);
            pairs
                .map(|(v, slot)| covariance_gradient(v, slot.conic, xy_share)[k])
                .collect()
        };
        assert_close("covariance", &analytic(1.0), &numeric);
        let planted = relative_l2(&analytic(0.5), &numeric);
        assert!(
            planted > 1e-2,
            "a halved off-diagonal goes unnoticed: {planted:e}"
        );
    }
}

/// The same mistake injected in the whole chain: the tests above would detect it in every parameter
/// that shapes the ellipse.
#[test]
fn a_halved_off_diagonal_shows_in_scales_quats_and_means() {
    let scene = Recipe::PLAIN.draw();
    let rgb = weights(5, 3 * scene.pixels());
    let scalar = |scene: &Scene| dot(&rgb, &scene.render().rgb);
    let visible = scene.visible();
    let lists = reference::ranges(&visible, &scene.camera, 0);
    let mut slots = reference::blend_backward(
        &visible,
        &lists,
        &scene.camera,
        &scene.settings,
        &of_colours(&rgb),
    );
    for slot in &mut slots {
        slot.conic[1] *= 0.5;
    }
    let eye = reference::PosedLens::new(&scene.camera).unwrap();
    let mut wrong = vec![Vec::new(); 3];
    for i in 0..scene.gaussians.len() {
        let at = visible.iter().position(|v| v.index == i).unwrap();
        let g = reference::project_backward(&scene.gaussians[i], &eye, &scene.settings, &slots[at]);
        wrong[0].extend(g.mean.to_array());
        wrong[1].extend(g.scale);
        wrong[2].extend(g.quat);
    }
    for (parameter, wrong) in parameters(1).iter().zip(&wrong) {
        let distance = relative_l2(wrong, &numeric(&scene, parameter, scalar));
        assert!(distance > 1e-2, "{}: {distance:e}", parameter.name);
    }
}

/// The whole chain with the loss: parameters to image to L1 + SSIM with a mask.
#[test]
fn whole_chain_with_loss() {
    let scene = Recipe {
        off_centre: true,
        sh_degree: 2,
        ..Recipe::PLAIN
    }
    .draw();
    let (width, height) = (scene.camera.width as usize, scene.camera.height as usize);
    // Targets at least 1e-4 away from the prediction, because |difference| is not smooth at zero.
    let image = scene.render();
    let mut random = Random::new(6);
    let target: Vec<f64> = image
        .rgb
        .iter()
        .map(|v| {
            v + random.uniform(0.01, 0.3)
                * if random.uniform(0.0, 1.0) < 0.5 {
                    1.0
                } else {
                    -1.0
                }
        })
        .collect();
    let mask: Vec<bool> = (0..width * height)
        .map(|_| random.uniform(0.0, 1.0) < 0.85)
        .collect();
    let loss = |rgb: &[f64]| reference::loss(rgb, &target, width, height, Some(&mask), 0.2);
    let (_, dl_drgb) = loss(&image.rgb);
    let analytic = scene.gradients(&dl_drgb, None);
    let scaled = |scene: &Scene| loss(&scene.render().rgb).0;
    assert_agrees(&scene, &analytic, scaled);
}

/// `means2d` is the derivative by the projected centre: moving the principal point moves all of
/// them alike (no centre is near the Jacobian's limits).
#[test]
fn means2d_adds_up_to_a_shift_of_the_image() {
    let scene = Recipe::PLAIN.draw();
    let rgb = weights(7, 3 * scene.pixels());
    let gradients = scene.gradients(&rgb, None);
    let visible = scene.visible();
    let lists = reference::ranges(&visible, &scene.camera, 0);
    for k in 0..2 {
        let numeric = central_difference(|by| {
            let mut moved = visible.clone();
            moved.iter_mut().for_each(|v| v.centre[k] += by);
            let image = reference::blend(&moved, &lists, &scene.camera, &scene.settings);
            dot(&rgb, &image.rgb)
        });
        let sum: f64 = gradients.means2d.iter().map(|g| g[k]).sum();
        assert_close("sum of means2d", &[sum], &[numeric]);
    }
}
