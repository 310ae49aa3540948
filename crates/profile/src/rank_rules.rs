//! Rules about ranks that compute a step together, and about input: see [`crate::diagnosis`].

use crate::diagnosis::{Rule, longest_span, share_of};
use crate::format::{digits, percent, scaled, time, whole_percent};
use crate::profile::{Finding, Phase, Profile};
use crate::setup::{RankLoad, Setup};

/// Transfers between ranks, of wall time.
const WIRE: f64 = 0.1;
/// Waits of ranks for slower ranks, of wall time.
const WAITING: f64 = 0.1;
/// Busy time of a rank over the mean: above it, the same rank is the slowest in most exchanges.
const SLOWEST: f64 = 1.2;
/// The input's row, of wall time.
const INPUT: f64 = 0.1;

/// Returns the mean over ranks.
fn mean(ranks: &[RankLoad], of: impl Fn(&RankLoad) -> f64) -> f64 {
    ranks.iter().map(of).sum::<f64>() / ranks.len().max(1) as f64
}

/// Returns the part of the wall time of a step; 0 if nothing was measured.
fn share_of_step(profile: &Profile, ns: f64) -> f64 {
    let a_step = profile.budget.wall_ns / profile.steps.len().max(1) as f64;
    (ns / a_step.max(1.0)).clamp(0.0, 1.0)
}

pub(crate) fn wire_bound(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let ranks = &setup.ranks;
    if ranks.len() < 2 {
        return Vec::new();
    }
    let rule = Rule::new(
        "wire_bound",
        format!(
            "messages between ranks take more than {} of wall time, beyond the waits for slower ranks",
            whole_percent(WIRE)
        ),
        "a faster link between the ranks, fewer ranks, or more work for each byte: larger photos, fewer Gaussians \
         that a photo shows",
    );
    let transfer_ns = mean(ranks, |rank| rank.transfer_ns);
    let share = share_of_step(profile, transfer_ns);
    let sent = mean(ranks, |rank| rank.sent_bytes);
    rule.step(
        share > WIRE,
        share,
        format!(
            "transfers {}, {} a step; a rank sends {} a step, {}",
            percent(share),
            time(transfer_ns),
            scaled(sent, "B"),
            scaled(sent / (transfer_ns.max(1.0) / 1e9), "B/s"),
        ),
    )
}

pub(crate) fn unbalanced(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let ranks = &setup.ranks;
    if ranks.len() < 2 {
        return Vec::new();
    }
    let busy = mean(ranks, |rank| rank.busy_ns).max(1.0);
    let slowest = ranks.iter().enumerate();
    let slowest = slowest.max_by(|(_, a), (_, b)| a.busy_ns.total_cmp(&b.busy_ns));
    let (slowest, most) = slowest.map_or((0, 0.0), |(rank, load)| (rank, load.busy_ns));
    let ratio = most / busy;
    let rule = Rule::new(
        "unbalanced",
        format!(
            "ranks wait for slower ranks more than {} of wall time",
            whole_percent(WAITING)
        ),
        if ratio > SLOWEST {
            "one rank is the slowest: give each rank the same device and as many threads, and as many photos \
             (--views-per-step: a multiple of the ranks)"
        } else {
            "another rank is the slowest each time: more photos a step (--views-per-step), and photos of one size"
        },
    );
    let share = share_of_step(profile, mean(ranks, |rank| rank.wait_ns));
    let most_waits = ranks.iter().map(|rank| rank.wait_ns);
    let most_waits = most_waits.fold(0.0, f64::max);
    rule.step(
        share > WAITING,
        share,
        format!(
            "ranks wait {}, at most {} of the time; the slowest, rank {slowest}, is busy {} times the mean of {}",
            percent(share),
            percent(share_of_step(profile, most_waits)),
            digits(ratio),
            time(busy),
        ),
    )
}

pub(crate) fn decode_bound(profile: &Profile, _: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "decode_bound",
        format!(
            "waiting for input that is read and decoded takes more than {} of wall time",
            whole_percent(INPUT)
        ),
        "keep more input in memory (--photo-memory), decode on more cores, store smaller files (--downscale)",
    );
    let share = share_of(profile, Phase::Input);
    let longest = longest_span(profile, Phase::Input);
    rule.step(
        share > INPUT,
        share,
        format!("input {}{longest}", percent(share)),
    )
}
