//! Times of ranks, with injected delays.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::instruments::RankTimes;
use dapple_engine::{Engine, HostShipment};
use dapple_ranks::{Link, RanksEngine, threads};
use dapple_reference::conformance::{Rounds, ShortRun};
use dapple_reference::scenes;
use dapple_scene::{Error, Result};
use std::thread;
use std::time::Duration;

/// Delay of each exchange of a slow link.
const DELAY: Duration = Duration::from_millis(2);

/// Link with a delay in each exchange.
struct Slow(Box<dyn Link<HostShipment>>);

impl Link<HostShipment> for Slow {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    fn exchange(&mut self, out: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        thread::sleep(DELAY);
        self.0.exchange(out)
    }

    fn ship(&mut self, out: Vec<HostShipment>) -> Result<Vec<HostShipment>> {
        thread::sleep(DELAY);
        self.0.ship(out)
    }

    fn fail(&mut self, error: &Error) {
        self.0.fail(error);
    }
}

fn cpu() -> CpuEngine {
    CpuEngine::new(CpuOptions { threads: Some(1) }).unwrap()
}

/// Returns the times of two ranks in `runs` times three batches of `size` views, read as a profiler reads them.
fn times(links: Vec<Box<dyn Link<HostShipment>>>, size: u32, runs: u64) -> Vec<RankTimes> {
    let scene = scenes::named("crowd");
    let run = ShortRun {
        scene: &scene,
        size,
        rounds: Rounds::Some,
    };
    let mut ranks = RanksEngine::with_links(vec![cpu(), cpu()], links).unwrap();
    run.begin(&mut ranks, &scene.splats, None).unwrap();
    let instruments = ranks.instruments().unwrap();
    assert_eq!(instruments.workers(), Some(2));
    let before = instruments.rank_times();
    assert_eq!(before, [RankTimes::default(); 2]);
    for _ in 0..runs {
        run.segment(&mut ranks, 0).unwrap();
    }
    let times = ranks.instruments().unwrap().rank_times();
    for rank in &times {
        assert_eq!(rank.views, runs * 3 * u64::from(size));
        assert!(rank.wait_ns <= rank.exchange_ns && rank.sent_bytes > 0);
        assert!(rank.project_ns > 0 && rank.update_ns > 0);
    }
    // Taken times are gone, and without the profiler waits are not measured.
    let instruments = ranks.instruments().unwrap();
    assert_eq!(instruments.rank_times(), [RankTimes::default(); 2]);
    instruments.set_detail(None).unwrap();
    run.segment(&mut ranks, 0).unwrap();
    let after = ranks.take_times();
    let is_unmeasured = |rank: &RankTimes| rank.wait_ns == 0 && rank.exchange_ns > 0;
    assert!(after.iter().all(is_unmeasured), "{after:?}");
    times
}

#[test]
fn a_rank_without_a_photo_waits_for_the_other() {
    let times = times(threads(2), 1, 20);
    let [first, second] = times.as_slice() else {
        panic!("two ranks: {times:?}");
    };
    assert!(first.compare_ns > second.compare_ns, "{times:?}");
    assert!(second.wait_ns > first.wait_ns, "{times:?}");
    assert!(RankTimes::balance(&times) > 1.0);
}

#[test]
fn a_slow_link_is_a_transfer_and_not_a_wait() {
    let links = threads(2).into_iter();
    let links = links.map(|link| Box::new(Slow(link)) as Box<dyn Link<_>>);
    let times = times(links.collect(), 4, 1);
    // Each of six waves has three exchanges.
    let least = 18 * DELAY.as_nanos() as u64;
    for rank in &times {
        assert!(rank.transfer_ns() >= least, "{times:?}");
    }
}
