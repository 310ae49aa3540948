//! Host memory of large transfers: threads of the rayon pool fill and empty it together.

use bytemuck::Pod;
use rayon::prelude::*;

/// Bytes per piece of a large transfer.
pub(crate) const PIECE: u64 = 8 << 20;
/// Minimum bytes of a transfer that is cut into pieces.
pub(crate) const LARGE: u64 = 2 * PIECE;
/// Bytes that one thread copies at a time.
pub(crate) const COPIED_AT_ONCE: usize = 1 << 20;

/// Returns zeros. If the system provides large pages on request, a large vector uses them: the first write to each
/// small page costs more than the copy of the page.
pub fn zeroed_host_memory<T: Pod>(count: usize) -> Vec<T> {
    // Zeroed memory is not touched before the first write.
    let values: Vec<T> = bytemuck::zeroed_vec(count);
    #[cfg(target_os = "linux")]
    advise_large_pages(values.as_ptr().addr(), size_of_val(values.as_slice()));
    values
}

#[cfg(target_os = "linux")]
fn advise_large_pages(address: usize, bytes: usize) {
    const PAGE: usize = 4096;
    const LARGE_PAGE: usize = 2 << 20;
    if bytes < 4 * LARGE_PAGE {
        return;
    }
    let first = address.next_multiple_of(PAGE);
    let length = (address + bytes - first) / PAGE * PAGE;
    // SAFETY: the range is inside of the allocation of `values`, and the advice changes none of its values. A refusal
    // costs only time.
    unsafe {
        libc::madvise(
            std::ptr::with_exposed_provenance_mut(first),
            length,
            libc::MADV_HUGEPAGE,
        );
    }
}

/// A part of mapped memory that one thread fills.
#[derive(Debug)]
pub struct MappedPart<'a>(wgpu::WriteOnly<'a, [u8]>);

// SAFETY: the part borrows only its bytes, and bytes can be sent. wgpu declares so for types of known size only.
unsafe impl Send for MappedPart<'_> {}

impl<'a> MappedPart<'a> {
    /// Splits memory into parts of `bytes` bytes, for several threads; the last part is shorter.
    pub fn split(memory: wgpu::WriteOnly<'a, [u8]>, bytes: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut rest = memory;
        while rest.len() > bytes {
            let (part, after) = rest.split_at(bytes);
            parts.push(Self(part));
            rest = after;
        }
        parts.push(Self(rest));
        parts
    }

    /// Writes values, `at` bytes into the part. From the first byte to the last is fastest: the memory may be behind a
    /// bus.
    pub fn write<T: bytemuck::NoUninit>(&mut self, at: usize, values: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.0.slice(at..at + bytes.len()).copy_from_slice(bytes);
    }
}

/// Copies on all threads.
pub(crate) fn copy_to_host(from: &[u8], to: &mut [u8]) {
    to.par_chunks_mut(COPIED_AT_ONCE)
        .zip(from.par_chunks(COPIED_AT_ONCE))
        .for_each(|(to, from)| to.copy_from_slice(from));
}
