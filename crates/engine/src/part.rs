//! [`Part`]: Gaussians of a model that one of several engines holds.

use std::ops::Range;

/// Blocks of a model at its upload, and most engines.
pub const FIRST_BLOCKS: usize = 128;

/// Most blocks of a model: rounds of relocation add blocks, so that no other Gaussian moves to another engine.
pub const BLOCKS: usize = 8 * FIRST_BLOCKS;

/// Gaussians of a model that one of several engines holds.
///
/// The model is cut into equal blocks of consecutive indices, at most [`FIRST_BLOCKS`] at first. Block b belongs to engine b mod
/// `engines`: neighbours in space have near indices, so that each engine has a share of what any view shows. Within an
/// engine, Gaussians keep the order of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the engine, from 0.
    pub number: usize,
    /// Engines, at least 1 and at most [`FIRST_BLOCKS`].
    pub engines: usize,
    /// Number of Gaussians of the model.
    pub total: usize,
    /// Gaussians of a block, at least 1; the last block may have fewer.
    pub block: usize,
}

impl Default for Part {
    fn default() -> Self {
        Self::whole(0)
    }
}

impl Part {
    /// Returns the part of an engine, of `engines` that share a model of `total` Gaussians.
    pub fn new(number: usize, engines: usize, total: usize) -> Self {
        Self {
            number,
            engines,
            total,
            block: total.div_ceil(FIRST_BLOCKS).max(1),
        }
    }

    /// Returns the part after Gaussians were added to the model: all others keep their engine and their index there. `None`
    /// if that makes more than [`BLOCKS`] blocks.
    pub fn grown(self, total: usize) -> Option<Self> {
        let fits = total.div_ceil(self.block) <= BLOCKS;
        fits.then_some(Self { total, ..self })
    }

    /// Returns the part of another engine of the same model.
    pub fn of(self, number: usize) -> Self {
        Self { number, ..self }
    }

    /// Returns the part of an engine that holds a whole model.
    pub fn whole(total: usize) -> Self {
        Self::new(0, 1, total)
    }

    /// Returns the index in the model of a Gaussian of this part. Random numbers depend on it.
    pub fn index(self, local: usize) -> usize {
        if self.engines == 1 {
            // Without the divisions: engines ask for each Gaussian of a step.
            return local;
        }
        let block = self.block;
        (local / block * self.engines + self.number) * block + local % block
    }

    /// Returns the engine that holds a Gaussian of the model, and its index there.
    pub fn place(self, index: usize) -> (usize, usize) {
        let block = self.block;
        let number = index / block;
        let local = number / self.engines * block + index % block;
        (number % self.engines, local)
    }

    /// Returns the ranges of the model's Gaussians that this part consists of, in order.
    pub fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        let block = self.block;
        let firsts = (self.number * block..self.total).step_by(self.engines * block);
        firsts.map(move |first| first..self.total.min(first + block))
    }

    /// Copies numbers of the Gaussians of this part, `width` of each, to their places among those of the model.
    pub fn put<T: Copy>(self, own: &[T], width: usize, model: &mut [T]) {
        let mut first = 0;
        for range in self.ranges() {
            let from = own.get(first..first + range.len() * width);
            let to = model.get_mut(range.start * width..range.end * width);
            if let (Some(from), Some(to)) = (from, to) {
                to.copy_from_slice(from);
            }
            first += range.len() * width;
        }
    }

    /// Returns the number of Gaussians of this part.
    pub fn len(self) -> usize {
        self.ranges().map(|range| range.len()).sum()
    }

    /// Returns true if this part has no Gaussians.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_gaussian_has_one_place() {
        for (engines, first, total) in [
            (1, 0, 0),
            (1, 9, 9),
            (3, 2, 2),
            (5, 7, 7),
            (4, 1000, 1000),
            (128, 300, 300),
            (7, 513, 513),
            (2, 0, 900),
            (3, 1000, 1001),
            (5, 700, 5000),
        ] {
            let mut found = vec![0; total];
            for number in 0..engines {
                let before = Part::new(number, engines, first);
                let part = before.grown(total).unwrap();
                assert!(before.len() <= part.len());
                let kept = before.ranges().flatten().zip(part.ranges().flatten());
                assert!(kept.into_iter().all(|(before, after)| before == after));
                let indices: Vec<usize> = part.ranges().flatten().collect();
                assert_eq!(indices.len(), part.len());
                assert!(indices.is_sorted());
                let mut model = vec![usize::MAX; 2 * total];
                let own: Vec<usize> = indices.iter().flat_map(|i| [2 * i, 2 * i + 1]).collect();
                part.put(&own, 2, &mut model);
                assert!(indices.iter().all(|&i| model[2 * i + 1] == 2 * i + 1));
                for (local, index) in indices.into_iter().enumerate() {
                    assert_eq!(part.index(local), index);
                    assert_eq!(part.place(index), (number, local));
                    found[index] += 1;
                }
            }
            assert!(found.iter().all(|&times| times == 1));
        }
        assert_eq!(Part::new(0, 2, 128).grown(BLOCKS + 1), None);
    }
}
