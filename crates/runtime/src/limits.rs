//! The two ceilings that times of stages are held against, measured in a second: arithmetic and
//! memory bandwidth. [`ceilings`](crate::ceilings) measures everything, and says how.

use crate::Gpu;
use crate::ceilings::{arithmetic, memory};
use dapple_base::Result;
use dapple_profile::ceilings::Limits;

/// What a device was measured to reach.
pub type GpuLimits = Limits;

/// Measures the device; takes about a second. Waits for it.
///
/// # Errors
/// No memory for the copy, a lost device.
pub fn measure_limits(gpu: &Gpu) -> Result<Limits> {
    Ok(Limits::new(arithmetic::fma(gpu)?, memory::copy(gpu)?))
}
