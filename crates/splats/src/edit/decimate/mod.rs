//! Decimation: merges neighbouring Gaussians, the pair with the least visible change first.
//!
//! 1. Each Gaussian's nearest others (`neighbours`) are candidates to merge with.
//! 2. Every candidate pair has a cost, the loss of an image by the merge (`gaussian`). Every Gaussian has a cost too:
//!    the loss by its removal. If contributions to photos are known, losses are weighted by visibility.
//! 3. The cheapest candidate is applied: the pair becomes a new Gaussian with the candidates of both. This repeats
//!    until the requested number remains. In later pairs, a merged Gaussian stands for its parts.
//! 4. Moments and coefficients are means by weight; a covariance becomes scales and a rotation by its
//!    eigenvectors. The numbers of a Gaussian that was not merged are bit-identical.
//!
//! Step 3 is one thread's, as each merging depends on those before; about a microsecond a candidate. The order of
//! equal costs is that of indices, so the result is a function of its input.

mod gaussian;

use super::condition::sigmoid;
use super::neighbours::neighbours;
use crate::{Error, ErrorKind, Progress, Result, Splats};
use gaussian::{Gaussian, eigen};
use glam::{DMat3, DQuat, DVec3};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;

/// Candidates of a Gaussian: with twice as many the scores of `bird` change by 0.1 dB or less.
const CANDIDATES: usize = 12;

/// Stands for nothing, where a Gaussian is expected.
const NOTHING: u32 = u32::MAX;

/// Merges between two looks at whether to stop.
const PULSE: usize = 4096;

/// How many are to be left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Amount {
    /// So many.
    Count(usize),
    /// So much of what there is, percent.
    Percent(f64),
}

impl Amount {
    /// How many of `len` that are; at least one of some.
    pub fn of(self, len: usize) -> usize {
        match self {
            Self::Count(count) => count.min(len),
            Self::Percent(share) => {
                let count = (len as f64 * share / 100.0).round() as usize;
                count.clamp(len.min(1), len)
            }
        }
    }
}

impl FromStr for Amount {
    type Err = Error;

    /// `50000` or `10%`.
    fn from_str(text: &str) -> Result<Self> {
        let amount = match text.trim().strip_suffix('%') {
            Some(share) => {
                let share = share.parse::<f64>().ok();
                let sound = |share: &f64| *share > 0.0 && *share <= 100.0;
                share.filter(sound).map(Self::Percent)
            }
            None => text.trim().parse().ok().filter(|n| *n > 0).map(Self::Count),
        };
        amount.ok_or_else(|| {
            Error::input(format!("\"{text}\" is no number of Gaussians to keep"))
                .at(text)
                .hint("a count above 0, such as 50000, or a share above 0 up to 100, such as 10%")
        })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(share) => write!(f, "{share}%"),
        }
    }
}

