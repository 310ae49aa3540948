//! The loss of a crop, part of the stage `loss`: cuts the crop out, runs the caller's kernels, and adds the gradient.
//! See `shaders/crops.wgsl` and [`dapple_engine::crops`].

use super::point::{Feature, FeatureContext, Point};
use crate::layout::WORKGROUP;
use crate::passes::{Axis, Bits, Code, Pass, Tensor, WORD};
use crate::recorder::{Recorder, Size};
use crate::shared_struct::shared_struct;
use crate::stages::{loss, shaders};
use crate::views::Views;
use crate::{Buffers, Context};
use dapple_device::CropRoutine;
use dapple_engine::crops::{no_crop_loss, origin};
use dapple_engine::{FeatureInput, LossTerm, StepSettings, ViewId};
use dapple_scene::{Error, Result};

/// The name of the loss, a dependency of command lists.
const LOSS: &str = "crop loss";

const RENDER: &str = "crop_render";
const PHOTO: &str = "crop_photo";
const DERIVATIVE: &str = "crop_derivative";

const CUT: Code = Code::new("crops", "cut");
const PASTE: Code = Code::new("crops", "paste");

/// From `photo` and the image that the loss compares to the summand of `image_gradient`.
pub static PASS: Pass = Pass {
    shaders: shaders!["crops"],
    kernels: &[CUT, PASTE],
    needs: Bits::CROPS,
    tensors: &[
        Tensor::new(Axis::Given, RENDER, 0),
        Tensor::new(Axis::Given, PHOTO, 0),
        Tensor::new(Axis::Given, DERIVATIVE, 0),
    ],
    ..Pass::new("loss", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    let kernels = r.context.routines.get(LOSS).cloned();
    let kernels = kernels.ok_or_else(no_crop_loss)?;
    let floats = r.bytes_of(RENDER)? / WORD;
    let size = Size::flat((floats / 3).div_ceil(WORKGROUP.into()) as u32);
    let image = [("image", loss::compared(r.bits))];
    r.run_with(&CUT, size, &image, &[])?;
    r.routine(LOSS, kernels);
    r.run(&PASTE, size)
}

/// The loss of crops.
#[derive(Debug, Default)]
pub struct Held {
    /// Edge of the crops that steps compare, pixels, if a loss over crops is set.
    side: Option<u32>,
}

impl Held {
    /// Sets the loss that compares crops in steps from now on, or removes it; no command is in flight.
    ///
    /// # Errors
    /// Other inputs and outputs than two crops and a derivative, or buffers that are too small.
    pub fn set(
        &mut self,
        context: &mut Context,
        buffers: &mut Buffers,
        loss: Option<CropRoutine>,
    ) -> Result<()> {
        self.side = None;
        context.routines.remove(LOSS);
        buffers.touch(LOSS);
        let Some(CropRoutine { side, routine }) = loss else {
            for name in [RENDER, PHOTO, DERIVATIVE] {
                buffers.remove(name);
            }
            return Ok(());
        };
        let ([render, photo], [derivative]) = (&*routine.inputs, &*routine.outputs) else {
            return Err(Error::internal(
                "a loss of crops takes two buffers in and fills one",
            ));
        };
        let bytes = 3 * WORD * u64::from(side).pow(2);
        if [render, photo, derivative].iter().any(|b| b.size() < bytes) {
            return Err(Error::internal(
                "a loss of crops in buffers too small for them",
            ));
        }
        buffers.set(RENDER, render.clone());
        buffers.set(PHOTO, photo.clone());
        buffers.set(DERIVATIVE, derivative.clone());
        context.routines.insert(LOSS, routine.recording);
        self.side = Some(side);
        Ok(())
    }

    /// Returns side and first pixel of the crop that a step compares; zeros if it compares none.
    ///
    /// # Errors
    /// No loss is set; an image smaller than the crop.
    fn crop(
        &self,
        views: &Views,
        view: ViewId,
        settings: &StepSettings,
    ) -> Result<(u32, [u32; 2])> {
        if settings.losses[LossTerm::Perceptual] == 0.0 {
            return Ok((0, [0; 2]));
        }
        let side = self.side.ok_or_else(no_crop_loss)?;
        let view = views.get(view.0);
        let size = view.map_or([0; 2], |view| view.camera.size);
        Ok((side, origin(settings.features.perceptual.crop, size, side)?))
    }
}

shared_struct! {
    /// Numbers of a step.
    pub struct Parameters {
        /// First column and row of the crop that is compared.
        crop: [u32; 2],
        /// Pixels along its edge.
        crop_side: u32,
    }
}

impl Feature for Held {
    type State = ();
    type Immediates = ();
    type Parameters = Parameters;
    const PASSES: &'static [(Point, &'static Pass)] = &[(Point::ImageLoss, &PASS)];

    fn parameters(
        &self,
        views: &Views,
        view: ViewId,
        settings: &StepSettings,
    ) -> Result<Parameters> {
        let (crop_side, crop) = self.crop(views, view, settings)?;
        Ok(Parameters { crop, crop_side })
    }

    /// Removes the loss. On a GPU a loss is a routine, which [`Held::set`] takes.
    fn set_input(
        &mut self,
        at: &mut FeatureContext<'_>,
        input: FeatureInput,
    ) -> Result<Option<FeatureInput>> {
        match input {
            FeatureInput::Perceptual(None) => {
                self.set(at.context, at.buffers, None)?;
                Ok(None)
            }
            FeatureInput::Perceptual(Some(_)) => Err(Error::internal(
                "a loss of crops on the host for an engine on a GPU",
            )),
            other => Ok(Some(other)),
        }
    }

    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(settings.losses[LossTerm::Perceptual] != 0.0, Bits::CROPS)
    }
}
