//! What a splatting engine is. What engines are held to is `dapple-reference`.
//!
//! - [`Engine`]: the one trait that everything meets at. Training drives it, never a backend.
//! - [`Stage`]: the names of the stages of a training step; every engine has a file per stage.
//! - [`constants`]: thresholds that all engines share, with their derivation.
//! - [`mod@appearance`]: what makes the colours of one photo differ from another's.
//! - [`mod@look`]: what makes the light of one photo differ from another's, place by place.
//! - [`groups`]: what training holds of each Gaussian, as lists.
//! - [`LossTerm`]: the terms of the loss, as a list.
//! - [`crops`]: a loss over crops that engines do not know.
//! - [`depth`]: depths of a render, and what training is told about them.
//! - [`smoothing`]: the 3D filters of anti-aliased splats.
//! - [`score`]: how far a render is from its photo, found where both are.
//! - [`shown`]: renders as bytes, and how many Gaussians a pixel blends.
//! - [`instruments`]: timings, counters and costs, for benchmarks and profilers.
//!
//! This crate knows no backend.

mod adam_step;
pub mod appearance;
pub mod constants;
mod contract;
pub mod crops;
pub mod depth;
mod dropout;
mod gradients;
pub mod groups;
pub mod instruments;
mod lens;
pub mod look;
mod loss;
pub mod noise;
mod pose_step;
mod posed_camera;
mod poses;
pub mod relocation;
mod report;
pub mod score;
mod settings;
pub mod shown;
pub mod smoothing;
mod stage;
mod trace;
mod upload;
mod view_state;

pub use adam_step::adam;
pub use appearance::{Appearance, AppearanceSettings};
pub use contract::{Engine, OptimizerState, Rendered, TrainView, ViewId};
pub use crops::CropLoss;
pub use depth::{DepthImage, DepthSample, ImageDerivative, check_depths};
pub use dropout::{DROPOUT, Dropout};
pub use gradients::Gradients;
pub use groups::{PARAM_GROUPS, ParamGroup, STATISTICS, Statistic};
pub use lens::{LensForm, slope_range};
pub use look::{Look, LookSettings};
pub use loss::{LossOf, LossTerm, LossWeights};
pub use pose_step::{PoseMoments, refine_pose};
pub use posed_camera::{MAX_IMAGE_SIDE, PosedCamera};
pub use poses::{POSE_WORDS, PoseRates, RefinedPose};
pub use report::{DensifyReport, NotFinite, Report, StageTime, StepCounts, StepReport};
pub use score::{Pictures, ScoreAsks, ScoredView};
pub use settings::{
    Adam, DensifyPlan, Extras, LearningRates, Relocation, RenderSettings, StepSettings,
};
pub use shown::{BlendCounts, RenderedBytes};
pub use stage::Stage;
#[doc(hidden)]
pub use trace::{Trace, TracedSplat};
pub use upload::{check_image_gradient, check_photo, check_upload, check_views};
pub use view_state::{VIEW_GROUPS, ViewGroup, ViewNumbers, ViewSizes, ViewState};
