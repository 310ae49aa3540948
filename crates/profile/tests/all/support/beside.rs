//! Additions to the full profile: spans, heat map, flamegraph, comparison.

use super::scatter;
use dapple_profile::html::{ComparisonRow, ComparisonView};
use dapple_profile::profile::*;

/// Returns spans of [`full`]'s last steps.
pub fn full_trace(profile: &Profile) -> Trace {
    let mut trace = Trace {
        tracks: ["host", "device: stages", "device: kernels"]
            .map(String::from)
            .into(),
        spans: Vec::new(),
    };
    let mut push = |track, name: &str, phase, start_ns, duration_ns, step| {
        trace.spans.push(TraceSpan {
            track,
            name: name.into(),
            phase,
            start_ns,
            duration_ns,
            step: Some(step),
        });
    };
    for record in &profile.steps[profile.steps.len() - 12..] {
        let begin = record.end_ns - record.duration_ns as i64;
        // The host is two steps ahead.
        let ahead = begin - 4_200_000;
        push(0, "step", None, ahead, 310_000, record.step + 2);
        push(
            0,
            "encode",
            Some(Phase::Host),
            ahead + 4_000,
            190_000,
            record.step + 2,
        );
        push(
            0,
            "submit",
            Some(Phase::Host),
            ahead + 200_000,
            90_000,
            record.step + 2,
        );
        let mut at = begin + 3_000;
        for (stage, &ns) in profile.stages.iter().zip(&record.stages_ns) {
            let ns = (ns * 0.93) as u64;
            push(1, &stage.name, Some(stage.phase), at, ns, record.step);
            let parts = if stage.name == "order" { 9 } else { 2 };
            for part in 0..parts {
                let length = ns / parts;
                push(
                    2,
                    &format!("{}/{part}", stage.name),
                    Some(stage.phase),
                    at + (part * length) as i64,
                    length - 800,
                    record.step,
                );
            }
            at += ns as i64 + 2_000;
        }
        push(
            0,
            "read report",
            Some(Phase::Transfer),
            at + 20_000,
            18_000,
            record.step,
        );
    }
    trace
}

/// Returns heavy tiles around one place, over a picture of a sky and a ground.
pub fn heat_map() -> HeatMap {
    let (columns, rows) = (82, 53);
    let values = (0..columns * rows)
        .map(|i| {
            let (x, y) = (
                (i % columns) as f64 / 82.0 - 0.55,
                (i / columns) as f64 / 53.0 - 0.6,
            );
            40.0 + 9000.0 * (-(x * x + 1.6 * y * y) * 22.0).exp() * (0.6 + 0.6 * scatter(i))
                + 300.0 * scatter(i + 3)
        })
        .collect();
    let picture = image::RgbImage::from_fn(1297, 840, |x, y| {
        let wave =
            ((f64::from(x) * 0.013).sin() * 60.0 + (f64::from(x) * 0.031).cos() * 25.0) as i64;
        let far = i64::from(y) - 420 - wave;
        let part = (i64::from(y) / 8).clamp(0, 105) as u8;
        if far < 0 {
            image::Rgb([110 + part, 140 + part, 190 + part / 2])
        } else {
            image::Rgb([60 + part / 3, 90 + part / 2, 50])
        }
    });
    let mut png = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut png, image::ImageFormat::Png).unwrap();
    HeatMap {
        title: "Instances per tile".into(),
        columns,
        rows,
        values,
        picture_png: png.into_inner(),
    }
}

/// A small picture with a script, like a flamegraph's: a click, here its own, stores the zoom in the address.
pub const FLAMEGRAPH: &str = r##"<?xml version="1.0" standalone="no"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg version="1.1" width="100%" height="126" viewBox="0 0 1000 126" onload="init(evt)" xmlns="http://www.w3.org/2000/svg"><script type="text/ecmascript"><![CDATA[
function init(evt) { document.getElementById("details").textContent = "drawn by its script" + (1 < 2 && 3 > 2);
  document.getElementById("frames").dispatchEvent(new Event("click", { bubbles: true })); }
window.addEventListener("click", function () { history.replaceState(null, null, "?x=1"); });
]]></script><rect width="100%" height="126" fill="#f8f4ec"/><text id="details" x="10" y="20" font-size="12">nothing</text>
<g id="frames" font-size="12" font-family="monospace"><g><title>all (300 samples)</title><rect x="1%" y="90" width="98%" height="20" fill="#e0704a"/><text x="1.5%" y="104">all</text></g>
<g><title>train::step (260 samples)</title><rect x="1%" y="68" width="80%" height="20" fill="#e8934e"/><text x="1.5%" y="82">train::step</text></g>
<g><title>wgpu::Queue::submit (120 samples)</title><rect x="1%" y="46" width="40%" height="20" fill="#efb45c"/><text x="1.5%" y="60">wgpu::Queue::submit</text></g></g></svg>"##;

/// Returns some faster rows, some slower, and some unchanged.
pub fn comparison() -> ComparisonView {
    let row = |name: &str, old_ms: f64, ratio: f64, half: f64| ComparisonRow {
        name: name.into(),
        old_ms,
        new_ms: old_ms * ratio,
        ratio,
        low: ratio - half,
        high: ratio + half,
        significant: (ratio - 1.0).abs() > half,
    };
    ComparisonView {
        title: "2.10 ms a step against 2.31 ms on 2025-11-14, with 95 % confidence".into(),
        warnings: vec!["The drivers differ: 570.124.06 now, 565.57.01 then.".into()],
        rows: vec![
            row("step", 2.31, 0.911, 0.006),
            row("project", 0.057, 1.004, 0.018),
            row("order", 0.071, 1.21, 0.03),
            row("blend", 0.34, 0.823, 0.012),
            row("blend_backward", 0.98, 0.888, 0.007),
            row("update", 0.531, 0.998, 0.004),
        ],
    }
}
