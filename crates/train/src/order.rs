//! Photo of each step. Every epoch takes each training view once, in a permutation keyed by (seed, epoch). Views that
//! are withheld by an extension check are replaced, and taken more often later ([`mod@crate::extension`]). The first
//! steps take half-size photos. In a part of a run that photos have joined, they are half of each epoch, and the photos
//! beside them the other half.

use crate::extension::{Allowed, WithheldPhotos, is_withheld};
use crate::random::{Purpose, below, generator, shuffle};

/// Training view of each step. Steps may be queried in any order; neighbouring steps are cheap.
#[derive(Debug, Clone)]
pub struct ViewOrder {
    seed: u64,
    views: usize,
    epoch: Option<u64>,
    permutation: Vec<usize>,
    withheld: WithheldPhotos,
    part: Option<PartViews>,
}

/// Views of the steps of a part that photos have joined.
#[derive(Debug, Clone)]
pub(crate) struct PartViews {
    /// Last step before the part.
    pub(crate) after: u32,
    /// Views of an epoch, some several times.
    pub(crate) views: Vec<usize>,
}

impl PartViews {
    /// Returns the views of a part: `joined` are repeated to be half of an epoch. `None` if there is none.
    pub(crate) fn new(after: u32, joined: &[usize], beside: &[usize]) -> Option<Self> {
        let times = (beside.len() / joined.len().max(1)).max(1);
        let views: Vec<usize> = joined
            .repeat(times)
            .into_iter()
            .chain(beside.iter().copied())
            .collect();
        (!views.is_empty()).then_some(Self { after, views })
    }
}

impl ViewOrder {
    /// An order of `views` training views.
    pub fn new(seed: u64, views: usize) -> Self {
        Self {
            seed,
            views,
            epoch: None,
            permutation: Vec::new(),
            withheld: WithheldPhotos::default(),
            part: None,
        }
    }

    /// Returns this order with other views in the steps of a part.
    #[must_use]
    pub(crate) fn with_part(mut self, part: Option<PartViews>) -> Self {
        self.part = part;
        self
    }

    /// Returns this order with views that are withheld at times.
    #[must_use]
    pub(crate) fn without(mut self, withheld: WithheldPhotos) -> Self {
        self.withheld = withheld;
        self
    }

    /// Index of the view that step `step` (from 1) trains on; 0 when there is no view.
    pub fn view_at(&mut self, step: u32) -> usize {
        if self.views == 0 {
            return 0;
        }
        let part = self.part.as_ref().filter(|part| step > part.after);
        let (before, views) = part.map_or((0, self.views), |part| (part.after, part.views.len()));
        let index = step.saturating_sub(1 + before) as usize;
        // Epochs of a part have numbers of their own.
        let epoch = u64::from(before) << 32 | (index / views) as u64;
        if self.epoch != Some(epoch) {
            let mut random = generator(self.seed, Purpose::Views, epoch);
            self.permutation = match part {
                Some(part) => part.views.clone(),
                None => (0..self.views).collect(),
            };
            shuffle(&mut self.permutation, &mut random);
            self.epoch = Some(epoch);
        }
        let view = self.permutation[index % views];
        match self.withheld.allows(step) {
            Allowed::Others if is_withheld(view) => self.another(step, false),
            Allowed::Withheld if !is_withheld(view) => self.another(step, true),
            _ => view,
        }
    }

    /// Returns one of the withheld views if `withheld`, otherwise one of the others, drawn for this step.
    fn another(&self, step: u32, withheld: bool) -> usize {
        let mut random = generator(self.seed, Purpose::Withheld, step.into());
        // Whenever views are withheld, there are views of both kinds.
        loop {
            let view = below(self.views, &mut random);
            if is_withheld(view) == withheld {
                return view;
            }
        }
    }
}

/// Photo of each step. In a run of `n` views, `0..n` are their photos, and `n..2 n` the half-size photos that the first
/// steps take ([`crate::config::DataConfig::coarse_until`]).
#[derive(Debug, Clone)]
pub(crate) struct PhotoOrder {
    views: ViewOrder,
    last_coarse: u32,
}

impl PhotoOrder {
    /// An order of steps; the steps up to `last_coarse` take coarse photos.
    pub(crate) fn new(views: ViewOrder, last_coarse: u32) -> Self {
        Self { views, last_coarse }
    }

    /// Returns the steps at which photos are withheld.
    pub(crate) fn withheld(&self) -> &WithheldPhotos {
        &self.views.withheld
    }

    /// Sets the steps at which photos are withheld, from the current step on.
    pub(crate) fn set_withheld(&mut self, withheld: WithheldPhotos) {
        self.views.withheld = withheld;
    }

    /// The number of views.
    pub(crate) fn views(&self) -> usize {
        self.views.views
    }

    /// The last step that takes a coarse photo.
    pub(crate) fn last_coarse(&self) -> u32 {
        self.last_coarse
    }

    /// Moves the last step that takes a coarse photo.
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
