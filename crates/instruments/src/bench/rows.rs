//! Rows of a table of stages: measured time, least cost, and the ratio of both.
//!
//! The floor of a stage is the larger of its bytes over the bandwidth and its operations over the arithmetic rate, both
//! as measured on this device.

use super::measure::Measured;
use super::times::Times;
use dapple::contract::Stage;
use dapple::contract::instruments::Cost;
use serde::Serialize;

/// Measured limits of the device.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LimitRow {
    /// Billions of `f32` operations a second.
    pub gflops: f64,
    /// Billions of bytes read and written a second.
    pub gb_per_s: f64,
}

/// Row of one stage.
#[derive(Debug, Serialize)]
pub struct StageRow {
    /// The stage.
    pub stage: Stage,
    /// Measured times.
    #[serde(flatten)]
    pub times: Times,
    /// Fraction of the sum of all stages' medians.
    pub share: f64,
    /// Operations, by formula.
    pub flops: u64,
    /// Bytes, by formula.
    pub bytes: u64,
    /// Billions of operations a second.
    pub gflops: f64,
    /// Billions of bytes a second.
    pub gb_per_s: f64,
    /// Fraction of the device's arithmetic rate.
    pub of_compute: f64,
    /// Fraction of the device's bandwidth.
    pub of_memory: f64,
    /// The nearer limit.
    pub bound: Bound,
    /// Fraction of the nearer limit.
    pub of_limit: f64,
    /// Least time by the limits, ms.
    pub floor_ms: f64,
    /// Median divided by the floor; 0 for a stage without a cost formula.
    pub over_floor: f64,
}

/// Nearer limit of a stage.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Arithmetic rate.
    Compute,
    /// Bandwidth.
    Memory,
}

impl StageRow {
    /// Computes a row. `whole_ms` is the time that `share` refers to.
    pub fn new(stage: Stage, times: Times, whole_ms: f64, cost: Cost, limits: LimitRow) -> Self {
        let seconds = (times.median_ms * 1e-3).max(1e-9);
        let gflops = cost.flops as f64 / seconds * 1e-9;
        let gb_per_s = cost.bytes as f64 / seconds * 1e-9;
        let (of_compute, of_memory) = (gflops / limits.gflops, gb_per_s / limits.gb_per_s);
        let (bound, of_limit) = if of_compute > of_memory {
            (Bound::Compute, of_compute)
        } else {
            (Bound::Memory, of_memory)
        };
        Self {
            stage,
            times,
            share: times.median_ms / whole_ms.max(f64::MIN_POSITIVE),
            flops: cost.flops,
            bytes: cost.bytes,
            gflops,
            gb_per_s,
            of_compute,
            of_memory,
            bound,
            of_limit,
            floor_ms: of_limit * seconds * 1e3,
            over_floor: if of_limit > 0.0 { 1.0 / of_limit } else { 0.0 },
        }
    }
}

/// Returns the rows of a measurement.
pub(super) fn rows(measured: &Measured, limits: LimitRow) -> Vec<StageRow> {
    let stages = measured.stages.iter();
    let whole_ms = stages.clone().map(|row| row.times.median_ms).sum();
    stages
        .map(|row| StageRow::new(row.stage, row.times, whole_ms, row.cost, limits))
        .collect()
}
