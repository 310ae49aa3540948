//! Renders of chosen tiles: see `shaders/shared/tiles.wgsl`.

use super::GpuEngine;
use crate::passes::Bits;
use crate::stages::project::TILES_BEFORE;
use dapple_engine::{PosedCamera, TileMask, Tiling};
use dapple_scene::Result;

impl Tiling for GpuEngine {
    fn choose_tiles(&mut self, tiles: Option<TileMask>) {
        self.tiles = tiles;
    }
}

impl GpuEngine {
    /// Checks the choice of tiles, and returns the bits of a render with it.
    pub(super) fn tile_bits(&self, camera: &PosedCamera) -> Result<Bits> {
        if let Some(tiles) = &self.tiles {
            tiles.check(camera)?;
        }
        Ok(Bits::when(self.tiles.is_some(), Bits::CHOSEN_TILES))
    }

    /// Writes the choice of tiles for the renders that are submitted next.
    pub(super) fn write_tiles(&self) -> Result<()> {
        if let Some(tiles) = &self.tiles {
            let buffer = self.buffers.get(TILES_BEFORE)?;
            self.context.gpu.write(buffer, 0, tiles.before());
        }
        Ok(())
    }
}
