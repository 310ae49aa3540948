//! Tables of stages, lines of limits, counts and times.

use crate::training_display::{gaussians, grouped};
use dapple_instruments::bench::rows::{Bound, LimitRow, StageRow};
use dapple_instruments::bench::step::CameraCounts;
use dapple_instruments::bench::times::Times;

/// Returns the title of a run: the number of Gaussians, and the photo size in pixels.
pub fn title(count: u64, [width, height]: [u32; 2]) -> String {
    format!("{} at {width}x{height}", gaussians(count))
}

/// Returns a line for each camera, with the counts of its render.
pub fn camera_lines(cameras: &[CameraCounts]) -> impl Iterator<Item = String> {
    cameras.iter().enumerate().map(|(i, counts)| {
        format!(
            "camera {i}  {} visible, {} instances, {} in a tile at most",
            grouped(counts.visible),
            grouped(counts.instances),
            grouped(counts.max_instances_per_tile)
        )
    })
}

/// Returns the line with the device's peak rates.
pub fn limits_line(limits: &LimitRow) -> String {
    format!(
        "limits    {:.1} GFLOP/s, {:.1} GB/s (multiply-adds; read + written)",
        limits.gflops, limits.gb_per_s
    )
}

/// Returns the line with the times of a `step` or a `frame`, each the mean of this number, and their rate.
pub fn times_line(what: &str, times: &Times, per_time: u32, rate: &str) -> String {
    let over = match per_time {
        1 => format!("single {what}s"),
        count => format!("sequences of {count}"),
    };
    format!(
        "{what:<10}{:.3} ms median, {:.3} min, {:.3} at the 95th percentile ({over}), {rate}",
        times.median_ms, times.min_ms, times.p95_ms
    )
}

/// Returns the table's head.
fn head() -> String {
    format!(
        "{:<15}{:>10}{:>10}{:>9}{:>10}{:>9}{:>9}{:>10}{:>8}",
        "stage", "median ms", "min ms", "share", "MB", "GB/s", "GFLOP/s", "floor ms", "times"
    )
}

/// Returns a row of the table.
fn line(row: &StageRow) -> String {
    let gflops = match row.flops {
        0 => "-".to_owned(),
        _ => format!("{:.1}", row.gflops),
    };
    let bound = match row.bound {
        Bound::Compute => "compute",
        Bound::Memory => "memory",
    };
    // A stage without counts has no floor.
    let floor = match row.bytes + row.flops {
        0 => format!("{:>10}{:>8}", "-", "-"),
        _ => format!("{:>10.3}{:>8.1} {bound}", row.floor_ms, row.over_floor),
    };
    format!(
        "{:<15}{:>10.3}{:>10.3}{:>7.1} %{:>10.2}{:>9.1}{:>9}{floor}",
        row.stage.name(),
        row.times.median_ms,
        row.times.min_ms,
        100.0 * row.share,
        row.bytes as f64 * 1e-6,
        row.gb_per_s,
        gflops,
    )
}

/// Returns all rows, and their sum.
pub fn table(rows: &[StageRow]) -> String {
    let mut lines = vec![head()];
    lines.extend(rows.iter().map(line));
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
