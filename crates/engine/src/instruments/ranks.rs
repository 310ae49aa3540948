//! [`RankTimes`]: times of engines that hold parts of one model.

/// Time and bytes of a rank in some steps. Times are wall times on the host, with waits for the device where the result
/// is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RankTimes {
    /// Views of steps.
    pub views: u64,
    /// Projecting its own Gaussians, nanoseconds.
    pub project_ns: u64,
    /// Rendering and comparing its views, with the backward pass.
    pub compare_ns: u64,
    /// Moving its own Gaussians.
    pub update_ns: u64,
    /// Exchanges with other ranks, with the waits for them.
    pub exchange_ns: u64,
    /// Part of [`Self::exchange_ns`] in which it waited for slower ranks: the time above that of the rank that came
    /// last. 0 if not all ranks are in this process.
    pub wait_ns: u64,
    /// Bytes that it sent to other ranks.
    pub sent_bytes: u64,
}

impl RankTimes {
    /// Returns the time of work outside exchanges.
    pub fn busy_ns(&self) -> u64 {
        self.project_ns + self.compare_ns + self.update_ns
    }

    /// Returns the time of exchanges without waits for slower ranks.
    pub fn transfer_ns(&self) -> u64 {
        self.exchange_ns.saturating_sub(self.wait_ns)
    }

    /// Adds other steps of the same rank.
    pub fn add(&mut self, other: &Self) {
        self.views += other.views;
        self.project_ns += other.project_ns;
        self.compare_ns += other.compare_ns;
        self.update_ns += other.update_ns;
        self.exchange_ns += other.exchange_ns;
        self.wait_ns += other.wait_ns;
        self.sent_bytes += other.sent_bytes;
    }

    /// Returns the busy time of the slowest rank over the mean of all; 1 if nothing was measured.
    pub fn balance(ranks: &[Self]) -> f64 {
        let busy = ranks.iter().map(Self::busy_ns);
        let most = busy.clone().max().unwrap_or(0) as f64;
        let mean = busy.sum::<u64>() as f64 / ranks.len().max(1) as f64;
        if mean > 0.0 { most / mean } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balance_is_the_slowest_rank_over_the_mean() {
        let rank = |project_ns, compare_ns| RankTimes {
            project_ns,
            compare_ns,
            update_ns: 1,
            exchange_ns: 1000,
            ..RankTimes::default()
        };
        let ranks = [rank(9, 10), rank(9, 50), rank(0, 0)];
        assert_eq!(RankTimes::balance(&ranks), 60.0 / 27.0);
        assert_eq!(RankTimes::balance(&[]), 1.0);
    }
}