impl TryFrom<String> for Amount {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

/// Merges until at most `count` Gaussians are left; those that are not finite go first. `contributions` are the sums
/// of blend weights over photos, `[N]`, if they are known.
///
/// # Errors
/// A request to stop; contributions of other Gaussians.
pub fn decimate(
    splats: &Splats,
    count: usize,
    contributions: Option<&[f32]>,
    progress: &dyn Progress,
) -> Result<Splats> {
    if contributions.is_some_and(|c| c.len() != splats.len()) {
        return Err(Error::internal(
            "there are not as many contributions as Gaussians",
        ));
    }
    if splats.len() <= count {
        return Ok(splats.clone());
    }
    let finite: Vec<usize> = (0..splats.len())
        .filter(|&i| super::condition::is_finite(splats, i))
        .collect();
    if finite.len() < splats.len() {
        let sound = super::order::gather(splats, &finite);
        let contributions = contributions.map(|c| finite.iter().map(|&i| c[i]).collect::<Vec<_>>());
        return decimate(&sound, count, contributions.as_deref(), progress);
    }
    let mut merging = Merging::new(splats, contributions);
    let target = splats.len() - count;
    progress.start("merging Gaussians", target as u64);
    for done in 0..target {
        if done % PULSE == 0 && done > 0 {
            progress.advance(PULSE as u64);
            if progress.should_stop() {
                progress.finish();
                let what = "the edit was stopped; nothing was written";
                return Err(Error::new(ErrorKind::Interrupted, what));
            }
        }
        merging.one_fewer();
    }
    progress.finish();
    Ok(merging.into_splats(splats))
}

/// Candidate: cost (its bits, which have the order of the number from 0 on), a Gaussian, and the one
/// to merge it with or [`NOTHING`].
type Candidate = Reverse<(u64, u32, u32)>;

struct Merging {
    /// Gaussians of the file, then the merged ones.
    gaussians: Vec<Gaussian>,
    /// All coefficients of each, `sh0` first.
    colours: Vec<f32>,
    stride: usize,
    /// Candidates to merge with, by Gaussian.
    lists: Vec<Vec<u32>>,
    /// Successor of each Gaussian: itself, another, or [`NOTHING`].
    became: Vec<u32>,
    heap: BinaryHeap<Candidate>,
}

impl Merging {
    fn new(splats: &Splats, contributions: Option<&[f32]>) -> Self {
        let (count, rest) = (splats.len(), splats.sh_rest_stride());
        let gaussian = |i: usize| {
            let [w, x, y, z] = splats.quats[i].map(f64::from);
            Gaussian::new(
                DVec3::from(splats.means[i].map(f64::from)),
                DMat3::from_quat(DQuat::from_xyzw(x, y, z, w).normalize()),
                // Beyond these, products of three variances leave the range of f64.
                DVec3::from(splats.scales[i].map(|v| f64::from(v).clamp(-40.0, 40.0).exp())),
                sigmoid(splats.opacities[i].into()),
                contributions.map(|c| f64::from(c[i])),
            )
        };
        let gaussians: Vec<Gaussian> = (0..count).into_par_iter().map(gaussian).collect();
        let mut colours = Vec::with_capacity(2 * count * (rest + 3));
        for i in 0..count {
            colours.extend_from_slice(&splats.sh0[i]);
            colours.extend_from_slice(&splats.sh_rest[i * rest..(i + 1) * rest]);
        }
        let points: Vec<DVec3> = gaussians.iter().map(|g| g.mean).collect();
        let mut merging = Self {
            gaussians,
            colours,
            stride: rest + 3,
            lists: neighbours(&points, CANDIDATES),
            became: (0..count as u32).collect(),
            heap: BinaryHeap::new(),
        };
        let candidates = |i: u32| {
            let merging = &merging;
            let others = merging.lists[i as usize].iter();
            // A pair that is in both lists is one candidate.
            let once = move |j: &&u32| **j > i || !merging.lists[**j as usize].contains(&i);
            let pairs = others.filter(once).map(move |&j| merging.pair(i, j));
            pairs.chain([merging.alone(i)])
        };
        let all = (0..count as u32).into_par_iter();
        let candidates: Vec<Candidate> = all.flat_map_iter(candidates).collect();
        merging.heap = BinaryHeap::from(candidates);
        merging
    }

    fn pair(&self, i: u32, j: u32) -> Candidate {
        let colour = |i: u32| &self.colours[i as usize * self.stride..][..self.stride];
        let terms = colour(i)
            .iter()
            .zip(colour(j))
            .map(|(a, b)| (a - b) * (a - b));
        let apart = f64::from(terms.sum::<f32>());
        let cost = self.gaussians[i as usize].cost(&self.gaussians[j as usize], apart);
        Reverse((cost.to_bits(), i, j))
    }

    fn alone(&self, i: u32) -> Candidate {
        Reverse((
            self.gaussians[i as usize].cost_alone().to_bits(),
            i,
            NOTHING,
        ))
    }

