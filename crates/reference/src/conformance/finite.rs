//! Reports of non-finite Gaussians, and their time.

use super::engines::{Make, with_splats};
use super::training::{photo, settings};
use crate::scenes;
use dapple_engine::constants::FINITE_EVERY;
use dapple_engine::{NonFiniteReport, Report, TrainView};
use dapple_scene::Splats;
use std::sync::Arc;

/// Checks that every [`FINITE_EVERY`] steps a report counts the Gaussians with a parameter that is NaN or
/// infinite, and names their tensors. Other reports, and reports of finite splats, contain nothing.
pub fn gaussians_that_are_not_finite_are_reported(make: Make<'_>) {
    let scene = scenes::named("random_sh3");
    let of_step = |splats: &Splats, step: u32| {
        let mut engine = with_splats(make, splats);
        let view = TrainView {
            camera: scene.camera,
            photo: Arc::new(photo(&scene)),
        };
        let id = engine.add_views(vec![view]).unwrap()[0];
        engine.step(id, &settings(&scene, step)).unwrap();
        engine.finish().unwrap();
        match engine.poll().unwrap().pop() {
            Some(Report::Step(report)) => report.not_finite,
            other => panic!("no report of the step: {other:?}"),
        }
    };
    assert_eq!(of_step(&scene.splats, FINITE_EVERY), None);
    let mut splats = scene.splats.clone();
    let last = splats.len() - 1;
    let stride = splats.sh_rest_stride();
    assert!(last > 40 && stride > 0, "the scene has enough to break");
    splats.means[0][2] = f32::NAN;
    splats.means[17][0] = f32::INFINITY;
    splats.scales[17][1] = f32::NEG_INFINITY;
    splats.sh_rest[(last + 1) * stride - 1] = f32::NAN;
    let found = of_step(&splats, 2 * FINITE_EVERY);
    let names: Vec<_> = found.into_iter().flat_map(NonFiniteReport::names).collect();
    assert_eq!(found.map(|found| found.gaussians), Some(3));
    assert_eq!(names, ["means", "scales", "sh_rest"]);
    assert_eq!(
        NonFiniteReport::find_in(&splats),
        found,
        "as the host counts"
    );
    assert_eq!(of_step(&splats, 2 * FINITE_EVERY + 1), None);
    // One non-finite value in each tensor.
    for (which, name) in NonFiniteReport::TENSORS.into_iter().enumerate() {
        let mut splats = scene.splats.clone();
        match which {
            0 => splats.means[5][1] = f32::NAN,
            1 => splats.scales[5][2] = f32::NAN,
            2 => splats.quats[5][3] = f32::NAN,
            3 => splats.opacities[5] = f32::NAN,
            4 => splats.sh0[5][0] = f32::NAN,
            _ => splats.sh_rest[5 * stride] = f32::NAN,
        }
        let found = of_step(&splats, FINITE_EVERY);
        let names: Vec<_> = found.into_iter().flat_map(NonFiniteReport::names).collect();
        assert_eq!(names, [name]);
    }
}
