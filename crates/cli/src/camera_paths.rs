//! Camera paths: an orbit, the photographed part of an orbit, and a path through the capture's own cameras.
//!
//! 1. [`CameraOrbit`]: target and up direction of a capture's cameras, and their positions around the target.
//! 2. [`choose`] selects the path that shows what was photographed: the orbit if cameras are all around, else their
//!    sector; a path through the cameras if they have no common target.
//! 3. [`through`]: the curve through the cameras (`curve`).
//! 4. [`KeyPath`]: a path of the user, from a file.

mod curve;
mod keys;
mod orbit;

pub use curve::through;
pub use keys::KeyPath;
pub use orbit::CameraOrbit;

use dapple::scene::{Camera, Pose};

/// Cameras count as all around if no gap between neighbours is wider, degrees.
const WIDEST_GAP: f64 = 60.0;

/// Kinds of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CameraPath {
    /// orbit, arc or capture, by the positions of the capture's cameras; prints the reason
    Auto,
    /// Once around, including directions without photos
    Orbit,
    /// The part of the orbit that the capture's cameras cover
    Arc,
    /// A smooth path through the capture's own cameras
    Capture,
}

/// Path: one of these kinds, or from a file.
#[derive(Debug, Clone)]
pub enum PathChoice {
    /// Path derived from the capture.
    Kind(CameraPath),
    /// Path saved by the viewer's page.
    File(std::path::PathBuf),
}

impl std::str::FromStr for PathChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        use clap::ValueEnum;
        if text.to_lowercase().ends_with(".json") {
            return Ok(Self::File(text.into()));
        }
        CameraPath::from_str(text, false)
            .map(Self::Kind)
            .map_err(|_| {
                "auto, orbit, arc, capture, or a file that ends in .json are known".to_owned()
            })
    }
}

/// Poses of photos, and further facts about them.
pub struct Seen {
    /// Poses in the order of the photos' names; at least one.
    pub poses: Vec<Pose>,
    /// Size and intrinsics to render with.
    pub like: Camera,
    /// Up direction, if a source other than the poses gives one.
    pub up: Option<glam::DVec3>,
}

/// Returns the path that shows what was photographed, and the reason.
pub fn choose(seen: &Seen, ring: &CameraOrbit) -> (CameraPath, String) {
    let gap = 360.0 - ring.sector().span.to_degrees();
    if !ring.looks_inward(&seen.poses) {
        let why = "the cameras have no common target, or no common up direction";
        return (CameraPath::Capture, why.to_owned());
    }
    if gap <= WIDEST_GAP {
        let why = format!("the cameras are all around, with no gap wider than {gap:.0} degrees");
        return (CameraPath::Orbit, why);
    }
    let why = format!(
        "the cameras cover {:.0} degrees around their target, and the rest was not photographed",
        360.0 - gap
    );
    (CameraPath::Arc, why)
}

/// Photos with these poses and no up direction, for tests.
#[cfg(test)]
fn seen(poses: Vec<Pose>) -> Seen {
    Seen {
        like: Camera::pinhole(64, 48, 60.0, poses[0]),
        poses,
        up: None,
    }
}
