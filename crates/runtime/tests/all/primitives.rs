//! Compares prefix sums and sorting with a few lines of Rust, with and without subgroups.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::primitives::{
    Count, PIECES, RadixSort, SCAN_BLOCK, Scan, ScanOn, SortOn, defines, radix_block,
};
use dapple_runtime::{CommandList, Defines, Gpu, GpuOptions, Groups, ShaderSet};
use support::{gpu, options};

/// Numbers without a pattern (PCG's output function, O'Neill 2014).
fn noise(i: u32) -> u32 {
    let state = i.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let word = ((state >> ((state >> 28) + 4)) ^ state).wrapping_mul(277_803_737);
    (word >> 22) ^ word
}

/// A device, and a permutation of the kernels.
struct Way {
    name: &'static str,
    gpu: Gpu,
    lanes: Defines,
}

/// Both methods of ranking; the code for subgroups of more than 32 lanes runs on fewer.
fn ways() -> Vec<Way> {
    let way = |name, gpu: Gpu, wide: bool| Way {
        name,
        lanes: defines(&gpu, Defines::new()).flag("WIDE_SUBGROUPS", wide),
        gpu,
    };
    let without = GpuOptions {
        without_subgroups: true,
        ..options()
    };
    vec![
        way("subgroups", gpu(), false),
        way("wide subgroups", gpu(), true),
        way("no subgroups", Gpu::open(&without).unwrap(), false),
    ]
}

/// Runs `record` and checks the device.
fn run(gpu: &Gpu, record: impl FnOnce(&mut CommandList)) {
    let mut recording = CommandList::new();
    record(&mut recording);
    recording.submit(gpu, &[]);
    gpu.wait().unwrap();
}

/// Scans `input` (through `index`, if any), with a few words before the count and none to spare.
fn scanned(gpu: &Gpu, scan: &Scan, input: &[u32], index: Option<&[u32]>) -> Vec<u32> {
    let length = index.map_or(input.len(), <[u32]>::len);
    let input = gpu.upload("input", input).unwrap();
    let index = index.map(|index| gpu.upload("index", index).unwrap());
    // The old content must not matter.
    let output = gpu.upload("output", &vec![7u32; length + 1]).unwrap();
    let counts = gpu.upload("counts", &[9, 9, length as u32, 9]).unwrap();
    let words = Scan::scratch_words(length as u64);
    let scratch = gpu.buffer("scratch", words * 4).unwrap();
    run(gpu, |recording| {
        let on = ScanOn {
            input: &input,
            index: index.as_deref().map(|index| &**index),
            output: &output,
            count: Count {
                buffer: &counts,
                word: 2,
            },
            scratch: &scratch,
            groups: Groups::flat((length as u32).div_ceil(256)),
        };
        scan.record(gpu, recording, on).unwrap();
    });
    gpu.read(&output, length + 1).unwrap()
}

fn prefix_sums(items: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut sum = 0u32;
    let mut sums = vec![0];
    for item in items {
        sum = sum.wrapping_add(item);
        sums.push(sum);
    }
    sums
}

#[test]
fn scans_are_prefix_sums() {
    let block = SCAN_BLOCK as usize;
    for Way { name, gpu, lanes } in ways() {
        let gpu = &gpu;
        let scan = Scan::with((gpu, &ShaderSet::new(&PIECES)), &lanes).unwrap();
        // The last length has more blocks than one iteration of `sums` processes.
        let lengths = [0, 1, 2, 255, 256, 257, block - 1, block, block + 1, 100_000];
        for length in lengths.into_iter().chain([block * block + block + 3]) {
            let items: Vec<u32> = (0..length as u32).map(|i| noise(i) % 50).collect();
            let expected = prefix_sums(items.iter().copied());
            assert_eq!(
                scanned(gpu, &scan, &items, None),
                expected,
                "{name}, {length}"
            );
        }
        for length in [0, 1, 1000, 5000] {
            let items: Vec<u32> = (0..700).map(|i| noise(i) % 9).collect();
            let index: Vec<u32> = (0..length).map(|i| noise(i + 1) % 700).collect();
            let expected = prefix_sums(index.iter().map(|&i| items[i as usize]));
            let actual = scanned(gpu, &scan, &items, Some(&index));
            assert_eq!(actual, expected, "{name}, gathered, {length}");
        }
    }
}

#[test]
fn a_scan_over_its_own_input_is_refused() {
    let gpu = gpu();
    let scan = Scan::new(&gpu).unwrap();
    let buffer = gpu.upload("items", &[1u32, 2, 3]).unwrap();
    let on = ScanOn {
        input: &buffer,
        index: None,
        output: &buffer,
        count: Count {
            buffer: &buffer,
            word: 0,
        },
        scratch: &buffer,
        groups: Groups::flat(1),
    };
    assert!(scan.record(&gpu, &mut CommandList::new(), on).is_err());
}

