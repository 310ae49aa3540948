//! Paths of cameras: a ring, the part of a ring that was photographed, and the way through the capture's
//! own cameras.
//!
//! 1. [`Ring`]: what the cameras of a capture look at, which way is up, and where they are around it.
//! 2. [`choose`] takes the path that shows what was photographed: all around where the cameras are all
//!    around, else within their sector; through them where they look at no one point.
//! 3. [`through`] is the curve through the cameras (`curve`).
//! 4. [`KeyPath`] is one of the user's own, from a file.

mod curve;
mod keys;
mod ring;

pub use curve::through;
pub use keys::KeyPath;
pub use ring::Ring;

use dapple::scene::{Camera, Pose};

/// Cameras stand all around if no gap between neighbours is wider, degrees.
const WIDEST_GAP: f64 = 60.0;

/// Kinds of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CameraPath {
    /// orbit, arc or capture, by where the capture's cameras are; says which and why
    Auto,
    /// Once around, also where nothing was photographed
    Orbit,
    /// The part of the ring that the capture's cameras cover
    Arc,
    /// A smooth way through the capture's own cameras
    Capture,
}

/// Which path: one of these kinds, or a file's.
#[derive(Debug, Clone)]
pub enum PathChoice {
    /// One that is found from the capture.
    Kind(CameraPath),
    /// One that the viewer's page has saved.
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
    /// In the order of the photos' names; at least one.
    pub poses: Vec<Pose>,
    /// Size and intrinsics to render with.
    pub like: Camera,
    /// Up direction, if a source other than the poses gives one.
    pub up: Option<glam::DVec3>,
}

/// The path that shows what was photographed, and why.
pub fn choose(seen: &Seen, ring: &Ring) -> (CameraPath, String) {
    let gap = 360.0 - ring.sector().span.to_degrees();
    if !ring.looks_inward(&seen.poses) {
        let why = "the cameras look at no one point, or not from one side up";
        return (CameraPath::Capture, why.to_owned());
    }
    if gap <= WIDEST_GAP {
        let why = format!("the cameras stand all around, with no gap wider than {gap:.0} degrees");
        return (CameraPath::Orbit, why);
    }
    let why = format!(
        "the cameras cover {:.0} degrees around what they look at, and nothing was seen from the rest",
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
