//! Photos that joined the capture of a run between two of its parts.

use super::DataConfig;
use dapple_base::settings::{Kind, Setting};
use dapple_scene::{Dataset, OwnSplit, Split};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Photos with which a further part of a run began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joined {
    /// Last step before the part.
    pub after: u32,
    /// Names of the photos that the part before did not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<String>,
    /// Names of the photos that have changed: other pixels, mask, depth or camera.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Names of the photos that are not in the capture any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Names of the other training photos that the part takes, because they see the Gaussians that it trains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
}

/// Steps of a part for each photo that joined.
const STEPS_PER_PHOTO: u32 = 100;

impl Joined {
    /// Returns the default number of steps of a part that `photos` photos have joined after `done` steps: at least 2 % and
    /// at most 3 % of them.
    pub fn default_steps(photos: usize, done: u32) -> u32 {
        let photos = u32::try_from(photos).unwrap_or(u32::MAX);
        let least = (done / 50).max(1);
        let most = (u64::from(done) * 3 / 100) as u32;
        let most = most.max(least);
        photos.saturating_mul(STEPS_PER_PHOTO).clamp(least, most)
    }

    /// Returns true if the capture is that of the part before.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// Returns the photos that the part is trained for.
    pub fn photos(&self) -> impl Iterator<Item = &String> {
        self.new.iter().chain(&self.changed)
    }
}

/// The photos that joined, by part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JoinedPhotos(Vec<Joined>);

impl JoinedPhotos {
    /// Returns these photos with those of a further part.
    #[must_use]
    pub fn with(mut self, part: Joined) -> Self {
        self.0.retain(|known| known.after != part.after);
        if !part.is_empty() {
            self.0.push(part);
        }
        self
    }

    /// Returns the photos of the part after step `after`.
    pub fn of_part(&self, after: u32) -> Option<&Joined> {
        self.0.iter().find(|part| part.after == after)
    }

    /// Returns true if a photo was not in the first capture of the run.
    pub fn has_new(&self, name: &str) -> bool {
        self.0.iter().any(|part| part.new.iter().any(|n| n == name))
    }

    fn removed(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .flat_map(|part| &part.removed)
            .map(String::as_str)
    }
}

impl Setting for JoinedPhotos {
    const KIND: Kind = Kind::List;

    fn from_text(_: &str) -> Result<Self, String> {
        Err("photos that joined are set by --continue".to_owned())
    }
}

impl DataConfig {
    /// Splits the views of a dataset into held-out and training views, as the trainer does.
    pub fn split_views(&self, dataset: &Dataset) -> Split {
        let limits = (self.max_train_views, self.max_eval_views);
        self.split_names(&names_of(dataset), dataset.own_split.as_ref(), limits)
    }

    /// Returns the split of [`Self::split_views`] without its limits on the numbers of views.
    pub fn split_all_views(&self, dataset: &Dataset) -> Split {
        self.split_names(&names_of(dataset), dataset.own_split.as_ref(), (0, 0))
    }

    /// Splits photos by name, within these numbers of training and held-out photos; 0 = all. Photos of the first capture
    /// of the run are held out as they were. Those that joined later are trained on, unless the capture's own split holds
    /// them out, and come last.
    pub(super) fn split_names(
        &self,
        names: &[&str],
        own: Option<&OwnSplit>,
        (most_train, most_eval): (usize, usize),
    ) -> Split {
        let has_joined = |&i: &usize| self.joined.has_new(names[i]);
        let is_named = self.eval_every > 0 && own.is_some_and(OwnSplit::is_own);
        let (joined, first): (Vec<usize>, Vec<usize>) = match is_named {
            true => (Vec::new(), (0..names.len()).collect()),
            false => (0..names.len()).partition(has_joined),
        };
        let all = self.with_removed(names, &first);
        let all_names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let split = Split::new(&all_names, own, self.eval_every).limited(most_train, most_eval);
        let here = |list: Vec<usize>| list.into_iter().filter_map(|i| all[i].1);
        let (later, mut train): (Vec<usize>, Vec<usize>) = here(split.train).partition(has_joined);
        train.extend(later.into_iter().chain(joined));
        Split {
            train,
            eval: here(split.eval).collect(),
        }
    }

    /// Returns photos of the first capture with their indices, sorted by name: without those that were removed, others
    /// would be held out.
    fn with_removed<'a>(
        &'a self,
        names: &[&'a str],
        first: &[usize],
    ) -> Vec<(&'a str, Option<usize>)> {
        let present: BTreeSet<&str> = first.iter().map(|&i| names[i]).collect();
        let gone = self.joined.removed();
        let gone = gone.filter(|name| !present.contains(name) && !self.joined.has_new(name));
        let gone: BTreeSet<&str> = gone.collect();
        let here = first.iter().map(|&i| (names[i], Some(i)));
        let mut all: Vec<(&str, Option<usize>)> = here.collect();
        if !gone.is_empty() {
            all.extend(gone.into_iter().map(|name| (name, None)));
            all.sort_unstable();
        }
        all
    }
}

fn names_of(dataset: &Dataset) -> Vec<&str> {
    let views = dataset.views.iter();
    views.map(|view| view.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(data: &DataConfig, names: &[&str]) -> [Vec<String>; 2] {
        let split = data.split_names(names, None, (0, 0));
        [split.train, split.eval].map(|list| list.iter().map(|&i| names[i].to_owned()).collect())
    }

    #[test]
    fn photos_that_join_or_leave_do_not_move_others_between_training_and_scoring() {
        let mut data = DataConfig {
            eval_every: 3,
            ..DataConfig::default()
        };
        let before = split(&data, &["b", "d", "f", "h"]);
        assert_eq!(before, [vec!["d", "f"], vec!["b", "h"]]);
        let join = |after, new: &[&str], removed: &[&str]| Joined {
            after,
            new: new.iter().map(|&name| name.to_owned()).collect(),
            removed: removed.iter().map(|&name| name.to_owned()).collect(),
            ..Joined::default()
        };
        data.joined = data.joined.with(join(10, &["a", "g"], &[]));
        let more = split(&data, &["a", "b", "d", "f", "g", "h"]);
        assert_eq!(more, [vec!["d", "f", "a", "g"], vec!["b", "h"]]);
        data.joined = data.joined.with(join(20, &[], &["d", "g"]));
        let fewer = split(&data, &["a", "b", "f", "h"]);
        assert_eq!(fewer, [vec!["f", "a"], vec!["b", "h"]]);
    }
}
