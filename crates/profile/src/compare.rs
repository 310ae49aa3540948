//! [`compare`]: shows the changes of time between two profiles, and which of them are more than noise.
//!
//! 1. The step, the phases and the stages of both profiles are paired. A row of only one profile has no ratio.
//! 2. A ratio is that of medians over steps. Its interval is a percentile bootstrap (Efron, 1979): the steps of both
//!    are resampled with replacement, by a generator with a fixed seed, and the middle 95 % of the resulting ratios is
//!    the interval. Steps are taken as independent, so the interval does not include drift within a run.
//! 3. If single steps are not known, the interval comes from the standard error of a median (1.2533 times that of the
//!    mean, for a normal distribution). Phases without stages have one total for the whole run and so no interval.
//! 4. The control of both profiles (a loop that no change affects) shows the changes of the machine between the runs,
//!    which no interval over steps includes. A change is significant if it is above [`LEAST_CHANGE`] and its interval
//!    excludes 1 and all changes of the control.
//! 5. Nothing is marked in three cases: a profile has no control; the control moved by more than [`control::STEADY`],
//!    between the runs or within one; a profile has the finding that its steps are noisy. The first warning gives the
//!    case.

use crate::control;
use crate::profile::{Fact, Phase, Profile, StageSummary, Stats};
use crate::stats::median_of_sorted;
use serde::{Deserialize, Serialize};

/// Smaller changes are not marked: the layout of code and memory changes times that much.
pub const LEAST_CHANGE: f64 = 0.02;

/// With fewer steps, resampling is meaningless.
const FEW: usize = 5;

/// Draws of a bootstrap; fewer if there are many steps.
const DRAWS: usize = 1000;

/// Most steps that a bootstrap draws over all its draws.
const DRAWN: usize = 2_000_000;

/// Normal quantile of 97.5 %.
const Z: f64 = 1.96;

/// Standard error of a median over that of the mean, of normal values: the root of pi over 2.
const MEDIAN_ERROR: f64 = 1.2533;

/// Two profiles, compared row by row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Identity of the old profile: program, version, commit, time.
    pub old: String,
    /// Identity of the new profile.
    pub new: String,
    /// Reasons that the profiles may not be comparable, the worst first: a busier machine, other devices, other
    /// settings.
    pub warnings: Vec<String>,
    /// True if changes are marked; if not, the first warning gives the reason.
    #[serde(default)]
    pub is_marked: bool,
    /// Change of the control: ratio of its medians over all moments, and the extremes between moments.
    #[serde(default)]
    pub control: Option<Ratio>,
    /// The step, then phases, then stages.
    pub rows: Vec<Row>,
}

/// Kind of a row of a [`Comparison`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A whole step.
    Step,
    /// A row of the budget.
    Phase,
    /// A stage.
    Stage,
}

/// An item with times in at least one profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Kind of the item.
    pub kind: RowKind,
    /// Name of the item.
    pub name: String,
    /// Median of the old profile, ns; `None` without such a row. For phases without stages, the mean.
    pub old_ns: Option<f64>,
    /// Median of the new profile, ns; see [`Self::old_ns`].
    pub new_ns: Option<f64>,
    /// New over old.
    pub ratio: Option<Ratio>,
    /// True if the change is more than noise, than the change of the machine, and than [`LEAST_CHANGE`].
    pub significant: bool,
}

/// New over old: under 1 is faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Ratio of the medians.
    pub value: f64,
    /// Interval of 95 %; `None` if it is not known.
    pub interval: Option<[f64; 2]>,
}

/// Times of one item in one profile.
struct Times {
    typical_ns: f64,
    steps: Vec<f64>,
    /// Relative standard error of `typical_ns`, if single steps are not known.
    error: Option<f64>,
}

