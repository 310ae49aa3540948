//! Region of interest of density control.
//!
//! Pixels whose rays meet the region show Gaussians before and behind it too. So a Gaussian counts by the cameras:
//!
//! 1. Inside the region, the share of a Gaussian is [`WHOLE`].
//! 2. Outside, it grows from [`DensityFocus::outside`] to [`WHOLE`] with the number of cameras whose rays to the centre of the Gaussian
//!    meet the region, divided by the number of cameras that have the centre in their photo ([`DensityFocus::share`]).
//! 3. In relocation, the weight of the draw is multiplied by the share / 256 and is at least 1.
//! 4. In adaptive density control, the mean gradient is multiplied by the share / 256 before it is compared with the
//!    threshold and with other gradients.
//!
//! Reference: `dapple_reference::relocate` and `dapple_reference::conformance::focus`.

use serde::{Deserialize, Serialize};

/// [`DensityFocus::outside`] of Gaussians that count as much as those inside.
pub const WHOLE: u32 = 256;

/// Number of cameras of a region, at most.
pub const VIEWS: usize = 32;

/// Camera of a region of interest: a cone that contains the photo.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FocusView {
    /// Centre of the camera, world coordinates.
    pub centre: [f32; 3],
    /// Optical axis, unit length.
    pub axis: [f32; 3],
    /// Least cosine of the angle between the axis and a ray of the photo: -1 for all directions, above 1 for no camera.
    pub least_cosine: f32,
}

impl FocusView {
    /// No camera.
    pub const NONE: Self = Self {
        centre: [0.0; 3],
        axis: [0.0, 0.0, 1.0],
        least_cosine: 2.0,
    };

    /// Returns true if the photo can show this point.
    fn sees(&self, point: [f32; 3]) -> bool {
        let ray = difference(point, self.centre);
        let length = dot(ray, ray).sqrt();
        length > 0.0 && dot(ray, self.axis) >= self.least_cosine * length
    }
}

/// Region of interest of density control: a ball or an oriented box, as a map to the unit ball or cube.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DensityFocus {
    /// Rows of the affine map from world coordinates to those of the region: factors of x, y and z, and an offset.
    pub rows: [[f32; 4]; 3],
    /// True for the cube of the coordinates -1 to 1; false for the ball of radius 1.
    pub is_box: bool,
    /// Share of Gaussians outside that no camera shows before or behind the region, 0 to [`WHOLE`].
    pub outside: u32,
    /// Cameras; [`FocusView::NONE`] in unused places.
    pub views: [FocusView; VIEWS],
}

impl DensityFocus {
    /// Returns a point in the coordinates of the region.
    fn place(&self, point: [f32; 3]) -> [f32; 3] {
        self.rows
            .map(|[a, b, c, d]| a * point[0] + b * point[1] + c * point[2] + d)
    }

    /// Returns true if a centre is in the region.
    pub fn contains(&self, mean: [f32; 3]) -> bool {
        let place = self.place(mean);
        match self.is_box {
            true => place.iter().all(|v| v.abs() <= 1.0),
            false => dot(place, place) <= 1.0,
        }
    }

    /// Returns true if the ray from a camera's centre through a point meets the region.
    fn meets(&self, centre: [f32; 3], point: [f32; 3]) -> bool {
        let start = self.place(centre);
        let ray = difference(self.place(point), start);
        if !self.is_box {
            let (ahead, beyond) = (-dot(start, ray), dot(start, start) - 1.0);
            return beyond <= 0.0 || ahead > 0.0 && ahead * ahead >= dot(ray, ray) * beyond;
        }
        // Separating axes: those of the cube, and their cross products with the ray.
        (0..3).all(|k| {
            let (i, j) = ((k + 1) % 3, (k + 2) % 3);
            let leaves = start[k].abs() > 1.0 && start[k] * ray[k] >= 0.0;
            let moment = start[i] * ray[j] - start[j] * ray[i];
            !leaves && moment.abs() <= ray[i].abs() + ray[j].abs()
        })
    }

    /// Returns how much a Gaussian counts, [`Self::outside`] to [`WHOLE`].
    pub fn share(&self, mean: [f32; 3]) -> u32 {
        if self.contains(mean) {
            return WHOLE;
        }
        let seeing = self.views.iter().filter(|view| view.sees(mean));
        let (seen, meeting) = seeing.fold((0, 0), |(seen, meeting), view| {
            (seen + 1, meeting + u32::from(self.meets(view.centre, mean)))
        });
        self.outside + (WHOLE - self.outside) * meeting / seen.max(1)
    }

    /// Returns the weight of a live Gaussian in the draw of a relocation, from its weight without a region.
    pub fn weight(&self, weight: u32, mean: [f32; 3]) -> u32 {
        ((weight * self.share(mean)) >> 8).max(1)
    }

    /// Returns the factor of a Gaussian's mean gradient.
    pub fn gradient_factor(&self, mean: [f32; 3]) -> f32 {
        self.share(mean) as f32 * (1.0 / WHOLE as f32)
    }
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn difference(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}
