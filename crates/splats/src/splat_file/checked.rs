//! Checks splats before each write: arrays of one length, and numbers that readers accept.

use super::{Format, NonFinite, WriteOptions};
use crate::{Error, Result, Splats};
use rayon::prelude::*;

/// Hint that names the removal of Gaussians with numbers that no format can hold.
const HINT: &str = "an edit made the number too large, or the splats were damaged before; \
     `--keep finite` and `--keep 'size<1e6'` of `dapple edit` remove such Gaussians";

/// Checks splats before they are written in this format.
///
/// # Errors
/// Arrays of different lengths. A number that is NaN or infinite, or that becomes so in the format.
pub(super) fn check(splats: &Splats, format: Format, options: &WriteOptions) -> Result<()> {
    splats.check_lengths()?;
    if options.non_finite == NonFinite::Keep {
        return Ok(());
    }
    let rows = 0..splats.len();
    let bad = rows.into_par_iter().find_first(|&i| {
        !splats.has_finite_numbers(i) || format.has_linear_sizes() && endless(splats, i).is_some()
    });
    match bad {
        Some(i) => Err(told(splats, i, format)),
        None if format == Format::CompressedPly => check_spread(splats),
        None => Ok(()),
    }
}

/// Returns the axis along which a Gaussian is larger than the largest `f32`.
fn endless(splats: &Splats, i: usize) -> Option<usize> {
    splats.scales[i]
        .iter()
        .position(|scale| !scale.exp().is_finite())
}

/// Builds the error for a Gaussian.
fn told(splats: &Splats, i: usize, format: Format) -> Error {
    let what = match (non_finite(splats, i), endless(splats, i)) {
        (Some((name, value)), _) => {
            format!("{name} of Gaussian {i} is {value}, not a finite number")
        }
        (None, Some(axis)) => format!(
            "scale_{axis} of Gaussian {i} is {}: a size of e^{0} is larger than .{} files hold",
            splats.scales[i][axis],
            format.extension()
        ),
        (None, None) => format!("Gaussian {i} has a number that is not finite"),
    };
    Error::input(what).at("the splats to write").hint(HINT)
}

/// Returns the first non-finite number of a Gaussian, with its name in a PLY file.
fn non_finite(splats: &Splats, i: usize) -> Option<(String, f32)> {
    let stride = splats.sh_rest_stride();
    let coefficients = stride / 3;
    let rest = &splats.sh_rest[i * stride..][..stride];
    // The order is coefficient by coefficient in memory, and channel by channel in files.
    let rest_name = |k: usize| format!("f_rest_{}", k % 3 * coefficients + k / 3);
    let numbered = |name: &'static str| move |k: usize| format!("{name}_{k}");
    let axis = |k: usize| ["x", "y", "z"][k].to_owned();
    let find = |values: &[f32], name: &dyn Fn(usize) -> String| {
        let k = values.iter().position(|v| !v.is_finite())?;
        Some((name(k), values[k]))
    };
    find(&splats.means[i], &axis)
        .or_else(|| find(&splats.sh0[i], &numbered("f_dc")))
        .or_else(|| find(rest, &rest_name))
        .or_else(|| find(&splats.opacities[i..=i], &|_| "opacity".to_owned()))
        .or_else(|| find(&splats.scales[i], &numbered("scale")))
        .or_else(|| find(&splats.quats[i], &numbered("rot")))
}

/// Refuses positions whose range has no finite length, because a compressed PLY file stores positions relative to it.
fn check_spread(splats: &Splats) -> Result<()> {
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        let values = || splats.means.par_iter().map(|mean| mean[axis]);
        let low = values().reduce(|| f32::INFINITY, f32::min);
        let high = values().reduce(|| f32::NEG_INFINITY, f32::max);
        if high > low && !(high - low).is_finite() {
            let what = format!("{name} is from {low} to {high}: a range that floats cannot hold");
            return Err(Error::input(what).at("the splats to write").hint(HINT));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::{encode, encode_files, write};
    use super::*;
    use crate::ErrorKind;

    fn splats() -> Splats {
        let mut splats = Splats::empty(1);
        for i in 0..3 {
            splats.means.push([i as f32, 2.0, 3.0]);
            splats.scales.push([-3.0; 3]);
            splats.quats.push([1.0, 0.0, 0.0, 0.0]);
            splats.opacities.push(0.0);
            splats.sh0.push([0.0; 3]);
        }
        splats.sh_rest = vec![0.5; 27];
        splats
    }

    #[test]
    fn numbers_that_are_not_finite_are_written_to_no_format_and_the_old_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        type Spoil = (fn(&mut Splats), &'static str);
        let spoils: [Spoil; 6] = [
            (|s| s.means[1][1] = f32::INFINITY, "y of Gaussian 1 is inf"),
            (
                |s| s.scales[1][2] = f32::NAN,
                "scale_2 of Gaussian 1 is NaN",
            ),
            (|s| s.quats[1][3] = f32::NAN, "rot_3 of Gaussian 1 is NaN"),
            (
                |s| s.opacities[1] = f32::NEG_INFINITY,
                "opacity of Gaussian 1 is -inf",
            ),
            (|s| s.sh0[1][2] = f32::NAN, "f_dc_2 of Gaussian 1 is NaN"),
            (|s| s.sh_rest[9 + 4] = f32::NAN, "f_rest_4 of Gaussian 1"),
        ];
        for format in Format::ALL.into_iter().filter(|f| f.is_written()) {
            let path = folder.path().join(format.file_name("a"));
            write(&path, &splats(), format).unwrap();
            let old = std::fs::read(&path).unwrap();
            for (spoil, words) in spoils {
                let mut bad = splats();
                spoil(&mut bad);
                let options = WriteOptions::default();
                let in_memory = match format.is_folder() {
                    true => encode_files(&bad, format, &options).map(|_| ()),
                    false => encode(&bad, format, &options).map(|_| ()),
                };
                for refused in [write(&path, &bad, format), in_memory] {
                    let error = refused.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Input);
                    assert!(error.what().contains(words), "{format:?}: {error}");
                }
            }
            assert_eq!(std::fs::read(&path).unwrap(), old);
        }
    }

    #[test]
    fn sizes_and_ranges_that_a_format_cannot_hold_are_refused_there() {
        let options = WriteOptions::default();
        let refused = |splats: &Splats, format| encode(splats, format, &options).err();
        let mut large = splats();
        large.scales[2][0] = 100.0;
        for format in [Format::Glb, Format::Splat] {
            let error = refused(&large, format).unwrap();
            assert!(error.what().contains("scale_0 of Gaussian 2"), "{error}");
        }
        for format in [Format::Ply, Format::Spz, Format::Sog] {
            assert!(refused(&large, format).is_none(), "{format:?}");
        }
        let mut far = splats();
        (far.means[0][1], far.means[1][1]) = (3e38, -3e38);
        let error = refused(&far, Format::CompressedPly).unwrap();
        assert!(error.what().contains("y is from"), "{error}");
        assert!(refused(&far, Format::Ply).is_none());
    }

    #[test]
    fn who_asks_for_it_writes_numbers_as_they_are() {
        let mut bad = splats();
        bad.means[0][0] = f32::NAN;
        let options = WriteOptions {
            non_finite: NonFinite::Keep,
            ..WriteOptions::default()
        };
        encode(&bad, Format::Ply, &options).unwrap();
    }
}
