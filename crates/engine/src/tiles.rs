//! Renders of chosen tiles: [`TileMask`].
//!
//! An engine renders and differentiates only the chosen tiles. A pixel of another tile has the colour of the background,
//! alpha 0, depth 0 and no Gaussians, and its derivative has no effect. Pixels of chosen tiles have the same bits as in
//! a render of the whole image.
//!
//! [`EngineExt::with_tiles`](crate::EngineExt::with_tiles) chooses tiles for the calls of a closure.

use crate::PosedCamera;
use dapple_scene::{Error, Result};
use std::sync::Arc;

/// Choice of tiles of [`TILE_SIZE`](crate::constants::TILE_SIZE) pixels a side. A clone shares the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileMask {
    size: [u32; 2],
    /// Number of chosen tiles before each tile, row by row, and their total.
    before: Arc<[u32]>,
}

impl TileMask {
    /// Creates a mask from a value for each tile, row by row; true = chosen. `size` is the number of tiles across and
    /// down: that of pixels divided by 16, rounded up.
    ///
    /// # Errors
    /// Another number of values than of tiles.
    pub fn new(size: [u32; 2], chosen: &[bool]) -> Result<Self> {
        if chosen.len() as u64 != size.map(u64::from).iter().product::<u64>() {
            let [across, down] = size;
            let values = chosen.len();
            return Err(Error::input(format!(
                "a mask of {across} x {down} tiles has {values} values"
            ))
            .at("TileMask")
            .hint("give one value for each tile, row by row"));
        }
        let counts = chosen.iter().scan(0, |sum, &chosen| {
            *sum += u32::from(chosen);
            Some(*sum)
        });
        Ok(Self {
            size,
            before: std::iter::once(0).chain(counts).collect(),
        })
    }

    /// Checks that the mask has the tiles of an image.
    ///
    /// # Errors
    /// Another number of tiles across or down.
    pub fn check(&self, camera: &PosedCamera) -> Result<()> {
        if self.size == camera.tiles {
            return Ok(());
        }
        let ([across, down], [wanted_across, wanted_down]) = (self.size, camera.tiles);
        let [width, height] = camera.size;
        Err(Error::input(format!(
            "the mask has {across} x {down} tiles, and the image of {width} x {height} pixels has {wanted_across} x \
             {wanted_down}"
        ))
        .at("TileMask")
        .hint("give one value for each tile of 16 x 16 pixels"))
    }

    /// Returns true if the tile with this number is chosen.
    #[inline]
    pub fn is_chosen(&self, tile: u32) -> bool {
        self.count(tile, tile) > 0
    }

    /// Returns the number of chosen tiles among `first..=last`.
    #[inline]
    pub fn count(&self, first: u32, last: u32) -> u32 {
        self.before[last as usize + 1] - self.before[first as usize]
    }

    /// Returns the number of chosen tiles before each tile, row by row, and their total, `[tiles + 1]`.
    pub fn before(&self) -> &[u32] {
        &self.before
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn counts_are_those_of_chosen_tiles() {
        let mask = TileMask::new([3, 2], &[true, false, true, false, true, true]).unwrap();
        assert_eq!(mask.before(), [0, 1, 1, 2, 2, 3, 4]);
        let chosen: Vec<u32> = (0..6).filter(|&tile| mask.is_chosen(tile)).collect();
        assert_eq!(chosen, [0, 2, 4, 5]);
        assert_eq!(
            (mask.count(0, 2), mask.count(1, 1), mask.count(3, 5)),
            (2, 0, 2)
        );
    }

    #[test]
    fn a_mask_has_a_value_for_each_tile() {
        for values in [0, 5, 7] {
            let error = TileMask::new([3, 2], &vec![true; values]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("{values} values")), "{text}");
        }
    }
}
