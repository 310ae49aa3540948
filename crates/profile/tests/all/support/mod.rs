//! Synthetic profiles: a full profile with the times of a training step on a large GPU, and the least profile, from a
//! device without a clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, unused_imports, reason = "each test uses its part")]

use dapple_profile::profile::*;

pub mod beside;
pub mod chromium;

pub use beside::{FLAMEGRAPH, comparison, full_trace, heat_map};

/// Name, phase, milliseconds, megabytes, million operations.
const STAGES: [(&str, Phase, f64, f64, f64); 9] = [
    ("project", Phase::Forward, 0.057, 168.0, 410.0),
    ("order", Phase::Forward, 0.086, 60.0, 0.0),
    ("emit", Phase::Forward, 0.047, 71.0, 96.0),
    ("sort", Phase::Forward, 0.065, 124.0, 0.0),
    ("ranges", Phase::Forward, 0.033, 18.0, 2.0),
    ("blend", Phase::Forward, 0.28, 92.0, 5600.0),
    ("loss", Phase::Loss, 0.2, 130.0, 900.0),
    ("blend_backward", Phase::Backward, 0.87, 240.0, 14900.0),
    ("update", Phase::Update, 0.53, 1490.0, 1700.0),
];
const STEPS: usize = 300;
const BANDWIDTH: f64 = 3.9e12;
const ARITHMETIC: f64 = 51.0e12;

/// Returns numbers that look random and are the same every time, in 0..1.
fn scatter(i: usize) -> f64 {
    let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x >> 40) as f64 / (1u64 << 24) as f64
}

fn fact(name: &str, value: &str) -> Fact {
    Fact {
        name: name.into(),
        value: value.into(),
    }
}

fn stats(values: &[f64]) -> Stats {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let sum: f64 = sorted.iter().sum();
    let mean = sum / n as f64;
    let squares: f64 = sorted.iter().map(|v| (v - mean).powi(2)).sum();
    let rank = |p: f64| sorted[((p * n as f64).ceil() as usize).clamp(1, n) - 1];
    Stats {
        count: n as u64,
        sum,
        mean,
        std: if n > 1 {
            (squares / (n - 1) as f64).sqrt()
        } else {
            0.0
        },
        min: sorted[0],
        median: f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
        p95: rank(0.95),
        p99: rank(0.99),
        max: sorted[n - 1],
    }
}

fn step_records() -> Vec<StepRecord> {
    let mut end_ns = 41_000_000;
    (0..STEPS)
        .map(|i| {
            let slow = if i % 97 == 40 { 1.9 } else { 1.0 };
            let factor = slow * (0.985 + 0.05 * scatter(i).powi(3) + 0.00006 * i as f64);
            let stages_ns: Vec<f64> = STAGES.iter().map(|s| s.2 * 1e6 * factor).collect();
            let duration_ns = stages_ns.iter().sum::<f64>() - 68_000.0 * factor;
            end_ns += duration_ns as i64;
            StepRecord {
                step: 1000 + i as u64,
                end_ns,
                duration_ns,
                loss: Some(0.09 * (-(i as f64) / 400.0).exp() + 0.01 * scatter(i + 7)),
                stages_ns,
                counters: vec![
                    812_000.0 + 40.0 * i as f64 + 90_000.0 * scatter(i % 20),
                    4.1e6 + 1.2e6 * scatter(i % 20 + 50),
                    1_204_000.0,
                ],
            }
        })
        .collect()
}

fn stage_summaries(steps: &[StepRecord], wall_ns: f64) -> Vec<StageSummary> {
    let phase_ms = |phase| -> f64 { STAGES.iter().filter(|s| s.1 == phase).map(|s| s.2).sum() };
    let summary =
        |(i, &(name, phase, ms, megabytes, megaflops)): (usize, &(&str, Phase, f64, f64, f64))| {
            let times: Vec<f64> = steps.iter().map(|s| s.stages_ns[i]).collect();
            let time = stats(&times);
            let cost = Cost {
                bytes: megabytes * 1e6,
                flops: megaflops * 1e6,
            };
            let seconds = time.median / 1e9;
            let (by_bytes, by_flops) = (cost.bytes / BANDWIDTH, cost.flops / ARITHMETIC);
            let bound = if by_bytes / seconds > 0.6 {
                Bound::Bandwidth
            } else if by_flops / seconds > 0.5 {
                Bound::Compute
            } else if seconds < 4e-5 {
                Bound::Launch
            } else {
                Bound::Latency
            };
            StageSummary {
                name: name.into(),
                phase,
                time,
                share_of_phase: ms / phase_ms(phase),
                share_of_step: time.sum / wall_ns,
                dispatches: Some(if name == "order" {
                    14.0
                } else {
                    1.0 + (i % 4) as f64
                }),
                cost: Some(cost),
                roofline: Some(Placement {
                    bytes_per_second: cost.bytes / seconds,
                    flops_per_second: cost.flops / seconds,
                    share_of_bandwidth: by_bytes / seconds,
                    share_of_compute: by_flops / seconds,
                    intensity: cost.flops / cost.bytes,
                    floor_ns: by_bytes.max(by_flops) * 1e9,
                    bound,
                }),
            }
        };
    STAGES.iter().enumerate().map(summary).collect()
}

