//! Photometric camera model: what a camera does to the light of a scene, as few numbers with a meaning.
//!
//! A photo has an exposure and a white balance, together a gain for each channel. A camera, which many photos share,
//! has a vignetting and a response curve for each channel. For the channel c of a pixel at distance r from the principal
//! point, in halves of the image's diagonal:
//!
//! 1. `y = x exp(g + a1 r^2 + a2 r^4 + a3 r^6)`, with x the rendered value, g the log gain of the photo, and a the
//!    vignetting of the camera;
//! 2. `z = y + c1 y (1 - y) + c2 y (1 - y) (1 - 2y)` up to y = 1 and a straight line of the same slope beyond, with
//!    `c = tanh(p) / 2`. The curve keeps black and white, and always rises.
//!
//! The loss compares z with the photo. All numbers are 0 at the start, which changes nothing. The term
//! `prior (mean g^2 + mean a^2 + mean p^2)` keeps them small: it decides which part of the brightness belongs to the
//! splats.
//!
//! The parts are those of PPISP ("Physically-Plausible Compensation and Control of Photometric Variations in Radiance
//! Field Reconstruction"); the formulas of the gains and of the curve are simpler.

use super::tensors::{TensorRow, ViewTensors, tensor_row};
use crate::PosedCamera;
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};

/// Channels of a colour.
const CHANNELS: usize = 3;

/// Coefficients of a channel's vignetting: of r^2, r^4, r^6.
pub const VIGNETTING: usize = 3;

/// Coefficients of a channel's response curve.
pub const RESPONSE: usize = 2;

/// Index of a camera's first number within its row: the photo's log gains and one unused number are before it.
pub const CAMERA: usize = 4;

/// Numbers of a row: the log gains of a view, and the vignetting and response of a camera, by channel.
pub const ROW: usize = CAMERA + CHANNELS * (VIGNETTING + RESPONSE) + 1;

/// Index of the first coefficient of the response curves within a row.
pub const CURVES: usize = CAMERA + CHANNELS * VIGNETTING;

/// Step size of a camera's numbers as a share of that of a photo's: every photo of a camera moves them.
pub const CAMERA_SHARE: f32 = 0.1;

/// Settings of the photometric model in a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PhotometricSettings {
    /// Step size of Adam for the gains of a photo.
    pub rate: f32,
    /// Weight, in the loss, of the mean squares of all numbers.
    pub prior: f32,
}

/// Photometric models of all views and their cameras, with Adam's moments: part of the state that a run needs to
/// continue. Empty until the first step with [`PhotometricSettings`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Photometric {
    /// For each view the first view of the same camera, `[views]`: the row of the camera's numbers.
    pub cameras: Vec<u32>,
    /// Log gains of each view (0..3), vignetting ([`CAMERA`]) and response ([`CURVES`]) of the cameras that begin with
    /// it, `[views, ROW]`.
    pub numbers: Vec<f32>,
    /// Adam's first moments, with the shape of `numbers`.
    pub first_moments: Vec<f32>,
    /// Adam's second moments, with the shape of `numbers`.
    pub second_moments: Vec<f32>,
    /// Steps taken on each view, and on its camera, `[views, 2]`.
    pub seen: Vec<u32>,
}

/// Settings of the photometric model, if the view's photo is compared through it.
pub type Step = Option<PhotometricSettings>;

/// Models of the views and their cameras.
pub type State = Photometric;

/// The size is the number of views with models.
impl ViewTensors for State {
    type Sizes = usize;
    const TENSORS: &'static [TensorRow<Self>] = &[
        tensor_row!("photometric.cameras", U32 cameras, |views| vec![*views]),
        tensor_row!("photometric.numbers", F32 numbers, |views| vec![*views, ROW]),
        tensor_row!("photometric.first_moments", F32 first_moments, |views| vec![*views, ROW]),
        tensor_row!("photometric.second_moments", F32 second_moments, |views| vec![*views, ROW]),
        tensor_row!("photometric.seen", U32 seen, |views| vec![*views, 2]),
    ];

    fn sizes(&self) -> usize {
        self.views()
    }

    fn check(&self) -> Result<()> {
        Photometric::check(self)
    }
}

