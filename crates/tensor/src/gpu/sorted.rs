//! Sums of many rows by index: the indices are sorted once, so that no row reads the indices of other rows.
//!
//! 1. Keys are the indices; all indices beyond the last row get one key.
//! 2. A stable sort: positions of one index keep their order, which is the order of addition.
//! 3. Each element of the result finds its row's first key by bisection, and adds up its entries.
//!
//! Few indices, or indices that are not contiguous in memory, are searched unsorted (`Source::scatter`).

use super::source::{Source, THREADS};
use crate::context::Context;
use crate::program::{Access, KernelPlan, Source as From, Space};
use dapple_base::{Error, Result};
use dapple_runtime::primitives::{Count, RadixSort, SortOn, radix_block};
use dapple_runtime::{ByteSlice, CommandList, Gpu, Groups};

/// Number of index reads, over all elements, from which on indices are sorted.
const MOST_LOOKS: usize = 1 << 20;

/// Name of an additional binding of the kernel.
pub(super) const KEYS: &str = "sorted_keys";
/// See [`KEYS`].
pub(super) const PLACES: &str = "sorted_places";

/// Returns the indices of a kernel that sorts them.
pub(super) fn numbers(kernel: &KernelPlan) -> Option<&Access> {
    let Space::Scatter {
        rows,
        width,
        numbers,
    } = kernel.space
    else {
        return None;
    };
    let Some(From::Buffer(access)) = kernel.body.inputs.get(1) else {
        return None;
    };
    let is_dense = matches!(access.dims.as_slice(), [] | [(_, 1)]);
    (is_dense && rows * width * numbers > MOST_LOOKS).then_some(access)
}

/// Sorted keys and positions, and the command list that sorts them.
pub(super) struct Sorted {
    pub recording: CommandList,
    pub keys: ByteSlice,
    pub places: ByteSlice,
}

/// Creates the sort of indices below `rows` in `slice`.
pub(super) fn sort(
    gpu: &Gpu,
    context: &Context,
    (access, slice): (&Access, &ByteSlice),
    rows: usize,
    span: &'static str,
) -> Result<Sorted> {
    let count = u32::try_from(access.count);
    let (Ok(count), Ok(rows)) = (count, u32::try_from(rows)) else {
        return Err(Error::unsupported("an embedding of more than 2^32 rows"));
    };
    let bytes = u64::from(count) * 4;
    let words = || gpu.buffer("sort", bytes);
    let (keys, places, keys_alt, places_alt) = (words()?, words()?, words()?, words()?);
    let scratch = RadixSort::scratch_words(gpu, count.into());
    let scratch = gpu.buffer("sort", scratch * 4)?;
    let counts = gpu.upload("sort", &[count])?;
    let wgsl = format!(
        "@group(0) @binding(0) var<storage, read> numbers: array<u32>;
@group(0) @binding(1) var<storage, read_write> keys: array<u32>;
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {{
    let i = (group.x + group.y * groups.x) * {THREADS}u + local;
    if i >= {count}u {{ return; }}
    keys[i] = min(numbers[i + {}u], {rows}u);
}}\n",
        access.offset
    );
    let (keys_slice, places_slice) = (ByteSlice::from(&keys), ByteSlice::from(&places));
    let kernel = context.kernel(gpu, "embedding_keys", &wgsl)?;
    let bound = kernel.bind_slices(
        gpu,
        &[("numbers", slice.clone()), ("keys", keys_slice.clone())],
    )?;
    let mut recording = CommandList::new();
    recording.span(span);
    recording.dispatch(bound, Groups::flat(count.div_ceil(THREADS as u32)));
    let bits = u32::BITS - rows.leading_zeros();
    let on = SortOn {
        keys: &keys,
        values: &places,
        keys_alt: &keys_alt,
        values_alt: &places_alt,
        count: Count {
            buffer: &counts,
            word: 0,
        },
        scratch: &scratch,
        groups: Groups::flat(count.div_ceil(radix_block(gpu))),
    };
    RadixSort::new(gpu, bits, true)?.record(gpu, &mut recording, on)?;
    for buffer in [keys, places, keys_alt, places_alt, scratch, counts] {
        recording.keep(buffer);
    }
    Ok(Sorted {
        recording,
        keys: keys_slice,
        places: places_slice,
    })
}

impl Source<'_> {
    /// Adds up rows by sorted indices. Returns the number of workgroups.
    pub fn scatter_sorted(&mut self, rows: usize, width: usize, numbers: usize) -> usize {
        let values = self.load(0, 1);
        let count = rows * width;
        self.more = vec![KEYS, PLACES];
        self.line(format!("let i = group_index * {THREADS}u + local;"));
        self.line(format!("if i >= {count}u {{ return; }}"));
        self.line(format!(
            "let row = i / {width}u;\n    let column = i % {width}u;\n    var sum = 0.0;"
        ));
        self.line(format!("var low = 0u;\n    var high = {numbers}u;"));
        // Number of bisections until the interval is empty.
        let halvings = usize::BITS - numbers.leading_zeros();
        self.line(format!("for (var h = 0u; h < {halvings}u; h++) {{"));
        self.line("    let middle = (low + high) / 2u;");
        self.line(format!(
            "    if low < high {{ if {KEYS}[middle] < row {{ low = middle + 1u; }} else {{ high = middle; }} }}"
        ));
        self.line("}");
        self.line(format!(
            "for (var j = low; j < {numbers}u && {KEYS}[j] == row; j++) {{"
        ));
        self.line(format!(
            "    sum += {values}({PLACES}[j] * {width}u + column);"
        ));
        self.line("}");
        let text = self.store(0, "sum", 1, "i");
        self.body.push_str(&text);
        count.div_ceil(THREADS)
    }
}
