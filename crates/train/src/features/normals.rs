//! Losses of the planes of Gaussians ([`dapple_engine::features::normals`]): their weights, and the photos that are
//! compared.

mod neighbours;

use super::point::{At, Finding, Found, TrainFeature, Weighing};
use crate::TrainConfig;
use crate::random::{Purpose, generator};
use dapple_engine::features::normals;
use dapple_engine::features::normals::matching::{MOST_BYTES, MatchedView};
use dapple_engine::{FeatureInput, LossTerm, LossWeights};
use dapple_scene::grey::{GreyPhoto, halvings};
use dapple_scene::{Camera, PhotoSource, Result, View};
use neighbours::Neighbours;
use rand_chacha::rand_core::Rng;
use rayon::prelude::*;

/// The feature in training.
pub(super) struct Feature;

/// Returns true if a run compares photos. Refined poses would not move by this loss.
fn compares(config: &TrainConfig) -> bool {
    config.surface.enabled && config.surface.matching > 0.0 && !config.poses.refine
}

impl TrainFeature for Feature {
    type Step = normals::Step;
    type State = normals::State;

    fn step(at: &At<'_>) -> Self::Step {
        if !compares(at.config) {
            return normals::Step::default();
        }
        let mut random = generator(at.config.seed, Purpose::Matching, at.step.into());
        normals::Step {
            draw: std::array::from_fn(|_| random.next_u32()),
        }
    }

    fn weigh(of: &Weighing<'_>, weights: &mut LossWeights) {
        let surface = &of.config.surface;
        let is_on = surface.enabled && of.done >= surface.start;
        if is_on && of.step.is_multiple_of(surface.every) {
            let times = |weight: f64| (weight * f64::from(surface.every)) as f32;
            weights[LossTerm::Normals] = times(surface.normals);
            if compares(of.config) {
                weights[LossTerm::Matching] = times(surface.matching);
            }
        }
    }

    /// Finds the neighbours of all photos, and makes their shades.
    fn find(of: &Finding<'_>) -> Result<Option<Found>> {
        if !compares(of.config) {
            return Ok(None);
        }
        let views: Vec<&View> = of.train.iter().map(|&i| &of.dataset.views[i]).collect();
        let cameras: Vec<Camera> = views.iter().map(|view| view.camera).collect();
        let neighbours = Neighbours::new(&cameras, &of.dataset.points, of.extent);
        let neighbours: Vec<Vec<usize>> = (0..cameras.len()).map(|i| neighbours.of(i)).collect();
        let note = note(&neighbours);
        let sizes = cameras.iter().map(|camera| [camera.width, camera.height]);
        let halvings = halvings(sizes, MOST_BYTES);
        let photos: Vec<PhotoSource> = views.iter().map(|view| view.photo.clone()).collect();
        Ok(Some(Box::new(move |to| {
            to.notes.extend(note);
            let grey = |photo: PhotoSource| {
                let whole = GreyPhoto::of(&*photo.read()?);
                Ok((0..halvings).fold(whole, |photo, _| photo.halved()))
            };
            let greys: Vec<GreyPhoto> = photos.into_par_iter().map(grey).collect::<Result<_>>()?;
            let matched = to.ids.iter().zip(greys).zip(neighbours);
            let matched = matched.map(|((&view, photo), neighbours)| MatchedView {
                view,
                photo,
                neighbours,
            });
            to.engine
                .set_input(FeatureInput::Matching(matched.collect()))
        })))
    }
}

fn note(neighbours: &[Vec<usize>]) -> Option<String> {
    let alone = neighbours.iter().filter(|of| of.is_empty()).count();
    (alone > 0).then(|| {
        format!(
            "{alone} of {} photos have no neighbour that shows the same places: --surface does not compare them",
            neighbours.len()
        )
    })
}
