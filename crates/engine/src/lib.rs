//! Interface of splatting engines. `dapple-reference` defines the results that engines must
//! reproduce.
//!
//! - [`Engine`]: the interface between training and engines. Training calls this trait, never a
//!   specific engine.
//! - [`Stage`]: the names of the stages of a training step; every engine has a file per stage.
//! - [`constants`]: thresholds that all engines share, with their derivation.
//! - [`mod@appearance`]: bilateral grids, a colour correction per photo.
//! - [`mod@appearance_mlp`]: appearance MLP, for light that differs between photos and places.
//! - [`groups`]: lists of the tensors of a Gaussian.
//! - [`LossTerm`]: list of the terms of the loss.
//! - [`crops`]: losses over crops that are defined outside the engines.
//! - [`depth`]: depths of a render, and supervision by known depths.
//! - [`filter_3d`]: 3D filters of anti-aliased splats.
//! - [`score`]: comparison of a render with its photo on the device.
//! - [`shown`]: renders as bytes, and the number of Gaussians that a pixel blends.
//! - [`surface`]: depth and normal of the surface that a pixel shows.
//! - [`instruments`]: timings, counters and costs, for benchmarks and profilers.
//!
//! This crate depends on no engine.

mod adam_step;
pub mod appearance;
pub mod appearance_mlp;
pub mod camera_model;
mod colour_bytes;
pub mod constants;
mod contract;
pub mod crops;
pub mod depth;
mod dropout;
pub mod filter_3d;
mod gradients;
pub mod groups;
pub mod instruments;
mod lens;
mod loss;
pub mod noise;
mod optimizer_state;
mod pose_step;
mod posed_camera;
mod poses;
pub mod relocation;
mod rendered;
mod report;
pub mod score;
mod settings;
pub mod shown;
mod stage;
pub mod surface;
mod trace;
mod upload;
mod view_state;

pub use adam_step::adam;
pub use appearance::{AppearanceGrids, AppearanceSettings};
pub use appearance_mlp::{AppearanceMlp, AppearanceMlpSettings};
pub use camera_model::CameraModel;
pub use contract::{Engine, TrainView, ViewId};
pub use crops::CropLoss;
pub use depth::{DepthImage, DepthSample, ImageDerivative, check_depths};
pub use dropout::{DROPOUT, Dropout};
pub use gradients::{BlendGradients, Gradients};
pub use groups::{PARAM_GROUPS, ParamGroup, STATISTICS, Statistic};
pub use lens::{LensForm, slope_range};
pub use loss::{LossOf, LossTerm, LossWeights};
pub use optimizer_state::OptimizerState;
pub use pose_step::{PoseMoments, refine_pose};
pub use posed_camera::{MAX_IMAGE_SIDE, PosedCamera};
pub use poses::{POSE_WORDS, PoseRates, RefinedPose};
pub use rendered::Rendered;
pub use report::{DensifyReport, NonFiniteReport, Report, StageTime, StepCounts, StepReport};
pub use score::{Pictures, ScoreAsks, ScoredView};
pub use settings::{
    Adam, DensifyPlan, Extras, LearningRates, Relocation, RenderSettings, StepSettings,
};
pub use shown::{BlendCounts, RenderedBytes};
pub use stage::Stage;
pub use surface::SurfaceImage;
#[doc(hidden)]
pub use trace::{Trace, TracedSplat};
pub use upload::{check_image_gradient, check_photo, check_upload, check_views};
pub use view_state::{VIEW_GROUPS, ViewGroup, ViewNumbers, ViewSizes, ViewState};
