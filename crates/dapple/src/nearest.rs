//! Who finds the nearest entries of palettes in splat files, on a [`Device`].
//!
//! The device is opened when there is first enough to find for it to be worth it. Labels are the same on all of them,
//! and so are the bytes of files.

use crate::device::{Device, best};
use dapple_gpu::Nearest;
use dapple_runtime::{Choice, Gpu, GpuOptions, Hints, adapters};
use dapple_scene::Result;
use dapple_scene::splat_file::NearestBy;
use dapple_scene::splat_file::nearest::{LoadedRows, NearestCentres, OnCpu, Rows};
use std::sync::{Arc, OnceLock};

/// Finds the nearest entries of palettes on a device, for
/// [`WriteOptions::nearest`](dapple_scene::splat_file::WriteOptions::nearest): a million Gaussians as SOG take seconds on
/// a GPU in place of half a minute. Nothing is opened before it is needed; that a named device is not there is told then.
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
        // What is not there, or does not open, is no reason for no file.
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
