//! Defines a custom density strategy: `cargo run --release --example strategy`.
//!
//! A strategy decides when Gaussians are added and removed; the engine executes the round. In the first
//! half of the run, this strategy evenly doubles the number of Gaussians, in places that the photos do not
//! explain yet. It does so for any size of the gradients. In the second half, it prunes transparent
//! Gaussians.

use dapple::contract::{DensifyPlan, Extras, LearningRates};
use dapple::prelude::*;
use dapple::train::DensityStrategy;

/// Strategy of this example. Lengths are in world units; `extent` is the scene's size in them.
#[derive(Debug)]
struct TwiceAsMany {
    first: usize,
    steps: u32,
    seed: u64,
    extent: f64,
}

/// Steps between two rounds.
const EVERY: u32 = 20;

impl TwiceAsMany {
    fn grows(&self, step: u32) -> bool {
        step <= self.steps / 2
    }
}

impl DensityStrategy for TwiceAsMany {
    fn name(&self) -> &str {
        "twice-as-many"
    }

    fn plan(&self, step: u32) -> Option<DensifyPlan> {
        if !step.is_multiple_of(EVERY) || step == self.steps {
            return None;
        }
        // The largest gradients grow first, up to the number that is due now.
        let share = (2.0 * f64::from(step) / f64::from(self.steps)).min(1.0);
        Some(DensifyPlan {
            step,
            seed: self.seed,
            grow_gradient: self.grows(step).then_some(0.0),
            split_scale: (0.01 * self.extent) as f32,
            prune_opacity: (!self.grows(step)).then_some(0.005),
            prune_scale: None,
            max_gaussians: (self.first as f64 * (1.0 + share)) as usize,
            room_share: 1.0,
            reset_opacity: None,
            ..DensifyPlan::NOTHING
        })
    }

    fn accumulates(&self, step: u32) -> bool {
        // Screen-space gradients cost a little, so they are computed only while they are used.
        self.grows(step)
    }

    fn extras(&self, _: u32, _: &LearningRates) -> Extras {
        Extras::default()
    }
}

fn main() -> dapple::Result<()> {
    let capture = synth::dataset(&SynthOptions {
        photos: 16,
        width: 160,
        height: 120,
        points: 1500,
        ..SynthOptions::default()
    })?;
    let config = Preset::Micro.config_for(200);
    let trainer = Trainer::new(&capture, config.clone(), dapple::engine(Device::Cpu)?)?;
    let first = trainer.gaussians() as usize;
    let strategy = TwiceAsMany {
        first,
        steps: config.steps,
        seed: config.seed,
        extent: trainer.schedule().extent(),
    };
    let mut trainer = trainer.with_strategy(strategy)?;
    let before = trainer.evaluate()?.psnr;
    let outcome = trainer.run(&mut Silent)?;
    for round in &trainer.history().densify {
        println!(
            "step {:3}: {:4} cloned, {:4} split, {:4} pruned: {} Gaussians",
            round.step, round.cloned, round.split, round.pruned, round.total
        );
    }
    let most = trainer.history().densify.iter().map(|round| round.total);
    assert_eq!(most.max(), Some(2 * first as u64), "it did not double");
    let after = outcome.eval.map_or(before, |eval| eval.psnr);
    println!("held-out PSNR {before:.2} -> {after:.2} dB");
    assert!(after > before, "training made it worse");
    Ok(())
}
