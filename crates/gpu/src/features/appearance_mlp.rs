//! Appearance MLP: `project` and `update` have separate permutations, and between them the network and the photo's
//! embedding take their step. See `shaders/shared/mlp.wgsl`, `shaders/mlp_gather.wgsl` and `shaders/mlp_step.wgsl`.

use super::point::{Feature, FeatureContext, Point};
use crate::params::{planes_of, rows_of};
use crate::passes::{Axis, Bits, Code, Kind, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use crate::shared_struct::shared_struct;
use crate::stages::shaders;
use crate::views::Views;
use crate::{Buffers, Context};
use dapple_engine::appearance_mlp::{self, EMBEDDING, NETWORK, no_embedding};
use dapple_engine::{AppearanceMlp, OptimizerState, StepSettings, ViewId};
use dapple_runtime::Defines;
use dapple_scene::Result;

/// Workgroups of `mlp_gather`, a multiple of 16: as many as a large GPU holds at once, and few enough to add up.
pub const MLP_GROUPS: u32 = 512;

/// Sums that a workgroup of `mlp_reduce` adds up.
const COLUMNS: u32 = 16;

/// The tensors of Gaussians' features and of their moments; they exist if the appearance MLP is trained.
const FEATURES: &str = "mlp_features";
/// See [`FEATURES`].
const MOMENTS: &str = "mlp_feature_moments";
/// Planes of features.
const WIDTH: u32 = appearance_mlp::FEATURES as u32;

const _: () = assert!(NETWORK.is_multiple_of(COLUMNS as usize) && MLP_GROUPS.is_multiple_of(16));

const GATHER: Code = Code::new("mlp_gather", "mlp_gather");
const REDUCE: Code = Code::new("mlp_step", "mlp_reduce");
const ADVANCE: Code = Code::new("mlp_step", "mlp_advance");

/// After slots are summed, before parameters change: the derivatives by network and embedding, and their step.
pub static PASS: Pass = Pass {
    shaders: shaders!["mlp_gather", "mlp_step"],
    kernels: &[GATHER, REDUCE, ADVANCE],
    needs: Bits::MLP,
    tensors: &[
        Tensor::new(Axis::Visible, "looked", 8)
            .and_one()
            .when(Bits::MLP),
        Tensor::new(Axis::One, "mlp_partials", MLP_GROUPS * NETWORK as u32).when(Bits::MLP),
        Tensor::new(Axis::One, "mlp_gradient", NETWORK as u32).when(Bits::MLP),
        Tensor::new(Axis::Gaussian, FEATURES, WIDTH)
            .kind(Kind::State)
            .when(Bits::MLP),
        Tensor::new(Axis::Gaussian, MOMENTS, 2 * WIDTH)
            .kind(Kind::Moments)
            .when(Bits::MLP),
        Tensor::new(Axis::View, "mlp", 0),
        Tensor::new(Axis::View, "mlp_moments", 0),
        Tensor::new(Axis::View, "mlp_seen", 0),
    ],
    ..Pass::new("appearance", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&GATHER, Size::Workgroups([MLP_GROUPS, 1, 1]))?;
    r.run(&REDUCE, Size::Workgroups([NETWORK as u32 / COLUMNS, 1, 1]))?;
    r.run(&ADVANCE, Size::ONE)
}

/// Network, embeddings and features.
#[derive(Debug, Default)]
pub struct Held {
    /// Number of views that have an embedding.
    views: usize,
}

shared_struct! {
    /// Numbers of a step.
    pub struct Parameters {
        /// Step size of the network.
        mlp_network_rate: f32,
        /// Step size of the view's embedding.
        mlp_code_rate: f32,
        /// Weight of the embedding in the loss.
        mlp_neutral: f32,
        /// Step size of Gaussians' features.
        mlp_feature_rate: f32,
    }
}

impl Feature for Held {
    type State = AppearanceMlp;
    type Immediates = ();
    type Parameters = Parameters;
    const PASSES: &'static [(Point, &'static Pass)] = &[(Point::Gradients, &PASS)];

    fn parameters(
        &self,
        _views: &Views,
        _view: ViewId,
        settings: &StepSettings,
    ) -> Result<Parameters> {
        let learnt = settings.features.appearance_mlp;
        Ok(Parameters {
            mlp_network_rate: learnt.map_or(0.0, |learnt| learnt.network_rate),
            mlp_code_rate: learnt.map_or(0.0, |learnt| learnt.embedding_rate),
            mlp_neutral: learnt.map_or(0.0, |learnt| learnt.neutral),
            mlp_feature_rate: learnt.map_or(0.0, |learnt| learnt.feature_rate),
        })
    }

    fn define(defines: Defines) -> Defines {
        defines.u32("MLP_GROUPS", MLP_GROUPS)
    }

    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(settings.features.appearance_mlp.is_some(), Bits::MLP)
    }

    fn bits_of_state(state: &OptimizerState) -> Bits {
        Bits::when(!state.views.appearance_mlp.is_empty(), Bits::MLP)
    }

    fn prepare(
        &mut self,
        _at: &mut FeatureContext<'_>,
        view: ViewId,
        settings: &StepSettings,
    ) -> Result<()> {
        match settings.features.appearance_mlp.is_some() && view.0 >= self.views {
            true => Err(no_embedding()),
            false => Ok(()),
        }
    }

    fn upload(&mut self, at: &mut FeatureContext<'_>, mlp: &AppearanceMlp) -> Result<()> {
        self.views = match mlp.is_empty() {
            true => 0,
            false => upload(at.context, at.buffers, mlp, at.capacity)?,
        };
        Ok(())
    }

    fn download(&mut self, at: &mut FeatureContext<'_>) -> Result<AppearanceMlp> {
        match self.views {
            0 => Ok(AppearanceMlp::default()),
            views => {
                let gaussians = (at.gaussians()?, at.capacity);
                download(at.context, at.buffers, views, gaussians)
            }
        }
    }
}

