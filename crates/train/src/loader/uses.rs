//! Steps at which each photo is used. Every epoch takes each view once, except that withheld views are replaced by
//! others. The first steps take another photo of a view than later steps.

use crate::PhotoOrder;
use std::collections::VecDeque;

/// Order of views of some epochs, in both directions.
#[derive(Debug)]
pub(super) struct Uses {
    order: PhotoOrder,
    views: usize,
    /// The first of `epochs`.
    first: u32,
    epochs: VecDeque<Epoch>,
}

#[derive(Debug)]
struct Epoch {
    views: Vec<usize>,
    /// First position of each view, or `NEVER`.
    places: Vec<u32>,
    /// True if some views occur more than once, and others never.
    is_uneven: bool,
}

/// Marks a view without a position in the epoch.
const NEVER: u32 = u32::MAX;

impl Uses {
    pub(super) fn new(order: PhotoOrder) -> Self {
        Self {
            views: order.views().max(1),
            order,
            first: 0,
            epochs: VecDeque::new(),
        }
    }

    /// Number of steps in which each view is used once.
    pub(super) fn epoch_steps(&self) -> u32 {
        self.views as u32
    }

    /// Updates the order of the steps to come.
    pub(super) fn follow(&mut self, order: PhotoOrder) {
        self.order = order;
        self.epochs.clear();
    }

    /// The photo of a step, from 1.
    pub(super) fn photo_at(&mut self, step: u32) -> usize {
        let (epoch, place) = self.place(step);
        let view = self.epoch(epoch).views[place];
        self.order.photo_of(view, step)
    }

    /// The first step from `from` on that takes `photo`; `u32::MAX` if none does.
    pub(super) fn next_use(&mut self, photo: usize, from: u32) -> u32 {
        let last_coarse = self.order.last_coarse();
        match photo.checked_sub(self.views) {
            Some(view) => match self.next_use_of_view(view, from) {
                step if step <= last_coarse => step,
                _ => u32::MAX,
            },
            None => self.next_use_of_view(photo, from.max(last_coarse.saturating_add(1))),
        }
    }

    fn next_use_of_view(&mut self, view: usize, from: u32) -> u32 {
        let (epoch, place) = self.place(from);
        for (epoch, place) in [(epoch, place), (epoch + 1, 0)] {
            if let Some(at) = self.epoch(epoch).place_of(view, place) {
                return epoch * self.views as u32 + at + 1;
            }
        }
        // The view is withheld: every photo in use has an earlier use.
        u32::MAX
    }

    /// Drops the steps before this one, which are not requested again.
    pub(super) fn forget_before(&mut self, step: u32) {
        let (epoch, _) = self.place(step);
        while self.first < epoch && self.epochs.pop_front().is_some() {
            self.first += 1;
        }
        if self.epochs.is_empty() {
            self.first = epoch;
        }
    }

    fn place(&self, step: u32) -> (u32, usize) {
        let index = step.saturating_sub(1) as usize;
        ((index / self.views) as u32, index % self.views)
    }

    fn epoch(&mut self, epoch: u32) -> &Epoch {
        if epoch < self.first {
            self.epochs.clear();
            self.first = epoch;
        }
        if self.epochs.is_empty() {
            self.first = epoch;
        }
        while self.first + (self.epochs.len() as u32) <= epoch {
            let number = self.first + self.epochs.len() as u32;
            let begin = number * self.views as u32 + 1;
            let views: Vec<usize> = (0..self.views as u32)
                .map(|i| self.order.view_at(begin + i))
                .collect();
            self.epochs.push_back(Epoch::new(views));
        }
        &self.epochs[(epoch - self.first) as usize]
    }
}

impl Epoch {
    fn new(views: Vec<usize>) -> Self {
        let mut places = vec![NEVER; views.len()];
        for (place, &view) in views.iter().enumerate().rev() {
            places[view] = place as u32;
        }
        Self {
            is_uneven: places.contains(&NEVER),
            views,
            places,
        }
    }

    /// Returns the first position from `from` on with `view`.
    fn place_of(&self, view: usize, from: usize) -> Option<u32> {
        let first = self.places[view];
        if first == NEVER || first as usize >= from {
            return (first != NEVER).then_some(first);
        }
        let later = self
            .is_uneven
            .then(|| self.views[from..].iter().position(|&v| v == view));
        later.flatten().map(|i| (from + i) as u32)
    }
}
