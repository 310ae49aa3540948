//! Conversions between the data that commands send to the GPU or receive from it and the types of the engine contract.

use crate::{features, layout};
use dapple_engine::{
    DensifyPlan, DensifyReport, GaussianUpdate, LossTerm, NonFiniteReport, RenderSettings, Report,
    StageTime, StepCounts, StepReport, StepSettings, ViewId,
};

/// Returns the immediates of a step.
pub fn step_immediates(
    view: ViewId,
    settings: &StepSettings,
    masked: bool,
    report: u32,
    sh_degree: u8,
    default_cap: u32,
) -> layout::Step {
    let update = GaussianUpdate::of(settings);
    let (adam, rates) = (&settings.adam, &update.learning_rates);
    let first = update.correction(update.adam.beta1);
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    layout::Step {
        view: view.0 as u32 + 1,
        number: settings.step,
        flags: flag(settings.accumulate_density, layout::FLAG_DENSITY)
            | flag(masked, layout::FLAG_MASK)
            | flag(!settings.batch.is_first(), layout::FLAG_ADD_GRADIENTS)
            | flag(
                settings.features.regularise.moved_only,
                layout::FLAG_MOVED_ONLY,
            ),
        rates: [
            rates.means,
            rates.scales,
            rates.quats,
            rates.opacities,
            rates.sh0,
            rates.sh_rest,
        ]
        .map(|rate| (f64::from(rate) / first) as f32),
        beta1: adam.beta1,
        beta2: adam.beta2,
        epsilon: adam.epsilon,
        inverse_correction2: (1.0 / update.correction(update.adam.beta2)) as f32,
        ssim_weight: settings.losses[LossTerm::Ssim],
        report,
        seed: [settings.seed as u32, (settings.seed >> 32) as u32],
        features: features::immediates(settings),
        ..render_immediates(&settings.render, sh_degree, default_cap)
    }
}

/// Returns the numbers of a step that only some steps have, with those of the features.
pub fn step_parameters(
    settings: &StepSettings,
    features: features::Parameters,
) -> layout::Parameters {
    let mut losses = [[0.0; 4]; 2];
    for term in LossTerm::ALL {
        let place = term as usize;
        losses[place / 4][place % 4] = settings.losses[term];
    }
    let update = GaussianUpdate::of(settings);
    layout::Parameters {
        losses,
        batch_share: update.share,
        batch_beta1: update.adam.beta1,
        batch_beta2: update.adam.beta2,
        batch_epsilon: update.adam.epsilon,
        features,
    }
}

/// Returns the immediates of a render.
pub fn render_immediates(
    settings: &RenderSettings,
    sh_degree: u8,
    default_cap: u32,
) -> layout::Step {
    layout::Step {
        sh_degree: settings.sh_degree.min(sh_degree).into(),
        background: settings.background,
        near: settings.near,
        extra_dilation: settings.extra_dilation,
        cap: match settings.max_gaussians_per_tile {
            0 => default_cap,
            cap => cap,
        },
        ..layout::Step::default()
    }
}

/// Returns a step's report from the entry of the ring buffer.
pub fn step_report(
    settings: &StepSettings,
    report: &layout::Report,
    stages: Vec<StageTime>,
) -> Report {
    Report::Step(StepReport {
        step: settings.step,
        loss: report.loss,
        counts: StepCounts {
            gaussians: report.gaussians.into(),
            visible: report.visible.into(),
            instances: report.instances.into(),
            tiles: report.tiles.into(),
            max_instances_per_tile: report.max_per_tile.into(),
            cut_instances: report.cut_instances.into(),
            lost_transmittance: report.lost_transmittance,
        },
        stages,
        not_finite: match settings.checks_numbers() {
            true => NonFiniteReport::new(report.broken.into(), report.broken_tensors),
            false => None,
        },
    })
}

/// Returns a densification round's report from the entry of the ring buffer.
pub fn densify_report(plan: &DensifyPlan, report: &layout::Report) -> Report {
    Report::Densify(DensifyReport {
        step: plan.step,
        cloned: report.cloned.into(),
        split: report.split.into(),
        pruned: report.pruned.into(),
        refused: report.refused.into(),
        relocated: report.relocated.into(),
        added: report.added.into(),
        total: report.gaussians.into(),
    })
}
