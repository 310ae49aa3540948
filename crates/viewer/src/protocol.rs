//! Messages of a page and messages to it.
//!
//! A page sends text, one JSON object per message, of at most [`MAX_MESSAGE_BYTES`]: view requests, commands for the
//! run, and edit messages ([`EditCommand`]). It receives text messages (the stage, the progress of a run or an edit,
//! errors) and binary messages. A binary message holds one frame, or two that are compared: the number of the view
//! request, width, height, microseconds of rendering and of coding, the most Gaussians that a pixel blends (0 if the
//! channel does not show this), the number of frames, the number of bands per frame, and the bytes of every band
//! (little-endian `u32`). The bands follow, frame by frame from the top, each a JPEG file of the frame's width.

use crate::edit::EditCommand;
use dapple_engine::Channel;
use dapple_scene::{Camera, Error, Pose, Result};
use glam::{DQuat, DVec3};
use serde::{Deserialize, Serialize};

/// Largest side of a frame, pixels.
pub const MAX_SIDE: u32 = 4096;

/// Most pixels of a frame: those of 4K.
const MAX_PIXELS: u64 = 3840 * 2160;

/// The longest message of a page, bytes: a view request takes 300.
pub(crate) const MAX_MESSAGE_BYTES: usize = 8192;

/// JPEG quality while a page moves, and at rest.
const MOVING_QUALITY: u8 = 65;
const RESTING_QUALITY: u8 = 92;

/// Selection of one or both compared models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Models {
    /// First model, or the only one.
    #[default]
    First,
    /// Second model only.
    Second,
    /// Both models, with one camera.
    Both,
}

/// View request of a page.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewRequest {
    /// Number of the view request; its frame has the same number.
    pub id: u32,
    /// Width of the frame, pixels.
    pub width: u32,
    /// Height of the frame, pixels.
    pub height: u32,
    /// Position of the camera, world units.
    pub position: [f64; 3],
    /// Rotation from world to camera, w, x, y, z; the camera looks along +z with y down.
    pub rotation: [f64; 4],
    /// Focal length over the frame's height.
    pub focal: f64,
    /// Channel to show.
    #[serde(default)]
    pub show: Channel,
    /// True if the page moves: then frames are compressed more.
    #[serde(default)]
    pub moving: bool,
    /// Number of the camera in [`crate::Stage::cameras`] that the page looks through, its lens included. With a number,
    /// the fields above give only the size.
    #[serde(default)]
    pub through: Option<usize>,
    /// Selection of the stage's models, if it has two ([`crate::Stage::models`]).
    #[serde(default)]
    pub models: Models,
    /// Step of the snapshot to show instead of the current splats: one of [`crate::Stage::snapshots`].
    #[serde(default)]
    pub snapshot: Option<u32>,
}

impl ViewRequest {
    /// Checks that the view request can be rendered.
    ///
    /// # Errors
    /// Sides out of bounds, non-finite numbers, no focal length, an invalid rotation.
    pub fn check(&self) -> Result<()> {
        let (w, h) = (self.width, self.height);
        let sides = (1..=MAX_SIDE).contains(&w) && (1..=MAX_SIDE).contains(&h);
        if !sides || u64::from(w) * u64::from(h) > MAX_PIXELS {
            return Err(Error::input(format!(
                "a picture of {w}x{h} pixels is not rendered"
            )));
        }
        let finite = self
            .position
            .iter()
            .chain(&self.rotation)
            .all(|v| v.is_finite());
        let length: f64 = self.rotation.iter().map(|v| v * v).sum();
        let focal = (1e-3..=1e3).contains(&self.focal);
        if !finite || !focal || !(1e-6..=1e6).contains(&length) {
            return Err(Error::input(
                "the camera is broken: its numbers are out of bounds",
            ));
        }
        if self.position.iter().any(|v| v.abs() > 1e9) {
            return Err(Error::input("the camera is too far away"));
        }
        Ok(())
    }

