//! Signed distances of a block and of the voxels around it.

use crate::volume::{Blocks, Key, SIDE, VOXELS, Volume};
use glam::IVec3;

/// Voxels of the border below a block.
const BELOW: usize = 2;

/// Voxels of the border above a block.
const ABOVE: usize = 3;

/// Voxels along a side of a block with its border.
const WIDE: usize = SIDE as usize + BELOW + ABOVE;

/// Signed distances of a block and its border; NaN for an unobserved voxel.
pub struct Window {
    values: Vec<f32>,
}

/// Returns the place of a corner in its cell.
pub fn corner(c: usize) -> IVec3 {
    IVec3::new(c as i32 & 1, c as i32 >> 1 & 1, c as i32 >> 2)
}

impl Window {
    /// Gathers a block and its border; `None` if all observed values have the same sign.
    pub fn around(volume: &Volume, blocks: &Blocks, key: Key, least_weight: f32) -> Option<Self> {
        let side = SIDE as usize;
        let mut values = vec![f32::NAN; WIDE * WIDE * WIDE];
        let (mut any_inside, mut any_outside) = (false, false);
        let range = |d: i32| match d {
            -1 => (side - BELOW..side, 0),
            0 => (0..side, BELOW),
            _ => (0..ABOVE, side + BELOW),
        };
        for (i, block) in (0..).zip(blocks.around(key)) {
            let (dx, dy, dz) = (i % 3 - 1, i / 3 % 3 - 1, i / 9 - 1);
            let Some(block) = block else {
                continue;
            };
            let ((xs, x0), (ys, y0), (zs, z0)) = (range(dx), range(dy), range(dz));
            for (z, wz) in zs.zip(z0..) {
                for (y, wy) in ys.clone().zip(y0..) {
                    for (x, wx) in xs.clone().zip(x0..) {
                        let i = block * VOXELS + x + side * (y + side * z);
                        if volume.weight[i] < least_weight {
                            continue;
                        }
                        let value = volume.distance[i];
                        any_inside |= value < 0.0;
                        any_outside |= value >= 0.0;
                        values[wx + WIDE * (wy + WIDE * wz)] = value;
                    }
                }
            }
        }
        (any_inside && any_outside).then_some(Self { values })
    }

    /// Returns the value of a voxel; the voxel zero is the first of the block.
    pub fn value(&self, voxel: IVec3) -> f32 {
        let [x, y, z] = (voxel + BELOW as i32).to_array().map(|v| v as usize);
        self.values[x + WIDE * (y + WIDE * z)]
    }

    /// Returns the values at the corners of a cell; the cell -1 is in the border.
    pub fn corners(&self, cell: IVec3) -> [f32; 8] {
        std::array::from_fn(|c| self.value(cell + corner(c)))
    }

    /// Returns the case of a cell; `None` if a voxel of it is not observed.
    pub fn case(&self, cell: IVec3) -> Option<u8> {
        let mut case = 0;
        for (c, value) in self.corners(cell).into_iter().enumerate() {
            if value.is_nan() {
                return None;
            }
            case |= u8::from(value < 0.0) << c;
        }
        Some(case)
    }
}
