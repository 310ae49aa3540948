//! Splats during a chain of actions.

use super::{Similarity, order};
use crate::origin::Frame;
use crate::splat_file::NonFinite;
use crate::{Error, Result, Splats};

/// Splats during a chain of actions.
#[derive(Debug, Clone)]
pub struct Editor {
    pub(super) splats: Splats,
    pub(super) moved: Similarity,
    /// Which are hidden, `[N]`; empty: none.
    pub(super) hidden: Vec<bool>,
    /// Which the last transformation of a selection has moved, `[N]`; empty: there was none.
    pub(super) shifted: Vec<bool>,
    /// Treatment of non-finite numbers in files that are merged.
    pub(super) non_finite: NonFinite,
    /// Place of the splats at the beginning; merged files may have another.
    pub(super) frame: Frame,
    /// Notes on merged files.
    pub(super) notes: Vec<String>,
}

impl Editor {
    /// Begins with these.
    pub fn new(splats: Splats) -> Self {
        Self {
            splats,
            moved: Similarity::IDENTITY,
            hidden: Vec::new(),
            shifted: Vec::new(),
            non_finite: NonFinite::Refuse,
            frame: Frame::default(),
            notes: Vec::new(),
        }
    }

    /// Sets the local origin and the motion of the splats ([`crate::splat_file::SplatMetadata::frame`]). Merged files
    /// are moved to that origin.
    #[must_use]
    pub fn in_frame(mut self, frame: Frame) -> Self {
        self.frame = frame;
        self
    }

    /// Returns the notes on files that were merged since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Sets the treatment of non-finite numbers in files that are merged from now on. Before each
    /// action, [`of_chain`](NonFinite::of_chain) of the later actions.
    pub fn set_non_finite(&mut self, non_finite: NonFinite) {
        self.non_finite = non_finite;
    }

    /// As they are now.
    pub fn splats(&self) -> &Splats {
        &self.splats
    }

    /// Returns the transform since the beginning.
    pub fn moved(&self) -> &Similarity {
        &self.moved
    }

    /// Returns the edited splats and ends the editor.
    pub fn into_splats(self) -> Splats {
        self.splats
    }

    pub(super) fn transform(&mut self, similarity: &Similarity) {
        similarity.apply(&mut self.splats);
        self.moved = self.moved.then(similarity);
    }

    pub(super) fn keep(
        &mut self,
        what: &str,
        is_kept: impl Fn(&Splats, usize) -> bool,
    ) -> Result<()> {
        let kept: Vec<usize> = (0..self.splats.len())
            .filter(|&i| is_kept(&self.splats, i))
            .collect();
        if kept.is_empty() {
            return Err(Error::input(format!("{what} leaves no Gaussian of {}", self.splats.len()))
                .hint("`dapple info FILE` says where the splats are and how large; positions are world units, opacities 0 to 1"));
        }
        if kept.len() < self.splats.len() {
            self.splats = order::gather(&self.splats, &kept);
            self.carry(&kept);
        }
        Ok(())
    }
}