/// Sorts pairs; values are `None` where the sort numbers them.
fn sorted(
    gpu: &Gpu,
    sort: &RadixSort,
    keys: &[u32],
    values: Option<&[u32]>,
) -> (Vec<u32>, Vec<u32>) {
    let n = keys.len();
    let unset = vec![0xdead_u32; n];
    let keys = gpu.upload("keys", keys).unwrap();
    let values = gpu.upload("values", values.unwrap_or(&unset)).unwrap();
    let keys_alt = gpu.upload("keys alt", &unset).unwrap();
    let values_alt = gpu.upload("values alt", &unset).unwrap();
    let counts = gpu.upload("counts", &[5, n as u32]).unwrap();
    let words = RadixSort::scratch_words(gpu, n as u64);
    let scratch = gpu.upload("scratch", &vec![3u32; words as usize]).unwrap();
    run(gpu, |recording| {
        let on = SortOn {
            keys: &keys,
            values: &values,
            keys_alt: &keys_alt,
            values_alt: &values_alt,
            count: Count {
                buffer: &counts,
                word: 1,
            },
            scratch: &scratch,
            groups: Groups::flat((n as u32).div_ceil(radix_block(gpu))),
        };
        sort.record(gpu, recording, on).unwrap();
    });
    (gpu.read(&keys, n).unwrap(), gpu.read(&values, n).unwrap())
}

/// The standard library's stable sort.
fn expected(keys: &[u32], values: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut pairs: Vec<(u32, u32)> = keys.iter().copied().zip(values.iter().copied()).collect();
    pairs.sort_by_key(|&(key, _)| key);
    pairs.into_iter().unzip()
}

#[test]
fn sorts_are_stable_and_right_for_any_count() {
    for Way { name, gpu, lanes } in ways() {
        let gpu = &gpu;
        let sort = RadixSort::with((gpu, &ShaderSet::new(&PIECES)), &lanes, 32, false).unwrap();
        let block = radix_block(gpu);
        let lengths = [
            0,
            1,
            2,
            255,
            256,
            257,
            block - 1,
            block,
            block + 1,
            5 * block + 77,
            100_000,
        ];
        for length in lengths {
            // Keys that repeat, over all 32 bits: equal keys must keep their order.
            let few = length / 3 + 1;
            let keys: Vec<u32> = (0..length).map(|i| noise(noise(i) % few)).collect();
            let values: Vec<u32> = (0..length).map(|i| noise(i ^ 0x5555)).collect();
            let actual = sorted(gpu, &sort, &keys, Some(&values));
            assert!(actual == expected(&keys, &values), "{name}, {length}");
        }
    }
}

#[test]
fn sorts_what_is_sorted_reversed_or_all_equal() {
    for Way { name, gpu, lanes } in ways() {
        let gpu = &gpu;
        let sort = RadixSort::with((gpu, &ShaderSet::new(&PIECES)), &lanes, 32, false).unwrap();
        let n = 3 * radix_block(gpu) + 5;
        let values: Vec<u32> = (0..n).collect();
        let cases: [(&str, Vec<u32>); 6] = [
            ("sorted", (0..n).collect()),
            ("reversed", (0..n).rev().collect()),
            ("zeros", vec![0; n as usize]),
            ("ones", vec![u32::MAX; n as usize]),
            (
                "depths",
                (0..n).map(|i| (1.0 + (i % 977) as f32).to_bits()).collect(),
            ),
            ("all random bits", (0..n).map(noise).collect()),
        ];
        for (case, keys) in cases {
            let actual = sorted(gpu, &sort, &keys, Some(&values));
            assert!(actual == expected(&keys, &values), "{name}, {case}");
        }
    }
}

#[test]
fn sorts_by_as_many_bits_as_asked_and_numbers_pairs() {
    for Way { name, gpu, lanes } in ways() {
        let gpu = &gpu;
        for bits in [1, 5, 13, 17] {
            let n = 2 * radix_block(gpu) + 300;
            let keys: Vec<u32> = (0..n).map(|i| noise(i) >> (32 - bits)).collect();
            let places: Vec<u32> = (0..n).collect();
            let sort =
                RadixSort::with((gpu, &ShaderSet::new(&PIECES)), &lanes, bits, true).unwrap();
            let actual = sorted(gpu, &sort, &keys, None);
            assert!(actual == expected(&keys, &places), "{name}, {bits} bits");
        }
        assert!(RadixSort::with((gpu, &ShaderSet::new(&PIECES)), &lanes, 33, false).is_err());
    }
}