impl Times {
    fn of_steps(mut steps: Vec<f64>) -> Option<Self> {
        steps.retain(|ns| *ns > 0.0);
        steps.sort_unstable_by(f64::total_cmp);
        (!steps.is_empty()).then(|| Self {
            typical_ns: median_of_sorted(&steps),
            steps,
            error: None,
        })
    }

    fn of_stats(stats: &Stats) -> Self {
        let known = stats.count as usize >= FEW;
        Self {
            typical_ns: stats.median,
            steps: Vec::new(),
            error: known.then(|| MEDIAN_ERROR * stats.relative_error()),
        }
    }

    fn of_total(per_step_ns: f64) -> Self {
        Self {
            typical_ns: per_step_ns,
            steps: Vec::new(),
            error: None,
        }
    }

    fn error(&self) -> Option<f64> {
        let known = self.steps.len() >= FEW;
        let of_steps =
            || known.then(|| MEDIAN_ERROR * Stats::from_values(&self.steps).relative_error());
        self.error.or_else(of_steps)
    }
}

/// Compares two profiles.
pub fn compare(old: &Profile, new: &Profile) -> Comparison {
    let durations = |p: &Profile| p.steps.iter().map(|step| step.duration_ns).collect();
    let step_of = |p: &Profile| Times::of_steps(durations(p));
    let control = control::between(old, new);
    let indefensible = control::indefensible(old, new, control.as_ref());
    // A change within this band is the machine's; without marks there is no band.
    let band = match control.and_then(|ratio| ratio.interval) {
        Some([low, high]) if indefensible.is_none() => Some([low.min(1.0), high.max(1.0)]),
        _ => None,
    };
    let row = |kind, name: &str, old, new| row(kind, name, (old, new), band);
    let mut rows = vec![row(RowKind::Step, "step", step_of(old), step_of(new))];
    for budget in &new.budget.rows {
        let phase = budget.phase;
        let (old, new) = (of_phase(old, phase), of_phase(new, phase));
        let some = |times: &Option<Times>| times.as_ref().is_some_and(|t| t.typical_ns > 0.0);
        if some(&old) || some(&new) {
            rows.push(row(RowKind::Phase, phase.name(), old, new));
        }
    }
    let gone = |stage: &&StageSummary| !new.stages.iter().any(|s| s.name == stage.name);
    let stages = new
        .stages
        .iter()
        .chain(old.stages.iter().filter(gone))
        .map(|stage| stage.name.as_str());
    for name in stages {
        let (old, new) = (of_stage(old, name), of_stage(new, name));
        rows.push(row(RowKind::Stage, name, old, new));
    }
    Comparison {
        old: label(old),
        new: label(new),
        is_marked: indefensible.is_none(),
        control,
        warnings: indefensible.into_iter().chain(warnings(old, new)).collect(),
        rows,
    }
}

fn label(profile: &Profile) -> String {
    let program = &profile.program;
    let commit = program.commit.as_deref().map(|c| format!(" ({c})"));
    let mut label = format!(
        "{} {}{}",
        program.name,
        program.version,
        commit.unwrap_or_default()
    );
    if !program.started.is_empty() {
        label = format!("{label}, {}", program.started);
    }
    label
}

fn warnings(old: &Profile, new: &Profile) -> Vec<String> {
    let mut warnings = Vec::new();
    let clocks = [old, new].map(|profile| profile.method.device_timestamps);
    if clocks[0] != clocks[1] {
        let which = if clocks[0] { "old" } else { "new" };
        warnings.push(format!(
            "only the {which} profile was timed by the device: their stages are not comparable"
        ));
    }
    differences(
        "the device differs",
        &old.device,
        &new.device,
        &mut warnings,
    );
    differences(
        "settings differ",
        &old.settings,
        &new.settings,
        &mut warnings,
    );
    warnings
}

