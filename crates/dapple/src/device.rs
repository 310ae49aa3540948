//! Devices of engines.
//!
//! `Auto` takes the first usable hardware GPU of [`adapters`], which lists the best first; else the
//! CPU. The reason is in [`Opened::why`]. A software renderer computes on the CPU too, but more
//! slowly than the CPU engine. It is used only if its number or name is given.

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_device::BoxedEngine;
use dapple_engine::Engine;
use dapple_engine::instruments::Instrumented;
use dapple_gpu::{GpuEngine, GpuEngineOptions, Precision};
use dapple_runtime::{
    AdapterReport, Choice, DeviceRequirements, FeatureRequest, GpuOptions, adapters,
};
use dapple_scene::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Device of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Device {
    /// The best hardware GPU, else the CPU.
    #[default]
    Auto,
    /// The CPU, with all of its cores unless [`EngineOptions`] limit the threads.
    Cpu,
    /// A GPU.
    Gpu(Choice),
}

/// Options of an engine in addition to its device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// Threads of the CPU engine; `None` = one per core. GPUs ignore this option.
    pub threads: Option<usize>,
    /// Storage of SH and of the optimizer's moments on a GPU. The CPU engine supports only `f32`.
    pub precision: Precision,
    /// Per-tile limit if the settings have 0. `None` = no limit, or the limit of a device that aborts
    /// long dispatches.
    pub default_cap: Option<u32>,
    /// Bytes of memory of a GPU to use; `None` = all. The CPU engine ignores this option.
    pub gpu_memory_bytes: Option<u64>,
    /// Bytes of photos that a GPU may hold, at most 4 GiB and a quarter of its memory, the default
    /// (`None`). Further photos are copied to the GPU again for each use. The CPU engine ignores this option.
    pub photo_memory_bytes: Option<u64>,
    /// Bytes of the largest buffer of a GPU; `None` = as the driver reports it. The CPU engine ignores this option.
    pub buffer_bytes: Option<u64>,
    /// True to time each stage of a step on a GPU's own clock, which costs a little time. The CPU
    /// engine always times stages.
    pub time_stages: bool,
    /// True to ignore the timestamps of a GPU, for drivers with wrong clocks.
    pub without_timestamps: bool,
    /// True to open a GPU so that other interfaces can import memory of it, if it can: `Gpu::external_buffer`.
    pub shares_memory: bool,
}

/// Engine with a known kind, for functions that only one kind has. All other functions are in
/// [`Engine`].
#[non_exhaustive]
pub enum AnyEngine {
    /// CPU engine.
    Cpu(Box<CpuEngine>),
    /// GPU engine.
    Gpu(Box<GpuEngine>),
}

impl AnyEngine {
    /// Returns the engine as [`Engine`], the functions of all engines.
    pub fn as_engine(&mut self) -> &mut dyn Engine {
        match self {
            Self::Cpu(engine) => engine.as_mut(),
            Self::Gpu(engine) => engine.as_mut(),
        }
    }

    /// Returns the engine as [`Instrumented`], for measurements.
    pub fn instrument(&self) -> &dyn Instrumented {
        match self {
            Self::Cpu(engine) => engine.as_ref(),
            Self::Gpu(engine) => engine.as_ref(),
        }
    }

    /// Converts to an [`Instrumented`] without the kind.
    pub fn into_instrument(self) -> Box<dyn Instrumented> {
        match self {
            Self::Cpu(engine) => engine,
            Self::Gpu(engine) => engine,
        }
    }

    /// Converts to an engine whose device is known, but not its kind.
    pub fn into_engine(self) -> BoxedEngine {
        match self {
            Self::Cpu(engine) => BoxedEngine::Host(engine),
            Self::Gpu(engine) => BoxedEngine::Device(engine),
        }
    }
}

impl fmt::Debug for AnyEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Cpu(engine) => engine.description(),
            Self::Gpu(engine) => engine.description(),
        };
        f.debug_tuple("AnyEngine").field(&name).finish()
    }
}

/// Opened engine, with the reason for its device.
#[derive(Debug)]
pub struct Opened {
    /// Engine without splats.
    pub engine: AnyEngine,
    /// Reason for the choice of [`Device::Auto`]; `None` for a named device.
    pub why: Option<String>,
}

/// Creates an engine without splats on a device.
///
/// # Errors
/// A device that cannot be opened. `Auto` always finds one.
pub fn engine(device: Device) -> Result<BoxedEngine> {
    Ok(open(&device, &EngineOptions::default())?
        .engine
        .into_engine())
}

/// Does the same as [`engine()`] with options, and returns the choice and its reason.
///
/// # Errors
/// A device that cannot be opened, or that does not support these options.
pub fn open(device: &Device, options: &EngineOptions) -> Result<Opened> {
    match device {
        Device::Cpu => cpu(options, None),
        Device::Gpu(choice) => gpu(choice, options, None),
        Device::Auto => match best(&adapters()) {
            Err(why) => cpu(options, Some(why)),
            Ok(adapter) => {
                let why = "the best hardware GPU of this machine".to_owned();
                gpu(&Choice::Index(adapter.index), options, Some(why)).or_else(|error| {
                    let why = format!("{} could not be opened: {}", adapter.name, error.what());
                    cpu(options, Some(why))
                })
            }
        },
    }
}

