//! Shared code of formats with few bits: opacities that end before 0 and 1, rotations by their three smaller
//! components, and numbers at offsets of a file.

use crate::{Error, MAX_SH_DEGREE, Result};

/// Logit of an opacity of 1, whose sigmoid rounds to 1 in `f32`; its negative is the logit of 0.
const LOGIT_OF_ONE: f32 = 18.0;

/// ln of the standard deviation that replaces 0.
pub(super) const LEAST_SCALE: f32 = -20.0;

/// Returns ln of a standard deviation; NaN for non-finite ones.
pub(crate) fn linear_scale(sigma: f32) -> f32 {
    match sigma.is_finite() {
        true => sigma.max(0.0).ln().max(LEAST_SCALE),
        false => f32::NAN,
    }
}

/// Returns the opacity of a logit, 0 to 1.
pub(crate) fn alpha(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// Returns the logit of an opacity, finite. Opacities beyond 0 and 1 are clamped; NaN and infinite opacities give NaN.
///
/// A byte of 255 is an opacity of 1: writers round 255 times the sigmoid, or truncate it (SOG), and most of the rounded
/// values are nearer to 1 than to 254.5 / 255.
pub(crate) fn logit(alpha: f32) -> f32 {
    if !alpha.is_finite() {
        return f32::NAN;
    }
    let alpha = alpha.clamp(0.0, 1.0);
    (alpha / (1.0 - alpha))
        .ln()
        .clamp(-LOGIT_OF_ONE, LOGIT_OF_ONE)
}

/// Returns the note that harmonics of this degree are dropped.
pub(crate) fn cut_harmonics(degree: u8) -> String {
    format!("harmonics of degree {degree} are dropped: Dapple has {MAX_SH_DEGREE} at most")
}

/// Normalises a quaternion; returns the identity if its length is zero.
pub(crate) fn unit(quat: [f32; 4]) -> [f32; 4] {
    let length = quat.iter().map(|q| q * q).sum::<f32>().sqrt();
    match length > 0.0 && length.is_finite() {
        true => quat.map(|q| q / length),
        false => [1.0, 0.0, 0.0, 0.0],
    }
}

/// Returns the index of the component whose magnitude is largest, the first of equals.
pub(crate) fn largest(quat: &[f32; 4]) -> usize {
    (1..4).fold(0, |best, i| match quat[i].abs() > quat[best].abs() {
        true => i,
        false => best,
    })
}

/// Fills the component at `largest` so that the length is 1.
pub(super) fn complete(quat: &mut [f32; 4], largest: usize) {
    quat[largest] = 0.0;
    let others: f32 = quat.iter().map(|q| q * q).sum();
    // Damaged quaternions may already be longer than 1.
    quat[largest] = (1.0 - others).max(0.0).sqrt();
}

/// Forward reader of a file's bytes.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Name of the format, for errors.
    format: &'static str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize, format: &'static str) -> Self {
        Self { bytes, at, format }
    }

    /// Returns the position, bytes from the file's beginning.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Reads the next bytes; the error for missing bytes names `what`.
    pub(super) fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count);
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let Some(found) = found else {
            let left = self.bytes.len().saturating_sub(self.at);
            let what = format!(
                "the {} file ends within its {what}: {count} bytes are needed, {left} are left",
                self.format
            );
            return Err(Error::input(what)
                .at(format!("byte {}", self.at))
                .hint("copy the file again: it is cut or damaged"));
        };
        self.at += count;
        Ok(found)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.take(N, what)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }

    pub(super) fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }
}

/// Reads the `index`-th little-endian `f32` of bytes; 0 beyond them.
pub(super) fn float_at(bytes: &[u8], index: usize) -> f32 {
    let bytes = bytes.get(4 * index..4 * index + 4);
    f32::from_le_bytes(bytes.and_then(|b| b.try_into().ok()).unwrap_or_default())
}
