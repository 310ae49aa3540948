//! The two ceilings that times of stages are compared with, measured in a second: arithmetic and memory bandwidth.
//! [`ceilings`](crate::ceilings) measures all ceilings and documents the method.

use crate::Gpu;
use crate::ceilings::{arithmetic, memory};
use dapple_base::Result;
use dapple_profile::ceilings::Limits;

/// Measured ceilings of a device.
pub type GpuLimits = Limits;

/// Measures the device; takes about a second. Waits for it.
///
/// # Errors
/// No memory for the copy, a lost device.
pub fn measure_limits(gpu: &Gpu) -> Result<Limits> {
    Ok(Limits::new(arithmetic::fma(gpu)?, memory::copy(gpu)?))
}
