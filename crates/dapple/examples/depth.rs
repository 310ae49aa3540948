//! Compares training on few photos with and without known depths:
//! `cargo run --release --example depth -- [PHOTOS] [STEPS] [WEIGHT]...`
//!
//! Trains a synthetic capture, whose true depths are known, with photos only and with depths from its
//! sparse points. Scores held-out views: PSNR, and the error of the median depth relative to the true
//! depth. The held-out views are those of a dense capture of the same scene.

use dapple::contract::RenderSettings;
use dapple::prelude::*;
use dapple::train::DepthSource;

fn main() -> dapple::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: f64| {
        let text = arguments.next();
        text.and_then(|text| text.parse::<f64>().ok())
            .unwrap_or(default)
    };
    let (photos, steps) = (number(4.0) as usize, number(200.0) as u32);
    let weights: Vec<f64> = arguments.filter_map(|text| text.parse().ok()).collect();
    let options = SynthOptions {
        photos,
        width: 160,
        height: 120,
        points: 1500,
        ..SynthOptions::default()
    };
    let few = synth::dataset(&options)?;
    let dense = SynthOptions {
        photos: 24,
        seed: 1,
        ..options.clone()
    };
    let (views, truth) = (synth::dataset(&dense)?.views, synth::depths(&dense)?);

    println!("{photos} photos, {steps} steps");
    println!("depth weight   PSNR dB   depth error: mean   median");
    for weight in std::iter::once(0.0).chain(weights) {
        let mut config = Preset::Standard.config_for(steps);
        config.data.eval_every = 0;
        config.eval.every = 0;
        if weight > 0.0 {
            config.depth.from = DepthSource::Points;
            config.depth.weight = weight;
        }
        let engine = dapple::engine(Device::Cpu)?;
        let mut trainer = Trainer::new(&few, config, engine)?;
        trainer.run(&mut Silent)?;
        let settings = RenderSettings {
            depth: true,
            ..trainer.schedule().render_settings()
        };
        let (mut squares, mut count, mut errors) = (Vec::new(), 0, Vec::new());
        for (view, truth) in views.iter().zip(&truth) {
            let rendered = trainer.engine_mut().render(&view.camera, &settings)?;
            let photo = view.photo.read()?;
            let pairs = rendered.rgb.iter().zip(&photo.rgb);
            let sum: f64 = pairs
                .map(|(a, &b)| f64::from(a.clamp(0.0, 1.0) - f32::from(b) / 255.0).powi(2))
                .sum();
            squares.push(-10.0 * (sum / rendered.rgb.len() as f64).log10());
            let depths = rendered.depth.unwrap_or_default();
            // No depth counts as wrong as a depth of zero.
            let relative = |(z, t): (&f32, &f32)| f64::from((z / t - 1.0).abs().min(1.0));
            errors.extend(depths.median.iter().zip(truth).map(relative));
            count += 1;
        }
        errors.sort_by(f64::total_cmp);
        println!(
            "{weight:12}   {:7.2}   {:17.4}   {:6.4}",
            squares.iter().sum::<f64>() / f64::from(count),
            errors.iter().sum::<f64>() / errors.len() as f64,
            errors[errors.len() / 2],
        );
    }
    Ok(())
}
