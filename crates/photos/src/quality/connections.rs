//! Connections between photos: parts of other places, and parts that few points connect.

use super::{Evidence, Finding, Kind};
use crate::photos::{counted, listed};
use std::collections::{BTreeMap, HashMap};

/// Fewest photos of a part.
const PART: usize = 3;

/// Inliers that connect two photos.
const CONNECTED: u64 = 20;

/// Shared points below which the connection of two parts is weak.
const WEAK: u32 = 30;

/// Longest track whose pairs are counted: longer tracks connect their photos anyway.
const LONGEST_TRACK: usize = 60;

/// Numbers of points that pairs of registered photos share.
#[derive(Debug, Default)]
pub struct Graph {
    /// By indices of the images of the model, the smaller first.
    pub shared: BTreeMap<(usize, usize), u32>,
}

impl Graph {
    /// Counts shared points.
    pub fn from_evidence(evidence: &Evidence<'_>) -> Self {
        let images = evidence.model.images.iter().enumerate();
        let index_of: HashMap<u32, usize> =
            images.map(|(index, image)| (image.id, index)).collect();
        let mut graph = Self::default();
        for point in &evidence.model.points {
            let mut seen: Vec<usize> = point
                .track
                .iter()
                .filter_map(|(id, _)| index_of.get(id).copied())
                .collect();
            seen.sort_unstable();
            seen.dedup();
            seen.truncate(LONGEST_TRACK);
            for (place, &a) in seen.iter().enumerate() {
                for &b in &seen[place + 1..] {
                    *graph.shared.entry((a, b)).or_default() += 1;
                }
            }
        }
        graph
    }
}

/// Sets of connected members.
struct Sets(Vec<usize>);

impl Sets {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    fn root(&mut self, mut index: usize) -> usize {
        while self.0[index] != index {
            self.0[index] = self.0[self.0[index]];
            index = self.0[index];
        }
        index
    }

    /// Joins two sets. Returns false if they were one set before.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
        a != b
    }

    /// Returns the sets, the largest first.
    fn all(&mut self) -> Vec<Vec<usize>> {
        let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for index in 0..self.0.len() {
            sets.entry(self.root(index)).or_default().push(index);
        }
        let mut sets: Vec<Vec<usize>> = sets.into_values().collect();
        sets.sort_by_key(|set| (std::cmp::Reverse(set.len()), set[0]));
        sets
    }
}

/// Finds parts without any matches between them.
pub(super) fn separate_parts(evidence: &Evidence<'_>) -> Option<Finding> {
    let names = evidence.photos.iter().enumerate();
    let index_of: HashMap<&str, usize> = names
        .map(|(index, photo)| (photo.name.as_str(), index))
        .collect();
    let mut sets = Sets::new(evidence.photos.len());
    for pair in evidence
        .database
        .pairs
        .iter()
        .filter(|pair| pair.inliers >= CONNECTED)
    {
        let [a, b] =
            [&pair.names[0], &pair.names[1]].map(|name| index_of.get(name.as_str()).copied());
        if let (Some(a), Some(b)) = (a, b) {
            sets.join(a, b);
        }
    }
    let parts: Vec<Vec<usize>> = sets
        .all()
        .into_iter()
        .filter(|part| part.len() >= PART)
        .collect();
    let name = |index: usize| evidence.photos[index].name.as_str();
    if parts.len() >= 2 {
        let shown = |part: &Vec<usize>| {
            format!(
                "{} ({})",
                counted(part.len()),
                listed(part.iter().map(|&i| name(i)))
            )
        };
        return Some(Finding {
            kind: Kind::SeparateParts,
            what: format!(
                "the photos show {} places without a connection: {}",
                parts.len(),
                parts.iter().map(shown).collect::<Vec<_>>().join("; ")
            ),
            remedy: "make one capture of each place, or shoot photos on the way between the places"
                .to_owned(),
            photos: parts[1..]
                .iter()
                .flatten()
                .map(|&index| name(index).to_owned())
                .collect(),
        });
    }
    let others: Vec<&Vec<String>> = evidence
        .other_models
        .iter()
        .filter(|model| model.len() >= PART)
        .collect();
    let photos: Vec<String> = others
        .iter()
        .flat_map(|model| model.iter().cloned())
        .collect();
    (!others.is_empty()).then(|| Finding {
        kind: Kind::SeparateParts,
        what: format!(
            "the photos form {} models that could not be joined; the largest is used. The others: {}",
            others.len() + 1,
            others.iter().map(|m| format!("{} ({})", counted(m.len()), listed(m.iter().map(String::as_str)))).collect::<Vec<_>>().join("; ")
        ),
        remedy: format!("shoot photos between {} and {}", evidence.model.images.first().map_or("the first", |i| &i.name), photos[0]),
        photos,
    })
}

/// Finds the weakest connection of the model: the weakest edge of the spanning tree with the most shared points.
pub(super) fn weak_link(evidence: &Evidence<'_>, graph: &Graph) -> Option<Finding> {
    let images = &evidence.model.images;
    let mut edges: Vec<(u32, (usize, usize))> = graph
        .shared
        .iter()
        .map(|(&pair, &shared)| (shared, pair))
        .collect();
    edges.sort_by_key(|&(shared, pair)| (std::cmp::Reverse(shared), pair));
    let mut tree = Vec::new();
    let mut sets = Sets::new(images.len());
    for &(shared, (a, b)) in &edges {
        if sets.join(a, b) {
            tree.push((shared, (a, b)));
        }
    }
    // Without the weak edges, parts remain; a single photo with few points is reported as such.
    let mut parts = Sets::new(images.len());
    for &(_, (a, b)) in tree.iter().filter(|(shared, _)| *shared >= WEAK) {
        parts.join(a, b);
    }
    let large = parts
        .all()
        .into_iter()
        .filter(|part| part.len() >= PART)
        .count();
    let &(shared, (a, b)) = tree.iter().rev().find(|(shared, _)| *shared < WEAK)?;
    (large >= 2).then(|| Finding {
        kind: Kind::WeakLink,
        what: format!(
            "two parts of the model share only {shared} points, through {} and {}: their relative scale is uncertain",
            images[a].name, images[b].name
        ),
        remedy: format!("shoot photos between {} and {}", images[a].name, images[b].name),
        photos: vec![images[a].name.clone(), images[b].name.clone()],
    })
}