/// Returns the spans of the driving thread, concurrent with the device.
fn host_spans(wall_ns: f64) -> Vec<StageSummary> {
    [("enqueue", 280_000.0), ("poll </script>", 9_000.0)]
        .into_iter()
        .map(|(name, ns)| {
            let times: Vec<f64> = (0..STEPS).map(|i| ns * (0.9 + 0.2 * scatter(i))).collect();
            let time = stats(&times);
            StageSummary {
                name: name.into(),
                phase: Phase::Host,
                time,
                share_of_phase: ns / 289_000.0,
                share_of_step: time.sum / wall_ns,
                dispatches: None,
                cost: None,
                roofline: None,
            }
        })
        .collect()
}

fn budget(stages: &[StageSummary], wall_ns: f64) -> Budget {
    let of = |phase| -> f64 {
        stages
            .iter()
            .filter(|s| s.phase == phase)
            .map(|s| s.time.sum)
            .sum()
    };
    // Host and device work concurrently here; the remaining time after the device's is shared out.
    let mut rows = vec![
        (Phase::Forward, of(Phase::Forward) * 0.93),
        (Phase::Loss, of(Phase::Loss) * 0.93),
        (Phase::Backward, of(Phase::Backward) * 0.93),
        (Phase::Update, of(Phase::Update) * 0.93),
        (Phase::Transfer, wall_ns * 0.004),
        (Phase::Host, wall_ns * 0.013),
        (Phase::Gaps, wall_ns * 0.017),
    ];
    let known: f64 = rows.iter().map(|r| r.1).sum();
    rows.push((Phase::Unexplained, wall_ns - known));
    Budget {
        wall_ns,
        rows: rows
            .into_iter()
            .map(|(phase, total_ns)| BudgetRow {
                phase,
                total_ns,
                per_step_ns: total_ns / STEPS as f64,
                share: total_ns / wall_ns,
            })
            .collect(),
    }
}

fn finding(rule: &str, subject: &str, fired: bool, gain: f64, words: [&str; 3]) -> Finding {
    Finding {
        rule: rule.into(),
        subject: subject.into(),
        fired,
        condition: words[0].into(),
        evidence: words[1].into(),
        remedy: words[2].into(),
        possible_gain: gain,
    }
}

fn findings() -> Vec<Finding> {
    vec![
        finding(
            "latency_bound",
            "blend_backward",
            true,
            0.272,
            [
                "below 40 % of both ceilings, and longer than 5 % of the step",
                "blend_backward takes 0.870 ms, 40.1 % of the step, at 7 % of the bandwidth and 34 % of the arithmetic.",
                "Look for divergence and dependent loads: sort instances so that neighbours do the same work, keep sums in registers.",
            ],
        ),
        finding(
            "bandwidth_bound",
            "update",
            true,
            0.176,
            [
                "above 60 % of the bandwidth ceiling",
                "update moves 1.49 GB in 0.530 ms: 2.81 TB/s, 72 % of the bandwidth.",
                "Move fewer bytes: keep moments in 16 bits, update only what was visible.",
            ],
        ),
        finding(
            "load_imbalance",
            "blend",
            true,
            0.061,
            [
                "the heaviest tile above 8 times the mean",
                "The heaviest tile has 11.3 times the instances of the mean one.",
                "Split heavy tiles, or start them first.",
            ],
        ),
        finding(
            "launch_bound",
            "step",
            false,
            0.0,
            [
                "gaps and launches above 15 % of wall time",
                "Gaps are 1.7 % of wall time at 34 dispatches a step.",
                "Merge small dispatches.",
            ],
        ),
        finding(
            "transfer_bound",
            "step",
            false,
            0.0,
            [
                "transfers above 10 % of wall time",
                "Transfers are 0.4 % of wall time.",
                "Copy less, or copy while the device works.",
            ],
        ),
    ]
}