/// Uploads the network and embeddings into buffers of their own, and the features of this number of Gaussians into
/// their planes. Returns the number of views that have an embedding.
///
/// # Errors
/// No memory, or more than a binding can hold.
fn upload(
    context: &Context,
    buffers: &mut Buffers,
    mlp: &AppearanceMlp,
    capacity: usize,
) -> Result<usize> {
    let gpu = &context.gpu;
    for (name, rows, width) in [
        (FEATURES, &mlp.features, appearance_mlp::FEATURES),
        (MOMENTS, &mlp.feature_moments, 2 * appearance_mlp::FEATURES),
    ] {
        gpu.write(buffers.get(name)?, 0, &planes_of(rows, width, capacity));
    }
    let all = [&mlp.frame, &mlp.network, &mlp.embeddings].map(Vec::as_slice);
    buffers.set("mlp", gpu.upload("mlp", &all.concat())?);
    let moments = [&mlp.network_moments, &mlp.embedding_moments].map(Vec::as_slice);
    buffers.set("mlp_moments", gpu.upload("mlp_moments", &moments.concat())?);
    // A run takes fewer steps than that.
    let steps = u32::try_from(mlp.steps()).unwrap_or(u32::MAX);
    let seen: Vec<u32> = std::iter::once(steps)
        .chain(mlp.seen.iter().copied())
        .collect();
    buffers.set("mlp_seen", gpu.upload("mlp_seen", &seen)?);
    Ok(mlp.views())
}

/// Waits, and downloads the network, the embeddings of `views` views, and the features of `gaussians` Gaussians.
///
/// # Errors
/// A lost device, no memory for the copies.
fn download(
    context: &Context,
    buffers: &Buffers,
    views: usize,
    (gaussians, capacity): (usize, usize),
) -> Result<AppearanceMlp> {
    let gpu = &context.gpu;
    let rows = |name: &str, width: usize| -> Result<Vec<f32>> {
        let planes: Vec<f32> = gpu.read(buffers.get(name)?, width * capacity)?;
        Ok(rows_of(&planes, width, gaussians, capacity))
    };
    let mut all: Vec<f32> = gpu.read(buffers.get("mlp")?, 4 + NETWORK + views * EMBEDDING)?;
    let embeddings = all.split_off(4 + NETWORK);
    let network = all.split_off(4);
    let floats = 2 * NETWORK + 2 * views * EMBEDDING;
    let mut moments: Vec<f32> = gpu.read(buffers.get("mlp_moments")?, floats)?;
    let embedding_moments = moments.split_off(2 * NETWORK);
    let mut seen: Vec<u32> = gpu.read(buffers.get("mlp_seen")?, views + 1)?;
    Ok(AppearanceMlp {
        frame: all,
        network,
        network_moments: moments,
        embeddings,
        embedding_moments,
        seen: seen.split_off(1),
        features: rows(FEATURES, appearance_mlp::FEATURES)?,
        feature_moments: rows(MOMENTS, 2 * appearance_mlp::FEATURES)?,
    })
}