    /// Returns the camera to render, if it is not one of the stage's.
    pub fn free_camera(&self) -> Camera {
        let [w, x, y, z] = self.rotation;
        let rotation = DQuat::from_xyzw(x, y, z, w).normalize();
        let pose = Pose {
            rotation,
            translation: -(rotation * DVec3::from(self.position)),
        };
        Camera::pinhole(
            self.width,
            self.height,
            self.focal * f64::from(self.height),
            pose,
        )
    }

    /// Returns the JPEG quality, of 100.
    pub(crate) fn quality(&self) -> u8 {
        if self.moving {
            MOVING_QUALITY
        } else {
            RESTING_QUALITY
        }
    }
}

/// Command of a page for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Pause after this step.
    Pause,
    /// Resume a paused run.
    Resume,
    /// One step, and pause.
    Step,
    /// Write a checkpoint now.
    Save,
}

/// Message of a page.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum FromPage {
    /// View request from now on.
    Look(ViewRequest),
    /// Acknowledgement of a frame that has arrived and was shown.
    Shown {
        /// Number of the frame's view request.
        id: u32,
    },
    /// Command for the run.
    Run {
        /// See [`Command`].
        command: Command,
    },
    /// Further steps for a run that has reached its last step.
    TrainOn {
        /// Number of further steps.
        steps: i64,
    },
    /// Edit message.
    Edit {
        /// See [`EditCommand`].
        edit: EditCommand,
    },
}

impl FromPage {
    /// Reads a message.
    ///
    /// # Errors
    /// Invalid messages, and view requests that cannot be rendered.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let message: Self = serde_json::from_str(text)
            .map_err(|e| Error::input(format!("the page's message is not understood: {e}")))?;
        if let Self::Look(look) = &message {
            look.check()?;
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: &str = r#"{"type":"look","id":7,"width":64,"height":48,"position":[0,0,-4],"rotation":[2,0,0,0],"focal":1.2}"#;

    #[test]
    fn a_look_is_a_camera() {
        let FromPage::Look(look) = FromPage::parse(LOOK).unwrap() else {
            panic!("another message");
        };
        let camera = look.free_camera();
        assert_eq!((camera.width, camera.height), (64, 48));
        assert!((camera.fx - 57.6).abs() < 1e-12 && camera.fx == camera.fy);
        let seen = camera.camera_from_world.transform(DVec3::ZERO);
        assert!(seen.distance(DVec3::new(0.0, 0.0, 4.0)) < 1e-12, "{seen}");
    }

    #[test]
    fn further_steps_are_a_whole_number() {
        let read =
            |steps: &str| FromPage::parse(&format!(r#"{{"type":"train-on","steps":{steps}}}"#));
        assert_eq!(read("500").unwrap(), FromPage::TrainOn { steps: 500 });
        for bad in ["1.5", "\"500\"", "null", "1e99", "500,\"run\":\"/etc\""] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_rendered_is_refused() {
        let with = |from: &str, to: &str| FromPage::parse(&LOOK.replace(from, to));
        assert!(FromPage::parse(LOOK).is_ok());
        for (from, to) in [
            ("\"width\":64", "\"width\":0"),
            ("\"width\":64", "\"width\":4097"),
            (
                "\"width\":64,\"height\":48",
                "\"width\":4096,\"height\":4096",
            ),
            ("\"width\":64", "\"width\":-1"),
            ("[2,0,0,0]", "[0,0,0,0]"),
            ("[2,0,0,0]", "[1e300,0,0,0]"),
            ("[0,0,-4]", "[0,0,1e12]"),
            ("\"focal\":1.2", "\"focal\":0"),
            ("\"focal\":1.2", "\"focal\":1.2,\"path\":\"/etc/passwd\""),
            ("\"type\":\"look\"", "\"type\":\"read\""),
        ] {
            assert!(with(from, to).is_err(), "{to}");
        }
    }
}