    /// Returns the current successor of a Gaussian; chains are shortened by the search.
    fn now(&mut self, mut i: u32) -> u32 {
        while i != NOTHING && self.became[i as usize] != i {
            let next = self.became[i as usize];
            if next != NOTHING {
                self.became[i as usize] = self.became[next as usize];
            }
            i = next;
        }
        i
    }

    /// Applies the cheapest candidate. There always is one: each remaining Gaussian can be removed.
    fn one_fewer(&mut self) {
        while let Some(Reverse((_, i, j))) = self.heap.pop() {
            if self.became[i as usize] != i {
                continue;
            }
            if j == NOTHING {
                self.became[i as usize] = NOTHING;
                return;
            }
            if self.became[j as usize] == j {
                self.merge(i, j);
                return;
            }
            let now = self.now(j);
            if now != NOTHING && now != i {
                let candidate = self.pair(i, now);
                self.heap.push(candidate);
            }
        }
    }

    fn merge(&mut self, i: u32, j: u32) {
        let merged = self.gaussians[i as usize].merged(&self.gaussians[j as usize]);
        let share = |of: u32| (self.gaussians[of as usize].weight / merged.weight) as f32;
        let (p, q) = (share(i), share(j));
        for at in 0..self.stride {
            let colour = |of: u32| self.colours[of as usize * self.stride + at];
            self.colours.push(p * colour(i) + q * colour(j));
        }
        let new = self.gaussians.len() as u32;
        let here = merged.mean;
        self.gaussians.push(merged);
        self.became.push(new);
        self.became[i as usize] = new;
        self.became[j as usize] = new;
        let mut near = std::mem::take(&mut self.lists[i as usize]);
        near.append(&mut self.lists[j as usize]);
        let mut near: Vec<u32> = near.into_iter().map(|of| self.now(of)).collect();
        near.retain(|&of| of != NOTHING && of != new);
        near.sort_unstable();
        near.dedup();
        let far = |of: u32| self.gaussians[of as usize].mean.distance_squared(here);
        near.sort_by(|&a, &b| far(a).total_cmp(&far(b)).then(a.cmp(&b)));
        near.truncate(CANDIDATES);
        for &of in &near {
            let candidate = self.pair(new, of);
            self.heap.push(candidate);
        }
        let candidate = self.alone(new);
        self.heap.push(candidate);
        self.lists.push(near);
    }

