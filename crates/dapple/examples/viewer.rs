//! Shows a run of your own program in a browser: `cargo run --release --example viewer [STEPS]`.
//!
//! The viewer requests frames. This program renders them between two steps, for at most a fifth of its time.
//! The training result is bit-identical.

use dapple::prelude::*;
use dapple::train::PausedRun;
use dapple_viewer::{CameraEntry, Share, Stage, Status, Viewer, ViewerOptions};
use std::time::{Duration, Instant};

/// Displays a run on the viewer's pages.
struct Shown {
    viewer: Viewer,
    share: Share,
    pictures: u32,
    begun: Instant,
}

impl Shown {
    fn report(&self, at: &StepProgress) {
        if !at.step.is_multiple_of(20) {
            return;
        }
        self.viewer.changed();
        self.viewer.report(&Status {
            step: at.step,
            steps: at.steps,
            loss: at.smoothed_loss.into(),
            psnr: None,
            gaussians: at.gaussians,
            steps_per_second: at.steps_per_second,
            elapsed_seconds: self.begun.elapsed().as_secs_f64(),
            eta_seconds: Some(at.eta_seconds),
            memory_bytes: None,
            paused: false,
            note: None,
        });
    }
}

impl RunHook for Shown {
    fn name(&self) -> &'static str {
        "viewer"
    }

    fn on(&mut self, event: &Event<'_>) -> dapple::Result<()> {
        if let Event::Step(progress) = event {
            self.report(progress);
        }
        Ok(())
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> dapple::Result<Next> {
        if !self.share.is_ready(Instant::now()) {
            return Ok(Next::Continue);
        }
        if let Some(request) = self.viewer.next(Duration::ZERO) {
            let started = Instant::now();
            let picture = run.with_engine(|engine, settings| request.picture(engine, settings))?;
            self.viewer.answer(&request, picture);
            self.share.spent(started.elapsed(), Instant::now());
            self.pictures += 1;
        }
        Ok(Next::Continue)
    }
}

fn main() -> dapple::Result<()> {
    let dataset = synth::dataset(&SynthOptions {
        width: 160,
        height: 120,
        ..SynthOptions::default()
    })?;
    let steps = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let config = Preset::Micro.config_for(steps.unwrap_or(100));
    let mut trainer = Trainer::new(&dataset, config, dapple::engine(Device::Auto)?)?;

    let viewer = Viewer::start(&ViewerOptions::default())?;
    println!("open {}", viewer.url());
    let cameras = dataset.views.iter().map(|view| CameraEntry {
        name: view.name.clone(),
        camera: view.camera,
        photo: Some(view.photo.clone()),
        held_out: false,
        psnr: None,
    });
    viewer.show(Stage {
        cameras: cameras.collect(),
        device: trainer.device(),
        trains: true,
        ..Stage::titled("an example")
    });
    let mut shown = Shown {
        viewer,
        share: Share::new(0.2),
        pictures: 0,
        begun: Instant::now(),
    };
    let outcome = trainer.run(&mut shown)?;
    println!(
        "{} Gaussians; {} pictures were shown",
        outcome.gaussians, shown.pictures
    );
    Ok(())
}
