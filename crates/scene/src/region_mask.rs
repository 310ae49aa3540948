//! Masks of a region: the pixels of a photo whose rays meet a region of the scene.
//!
//! Pixels outside can keep a share of their weight: square blocks of [`BLOCK`] pixels are drawn, and their pixels remain
//! in the mask. Every photo draws other blocks, so that the photos together show all of the scene. Engines then need no
//! weights of pixels, and the SSIM windows of a block have neighbours.

use crate::{Camera, Photo, Rays};
use dapple_splats::edit::Region;
use glam::{DMat3, DVec2};

/// Edge of the blocks that are drawn outside of a region, pixels: the tile of engines.
pub const BLOCK: u32 = 16;

/// Value of a mask at pixels that are used.
const SHOWN: u8 = 255;

/// Pixels of a photo that a region of interest uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegionMask {
    camera: Camera,
    region: Region,
    outside: f64,
    key: u64,
}

impl RegionMask {
    /// A mask of all pixels of this camera whose rays meet the region.
    pub fn new(camera: &Camera, region: Region) -> Self {
        Self {
            camera: *camera,
            region,
            outside: 0.0,
            key: 0,
        }
    }

    /// Adds this share of the blocks outside, 0 to 1, drawn by a key of the photo.
    #[must_use]
    pub fn with_outside(self, outside: f64, key: u64) -> Self {
        Self {
            outside,
            key,
            ..self
        }
    }

    /// Returns for each pixel, row by row, true if its ray meets the region.
    pub fn inside(&self) -> Vec<bool> {
        let (width, height) = (self.camera.width, self.camera.height);
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let meets = self.rays();
        pixels.map(|(x, y)| meets(x, y)).collect()
    }

    /// Returns true if a ray of a grid of at most 64x64 pixels meets the region.
    pub fn sees_region(&self) -> bool {
        let meets = self.rays();
        let places = |edge: u32| (0..edge).step_by(edge.div_ceil(64).max(1) as usize);
        places(self.camera.height).any(|y| places(self.camera.width).any(|x| meets(x, y)))
    }

    /// Returns a function that is true for pixels whose rays meet the region.
    fn rays(&self) -> impl Fn(u32, u32) -> bool + use<> {
        let rays = Rays::new(&self.camera);
        let pose = self.camera.camera_from_world;
        let turn: DMat3 = pose.rotation_matrix().transpose();
        let meets = self.region.rays_from(pose.centre());
        move |x, y| {
            let ray = rays.ray(DVec2::new(f64::from(x), f64::from(y)) + 0.5);
            ray.is_some_and(|ray| meets(turn * ray))
        }
    }

    /// Returns true if the block of a pixel outside is drawn.
    fn is_drawn(&self, x: u32, y: u32) -> bool {
        let block = u64::from(y / BLOCK) << 32 | u64::from(x / BLOCK);
        let share = (scrambled(self.key ^ scrambled(block)) >> 11) as f64 / (1u64 << 53) as f64;
        share < self.outside
    }

    /// Returns the photo with a mask of the pixels that its mask and this mask use.
    #[must_use]
    pub fn apply(&self, photo: &Photo) -> Photo {
        let meets = self.rays();
        let is_used = |x: u32, y: u32| self.is_drawn(x, y) || meets(x, y);
        let pixels = (0..photo.height).flat_map(|y| (0..photo.width).map(move |x| (x, y)));
        let own = photo.mask.as_ref();
        let mask = pixels.enumerate().map(|(i, (x, y))| {
            match own.is_none_or(|own| own[i] > 0) && is_used(x, y) {
                true => own.map_or(SHOWN, |own| own[i]),
                false => 0,
            }
        });
        Photo {
            mask: Some(mask.collect()),
            ..photo.clone()
        }
    }
}

/// SplitMix64 (Steele et al. 2014).
fn scrambled(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Pose;

    fn mask(photo: &Photo, outside: f64, key: u64) -> Vec<u8> {
        let camera = Camera::pinhole(photo.width, photo.height, 64.0, Pose::IDENTITY);
        let region = "sphere:0,0,4,1".parse().unwrap();
        let mask = RegionMask::new(&camera, region).with_outside(outside, key);
        assert!(mask.sees_region());
        mask.apply(photo).mask.unwrap()
    }

    #[test]
    fn rays_through_the_region_are_used() {
        let photo = Photo::from_rgb(128, 96, vec![9; 128 * 96 * 3]);
        let used = mask(&photo, 0.0, 1);
        // A ball at four radii: half an angle of 14.5 degrees, 16.5 pixels.
        for (x, y, expected) in [
            (64, 48, 255),
            (80, 48, 255),
            (81, 48, 0),
            (64, 65, 0),
            (0, 0, 0),
        ] {
            assert_eq!(used[y * 128 + x], expected, "{x} {y}");
        }
        let own = Photo {
            mask: Some(
                (0..128 * 96)
                    .map(|i| if i % 2 == 0 { 200 } else { 0 })
                    .collect(),
            ),
            ..photo
        };
        let both = mask(&own, 0.0, 1);
        assert_eq!((both[48 * 128 + 64], both[48 * 128 + 65]), (200, 0));
    }

    #[test]
    fn outside_a_share_of_blocks_is_used_and_each_photo_has_others() {
        let photo = Photo::from_rgb(1600, 1600, vec![9; 1600 * 1600 * 3]);
        let used = |mask: &[u8]| mask.iter().filter(|v| **v > 0).count() as f64 / mask.len() as f64;
        let (a, b) = (mask(&photo, 0.25, 1), mask(&photo, 0.25, 2));
        assert!((used(&a) - 0.25).abs() < 0.02, "{}", used(&a));
        assert_ne!(a, b);
        assert_eq!(used(&mask(&photo, 1.0, 1)), 1.0);
        let block = |mask: &[u8]| (0..16).all(|y| (0..16).all(|x| mask[y * 1600 + x] == mask[0]));
        assert!(block(&a) && block(&b));
    }

    #[test]
    fn cameras_that_look_away_see_no_region() {
        let camera = Camera::pinhole(64, 48, 50.0, Pose::IDENTITY);
        let sees = |region: &str| RegionMask::new(&camera, region.parse().unwrap()).sees_region();
        assert!(sees("box:0,0,3,1,1,1") && !sees("box:0,0,-3,1,1,1"));
        let panorama = Camera::equirectangular(64, 32, Pose::IDENTITY);
        let behind = "box:0,0,-3,1,1,1".parse().unwrap();
        assert!(RegionMask::new(&panorama, behind).sees_region());
    }
}
