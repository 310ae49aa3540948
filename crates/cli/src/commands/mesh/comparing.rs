//! `dapple mesh --compare`: distances between a mesh and the truth.

use super::Args;
use crate::console::Console;
use dapple::scene::Result;
use dapple_mesh::files::Counted;
use dapple_mesh::judge::{Comparison, Rules, compare, extent};
use serde::Serialize;
use std::path::Path;

/// Rules of published benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Benchmark {
    /// DTU: one point per 0.2 units, distances up to 20 units
    Dtu,
    /// Tanks and Temples: one point per half of the first distance
    Tanks,
}

/// Points on each mesh.
const POINTS: usize = 400_000;

/// Default distances, shares of the extent of the truth.
const SHARES: [f32; 3] = [0.0025, 0.005, 0.01];

/// Default largest distance, share of the extent.
const MOST: f32 = 0.03;

/// Distance: a length, or a share of the extent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distance {
    Units(f32),
    Percent(f32),
}

impl Distance {
    fn of(self, extent: f32) -> f32 {
        match self {
            Self::Units(units) => units,
            Self::Percent(percent) => percent / 100.0 * extent,
        }
    }
}

/// Parses a distance: `0.01` or `0.5%`.
pub fn parse_distance(text: &str) -> Result<Distance, String> {
    let (number, is_percent) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    match number.trim().parse::<f32>() {
        Ok(value) if value > 0.0 && value.is_finite() && is_percent => Ok(Distance::Percent(value)),
        Ok(value) if value > 0.0 && value.is_finite() => Ok(Distance::Units(value)),
        _ => Err(
            "a length above zero is needed, such as 0.01, or a share of the extent, such as 0.5%"
                .to_owned(),
        ),
    }
}

/// Row of the JSON output.
#[derive(Debug, Serialize)]
struct Row {
    distance: f32,
    precision: f64,
    recall: f64,
    f_score: f64,
}

/// JSON output; lengths in world units.
#[derive(Debug, Serialize)]
struct Output {
    accuracy: f64,
    completeness: f64,
    chamfer: f64,
    far: f64,
    extent: f32,
    scale: Option<f64>,
    shares: Vec<Row>,
}

/// Compares the mesh with the truth and prints the result.
pub fn run(args: &Args, truth: &Path, console: &Console) -> Result<()> {
    let (truth, mesh) = (Counted::open(truth)?, Counted::open(&args.splats)?.mesh);
    let size = extent(&truth.mesh.positions);
    let tanks = args.benchmark == Some(Benchmark::Tanks);
    let dtu = args.benchmark == Some(Benchmark::Dtu);
    let mut distances: Vec<f32> = args.distances.iter().map(|d| d.of(size)).collect();
    if distances.is_empty() {
        distances = SHARES.map(|share| share * size).to_vec();
    }
    let most = match args.max_distance {
        Some(distance) => Some(distance.of(size)),
        None if dtu => Some(20.0),
        None if tanks => None,
        None => Some(MOST * size),
    };
    let rules = Rules {
        points: POINTS,
        thinning: match () {
            () if dtu => 0.2,
            () if tanks => distances[0] / 2.0,
            () => 0.0,
        },
        distances,
        most,
        least_seen: args.seen,
        align: args.align,
        bounds: args.bounds,
    };
    let found = compare(&truth, &mesh, &rules)?;
    if args.json {
        return console.json(&output(&found));
    }
    console.data(&table(&found))
}

fn output(found: &Comparison) -> Output {
    let rows = found.shares.iter().map(|share| Row {
        distance: share.distance,
        precision: share.precision,
        recall: share.recall,
        f_score: share.f_score,
    });
    Output {
        accuracy: found.accuracy,
        completeness: found.completeness,
        chamfer: found.chamfer,
        far: found.far,
        extent: found.extent,
        scale: found.motion.map(|motion| motion.scale),
        shares: rows.collect(),
    }
}

fn table(found: &Comparison) -> String {
    let extent = f64::from(found.extent);
    let mut text = format!(
        "extent        {:.5} units, diagonal of the truth\n",
        found.extent
    );
    for (name, value) in [
        ("accuracy", found.accuracy),
        ("completeness", found.completeness),
        ("chamfer", found.chamfer),
    ] {
        text += &format!(
            "{name:<13} {value:.6} units  {:.4} %\n",
            100.0 * value / extent
        );
    }
    text += &format!("far           {:.2} % of the mesh\n", 100.0 * found.far);
    if let Some(motion) = found.motion {
        text += &format!("aligned       scale {:.6}\n", motion.scale);
    }
    text += "distance      precision  recall  F-score\n";
    for share in &found.shares {
        text += &format!(
            "{:<13.6} {:>9.3} {:>7.3} {:>8.3}   {:.3} %\n",
            share.distance,
            share.precision,
            share.recall,
            share.f_score,
            100.0 * f64::from(share.distance) / extent
        );
    }
    text.trim_end().to_owned()
}
