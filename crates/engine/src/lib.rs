//! Interface of splatting engines. `dapple-reference` defines the results that engines must
//! reproduce.
//!
//! - [`Engine`]: the interface between training and engines. Training calls this trait, never a
//!   specific engine.
//! - [`EngineExt`]: further methods of every engine, which follow from those of [`Engine`].
//! - [`extensions`]: abilities that an engine may lack, each a trait.
//! - [`Observed`]: an engine whose calls pass through a listener.
//! - [`Stage`]: the names of the stages of a training step; every engine has a file per stage.
//! - [`camera_model`]: how points become pixels, for pinholes, lenses and panoramas.
//! - [`constants`]: thresholds that all engines share, with their derivation.
//! - [`features`]: what a step can do beyond its stages, one file each: poses, anti-aliasing, dropout, appearance, depths.
//! - [`focus`]: region of interest of density control.
//! - [`groups`]: lists of the tensors of a Gaussian.
//! - [`LossTerm`]: list of the terms of the loss.
//! - [`density`]: decisions of density control, for engines on the host.
//! - [`depth`]: depths of a render.
//! - [`score`]: comparison of a render with its photo on the device.
//! - [`shown`]: renders as bytes, and the Gaussians that a pixel blends.
//! - [`sharded`]: steps of a model whose Gaussians several engines hold.
//! - [`tiles`]: renders of chosen tiles.
//! - [`surface`]: depth and normal of the surface that a pixel shows.
//! - [`instruments`]: timings, counters and costs, for benchmarks and profilers.
//!
//! This crate depends on no engine.

mod adam_step;
mod batch;
pub mod camera_model;
pub mod channel;
mod colour_bytes;
pub mod constants;
mod contract;
pub mod density;
pub mod depth;
mod engine_ext;
pub mod extensions;
pub mod features;
pub mod focus;
mod gradients;
pub mod groups;
pub mod instruments;
mod lens;
mod loss;
mod memory_plan;
pub mod noise;
mod observed;
mod optimizer_state;
mod part;
mod posed_camera;
pub mod relocation;
mod rendered;
mod report;
pub mod score;
mod settings;
pub mod sharded;
pub mod shown;
mod stage;
pub mod surface;
pub mod tiles;
mod trace;
mod train_view;
mod upload;

pub use adam_step::{RestedAdam, adam};
pub use batch::{Batch, GaussianUpdate, OpenBatch};
pub use camera_model::CameraModel;
pub use channel::Channel;
pub use contract::{DownloadParts, Engine};
pub use depth::{DepthImage, ImageDerivative};
pub use engine_ext::EngineExt;
pub use extensions::{ReadPart, Scoring, Sharing, Showing, Streaming, Tiling};
pub use features::antialias as filter_3d;
pub use features::appearance::{self, AppearanceGrids, AppearanceSettings};
pub use features::appearance_mlp::{self, AppearanceMlp, AppearanceMlpSettings};
pub use features::depth::{DepthSample, check_depths};
pub use features::dropout::{DROPOUT, Dropout};
pub use features::perceptual::{self as crops, CropLoss};
pub use features::poses::{POSE_WORDS, PoseMoments, PoseRates, RefinedPose, refine_pose};
pub use features::{FeatureInput, StepFeatures, ViewSizes, ViewState};
pub use focus::{DensityFocus, FocusView};
pub use gradients::{BlendGradients, GradientParts, Gradients};
pub use groups::{PARAM_GROUPS, ParamGroup, STATISTICS, Statistic};
pub use lens::{LensForm, slope_range};
pub use loss::{LossOf, LossTerm, LossWeights};
pub use memory_plan::MemoryPlan;
pub use observed::{Call, CallListener, Observed};
pub use optimizer_state::OptimizerState;
pub use posed_camera::{MAX_IMAGE_SIDE, PosedCamera};
pub use rendered::Rendered;
pub use report::{DensifyReport, NonFiniteReport, Report, StageTime, StepCounts, StepReport};
pub use score::{Pictures, ScoreAsks, ScoredView};
pub use settings::{
    Adam, DensifyPlan, Extras, LearningRates, Relocation, RenderSettings, StepSettings,
};
pub use sharded::{ComparedView, HostShipment, Part, Sharded, Shipment, ShownPart, ViewStep};
pub use shown::{BlendCounts, Contributors, RenderedBytes};
pub use stage::Stage;
pub use surface::SurfaceImage;
pub use tiles::TileMask;
#[doc(hidden)]
pub use trace::{Trace, TracedSplat};
pub use train_view::{TrainView, ViewId};
pub use upload::{check_image_gradient, check_photo, check_upload, check_views};
