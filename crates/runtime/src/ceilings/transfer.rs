//! Bytes from host to device (`upload`) and back (`download`), in sizes of 4 KiB to 256 MiB, as engines move them:
//! through wgpu's staging memory, which the CPU copies into or out of.
//!
//! The clock stops when the device has the uploaded bytes, or the host has the downloaded bytes: no transfer is in
//! flight any more.

use super::Measured;
use crate::Gpu;
use dapple_base::Result;
use dapple_profile::ceilings::{GOES, Point, Rated};
use std::time::Instant;

const SMALLEST: u64 = 4 << 10;
const LARGEST: u64 = 256 << 20;
const SOFTWARE_LARGEST: u64 = 16 << 20;
/// Factor between sizes.
const FACTOR: u64 = 4;
/// Repetitions of small sizes, whose times scatter more.
const SMALL_GOES: usize = 25;
const SMALL: u64 = 1 << 20;

pub(super) fn upload(gpu: &Gpu, measured: &mut Measured) -> Result<()> {
    let points = sizes(gpu, |buffer, data| {
        gpu.write(buffer, 0, data);
        gpu.queue().submit([]);
        gpu.wait()
    })?;
    measured.curve("upload", points);
    Ok(())
}

pub(super) fn download(gpu: &Gpu, measured: &mut Measured) -> Result<()> {
    let points = sizes(gpu, |buffer, data| {
        let values: Vec<u32> = gpu.read(buffer, data.len())?;
        std::hint::black_box(values);
        Ok(())
    })?;
    measured.curve("download", points);
    Ok(())
}

/// Times `go` with buffers and data of all sizes.
fn sizes(gpu: &Gpu, go: impl Fn(&wgpu::Buffer, &[u32]) -> Result<()>) -> Result<Vec<Point>> {
    let report = gpu.report();
    let wanted = if report.is_software {
        SOFTWARE_LARGEST
    } else {
        LARGEST
    };
    let room = report.memory_bytes.map_or(wanted, |memory| memory / 8);
    let largest = wanted
        .min(report.max_buffer_bytes)
        .min(report.max_binding_bytes)
        .min(room);
    let data = vec![1_u32; (largest / 4) as usize];
    let buffer = gpu.buffer("transfer", largest)?;
    let mut points = Vec::new();
    let mut bytes = SMALLEST;
    while bytes <= largest {
        let part = &data[..(bytes / 4) as usize];
        go(&buffer, part)?;
        let goes = if bytes < SMALL { SMALL_GOES } else { GOES };
        let rated = Rated::repeat(bytes as f64, goes, || {
            gpu.wait()?;
            let started = Instant::now();
            go(&buffer, part)?;
            Ok(started.elapsed().as_secs_f64())
        })?;
        points.push(Point {
            bytes,
            bytes_per_second: rated.per_second,
        });
        bytes *= FACTOR;
    }
    Ok(points)
}