/// Returns true if two views were taken by the same camera: the same size, intrinsics and lens.
fn is_same_camera(a: &PosedCamera, b: &PosedCamera) -> bool {
    a.size == b.size
        && a.focal == b.focal
        && a.principal == b.principal
        && a.lens == b.lens
        && a.model == b.model
}

impl Photometric {
    /// Adds models that change nothing for the cameras of new views, by [`crate::ViewId`].
    pub fn extend_to<'a>(&mut self, cameras: impl IntoIterator<Item = &'a PosedCamera>) {
        let mut kinds: Vec<(usize, &PosedCamera)> = Vec::new();
        for (view, camera) in cameras.into_iter().enumerate() {
            let known = kinds
                .iter()
                .find(|(_, other)| is_same_camera(other, camera));
            // The row that the state has for that camera.
            let row = known.map_or(view as u32, |(first, _)| self.cameras[*first]);
            if known.is_none() {
                kinds.push((view, camera));
            }
            if view >= self.cameras.len() {
                self.cameras.push(row);
            }
        }
        let views = self.cameras.len();
        for rows in [
            &mut self.numbers,
            &mut self.first_moments,
            &mut self.second_moments,
        ] {
            rows.resize(views * ROW, 0.0);
        }
        self.seen.resize(2 * views, 0);
    }

    /// Returns the number of views with a model.
    pub fn views(&self) -> usize {
        self.cameras.len()
    }

    /// Returns true if no step has requested a model.
    pub fn is_empty(&self) -> bool {
        self.cameras.is_empty()
    }

    /// Returns the row of the numbers of a view's camera.
    pub fn camera_row(&self, view: usize) -> usize {
        self.cameras.get(view).map_or(view, |&row| row as usize)
    }

    /// Returns the model of a view: its gains with the numbers of its camera. `None` if there is no such view.
    pub fn model(&self, view: usize) -> Option<Model> {
        let rows = self.numbers.as_chunks::<ROW>().0;
        let (own, camera) = (rows.get(view)?, rows.get(self.camera_row(view))?);
        let mut row = *camera;
        row[..CAMERA].copy_from_slice(&own[..CAMERA]);
        Some(Model { row })
    }

    /// Checks that the lengths of all arrays are consistent.
    ///
    /// # Errors
    /// Lengths that differ, or a camera that is not among the views.
    pub fn check(&self) -> Result<()> {
        let views = self.cameras.len();
        let lengths = [&self.numbers, &self.first_moments, &self.second_moments].map(Vec::len);
        let is_known = |(view, &first): (usize, &u32)| {
            first as usize <= view && self.cameras[first as usize] == first
        };
        if lengths == [views * ROW; 3]
            && self.seen.len() == 2 * views
            && self.cameras.iter().enumerate().all(is_known)
        {
            return Ok(());
        }
        Err(
            Error::input("the arrays of the photometric model do not fit each other")
                .hint("every array needs a row for each view, and every view a camera"),
        )
    }
}

/// Photometric model of one photo: see the formulas of this module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Log gains, vignetting and response, laid out like the rows of [`Photometric::numbers`].
    pub row: [f32; ROW],
}

/// One channel of a corrected pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Corrected {
    /// Gain at the pixel.
    pub gain: f32,
    /// Light after the gain.
    pub light: f32,
    /// Value after the response curve.
    pub value: f32,
    /// Slope of the response curve at `light`.
    pub slope: f32,
}

impl Model {
    /// Returns the coefficients c1, c2 of each channel's response curve.
    pub fn curves(&self) -> [[f32; RESPONSE]; CHANNELS] {
        let p = &self.row[CURVES..];
        [0, 1, 2].map(|c| {
            [
                0.5 * p[RESPONSE * c].tanh(),
                0.5 * p[RESPONSE * c + 1].tanh(),
            ]
        })
    }

