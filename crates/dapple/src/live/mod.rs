//! A run in a browser while it trains: [`LiveHook`].
//!
//! ```no_run
//! use dapple::live::{LiveHook, LiveOptions};
//! use dapple::prelude::*;
//!
//! # fn train(dataset: &Dataset) -> dapple::Result<()> {
//! let mut trainer = Trainer::new(dataset, Preset::Quick.config(), dapple::engine(Device::Auto)?)?;
//! let mut live = LiveHook::serve(dataset, &trainer, LiveOptions::default())?;
//! println!("open {}", live.url());
//! trainer.run(&mut live)?;
//! # Ok(())
//! # }
//! ```

mod ended;
mod hook;
mod playback;
mod stance;

pub use dapple_viewer::{Curves, Part, Viewer, ViewerOptions};
pub use hook::{LiveHook, LiveOptions};
pub use playback::Playback;
pub use stance::InitialView;

use dapple_scene::Dataset;
use dapple_train::TrainConfig;
use dapple_train::evaluate::ImageScore;
use dapple_viewer::{CameraEntry, Stage};

/// Reason that a run cannot be edited from pages.
const NO_EDITS: &str =
    "a run cannot be edited during training; `dapple view` edits its splats afterwards";

/// Reason that pages do not draw a run themselves.
const NO_DRAWS: &str = "a run is rendered by its engine, since its splats change with every step";

/// Returns a stage with an initial view and no other facts.
pub fn stage(title: String, device: String, gaussians: u64, stance: &InitialView) -> Stage {
    Stage {
        title,
        device,
        gaussians,
        up: stance.up.into(),
        centre: stance.centre.into(),
        distance: stance.distance,
        edits: Err(NO_EDITS.to_owned()),
        draws: Err(NO_DRAWS.to_owned()),
        ..Stage::default()
    }
}

/// Returns the photos of a capture with their known scores.
pub fn entries(dataset: &Dataset, config: &TrainConfig, scores: &[ImageScore]) -> Vec<CameraEntry> {
    let split = config.data.split_views(dataset);
    let views = dataset.views.iter().enumerate();
    views
        .map(|(i, view)| CameraEntry {
            name: view.name.clone(),
            camera: view.camera,
            photo: Some(view.photo.clone()),
            held_out: split.eval.binary_search(&i).is_ok(),
            psnr: scores.iter().find(|s| s.name == view.name).map(|s| s.psnr),
        })
        .collect()
}
