//! LPIPS as a loss of crops: [`dapple_engine::crops`].
//!
//! 1. Once: a plan of the distance of two crops, and of its derivative by the first.
//! 2. On the CPU ([`LpipsCrops`]) the engine's values are copied in and out.
//! 3. On a GPU ([`Lpips::crop_routine`]) the plan reads crops from buffers that the engine fills, and writes the
//!    derivative to a buffer that the engine reads. The engine runs the plan within a step.

use super::Lpips;
use super::device::{DeviceLpips, Root};
use dapple_device::CropRoutine;
use dapple_engine::CropLoss;
use dapple_runtime::{Gpu, Pooled, Routine};
use dapple_scene::{Error, Result};
use dapple_tensor::{Context, DType, Plan, PlanOptions, Tensor};
use std::sync::Arc;

/// The distance of crops of one size, with its derivative, on the CPU.
#[derive(Debug)]
pub struct LpipsCrops {
    side: u32,
    /// Its first output is the derivative.
    plan: Plan,
    crops: [Tensor; 2],
}

impl Lpips {
    /// Returns the loss of crops of `side` x `side` pixels for an engine on the host.
    ///
    /// # Errors
    /// Crops too small for the network's strides.
    pub fn crops(&self, side: u32) -> Result<LpipsCrops> {
        let context = Context::cpu();
        let lpips = self.of_crops(side, &context)?;
        let edge = side as usize;
        let crop = || context.tensor(&[edge, edge, 3], &vec![0.0; 3 * edge * edge]);
        let crops = [crop(), crop()];
        let plan = Plan::compile(&[&by_render(&lpips, &crops)?])?;
        Ok(LpipsCrops { side, plan, crops })
    }

    /// Returns the loss of crops of `side` x `side` pixels for an engine on this GPU.
    ///
    /// # Errors
    /// Crops too small for the network's strides; a device without memory for the intermediate values.
    pub fn crop_routine(&self, side: u32, gpu: &Gpu) -> Result<CropRoutine> {
        let context = Context::gpu(gpu);
        let lpips = self.of_crops(side, &context)?;
        let edge = side as usize;
        let bytes = (size_of::<f32>() * 3 * edge * edge) as u64;
        let buffer = |name| gpu.buffer(name, bytes);
        let inputs = [buffer("crop_render")?, buffer("crop_photo")?];
        let output = buffer("crop_derivative")?;
        let shape = [edge, edge, 3];
        let over = |buffer: &Arc<Pooled>| context.external(DType::F32, &shape, buffer, buffer);
        let crops = [over(&inputs[0]), over(&inputs[1])];
        let updates = [(over(&output), by_render(&lpips, &crops)?)];
        let options = PlanOptions {
            updates: &updates,
            ..PlanOptions::default()
        };
        let plan = Plan::compile_with(&[], &options)?;
        let unrecorded = || Error::internal("a plan on a GPU has no commands");
        let routine = Routine {
            recording: plan.recording().ok_or_else(unrecorded)?.clone(),
            inputs: inputs.to_vec(),
            outputs: vec![output],
        };
        Ok(CropRoutine { side, routine })
    }

    /// Returns the weights on a device, for crops of this size.
    fn of_crops(&self, side: u32, context: &Context) -> Result<DeviceLpips> {
        let edge = side as usize;
        self.backbone().check_size(edge, edge)?;
        self.on(context)
    }
}

/// Returns the derivative of the distance by the first crop.
fn by_render(lpips: &DeviceLpips, crops: &[Tensor; 2]) -> Result<Tensor> {
    let (distance, _) = lpips.distance_of(crops, Root::Smooth)?;
    let gradient = distance.gradients(&[&crops[0]]).pop();
    gradient.ok_or_else(|| Error::internal("the plan returned no derivative"))
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
        let [a, b] = &self.crops;
        a.write(render)?;
        b.write(photo)?;
        self.plan.run()?;
        derivative.copy_from_slice(&self.plan.read(0)?);
        Ok(())
    }
}
