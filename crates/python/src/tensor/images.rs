//! Windows on images, checked.

use super::arguments::{MOST, refused};
use dapple_tensor::{Tensor, Windows};
use pyo3::prelude::*;

/// Returns windows, if their sums stay within the range of indices.
pub fn windows(
    py: Python<'_>,
    [stride, padding, kernel]: [[usize; 2]; 3],
    x: &Tensor,
) -> PyResult<Windows> {
    let &[n, channels, rows, columns] = x.shape() else {
        // The operation names the shapes.
        return Ok(Windows::default());
    };
    let along = |axis: usize, size: usize| {
        let padded = size as u128 + 2 * padding[axis] as u128;
        let windows = padded.saturating_sub(kernel[axis] as u128) / stride[axis].max(1) as u128 + 1;
        windows.saturating_mul(kernel[axis] as u128)
    };
    let taps = along(0, rows).saturating_mul(along(1, columns));
    let taps = taps.saturating_mul(n.max(1) as u128 * channels.max(1) as u128);
    let most = u128::from(u32::MAX);
    if taps > most || padding.iter().any(|padding| *padding > MOST) {
        let what = format!(
            "windows with padding {padding:?} on {:?} have {taps} elements",
            x.shape()
        );
        let hint = "cut the image, or the batch, into parts; use less padding";
        return Err(refused(py, what, "padding", hint));
    }
    Ok(Windows { stride, padding })
}
