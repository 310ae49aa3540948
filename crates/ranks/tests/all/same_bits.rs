//! Ranks train with the bits of one engine.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::Engine;
use dapple_ranks::{RanksEngine, serve, threads};
use dapple_reference::conformance::{
    Make, Rounds, gaussians_that_are_not_finite_are_reported, ranks_grow_alike, ranks_train_alike,
};

fn cpu(threads: usize) -> CpuEngine {
    let threads = Some(threads);
    CpuEngine::new(CpuOptions { threads }).unwrap()
}

fn ranks(number: usize) -> Box<dyn Engine> {
    let engines = (0..number).map(|rank| cpu(1 + rank % 2)).collect();
    Box::new(RanksEngine::new(engines).unwrap())
}

/// Returns ranks that measure their waits for each other.
fn timed(number: usize) -> Box<dyn Engine> {
    let engines = (0..number).map(|_| cpu(1)).collect();
    let mut ranks = RanksEngine::new(engines).unwrap();
    ranks.take_times();
    Box::new(ranks)
}

/// Returns the leader of ranks that obey commands, as ranks of other processes do.
fn led(number: usize) -> Box<dyn Engine> {
    let mut links = threads(number).into_iter();
    let own = links.next().unwrap();
    for link in links {
        std::thread::spawn(move || serve(cpu(1), link).unwrap());
    }
    Box::new(RanksEngine::lead(cpu(1), own).unwrap())
}

#[test]
fn any_number_of_ranks_trains_like_one_engine() {
    let makes: [Make<'_>; 8] = [
        &|| Box::new(cpu(2)),
        &|| ranks(1),
        &|| ranks(2),
        &|| ranks(3),
        &|| ranks(5),
        &|| timed(2),
        &|| led(2),
        &|| led(3),
    ];
    let scenes = ["crowd", "off_centre", "lens_fisheye", "panorama_seam"];
    ranks_train_alike(&makes, Rounds::Some, &scenes);
}

/// The model has too many blocks after the round for the same parts.
#[test]
fn ranks_that_grow_much_share_the_gaussians_anew() {
    ranks_grow_alike(&[&|| Box::new(cpu(2)), &|| ranks(2), &|| led(3)]);
}

#[test]
fn ranks_count_the_gaussians_of_all_that_are_not_finite() {
    gaussians_that_are_not_finite_are_reported(&|| ranks(3));
    gaussians_that_are_not_finite_are_reported(&|| led(2));
}
