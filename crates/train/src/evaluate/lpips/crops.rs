//! LPIPS as a loss of crops: [`dapple_engine::crops`].
//!
//! 1. Once: a plan of the distance of two crops, and of its derivative by the first.
//! 2. On a GPU the plan reads crops from buffers that the engine fills, and leaves the derivative in one that it reads; the
//!    engine plays it amid a step. On the processor the engine's values are copied in and out.

use super::device::Root;
use super::{DeviceLpips, Lpips};
use crate::evaluate::tensors::context_of;
use dapple_engine::{CropLoss, Engine};
use dapple_runtime::{Pooled, Routine};
use dapple_scene::{Error, Result};
use dapple_tensor::{Context, DType, Device, Plan, PlanOptions, Tensor};
use std::any::Any;
use std::sync::Arc;

/// The distance of crops of one size, with its derivative.
#[derive(Debug)]
pub struct LpipsCrops {
    side: u32,
    plan: Plan,
    at: Place,
}

/// Where crops and derivative are.
#[derive(Debug)]
enum Place {
    /// Tensors that values are copied into; the derivative is the plan's first output.
    Host([Tensor; 2]),
    /// Buffers of the crops, and of the derivative.
    Device([Arc<Pooled>; 2], Arc<Pooled>),
}

impl Lpips {
    /// The loss of crops of `side` x `side` pixels for an engine, on its device.
    ///
    /// # Errors
    /// Crops too small for the network's strides; a device without memory for what is in between.
    pub fn crops(&self, side: u32, engine: &dyn Engine) -> Result<LpipsCrops> {
        self.crops_on(side, &context_of(engine))
    }

    /// [`Self::crops`] for engines that compute where this context does.
    ///
    /// # Errors
    /// As [`Self::crops`].
    pub fn crops_on(&self, side: u32, context: &Context) -> Result<LpipsCrops> {
        let edge = side as usize;
        self.backbone().check_size(edge, edge)?;
        LpipsCrops::new(&self.on(context)?, side)
    }
}

impl LpipsCrops {
    fn new(lpips: &DeviceLpips, side: u32) -> Result<Self> {
        let context = lpips.context();
        let edge = side as usize;
        let shape = [edge, edge, 3];
        let floats = 3 * edge * edge;
        let by_render = |pictures: &[Tensor; 2]| -> Result<Tensor> {
            let (distance, _) = lpips.distance_of(pictures, Root::Smooth)?;
            let gradient = distance.gradients(&[&pictures[0]]).pop();
            gradient.ok_or_else(|| Error::internal("one derivative was asked for"))
        };
        let Device::Gpu(gpu) = context.device() else {
            let picture = || context.tensor(&shape, &vec![0.0; floats]);
            let pictures = [picture(), picture()];
            let plan = Plan::compile(&[&by_render(&pictures)?])?;
            let at = Place::Host(pictures);
            return Ok(Self { side, plan, at });
        };
        let buffer = |name| gpu.buffer(name, (size_of::<f32>() * floats) as u64);
        let crops = [buffer("crop_render")?, buffer("crop_photo")?];
        let derivative = buffer("crop_derivative")?;
        let over = |buffer: &Arc<Pooled>| context.external(DType::F32, &shape, buffer, buffer);
        let pictures = [over(&crops[0]), over(&crops[1])];
        let (to, gradient) = (over(&derivative), by_render(&pictures)?);
        let updates = [(to, gradient)];
        let options = PlanOptions {
            updates: &updates,
            ..PlanOptions::default()
        };
        let plan = Plan::compile_with(&[], &options)?;
        let at = Place::Device(crops, derivative);
        Ok(Self { side, plan, at })
    }
}

impl CropLoss for LpipsCrops {
    fn side(&self) -> u32 {
        self.side
    }

    fn differentiate(
        &mut self,
        render: &[f32],
        photo: &[f32],
        derivative: &mut [f32],
    ) -> Result<()> {
        let Place::Host([a, b]) = &self.at else {
            return Err(Error::internal("crops that are compared on a GPU"));
        };
        a.write(render)?;
        b.write(photo)?;
        self.plan.run()?;
        derivative.copy_from_slice(&self.plan.read(0)?);
        Ok(())
    }

    fn routine(&self) -> Option<Box<dyn Any>> {
        let Place::Device(crops, derivative) = &self.at else {
            return None;
        };
        let recording = self.plan.recording()?.clone();
        Some(Box::new(Routine {
            recording,
            inputs: crops.to_vec(),
            outputs: vec![derivative.clone()],
        }))
    }
}
