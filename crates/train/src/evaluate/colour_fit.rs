//! Scores after a colour fit, which removes a change of all colours by a photo's camera.
//!
//! Splats that were trained with the photos' appearance show the average appearance. A held-out photo has its own
//! exposure, which is unknown before scoring. As is customary for such models (Mip-NeRF 360's and the bilateral grid's
//! evaluations), each render is first sent through the affine map of colours that brings it nearest to its photo:
//!
//! 1. `M = argmin over [3, 4] of sum_p |M (c_p, 1) - t_p|^2 + n r |M - I|^2`, over the n pixels p that
//!    no mask hides, c the rendered colour in 0..1, t the photo's; r = 1e-6 decides where the pixels do
//!    not, as for a render of one colour.
//! 2. By the normal equations, in `f64`: `(C + n r) M^T = B + n r I^T` with `C = sum (c, 1)(c, 1)^T` and
//!    `B = sum (c, 1) t^T`.
//! 3. PSNR and SSIM of the result, clamped to 0..1, are `cc_psnr` and `cc_ssim`.

use super::pixels::{clamped, counts, target};
use dapple_engine::Rendered;
use dapple_scene::Photo;
use rayon::prelude::*;

/// Weight of the identity against the pixels.
const RIDGE: f64 = 1e-6;

/// Returns a rendered view with the colours that bring it nearest to its photo.
pub(super) fn fitted(rendered: &Rendered, photo: &Photo, background: [f32; 3]) -> Rendered {
    let map = fit(rendered, photo, background);
    let pixels = rendered.rgb.par_chunks_exact(3);
    let rgb = pixels.flat_map_iter(|rgb| {
        let [r, g, b] = [0, 1, 2].map(|c| f64::from(clamped(rgb[c])));
        map.map(|[by_r, by_g, by_b, offset]| (by_r * r + by_g * g + by_b * b + offset) as f32)
    });
    Rendered {
        rgb: rgb.collect(),
        ..rendered.clone()
    }
}

/// Sums over pixels: the upper triangle of C by rows, and B by rows.
type Sums = [f64; 10 + 12];

