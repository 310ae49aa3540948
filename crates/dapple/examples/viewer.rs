//! Shows a run of your own program in a browser: `cargo run --release --example viewer [STEPS]`.
//!
//! The run renders frames for the pages between two steps, for at most a fifth of its time. The result is
//! bit-identical.

use dapple::live::{LiveHook, LiveOptions};
use dapple::prelude::*;

fn main() -> dapple::Result<()> {
    let dataset = synth::dataset(&SynthOptions {
        width: 160,
        height: 120,
        ..SynthOptions::default()
    })?;
    let steps = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let config = Preset::Micro.config_for(steps.unwrap_or(100));
    let mut trainer = Trainer::new(&dataset, config, dapple::engine(Device::Auto)?)?;

    let mut live = LiveHook::serve(&dataset, &trainer, LiveOptions::default())?;
    println!("open {}", live.url());
    let outcome = trainer.run(&mut live)?;
    println!("{} Gaussians", outcome.gaussians);
    Ok(())
}
