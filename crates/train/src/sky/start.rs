//! The sky at the start of a run and of its parts: whether there is one, and its Gaussians behind the others.

use super::Sky;
use crate::config::{Background, SkyMode};
use crate::views::Chosen;
use crate::{TrainConfig, init};
use dapple_engine::OptimizerState;
use dapple_scene::order::{append, gather};
use dapple_scene::{Dataset, Result, Splats, sky};

impl Sky {
    /// Finds the sky that a new run learns, and sets [`TrainConfig::sky`] to on or off. `given` are the splats that the run
    /// starts from: they stay as they are unless a sky is requested.
    ///
    /// # Errors
    /// A sky is requested, and no photo shows one. A photo cannot be read.
    pub(crate) fn settle(
        dataset: &Dataset,
        chosen: &Chosen,
        config: &mut TrainConfig,
        given: Option<&Splats>,
    ) -> Result<Option<Self>> {
        let has_one = given.is_some_and(|splats| sky::of_splats(splats).is_some());
        let is_possible = match given {
            Some(_) => has_one,
            // Photos over a plain background, whose colour the run has, show no sky.
            None => config.background == Background::BLACK,
        };
        let sky = match config.sky {
            SkyMode::Off => None,
            SkyMode::Auto if !is_possible => None,
            SkyMode::Auto => Some(Self::find(dataset, chosen)?).filter(|s| has_one || s.is_sure()),
            SkyMode::On => Some(Self::find(dataset, chosen)?),
        };
        if let Some(sky) = sky.as_ref().filter(|_| !has_one) {
            sky.refuse_none()?;
        }
        config.sky = match sky {
            Some(_) => SkyMode::On,
            None => SkyMode::Off,
        };
        Ok(sky)
    }

    /// Finds the sky of a run that learns one.
    ///
    /// # Errors
    /// A photo cannot be read.
    pub(crate) fn of_run(
        dataset: &Dataset,
        chosen: &Chosen,
        config: &TrainConfig,
    ) -> Result<Option<Self>> {
        match config.sky {
            SkyMode::On => Self::find(dataset, chosen).map(Some),
            SkyMode::Auto | SkyMode::Off => Ok(None),
        }
    }
}

/// Returns the first Gaussians of a run, with those of the sky at their end, and the number of these. `given` are splats to
/// start from.
///
/// # Errors
/// See [`init::initial_splats`].
pub(crate) fn first_splats(
    (dataset, chosen): (&Dataset, &Chosen),
    sky: Option<&Sky>,
    config: &TrainConfig,
    given: Option<Splats>,
) -> Result<(Splats, usize)> {
    let Some(sky) = sky else {
        let splats = match given {
            Some(splats) => splats,
            None => init::initial_splats(dataset, &chosen.train, chosen.extent, config)?,
        };
        return Ok((splats, 0));
    };
    let dome = sky.dome(config.gaussian_budget(), config.sh_degree)?;
    let mut splats = match given {
        Some(mut splats) => {
            let found = put_last(&mut splats, None);
            if found > 0 {
                return Ok((splats, found));
            }
            splats
        }
        None => {
            let reduced = TrainConfig {
                max_gaussians: match config.max_gaussians {
                    0 => 0,
                    cap => cap.saturating_sub(dome.len()).max(1),
                },
                ..config.clone()
            };
            let all = init::initial_splats(dataset, &chosen.train, chosen.extent, &reduced)?;
            // Behind the sky nothing is seen.
            let within = (0..all.len()).filter(|&i| sky.is_within(all.means[i]));
            gather(&all, &within.collect::<Vec<_>>())
        }
    };
    let count = dome.len();
    append(&mut splats, dome);
    Ok((splats, count))
}

/// Moves the Gaussians of the sky, found by their places, behind the others, with their state. Returns their number.
pub(crate) fn put_last(splats: &mut Splats, state: Option<&mut OptimizerState>) -> usize {
    let Some((order, count)) = sky::last(splats) else {
        return 0;
    };
    *splats = gather(splats, &order);
    if let Some(state) = state {
        state.reorder(&order);
    }
    count
}
