//! Rounds of density control with a region of interest ([`DensityFocus`]): Gaussians outside grow and are copied less.

use super::density::densified;
use super::engines::{Make, growing};
use super::strategy::{self, check_round, opacities};
use crate::scenes;
use dapple_engine::focus::VIEWS;
use dapple_engine::{DensifyPlan, DensityFocus, FocusView};
use dapple_scene::Splats;
use glam::DVec3;

/// Checks the draws of a relocation with regions of both kinds against the reference, and the choice of Gaussians that
/// grow.
pub fn focus_steers_density_control(make: Make<'_>) {
    let mut engine = make();
    let scene = scenes::named("crowd");
    let splats = opacities(&scene.splats, |i| [-9.0, -1.0, 3.0, -5.2, 0.5][i % 5]);
    for focus in regions(&splats) {
        let inside = splats.means.iter().filter(|mean| focus.contains(**mean));
        let inside = inside.count();
        assert!(
            inside > splats.len() / 20 && inside < splats.len() * 19 / 20,
            "{inside} of {} are in {focus:?}",
            splats.len()
        );
        for (outside, cameras) in [(0, 0), (1, 20), (64, 0), (64, 20), (64, 1), (256, 20)] {
            let views = views(&splats, cameras);
            let focus = DensityFocus {
                outside,
                views,
                ..focus
            };
            let plan = DensifyPlan {
                focus: Some(focus),
                ..strategy::plan(usize::MAX)
            };
            check_round(engine.as_mut(), &splats, &plan, &format!("{focus:?}"));
        }
    }
    growth_prefers_the_region(make);
}

/// Returns cameras on a spiral about the Gaussians, turned to their middle, each with a narrower photo than the one
/// before; the first sees all directions.
fn views(splats: &Splats, count: usize) -> [FocusView; VIEWS] {
    let places = splats
        .means
        .iter()
        .map(|mean| DVec3::from(mean.map(f64::from)));
    let middle = places.sum::<DVec3>() / splats.len() as f64;
    std::array::from_fn(|k| {
        if k >= count {
            return FocusView::NONE;
        }
        let turn = 0.7 * k as f64;
        let axis = DVec3::new(turn.cos(), 0.3, turn.sin()).normalize();
        let single = |v: DVec3| v.to_array().map(|v| v as f32);
        FocusView {
            centre: single(middle - axis * (0.5 + 0.3 * k as f64)),
            axis: single(axis),
            least_cosine: if k == 0 { -1.0 } else { 0.5 + 0.02 * k as f32 },
        }
    })
}

/// Returns half of space, as a large box.
pub(super) fn half_space() -> DensityFocus {
    DensityFocus {
        rows: [
            [1e-3, 0.0, 0.0, 1.0],
            [0.0, 1e-3, 0.0, 0.0],
            [0.0, 0.0, 1e-3, 0.0],
        ],
        is_box: true,
        outside: 32,
        views: [FocusView::NONE; VIEWS],
    }
}

/// Returns an ellipsoid and a tilted box about the middle of the Gaussians, and half of space.
fn regions(splats: &Splats) -> [DensityFocus; 3] {
    let count = splats.len() as f32;
    let mean = [0, 1, 2].map(|k| splats.means.iter().map(|mean| mean[k]).sum::<f32>() / count);
    let spread = [0, 1, 2].map(|k| {
        let squares = splats.means.iter().map(|m| (m[k] - mean[k]).powi(2));
        (squares.sum::<f32>() / count).sqrt()
    });
    let region = |axes: [[f32; 3]; 3], is_box: bool| DensityFocus {
        rows: [0, 1, 2].map(|row| {
            let [x, y, z] = [0, 1, 2].map(|k| axes[row][k] / (1.3 * spread[k]));
            [x, y, z, -(x * mean[0] + y * mean[1] + z * mean[2])]
        }),
        is_box,
        outside: 0,
        views: [FocusView::NONE; VIEWS],
    };
    let plain = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let tilted = [[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]];
    [region(plain, false), region(tilted, true), half_space()]
}

/// Four Gaussians at x = 0, 1, 2, 3, of which the last two are in the region.
fn growth_prefers_the_region(make: Make<'_>) {
    let focus = DensityFocus {
        rows: [
            [1.0, 0.0, 0.0, -2.5],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
        ],
        is_box: false,
        outside: 64,
        views: [FocusView::NONE; VIEWS],
    };
    let plan = DensifyPlan {
        grow_gradient: Some(2e-4),
        focus: Some(focus),
        ..growing()
    };
    // A quarter of the first two gradients is below and above the threshold.
    let gradients = [7e-4, 9e-4, 3e-4, 1e-4];
    let (_, report, _) = densified(make, gradients, &plan);
    assert_eq!((report.cloned, report.split), (1, 1));
    // With one place, the smaller gradient inside is ahead of the larger one outside.
    let scarce = DensifyPlan {
        max_gaussians: 5,
        ..plan
    };
    let (splats, report, _) = densified(make, gradients, &scarce);
    assert_eq!((report.cloned, report.refused), (1, 1));
    assert_eq!(splats.means[4], [2.0, 0.0, 0.0]);
    // A camera that looks along the row shows all four with the region.
    let mut seen = focus;
    seen.views[0] = FocusView {
        centre: [-5.0, 0.0, 0.0],
        axis: [1.0, 0.0, 0.0],
        least_cosine: 0.8,
    };
    let along = DensifyPlan {
        focus: Some(seen),
        ..scarce
    };
    let (_, report, _) = densified(make, gradients, &along);
    assert_eq!((report.cloned, report.split, report.refused), (0, 1, 2));
    let anywhere = DensifyPlan {
        focus: None,
        ..scarce
    };
    let (_, report, _) = densified(make, gradients, &anywhere);
    assert_eq!((report.cloned, report.split, report.refused), (0, 1, 2));
}
