//! Cleans and shrinks splats with the library, and replays the same chain from a recipe:
//! `cargo run --release --example edit`.
//!
//! A caller with cameras and an engine passes both to the editor through a `Surroundings` of its own. This example
//! computes the contribution of each Gaussian to the photos, so that decimation keeps visible Gaussians.

use dapple::BoxedEngine;
use dapple::prelude::*;
use dapple::scene::edit::{Action, Editor, Recipe, Similarity, Surroundings};

/// Cameras of a capture, and an engine.
struct Photos {
    cameras: Vec<Camera>,
    engine: BoxedEngine,
}

impl Surroundings for Photos {
    fn cameras(&mut self) -> dapple::Result<Vec<Camera>> {
        Ok(self.cameras.clone())
    }

    fn contributions(
        &mut self,
        splats: &Splats,
        moved: &Similarity,
        _is_needed: bool,
    ) -> dapple::Result<Option<Vec<f32>>> {
        let cameras: Vec<Camera> = self.cameras.iter().map(|c| moved.camera(c)).collect();
        let settings = RenderSettings::default();
        let engine = self.engine.as_mut();
        dapple::train::contributions(engine, splats, &cameras, &settings, &NoProgress).map(Some)
    }

    fn refit(
        &mut self,
        _many: &Splats,
        few: Splats,
        _moved: &Similarity,
        _steps: u32,
    ) -> dapple::Result<Splats> {
        Ok(few) // `dapple::train::refit` would go here
    }
}

fn main() -> dapple::Result<()> {
    let capture = synth::dataset(&SynthOptions {
        photos: 6,
        width: 96,
        height: 72,
        ..SynthOptions::default()
    })?;
    let splats =
        dapple::train::init::from_points(&capture.points, capture.extent(&[0, 1, 2]), 0, 0)?;
    let mut photos = Photos {
        cameras: capture.views.iter().map(|view| view.camera).collect(),
        engine: dapple::engine(Device::Auto)?,
    };
    let recipe = Recipe::new(vec![
        Action::Keep("finite".parse()?),
        Action::Drop("opacity<0.01".parse()?),
        Action::rotate([0.0, 90.0, 0.0]),
        Action::Decimate {
            to: "25%".parse()?,
            refit: 0,
        },
    ]);
    let mut edited = Vec::new();
    for _ in 0..2 {
        let mut editor = Editor::new(splats.clone());
        for action in &recipe.actions {
            editor.apply(action, &mut photos, &NoProgress)?;
            println!("{action:?}: {} Gaussians", editor.splats().len());
        }
        edited.push(editor.into_splats());
    }
    assert_eq!(edited[0], edited[1], "the same chain gives the same splats");
    Ok(())
}