/// Steps 1 and 2: computes the rows of the map. The identity if sizes differ, which scoring refuses.
fn fit(rendered: &Rendered, photo: &Photo, background: [f32; 3]) -> [[f64; 4]; 3] {
    let target = target(photo, background);
    let row_floats = photo.width.max(1) as usize * 3;
    let mask = photo.mask.as_deref();
    // Rows are summed separately and added in order: the result does not depend on the number of threads.
    let rows: Vec<(Sums, f64)> = rendered
        .rgb
        .par_chunks(row_floats)
        .zip(target.par_chunks(row_floats))
        .enumerate()
        .map(|(y, (row, target))| {
            let mut sums = ([0.0; 22], 0.0);
            let pairs = row.chunks_exact(3).zip(target.chunks_exact(3));
            for (x, (colour, photo)) in pairs.enumerate() {
                if mask.is_none_or(|mask| counts(mask[y * row_floats / 3 + x])) {
                    add_pixel(&mut sums, colour, photo);
                }
            }
            sums
        })
        .collect();
    let (mut sums, mut n) = ([0.0; 22], 0.0);
    for (row, count) in rows {
        n += count;
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
    solve(&sums, n.max(1.0))
}

fn add_pixel((sums, count): &mut (Sums, f64), colour: &[f32], photo: &[f32]) {
    let c = [0, 1, 2].map(|i| f64::from(clamped(colour[i])));
    let input = [c[0], c[1], c[2], 1.0];
    *count += 1.0;
    let mut at = 0;
    for i in 0..4 {
        for j in i..4 {
            sums[at] += input[i] * input[j];
            at += 1;
        }
    }
    for value in input {
        for &t in photo {
            sums[at] += value * f64::from(t);
            at += 1;
        }
    }
}

/// Step 2, by Cholesky's decomposition: the ridge makes the matrix positive definite.
#[allow(clippy::needless_range_loop, reason = "rows and columns of matrices")]
fn solve(sums: &Sums, n: f64) -> [[f64; 4]; 3] {
    let ridge = n * RIDGE;
    let mut c = [[0.0; 4]; 4];
    let mut at = 0;
    for i in 0..4 {
        for j in i..4 {
            c[i][j] = sums[at];
            c[j][i] = sums[at];
            at += 1;
        }
        c[i][i] += ridge;
    }
    let mut lower = [[0.0; 4]; 4];
    for i in 0..4 {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
            lower[i][j] = if i == j {
                (c[i][i] - dot).max(ridge * 1e-3).sqrt()
            } else {
                (c[i][j] - dot) / lower[j][j]
            };
        }
    }
    [0, 1, 2].map(|channel| {
        let mut x = [0.0; 4];
        for i in 0..4 {
            let identity = if i == channel { ridge } else { 0.0 };
            let dot: f64 = (0..i).map(|k| lower[i][k] * x[k]).sum();
            x[i] = (sums[10 + 3 * i + channel] + identity - dot) / lower[i][i];
        }
        for i in (0..4).rev() {
            let dot: f64 = (i + 1..4).map(|k| lower[k][i] * x[k]).sum();
            x[i] = (x[i] - dot) / lower[i][i];
        }
        x
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::evaluate::{PSNR_MAX, score};

    fn rendered(rgb: Vec<f32>) -> Rendered {
        Rendered {
            width: 20,
            height: 15,
            rgb,
            ..Rendered::default()
        }
    }

    fn noise(i: usize) -> f32 {
        (i * 7919 % 1000) as f32 / 1000.0
    }

    #[test]
    fn an_affine_map_is_found_and_undone() {
        let image = rendered((0..900).map(|i| 0.1 + 0.5 * noise(i)).collect());
        let rows = [
            [1.2, 0.1, 0.0, -0.05],
            [0.05, 0.8, 0.1, 0.02],
            [0.0, -0.1, 1.3, 0.1],
        ];
        let bytes = image.rgb.chunks_exact(3).flat_map(|c| {
            rows.map(|[r, g, b, o]: [f32; 4]| {
                ((r * c[0] + g * c[1] + b * c[2] + o) * 255.0).round() as u8
            })
        });
        let mut photo = Photo::from_rgb(20, 15, bytes.collect());
        // Masked pixels have no effect.
        photo.mask = Some((0..300).map(|i| if i < 20 { 0 } else { 255 }).collect());
        photo.rgb[..60].fill(255);
        let map = fit(&image, &photo, [0.0; 3]);
        for (row, expected) in map.iter().zip(rows) {
            for (value, expected) in row.iter().zip(expected) {
                assert!((value - f64::from(expected)).abs() < 3e-3, "{map:?}");
            }
        }
        let before = score(&image, &photo, [0.0; 3], None).unwrap().unwrap();
        let after = score(&fitted(&image, &photo, [0.0; 3]), &photo, [0.0; 3], None);
        let after = after.unwrap().unwrap();
        // The remaining error is the rounding to bytes: 1 / 255 / sqrt(12), 59 dB.
        assert!(
            before.psnr < 25.0 && after.psnr > 55.0,
            "{before:?} {after:?}"
        );
    }

    #[test]
    fn one_colour_becomes_the_mean_and_equal_images_stay() {
        let image = rendered(vec![0.5; 900]);
        let bytes: Vec<u8> = (0..900).map(|i| (255.0 * noise(i)) as u8).collect();
        let photo = Photo::from_rgb(20, 15, bytes.clone());
        let out = fitted(&image, &photo, [0.0; 3]);
        for c in 0..3 {
            let values = bytes
                .iter()
                .skip(c)
                .step_by(3)
                .map(|&v| f64::from(v) / 255.0);
            let mean = values.sum::<f64>() / 300.0;
            assert!((f64::from(out.rgb[c]) - mean).abs() < 1e-3);
        }
        let same = rendered(bytes.iter().map(|&v| f32::from(v) / 255.0).collect());
        let out = score(&fitted(&same, &photo, [0.0; 3]), &photo, [0.0; 3], None);
        assert!(out.unwrap().unwrap().psnr > PSNR_MAX - 20.0);
    }
}
