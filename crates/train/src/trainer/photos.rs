//! The photos of a run and the order in which steps take them.
//!
//! 1. Photos that fit into memory are handed to the engine at once; others are read ahead of the steps that
//!    need them ([`crate::loader`]) and handed over one by one.
//! 2. The engine learns of the next steps' photos, so that they are on their way meanwhile.

use crate::loader::{PhotoLoader, PhotoTraffic};
use crate::views::Chosen;
use crate::{TrainConfig, ViewOrder};
use dapple_engine::{Engine, TrainView, ViewId};
use dapple_scene::{Camera, Dataset, Photo, Result, View};
use std::sync::Arc;

/// The engine learns of so many steps beforehand. Packing a photo takes a thread a part of a step; more
/// would only hold memory.
const ANNOUNCED: u32 = 3;

/// What a run trains on.
pub(crate) struct TrainPhotos {
    pub(crate) ids: Vec<ViewId>,
    pub(crate) names: Vec<String>,
    /// As they were given.
    pub(crate) cameras: Vec<(String, Camera)>,
    order: ViewOrder,
    /// The same, some steps ahead.
    announced: ViewOrder,
    /// Where not all photos are in memory.
    loader: Option<PhotoLoader>,
}

impl TrainPhotos {
    /// Hands an engine what a run that has taken `step` steps trains on.
    pub(super) fn hand_over(
        dataset: &Dataset,
        config: &TrainConfig,
        engine: &mut dyn Engine,
        chosen: &Chosen,
        step: u32,
    ) -> Result<Self> {
        let train: Vec<&View> = chosen.train.iter().map(|&i| &dataset.views[i]).collect();
        let order = ViewOrder::new(config.seed, train.len());
        let (ids, loader) = match dataset.photo_memory_bytes {
            Some(budget) => {
                let cameras: Vec<Camera> = train.iter().map(|view| view.camera).collect();
                let photos = train.iter().map(|view| view.photo.clone()).collect();
                let steps = (step + 1, config.last_step());
                let ids = engine.add_cameras(&cameras)?;
                let loader = PhotoLoader::start(photos, &order, budget, steps)?;
                (ids, Some(loader))
            }
            None => (engine.add_views(held(&train)?)?, None),
        };
        let named = |view: &&View| (view.name.clone(), view.camera);
        Ok(Self {
            ids,
            names: train.iter().map(|view| view.name.clone()).collect(),
            cameras: train.iter().map(named).collect(),
            announced: order.clone(),
            order,
            loader,
        })
    }

    /// The view of a step, and its photo where the engine does not hold it.
    pub(super) fn of_step(&mut self, step: u32) -> Result<(ViewId, Option<Arc<Photo>>)> {
        let view = self.ids[self.order.view_at(step)];
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
            let view = self.ids[self.announced.view_at(coming)];
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

    /// The last step may have moved.
    pub(super) fn set_last(&self, last: u32) {
        if let Some(loader) = &self.loader {
            loader.set_last(last);
        }
    }

    /// How photos were read while training, where they do not all fit into memory.
    pub(super) fn traffic(&self) -> Option<PhotoTraffic> {
        self.loader.as_ref().map(PhotoLoader::traffic)
    }
}

/// Views with their photos, read now where they are not in memory.
fn held(views: &[&View]) -> Result<Vec<TrainView>> {
    let views = views.iter();
    views
        .map(|view| {
            Ok(TrainView {
                camera: view.camera,
                photo: view.photo.read()?,
            })
        })
        .collect()
}
