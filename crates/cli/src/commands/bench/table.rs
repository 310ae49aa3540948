//! Tables of stages, limits and the host's work.

use crate::training_display::{gaussians, grouped};
use dapple_instruments::bench::measure::HostPerStep;
use dapple_instruments::bench::rows::{Bound, LimitRow, StageRow};
use dapple_instruments::bench::step::CameraCounts;

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

/// Returns the line with the host's work per step.
pub fn host_line(host: &HostPerStep) -> String {
    format!(
        "host      per step: {} waits, {} copies ({:.0} B read, {:.0} B written), {} buffers made, \
         {} submissions, {} dispatches",
        short(host.waits),
        short(host.copies),
        host.bytes_read,
        host.bytes_written,
        short(host.buffers_created),
        short(host.submissions),
        short(host.dispatches)
    )
}

/// Returns a count per step: a whole number, or with the necessary decimals.
fn short(count: f64) -> String {
    if count == count.round() {
        format!("{count:.0}")
    } else {
        format!("{count:.3}")
    }
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
