//! Simulation of ranks: messages that are late, ranks that fail or vanish. All of it follows from a seed, so that a failure
//! repeats. `DAPPLE_SEEDS=10000 cargo test --release -p dapple-ranks simulation` tries more seeds.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::{Engine, EngineExt, HostShipment, OptimizerState, noise};
use dapple_ranks::{Link, RanksEngine, serve, threads};
use dapple_reference::conformance::{Rounds, ShortRun};
use dapple_reference::scenes::{self, TestScene};
use dapple_scene::{Error, ErrorKind, Result, Splats};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Seeds to try, if `DAPPLE_SEEDS` does not say how many.
const SEEDS: u64 = 40;

/// Time in which a run of a seed ends on any machine. One that waits for a message that never comes does not end.
const TIME: Duration = Duration::from_secs(120);

/// Longest delay of a message.
const DELAY: Duration = Duration::from_micros(300);

/// Fault of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// A rank has an error of its own.
    DiskIsFull,
    /// A rank ends without a word.
    Vanishes,
}

/// Ranks and faults of a seed.
#[derive(Debug, Clone, Copy)]
struct Plan {
    seed: u64,
    ranks: usize,
    /// True if ranks obey a leader, as in several processes.
    is_led: bool,
    fault: Fault,
    /// Rank of the fault.
    rank: usize,
    /// Call of its link at which the fault happens.
    call: u32,
    /// Ranks on which the run continues.
    next: usize,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let draw = |which, count: usize| {
            let drawn = noise::uniform(seed, 0, 0, which) * count as f32;
            (drawn as usize).min(count - 1)
        };
        let ranks = 2 + draw(0, 4);
        Self {
            seed,
            ranks,
            is_led: draw(1, 2) == 1,
            fault: [Fault::Nothing, Fault::DiskIsFull, Fault::Vanishes][draw(2, 3)],
            rank: draw(3, ranks),
            call: draw(4, 70) as u32,
            next: 1 + draw(5, 4),
        }
    }

    /// Returns the link of a rank, with the delays and the fault of this plan.
    fn link(self, inner: Box<dyn Link<HostShipment>>) -> Box<dyn Link<HostShipment>> {
        Box::new(Rough {
            plan: self,
            rank: inner.rank(),
            ranks: inner.ranks(),
            inner: Some(inner),
            calls: 0,
        })
    }

    /// Returns an engine of this plan's ranks.
    fn engine(self) -> Result<Box<dyn Engine>> {
        let links = threads(self.ranks).into_iter().map(|link| self.link(link));
        let mut links: Vec<_> = links.collect();
        if !self.is_led {
            let engines = links.iter().map(|_| cpu()).collect();
            return Ok(Box::new(RanksEngine::with_links(engines, links)?));
        }
        let own = links.remove(0);
        for link in links {
            // The leader hears of its fault.
            thread::spawn(move || drop(serve(cpu(), link)));
        }
        Ok(Box::new(RanksEngine::lead(cpu(), own)?))
    }
}

/// A link with delays and a fault.
struct Rough {
    plan: Plan,
    rank: usize,
    ranks: usize,
    /// `None` after the rank has vanished.
    inner: Option<Box<dyn Link<HostShipment>>>,
    calls: u32,
}

impl Rough {
    fn next(&mut self) -> Result<&mut dyn Link<HostShipment>> {
        let call = self.calls;
        self.calls += 1;
        let late = noise::uniform(self.plan.seed, call, self.rank as u32, 6);
        if late < 0.3 {
            thread::sleep(DELAY.mul_f32(late / 0.3));
        }
        if self.rank == self.plan.rank && call == self.plan.call {
            match self.plan.fault {
                Fault::Nothing => {}
                Fault::DiskIsFull => return Err(Error::new(ErrorKind::Io, "the disk is full")),
                Fault::Vanishes => self.inner = None,
            }
        }
        let vanished = || Error::new(ErrorKind::Io, "this rank has vanished");
        Ok(self.inner.as_mut().ok_or_else(vanished)?.as_mut())
    }
}

impl Link<HostShipment> for Rough {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn exchange(&mut self, out: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        self.next()?.exchange(out)
    }

    fn ship(&mut self, out: Vec<HostShipment>) -> Result<Vec<HostShipment>> {
        self.next()?.ship(out)
    }

    fn fail(&mut self, error: &Error) {
        if let Some(inner) = &mut self.inner {
            inner.fail(error);
        }
    }
}

fn cpu() -> CpuEngine {
    CpuEngine::new(CpuOptions { threads: Some(1) }).unwrap()
}

fn short_run(scene: &TestScene) -> ShortRun<'_> {
    ShortRun {
        scene,
        size: 4,
        rounds: Rounds::Some,
    }
}

/// Splats and state between segments, and the number of the next segment: what a checkpoint holds.
type Checkpoint = (usize, Splats, Option<OptimizerState>);

/// Trains from a checkpoint on. After each segment there is another checkpoint.
fn train(run: &ShortRun<'_>, engine: &mut dyn Engine, at: &mut Checkpoint) -> Result<()> {
    run.begin(engine, &at.1, at.2.as_ref())?;
    while at.0 < ShortRun::SEGMENTS {
        run.segment(engine, at.0)?;
        let (splats, state) = engine.download()?;
        *at = (at.0 + 1, splats, Some(state));
    }
    Ok(())
}

/// Trains as the seed says, and continues after a fault. Returns what failed, and the end of the run.
fn simulate(plan: Plan) -> (Option<Error>, Checkpoint) {
    let scene = scenes::named("crowd");
    let run = short_run(&scene);
    let mut at = (0, scene.splats.clone(), None);
    let first = plan.engine();
    let failed = match first {
        Ok(mut engine) => train(&run, engine.as_mut(), &mut at).err(),
        Err(error) => Some(error),
    };
    if failed.is_some() {
        let next = Plan {
            ranks: plan.next,
            fault: Fault::Nothing,
            ..plan
        };
        train(&run, next.engine().unwrap().as_mut(), &mut at).unwrap();
    }
    (failed, at)
}

#[test]
fn runs_on_rough_links_end_with_the_same_bits() {
    let seeds = std::env::var("DAPPLE_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let scene = scenes::named("crowd");
    let run = short_run(&scene);
    let mut expected = (0, scene.splats.clone(), None);
    train(&run, &mut cpu(), &mut expected).unwrap();
    let (mut broken, mut led) = (0, 0);
    for seed in 0..seeds {
        let plan = Plan::of(seed);
        let (send, receive) = channel();
        thread::spawn(move || {
            // No one receives it after the time is over.
            drop(send.send(simulate(plan)));
        });
        let (failed, end) = receive
            .recv_timeout(TIME)
            .unwrap_or_else(|_| panic!("{plan:?} did not end"));
        assert!(end == expected, "{plan:?}: other results");
        if let Some(error) = failed {
            broken += 1;
            led += u64::from(plan.is_led);
            let what = error.what();
            let own = ["the disk is full", "this rank has vanished"];
            // A leader names the rank; in one process the fault itself is the error.
            let is_named = match plan.is_led && plan.rank > 0 {
                true => what.contains(&format!("rank {} ", plan.rank)),
                false => own.contains(&what),
            };
            assert!(is_named, "{plan:?}: {error}");
        }
    }
    // The plans are not all harmless.
    assert!(broken * 3 >= seeds && led > 0, "{broken} of {seeds} broke");
}
