//! Reasons of photos without a pose, and the remedy of each.

use super::{Evidence, Finding, Kind, PhotoReview};
use crate::photos::{counted, listed};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Features below which a photo shows too little.
const FEW_FEATURES: u64 = 200;

/// Inliers of a pair that COLMAP can register a photo with.
const ENOUGH_INLIERS: u64 = 30;

/// Reason of a missing pose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Blurred,
    Dark,
    NoTexture,
    Alone,
    OnlyTurned,
    OtherPart,
    TooFar,
}

impl Reason {
    fn what(self) -> &'static str {
        match self {
            Self::Blurred => "blurred",
            Self::Dark => "too dark",
            Self::NoTexture => "hardly any texture",
            Self::Alone => "shows nothing that another photo shows",
            Self::OnlyTurned => "the camera only turned on the spot",
            Self::OtherPart => "matches only photos without a pose: another place",
            Self::TooFar => "too few points in common with photos that have a pose",
        }
    }

    fn remedy(self, name: &str) -> String {
        match self {
            Self::Blurred => {
                "shoot the blurred photos again with a shorter exposure or more light".to_owned()
            }
            Self::Dark => {
                "shoot the dark photos again with more light or a longer exposure on a tripod"
                    .to_owned()
            }
            Self::NoTexture => {
                format!("shoot {name} again from where textured things are in view too")
            }
            Self::Alone => format!(
                "shoot photos between {name} and the others, each with two thirds of the last one in view"
            ),
            Self::OnlyTurned => format!(
                "move sideways between photos near {name}; turning on the spot shows no depth"
            ),
            Self::OtherPart => {
                "shoot photos on the way between both places, or make one capture of each"
                    .to_owned()
            }
            Self::TooFar => {
                format!("shoot photos between {name} and its neighbours: move less between photos")
            }
        }
    }
}

/// Finds the reason of each photo without a pose; one finding for each reason.
pub(super) fn unregistered(evidence: &Evidence<'_>, by_photo: &mut [PhotoReview]) -> Vec<Finding> {
    let registered: HashSet<&str> = evidence
        .model
        .images
        .iter()
        .map(|image| image.name.as_str())
        .collect();
    let mut partners: HashMap<&str, Vec<(&str, u64, bool)>> = HashMap::new();
    for pair in &evidence.database.pairs {
        let [a, b] = [pair.names[0].as_str(), pair.names[1].as_str()];
        if pair.inliers > 0 {
            partners
                .entry(a)
                .or_default()
                .push((b, pair.inliers, pair.only_turned));
            partners
                .entry(b)
                .or_default()
                .push((a, pair.inliers, pair.only_turned));
        }
    }
    let mut by_reason: BTreeMap<Reason, Vec<String>> = BTreeMap::new();
    for (photo, review) in evidence.photos.iter().zip(by_photo.iter_mut()) {
        if review.is_registered {
            continue;
        }
        let partners = partners
            .get(photo.name.as_str())
            .map_or(&[][..], Vec::as_slice);
        let inliers = |wanted: bool| {
            let those = partners
                .iter()
                .filter(|(name, ..)| registered.contains(name) == wanted);
            those.map(|(_, inliers, _)| *inliers).max().unwrap_or(0)
        };
        let (with_pose, without) = (inliers(true), inliers(false));
        let reason = if photo.is_blurred {
            Reason::Blurred
        } else if photo.is_dark {
            Reason::Dark
        } else if review.features < FEW_FEATURES {
            Reason::NoTexture
        } else if with_pose == 0 && without == 0 {
            Reason::Alone
        } else if partners.iter().all(|(.., only_turned)| *only_turned) {
            Reason::OnlyTurned
        } else if without >= ENOUGH_INLIERS && without > 2 * with_pose {
            Reason::OtherPart
        } else {
            Reason::TooFar
        };
        review.reason = Some(reason.what().to_owned());
        by_reason
            .entry(reason)
            .or_default()
            .push(photo.name.clone());
    }
    let mut findings: Vec<Finding> = by_reason
        .into_iter()
        .map(|(reason, photos)| Finding {
            kind: Kind::Unregistered,
            what: format!(
                "{} without a pose ({}): {}",
                counted(photos.len()),
                reason.what(),
                listed(photos.iter().map(String::as_str))
            ),
            remedy: reason.remedy(&photos[0]),
            photos,
        })
        .collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.photos.len()));
    findings
}
