//! The photos of a run and the order in which steps take them.
//!
//! 1. Photos that fit into memory are passed to the engine at once; others are read ahead of the steps that need them
//!    ([`crate::loader`]) and passed one by one.
//! 2. If the configuration sets it ([`crate::config::DataConfig::coarse_until`]), the first steps take their photos at
//!    half the size. Such a photo is another view of the engine, with a camera of that size. [`PhotoOrder`] numbers
//!    both sets consecutively.
//!    A region of interest narrows the masks of both ([`crate::focus`]).
//! 3. The engine learns the photos of the next steps in advance, so that they are copied while earlier steps run.

use crate::extension::WithheldPhotos;
use crate::focus;
use crate::loader::{PhotoLoader, PhotoTraffic};
use crate::order::PartViews;
use crate::views::Chosen;
use crate::{PhotoOrder, Schedule, ViewOrder};
use dapple_engine::{Engine, EngineExt, TrainView, ViewId};
use dapple_scene::{Camera, Dataset, Photo, PhotoSource, Result, View};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of steps that are announced to the engine. Packing a photo takes a thread a part of a step; more
/// announcements would only take memory.
const ANNOUNCED: u32 = 3;

/// Shortest edge of a half-size photo, pixels: smaller photos show too little of a scene.
const SHORTEST_HALF: u32 = 128;

/// Training photos of a run.
pub(crate) struct TrainPhotos {
    pub(crate) ids: Vec<ViewId>,
    /// Views of the half-size photos that the first steps take; empty without such steps.
    pub(super) coarse_ids: Vec<ViewId>,
    pub(crate) names: Vec<String>,
    /// Original cameras.
    pub(crate) cameras: Vec<(String, Camera)>,
    order: PhotoOrder,
    /// Order of photos at the announced steps, which are ahead of the current one.
    announced: PhotoOrder,
    /// Loader, if not all photos are in memory.
    loader: Option<PhotoLoader>,
}

impl TrainPhotos {
    /// Passes the photos of a run that has taken `step` steps to an engine.
    pub(super) fn hand_over(
        dataset: &Dataset,
        schedule: &Schedule,
        engine: &mut dyn Engine,
        chosen: &Chosen,
        step: u32,
    ) -> Result<Self> {
        let train: Vec<&View> = chosen.train.iter().map(|&i| &dataset.views[i]).collect();
        let config = schedule.config();
        let mut sources: Vec<(Camera, PhotoSource)> = train
            .iter()
            .map(|view| (view.camera, view.photo.clone()))
            .collect();
        let mut last_coarse = schedule.last_coarse_step();
        match halves(&sources).filter(|_| last_coarse > 0) {
            Some(halves) => sources.extend(halves),
            None => last_coarse = 0,
        }
        for (place, (camera, photo)) in sources.iter_mut().enumerate() {
            let name = &train[place % train.len()].name;
            *photo = focus::train_photo(config, name, camera, photo.clone());
        }
        let withheld = WithheldPhotos::new(schedule.plan(), train.len());
        let after = schedule.plan().amendments().last_part();
        let joined = after.and_then(|after| config.data.joined.of_part(after));
        let part = joined.and_then(|joined| {
            let places = |names: &mut dyn Iterator<Item = &String>| -> Vec<usize> {
                let names: BTreeSet<&str> = names.map(String::as_str).collect();
                let named = |&i: &usize| names.contains(train[i].name.as_str());
                (0..train.len()).filter(named).collect()
            };
            let (new, beside) = (
                places(&mut joined.photos()),
                places(&mut joined.beside.iter()),
            );
            PartViews::new(joined.after, &new, &beside)
        });
        let views = ViewOrder::new(config.seed, train.len())
            .without(withheld)
            .with_part(part);
        let order = PhotoOrder::new(views, last_coarse);
        let (mut ids, loader) = match dataset.photo_memory_bytes {
            Some(budget) => {
                let (cameras, photos): (Vec<Camera>, _) = sources.into_iter().unzip();
                let steps = (step + 1, schedule.plan().last_step());
                let ids = engine.add_cameras(&cameras)?;
                let loader = PhotoLoader::start(photos, &order, budget, steps)?;
                (ids, Some(loader))
            }
            None => (engine.add_views(held(sources)?)?, None),
        };
        let coarse_ids = ids.split_off(train.len());
        let named = |view: &&View| (view.name.clone(), view.camera);
        Ok(Self {
            ids,
            coarse_ids,
            names: train.iter().map(|view| view.name.clone()).collect(),
            cameras: train.iter().map(named).collect(),
            announced: order.clone(),
            order,
            loader,
        })
    }

