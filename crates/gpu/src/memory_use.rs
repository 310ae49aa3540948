//! Memory of the engine's buffers: sums over the declarations of passes.

use crate::catalogue::tensors;
use crate::layout::BUCKET;
use crate::passes::{Axis, Bits, BufferSizes, Capacity, Tensor, WORD};
use crate::precision::Precision;
use dapple_engine::PosedCamera;

/// Returns the capacities for an image of a camera's size.
pub fn tiles_and_pixels(camera: &PosedCamera) -> (u32, u32) {
    (camera.tile_count() as u32, camera.pixel_count() as u32)
}

/// Returns the most buckets that `instances` can fill: each tile may leave one partly empty.
pub fn buckets_for(instances: u32, tiles: u32) -> u32 {
    instances.div_ceil(BUCKET).saturating_add(tiles)
}

fn stored(precision: Precision, sh_degree: u8) -> BufferSizes {
    BufferSizes {
        precision,
        sh_degree,
        ..BufferSizes::default()
    }
}

/// Returns the tensors along an axis of steps with these bits.
fn along(axis: Axis, bits: Bits) -> impl Iterator<Item = &'static Tensor> {
    tensors().filter(move |tensor| tensor.axis == axis && tensor.is_asked(bits))
}

fn bytes_each(axis: Axis, sizes: &BufferSizes) -> u64 {
    let words = along(axis, sizes.asked).map(|tensor| u64::from(tensor.words(sizes)));
    words.sum::<u64>() * WORD
}

fn widest(axis: Axis, sizes: &BufferSizes) -> u64 {
    let words = along(axis, Bits::NONE).map(|tensor| u64::from(tensor.words(sizes)));
    words.max().unwrap_or(1) * WORD
}

/// Returns the bytes of a Gaussian that is not visible. The numbers of visible Gaussians, 4 bytes
/// for every 256 Gaussians, are not included.
pub fn bytes_per_gaussian(precision: Precision, sh_degree: u8) -> u64 {
    bytes_each(Axis::Gaussian, &stored(precision, sh_degree))
}

/// Returns the bytes of a visible Gaussian in addition to [`bytes_per_gaussian`], without
/// instances.
pub fn bytes_per_visible() -> u64 {
    bytes_each(Axis::Visible, &BufferSizes::default())
}

/// Returns the bytes of an instance, with its share of a full bucket, rounded up.
pub fn bytes_per_instance() -> u64 {
    instance_bytes(&BufferSizes::default())
}

fn instance_bytes(sizes: &BufferSizes) -> u64 {
    let bucket = bytes_each(Axis::Bucket, sizes);
    bytes_each(Axis::Instance, sizes) + bucket.div_ceil(u64::from(BUCKET))
}

/// Returns the bytes of a visible Gaussian with this number of instances in steps with these bits.
pub fn bytes_in_steps(precision: Precision, sh_degree: u8, bits: Bits, instances: u32) -> u64 {
    let sizes = BufferSizes {
        asked: bits,
        ..stored(precision, sh_degree)
    };
    bytes_each(Axis::Gaussian, &sizes)
        + bytes_each(Axis::Visible, &sizes)
        + u64::from(instances) * instance_bytes(&sizes)
}

/// Returns the most Gaussians whose buffers take at most `bytes` each.
pub fn most_gaussians(precision: Precision, sh_degree: u8, bytes: u64) -> u32 {
    let widest = widest(Axis::Gaussian, &stored(precision, sh_degree));
    (bytes / widest).try_into().unwrap_or(u32::MAX)
}

/// Returns the most Gaussians in one image whose buffers take at most `bytes` each.
pub fn most_visible(bytes: u64) -> u32 {
    let widest = widest(Axis::Visible, &BufferSizes::default());
    // Buffers have an item more.
    (bytes / widest)
        .saturating_sub(1)
        .try_into()
        .unwrap_or(u32::MAX)
}

/// Returns the most instances whose buffers take at most `bytes` each, on images of this number of
/// tiles.
pub fn most_instances(tiles: u32, bytes: u64) -> u32 {
    let sizes = BufferSizes::default();
    let instances = (bytes / widest(Axis::Instance, &sizes)).saturating_sub(1);
    let buckets = (bytes / widest(Axis::Bucket, &sizes)).saturating_sub(u64::from(tiles));
    let most = instances.min(buckets * u64::from(BUCKET));
    most.try_into().unwrap_or(u32::MAX)
}

impl Capacity {
    /// Returns capacities with this number of instances, and of the buckets that they fill.
    #[must_use]
    pub(crate) fn with_instances(self, instances: u32) -> Self {
        Self {
            instances,
            buckets: buckets_for(instances, self.tiles),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Storage;

    #[test]
    fn a_gaussian_takes_what_its_numbers_do_and_a_word() {
        let bytes = |sh, moments| bytes_per_gaussian(Precision { sh, moments }, 3);
        assert_eq!(bytes(Storage::F32, Storage::F32), 720);
        assert_eq!(bytes(Storage::F16, Storage::F16), 400);
        assert_eq!(bytes(Storage::Bf16, Storage::Bf16), 400);
        assert_eq!(bytes_per_visible(), 108);
        assert_eq!(bytes_per_instance(), 60 + 65);
        let in_steps = |bits| bytes_in_steps(Precision::default(), 3, bits, 6);
        let plain = 720 + 108 + 6 * 125;
        assert_eq!(in_steps(Bits::NONE), plain);
        // Sums of gradients: 14 numbers of the geometry and 45 of the harmonics.
        assert_eq!(in_steps(Bits::BATCH), plain + 4 * 59);
        assert!(in_steps(Bits::NORMALS | Bits::DEPTH) >= plain + 6 * 16);
    }
}