/// Returns the adapter that [`Device::Auto`] takes; an error is the reason for taking the CPU
/// instead.
pub fn best(adapters: &[AdapterReport]) -> Result<&AdapterReport, String> {
    let candidates = adapters.iter().map(|a| Candidate {
        name: &a.name,
        is_software: a.is_software,
        unusable: a.unusable.as_deref(),
    });
    first_hardware(&candidates.collect::<Vec<_>>()).map(|i| &adapters[i])
}

/// Facts about an adapter for the choice.
struct Candidate<'a> {
    name: &'a str,
    is_software: bool,
    unusable: Option<&'a str>,
}

fn first_hardware(list: &[Candidate<'_>]) -> Result<usize, String> {
    if list.is_empty() {
        return Err("no hardware GPU answers: there is no driver for one".to_owned());
    }
    let works = |c: &Candidate<'_>| !c.is_software && c.unusable.is_none();
    list.iter().position(works).ok_or_else(|| {
        let reasons = list.iter().map(|c| match c.unusable {
            Some(why) => format!("{} cannot be used: {why}", c.name),
            None => format!(
                "{} is a software renderer, the CPU engine is faster",
                c.name
            ),
        });
        let reasons: Vec<String> = reasons.collect();
        format!("no hardware GPU answers: {}", reasons.join("; "))
    })
}

fn cpu(options: &EngineOptions, why: Option<String>) -> Result<Opened> {
    if options.precision != Precision::default() {
        let why = why.map_or(String::new(), |why| format!(" ({why})"));
        return Err(Error::unsupported(format!(
            "the CPU engine stores f32 alone, not {}{why}",
            options.precision
        ))
        .at("--precision")
        .hint("omit --precision, or name a GPU with --device"));
    }
    let engine = CpuEngine::new(CpuOptions {
        threads: options.threads,
    })?;
    Ok(Opened {
        engine: AnyEngine::Cpu(Box::new(engine)),
        why,
    })
}

fn gpu(choice: &Choice, options: &EngineOptions, why: Option<String>) -> Result<Opened> {
    let usual = GpuEngineOptions::default();
    let photo_budget_bytes = options.photo_memory_bytes.unwrap_or(u64::MAX);
    let external = match options.shares_memory {
        true => FeatureRequest::IfThere,
        false => FeatureRequest::No,
    };
    let engine = GpuEngine::new(GpuEngineOptions {
        gpu: GpuOptions {
            choice: choice.clone(),
            without_timestamps: options.without_timestamps,
            memory_limit: options.gpu_memory_bytes,
            needs: DeviceRequirements {
                external_memory: external,
                ..usual.gpu.needs
            },
            ..usual.gpu
        },
        precision: options.precision,
        default_cap: options.default_cap,
        time_stages: options.time_stages,
        photo_budget_bytes: photo_budget_bytes.min(usual.photo_budget_bytes),
        max_binding_bytes: options.buffer_bytes.unwrap_or(usual.max_binding_bytes),
        ..usual
    })?;
    Ok(Opened {
        engine: AnyEngine::Gpu(Box::new(engine)),
        why,
    })
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(choice) => choice.fmt(f),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            _ => name.parse().map(Self::Gpu).map_err(|_| {
                Error::unsupported(format!("there is no device named \"{name}\""))
                    .hint("write auto, cpu, gpu, gpu:N (its number in `dapple doctor`) or gpu:name")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn devices_are_read_and_written() {
        for name in ["auto", "cpu", "gpu", "gpu:1", "gpu:llvmpipe"] {
            assert_eq!(name.parse::<Device>().unwrap().to_string(), name);
        }
        assert_eq!(
            "gpu:3".parse::<Device>().unwrap(),
            Device::Gpu(Choice::Index(3))
        );
        for name in ["", "gpu:", "cuda", "CPU", "gpu1", "cpu:1"] {
            let error = name.parse::<Device>().unwrap_err();
            assert!(error.hint_text().unwrap().contains("gpu:N"), "{name}");
        }
    }

    #[test]
    fn auto_takes_the_first_hardware_gpu_that_works() {
        let candidate = |name, is_software, unusable| Candidate {
            name,
            is_software,
            unusable,
        };
        let list = [
            candidate("llvmpipe", true, None),
            candidate("Old", false, Some("it has no immediates")),
            candidate("Good", false, None),
            candidate("Late", false, None),
        ];
        assert_eq!(first_hardware(&list), Ok(2));
        let why = first_hardware(&list[..2]).unwrap_err();
        for words in [
            "llvmpipe is a software renderer, the CPU engine is faster",
            "Old cannot be used: it has no immediates",
        ] {
            assert!(why.contains(words), "{why}");
        }
        assert!(first_hardware(&[]).unwrap_err().contains("no driver"));
    }
}
