//! Density control across ranks without relocation: [`dapple_engine::density`], by the same decisions on every rank.
//!
//! 1. Every rank sends what decisions read of its Gaussians to all. Every rank then decides the same for all Gaussians.
//! 2. The Gaussians after the round have parts of their own. Every rank sends the rows of its Gaussians to the ranks
//!    that need them.
//! 3. Every rank changes the rows that it received: children, clones, moments.
//!
//! [`moved`] also sends rows without a change, to parts with larger blocks.

use crate::link::Link;
use crate::parts::RowLayout;
use crate::wire::floats;
use dapple_engine::density::{self, Censused};
use dapple_engine::{DensifyPlan, DensifyReport, OptimizerState, PARAM_GROUPS, Part, STATISTICS};
use dapple_scene::{Error, Result, Splats};

/// Numbers of a Gaussian that decisions read: logit, scales, 1 for finite Gaussians, mean gradient, centre.
type Entry = [f32; 9];

/// Numbers of all Gaussians that decisions read.
struct Census(Vec<Entry>);

impl Census {
    /// Sends what decisions read of these Gaussians to all ranks, and returns that of all Gaussians.
    fn gather<S>(
        link: &mut dyn Link<S>,
        part: Part,
        (splats, state): (&Splats, &OptimizerState),
    ) -> Result<Self> {
        let is_finite = |i: usize| {
            PARAM_GROUPS.iter().all(|group| {
                let width = group.width(splats.sh_degree);
                let own = &group.values(splats)[i * width..][..width];
                own.iter().all(|value| value.is_finite())
            })
        };
        let own: Vec<Entry> = (0..splats.len())
            .map(|i| {
                let [x, y, z] = splats.scales[i];
                let finite = f32::from(u8::from(is_finite(i)));
                let gradient = state.gradient_sums[i] / state.visible_counts[i].max(1.0);
                let [a, b, c] = splats.means[i];
                [splats.opacities[i], x, y, z, finite, gradient, a, b, c]
            })
            .collect();
        let bytes: &[u8] = bytemuck::cast_slice(&own);
        let received = link.exchange(&vec![bytes; link.ranks()])?;
        let parts = received.iter().map(|part| floats(part));
        let parts: Vec<Vec<f32>> = parts.collect::<Result<_>>()?;
        let entry = |index: usize| {
            let (rank, local) = part.place(index);
            let (entries, _) = parts[rank].as_chunks();
            let entry = entries.get(local).copied();
            entry.ok_or_else(|| Error::internal("a census of another rank is too short"))
        };
        (0..part.total).map(entry).collect::<Result<_>>().map(Self)
    }
}

impl Censused for Census {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn logit(&self, gaussian: usize) -> f32 {
        self.0[gaussian][0]
    }

    fn log_scales(&self, gaussian: usize) -> [f32; 3] {
        let [_, x, y, z, ..] = self.0[gaussian];
        [x, y, z]
    }

    fn is_finite(&self, gaussian: usize) -> bool {
        self.0[gaussian][4] != 0.0
    }

    fn mean(&self, gaussian: usize) -> [f32; 3] {
        let [.., x, y, z] = self.0[gaussian];
        [x, y, z]
    }

    fn mean_gradient(&self, gaussian: usize) -> f32 {
        self.0[gaussian][5]
    }
}

/// Change of a Gaussian in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    /// None: it keeps its moments.
    None,
    /// A clone.
    Clone,
    /// A child of a split, by the number of the sample.
    Child(u32),
}

/// Gaussian after a round: the index that it had before, and its change.
type Origin = (usize, Change);

/// Decides a round.
fn decide(plan: &DensifyPlan, census: &Census) -> (Vec<Origin>, DensifyReport) {
    let (sources, report) = density::sources(plan, census);
    let origins = sources.iter().map(|source| {
        let change = match (source.is_new, source.sample) {
            (false, _) => Change::None,
            (true, None) => Change::Clone,
            (true, Some(sample)) => Change::Child(sample),
        };
        (source.from, change)
    });
    (origins.collect(), report)
}

/// Gaussians of a rank after a round.
pub struct Regrouped {
    /// Splats.
    pub splats: Splats,
    /// Their state, without that of views.
    pub state: OptimizerState,
    /// Report of the round.
    pub report: DensifyReport,
}

/// Executes a round; the splats and their state are those of this rank's part. The Gaussians after it have parts of a new
/// model.
///
/// # Errors
/// A rank that failed.
pub fn round<S>(
    plan: &DensifyPlan,
    link: &mut dyn Link<S>,
    before: Part,
    (splats, state): (&Splats, &OptimizerState),
) -> Result<Regrouped> {
    let census = Census::gather(link, before, (splats, state))?;
    let (origins, report) = decide(plan, &census);
    let after = Part::new(link.rank(), link.ranks(), origins.len());
    let change = |row: &mut Row<'_>, (from, change): Origin| row.change(plan, from, change);
    let (splats, mut state) = rows(link, [before, after], (splats, state), &origins, change)?;
    if plan.grow_gradient.is_some() {
        for statistic in STATISTICS.iter().filter(|each| !each.of_antialiased) {
            statistic.set(&mut state, vec![0.0; splats.len()]);
        }
    }
    Ok(Regrouped {
        splats,
        state,
        report,
    })
}

