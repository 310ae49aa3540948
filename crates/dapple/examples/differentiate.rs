//! Renders and differentiates one image against a target, and follows the gradient downhill:
//! `cargo run --release --example differentiate`.
//!
//! The Gaussians are at the sparse points of a capture, but all of them are grey. Plain gradient
//! descent on one tensor, their colours, brings the rendered view towards the photo. Other losses
//! work in the same way: only `dl_drgb` changes.

use dapple::prelude::*;

/// Step size. The loss is a mean over 57 600 values and a Gaussian covers few of them: its
/// gradient is small, so the step is large.
const STEP: f32 = 3000.0;

fn main() -> dapple::Result<()> {
    let capture = synth::dataset(&SynthOptions {
        photos: 4,
        width: 160,
        height: 120,
        ..SynthOptions::default()
    })?;
    let view = &capture.views[0];
    let target: Vec<f32> = view
        .photo
        .read()?
        .rgb
        .iter()
        .map(|&v| f32::from(v) / 255.0)
        .collect();

    let extent = capture.extent(&[0, 1, 2, 3]);
    let mut splats = dapple::train::init::from_points(&capture.points, extent, 0, 0)?;
    splats.sh0.fill([0.0; 3]); // grey
    splats.opacities.fill(2.0);

    let settings = RenderSettings {
        background: [0.7, 0.8, 0.9], // sky, where no point was found
        ..RenderSettings::default()
    };
    let mut engine = dapple::engine(Device::Auto)?;
    let mut losses = Vec::new();
    for step in 0..=40 {
        engine.upload(&splats, None)?;
        let image = engine.render(&view.camera, &settings)?;

        // L = mean((image - target)^2), so dL/dimage = 2 (image - target) / count.
        let difference: Vec<f32> = image.rgb.iter().zip(&target).map(|(a, b)| a - b).collect();
        let count = difference.len() as f32;
        let loss = difference.iter().map(|d| d * d).sum::<f32>() / count;
        let dl_drgb: Vec<f32> = difference.iter().map(|d| 2.0 * d / count).collect();
        losses.push(loss);
        if step % 10 == 0 {
            println!("step {step:2}: loss {loss:.5}");
        }

        let gradients = engine.gradients(&view.camera, &settings, &dl_drgb, None)?;
        for (colour, gradient) in splats.sh0.iter_mut().zip(&gradients.sh0) {
            for (value, slope) in colour.iter_mut().zip(gradient) {
                *value -= STEP * slope;
            }
        }
    }
    assert!(
        losses[40] < 0.6 * losses[0],
        "the gradient does not lead downhill"
    );
    Ok(())
}
