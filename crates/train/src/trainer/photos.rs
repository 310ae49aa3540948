//! The photos of a run and the order in which steps take them.
//!
//! 1. Photos that fit into memory are handed to the engine at once; others are read ahead of the steps that
//!    need them ([`crate::loader`]) and handed over one by one.
//! 2. The first steps take their photos at half the size, where the configuration says so
//!    ([`crate::config::DataConfig::coarse_until`]): another view of the engine's, with a camera of that size. An
//!    order over both numbers them one after the other ([`PhotoOrder`]).
//! 3. The engine learns of the next steps' photos, so that they are on their way meanwhile.

use crate::loader::{PhotoLoader, PhotoTraffic};
use crate::outlook::Aside;
use crate::views::Chosen;
use crate::{PhotoOrder, Schedule, ViewOrder};
use dapple_engine::{Engine, TrainView, ViewId};
use dapple_scene::{Camera, Dataset, Photo, PhotoSource, Result, View};
use rayon::prelude::*;
use std::sync::Arc;

/// The engine learns of so many steps beforehand. Packing a photo takes a thread a part of a step; more
/// would only hold memory.
const ANNOUNCED: u32 = 3;

/// The shorter edge of a half-size photo, pixels, at least: less shows too little of a scene.
const SHORTEST_HALF: u32 = 128;

/// What a run trains on.
pub(crate) struct TrainPhotos {
    pub(crate) ids: Vec<ViewId>,
    /// Of the half-size photos that the first steps take; empty where none does.
    coarse_ids: Vec<ViewId>,
    pub(crate) names: Vec<String>,
    /// As they were given.
    pub(crate) cameras: Vec<(String, Camera)>,
    order: PhotoOrder,
    /// The same, some steps ahead.
    announced: PhotoOrder,
    /// Where not all photos are in memory.
    loader: Option<PhotoLoader>,
}

impl TrainPhotos {
    /// Hands an engine what a run that has taken `step` steps trains on.
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
        let aside = Aside::of(config, train.len());
        let views = ViewOrder::new(config.seed, train.len()).without(aside);
        let order = PhotoOrder::new(views, last_coarse);
        let (mut ids, loader) = match dataset.photo_memory_bytes {
            Some(budget) => {
                let (cameras, photos): (Vec<Camera>, _) = sources.into_iter().unzip();
                let steps = (step + 1, config.last_step());
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

    /// The view of a step, and its photo where the engine does not hold it.
    pub(super) fn of_step(&mut self, step: u32) -> Result<(ViewId, Option<Arc<Photo>>)> {
        let photo = self.order.photo_at(step);
        let view = self.id(photo);
        let photo = self.loader.as_ref().map(|loader| loader.take(step));
        Ok((view, photo.transpose()?))
    }

    /// Tells the engine of the steps after `step`, up to the run's last, so that their photos are on their
    /// way meanwhile.
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

    /// The pace may have changed, or the run been extended.
    pub(super) fn follow(&mut self, schedule: &Schedule) {
        let coarse = match self.coarse_ids.is_empty() {
            true => 0,
            false => schedule.last_coarse_step(),
        };
        let config = schedule.config();
        self.order.set_last_coarse(coarse);
        self.order.set_aside(Aside::of(config, self.names.len()));
        self.announced = self.order.clone();
        if let Some(loader) = &self.loader {
            loader.follow(&self.order, config.last_step());
        }
    }

    /// When some of them are left out of steps.
    pub(crate) fn aside(&self) -> &Aside {
        self.order.aside()
    }

    /// The shortest edge of all that steps look at, pixels.
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

    /// The engine's view of a photo of the order.
    fn id(&self, photo: usize) -> ViewId {
        match photo.checked_sub(self.ids.len()) {
            Some(coarse) => self.coarse_ids[coarse],
            None => self.ids[photo],
        }
    }

    /// How photos were read while training, where they do not all fit into memory.
    pub(super) fn traffic(&self) -> Option<PhotoTraffic> {
        self.loader.as_ref().map(PhotoLoader::traffic)
    }
}

/// Views with their photos, read now where they are not in memory.
fn held(sources: Vec<(Camera, PhotoSource)>) -> Result<Vec<TrainView>> {
    let sources = sources.into_par_iter();
    sources
        .map(|(camera, source)| {
            let photo = source.read()?;
            Ok(TrainView { camera, photo })
        })
        .collect()
}

/// What the first steps see of the views; `None` where half of a photo would be too small.
fn halves(sources: &[(Camera, PhotoSource)]) -> Option<Vec<(Camera, PhotoSource)>> {
    let halves = sources.iter().map(|(camera, photo)| {
        let half = photo.halved();
        let [width, height] = half.size();
        let is_large = width.min(height) >= SHORTEST_HALF;
        is_large.then(|| (camera.resized(width, height), half))
    });
    halves.collect()
}