    /// Returns the view of a step, and its photo if the engine does not hold it.
    pub(super) fn of_step(&mut self, step: u32) -> Result<(ViewId, Option<Arc<Photo>>)> {
        let photo = self.order.photo_at(step);
        let view = self.id(photo);
        let photo = self.loader.as_ref().map(|loader| loader.take(step));
        Ok((view, photo.transpose()?))
    }

    /// Announces the steps after `step`, up to the run's last, to the engine, so that their photos are copied while
    /// earlier steps run.
    pub(super) fn announce_after(
        &mut self,
        step: u32,
        last: u32,
        engine: &mut dyn Engine,
    ) -> Result<()> {
        let last = last.min(step.saturating_add(ANNOUNCED));
        for coming in step.saturating_add(1)..=last {
            let photo = self.announced.photo_at(coming);
            let view = self.id(photo);
            let photo = match &self.loader {
                None => None,
                Some(loader) => match loader.ready(coming) {
                    None => break,
                    photo => photo,
                },
            };
            engine.announce(view, photo)?;
        }
        Ok(())
    }

    /// Updates the order after an amendment.
    pub(super) fn follow(&mut self, schedule: &Schedule) {
        let coarse = match self.coarse_ids.is_empty() {
            true => 0,
            false => schedule.last_coarse_step(),
        };
        let plan = schedule.plan();
        self.order.set_last_coarse(coarse);
        self.order
            .set_withheld(WithheldPhotos::new(plan, self.names.len()));
        self.announced = self.order.clone();
        if let Some(loader) = &self.loader {
            loader.follow(&self.order, plan.last_step());
        }
    }

    /// Returns the steps at which photos are withheld.
    pub(crate) fn withheld(&self) -> &WithheldPhotos {
        self.order.withheld()
    }

    /// Returns the shortest edge of all photos that steps use, pixels.
    pub(crate) fn least_edge(&self) -> u32 {
        let edges = self
            .cameras
            .iter()
            .map(|(_, camera)| camera.width.min(camera.height));
        let least = edges.min().unwrap_or(0);
        match self.coarse_ids.is_empty() {
            true => least,
            false => least.div_ceil(2),
        }
    }

    /// Returns the engine's view of a photo of the order.
    fn id(&self, photo: usize) -> ViewId {
        match photo.checked_sub(self.ids.len()) {
            Some(coarse) => self.coarse_ids[coarse],
            None => self.ids[photo],
        }
    }

    /// Returns the statistics of photo reads, if not all photos fit into memory.
    pub(super) fn traffic(&self) -> Option<PhotoTraffic> {
        self.loader.as_ref().map(PhotoLoader::traffic)
    }
}

/// Returns views with their photos, which are read now if they are not in memory.
fn held(sources: Vec<(Camera, PhotoSource)>) -> Result<Vec<TrainView>> {
    let sources = sources.into_par_iter();
    sources
        .map(|(camera, source)| {
            let photo = source.read()?;
            Ok(TrainView { camera, photo })
        })
        .collect()
}

/// Returns the camera of a half-size photo.
pub(crate) fn half_camera(camera: &Camera) -> Camera {
    camera.resized(camera.width.div_ceil(2), camera.height.div_ceil(2))
}

/// Returns the half-size photos of the views; `None` if half of a photo would be too small.
fn halves(sources: &[(Camera, PhotoSource)]) -> Option<Vec<(Camera, PhotoSource)>> {
    let halves = sources.iter().map(|(camera, photo)| {
        let half = photo.halved();
        let [width, height] = half.size();
        let is_large = width.min(height) >= SHORTEST_HALF;
        is_large.then(|| (half_camera(camera), half))
    });
    halves.collect()
}
