//! Scores of a render on the host: PSNR and SSIM in one pass over render and photo, row by row.

use super::lpips::{Lpips, Measure};
use super::pixels::{clamped, counts, squared_errors, target};
use super::scores::{Scores, psnr_of};
use super::ssim::Planes;
use dapple_engine::Rendered;
use dapple_scene::{Error, Photo, Result};
use rayon::prelude::*;

/// Returns the scores of a rendered view against its photo; `None` if a mask hides all pixels.
///
/// # Errors
/// Sizes that differ; an image too small for LPIPS.
pub fn score(
    rendered: &Rendered,
    photo: &Photo,
    background: [f32; 3],
    lpips: Option<&Lpips>,
) -> Result<Option<Scores>> {
    score_by(
        rendered,
        photo,
        background,
        lpips.map(Measure::on_host).as_mut(),
    )
}

/// Like [`score`], with LPIPS computed by the given measure.
pub(super) fn score_by(
    rendered: &Rendered,
    photo: &Photo,
    background: [f32; 3],
    lpips: Option<&mut Measure<'_>>,
) -> Result<Option<Scores>> {
    let (width, height) = (photo.width as usize, photo.height as usize);
    if (rendered.width, rendered.height) != (photo.width, photo.height)
        || rendered.rgb.len() != width * height * 3
    {
        return Err(Error::input(format!(
            "the photo is {width}x{height} and the rendered view {}x{}",
            rendered.width, rendered.height
        ))
        .hint("a photo and its camera must have one size"));
    }
    let mask = photo.mask.as_deref();
    if mask.is_some_and(|mask| !mask.iter().any(|&m| counts(m))) {
        return Ok(None);
    }
    let (planes, errors) = Planes::of_view(&rendered.rgb, photo, background);
    let distance = |lpips: &mut Measure<'_>| {
        let image: Vec<f32> = rendered.rgb.par_iter().map(|&v| clamped(v)).collect();
        lpips.distance(&image, &target(photo, background), width, height, mask)
    };
    Ok(Some(Scores {
        psnr: total_psnr(&errors),
        ssim: planes.ssim(width, height, mask),
        lpips: lpips.map(distance).transpose()?,
    }))
}

/// `10 log10(1 / mean squared error)` over the pixels that `mask` shows, dB.
///
/// Images are `[height, width, 3]` in 0..1. Rows are summed separately and added in order, so that the result does not
/// depend on the number of threads.
pub fn psnr(image: &[f32], target: &[f32], width: usize, mask: Option<&[u8]>) -> f64 {
    let row_floats = width.max(1) * 3;
    let rows: Vec<(f64, u64)> = image
        .par_chunks(row_floats)
        .zip(target.par_chunks(row_floats))
        .enumerate()
        .map(|(y, (image, target))| {
            let mask = mask.map(|mask| &mask[y * width..][..width]);
            squared_errors(image, target, mask)
        })
        .collect();
    total_psnr(&rows)
}

/// PSNR from the sums of rows, which are added in order.
fn total_psnr(rows: &[(f64, u64)]) -> f64 {
    let (sum, count) = rows
        .iter()
        .fold((0.0, 0), |(s, n), (row, count)| (s + row, n + count));
    psnr_of(sum, count)
}
