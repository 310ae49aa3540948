//! `appearance` by the photometric model: the image through gains, vignetting and response before `loss`, and the
//! backward pass and the model's own step after it. See `shaders/photometric.wgsl`.

use super::point::{Feature, FeatureContext, Point};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use crate::shared_struct::shared_struct;
use crate::stages::project::PIXELS;
use crate::stages::shaders;
use crate::views::Views;
use crate::{Buffers, Context};
use dapple_engine::features::photometric::Photometric;
use dapple_engine::features::photometric::{self, ROW};
use dapple_engine::{StepSettings, ViewId};
use dapple_runtime::Defines;
use dapple_scene::Result;

/// Numbers of a model that change: a row without its two unused numbers.
const NUMBERS: u32 = ROW as u32 - 2;

/// Counts of a view in `photometric_seen`: its steps, those of its camera, the row of its camera.
const COUNTS: usize = 3;

const APPLY: Code = Code::new("photometric", "photometric_apply");
const BACKWARD: Code = Code::new("photometric", "photometric_back");
const ADVANCE: Code = Code::new("photometric", "photometric_advance");
const COUNT: Code = Code::new("photometric", "photometric_count");

/// From `image` to `corrected`.
pub static FORTH: Pass = Pass {
    shaders: shaders!["photometric"],
    kernels: &[APPLY],
    needs: Bits::PHOTOMETRIC,
    tensors: &[
        Tensor::new(Axis::Tile, "photometric_partials", NUMBERS).when(Bits::PHOTOMETRIC),
        Tensor::new(Axis::View, "photometric", 0),
        Tensor::new(Axis::View, "photometric_seen", 0),
    ],
    ..Pass::new("appearance", |r| r.run(&APPLY, PIXELS))
};

/// `image_gradient` from dL/d`corrected` to dL/d`image`, and the step of the view's model.
pub static BACK: Pass = Pass {
    kernels: &[BACKWARD, ADVANCE, COUNT],
    needs: Bits::PHOTOMETRIC,
    ..Pass::new("appearance", record_back)
};

fn record_back(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&BACKWARD, PIXELS)?;
    r.run(&ADVANCE, Size::Workgroups([NUMBERS, 1, 1]))?;
    r.run(&COUNT, Size::ONE)
}

/// Models of the views.
#[derive(Debug, Default)]
pub struct Held {
    /// Number of views that have a model.
    views: usize,
}

impl Held {
    fn is_short(&self, views: &Views, settings: &StepSettings) -> bool {
        settings.features.photometric.is_some() && self.views < views.len()
    }
}

shared_struct! {
    /// Numbers of a step.
    pub struct Parameters {
        /// Step size of a photo's gains.
        photometric_rate: f32,
        /// Weight of the prior in the loss.
        photometric_prior: f32,
    }
}

impl Feature for Held {
    type State = Photometric;
    type Immediates = ();
    type Parameters = Parameters;
    const PASSES: &'static [(Point, &'static Pass)] =
        &[(Point::Image, &FORTH), (Point::ImageBack, &BACK)];

    fn parameters(
        &self,
        _views: &Views,
        _view: ViewId,
        settings: &StepSettings,
    ) -> Result<Parameters> {
        let learnt = settings.features.photometric;
        Ok(Parameters {
            photometric_rate: learnt.map_or(0.0, |learnt| learnt.rate),
            photometric_prior: learnt.map_or(0.0, |learnt| learnt.prior),
        })
    }

    fn define(defines: Defines) -> Defines {
        defines
            .u32("PHOTOMETRIC_ROW", ROW as u32)
            .f32("PHOTOMETRIC_CAMERA_SHARE", photometric::CAMERA_SHARE)
    }

    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(settings.features.photometric.is_some(), Bits::PHOTOMETRIC)
    }

    fn reads_back(&self, views: &Views, settings: &StepSettings) -> bool {
        self.is_short(views, settings)
    }

    /// Makes sure that every view has a model.
    fn prepare(
        &mut self,
        at: &mut FeatureContext<'_>,
        _view: ViewId,
        settings: &StepSettings,
    ) -> Result<()> {
        if self.is_short(at.views, settings) {
            let mut models = self.download(at)?;
            models.extend_to(at.views.cameras());
            self.views = upload(at.context, at.buffers, &models)?;
        }
        Ok(())
    }

    fn upload(&mut self, at: &mut FeatureContext<'_>, models: &Photometric) -> Result<()> {
        self.views = match models.is_empty() {
            true => 0,
            false => upload(at.context, at.buffers, models)?,
        };
        Ok(())
    }

    fn download(&mut self, at: &mut FeatureContext<'_>) -> Result<Photometric> {
        match self.views {
            0 => Ok(Photometric::default()),
            views => download(at.context, at.buffers, views),
        }
    }
}

/// Uploads the models of all views into buffers of their own. Returns the number of views.
///
/// # Errors
/// No memory, or more than a binding can hold.
fn upload(context: &Context, buffers: &mut Buffers, models: &Photometric) -> Result<usize> {
    let views = models.views();
    let mut numbers = Vec::with_capacity(3 * ROW * views);
    let mut seen = Vec::with_capacity(COUNTS * views);
    for view in 0..views {
        let row = view * ROW..(view + 1) * ROW;
        numbers.extend_from_slice(&models.numbers[row.clone()]);
        numbers.extend_from_slice(&models.first_moments[row.clone()]);
        numbers.extend_from_slice(&models.second_moments[row]);
        seen.extend_from_slice(&models.seen[2 * view..2 * view + 2]);
        seen.push(models.cameras[view]);
    }
    let gpu = &context.gpu;
    buffers.set("photometric", gpu.upload("photometric", &numbers)?);
    buffers.set("photometric_seen", gpu.upload("photometric_seen", &seen)?);
    Ok(views)
}

/// Waits, and downloads the models of this number of views.
///
/// # Errors
/// A lost device, no memory for the copies.
fn download(context: &Context, buffers: &Buffers, views: usize) -> Result<Photometric> {
    let gpu = &context.gpu;
    let numbers: Vec<f32> = gpu.read(buffers.get("photometric")?, 3 * ROW * views)?;
    let seen: Vec<u32> = gpu.read(buffers.get("photometric_seen")?, COUNTS * views)?;
    let mut models = Photometric::default();
    for rows in numbers.as_chunks::<{ 3 * ROW }>().0 {
        models.numbers.extend_from_slice(&rows[..ROW]);
        models.first_moments.extend_from_slice(&rows[ROW..2 * ROW]);
        models.second_moments.extend_from_slice(&rows[2 * ROW..]);
    }
    for &[photo, camera, row] in seen.as_chunks::<COUNTS>().0 {
        models.seen.extend([photo, camera]);
        models.cameras.push(row);
    }
    Ok(models)
}
