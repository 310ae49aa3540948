//! Training: what happens between a capture and its splats, on whichever engine.
//!
//! - [`TrainConfig`]: everything that determines a run; layered from preset, file and flags.
//! - [`init`]: the first Gaussians, from sparse points or from nothing.
//! - [`mod@evidence`]: how many Gaussians and steps suit a capture.
//! - [`mod@outlook`]: whether a longer run with more Gaussians gains, asked on the way.
//! - [`Schedule`]: the numbers of each step; a pure function of configuration and step.
//! - [`mod@strategy`]: when Gaussians are added, moved and removed.
//! - [`mod@time_budget`]: a run that ends when its time is over.
//! - [`Trainer`]: drives an [`Engine`](dapple_engine::Engine) through a run.
//! - [`Checkpoint`]: a run, stopped in the middle, as a file.
//! - [`mod@evaluate`]: PSNR, SSIM and LPIPS of held-out photos, and comparisons of runs.
//! - [`RunFolder`]: what a run leaves on disk.
//!
//! This crate knows no backend: engines are handed in.

mod appearance;
mod broken;
mod checkpoint;
mod clock;
pub mod config;
mod contributions;
mod depth;
pub mod evaluate;
pub mod evidence;
mod floaters;
mod history;
pub mod init;
mod loader;
mod observer;
mod order;
pub mod outlook;
mod output;
mod perceptual;
mod pictures;
mod plain_background;
mod poses;
mod random;
mod refit;
mod saving;
mod schedule;
pub mod strategy;
pub mod time_budget;
mod trainer;
mod views;
mod watch;

pub use appearance::{APPEARANCE_VERSION, read_looks, write_appearance, write_looks};
pub use checkpoint::{CHECKPOINT_VERSION, CaptureIdentity, Checkpoint, Launch, ViewIdentity};
pub use config::{AppearanceModel, ConfigPatch, DepthSource, Preset, TrainConfig};
pub use contributions::contributions;
pub use evaluate::{
    EvalReport, Halves, ImageScore, Scoring, evaluate, evaluate_aligned, evaluate_halves,
};
pub use evidence::{Bound, Budget, Evidence, Seen};
pub use floaters::floaters;
pub use history::{CapLosses, EvalRow, GotWorse, History, LossRow, Seconds};
pub use loader::PhotoTraffic;
pub use observer::{Ending, Observer, Outcome, Silent, StepProgress};
pub(crate) use order::PhotoOrder;
pub use order::ViewOrder;
pub use outlook::{Outlook, Verdict};
pub use output::{
    CaptureRecord, Fingerprint, METRICS_VERSION, MOST_SNAPSHOT_BYTES, Metrics, PictureWriter,
    RenderNames, RunFolder, RunLock, Snapshot, Snapshots, Taken, Writes, train_into,
};
pub use plain_background::PlainBackground;
pub use poses::PoseErrors;
pub use refit::{Refit, refit};
pub use schedule::Schedule;
pub use strategy::{DensityStrategy, Strategy};
pub use trainer::{Onlooker, Trainer};
pub use watch::{Best, WatchReport, WatchRow};
