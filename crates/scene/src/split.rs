//! Splits of views into views to train on and held-out views.

use std::collections::BTreeSet;

/// A capture's own split, by the names of its views.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnSplit {
    /// Views to hold out; if empty, views are held out by number.
    pub held_out: BTreeSet<String>,
    /// Views that are neither trained on nor held out.
    pub unused: BTreeSet<String>,
    /// Source of the split, for display.
    pub source: String,
}

impl OwnSplit {
    /// Builds a split that holds out views by number, for all names.
    pub fn by_number() -> Self {
        Self::default()
    }

    /// Returns true if the capture names the views to hold out.
    pub fn is_own(&self) -> bool {
        !self.held_out.is_empty()
    }
}

/// Training and held-out views, as indices into [`Dataset::views`](crate::Dataset::views).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Views to train on.
    pub train: Vec<usize>,
    /// Held-out views, for scores.
    pub eval: Vec<usize>,
}

impl Split {
    /// Holds out every `eval_every`-th of the sorted names (0, n, 2n, ...), as the 3DGS paper does with 8. Zero, or a
    /// capture of a single view, holds out nothing.
    ///
    /// A capture's own split takes precedence, so that scores can be compared with the literature. If all names start
    /// with `train/` or `test/` and there are both (Blender scenes), the views under `test/` are held out for every
    /// number except zero.
    pub fn of_names(names: &[&str], eval_every: usize) -> Self {
        Self::new(names, None, eval_every)
    }

    /// Splits by the capture's own split: its photos are held out for every number except zero. [`OwnSplit::by_number`]
    /// holds out every `eval_every`-th view for all names. Without an own split, see [`Split::of_names`].
    pub fn new(names: &[&str], own: Option<&OwnSplit>, eval_every: usize) -> Self {
        if let Some(own) = own.filter(|own| own.is_own() && eval_every > 0) {
            let among = |list: &BTreeSet<String>, i: usize| list.contains(names[i]);
            let used = (0..names.len()).filter(|&i| !among(&own.unused, i));
            let (eval, train) = used.partition(|&i| among(&own.held_out, i));
            return Self { train, eval };
        }
        let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
        let (train, test) = (count("train/"), count("test/"));
        let own_split = own.is_none() && train > 0 && test > 0 && train + test == names.len();
        let held_out = |i: usize| {
            if eval_every == 0 || names.len() < 2 {
                false
            } else if own_split {
                names[i].starts_with("test/")
            } else {
                i.is_multiple_of(eval_every)
            }
        };
        let (eval, train) = (0..names.len()).partition(|&i| held_out(i));
        Self { train, eval }
    }

    /// Keeps at most `max_train` and `max_eval` views, evenly spread; 0 = all.
    #[must_use]
    pub fn limited(self, max_train: usize, max_eval: usize) -> Self {
        Self {
            train: spread(self.train, max_train),
            eval: spread(self.eval, max_eval),
        }
    }
}

fn spread(indices: Vec<usize>, limit: usize) -> Vec<usize> {
    if limit == 0 || limit >= indices.len() {
        return indices;
    }
    (0..limit)
        .map(|i| indices[i * indices.len() / limit])
        .collect()
}