fn differences(what: &str, old: &[Fact], new: &[Fact], warnings: &mut Vec<String>) {
    let value = |facts: &[Fact], name: &str| {
        let fact = facts.iter().find(|fact| fact.name == name);
        fact.map_or("nothing".to_owned(), |fact| fact.value.clone())
    };
    let mut names: Vec<&str> = Vec::new();
    for fact in old.iter().chain(new) {
        if !names.contains(&fact.name.as_str()) {
            names.push(&fact.name);
        }
    }
    for name in names {
        let (was, is) = (value(old, name), value(new, name));
        if was != is {
            warnings.push(format!("{what}: {name} was {was}, is {is}"));
        }
    }
}

fn of_stage(profile: &Profile, name: &str) -> Option<Times> {
    let at = profile.stages.iter().position(|s| s.name == name)?;
    let steps = profile.steps.iter();
    let steps = steps.filter_map(|step| step.stages_ns.get(at).copied());
    Times::of_steps(steps.collect()).or_else(|| Some(Times::of_stats(&profile.stages[at].time)))
}

/// Returns the times of a phase: by step if it has stages, else over the whole run.
fn of_phase(profile: &Profile, phase: Phase) -> Option<Times> {
    let stages = profile.stages.iter().enumerate();
    let stages: Vec<usize> = stages
        .filter(|(_, stage)| stage.phase == phase)
        .map(|(i, _)| i)
        .collect();
    let sum = |step: &Vec<f64>| stages.iter().filter_map(|&i| step.get(i)).sum::<f64>();
    let steps = profile.steps.iter().map(|step| sum(&step.stages_ns));
    let by_step = Times::of_steps(steps.collect());
    by_step.or_else(|| {
        let row = profile.budget.rows.iter().find(|row| row.phase == phase)?;
        Some(Times::of_total(row.per_step_ns))
    })
}

/// Compares one item. `band`: change of the machine itself; `None` if nothing is to be marked.
fn row(
    kind: RowKind,
    name: &str,
    (old, new): (Option<Times>, Option<Times>),
    band: Option<[f64; 2]>,
) -> Row {
    let ratio = old
        .as_ref()
        .zip(new.as_ref())
        .and_then(|(old, new)| ratio(old, new));
    let significant = ratio.is_some_and(|ratio| {
        let beyond =
            |([low, high], [least, most]): ([f64; 2], [f64; 2])| low > most || high < least;
        let sure = ratio.interval.zip(band).is_some_and(beyond);
        sure && (ratio.value - 1.0).abs() > LEAST_CHANGE
    });
    Row {
        kind,
        name: name.into(),
        old_ns: old.map(|times| times.typical_ns),
        new_ns: new.map(|times| times.typical_ns),
        ratio,
        significant,
    }
}

fn ratio(old: &Times, new: &Times) -> Option<Ratio> {
    let value = new.typical_ns / old.typical_ns;
    if !value.is_finite() {
        return None;
    }
    let interval = if old.steps.len() >= FEW && new.steps.len() >= FEW {
        bootstrap(&old.steps, &new.steps)
    } else {
        old.error().zip(new.error()).map(|(a, b)| {
            let off = Z * a.hypot(b);
            [value * (1.0 - off).max(0.0), value * (1.0 + off)]
        })
    };
    Some(Ratio { value, interval })
}

/// Returns the middle 95 % of ratios of medians of resampled steps.
fn bootstrap(old: &[f64], new: &[f64]) -> Option<[f64; 2]> {
    let draws = (DRAWN / (old.len() + new.len())).clamp(DRAWS / 5, DRAWS);
    let mut random = Random(0x0DA9_91E5);
    let mut drawn = Vec::new();
    let mut median = |values: &[f64]| {
        drawn.clear();
        drawn.extend((0..values.len()).map(|_| values[random.below(values.len())]));
        let half = drawn.len() / 2;
        let (below, &mut upper, _) = drawn.select_nth_unstable_by(half, f64::total_cmp);
        if values.len() % 2 == 1 {
            upper
        } else {
            let lower = below.iter().copied().fold(f64::MIN, f64::max);
            lower.midpoint(upper)
        }
    };
    let mut ratios: Vec<f64> = (0..draws)
        .map(|_| median(new) / median(old))
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| ratios.get((part * (ratios.len().max(1) - 1) as f64).round() as usize);
    Some([*at(0.025)?, *at(0.975)?])
}

