//! Which photo each step takes: every epoch each training view once, in a permutation keyed by (seed, epoch); some
//! are set aside for a while, and make up for it ([`mod@crate::outlook`]); the first steps take halves of their photos.

use crate::outlook::{Allowed, Aside, is_aside};
use crate::random::{Purpose, below, generator, shuffle};

/// Which training view each step takes. Steps may be asked for in any order; neighbours are cheap.
#[derive(Debug, Clone)]
pub struct ViewOrder {
    seed: u64,
    views: usize,
    epoch: Option<u64>,
    permutation: Vec<usize>,
    aside: Aside,
}

impl ViewOrder {
    /// For `views` training views.
    pub fn new(seed: u64, views: usize) -> Self {
        Self {
            seed,
            views,
            epoch: None,
            permutation: Vec::new(),
            aside: Aside::default(),
        }
    }

    /// The same, with photos that are set aside for a while.
    #[must_use]
    pub(crate) fn without(mut self, aside: Aside) -> Self {
        self.aside = aside;
        self
    }

    /// Index of the view that step `step` (from 1) trains on; 0 when there is no view.
    pub fn view_at(&mut self, step: u32) -> usize {
        if self.views == 0 {
            return 0;
        }
        let index = step.saturating_sub(1) as usize;
        let epoch = (index / self.views) as u64;
        if self.epoch != Some(epoch) {
            let mut random = generator(self.seed, Purpose::Views, epoch);
            self.permutation = (0..self.views).collect();
            shuffle(&mut self.permutation, &mut random);
            self.epoch = Some(epoch);
        }
        let view = self.permutation[index % self.views];
        match self.aside.allows(step) {
            Allowed::Others if is_aside(view) => self.another(step, false),
            Allowed::Aside if !is_aside(view) => self.another(step, true),
            _ => view,
        }
    }

    /// One of those that are set aside, or none of them, drawn for this step.
    fn another(&self, step: u32, aside: bool) -> usize {
        let mut random = generator(self.seed, Purpose::Aside, step.into());
        // There are some of both wherever photos are set aside.
        loop {
            let view = below(self.views, &mut random);
            if is_aside(view) == aside {
                return view;
            }
        }
    }
}

/// Which photo each step takes: of a run of `n` views `0..n` are their photos, and `n..2 n` what the first
/// steps take of them ([`crate::config::DataConfig::coarse_until`]).
#[derive(Debug, Clone)]
pub(crate) struct PhotoOrder {
    views: ViewOrder,
    last_coarse: u32,
}

impl PhotoOrder {
    /// For steps in this order, the first of which, up to `last_coarse`, take coarse photos.
    pub(crate) fn new(views: ViewOrder, last_coarse: u32) -> Self {
        Self { views, last_coarse }
    }

    /// When photos are set aside.
    pub(crate) fn aside(&self) -> &Aside {
        &self.views.aside
    }

    /// Other photos are set aside from here on.
    pub(crate) fn set_aside(&mut self, aside: Aside) {
        self.views.aside = aside;
    }

    /// The number of views.
    pub(crate) fn views(&self) -> usize {
        self.views.views
    }

    /// The last step that takes a coarse photo.
    pub(crate) fn last_coarse(&self) -> u32 {
        self.last_coarse
    }

    /// That step has moved.
    pub(crate) fn set_last_coarse(&mut self, step: u32) {
        self.last_coarse = step;
    }

    /// The view of a step, from 1.
    pub(crate) fn view_at(&mut self, step: u32) -> usize {
        self.views.view_at(step)
    }

    /// The photo of a step.
    pub(crate) fn photo_at(&mut self, step: u32) -> usize {
        let view = self.view_at(step);
        self.photo_of(view, step)
    }

    /// The photo of a step that takes this view.
    pub(crate) fn photo_of(&self, view: usize, step: u32) -> usize {
        match step <= self.last_coarse {
            true => self.views() + view,
            false => view,
        }
    }
}
