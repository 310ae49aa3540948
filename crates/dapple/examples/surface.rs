//! Compares the depths of trained splats with the truth:
//! `cargo run --release --example surface -- CAPTURE SPLATS [cpu|gpu]`.
//!
//! CAPTURE is a folder of `dapple synth` with a pinhole lens and exact poses. Prints quantiles of the absolute error of
//! expected, median and surface depths, of the angle of the surface normal, and the time of a render with a surface.
//! The landscape is excluded: nothing sees it from two sides.

use dapple::contract::{RenderSettings, depth};
use dapple::prelude::*;
use dapple::scene::Error;
use std::path::Path;
use std::time::Instant;

/// Depth beyond which a pixel shows the landscape of the scenes with a table, units.
const LANDSCAPE: f32 = 7.5;

/// Most photos that are compared.
const MOST: usize = 8;

fn main() -> dapple::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [capture, splats, rest @ ..] = &arguments[..] else {
        println!("usage: surface CAPTURE SPLATS [cpu|gpu]");
        return Ok(());
    };
    let note = Path::new(capture).join("synth.json");
    let text = std::fs::read(&note).map_err(|e| Error::io("cannot read", &note, e))?;
    let invalid = |_| Error::input("the file has no options of a capture").at_path(&note);
    let mut note: serde_json::Value = serde_json::from_slice(&text).map_err(invalid)?;
    let options = note.get_mut("options").map(serde_json::Value::take);
    let options: SynthOptions =
        serde_json::from_value(options.unwrap_or_default()).map_err(invalid)?;
    let truth = synth::depths(&options)?;
    let views = synth::dataset(&options)?.views;
    let device = match rest.first().map(String::as_str) {
        Some("gpu") => Device::Auto,
        _ => Device::Cpu,
    };
    let mut engine = dapple::engine(device)?;
    let (splats, metadata) = dapple::scene::splat_file::read(Path::new(splats))?;
    engine.upload(&splats, None)?;
    let mut settings = RenderSettings {
        depth: true,
        sh_degree: splats.sh_degree,
        antialias: metadata.antialiased,
        ..RenderSettings::default()
    };
    let mut errors: [(&str, Vec<f32>); 3] = ["expected", "median", "surface"].map(|n| (n, vec![]));
    let (mut angles, mut pixels, mut times) = (vec![], 0, [0.0; 2]);
    let every = views.len().div_ceil(MOST);
    for (view, truth) in views.iter().zip(&truth).step_by(every) {
        for (time, surface) in times.iter_mut().zip([false, true]) {
            settings.surface = surface;
            let begun = Instant::now();
            engine.render(&view.camera, &settings)?;
            *time += begun.elapsed().as_secs_f64();
        }
        let rendered = engine.render(&view.camera, &settings)?;
        let normals = depth::normals(&view.camera, truth);
        let depths = rendered.depth.unwrap_or_default();
        let surface = rendered.surface.unwrap_or_default();
        let found = [
            depths.covered(&rendered.alpha),
            depths.median,
            surface.depth,
        ];
        for (i, (&t, n)) in truth.iter().zip(&normals).enumerate() {
            // One set of pixels for all: those in which every depth is known.
            if t > LANDSCAPE || found.iter().any(|depths| depths[i] <= 0.0) {
                continue;
            }
            pixels += 1;
            for ((_, errors), depths) in errors.iter_mut().zip(&found) {
                errors.push((depths[i] - t).abs());
            }
            let cosine: f32 = n.iter().zip(surface.normal[i]).map(|(a, b)| a * b).sum();
            angles.push(cosine.clamp(-1.0, 1.0).acos().to_degrees());
        }
    }
    println!("{pixels} pixels      median      p75      p90");
    for (name, values) in &mut errors {
        let [median, third, tenth] = quantiles(values);
        println!("{name:10} depth {median:10.5} {third:8.5} {tenth:8.5}");
    }
    let [median, third, tenth] = quantiles(&mut angles);
    println!("normal, degrees  {median:10.2} {third:8.2} {tenth:8.2}");
    let count = views.len().div_ceil(every) as f64;
    let [plain, with] = times.map(|time| 1e3 * time / count);
    println!("render {plain:.0} ms, with surface {with:.0} ms");
    Ok(())
}

fn quantiles(values: &mut [f32]) -> [f32; 3] {
    values.sort_by(f32::total_cmp);
    [0.5, 0.75, 0.9].map(|part| {
        let at = (part * values.len().saturating_sub(1) as f64) as usize;
        values.get(at).copied().unwrap_or(f32::NAN)
    })
}
