//! Gaussians that are larger than floats can hold.

use super::SplatMetadata;
use crate::{Result, Splats};
use rayon::prelude::*;

/// Logarithm of a size whose square is the largest `f32`.
const LARGEST: f32 = 44.3;

/// Adds a note if sizes are so large that renders are wrong.
pub(super) fn told(
    (splats, mut metadata): (Splats, SplatMetadata),
) -> Result<(Splats, SplatMetadata)> {
    let longest = |s: &[f32; 3]| s[0].max(s[1]).max(s[2]);
    let is_too_large = |s: &[f32; 3]| longest(s) > LARGEST;
    let count = splats.scales.par_iter().filter(|s| is_too_large(s)).count();
    if count > 0
        && let Some(first) = splats.scales.iter().position(is_too_large)
    {
        let (s, have) = if count == 1 {
            ("", "has")
        } else {
            ("s", "have")
        };
        metadata.notes.push(format!(
            "{count} Gaussian{s} {have} a size that floats cannot hold, Gaussian {first} the first, with a scale of \
             e^{:.0}: the training that wrote the file diverged, or it is damaged; `dapple edit in.ply out.ply --keep \
             'size<1e6'` removes such Gaussians",
            longest(&splats.scales[first])
        ));
    }
    Ok((splats, metadata))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn sizes_beyond_floats_are_counted_and_large_ones_are_not() {
        let mut splats = Splats::empty(0);
        splats.scales = vec![[-3.0, -3.0, 40.0], [f32::NAN; 3], [-3.0, 45.0, 1.0]];
        let (_, metadata) = told((splats.clone(), SplatMetadata::default())).unwrap();
        let note = &metadata.notes[0];
        assert!(
            note.contains("1 Gaussian has") && note.contains("Gaussian 2 the first"),
            "{note}"
        );
        splats.scales[1] = [f32::INFINITY, 0.0, 0.0];
        let (_, metadata) = told((splats.clone(), SplatMetadata::default())).unwrap();
        assert!(
            metadata.notes[0].starts_with("2 Gaussians have"),
            "{:?}",
            metadata.notes
        );
        splats.scales.truncate(1);
        let (_, metadata) = told((splats, SplatMetadata::default())).unwrap();
        assert!(metadata.notes.is_empty());
    }
}