/// Returns a profile with everything that a profile can have.
pub fn full() -> Profile {
    let steps = step_records();
    let durations: Vec<f64> = steps.iter().map(|s| s.duration_ns).collect();
    let wall_ns: f64 = durations.iter().sum::<f64>() * 1.002;
    let stages = stage_summaries(&steps, wall_ns);
    let counter = |i: usize, name: &str, unit: &str| CounterSummary {
        name: name.into(),
        unit: unit.into(),
        stats: stats(&steps.iter().map(|s| s.counters[i]).collect::<Vec<_>>()),
    };
    Profile {
        control: None,
        schema: SCHEMA.into(),
        version: VERSION,
        program: Program {
            name: "splats </script><b>& \"co\"".into(),
            version: "0.1.0".into(),
            commit: Some("745d84a0c1e2f3a4b5c6d7e8f90123456789abcd".into()),
            command: "dapple profile scenes/garden --device gpu --steps 300".into(),
            started: "2025-11-21T16:36:02Z".into(),
        },
        device: vec![
            fact("Device", "NVIDIA H200"),
            fact("Backend", "Vulkan"),
            fact("Driver", "NVIDIA 570.124.06"),
            fact("Subgroups", "32"),
            fact("Host", "Intel Xeon Platinum 8480C, 16 cores"),
        ],
        settings: vec![
            fact("Photos", "185 at 1297x840"),
            fact("SH degree", "3"),
            fact("Gaussians", "1 204 000"),
            fact("Precision", "f32"),
        ],
        method: Method {
            clock: "timestamps of the device at the beginning and end of each pass".into(),
            synchronisation: "at the window's beginning and end; the device never waits between"
                .into(),
            warm_up_steps: 50,
            measured_steps: STEPS as u64,
            device_timestamps: true,
            calibration_error_ns: Some(1840.0),
            overhead: Some(Overhead {
                off_ns: 2_094_000.0,
                on_ns: 2_107_000.0,
                recording_ns: 9_300.0,
            }),
            cautions: vec!["7 of 300 measured steps have no stage times.".into()],
            notes: vec!["Kernels were timed alone in 40 further steps.".into()],
        },
        step: stats(&durations),
        budget: budget(&stages, wall_ns),
        host: host_spans(wall_ns),
        kernels: kernels(&stages),
        timeline: Some(device_use()),
        counters: vec![
            counter(0, "visible", "Gaussians"),
            counter(1, "instances", ""),
            counter(2, "total", "Gaussians"),
        ],
        tables: tables(),
        ceilings: Some(Ceilings {
            bytes_per_second: BANDWIDTH,
            flops_per_second: ARITHMETIC,
            dispatch_ns: Some(1_900.0),
            source: "dapple bench device, 2025-11-20, this device".into(),
        }),
        findings: findings(),
        stages,
        steps,
    }
}

fn device_use() -> Timeline {
    Timeline {
        busy: 0.967,
        kernels_per_step: 34.0,
        mean_kernel_ns: 63_700.0,
        gap: stats(
            &(0..STEPS)
                .map(|i| 900.0 + 700.0 * scatter(i))
                .collect::<Vec<_>>(),
        ),
        launch_efficiency: 0.958,
        submissions_per_step: 1.0,
        syncs_per_step: 0.03,
        bytes_written_per_step: 96.0,
        bytes_read_per_step: 24.0,
        allocations_per_step: 0.0,
        clock_check: Some(ClockCheck {
            stages_ns: 2_098_000.0,
            whole_ns: 2_101_000.0,
        }),
    }
}

fn tables() -> Vec<Table> {
    vec![
        Table {
            title: "Scene".into(),
            facts: vec![
                fact("Tiles", "82 x 53"),
                fact("Instances a tile", "mean 983, p99 5 120, most 11 104"),
                fact("Pixels that stopped early", "61.2 %"),
            ],
        },
        Table {
            title: "Memory".into(),
            facts: vec![
                fact("Parameters and moments", "853 MB"),
                fact("Pool", "412 MB, 96 % used again"),
                fact("Peak", "1.41 GB"),
            ],
        },
    ]
}

fn kernels(stages: &[StageSummary]) -> Vec<KernelSummary> {
    let mut kernels = Vec::new();
    for stage in stages {
        let parts: &[(&str, f64, f64)] = match stage.name.as_str() {
            "order" => &[
                ("compact", 0.2, 1.0),
                ("histogram", 0.05, 4.0),
                ("scatter", 0.13, 4.0),
            ],
            "loss" => &[("ssim_rows", 0.45, 1.0), ("ssim_columns", 0.55, 1.0)],
            _ => &[("", 1.0, 1.0)],
        };
        for &(part, share, per_step) in parts {
            let name = if part.is_empty() {
                stage.name.clone()
            } else {
                format!("{}/{part}", stage.name)
            };
            let times: Vec<f64> = (0..40)
                .map(|i| stage.time.median * share * (0.97 + 0.06 * scatter(i)))
                .collect();
            kernels.push(KernelSummary {
                name,
                stage: stage.name.clone(),
                time: stats(&times),
                per_step,
            });
        }
    }
    kernels
}

/// Returns a profile of one step on a device without a clock, and nothing else.
pub fn minimal() -> Profile {
    let step = stats(&[2.034e9]);
    Profile {
        control: None,
        schema: SCHEMA.into(),
        version: VERSION,
        program: Program {
            name: "dapple".into(),
            started: "2025-11-21T16:36:02Z".into(),
            ..Program::default()
        },
        device: Vec::new(),
        settings: Vec::new(),
        method: Method {
            measured_steps: 1,
            ..Method::default()
        },
        step,
        budget: Budget {
            wall_ns: 2.034e9,
            rows: vec![BudgetRow {
                phase: Phase::Unexplained,
                total_ns: 2.034e9,
                per_step_ns: 2.034e9,
                share: 1.0,
            }],
        },
        stages: Vec::new(),
        host: Vec::new(),
        kernels: Vec::new(),
        timeline: None,
        counters: Vec::new(),
        tables: Vec::new(),
        ceilings: None,
        findings: Vec::new(),
        steps: vec![StepRecord {
            step: 1,
            end_ns: 2_034_000_000,
            duration_ns: 2.034e9,
            ..StepRecord::default()
        }],
    }
}
