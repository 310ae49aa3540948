//! Applies actions to the splats of an [`Editor`].

use super::clusters::{self, most_of};
use super::{
    Action, Amount, Condition, Editor, Order, Similarity, Surroundings, Up, decimate, order, orient,
};
use crate::splat_file::{ReadOptions, SplatMetadata};
use crate::{Camera, Error, Progress, Result, Splats, sky, splat_file};
use std::path::Path;

impl Editor {
    /// Applies an action.
    ///
    /// # Errors
    /// Numbers out of range; a file to merge that cannot be read; what `surroundings` cannot give; a result without
    /// any Gaussian, which is refused: the splats are then as they were.
    pub fn apply(
        &mut self,
        action: &Action,
        surroundings: &mut dyn Surroundings,
        progress: &dyn Progress,
    ) -> Result<()> {
        action.check()?;
        match action {
            Action::Transform(similarity) => self.transform(similarity),
            Action::Orient(up) => self.orient_by_cameras(*up, surroundings)?,
            Action::Crop(region) => {
                self.keep("the crop", |splats, i| region.contains(splats.means[i]))?
            }
            Action::Cut(region) => {
                self.keep("the cut", |splats, i| !region.contains(splats.means[i]))?
            }
            Action::Keep(condition) => self.keep_where(condition, true, surroundings)?,
            Action::Drop(condition) => self.keep_where(condition, false, surroundings)?,
            Action::Remove(ranges) => self.remove_ranges(ranges)?,
            Action::Selected { by, then } => self.with_selected(by, then)?,
            Action::ShowAll => self.hidden.clear(),
            Action::ShDegree(degree) => {
                self.splats = std::mem::take(&mut self.splats).with_sh_degree(*degree);
            }
            Action::Merge(path) => self.merge_file(path)?,
            Action::Order(Order::Morton) => {
                let order = order::morton_order(&self.splats.means);
                self.splats = order::gather(&self.splats, &order);
                self.carry(&order);
            }
            Action::Floaters { cell, share } => {
                self.remove_floaters(*cell, *share, surroundings)?;
            }
            Action::DropSky => self.drop_sky()?,
            Action::Clusters { cell, keep } => self.keep_clusters(*cell, *keep)?,
            Action::Prune { share } => self.prune(*share, surroundings)?,
            Action::Decimate { to, refit } => {
                self.decimate_to(*to, *refit, surroundings, progress)?;
            }
        }
        Ok(())
    }

    /// Moves the splats so that the up direction of the cameras is on an axis and the ground is on its zero.
    fn orient_by_cameras(&mut self, up: Up, surroundings: &mut dyn Surroundings) -> Result<()> {
        let cameras = surroundings.cameras()?;
        let moved: Vec<Camera> = cameras
            .iter()
            .map(|camera| self.moved.camera(camera))
            .collect();
        let similarity = orient::orient(&self.splats, &moved, up)?;
        self.transform(&similarity);
        Ok(())
    }

    /// Keeps the Gaussians for which the value of `condition` is `wanted`.
    fn keep_where(
        &mut self,
        condition: &Condition,
        wanted: bool,
        surroundings: &mut dyn Surroundings,
    ) -> Result<()> {
        let contributions = match condition.needs_contributions() {
            true => surroundings
                .contributions(&self.splats, &self.moved, true)?
                .unwrap_or_default(),
            false => Vec::new(),
        };
        let is_kept = |splats: &Splats, i| condition.holds(splats, &contributions, i) == wanted;
        self.keep(&format!("the condition {condition}"), is_kept)
    }

    /// Removes the Gaussians of these ranges, `[first, count]` each.
    fn remove_ranges(&mut self, ranges: &[[u32; 2]]) -> Result<()> {
        let count = self.splats.len();
        let ends = |[first, count]: &[u32; 2]| (*first as usize, *first as usize + *count as usize);
        if ranges.last().is_some_and(|range| ends(range).1 > count) {
            return Err(Error::input(format!(
                "indices to remove exceed the number of Gaussians: {count}"
            ))
            .hint("the list of [first, count] was made for another file, or for another place in the chain"));
        }
        let mut is_kept = vec![true; count];
        for (from, to) in ranges.iter().map(ends) {
            is_kept[from..to].fill(false);
        }
        self.keep("the removal", |_, i| is_kept[i])
    }

