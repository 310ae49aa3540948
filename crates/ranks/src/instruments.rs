//! Measurements of ranks: sums over the engines of this process, and the times of each rank.

use crate::RanksEngine;
use dapple_engine::instruments::{
    Amount, Cost, Counters, Detail, Fact, Instrumented, RankTimes, StageRun, Work,
};
use dapple_engine::{Sharded, Stage, ViewId};
use dapple_profile::ceilings::{DeviceKey, Limits, Measured};
use dapple_scene::{Error, Progress, Result};

impl<E: Sharded> RanksEngine<E> {
    /// # Errors
    /// There is no rank.
    fn first(&self) -> Result<&E> {
        let first = self.engines().next();
        first.ok_or_else(|| Error::internal("there is no rank"))
    }
}

impl<E: Sharded> Instrumented for RanksEngine<E> {
    /// Returns false: the last step of a batch returns when ranks have taken all of them.
    fn has_queue(&self) -> bool {
        false
    }

    fn wait(&self) -> Result<()> {
        self.engines().try_for_each(Instrumented::wait)
    }

    fn workers(&self) -> Option<usize> {
        self.engines().map(Instrumented::workers).sum()
    }

    fn device(&self) -> Vec<Fact> {
        let mut facts = vec![Fact::count("ranks", self.engines().count() as u64)];
        facts.extend(self.engines().next().map_or(Vec::new(), E::device));
        facts
    }

    /// Returns the sums over the ranks of this process. Facts of a Gaussian or without a sum are those of the first rank.
    fn memory(&self, work: &Work) -> Vec<Fact> {
        let ranks = self.engines().count().max(1) as u64;
        let own = Work {
            gaussians: work.gaussians / ranks,
            ..*work
        };
        let mut engines = self.engines().map(|engine| engine.memory(&own));
        let first = engines.next().unwrap_or_default();
        engines.fold(first, |sums, of_rank| {
            let pairs = sums.into_iter().zip(of_rank);
            pairs.map(|(sum, other)| added(sum, &other)).collect()
        })
    }

    /// Stops the measurement of waits if `detail` is `None`. Stages of ranks are not timed on devices.
    fn set_detail(&mut self, detail: Option<Detail>) -> Result<bool> {
        if detail.is_none() {
            self.stop_waits();
        }
        Ok(false)
    }

    fn counters(&self) -> Counters {
        let counts = self.engines().map(Instrumented::counters);
        counts.fold(Counters::default(), |sum, counts| sum + counts)
    }

    fn rank_times(&mut self) -> Vec<RankTimes> {
        self.take_times()
    }

    fn stages(&self, view: ViewId) -> Vec<StageRun> {
        let stages = self.engines().map(|engine| engine.stages(view));
        let stages = stages.map(|stages| {
            let stages = stages.into_iter();
            let names = stages.map(|StageRun { name, .. }| StageRun {
                name,
                // Dispatches are counted for a whole view on one engine only.
                dispatches: None,
            });
            names.collect::<Vec<_>>()
        });
        stages.max_by_key(Vec::len).unwrap_or_default()
    }

    /// Returns `None`: times of stages are means over ranks, which share the work of some stages and not of others.
    fn cost(&self, _stage: Stage, _work: &Work) -> Option<Cost> {
        None
    }

    fn ceilings_key(&self, processor: &str) -> DeviceKey {
        match self.engines().next() {
            Some(first) => first.ceilings_key(processor),
            None => DeviceKey {
                name: "no rank".to_owned(),
                driver: String::new(),
            },
        }
    }

    fn measure_ceilings(&self, processor: &str, progress: &dyn Progress) -> Result<Measured> {
        self.first()?.measure_ceilings(processor, progress)
    }

    fn measure_limits(&self) -> Result<Limits> {
        self.first()?.measure_limits()
    }
}

/// Returns a fact with the sum of both values, if they are of a kind that adds up.
fn added(fact: Fact, other: &Fact) -> Fact {
    let value = match (fact.value, &other.value) {
        (Amount::Bytes(a), Amount::Bytes(b)) => Amount::Bytes(a + b),
        (Amount::Count(a), Amount::Count(b)) => Amount::Count(a + b),
        (value, _) => value,
    };
    Fact { value, ..fact }
}
