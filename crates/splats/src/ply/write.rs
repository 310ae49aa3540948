//! Writes [`Splats`] to a PLY file.

use crate::Similarity;
use crate::splat_file::WriteOptions;
use crate::{Splats, origin};
use glam::DVec3;
use rayon::prelude::*;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Rows encoded together, in parallel: 16 MiB at degree 3.
const ROWS_AT_ONCE: usize = 1 << 16;

/// Comment of splats that were trained with anti-aliasing, in the form of Brush and `splat-transform`.
pub(super) const MIP_LINE: &str = "comment SplatRenderMode: mip\n";

/// Comments of the header: the rendering mode of the splats, the local origin of their positions, and their motion
/// since training.
pub(super) fn comments(options: &WriteOptions) -> String {
    let mut lines = String::new();
    if options.antialiased {
        lines.push_str(MIP_LINE);
    }
    if options.origin != DVec3::ZERO && !options.world {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "comment Origin: {}", origin::shown(options.origin));
    }
    if options.moved != Similarity::IDENTITY {
        let moved = match options.world {
            true => options.moved.about(-options.origin),
            false => options.moved,
        };
        let numbers = moved.numbers().map(|number| number.to_string());
        let _ = writeln!(lines, "comment Moved: {}", numbers.join(" "));
    }
    lines
}

/// Writes the PLY file to an open writer.
pub(crate) fn write_to(
    out: &mut dyn Write,
    splats: &Splats,
    options: &WriteOptions,
) -> io::Result<()> {
    let names = property_names(splats.sh_rest_stride());
    let mut header = format!(
        "ply\nformat binary_little_endian 1.0\n{}element vertex {}\n",
        comments(options),
        splats.len()
    );
    let is_wide = |i: usize| options.world && i < 3;
    for (i, name) in names.iter().enumerate() {
        let kind = if is_wide(i) { "double" } else { "float" };
        let _ = writeln!(header, "property {kind} {name}");
    }
    header.push_str("end_header\n");
    out.write_all(header.as_bytes())?;

    let wide = if options.world {
        3 * size_of::<f32>()
    } else {
        0
    };
    let stride = names.len() * size_of::<f32>() + wide;
    let encode_from = |first: usize, rows: &mut Vec<u8>| {
        let count = splats.len().saturating_sub(first).min(ROWS_AT_ONCE);
        rows.resize(count * stride, 0);
        let rows = rows.par_chunks_exact_mut(stride).enumerate();
        rows.for_each(|(i, row)| match options.world {
            true => encode_wide(splats, first + i, options.origin, row),
            false => encode(splats, first + i, row),
        });
    };
    // The next rows are encoded while the previous ones are written.
    let (mut rows, mut following) = (Vec::new(), Vec::new());
    encode_from(0, &mut rows);
    for first in (0..splats.len()).step_by(ROWS_AT_ONCE) {
        let next = &mut following;
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| encode_from(first + ROWS_AT_ONCE, next));
            out.write_all(&rows)
        })?;
        std::mem::swap(&mut rows, &mut following);
    }
    Ok(())
}

/// Returns the layout's properties in its order.
fn property_names(sh_rest_stride: usize) -> Vec<String> {
    let fixed = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
    let mut names = fixed(&[
        "x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2",
    ]);
    names.extend((0..sh_rest_stride).map(|i| format!("f_rest_{i}")));
    names.extend(fixed(&["opacity", "scale_0", "scale_1", "scale_2"]));
    names.extend(fixed(&["rot_0", "rot_1", "rot_2", "rot_3"]));
    names
}

/// Encodes one Gaussian in the order of [`property_names`].
fn encode(splats: &Splats, i: usize, row: &mut [u8]) {
    let stride = splats.sh_rest_stride();
    let sh_rest = &splats.sh_rest[i * stride..(i + 1) * stride];
    let coefficients = stride / 3;
    let channel_major = (0..stride).map(|at| {
        let (channel, coefficient) = (at / coefficients, at % coefficients);
        sh_rest[coefficient * 3 + channel]
    });
    let values = splats.means[i]
        .into_iter()
        .chain([0.0; 3])
        .chain(splats.sh0[i])
        .chain(channel_major)
        .chain([splats.opacities[i]])
        .chain(splats.scales[i])
        .chain(splats.quats[i]);
    for (bytes, value) in row.chunks_exact_mut(size_of::<f32>()).zip(values) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

/// Encodes a Gaussian with the position in doubles, in the frame of the origin.
fn encode_wide(splats: &Splats, i: usize, origin: DVec3, row: &mut [u8]) {
    let position = (DVec3::from(splats.means[i].map(f64::from)) + origin).to_array();
    // The narrow row begins so that its `z` overwrites the last bytes of the wide one.
    encode(
        splats,
        i,
        &mut row[3 * (size_of::<f64>() - size_of::<f32>())..],
    );
    for (bytes, value) in row.chunks_exact_mut(size_of::<f64>()).zip(position) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}
