//! Training: computes splats from a capture on any engine.
//!
//! - [`TrainConfig`]: configuration of a run; layered from preset, file and flags.
//! - [`init`]: the first Gaussians, from sparse points or random points.
//! - [`mod@capture_statistics`]: Gaussian cap and steps from capture statistics.
//! - [`mod@extension`]: extension checks, which test during a run whether more steps and Gaussians gain.
//! - [`mod@plan`]: the configuration of a run, and what the run has changed since.
//! - [`Schedule`]: the numbers of each step; a pure function of plan and step.
//! - [`mod@strategy`]: rules that add, move and remove Gaussians.
//! - [`mod@time_budget`]: runs of a given time.
//! - [`Trainer`]: drives an [`Engine`](dapple_engine::Engine) through a run.
//! - [`mod@hook`]: what accompanies the steps of a run, such as scoring, saving and viewing.
//! - [`Checkpoint`]: a run that was stopped between two steps, as a file.
//! - [`mod@evaluate`]: PSNR, SSIM and LPIPS of held-out photos, and comparisons of runs.
//! - [`RunFolder`]: files that a run writes.
//! - [`mod@verification`]: compares a repeated run with the record of the first.
//!
//! This crate depends on no backend: the caller passes engines.

mod appearance;
mod broken;
pub mod capture_statistics;
mod checkpoint;
mod clock;
pub mod config;
mod continuation;
mod contributions;
mod ending;
pub mod evaluate;
mod event;
pub mod extension;
mod features;
mod floaters;
mod focus;
mod history;
pub mod hook;
pub mod init;
mod loader;
mod order;
mod output;
mod pictures;
mod plain_background;
pub mod plan;
mod poses;
mod random;
mod refit;
mod saving;
mod schedule;
mod sky;
pub mod strategy;
pub mod time_budget;
mod trainer;
mod validation;
pub mod verification;
mod views;

pub use appearance::{APPEARANCE_VERSION, read_appearance_mlp, write_appearance};
pub use capture_statistics::{Budget, BudgetFor, CaptureStatistics, LimitReason, PhotoCoverage};
pub use checkpoint::{
    CHECKPOINT_VERSION, CaptureIdentity, Checkpoint, RunOrigin, ShardPlace, Shards, StartSplats,
    ViewIdentity,
};
pub use config::{
    AppearanceModel, ConfigPatch, DepthSource, Joined, JoinedPhotos, Preset, SkyMode, TrainConfig,
};
pub use continuation::{Continuation, SettingChange};
pub use contributions::contributions;
pub use ending::{Ending, Outcome};
pub use evaluate::{
    EvalReport, FocusScores, Halves, ImageScore, Scoring, evaluate, evaluate_aligned,
    evaluate_halves,
};
pub use event::{Event, StepProgress};
pub use extension::{ExtensionCheck, ExtensionDecision};
pub use floaters::floaters;
pub use focus::{auto_region, evaluate_focus};
pub use history::{CapLosses, EvalRow, GotWorse, History, LossRow, Seconds};
pub use hook::{CheckpointKind, DeviceRequirements, Next, RunHook, Silent};
pub use loader::PhotoTraffic;
pub(crate) use order::PhotoOrder;
pub use order::ViewOrder;
pub use output::{
    CaptureRecord, EarlierRun, Fingerprint, METRICS_VERSION, MOST_SNAPSHOT_BYTES, Metrics,
    PictureWriter, RenderNames, RunFolder, RunLock, Snapshot, Snapshots, Taken, Writes,
    refuse_run_file, train_into,
};
pub use plain_background::PlainBackground;
pub use plan::{Amendment, Amendments, Change, Plan};
pub use poses::PoseErrors;
pub use refit::{Refit, refit};
pub use schedule::Schedule;
pub use strategy::{DensityStrategy, Strategy};
pub use trainer::{PausedRun, Trainer, fitting_gaussians, refuse_no_gaussian, sampled_steps};
pub use validation::{Best, ValidationRow, WatchReport};
pub use verification::Verifier;
