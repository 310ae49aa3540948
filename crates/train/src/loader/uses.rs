//! When each photo is used, and when again: every epoch takes each view once, first steps another photo of it
//! than later ones.

use crate::PhotoOrder;
use std::collections::VecDeque;

/// The order of views of some epochs, both ways.
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
    places: Vec<u32>,
}

impl Uses {
    pub(super) fn new(order: PhotoOrder) -> Self {
        Self {
            views: order.views().max(1),
            order,
            first: 0,
            epochs: VecDeque::new(),
        }
    }

    /// Steps in which each view is used once.
    pub(super) fn epoch_steps(&self) -> u32 {
        self.views as u32
    }

    /// The last step that takes a coarse photo has moved.
    pub(super) fn set_last_coarse(&mut self, step: u32) {
        self.order.set_last_coarse(step);
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
        let views = self.views as u32;
        let step_of = |epoch: u32, place: u32| epoch * views + place + 1;
        let here = self.epoch_place(epoch, view);
        if here as usize >= place {
            return step_of(epoch, here);
        }
        let there = self.epoch_place(epoch + 1, view);
        step_of(epoch + 1, there)
    }

    /// Steps before this one are not asked for again.
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

    fn epoch_place(&mut self, epoch: u32, view: usize) -> u32 {
        self.epoch(epoch).places[view]
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
            let mut places = vec![0; self.views];
            for (place, &view) in views.iter().enumerate() {
                places[view] = place as u32;
            }
            self.epochs.push_back(Epoch { views, places });
        }
        &self.epochs[(epoch - self.first) as usize]
    }
}
