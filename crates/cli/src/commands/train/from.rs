//! `dapple train --from SPLATS`: starts a run from existing splats.
//!
//! Near plane, anti-aliasing and background are those that `dapple eval` scores the file with, unless options set
//! them, so that the score before the first step is that of the file.

use super::Args;
use crate::console::Console;
use crate::options::{config_beside, into_capture, of_run, placed, read_splats, splats_file};
use crate::training_display::gaussians;
use dapple::BoxedEngine;
use dapple::scene::origin::Frame;
use dapple::scene::{Dataset, Error, Result, Splats};
use dapple::train::{ConfigPatch, StartSplats, TrainConfig, Trainer, refuse_no_gaussian};
use std::path::Path;

/// Splats to start a run from.
pub struct FromSplats {
    splats: Splats,
    /// Frame of the splats relative to their capture.
    frame: Frame,
    /// Record of the file.
    pub start: StartSplats,
    /// True if the file has the configuration of its run next to it.
    pub has_config: bool,
}

/// Reads the splats of `--from`, and sets the settings to score them with in the configuration.
pub(super) fn read(
    args: &Args,
    config: &mut TrainConfig,
    console: &Console,
) -> Result<Option<FromSplats>> {
    let (Some(path), Some(scene)) = (&args.from, &args.scene) else {
        return Ok(None);
    };
    let path = splats_file(path)?;
    refuse_own_output(&path, &args.out_folder(scene)?)?;
    let beside = config_beside(&path, ConfigPatch::default(), console)?;
    let (splats, metadata) = read_splats(&path, console)?;
    refuse_no_gaussian(&splats).map_err(|e| e.at_path(&path))?;
    let given = args.given()?;
    if config.near == 0.0 {
        config.near = f64::from(beside.near_plane());
    }
    if given.antialias.is_none() {
        config.antialias |= beside.antialias || metadata.antialiased;
    }
    let has_config = of_run(&path, "config.toml").is_file();
    if has_config && given.background.is_none() {
        config.background = beside.background;
    }
    if splats.sh_degree > config.sh_degree {
        console.note(&format!(
            "note: harmonics of degree {} are cut to {} (--sh-degree)",
            splats.sh_degree, config.sh_degree
        ));
    }
    let start = StartSplats {
        crc32: StartSplats::crc32_of(&path)?,
        gaussians: splats.len() as u64,
        path: path.canonicalize().unwrap_or(path),
    };
    Ok(Some(FromSplats {
        splats,
        frame: metadata.frame(),
        start,
        has_config,
    }))
}

/// Refuses an output folder that contains the splats.
fn refuse_own_output(splats: &Path, out: &Path) -> Result<()> {
    let (Ok(splats), Ok(out)) = (splats.canonicalize(), out.canonicalize()) else {
        return Ok(());
    };
    if !splats.starts_with(&out) {
        return Ok(());
    }
    Err(
        Error::input("the output folder holds the splats to start from")
            .at_path(&out)
            .hint("name another folder with --out"),
    )
}

impl FromSplats {
    /// Reads the splats that a run was started from again.
    ///
    /// # Errors
    /// The file is missing or damaged, or has changed.
    pub fn again(start: StartSplats, console: &Console) -> Result<Self> {
        if StartSplats::crc32_of(&start.path)? != start.crc32 {
            return Err(
                Error::input("the splats that the run started from have changed")
                    .at_path(&start.path)
                    .hint("the run cannot be repeated without them"),
            );
        }
        let (splats, metadata) = read_splats(&start.path, console)?;
        Ok(Self {
            splats,
            frame: metadata.frame(),
            has_config: of_run(&start.path, "config.toml").is_file(),
            start,
        })
    }

    /// Returns the trainer of the run, and prints the score before its first step.
    pub fn trainer(
        mut self,
        dataset: &Dataset,
        config: TrainConfig,
        engine: BoxedEngine,
        console: &Console,
    ) -> Result<Trainer> {
        into_capture(&mut self.splats, self.frame, dataset.origin);
        let path = &self.start.path;
        let mut trainer = Trainer::from_splats(dataset, config, engine, self.splats)
            .map_err(|e| placed(e, path))?;
        let score = trainer.first_score()?;
        let score = score.map_or(String::new(), |score| {
            format!(
                ": PSNR {:.2} dB, SSIM {:.4} before the first step",
                score.psnr, score.ssim
            )
        });
        console.note(&format!(
            "starts from {} of {}{score}",
            gaussians(self.start.gaussians),
            path.display()
        ));
        Ok(trainer)
    }
}
