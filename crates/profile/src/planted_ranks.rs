//! Synthetic timelines of ranks and of input: tests of the rules about them.

use crate::planted::{about, budget, finding, plain_step, profile, setup};
use crate::profile::{Finding, Phase, Profile};
use crate::{RankLoad, Recorder, Setup, Span, Track};

/// Records a step of the host: work in 0..`work` us, the rest up to 1000 us in a span of `name`.
fn split_step(name: &'static str, phase: Phase, work: i64) -> impl Fn(&Recorder, u64, i64) {
    move |recorder, i, begin| {
        let span = |name, from: i64, to: i64| {
            Span::new(name, begin + 1000 * from, (1000 * (to - from)) as u64).step(i)
        };
        let work_span = span("blend", 0, work).phase(Phase::Forward);
        recorder.add_span(Track::Host, work_span);
        recorder.add_span(Track::Host, span(name, work, 1000).phase(phase));
    }
}

/// Returns a rank that is busy, waits and transfers for this number of microseconds in a step.
fn load(busy: f64, wait: f64, transfer: f64) -> RankLoad {
    RankLoad {
        busy_ns: 1e3 * busy,
        wait_ns: 1e3 * wait,
        transfer_ns: 1e3 * transfer,
        sent_bytes: 2e6,
    }
}

fn fired(profile: &Profile) -> Vec<&str> {
    let rules = ["wire_bound", "unbalanced", "decode_bound"];
    let all = profile.findings.iter().filter(|finding| finding.fired);
    let names = all.map(|finding| finding.rule.as_str());
    names.filter(|name| rules.contains(name)).collect()
}

#[test]
fn a_planted_wire_and_a_planted_slow_rank_are_found() {
    let with = |ranks: &[RankLoad]| {
        let setup = Setup {
            ranks: ranks.to_vec(),
            ..setup()
        };
        profile(split_step("exchange", Phase::Exchange, 700), &setup).0
    };
    let even = with(&[load(950.0, 20.0, 30.0), load(950.0, 20.0, 30.0)]);
    assert_eq!(fired(&even), [""; 0]);
    assert!(about(finding(&even, "wire_bound").possible_gain, 0.03));
    assert!(about(finding(&even, "unbalanced").possible_gain, 0.02));

    let wire = with(&[load(690.0, 10.0, 300.0), load(700.0, 0.0, 300.0)]);
    assert_eq!(fired(&wire), ["wire_bound"]);
    let found = finding(&wire, "wire_bound");
    assert!(about(found.possible_gain, 0.3), "{found:?}");
    // 2 MB in 300 us.
    assert!(found.evidence.contains("6.67 GB/s"), "{found:?}");

    // Rank 1 is late each time.
    let slow = with(&[load(400.0, 580.0, 20.0), load(980.0, 0.0, 20.0)]);
    assert_eq!(fired(&slow), ["unbalanced"]);
    let found = finding(&slow, "unbalanced");
    assert!(about(found.possible_gain, 0.29), "{found:?}");
    assert!(found.evidence.contains("rank 1"), "{found:?}");
    assert!(found.remedy.contains("the same device"), "{found:?}");

    // Another rank is late each time.
    let turns = with(&[load(690.0, 290.0, 20.0), load(700.0, 280.0, 20.0)]);
    assert_eq!(fired(&turns), ["unbalanced"]);
    let found = finding(&turns, "unbalanced");
    assert!(found.remedy.contains("more photos a step"), "{found:?}");

    // A single rank has no other to wait for.
    let single = with(&[load(500.0, 0.0, 500.0)]);
    let of_ranks = |f: &&Finding| ["wire_bound", "unbalanced"].contains(&f.rule.as_str());
    assert_eq!(single.findings.iter().filter(of_ranks).count(), 0);
}

#[test]
fn planted_waits_for_input_are_found() {
    let waiting = split_step("wait for a photo", Phase::Input, 800);
    let (late, _) = profile(waiting, &setup());
    assert_eq!(
        budget(&late),
        [(Phase::Forward, 800.0), (Phase::Input, 200.0)]
    );
    assert_eq!(fired(&late), ["decode_bound"]);
    let found = finding(&late, "decode_bound");
    assert!(about(found.possible_gain, 0.2), "{found:?}");
    assert!(found.evidence.contains("\"wait for a photo\""), "{found:?}");
    assert!(crate::profile_text(&late).contains("\n  input "));

    let (early, _) = profile(split_step("wait for a photo", Phase::Input, 950), &setup());
    assert_eq!(fired(&early), [""; 0]);
    // A row of a rare phase is shown only if it took time.
    let (plain, _) = profile(plain_step, &setup());
    assert!(!crate::profile_text(&plain).contains("\n  input "));
}
