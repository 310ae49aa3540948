//! Rows of a table of stages: what a stage took, what it costs at least, and how far apart they are.
//!
//! The floor of a stage is the larger of its bytes over the bandwidth and its operations over the
//! arithmetic that this device was measured to reach.

use super::statistics::Times;
use dapple::contract::Stage;
use dapple::cpu::cost::Cost;
use serde::Serialize;

/// What the device reaches at most.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LimitRow {
    pub gflops: f64,
    pub gb_per_s: f64,
}

/// One stage.
#[derive(Debug, Serialize)]
pub struct StageRow {
    pub stage: Stage,
    #[serde(flatten)]
    pub times: Times,
    /// Part of all stages' medians.
    pub share: f64,
    pub flops: u64,
    pub bytes: u64,
    pub gflops: f64,
    pub gb_per_s: f64,
    /// Fractions of the device's limits.
    pub of_compute: f64,
    pub of_memory: f64,
    /// The limit that is nearer, and how near.
    pub bound: Bound,
    pub of_limit: f64,
    /// The least that it can take.
    pub floor_ms: f64,
    /// The median in floors.
    pub over_floor: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Compute,
    Memory,
}

impl LimitRow {
    pub fn line(&self) -> String {
        format!(
            "limits    {:.1} GFLOP/s, {:.1} GB/s (multiply-adds; read + written)",
            self.gflops, self.gb_per_s
        )
    }
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
            over_floor: 1.0 / of_limit.max(f64::MIN_POSITIVE),
        }
    }

    /// The table's head.
    pub fn head() -> String {
        format!(
            "{:<15}{:>10}{:>10}{:>9}{:>10}{:>9}{:>9}{:>10}{:>8}",
            "stage", "median ms", "min ms", "share", "MB", "GB/s", "GFLOP/s", "floor ms", "times"
        )
    }

    pub fn line(&self) -> String {
        let gflops = match self.flops {
            0 => "-".to_owned(),
            _ => format!("{:.1}", self.gflops),
        };
        let bound = match self.bound {
            Bound::Compute => "compute",
            Bound::Memory => "memory",
        };
        format!(
            "{:<15}{:>10.3}{:>10.3}{:>7.1} %{:>10.2}{:>9.1}{:>9}{:>10.3}{:>8.1} {bound}",
            self.stage.name(),
            self.times.median_ms,
            self.times.min_ms,
            100.0 * self.share,
            self.bytes as f64 * 1e-6,
            self.gb_per_s,
            gflops,
            self.floor_ms,
            self.over_floor,
        )
    }
}

/// All rows, and their sum.
pub fn table(rows: &[StageRow]) -> String {
    let mut lines = vec![StageRow::head()];
    lines.extend(rows.iter().map(StageRow::line));
    let sum = |of: fn(&StageRow) -> f64| rows.iter().map(of).sum::<f64>();
    let (median, floor) = (sum(|r| r.times.median_ms), sum(|r| r.floor_ms));
    let per_second = 1e-6 / median.max(f64::MIN_POSITIVE);
    lines.push(format!(
        "{:<15}{:>10.3}{:>10.3}{:>9}{:>10.2}{:>9.1}{:>9.1}{:>10.3}{:>8.1}",
        "all stages",
        median,
        sum(|r| r.times.min_ms),
        "",
        sum(|r| r.bytes as f64) * 1e-6,
        sum(|r| r.bytes as f64) * per_second,
        sum(|r| r.flops as f64) * per_second,
        floor,
        median / floor.max(f64::MIN_POSITIVE),
    ));
    lines.join("\n")
}
