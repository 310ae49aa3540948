//! Search for the nearest entries of palettes in splat files, on a [`Device`].
//!
//! The device is opened on the first search that is large enough to benefit. Labels, and so the bytes of files, are
//! equal on all devices.

use crate::device::{Device, best};
use dapple_gpu::Nearest;
use dapple_runtime::{Choice, Gpu, GpuOptions, Hints, adapters};
use dapple_scene::Result;
use dapple_scene::splat_file::NearestBy;
use dapple_scene::splat_file::nearest::{LoadedRows, NearestCentres, OnCpu, Rows};
use std::sync::{Arc, OnceLock};

/// Creates a search for the nearest entries of palettes, for
/// [`WriteOptions::nearest`](dapple_scene::splat_file::WriteOptions::nearest). A million Gaussians as SOG take seconds
/// on a GPU instead of half a minute. The device is opened on first use, so a missing device is reported only then.
pub fn nearest(device: &Device) -> NearestBy {
    match device {
        Device::Cpu => NearestBy::default(),
        _ => NearestBy::new(Arc::new(WhenNeeded {
            device: device.clone(),
            opened: OnceLock::new(),
        })),
    }
}

#[derive(Debug)]
struct WhenNeeded {
    device: Device,
    opened: OnceLock<Box<dyn NearestCentres>>,
}

impl NearestCentres for WhenNeeded {
    fn load(&self, rows: Rows) -> Result<Box<dyn LoadedRows + '_>> {
        if let Some(opened) = self.opened.get() {
            return opened.load(rows);
        }
        let opened = open(&self.device)?;
        self.opened.get_or_init(|| opened).load(rows)
    }
}

fn open(device: &Device) -> Result<Box<dyn NearestCentres>> {
    match device {
        Device::Cpu => Ok(Box::new(OnCpu)),
        Device::Gpu(choice) => on_gpu(choice).map_err(|e| match e.place() {
            Some(_) => e,
            None => e.at(format!("--device {device}")),
        }),
        // A GPU that is missing or cannot be opened must not prevent the file.
        Device::Auto => Ok(best(&adapters())
            .ok()
            .and_then(|adapter| on_gpu(&Choice::Index(adapter.index)).ok())
            .unwrap_or_else(|| Box::new(OnCpu))),
    }
}

fn on_gpu(choice: &Choice) -> Result<Box<dyn NearestCentres>> {
    const HINT: &str = "write the file with `--device cpu`: it has the same bytes";
    let gpu = Gpu::open(&GpuOptions {
        choice: choice.clone(),
        hints: Hints {
            memory: HINT.into(),
            open: HINT.into(),
            lost: HINT.into(),
        },
        ..GpuOptions::default()
    })?;
    Ok(Box::new(Nearest::new(&gpu)?))
}
