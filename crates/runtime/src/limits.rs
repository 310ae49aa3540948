//! The two ceilings that times of stages are held against, measured in a second: arithmetic and
//! memory bandwidth. [`ceilings`](crate::ceilings) measures everything, and says how.

use crate::Gpu;
use crate::ceilings::{arithmetic, memory};
use dapple_base::Result;

/// What a device was measured to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuLimits {
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
    /// `f32` operations a second, an FMA being two.
    pub flops_per_second: f64,
    /// The slowest go over the median one, the worse of both measurements: near 1 where nothing
    /// else runs.
    pub spread: f64,
}

/// Measures the device; takes about a second. Waits for it.
///
/// # Errors
/// No memory for the copy, a lost device.
pub fn measure_limits(gpu: &Gpu) -> Result<GpuLimits> {
    let copy = memory::copy(gpu)?;
    let fma = arithmetic::fma(gpu)?;
    Ok(GpuLimits {
        bytes_per_second: copy.per_second,
        flops_per_second: fma.per_second,
        spread: copy.spread.max(fma.spread),
    })
}
