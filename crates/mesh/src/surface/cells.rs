//! Cases of a cell: the closed rows of edges on which the sign changes.
//!
//! Corner `c` of a cell is at `(c & 1, c >> 1 & 1, c >> 2 & 1)`. Bit `c` of a case is set if corner `c` is inside.
//! Edge `4 a + k` runs along axis `a`; bits 0 and 1 of `k` are its place on the axes `a + 1` and `a + 2`. Face
//! `2 a + s` is on side `s` of axis `a`.
//!
//! Each row of edges becomes one vertex. On a face with four edges, the rule connects the edges around each inside
//! corner. If both pairs belong to one row in both cells of a face, the mesh would have an edge of four triangles
//! (Wenger, Isosurfaces, 2013, section 5); then both cells connect the other pairs.

use std::sync::LazyLock;

/// Row of an edge without a change of sign.
pub const NONE: u8 = u8::MAX;

/// Flip of a cell whose faces all follow the rule.
pub const NO_FLIP: usize = 6;

/// Rows of one case.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// Row of each edge, or [`NONE`].
    pub of_edge: [u8; 12],
    /// Number of rows.
    pub count: u8,
}

/// Tables of all cases.
pub struct Cases {
    /// Rows by case and flipped face; index 6 for no flip.
    rows: Vec<[Rows; 7]>,
    /// Faces, as bits, where both pairs belong to one row.
    doubled: [u8; 256],
}

/// The tables.
pub static CASES: LazyLock<Cases> = LazyLock::new(Cases::new);

/// Returns the corners of an edge: the lower one along the axis first.
pub fn corners_of(edge: usize) -> [usize; 2] {
    let (a, k) = (edge / 4, edge % 4);
    let low = (k & 1) << ((a + 1) % 3) | (k >> 1) << ((a + 2) % 3);
    [low, low | 1 << a]
}

impl Cases {
    fn new() -> Self {
        let mut doubled = [0; 256];
        let rows = (0..256).map(|case| {
            let plain = rows_of(case, NO_FLIP);
            for face in 0..6 {
                let edges = crossed(case, face);
                if edges.len() == 4
                    && edges
                        .iter()
                        .all(|&e| plain.of_edge[e] == plain.of_edge[edges[0]])
                {
                    doubled[case] |= 1 << face;
                }
            }
            std::array::from_fn(|flip| rows_of(case, flip))
        });
        Self {
            rows: rows.collect(),
            doubled,
        }
    }

    /// Returns the rows of a case.
    pub fn rows(&self, case: u8, flip: usize) -> &Rows {
        &self.rows[usize::from(case)][flip]
    }

    /// Returns the face of a cell that is flipped, given the case of the cell on the other side of each face.
    pub fn flip(&self, case: u8, across: impl Fn(usize) -> Option<u8>) -> usize {
        let doubled = self.doubled[usize::from(case)];
        if doubled == 0 {
            return NO_FLIP;
        }
        let flips = |&face: &usize| {
            doubled >> face & 1 == 1
                && across(face)
                    .is_some_and(|other| self.doubled[usize::from(other)] >> (face ^ 1) & 1 == 1)
        };
        (0..6).find(flips).unwrap_or(NO_FLIP)
    }
}

/// Returns the edges of a face in a circle.
fn edges_around(face: usize) -> [usize; 4] {
    let (a, side) = (face / 2, face % 2);
    let (b, c) = ((a + 1) % 3, (a + 2) % 3);
    // An edge along b has places on c and a; an edge along c has places on a and b.
    let along_b = |on_c: usize| 4 * b + (on_c | side << 1);
    let along_c = |on_b: usize| 4 * c + (side | on_b << 1);
    [along_b(0), along_c(1), along_b(1), along_c(0)]
}

fn is_inside(case: usize, corner: usize) -> bool {
    case >> corner & 1 == 1
}

/// Returns the edges of a face on which the sign changes, in a circle.
fn crossed(case: usize, face: usize) -> Vec<usize> {
    let crosses = |edge: &usize| {
        let [low, high] = corners_of(*edge);
        is_inside(case, low) != is_inside(case, high)
    };
    edges_around(face).into_iter().filter(crosses).collect()
}

/// Returns the pairs of edges that a face connects.
fn pairs(case: usize, face: usize, is_flipped: bool) -> Vec<[usize; 2]> {
    let edges = crossed(case, face);
    match edges[..] {
        [a, b] => vec![[a, b]],
        [a, b, c, d] => {
            // The corner between the first two edges.
            let shared = corners_of(a)
                .into_iter()
                .find(|corner| corners_of(b).contains(corner));
            let around_inside = shared.is_some_and(|corner| is_inside(case, corner));
            match around_inside != is_flipped {
                true => vec![[a, b], [c, d]],
                false => vec![[b, c], [d, a]],
            }
        }
        _ => Vec::new(),
    }
}

fn rows_of(case: usize, flip: usize) -> Rows {
    let mut row: [u8; 12] = std::array::from_fn(|edge| {
        let [low, high] = corners_of(edge);
        if is_inside(case, low) == is_inside(case, high) {
            NONE
        } else {
            edge as u8
        }
    });
    let all_pairs = (0..6).flat_map(|face| pairs(case, face, face == flip));
    for [a, b] in all_pairs.collect::<Vec<_>>() {
        let (low, high) = (row[a].min(row[b]), row[a].max(row[b]));
        for r in &mut row {
            if *r == high {
                *r = low;
            }
        }
    }
    let mut names: Vec<u8> = row.iter().copied().filter(|&r| r != NONE).collect();
    names.sort_unstable();
    names.dedup();
    let of_edge = row.map(|r| names.iter().position(|&n| n == r).map_or(NONE, |i| i as u8));
    Rows {
        of_edge,
        count: names.len() as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_at_least_three_edges_and_each_case_at_most_one_doubled_face() {
        for case in 0..=255u8 {
            assert!(
                CASES.doubled[usize::from(case)].count_ones() <= 1,
                "{case:08b}"
            );
            for flip in 0..7 {
                let rows = CASES.rows(case, flip);
                for row in 0..rows.count {
                    let edges = rows.of_edge.iter().filter(|&&r| r == row).count();
                    assert!(edges >= 3, "{case:08b} {flip} {rows:?}");
                }
            }
        }
        assert_eq!(CASES.rows(0b0000_0001, NO_FLIP).count, 1);
        assert_eq!(CASES.rows(0b1000_0001, NO_FLIP).count, 2);
        assert_eq!(
            CASES.rows(0, NO_FLIP).count + CASES.rows(255, NO_FLIP).count,
            0
        );
    }
}
