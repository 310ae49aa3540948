//! `appearance` by the photometric model: exposure and white balance of a photo, vignetting and response of a camera.
//!
//! Formulas: [`dapple_engine::features::photometric`]. The row of a photo with its camera: log gains by channel, one unused
//! number, vignetting by channel, response by channel, one unused number.
//!
//! 1. Forward: `z = f(x exp(g + a1 r^2 + a2 r^4 + a3 r^6))` for each channel of each pixel.
//! 2. Backward: by x, by g and by a through the gain, by p through `c = tanh(p) / 2`.
//! 3. The prior: `prior (mean g^2 + mean a^2 + mean p^2)`.

use dapple_engine::features::photometric::{CAMERA, CURVES, RESPONSE, ROW, VIGNETTING};

/// Image that the photometric model corrects.
#[derive(Debug, Clone, Copy)]
pub struct PhotometricImage<'a> {
    /// Rendered colours, `[height, width, 3]`.
    pub rgb: &'a [f64],
    /// Width and height, pixels.
    pub size: [usize; 2],
    /// Principal point, pixels.
    pub principal: [f64; 2],
}

/// Value of one channel, and its derivatives.
struct Channel {
    value: f64,
    by_x: f64,
    by_gain: f64,
    by_vignetting: [f64; VIGNETTING],
    by_response: [f64; RESPONSE],
}

/// Computes steps 1 and 2 for one channel with the value `x` at squared distance `r2`.
fn channel(row: &[f64], c: usize, x: f64, r2: f64) -> Channel {
    let a = &row[CAMERA + VIGNETTING * c..][..VIGNETTING];
    let p = &row[CURVES + RESPONSE * c..][..RESPONSE];
    let gain = (row[c] + a[0] * r2 + a[1] * r2.powi(2) + a[2] * r2.powi(3)).exp();
    let y = x * gain;
    let [c1, c2] = [p[0], p[1]].map(|p| p.tanh() / 2.0);
    let by_p = [p[0], p[1]].map(|p| (1.0 - p.tanh().powi(2)) / 2.0);
    let (value, slope, by_c) = if y > 1.0 {
        let slope = 1.0 - c1 + c2;
        (1.0 + slope * (y - 1.0), slope, [1.0 - y, y - 1.0])
    } else {
        let (bump, tilt) = (y * (1.0 - y), 1.0 - 2.0 * y);
        (
            y + c1 * bump + c2 * bump * tilt,
            1.0 + c1 * tilt + c2 * (tilt.powi(2) - 2.0 * bump),
            [bump, bump * tilt],
        )
    };
    Channel {
        value,
        by_x: slope * gain,
        by_gain: slope * y,
        by_vignetting: [1, 2, 3].map(|k| slope * y * r2.powi(k)),
        by_response: [by_c[0] * by_p[0], by_c[1] * by_p[1]],
    }
}

impl PhotometricImage<'_> {
    fn radius2(&self, pixel: usize) -> f64 {
        let [width, height] = self.size;
        let dx = (pixel % width) as f64 + 0.5 - self.principal[0];
        let dy = (pixel / width) as f64 + 0.5 - self.principal[1];
        let [w, h] = [width as f64, height as f64];
        4.0 * (dx * dx + dy * dy) / (w * w + h * h)
    }

    /// Applies the model of a row to the image.
    pub fn corrected(&self, row: &[f64]) -> Vec<f64> {
        let values = self.rgb.iter().enumerate();
        values
            .map(|(i, &x)| channel(row, i % 3, x, self.radius2(i / 3)).value)
            .collect()
    }

    /// Converts the derivative by the result of [`Self::corrected`] to the derivatives by the image and by the row.
    pub fn backward(&self, row: &[f64], dl_dout: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut by_rgb = vec![0.0; self.rgb.len()];
        let mut by_row = vec![0.0; ROW];
        for (i, (&x, &dl)) in self.rgb.iter().zip(dl_dout).enumerate() {
            let c = i % 3;
            let at = channel(row, c, x, self.radius2(i / 3));
            by_rgb[i] = dl * at.by_x;
            by_row[c] += dl * at.by_gain;
            for (k, by) in at.by_vignetting.iter().enumerate() {
                by_row[CAMERA + VIGNETTING * c + k] += dl * by;
            }
            for (k, by) in at.by_response.iter().enumerate() {
                by_row[CURVES + RESPONSE * c + k] += dl * by;
            }
        }
        (by_rgb, by_row)
    }
}

/// Computes step 3: the prior of a row and its derivative.
pub fn photometric_prior(row: &[f64], prior: f64) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; ROW];
    let mut total = 0.0;
    for numbers in [0..3, CAMERA..CURVES, CURVES..CURVES + 3 * RESPONSE] {
        let weight = prior / numbers.len() as f64;
        for i in numbers {
            total += weight * row[i] * row[i];
            gradient[i] = 2.0 * weight * row[i];
        }
    }
    (total, gradient)
}