/// Sends the Gaussians of parts to other parts of the same model. Returns those of this rank's part, without the state of views.
///
/// # Errors
/// A rank that failed.
pub fn moved<S>(
    link: &mut dyn Link<S>,
    parts: [Part; 2],
    own: (&Splats, &OptimizerState),
) -> Result<(Splats, OptimizerState)> {
    let origins: Vec<Origin> = (0..parts[0].total).map(|i| (i, Change::None)).collect();
    rows(link, parts, own, &origins, |_, _| ())
}

/// Sends rows from the parts `before` to the parts `after`, and changes those that this rank receives.
fn rows<S>(
    link: &mut dyn Link<S>,
    [before, after]: [Part; 2],
    (splats, state): (&Splats, &OptimizerState),
    origins: &[Origin],
    change: impl Fn(&mut Row<'_>, Origin),
) -> Result<(Splats, OptimizerState)> {
    let (ranks, me) = (link.ranks(), link.rank());
    let layout = RowLayout {
        sh_degree: splats.sh_degree,
        filters: agree_on_filters(link, state)?,
    };
    let rows: Vec<Vec<f32>> = (0..ranks)
        .map(|to| {
            let mut rows = Vec::new();
            for index in after.of(to).ranges().flatten() {
                let (owner, local) = before.place(origins[index].0);
                if owner == me {
                    layout.push(splats, state, local, &mut rows);
                }
            }
            rows
        })
        .collect();
    let out: Vec<&[u8]> = rows.iter().map(|rows| bytemuck::cast_slice(rows)).collect();
    let received = link.exchange(&out)?;
    let received = received.iter().map(|bytes| floats(bytes));
    let received: Vec<Vec<f32>> = received.collect::<Result<_>>()?;
    let width = layout.width();
    let mut places = vec![0; ranks];
    let mut rows = Vec::new();
    for index in after.ranges().flatten() {
        let (owner, _) = before.place(origins[index].0);
        let row = received[owner].get(places[owner]..places[owner] + width);
        let row = row.ok_or_else(|| Error::internal("a rank sent too few Gaussians"))?;
        places[owner] += width;
        let first = rows.len();
        rows.extend_from_slice(row);
        let mut row = Row {
            values: &mut rows[first..],
            params: layout.params(),
        };
        change(&mut row, origins[index]);
    }
    layout.read(&rows)
}

/// Returns true if a rank has 3D filters: one without Gaussians does not know.
fn agree_on_filters<S>(link: &mut dyn Link<S>, state: &OptimizerState) -> Result<bool> {
    let mine = [u8::from(!state.filter_3d.is_empty())];
    let all = link.exchange(&vec![mine.as_slice(); link.ranks()])?;
    Ok(all.iter().any(|bytes| bytes.contains(&1)))
}

/// Numbers of a Gaussian in the order of [`RowLayout`].
struct Row<'a> {
    values: &'a mut [f32],
    /// Number of parameters.
    params: usize,
}

/// Places of parameters in the row of a Gaussian: those of [`PARAM_GROUPS`].
const MEAN: usize = 0;
const SCALE: usize = 3;
const QUAT: usize = 6;
const OPACITY: usize = 10;

impl Row<'_> {
    /// Applies the change of a Gaussian that had the index `from`, and the plan's reset of opacities.
    fn change(&mut self, plan: &DensifyPlan, from: usize, change: Change) {
        match change {
            Change::None => {}
            Change::Clone => self.clear_moments(),
            Change::Child(sample) => {
                self.split(plan, from, sample);
                self.clear_moments();
            }
        }
        if let Some(limit) = plan.reset_opacity {
            self.values[OPACITY] = density::reset_logit(limit, self.values[OPACITY]);
            self.values[self.params + OPACITY] = 0.0;
            self.values[2 * self.params + OPACITY] = 0.0;
        }
    }

    fn clear_moments(&mut self) {
        self.values[self.params..3 * self.params].fill(0.0);
    }

    fn split(&mut self, plan: &DensifyPlan, parent: usize, sample: u32) {
        let scales = [0, 1, 2].map(|k| self.values[SCALE + k]);
        let quat = [0, 1, 2, 3].map(|k| self.values[QUAT + k]);
        let offset = density::child_offset(plan, parent, sample, scales, quat);
        for k in 0..3 {
            self.values[MEAN + k] += offset[k];
            self.values[SCALE + k] = density::child_log_scale(scales[k]);
        }
    }
}
