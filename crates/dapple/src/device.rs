//! Which device an engine runs on.

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::Engine;
use dapple_scene::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A device to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Device {
    /// The processor, all of its cores. To choose their number, make a
    /// [`CpuEngine`](dapple_cpu::CpuEngine) with its options.
    #[default]
    Cpu,
}

/// An engine on a device, without splats.
///
/// # Errors
/// When the device cannot be had.
pub fn engine(device: Device) -> Result<Box<dyn Engine>> {
    match device {
        Device::Cpu => Ok(Box::new(CpuEngine::new(CpuOptions::default())?)),
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "cpu" => Ok(Self::Cpu),
            _ => Err(
                Error::unsupported(format!("there is no device named \"{name}\""))
                    .hint("this version has one device: cpu"),
            ),
        }
    }
}
