//! Rows of a table of stages: what a stage took, what it costs at least, and how far apart they are.
//!
//! The floor of a stage is the larger of its bytes over the bandwidth and its operations over the
//! arithmetic that this device was measured to reach.

use super::measure::Measured;
use super::times::Times;
use dapple::contract::Stage;
use dapple::contract::instruments::Cost;
use serde::Serialize;

/// What the device reaches at most.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LimitRow {
    /// Billions of `f32` operations a second.
    pub gflops: f64,
    /// Billions of bytes read and written a second.
    pub gb_per_s: f64,
}

/// One stage.
#[derive(Debug, Serialize)]
pub struct StageRow {
    /// Which.
    pub stage: Stage,
    /// What it took.
    #[serde(flatten)]
    pub times: Times,
    /// Part of all stages' medians.
    pub share: f64,
    /// Operations, by formula.
    pub flops: u64,
    /// Bytes, by formula.
    pub bytes: u64,
    /// Billions of operations a second.
    pub gflops: f64,
    /// Billions of bytes a second.
    pub gb_per_s: f64,
    /// Fraction of the device's arithmetic.
    pub of_compute: f64,
    /// Fraction of the device's bandwidth.
    pub of_memory: f64,
    /// The limit that is nearer.
    pub bound: Bound,
    /// How near.
    pub of_limit: f64,
    /// The least that it can take.
    pub floor_ms: f64,
    /// The median in floors; 0 where nothing is counted.
    pub over_floor: f64,
}

/// What holds a stage back at least.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Bandwidth.
    Memory,
}

impl StageRow {
    /// `whole_ms`: what `share` is a part of.
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

/// The rows of what was measured.
pub(super) fn rows(measured: &Measured, limits: LimitRow) -> Vec<StageRow> {
    let stages = measured.stages.iter();
    let whole_ms = stages.clone().map(|row| row.times.median_ms).sum();
    stages
        .map(|row| StageRow::new(row.stage, row.times, whole_ms, row.cost, limits))
        .collect()
}
