//! Pairs of photos that are matched.
//!
//! | photos | pairs |
//! |---|---|
//! | up to [`EXHAUSTIVE`] | all |
//! | frames of a video | neighbours, and pairs across loops that a coarse match finds |
//! | with GPS positions | nearest neighbours |
//! | else | the best of a coarse match of all pairs |

use crate::database::Pair;
use glam::DVec3;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Photos of which all pairs are matched. Beyond, the pairs without a coarse match cost more time than they find.
pub const EXHAUSTIVE: usize = 80;

/// Neighbours of a frame on each side.
const WINDOW: usize = 8;

/// Neighbours of a photo by GPS.
const NEAREST: usize = 24;

/// Partners of a photo by the coarse match.
const BEST: usize = 30;

/// Inliers of a coarse match that make a pair.
const COARSE_INLIERS: u64 = 12;

/// Frames of a coarse match for loops.
const LOOP_FRAMES: usize = 120;

/// Choice of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// All pairs.
    All,
    /// Neighbours in time, and loops.
    Sequence,
    /// Neighbours by GPS.
    Gps,
    /// The best of a coarse match.
    Coarse,
}

/// A pair of indices, the smaller first.
pub type IndexPair = (usize, usize);

impl Choice {
    /// Chooses for this number of photos.
    pub fn for_photos(photos: usize, is_video: bool, with_gps: usize) -> Self {
        match photos {
            0..=EXHAUSTIVE => Self::All,
            _ if is_video => Self::Sequence,
            // GPS that some photos lack would separate them from all others.
            _ if with_gps == photos => Self::Gps,
            _ => Self::Coarse,
        }
    }

    /// Describes the choice.
    pub const fn about(self) -> &'static str {
        match self {
            Self::All => "all pairs",
            Self::Sequence => "neighbouring frames and loops",
            Self::Gps => "neighbours by GPS",
            Self::Coarse => "pairs of a coarse match",
        }
    }
}

/// Returns all pairs.
pub fn all(photos: usize) -> BTreeSet<IndexPair> {
    (0..photos)
        .flat_map(|a| (a + 1..photos).map(move |b| (a, b)))
        .collect()
}

/// Returns all pairs of these photos, which are in order.
pub fn all_of(photos: &[usize]) -> BTreeSet<IndexPair> {
    let pairs = all(photos.len()).into_iter();
    pairs.map(|(a, b)| (photos[a], photos[b])).collect()
}

/// Returns neighbours in the order of the names, and photos two, four, eight ... windows apart.
pub fn sequence(photos: usize) -> BTreeSet<IndexPair> {
    let far = (1..)
        .map(|power| WINDOW << power)
        .take_while(|&step| step < 16 * WINDOW);
    let steps: Vec<usize> = (1..=WINDOW).chain(far).collect();
    let of = |a: usize| {
        steps
            .iter()
            .map(move |step| (a, a + step))
            .filter(move |&(_, b)| b < photos)
    };
    (0..photos).flat_map(of).collect()
}

/// Returns the frames of a coarse match for loops, evenly spread.
pub fn loop_frames(photos: usize) -> Vec<usize> {
    let step = photos.div_ceil(LOOP_FRAMES).max(1);
    (0..photos).step_by(step).collect()
}

/// Returns the nearest neighbours of each position.
pub fn nearest(positions: &[DVec3]) -> BTreeSet<IndexPair> {
    let mut pairs = BTreeSet::new();
    for (a, here) in positions.iter().enumerate() {
        let mut others: Vec<(f64, usize)> = (0..positions.len())
            .filter(|&b| b != a)
            .map(|b| (here.distance_squared(positions[b]), b))
            .collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        pairs.extend(
            others
                .iter()
                .take(NEAREST)
                .map(|&(_, b)| (a.min(b), a.max(b))),
        );
    }
    pairs
}

