//! Results of densification rounds.

use super::engines::{Make, growing, last_report, with_splats};
use dapple_engine::{DensifyPlan, DensifyReport, Engine, EngineExt, Report};
use dapple_scene::Splats;

/// Checks that growth, the Gaussian cap, pruning and the reset of opacities follow the plan, in the
/// order of [`DensifyPlan`].
pub fn density_control_follows_the_plan(make: Make<'_>) {
    small_are_cloned_and_large_are_split(make);
    the_budget_goes_to_the_largest_gradients(make);
    the_transparent_the_large_and_the_broken_are_pruned(make);
    a_reset_clamps_opacities_and_clears_their_moments(make);
    everything_can_go(make);
}

/// Creates an engine whose Gaussian i has a mean screen-space gradient of `gradients[i]`.
fn with_gradients(make: Make<'_>, splats: &Splats, gradients: &[f32]) -> Box<dyn Engine> {
    let mut engine = with_splats(make, splats);
    let (_, mut state) = engine.download().unwrap();
    state.gradient_sums = gradients.iter().map(|g| g * 4.0).collect();
    state.visible_counts = vec![4.0; gradients.len()];
    state.first_moments.opacities = vec![1.0; gradients.len()];
    engine.upload(splats, Some(&state)).unwrap();
    engine
}

/// Creates four Gaussians on the x axis with axes of 0.01, 0.05, 0.01, 0.05.
fn four() -> Splats {
    let small = [0.01f32.ln(); 3];
    let large = [0.05f32.ln(), 0.01f32.ln(), 0.02f32.ln()];
    Splats {
        means: (0..4).map(|i| [i as f32, 0.0, 0.0]).collect(),
        scales: vec![small, large, small, large],
        quats: vec![[1.0, 0.0, 0.0, 0.0]; 4],
        opacities: vec![0.0, 1.0, 2.0, 3.0],
        sh0: vec![[0.1; 3]; 4],
        sh_rest: vec![],
        sh_degree: 0,
    }
}

pub(super) fn densified(
    make: Make<'_>,
    gradients: [f32; 4],
    plan: &DensifyPlan,
) -> (Splats, DensifyReport, Vec<f32>) {
    let mut engine = with_gradients(make, &four(), &gradients);
    engine.densify(plan).unwrap();
    let Report::Densify(report) = last_report(engine.as_mut()) else {
        panic!("no report of a densification");
    };
    let (splats, state) = engine.download().unwrap();
    assert_eq!(splats.len() as u64, report.total);
    // Statistics restart at zero after their use, and only then.
    let cleared = state.gradient_sums.iter().all(|&v| v == 0.0);
    let was_zero = gradients == [0.0; 4] || splats.is_empty();
    assert_eq!(cleared, plan.grow_gradient.is_some() || was_zero);
    (splats, report, state.first_moments.opacities)
}

fn small_are_cloned_and_large_are_split(make: Make<'_>) {
    let plan = DensifyPlan {
        grow_gradient: Some(2e-4),
        ..growing()
    };
    let (splats, report, moments) = densified(make, [3e-4, 3e-4, 1e-4, 1e-4], &plan);
    assert_eq!((report.cloned, report.split, report.pruned), (1, 1, 0));
    // Remaining Gaussians 0, 2, 3, the clone of 0, two children of 1.
    assert_eq!(
        splats.means[..4],
        [0.0, 2.0, 3.0, 0.0].map(|x| [x, 0.0, 0.0])
    );
    assert_eq!(moments, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    for child in 4..6 {
        let away = splats.means[child][0] - 1.0;
        assert!(
            away != 0.0 && away.abs() < 0.3,
            "child at {away} of its parent"
        );
        assert!((splats.scales[child][0] - (0.05f32 / 1.6).ln()).abs() < 1e-5);
    }
    assert_ne!(splats.means[4], splats.means[5]);
}

fn the_budget_goes_to_the_largest_gradients(make: Make<'_>) {
    let plan = DensifyPlan {
        grow_gradient: Some(2e-4),
        max_gaussians: 5,
        ..growing()
    };
    let (splats, report, _) = densified(make, [3e-4, 5e-4, 9e-4, 4e-4], &plan);
    assert_eq!((report.cloned, report.split, report.refused), (1, 0, 3));
    assert_eq!(splats.means[4], [2.0, 0.0, 0.0]);
    // The cap allows five more; half of five is two.
    let plan = DensifyPlan {
        max_gaussians: 9,
        room_share: 0.5,
        ..plan
    };
    let (splats, report, _) = densified(make, [3e-4, 5e-4, 9e-4, 4e-4], &plan);
    assert_eq!((report.cloned, report.split, report.refused), (1, 1, 2));
    assert_eq!(splats.len(), 6);
}

fn the_transparent_the_large_and_the_broken_are_pruned(make: Make<'_>) {
    let plan = DensifyPlan {
        grow_gradient: None,
        prune_opacity: Some(0.6),
        prune_scale: Some(0.03),
        ..growing()
    };
    // Opacities 0.5, 0.73, 0.88, 0.95; 1 and 3 are large.
    let (splats, report, _) = densified(make, [1.0; 4], &plan);
    assert_eq!(report.pruned, 3);
    assert_eq!(splats.means, [[2.0, 0.0, 0.0]]);
}

fn a_reset_clamps_opacities_and_clears_their_moments(make: Make<'_>) {
    let plan = DensifyPlan {
        grow_gradient: None,
        reset_opacity: Some(0.01),
        ..growing()
    };
    let (splats, _, moments) = densified(make, [0.0; 4], &plan);
    for opacity in splats.opacities {
        let value = 1.0 / (1.0 + (-opacity).exp());
        assert!((value - 0.01).abs() < 1e-5, "{value}");
    }
    assert_eq!(moments, [0.0; 4]);
}

fn everything_can_go(make: Make<'_>) {
    let plan = DensifyPlan {
        grow_gradient: None,
        prune_opacity: Some(0.99),
        ..growing()
    };
    let (splats, report, _) = densified(make, [1.0; 4], &plan);
    assert_eq!((report.pruned, report.total, splats.len()), (4, 0, 0));
}