    /// Applies the model to a channel of a pixel. `radius2` is the squared distance from the principal point in halves
    /// of the diagonal, `curve` a row of [`Self::curves`].
    #[inline]
    pub fn apply(&self, channel: usize, x: f32, radius2: f32, curve: [f32; RESPONSE]) -> Corrected {
        let a = &self.row[CAMERA + VIGNETTING * channel..];
        let exponent = self.row[channel] + radius2 * (a[0] + radius2 * (a[1] + radius2 * a[2]));
        let gain = exponent.exp();
        let y = x * gain;
        let [c1, c2] = curve;
        if y > 1.0 {
            let slope = 1.0 - c1 + c2;
            return Corrected {
                gain,
                light: y,
                value: 1.0 + slope * (y - 1.0),
                slope,
            };
        }
        Corrected {
            gain,
            light: y,
            value: y + y * (1.0 - y) * (c1 + c2 * (1.0 - 2.0 * y)),
            slope: 1.0 + c1 * (1.0 - 2.0 * y) + c2 * (1.0 - 6.0 * y * (1.0 - y)),
        }
    }
}

/// Returns the derivatives of a response curve's value by c1 and c2 at a light.
#[inline]
pub fn by_curve(y: f32) -> [f32; RESPONSE] {
    if y > 1.0 {
        return [1.0 - y, y - 1.0];
    }
    let bump = y * (1.0 - y);
    [bump, bump * (1.0 - 2.0 * y)]
}

/// Distances of pixels from the principal point, in halves of the diagonal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Radii {
    principal: [f32; 2],
    inverse2: f32,
}

impl Radii {
    /// Creates the distances of an image.
    pub fn new(size: [u32; 2], principal: [f32; 2]) -> Self {
        let [w, h] = size.map(|v| v as f32);
        Self {
            principal,
            inverse2: 4.0 / (w * w + h * h),
        }
    }

    /// Returns the squared distance of the centre of a pixel.
    #[inline]
    pub fn squared(&self, x: usize, y: usize) -> f32 {
        let dx = x as f32 + 0.5 - self.principal[0];
        let dy = y as f32 + 0.5 - self.principal[1];
        (dx * dx + dy * dy) * self.inverse2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::tensors::assert_complete;
    use dapple_scene::{Camera, Lens, Pose};

    fn camera(fx: f64) -> PosedCamera {
        let camera = Camera {
            width: 8,
            height: 6,
            fx,
            fy: 10.0,
            cx: 4.0,
            cy: 3.0,
            lens: Lens::Pinhole,
            camera_from_world: Pose::IDENTITY,
        };
        PosedCamera::new(&camera).unwrap()
    }

    #[test]
    fn tensors_are_all_there_is_of_a_model() {
        let rows = |first: u16| (0..2 * ROW as u16).map(|i| f32::from(first + i)).collect();
        let models = Photometric {
            cameras: vec![0, 1],
            numbers: rows(100),
            first_moments: rows(200),
            second_moments: rows(300),
            seen: vec![3, 4, 5, 6],
        };
        assert_complete(&models);
    }

    #[test]
    fn views_of_one_camera_share_its_row() {
        let cameras = [9.0, 10.0, 9.0, 10.0, 11.0].map(camera);
        let mut held = Photometric::default();
        held.extend_to(&cameras[..2]);
        held.numbers[CAMERA] = 0.5;
        held.extend_to(&cameras);
        assert_eq!(held.cameras, [0, 1, 0, 1, 4]);
        held.check().unwrap();
        assert_eq!(held.model(2).unwrap().row[CAMERA], 0.5);
        assert!(held.model(5).is_none());
        held.cameras[2] = 3;
        assert!(held.check().is_err());
    }

    #[test]
    fn a_new_model_changes_nothing_and_every_curve_rises() {
        let mut model = Model { row: [0.0; ROW] };
        for x in [0.0, 0.3, 1.0, 1.7] {
            assert_eq!(model.apply(1, x, 0.4, model.curves()[1]).value, x);
        }
        for p in [[9.0, 9.0], [9.0, -9.0], [-9.0, 9.0], [-9.0, -9.0]] {
            model.row[CURVES..CURVES + 2].copy_from_slice(&p);
            let curve = model.curves()[0];
            let values = (0..200).map(|i| model.apply(0, i as f32 * 0.01, 0.0, curve).value);
            assert!(values.is_sorted(), "{p:?}");
            assert_eq!(model.apply(0, 1.0, 0.0, curve).value, 1.0);
        }
    }
}