/// Returns the best partners of each photo by a coarse match.
pub fn best_of(
    coarse: &[Pair],
    index_of: &HashMap<&str, usize>,
    photos: usize,
) -> BTreeSet<IndexPair> {
    let mut partners: Vec<Vec<(u64, usize)>> = vec![Vec::new(); photos];
    for (a, b, inliers) in indexed(coarse, index_of) {
        partners[a].push((inliers, b));
        partners[b].push((inliers, a));
    }
    let mut pairs = BTreeSet::new();
    for (a, mut list) in partners.into_iter().enumerate() {
        list.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        // A photo without a good partner still gets its neighbours by name.
        pairs.extend(list.iter().take(BEST).map(|&(_, b)| (a.min(b), a.max(b))));
        if list.len() < 3 {
            pairs.extend(
                [1, 2]
                    .map(|step| (a, a + step))
                    .into_iter()
                    .filter(|&(_, b)| b < photos),
            );
        }
    }
    pairs
}

/// Returns pairs across loops: the neighbourhoods of coarse frames that match.
pub fn loops(
    coarse: &[Pair],
    index_of: &HashMap<&str, usize>,
    photos: usize,
) -> BTreeSet<IndexPair> {
    let mut pairs = BTreeSet::new();
    let reach = photos.div_ceil(LOOP_FRAMES).max(1) as isize;
    for (a, b, _) in indexed(coarse, index_of) {
        for da in -reach..=reach {
            for db in -reach..=reach {
                let (a, b) = (a as isize + da, b as isize + db);
                let is_inside = a >= 0 && b >= 0 && (a.max(b) as usize) < photos;
                if is_inside && a != b {
                    pairs.insert((a.min(b) as usize, a.max(b) as usize));
                }
            }
        }
    }
    pairs
}

/// Returns the pairs with enough inliers, as indices.
fn indexed<'a>(
    coarse: &'a [Pair],
    index_of: &'a HashMap<&str, usize>,
) -> impl Iterator<Item = (usize, usize, u64)> + 'a {
    let strong = coarse.iter().filter(|pair| pair.inliers >= COARSE_INLIERS);
    strong.filter_map(|pair| {
        let [a, b] =
            [&pair.names[0], &pair.names[1]].map(|name| index_of.get(name.as_str()).copied());
        Some((a?, b?, pair.inliers))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_choice_has_ordered_pairs_inside_the_photos() {
        assert_eq!(all(4).len(), 6);
        let positions: Vec<DVec3> = (0..60)
            .map(|i| DVec3::new(f64::from(i), 0.0, 0.0))
            .collect();
        let coarse = [Pair {
            names: ["3".into(), "50".into()],
            inliers: 90,
            only_turned: false,
        }];
        let names: Vec<String> = (0..60).map(|i| i.to_string()).collect();
        let index_of: HashMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(i, n)| (n.as_str(), i))
            .collect();
        let choices = [
            sequence(60),
            nearest(&positions),
            loops(&coarse, &index_of, 60),
            best_of(&coarse, &index_of, 60),
        ];
        for pairs in &choices {
            assert!(pairs.iter().all(|&(a, b)| a < b && b < 60), "{pairs:?}");
        }
        assert!(choices[0].contains(&(0, WINDOW)) && choices[0].contains(&(0, 4 * WINDOW)));
        assert!(choices[1].contains(&(0, NEAREST)) && !choices[1].contains(&(0, 59)));
        assert!(choices[2].contains(&(2, 51)) && choices[3].contains(&(3, 50)));
    }

    #[test]
    fn the_choice_follows_the_photos() {
        assert_eq!(Choice::for_photos(EXHAUSTIVE, true, 150), Choice::All);
        assert_eq!(
            Choice::for_photos(EXHAUSTIVE + 1, true, 0),
            Choice::Sequence
        );
        assert_eq!(Choice::for_photos(151, false, 151), Choice::Gps);
        assert_eq!(Choice::for_photos(151, false, 150), Choice::Coarse);
    }
}
