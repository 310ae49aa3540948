//! Scenes seen through lenses that distort.

use super::{
    BATCH, Batch, Random, TestScene, needles, out_of_sight, scatter, scene, tilted_camera,
};
use dapple_scene::{Camera, Lens, Splats};

/// Every scene of this module, in a fixed order.
pub(super) fn all() -> impl Iterator<Item = TestScene> {
    lenses()
        .into_iter()
        .map(|(name, lens)| through_lens(name, lens))
        .chain([
            lens_out_of_sight(),
            fisheye_out_of_sight(),
            fisheye_needles(),
        ])
}

/// Returns a lens of each kind with its scene's name, so strong that no term of it is negligible.
pub fn lenses() -> [(&'static str, Lens); 11] {
    [
        ("lens_radial", Lens::Radial([-0.14, 0.04])),
        ("lens_pincushion", Lens::Radial([0.2, 0.05])),
        ("lens_opencv", Lens::OpenCv([-0.16, 0.05, 0.012, -0.015])),
        (
            "lens_full_opencv",
            Lens::FullOpenCv([0.3, -0.1, 0.011, 0.012, 0.02, 0.4, -0.05, 0.01]),
        ),
        ("lens_fov", Lens::Fov(0.9)),
        ("lens_eucm", Lens::Eucm([0.62, 1.15])),
        ("lens_division", Lens::division(-0.25)),
        ("lens_division_pincushion", Lens::division(0.12)),
        ("lens_fisheye", Lens::Fisheye([0.06, -0.03, 0.01, -0.002])),
        (
            "lens_thin_prism",
            Lens::ThinPrismFisheye([0.05, -0.02, 0.011, -0.012, 0.003, -0.0004, 0.021, -0.032]),
        ),
        (
            "lens_rad_tan_prism",
            Lens::RadTanThinPrismFisheye([
                0.05, -0.02, 0.003, 0.001, -0.0004, 0.0001, 0.011, -0.012, 0.021, 0.004, -0.031,
                0.005,
            ]),
        ),
    ]
}

/// Seen through a lens that distorts, with an off-centre principal point and pixels that are not
/// square.
fn through_lens(name: &'static str, lens: Lens) -> TestScene {
    let camera = Camera {
        fx: 52.0,
        fy: 49.0,
        cx: 33.1,
        cy: 29.3,
        lens,
        ..tilted_camera()
    };
    let mut splats = Splats::empty(1);
    let random = &mut Random::new(250);
    let seen = Batch {
        count: 150,
        ..BATCH
    };
    scatter(&mut splats, random, &camera, seen);
    // Outside the image, reaching into it: where the Jacobian is clamped.
    let around = Batch {
        count: 40,
        window: [-40.0, 110.0, -30.0, 80.0],
        sigma: [4.0, 15.0],
        ..BATCH
    };
    scatter(&mut splats, random, &camera, around);
    scene(name, splats, camera)
}

/// A lens that folds back just outside the image: Gaussians behind the camera, beyond the fold
/// (which the formula would put into the image again), far off screen.
fn lens_out_of_sight() -> TestScene {
    let mut scene = out_of_sight();
    scene.name = "lens_out_of_sight";
    scene.camera.lens = Lens::OpenCv([-0.45, 0.02, 0.004, -0.003]);
    scene
}

/// A fisheye that shows a half sphere: Gaussians all round, also at the sides of and behind the
/// camera.
fn fisheye_out_of_sight() -> TestScene {
    let camera = Camera {
        fx: 23.0,
        fy: 24.0,
        lens: Lens::Fisheye([0.02, -0.008, 0.002, -0.0003]),
        ..tilted_camera()
    };
    let mut splats = Splats::empty(1);
    let random = &mut Random::new(260);
    let with = |count, depth, sigma| Batch {
        count,
        depth,
        sigma,
        ..BATCH
    };
    scatter(
        &mut splats,
        random,
        &camera,
        with(200, [0.5, 4.0], [0.4, 4.0]),
    );
    scatter(
        &mut splats,
        random,
        &camera,
        with(60, [-5.0, -0.1], [0.4, 6.0]),
    );
    scatter(
        &mut splats,
        random,
        &camera,
        with(20, [0.011, 0.1], [0.4, 6.0]),
    );
    scene("fisheye_out_of_sight", splats, camera)
}

/// [`needles`] through a fisheye.
fn fisheye_needles() -> TestScene {
    let mut scene = needles();
    scene.name = "fisheye_needles";
    scene.camera.lens = Lens::Fisheye([0.06, -0.03, 0.01, -0.002]);
    scene
}
