//! Trains splats from posed photographs: `cargo run --release --example train [CAPTURE]`.
//!
//! CAPTURE is a folder in COLMAP, Nerfstudio or Blender layout. Without it, a small synthetic
//! capture is created in memory. Splats, metrics and renders are written to a folder whose path is
//! printed.

use dapple::prelude::*;

fn main() -> dapple::Result<()> {
    let dataset = match std::env::args_os().nth(1) {
        Some(folder) => dapple::load(folder.as_ref(), &LoadOptions::default(), &NoProgress)?,
        None => synth::dataset(&SynthOptions {
            width: 160,
            height: 120,
            ..SynthOptions::default()
        })?,
    };
    let config = Preset::Micro.config(); // 100 steps; try Preset::Quick for a real scene
    let mut trainer = Trainer::new(&dataset, config, dapple::engine(Device::Auto)?)?;
    let before = trainer.evaluate()?;

    let folder = RunFolder::create(&std::env::temp_dir().join("dapple-example-train"))?;
    let outcome = dapple::train_into(&folder, &mut trainer, &mut Silent)?;

    println!(
        "{} Gaussians in {}",
        outcome.gaussians,
        folder.path().display()
    );
    if let Some(after) = outcome.eval {
        println!("held-out PSNR {:.2} -> {:.2} dB", before.psnr, after.psnr);
        assert!(after.psnr > before.psnr, "training made it worse");
    }
    Ok(())
}
