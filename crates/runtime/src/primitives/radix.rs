//! [`RadixSort`]: stable sorting of pairs by some bits of their keys. See `shaders/radix.wgsl`.

use super::{Count, defines, radix_block, shaders};
use crate::{CommandList, Defines, Gpu, Groups, Kernel, ShaderSet};
use dapple_base::{Error, Result};
use std::collections::BTreeMap;

/// Maximum bits of a digit: 256 counts per block.
const DIGIT_BITS: u32 = 8;

/// Stable sort of (`u32` key, `u32` value) by the lowest `bits` bits of the key, in three dispatches per pass.
#[derive(Debug, Clone)]
pub struct RadixSort {
    passes: Vec<Pass>,
}

#[derive(Debug, Clone)]
struct Pass {
    /// First bit of the digit, and number of bits.
    shift: u32,
    bits: u32,
    histogram: Kernel,
    digits: Kernel,
    scatter: Kernel,
}

/// Buffers of a sort.
#[derive(Debug)]
pub struct SortOn<'a> {
    /// Keys; sorted after the sort.
    pub keys: &'a wgpu::Buffer,
    /// Values; in the order of the sorted keys after the sort. The content before the sort is ignored if the sort
    /// numbers the pairs itself.
    pub values: &'a wgpu::Buffer,
    /// Scratch as long as `keys`; its content is overwritten.
    pub keys_alt: &'a wgpu::Buffer,
    /// Scratch as long as `values`; its content is overwritten.
    pub values_alt: &'a wgpu::Buffer,
    /// Number of pairs; the caller guarantees that the buffers hold this number.
    pub count: Count<'a>,
    /// Scratch of [`RadixSort::scratch_words`] `u32`.
    pub scratch: &'a wgpu::Buffer,
    /// Workgroups, at least one per [`radix_block`] pairs; more have no effect.
    pub groups: Groups,
}

/// Returns the widths of the digits, lowest first. Their number is even, so that the result is in the buffers of the
/// input. They differ by one bit at most.
pub(super) fn widths(bits: u32) -> Vec<u32> {
    let count = bits.div_ceil(DIGIT_BITS).next_multiple_of(2).max(2);
    let bits = bits.max(count);
    (0..count)
        .map(|pass| bits / count + u32::from(pass < bits % count))
        .collect()
}

impl RadixSort {
    /// Compiles the kernels of a sort by the lowest `bits` bits (1 to 32) of the keys; higher bits must be 0. With
    /// `numbered`, values are the positions of the pairs before the sort, and are not read.
    ///
    /// # Errors
    /// More than 32 bits; see also [`Kernel::new`].
    pub fn new(gpu: &Gpu, bits: u32, numbered: bool) -> Result<Self> {
        let lanes = defines(gpu, Defines::new());
        Self::with((gpu, &shaders()), &lanes, bits, numbered)
    }

    /// [`Self::new`] from a set that contains [`super::PIECES`], possibly without checks, in a permutation of
    /// [`super::defines`].
    ///
    /// # Errors
    /// See [`Self::new`] for the errors.
    pub fn with(
        (gpu, shaders): (&Gpu, &ShaderSet),
        lanes: &Defines,
        bits: u32,
        numbered: bool,
    ) -> Result<Self> {
        if bits > 32 {
            return Err(Error::internal(format!("a sort by {bits} bits")));
        }
        let mut made: BTreeMap<(&str, u32, bool), Kernel> = BTreeMap::new();
        let mut kernel = |entry: &'static str, bits: u32, iota: bool| -> Result<Kernel> {
            if let Some(kernel) = made.get(&(entry, bits, iota)) {
                return Ok(kernel.clone());
            }
            let defines = lanes.clone().u32("RADIX_BITS", bits).flag("IOTA", iota);
            let kernel = Kernel::new(gpu, shaders, "radix", entry, &defines)?;
            made.insert((entry, bits, iota), kernel.clone());
            Ok(kernel)
        };
        let mut passes = Vec::new();
        let mut shift = 0;
        for bits in widths(bits) {
            passes.push(Pass {
                shift,
                bits,
                histogram: kernel("histogram", bits, false)?,
                digits: kernel("digits", bits, false)?,
                scatter: kernel("scatter", bits, numbered && shift == 0)?,
            });
            shift += bits;
        }
        Ok(Self { passes })
    }

    /// Returns the `u32`s of scratch for up to `pairs` pairs.
    pub fn scratch_words(gpu: &Gpu, pairs: u64) -> u64 {
        let blocks = pairs.div_ceil(u64::from(radix_block(gpu)));
        (1 << DIGIT_BITS) * (1 + blocks)
    }

    /// Appends the dispatches. The result is in `keys` and `values`.
    ///
    /// # Errors
    /// Device failures.
    pub fn record(&self, gpu: &Gpu, recording: &mut CommandList, on: SortOn<'_>) -> Result<()> {
        let there = (on.keys, on.values);
        let (mut from, mut to) = (there, (on.keys_alt, on.values_alt));
        for pass in &self.passes {
            let words = gpu.uniform("radix_pass", [pass.shift, on.count.word, 0, 0])?;
            let buffers = [
                ("radix_count", on.count.buffer),
                ("radix_pass", &words),
                ("radix_keys", from.0),
                ("radix_values", from.1),
                ("radix_keys_out", to.0),
                ("radix_values_out", to.1),
                ("radix_scratch", on.scratch),
            ];
            let bind = |kernel: &Kernel| kernel.bind(gpu, &buffers);
            recording.dispatch(bind(&pass.histogram)?, on.groups.clone());
            recording.dispatch(bind(&pass.digits)?, Groups::Direct([1 << pass.bits, 1, 1]));
            recording.dispatch(bind(&pass.scatter)?, on.groups.clone());
            (from, to) = (to, from);
        }
        debug_assert_eq!(from.0, there.0, "an even number of passes");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::widths;

    #[test]
    fn digits_cover_the_bits_in_an_even_number_of_passes() {
        assert_eq!(widths(32), [8, 8, 8, 8]);
        assert_eq!(widths(13), [7, 6]);
        for bits in 0..=32 {
            let list = widths(bits);
            assert_eq!(list.len() % 2, 0);
            assert!(list.iter().sum::<u32>() >= bits);
            assert!(list.iter().all(|w| (1..=8).contains(w)), "{bits}");
        }
    }
}
