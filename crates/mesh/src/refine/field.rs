//! Smooth moves of all vertices near the matches of some.

use super::matching::Match;
use crate::corners::Corners;
use rayon::prelude::*;

/// Weight of each edge between two triangles.
const SMOOTHNESS: f32 = 0.2;

/// Weight of no move.
const REST: f32 = 0.1;

/// Iterations; from the middle on, matches far from the field lose weight.
const ITERATIONS: usize = 60;

/// Distance from the field at which a match has half of its weight, pixels.
const SPREAD: f32 = 1.0;

/// Returns the move of each vertex along its normal, world units: the minimum of squared distances to the matches, and of
/// squared differences along edges, by Jacobi iterations.
pub(super) fn smoothed(corners: &Corners<'_>, matches: &[Option<Match>]) -> Vec<f32> {
    let mut moves = vec![0.0f32; matches.len()];
    for iteration in 0..ITERATIONS {
        let is_robust = iteration >= ITERATIONS / 2;
        let next = matches.par_iter().enumerate().map(|(v, found)| {
            let (mut sum, mut weight) = (0.0, REST);
            for &corner in corners.of(v as u32) {
                for k in [1, 2] {
                    sum += SMOOTHNESS * moves[corners.vertex(corner, k) as usize];
                    weight += SMOOTHNESS;
                }
            }
            if let Some(found) = found {
                let distance = (found.offset - moves[v]) / (SPREAD * found.pixel);
                let trust = match is_robust {
                    true => found.weight / (1.0 + distance * distance),
                    false => found.weight,
                };
                sum += trust * found.offset;
                weight += trust;
            }
            sum / weight
        });
        moves = next.collect();
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the triangles of a grid of vertices.
    fn grid(side: u32) -> Vec<[u32; 3]> {
        let cells = (0..side - 1).flat_map(|y| (0..side - 1).map(move |x| y * side + x));
        let cells = cells.flat_map(|i| [[i, i + 1, i + side], [i + 1, i + side + 1, i + side]]);
        cells.collect()
    }

    fn found(offset: f32) -> Option<Match> {
        Some(Match {
            offset,
            pixel: 1.0,
            weight: 1.0,
        })
    }

    #[test]
    fn the_field_is_near_the_matches_smooth_beside_them_and_zero_far_away() {
        let triangles = grid(21);
        let corners = Corners::new(&triangles, 441);
        let in_left_part = |v: usize| if v % 21 < 8 { found(2.0) } else { None };
        let matches: Vec<Option<Match>> = (0..441).map(in_left_part).collect();
        let moves = smoothed(&corners, &matches);
        let row = &moves[210..231];
        assert!(row[2] > 1.7 && row[2] < 2.0, "{row:?}");
        assert!(row[20] < 0.1, "{row:?}");
        assert!(
            row.windows(2).all(|w| w[0] >= w[1] && w[0] - w[1] < 0.5),
            "{row:?}"
        );
    }

    #[test]
    fn a_lone_match_far_from_all_others_counts_little() {
        let triangles = grid(21);
        let corners = Corners::new(&triangles, 441);
        let mut matches = vec![found(0.0); 441];
        matches[220] = found(9.0);
        let moves = smoothed(&corners, &matches);
        assert!(moves[220] < 0.5, "{}", moves[220]);
    }
}