    /// Appends the splats of a file, relative to the local origin of the splats.
    fn merge_file(&mut self, path: &Path) -> Result<()> {
        let options = ReadOptions {
            non_finite: self.non_finite,
            ..ReadOptions::default()
        };
        let (mut more, metadata) = splat_file::read_with(path, &options)?;
        self.note_merged(path, &metadata);
        more.count_from(self.frame.origin - metadata.origin);
        order::append(&mut self.splats, more);
        for marks in [&mut self.hidden, &mut self.shifted] {
            if !marks.is_empty() {
                marks.resize(self.splats.len(), false);
            }
        }
        Ok(())
    }

    fn drop_sky(&mut self) -> Result<()> {
        match sky::of_splats(&self.splats) {
            Some(is_sky) => self.keep("the removal of the sky", |_, i| !is_sky[i]),
            None => {
                let note = "there are no Gaussians of a sky: none were removed";
                self.notes.push(note.to_owned());
                Ok(())
            }
        }
    }

    /// Keeps the `keep` clusters with most opacity, of cubes with the side `cell`.
    fn keep_clusters(&mut self, cell: Option<f64>, keep: u32) -> Result<()> {
        let splats = &self.splats;
        let cell = cell.unwrap_or_else(|| clusters::default_cell(splats));
        let found = clusters::clusters(splats, cell)?;
        self.keep("the choice of clusters", |_, i| {
            found.of[i].is_some_and(|of| of < keep)
        })
    }

    /// Removes the Gaussians with the least contributions, which together have `share` percent of all.
    fn prune(&mut self, share: f64, surroundings: &mut dyn Surroundings) -> Result<()> {
        let contributions = surroundings
            .contributions(&self.splats, &self.moved, true)?
            .unwrap_or_default();
        let is_kept = most_of(&contributions, share);
        self.keep("the pruning", |_, i| {
            is_kept.get(i).copied().unwrap_or(false)
        })
    }

    /// Merges neighbours until `to` Gaussians are left, and fits these in `refit` steps.
    fn decimate_to(
        &mut self,
        to: Amount,
        refit: u32,
        surroundings: &mut dyn Surroundings,
        progress: &dyn Progress,
    ) -> Result<()> {
        let splats = &self.splats;
        let contributions = surroundings.contributions(splats, &self.moved, refit > 0)?;
        let few = decimate::decimate(
            splats,
            to.of(splats.len()),
            contributions.as_deref(),
            progress,
        )?;
        let is_same = few.len() == splats.len();
        self.splats = match refit {
            0 => few,
            _ if is_same => few,
            steps => surroundings.refit(splats, few, &self.moved, steps)?,
        };
        if !is_same {
            self.forget();
        }
        Ok(())
    }

    /// Removes what the photos contradict, and then the clusters with the least weight that together have `share`
    /// percent of all: of the blend weights where cameras are known, else of opacities times areas.
    fn remove_floaters(
        &mut self,
        cell: Option<f64>,
        share: f64,
        surroundings: &mut dyn Surroundings,
    ) -> Result<()> {
        let what = "the removal of floaters";
        if let Some(are) = surroundings.floaters(&self.splats, &self.moved)? {
            self.keep(what, |_, i| !are[i])?;
        }
        let splats = &self.splats;
        let weights = surroundings
            .contributions(splats, &self.moved, false)?
            .unwrap_or_else(|| (0..splats.len()).map(|i| splats.coverage(i)).collect());
        let cell = cell.unwrap_or_else(|| clusters::default_cell(splats));
        let is_kept = clusters::most_of_clusters(splats, cell, &weights, share)?;
        self.keep(what, |_, i| is_kept[i])
    }

    /// Notes what a merged file records that the result does not.
    fn note_merged(&mut self, path: &Path, metadata: &SplatMetadata) {
        let named = |note: &String| format!("{}: {note}", path.display());
        self.notes.extend(metadata.notes.iter().map(named));
        let moved = self.frame.moved.then(&self.moved);
        if metadata.moved != Similarity::IDENTITY && metadata.moved != moved {
            self.notes.push(format!(
                "{}: its splats were moved since training, and not as the splats that they are added to. They are added \
                 where the file has them; the result records the motion of the others, and cameras of a capture follow \
                 that motion",
                path.display()
            ));
        }
    }
}