/// SplitMix64 (Steele, Lea and Flood, 2014): the same draws each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        // The high word scales; its bias is below a part in 2^32 over `end`.
        (((z >> 32) * end as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::planted::{control, profile, setup};
    use crate::{Recorder, Span, Track};

    /// Returns a profile whose blend takes `blend_us` with a scatter of 10 %, update 100 us without.
    fn run(blend_us: f64) -> Profile {
        let step = |recorder: &Recorder, i: u64, begin: i64| {
            let scatter = 0.95 + 0.1 * ((i * 7) % 20) as f64 / 20.0;
            let blend = Span::new("blend", begin, (blend_us * scatter * 1e3) as u64);
            recorder.add_span(Track::Device, blend.step(i));
            let update = Span::new("update", begin + 500_000, 100_000);
            recorder.add_span(Track::Device, update.step(i));
        };
        profile(step, &setup()).0
    }

    fn find<'a>(comparison: &'a Comparison, kind: RowKind, name: &str) -> &'a Row {
        let mut rows = comparison.rows.iter();
        rows.find(|row| row.kind == kind && row.name == name)
            .unwrap()
    }

    #[test]
    fn a_profile_is_no_different_from_itself() {
        let same = compare(&run(200.0), &run(200.0));
        assert!(same.warnings.is_empty());
        for row in &same.rows {
            assert_eq!(row.ratio.unwrap().value, 1.0, "{}", row.name);
            assert!(!row.significant, "{}", row.name);
        }
        let [low, high] = find(&same, RowKind::Stage, "blend")
            .ratio
            .unwrap()
            .interval
            .unwrap();
        assert!(low < 1.0 && high > 1.0 && low > 0.9 && high < 1.1);
    }

    #[test]
    fn a_change_is_marked_where_it_is_and_only_there() {
        let faster = compare(&run(200.0), &run(150.0));
        for kind in [RowKind::Stage, RowKind::Phase] {
            let name = if kind == RowKind::Stage {
                "blend"
            } else {
                "forward"
            };
            let blend = find(&faster, kind, name);
            assert!((blend.ratio.unwrap().value - 0.75).abs() < 1e-4);
            let [low, high] = blend.ratio.unwrap().interval.unwrap();
            assert!(low > 0.7 && low < 0.75 && high > 0.75 && high < 0.8);
            assert!(blend.significant);
        }
        assert!(!find(&faster, RowKind::Stage, "update").significant);
        assert!(!find(&faster, RowKind::Step, "step").significant);
        // Gaps have one total: a ratio without an interval.
        let gaps = find(&faster, RowKind::Phase, "gaps");
        assert!(gaps.ratio.unwrap().interval.is_none() && !gaps.significant);
    }

    #[test]
    fn a_change_within_noise_or_below_two_percent_is_not_marked() {
        assert!(!find(&compare(&run(200.0), &run(202.0)), RowKind::Stage, "blend").significant);
        let mut new = run(200.0);
        for step in &mut new.steps {
            step.stages_ns[1] *= 1.01;
        }
        let update = compare(&run(200.0), &new);
        let update = find(&update, RowKind::Stage, "update");
        assert!(update.ratio.unwrap().interval.unwrap()[0] > 1.0 && !update.significant);
    }

    #[test]
    fn a_busier_machine_is_said_first_and_nothing_is_marked() {
        let on = |blend_us: f64, ms: [f64; 4]| Profile {
            control: Some(control(ms)),
            ..run(blend_us)
        };
        let quiet = [1.0, 1.01, 1.0, 0.99];
        let marked = |comparison: &Comparison| comparison.rows.iter().any(|row| row.significant);
        // The program is the same, and takes longer because the machine is slower.
        let busier = compare(&on(200.0, quiet), &on(300.0, [1.5, 1.4, 1.6, 1.5]));
        assert!(!marked(&busier) && !busier.is_marked);
        assert!(busier.warnings[0].contains("busier or slower in the new run"));
        assert!(
            busier.warnings[0].contains("1.50 times"),
            "{}",
            busier.warnings[0]
        );
        let quieter = compare(&on(300.0, [1.5; 4]), &on(200.0, quiet));
        assert!(!marked(&quieter) && quieter.warnings[0].contains("in the old run"));
        let unsteady = compare(&on(200.0, quiet), &on(300.0, [1.0, 1.0, 1.3, 1.0]));
        assert!(!marked(&unsteady) && unsteady.warnings[0].contains("not steady in the new run"));
        let mut before = on(200.0, quiet);
        before.control = None;
        let unknown = compare(&before, &on(300.0, quiet));
        assert!(!marked(&unknown) && unknown.warnings[0].contains("control"));
        let mut noisy = on(300.0, quiet);
        for finding in &mut noisy.findings {
            finding.fired |= finding.rule == "noisy_measurement";
        }
        let noisy = compare(&on(200.0, quiet), &noisy);
        assert!(!marked(&noisy) && noisy.warnings[0].contains("has noisy steps"));
        // A real change on a quiet machine is marked.
        let real = compare(&on(200.0, quiet), &on(300.0, quiet));
        assert!(marked(&real) && real.is_marked && real.warnings.is_empty());
    }

    #[test]
    fn what_the_control_changed_by_is_the_machines() {
        let mut new = run(200.0);
        for step in &mut new.steps {
            step.stages_ns[1] *= 1.06;
        }
        let update = |ms: [f64; 4]| {
            let new = Profile {
                control: Some(control(ms)),
                ..new.clone()
            };
            find(&compare(&run(200.0), &new), RowKind::Stage, "update").significant
        };
        assert!(update([1.0, 1.0, 1.01, 1.02]));
        assert!(!update([1.0, 1.05, 1.07, 1.06]));
    }

    #[test]
    fn without_steps_the_standard_error_serves() {
        let bare = |mean: f64| {
            let mut profile = run(200.0);
            for step in &mut profile.steps {
                step.stages_ns.clear();
            }
            let time = &mut profile.stages[0].time;
            (time.count, time.mean, time.median, time.std) = (25, mean, mean, 0.1 * mean);
            profile
        };
        let rows = compare(&bare(100.0), &bare(200.0));
        let ratio = find(&rows, RowKind::Stage, "blend").ratio.unwrap();
        // Each median is off by 1.2533 * 0.1 / 5, both by the root of 2 times that.
        let off = 1.96 * 1.2533 * 0.02 * 2.0_f64.sqrt();
        let [low, high] = ratio.interval.unwrap();
        assert!((low - 2.0 * (1.0 - off)).abs() < 1e-9);
        assert!((high - 2.0 * (1.0 + off)).abs() < 1e-9);
    }

    #[test]
    fn other_devices_and_other_stages_are_said() {
        let mut old = run(200.0);
        old.device = vec![Fact {
            name: "adapter".into(),
            value: "one".into(),
        }];
        old.method.device_timestamps = false;
        old.stages[1].name = "adam".into();
        let comparison = compare(&old, &run(200.0));
        assert_eq!(comparison.warnings.len(), 2);
        assert!(comparison.warnings[1].contains("adapter was one, is nothing"));
        let new = find(&comparison, RowKind::Stage, "update");
        assert!(new.old_ns.is_none() && new.ratio.is_none());
        assert!(find(&comparison, RowKind::Stage, "adam").new_ns.is_none());
    }
}