    /// Returns the remaining Gaussians, those of the file first.
    fn into_splats(self, splats: &Splats) -> Splats {
        let mut out = Splats::empty(splats.sh_degree);
        for (i, gaussian) in self.gaussians.iter().enumerate() {
            if self.became[i] != i as u32 {
                continue;
            }
            let colour = &self.colours[i * self.stride..(i + 1) * self.stride];
            out.sh0.push([colour[0], colour[1], colour[2]]);
            out.sh_rest.extend_from_slice(&colour[3..]);
            if i < splats.len() {
                out.means.push(splats.means[i]);
                out.scales.push(splats.scales[i]);
                out.quats.push(splats.quats[i]);
                out.opacities.push(splats.opacities[i]);
                continue;
            }
            let (variances, axes) = eigen(&gaussian.covariance);
            let rotation = DQuat::from_mat3(&axes).normalize();
            let opacity = gaussian.opacity;
            out.means.push(gaussian.mean.to_array().map(|v| v as f32));
            out.scales
                .push(variances.map(|v| (0.5 * v.max(1e-18).ln()) as f32));
            out.quats
                .push([rotation.w, rotation.x, rotation.y, rotation.z].map(|v| v as f32));
            out.opacities.push((opacity / (1.0 - opacity)).ln() as f32);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::NoProgress;

    /// Balls of radius 0.1 at these places along x, with these reds.
    fn balls(places: &[(f32, f32)]) -> Splats {
        let n = places.len();
        Splats {
            means: places.iter().map(|(x, _)| [*x, 0.0, 0.0]).collect(),
            scales: vec![[0.1f32.ln(); 3]; n],
            quats: vec![[1.0, 0.0, 0.0, 0.0]; n],
            opacities: vec![-1.0; n],
            sh0: places.iter().map(|(_, red)| [*red, 0.0, 0.0]).collect(),
            sh_rest: Vec::new(),
            sh_degree: 0,
        }
    }

    #[test]
    fn the_pair_that_is_most_alike_becomes_one_between_them() {
        // Two of one colour, close; two close, of other colours; one far away.
        let splats = balls(&[
            (0.0, 1.0),
            (0.02, 1.0),
            (1.0, -1.0),
            (1.02, 1.0),
            (5.0, 0.0),
        ]);
        let fewer = decimate(&splats, 4, None, &NoProgress).unwrap();
        assert_eq!(fewer.len(), 4);
        // The others keep their numbers; the new one comes last.
        assert_eq!(&fewer.means[..3], &splats.means[2..]);
        assert_eq!(fewer.scales[0], splats.scales[2]);
        assert!((fewer.means[3][0] - 0.01).abs() < 1e-6);
        // sqrt(0.1^2 + 0.01^2) along x.
        let mut deviations = fewer.scales[3].map(f32::exp);
        deviations.sort_by(f32::total_cmp);
        assert!(
            (deviations[2] - 0.0101f32.sqrt()).abs() < 1e-5 && (deviations[0] - 0.1).abs() < 1e-5
        );
        assert!((fewer.sh0[3][0] - 1.0).abs() < 1e-6);
        // Two of 0.27 become one of about twice that.
        assert!((sigmoid(fewer.opacities[3].into()) - 0.535).abs() < 0.01);
    }

    #[test]
    fn what_no_photo_shows_goes_first() {
        let splats = balls(&[(0.0, 1.0), (0.02, 1.0), (5.0, 0.0)]);
        let fewer = decimate(&splats, 2, Some(&[10.0, 10.0, 0.0]), &NoProgress).unwrap();
        assert_eq!(fewer.means, splats.means[..2]);
    }

    #[test]
    fn any_number_can_be_asked_for_and_threads_change_nothing() {
        let places: Vec<(f32, f32)> = (0..3000)
            .map(|i| ((i as f32 * 0.37).sin() * 9.0, (i as f32 * 0.11).cos()))
            .collect();
        let splats = balls(&places);
        let on = |threads: usize, count: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| decimate(&splats, count, None, &NoProgress).unwrap())
        };
        for count in [2999, 1500, 17, 1] {
            let fewer = on(1, count);
            assert_eq!(fewer.len(), count);
            assert!(fewer.check_lengths().is_ok());
            assert!((0..count).all(|i| super::super::condition::is_finite(&fewer, i)));
            assert_eq!(fewer, on(3, count));
        }
        assert_eq!(on(2, 5000), splats);
    }

    #[test]
    fn what_is_no_number_goes_before_all_else() {
        let mut splats = balls(&[(0.0, 1.0), (0.5, 1.0), (1.0, 1.0)]);
        splats.opacities[1] = f32::NAN;
        let fewer = decimate(&splats, 2, Some(&[1.0, 5.0, 1.0]), &NoProgress).unwrap();
        assert_eq!(fewer.means, [splats.means[0], splats.means[2]]);
    }

    #[test]
    fn amounts_are_counts_or_shares() {
        let of = |text: &str, len| text.parse::<Amount>().unwrap().of(len);
        assert_eq!(
            [of("10%", 1005), of("7", 1005), of("2000", 1005)],
            [101, 7, 1005]
        );
        assert_eq!([of("0.001%", 10), of("100%", 10), of("50%", 0)], [1, 10, 0]);
        for bad in ["0", "-1", "0%", "101%", "nan%", "half", "", "1.5"] {
            assert!(
                bad.parse::<Amount>().unwrap_err().hint_text().is_some(),
                "{bad}"
            );
        }
        assert_eq!("12.5%".parse::<Amount>().unwrap().to_string(), "12.5%");
    }
}
