//! Ranks on a GPU train with the bits of one engine.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::Engine;
use dapple_gpu::{Capacity, GpuEngine, GpuEngineOptions, Precision};
use dapple_ranks::RanksEngine;
use dapple_reference::conformance::{Make, Rounds, ranks_train_alike};

/// Returns an engine. Those with small buffers have another device than the others.
fn engine(has_small_buffers: bool, precision: &str) -> GpuEngine {
    let first_capacity = match has_small_buffers {
        true => Capacity {
            gaussians: 1,
            visible: 1,
            instances: 1,
            ..Capacity::default()
        },
        false => Capacity::default(),
    };
    let precision: Precision = precision.parse().unwrap();
    support::engine_on(GpuEngineOptions {
        gpu: support::options(has_small_buffers),
        precision,
        first_capacity,
        ..GpuEngineOptions::default()
    })
}

/// Returns ranks, of which the last has buffers that have to grow.
fn ranks(number: usize, precision: &str) -> Box<dyn Engine> {
    let ranks = (1..=number).map(|rank| engine(rank == number, precision));
    Box::new(RanksEngine::new(ranks.collect()).unwrap())
}

#[test]
fn steps_of_ranks_are_those_of_one_engine() {
    require_gpu!();
    for precision in ["f32", "f16"] {
        let makes: [Make<'_>; 3] = [
            &|| Box::new(engine(false, precision)),
            &|| ranks(1, precision),
            &|| ranks(3, precision),
        ];
        let scenes = ["off_centre", "panorama_seam"];
        ranks_train_alike(&makes, Rounds::None, &scenes);
    }
}

#[test]
fn any_number_of_ranks_trains_alike() {
    require_gpu!();
    let makes: [Make<'_>; 3] = [&|| ranks(1, "f32"), &|| ranks(2, "f32"), &|| {
        ranks(5, "f32")
    }];
    ranks_train_alike(&makes, Rounds::Some, &["crowd", "lens_fisheye"]);
}
