//! Cameras whose lens distorts: the reference's projection against `Lens::distort`, and its
//! gradients against central finite differences, for every lens.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use dapple_engine::{LensForm, PosedCamera, RenderSettings, slope_range};
use dapple_reference::finite_differences::{
    Recipe, assert_agrees, central_difference, dot, weights,
};
use dapple_reference::scenes::{self, Random};
use dapple_reference::{self as reference, PosedLens};
use dapple_scene::{Camera, Lens, Pose};
use glam::{DVec2, DVec3};

fn camera(lens: Lens) -> Camera {
    Camera {
        fx: 52.0,
        fy: 49.0,
        cx: 33.1,
        cy: 29.3,
        lens,
        ..Camera::pinhole(72, 52, 66.0, Pose::IDENTITY)
    }
}

/// Returns slopes across the range of a lens, including the axis.
fn slopes(lens: Lens, seed: u64) -> Vec<DVec2> {
    let mut random = Random::new(seed);
    let reach = lens.max_radius().atan();
    let mut all = vec![DVec2::ZERO, DVec2::new(1e-9, -1e-9), DVec2::new(0.0, 1e-4)];
    all.extend((0..60).map(|_| {
        let r = random.uniform(0.0, 0.98 * reach).tan();
        DVec2::from_angle(random.uniform(0.0, std::f64::consts::TAU)) * r
    }));
    all
}

#[test]
fn rays_land_where_the_lens_puts_them() {
    for (name, lens) in scenes::lenses() {
        let camera = camera(lens);
        let eye = PosedLens::new(&camera).unwrap();
        for slope in slopes(lens, 1) {
            let point = slope.extend(1.0) * 2.3;
            assert!(eye.lens.shows(point), "{name} {slope}");
            let (x, y) = lens.distort(slope.x, slope.y);
            let want = DVec2::new(camera.fx * x + camera.cx, camera.fy * y + camera.cy);
            let got = eye.lens.project(point).centre;
            assert!(
                got.distance(want) < 1e-10 * (1.0 + want.length()),
                "{name} {slope}: {got} {want}"
            );
        }
    }
}

/// Entry by entry: the centre's gradient, the Jacobian (equal to that gradient unless it is
/// clamped), and the Jacobian's gradient.
#[test]
fn the_projection_and_its_jacobian_have_the_right_derivatives() {
    for (name, lens) in scenes::lenses() {
        let camera = camera(lens);
        let eye = PosedLens::new(&camera).unwrap();
        let (low, high) = slope_range(&camera);
        let mut clamped = 0;
        for slope in slopes(lens, 2) {
            let gap = (slope - low).abs().min((slope - high).abs()).min_element();
            if gap < 1e-4 || slope.length() > 0.95 * lens.max_radius() {
                continue;
            }
            let is_inside = slope.clamp(low, high) == slope;
            clamped += usize::from(!is_inside);
            let point = slope.extend(1.0) * 1.7;
            let here = eye.lens.project(point);
            if is_inside {
                for row in 0..2 {
                    let off = here.jacobian[row] - here.centre_gradient[row];
                    assert!(off.length() < 1e-9 * (1.0 + here.jacobian[row].length()));
                }
            }
            for axis in 0..3 {
                let moved = |by: f64| eye.lens.project(point + DVec3::AXES[axis] * by);
                for row in 0..2 {
                    let numeric = central_difference(|by| moved(by).centre[row]);
                    assert_near(name, here.centre_gradient[row][axis], numeric);
                    for column in 0..3 {
                        let numeric = central_difference(|by| moved(by).jacobian[row][column]);
                        let analytic = here.jacobian_gradient[row][column][axis];
                        assert_near(name, analytic, numeric);
                    }
                }
            }
        }
        let has_limits = high.max_element() < lens.max_radius();
        assert!(clamped > 5 || !has_limits, "{name}: {clamped} clamped");
    }
}

#[track_caller]
fn assert_near(name: &str, analytic: f64, numeric: f64) {
    let off = (analytic - numeric).abs();
    assert!(
        off < 1e-6 * (50.0 + analytic.abs()),
        "{name}: {analytic} {numeric}"
    );
}

/// The whole chain from the image to every parameter and the pose.
#[test]
fn every_parameter_and_the_pose_through_every_lens() {
    for (name, lens) in scenes::lenses() {
        for (off_centre, outside) in [(false, 2.0), (true, 10.0)] {
            let recipe = Recipe {
                lens,
                off_centre,
                outside,
                ..Recipe::PLAIN
            };
            println!("{name}, {outside} outside");
            let scene = recipe.draw();
            let rgb = weights(1, 3 * scene.pixels());
            let alpha = weights(2, scene.pixels());
            let analytic = scene.gradients(&rgb, Some(&alpha));
            assert_agrees(&scene, &analytic, |scene| {
                let image = scene.render();
                dot(&rgb, &image.rgb) + dot(&alpha, &image.alpha)
            });
        }
    }
}

/// A lens whose coefficients are zero is a pinhole: the images are bit-identical.
#[test]
fn a_lens_without_distortion_is_a_pinhole() {
    let mut scene = scenes::named("random_sh1");
    let plain = reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap();
    scene.camera.lens = Lens::OpenCv([0.0; 4]);
    let same = reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap();
    assert_eq!(plain, same);
    assert_eq!(PosedCamera::new(&scene.camera).unwrap().lens, None);
}

/// r (1 - 0.3 r^2) folds at r = 1.054 and returns to the axis: Gaussians beyond the fold are
/// absent.
#[test]
fn beyond_the_fold_nothing_is_seen() {
    let folding = Lens::Radial([-0.3, 0.0]);
    let scene = scenes::named("random_sh0");
    let camera = Camera {
        lens: folding,
        ..Camera::pinhole(72, 52, 66.0, Pose::IDENTITY)
    };
    let mut splats = scene.splats;
    for (i, mean) in splats.means.iter_mut().enumerate() {
        // 1.82 lands where 0.01 does.
        *mean = [if i % 2 == 0 { 1.03 } else { 1.82 }, 0.0, 1.0];
    }
    let absent = reference::absent(&splats, &camera, &RenderSettings::default()).unwrap();
    assert_eq!(
        absent,
        (0..splats.len()).filter(|i| i % 2 == 1).collect::<Vec<_>>()
    );
}

#[test]
fn lenses_that_are_none_are_refused() {
    for lens in [
        Lens::Radial([f64::NAN, 0.0]),
        Lens::Radial([-1e9, 0.0]),
        Lens::Fisheye([-1e9, 0.0, 0.0, 0.0]),
    ] {
        assert!(LensForm::from_lens(&lens).is_err(), "{lens:?}");
        let error = PosedCamera::new(&camera(lens)).unwrap_err();
        assert!(error.hint_text().is_some());
    }
}

/// A fisheye's tangent is bounded by the distance at every point. A pinhole's tangent is bounded
/// only by the limits from the image.
#[test]
fn gaussians_beside_a_fisheye_do_not_blow_up() {
    let lens = Lens::Fisheye([0.02, -0.008, 0.002, -0.0003]);
    let camera = camera(lens);
    let eye = PosedLens::new(&camera).unwrap();
    for slope in slopes(lens, 3) {
        let point = slope.extend(1.0).normalize() * 2.0;
        let [u, v] = eye.lens.project(point).jacobian;
        let bound = 2.0 * camera.fx / 2.0;
        assert!(u.length() < bound && v.length() < bound, "{slope}: {u} {v}");
    }
}
