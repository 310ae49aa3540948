//! `nearest` has the labels of the CPU, which are those of a search through all centres in `f64`.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_gpu::{Nearest, catalogue, nearest};
use dapple_runtime::{DeviceClass, Gpu, GpuOptions, primitives};
use dapple_scene::NoProgress;
use dapple_scene::splat_file::nearest::{LoadedRows, NearestCentres, OnCpu, Rows, limit};
use dapple_scene::splat_file::{Format, NearestBy, WriteOptions, encode};
use dapple_synth as synth;
use std::ops::Range;
use std::sync::Arc;

/// Returns `count` pseudo-random whole numbers up to `most` in size.
fn noise(count: usize, most: i16, mut state: u32) -> Vec<i16> {
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) % (2 * most as u32 + 1)) as i16 - most
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Returns rows of `dim` columns, padded.
fn padded(values: &[i16], dim: usize) -> Vec<i16> {
    let stride = Rows {
        dim,
        ..Rows::default()
    }
    .stride();
    let mut out = Vec::new();
    for row in values.chunks_exact(dim) {
        out.extend_from_slice(row);
        out.resize(out.len() + stride - dim, 0);
    }
    out
}

/// Returns the largest allowed numbers, few enough that many distances are equal. Groups have many sizes, some occur
/// twice, some have no centres, and there are more groups than a batch has.
fn crowd(dim: usize) -> (Rows, Vec<Vec<i16>>) {
    let sizes = (0..90usize).map(|i| [1, 63, 64, 65, 200][i % 5]);
    let mut groups: Vec<Range<usize>> = Vec::new();
    for size in sizes {
        let first = groups.last().map_or(0, |g| g.end);
        groups.push(first..first + size);
    }
    let count = groups.last().map_or(0, |g| g.end);
    let mut values = noise(count * dim, limit(dim) / 2, 3);
    for value in values.iter_mut().step_by(7) {
        *value = limit(dim) / 2;
    }
    let centres = (0..groups.len()).map(|group| {
        let many = [40, 0, 1, 33, 150, 64, 7][group % 7];
        let half = noise(many * dim, limit(dim), group as u32);
        padded(&half.repeat(2), dim)
    });
    let centres = centres.collect();
    let rows = Rows {
        values: padded(&values, dim),
        dim,
        groups,
    };
    (rows, centres)
}

/// Searches all centres, in `f64`.
fn searched(rows: &Rows, centres: &[Vec<i16>]) -> Vec<u32> {
    let stride = rows.stride();
    let mut labels = Vec::new();
    for (group, range) in rows.groups.iter().enumerate() {
        for row in range.clone() {
            let row = &rows.values[row * stride..][..stride];
            let distance = |c: &[i16]| -> f64 {
                let pairs = row.iter().zip(c);
                pairs
                    .map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2))
                    .sum()
            };
            let all = centres[group].chunks_exact(stride).map(distance);
            let least = all.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            labels.push(least.map_or(0, |(place, _)| place as u32));
        }
    }
    labels
}

fn check(gpu: &Gpu) {
    let nearest = Nearest::new(gpu).unwrap();
    for dim in [9, 24, 45] {
        let (rows, centres) = crowd(dim);
        let of = |group: usize| centres[group].clone();
        let expected = searched(&rows, &centres);
        let on_cpu = OnCpu.load(rows.clone()).unwrap().nearest(&of, &NoProgress);
        assert_eq!(on_cpu.unwrap(), expected, "processor, {dim}");
        let mut loaded = nearest.load(rows).unwrap();
        for time in 0..2 {
            let found = loaded.nearest(&of, &NoProgress).unwrap();
            assert_eq!(found, expected, "{dim} columns, time {time}");
        }
    }
}

#[test]
fn labels_are_those_of_a_search_through_all() {
    require_gpu!();
    check(&support::context().gpu);
}

#[test]
fn also_where_limits_are_those_of_browsers() {
    require_gpu!();
    let options = GpuOptions {
        class: DeviceClass::WebGpuDefault,
        ..support::options(false)
    };
    check(&Gpu::open(&options).unwrap());
}

#[test]
fn nothing_to_compare_is_no_error() {
    require_gpu!();
    let nearest = Nearest::new(&support::context().gpu).unwrap();
    let rows = Rows {
        dim: 9,
        ..Rows::default()
    };
    let found = nearest
        .load(rows)
        .unwrap()
        .nearest(&|_| Vec::new(), &NoProgress);
    assert!(found.unwrap().is_empty());
    let rows = Rows {
        values: vec![1; 12],
        dim: 9,
        groups: std::iter::once(0..1).collect(),
    };
    let found = nearest
        .load(rows)
        .unwrap()
        .nearest(&|_| Vec::new(), &NoProgress);
    assert_eq!(found.unwrap(), [0]);
}

#[test]
fn a_file_has_the_bytes_that_the_processor_writes() {
    require_gpu!();
    // Enough rows for the device to be used.
    let splats = synth::splats(36_000, 1).with_sh_degree(1);
    let on_cpu = encode(&splats, Format::Sog, &WriteOptions::default()).unwrap();
    #[derive(Debug)]
    struct Counted(Nearest, std::sync::atomic::AtomicUsize);
    impl NearestCentres for Counted {
        fn load(&self, rows: Rows) -> dapple_scene::Result<Box<dyn LoadedRows + '_>> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.load(rows)
        }
    }
    let counted = Arc::new(Counted(
        Nearest::new(&support::context().gpu).unwrap(),
        0.into(),
    ));
    let options = WriteOptions {
        nearest: NearestBy::new(counted.clone()),
        ..WriteOptions::default()
    };
    let on_gpu = encode(&splats, Format::Sog, &options).unwrap();
    assert!(counted.1.load(std::sync::atomic::Ordering::Relaxed) > 1);
    assert!(on_gpu == on_cpu, "{} and {}", on_gpu.len(), on_cpu.len());
    // Few rows stay on the CPU.
    let few = synth::splats(2000, 1).with_sh_degree(1);
    let before = counted.1.load(std::sync::atomic::Ordering::Relaxed);
    encode(&few, Format::Sog, &options).unwrap();
    assert_eq!(counted.1.load(std::sync::atomic::Ordering::Relaxed), before);
}

#[test]
fn the_search_has_no_shader_of_the_engine() {
    let set = nearest::shaders();
    let is_own = |name: &&str| !primitives::PIECES.iter().any(|(piece, _)| piece == name);
    assert_eq!(set.names().filter(is_own).collect::<Vec<_>>(), ["nearest"]);
    assert!(catalogue::shaders().names().all(|name| name != "nearest"));
}
