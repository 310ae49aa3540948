//! Dapple's files must have the same meaning for other tools: SuperSplat's `splat-transform` opens them.
//!
//! Needs `DAPPLE_SPLAT_TRANSFORM`, the path of the tool's `bin/cli.mjs` (run with `node`) or of its executable:
//! `npm install @playcanvas/splat-transform` installs both.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::splat_transform;
use dapple_splats::splat_file::{self, Format};
use dapple_splats::{Splats, ply, sh_coefficient_count};
use glam::{DMat3, DQuat, DVec3};

use splat_transform::{convert, tool};
use std::path::Path;

/// Builds five Gaussians; the first three are on the axes, so that they show the effect of a rotation. Every value is
/// different.
fn sample(sh_degree: u8) -> Splats {
    let mut next = 0.0f32;
    let mut value = || {
        next += 0.737;
        next.sin()
    };
    let mut splats = Splats::empty(sh_degree);
    for i in 0..5 {
        let axis = |k: usize| f32::from(u8::from(i == k));
        let mean = if i < 3 {
            [axis(0), axis(1), axis(2)]
        } else {
            [value(), value(), value()]
        };
        splats.means.push(mean);
        splats.scales.push([value(), value() - 1.0, value() - 2.0]);
        splats
            .quats
            .push(unit([value(), value(), value(), value()]));
        splats.opacities.push(value());
        splats.sh0.push([value(), value(), value()]);
        let rest = (sh_coefficient_count(sh_degree) - 1) * 3;
        splats.sh_rest.extend((0..rest).map(|_| value()));
    }
    splats
}

fn unit(q: [f32; 4]) -> [f32; 4] {
    let length = q.iter().map(|c| c * c).sum::<f32>().sqrt();
    q.map(|c| c / length)
}

/// Reads a table by column name.
fn read_csv(path: &Path) -> Vec<(String, Vec<f32>)> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names = lines.next().unwrap().split(',');
    let mut columns: Vec<_> = names.map(|name| (name.to_owned(), Vec::new())).collect();
    for line in lines {
        for (column, value) in columns.iter_mut().zip(line.split(',')) {
            column.1.push(value.parse().unwrap());
        }
    }
    columns
}

#[test]
fn every_column_has_its_value() {
    let Some(tool) = tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    for degree in 0..=3 {
        let splats = sample(degree);
        let [ours, csv, back] =
            ["ours.ply", "table.csv", "back.ply"].map(|n| folder.path().join(n));
        ply::write(&ours, &splats).unwrap();
        convert(&tool, &[], &ours, &[], &csv);
        let columns = read_csv(&csv);
        let column = |name: &str| -> &[f32] {
            let found = columns.iter().find(|(n, _)| n == name);
            &found
                .unwrap_or_else(|| panic!("no column {name} at degree {degree}"))
                .1
        };
        let per_channel = sh_coefficient_count(degree) - 1;
        for i in 0..splats.len() {
            for axis in 0..3 {
                assert_eq!(column(["x", "y", "z"][axis])[i], splats.means[i][axis]);
                assert_eq!(column(&format!("scale_{axis}"))[i], splats.scales[i][axis]);
                assert_eq!(column(&format!("f_dc_{axis}"))[i], splats.sh0[i][axis]);
            }
            for axis in 0..4 {
                assert_eq!(column(&format!("rot_{axis}"))[i], splats.quats[i][axis]);
            }
            assert_eq!(column("opacity")[i], splats.opacities[i]);
            for channel in 0..3 {
                for k in 0..per_channel {
                    let name = format!("f_rest_{}", channel * per_channel + k);
                    let value = splats.sh_rest[(i * per_channel + k) * 3 + channel];
                    assert_eq!(column(&name)[i], value, "{name}");
                }
            }
        }
        assert!(
            !columns
                .iter()
                .any(|(n, _)| *n == format!("f_rest_{}", 3 * per_channel))
        );
        // Dapple reads the tool's file.
        convert(&tool, &[], &ours, &[], &back);
        assert_eq!(ply::read(&back).unwrap(), splats, "degree {degree}");
    }
}

/// Builds many small clusters, so that chunks have different ranges: three chunks, the last not full.
fn crowd(sh_degree: u8) -> Splats {
    let mut next = 0u32;
    let mut value = || {
        next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (next >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut splats = Splats::empty(sh_degree);
    for i in 0..600 {
        let far = (i % 5) as f32 * 3.0;
        splats.means.push([value() + far, value() * 2.0, value()]);
        splats
            .scales
            .push([value() - 3.0, value() - 4.0, value() - 5.0]);
        splats
            .quats
            .push(unit([value(), value(), value(), value()]));
        splats.opacities.push(value() * 5.0);
        splats.sh0.push([value(), value(), value()]);
        let rest = (sh_coefficient_count(sh_degree) - 1) * 3;
        splats.sh_rest.extend((0..rest).map(|_| value() * 1.5));
    }
    splats
}

#[track_caller]
fn assert_within(found: &[f32], expected: &[f32], allowed: f32) {
    for (found, expected) in found.iter().zip(expected) {
        let off = (found - expected).abs();
        assert!(off <= allowed, "{found} {expected}: {off} > {allowed}");
    }
}

/// The tool compresses Dapple's file. Dapple reads from it the written splats within the steps of its bits, and the
/// splats that the tool itself unpacks.
#[test]
fn what_the_tool_compresses_is_read() {
    let Some(tool) = tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    for degree in 0..=3 {
        let splats = crowd(degree);
        let [ours, packed, back] =
            ["ours.ply", "ours.compressed.ply", "back.ply"].map(|n| folder.path().join(n));
        ply::write(&ours, &splats).unwrap();
        convert(&tool, &[], &ours, &[], &packed);
        convert(&tool, &[], &packed, &[], &back);
        let found = ply::read(&packed).unwrap();
        assert_eq!((found.len(), found.sh_degree), (splats.len(), degree));

        // The tool sorts. The widest box is 14 x 4 x 2, in 2047, 1023 and 2047 steps, and scales
        // reach over 2 on each axis: half a step, and rounding.
        let stride = splats.sh_rest_stride();
        for i in 0..found.len() {
            let off = |k: usize| -> f32 {
                let axes = found.means[i].iter().zip(&splats.means[k]);
                axes.map(|(a, b)| (a - b) * (a - b)).sum()
            };
            let k = (0..splats.len()).min_by(|&a, &b| off(a).total_cmp(&off(b)));
            let k = k.unwrap();
            assert_within(
                &found.means[i],
                &splats.means[k],
                0.5 * 14.0 / 2047.0 + 1e-5,
            );
            assert_within(
                &found.scales[i],
                &splats.scales[k],
                0.5 * 2.0 / 1023.0 + 1e-5,
            );
            // Either of a rotation's two quaternions; the largest component has at most three times the others' error.
            let step = 0.5 * std::f32::consts::SQRT_2 / 1023.0 + 1e-6;
            let dot: f32 = (found.quats[i].iter().zip(&splats.quats[k]))
                .map(|(a, b)| a * b)
                .sum();
            let quat = splats.quats[k].map(|q| q * dot.signum());
            assert_within(&found.quats[i], &quat, 3.0 * step);
            // Colours of a chunk reach over 2 / SH_C0 at most, in 255 steps.
            assert_within(&found.sh0[i], &splats.sh0[k], 0.5 * 2.0 / 255.0 + 1e-4);
            let alpha = |logit: f32| 1.0 / (1.0 + (-logit).exp());
            let found_alpha = alpha(found.opacities[i]);
            assert_within(
                &[found_alpha],
                &[alpha(splats.opacities[k])],
                0.5 / 255.0 + 1e-5,
            );
            let rest = &splats.sh_rest[k * stride..(k + 1) * stride];
            assert_within(
                &found.sh_rest[i * stride..(i + 1) * stride],
                rest,
                0.5 / 32.0 + 1e-5,
            );
        }

        // The tool's own reading, in the same order and in single precision.
        let back = ply::read(&back).unwrap();
        let flat = |s: &Splats| {
            let mut all = s.means.as_flattened().to_vec();
            all.extend(s.scales.as_flattened());
            all.extend(s.quats.as_flattened());
            all.extend(s.sh0.as_flattened());
            all.extend(s.opacities.iter().map(|o| o.clamp(-6.0, 6.0)));
            all.extend(&s.sh_rest);
            all
        };
        assert_within(&flat(&found), &flat(&back), 2e-5);
    }
}

/// The tool rotates the scene by its own conventions of quaternions and harmonics. If these are Dapple's, shapes and
/// colours rotate with the scene.
#[test]
fn rotated_by_the_tool_shapes_and_colours_turn_along() {
    let Some(tool) = tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (ours, turned) = (
        folder.path().join("ours.ply"),
        folder.path().join("turned.ply"),
    );
    for degree in 0..=3 {
        let before = sample(degree);
        ply::write(&ours, &before).unwrap();
        convert(&tool, &[], &ours, &["--rotate", "20,-35,50"], &turned);
        let after = ply::read(&turned).unwrap();
        assert_eq!((after.len(), after.sh_degree), (before.len(), degree));
        let mean = |i: usize| DVec3::from(after.means[i].map(f64::from));
        let rotation = DMat3::from_cols(mean(0), mean(1), mean(2));
        assert!((rotation.determinant() - 1.0).abs() < 1e-5);
        for i in 0..before.len() {
            let expected = rotation * covariance(&before, i) * rotation.transpose();
            let found = covariance(&after, i);
            assert!(
                found.abs_diff_eq(expected, 1e-4),
                "degree {degree}: {found} {expected}"
            );
            for step in 0..7 {
                let angle = f64::from(step);
                let direction =
                    DVec3::new(angle.sin(), angle.cos(), (2.0 * angle).sin()).normalize();
                let expected = colour(&before, i, direction);
                let found = colour(&after, i, rotation * direction);
                assert!(
                    found.abs_diff_eq(expected, 1e-4),
                    "degree {degree}: {found} {expected}"
                );
            }
        }
    }
}

fn covariance(splats: &Splats, i: usize) -> DMat3 {
    let [w, x, y, z] = splats.quats[i].map(f64::from);
    let rotation = DMat3::from_quat(DQuat::from_xyzw(x, y, z, w).normalize());
    let variances = splats.scales[i].map(|s| (2.0 * f64::from(s)).exp());
    rotation * DMat3::from_diagonal(DVec3::from(variances)) * rotation.transpose()
}

/// Evaluates real spherical harmonics up to degree 3 with the signs of 3DGS (Condon-Shortley phase).
fn colour(splats: &Splats, i: usize, d: DVec3) -> DVec3 {
    let (x, y, z) = (d.x, d.y, d.z);
    let basis = [
        -0.488_602_511_902_919_9 * y,
        0.488_602_511_902_919_9 * z,
        -0.488_602_511_902_919_9 * x,
        1.092_548_430_592_079_2 * x * y,
        -1.092_548_430_592_079_2 * y * z,
        0.315_391_565_252_520_05 * (3.0 * z * z - 1.0),
        -1.092_548_430_592_079_2 * x * z,
        0.546_274_215_296_039_6 * (x * x - y * y),
        -0.590_043_589_926_643_5 * y * (3.0 * x * x - y * y),
        2.890_611_442_640_554 * x * y * z,
        -0.457_045_799_464_465_8 * y * (5.0 * z * z - 1.0),
        0.373_176_332_590_115_4 * z * (5.0 * z * z - 3.0),
        -0.457_045_799_464_465_8 * x * (5.0 * z * z - 1.0),
        1.445_305_721_320_277 * z * (x * x - y * y),
        -0.590_043_589_926_643_5 * x * (x * x - 3.0 * y * y),
    ];
    let stride = splats.sh_rest_stride();
    let rest = &splats.sh_rest[i * stride..(i + 1) * stride];
    let sh0 = DVec3::from(splats.sh0[i].map(f64::from)) * 0.282_094_791_773_878_14;
    let coefficients = rest.chunks_exact(3);
    coefficients.zip(basis).fold(sh0, |sum, (c, b)| {
        sum + b * DVec3::new(f64::from(c[0]), f64::from(c[1]), f64::from(c[2]))
    })
}

/// The tool reads from Dapple's `.splat` the content of Dapple's PLY, rounded to eight bits.
#[test]
fn splat_files_open_and_hold_what_the_ply_holds() {
    let Some(tool) = tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let splats = sample(0);
    let seen = |name: &str, format: Format| {
        let [ours, csv] = [name.to_owned(), format!("{name}.csv")].map(|n| folder.path().join(n));
        splat_file::write(&ours, &splats, format).unwrap();
        convert(&tool, &[], &ours, &[], &csv);
        let columns = read_csv(&csv);
        let column = |name: &str| columns.iter().find(|(n, _)| n == name).unwrap().1.clone();
        let names = [
            "x", "y", "z", "scale_0", "scale_1", "scale_2", "f_dc_0", "f_dc_1", "f_dc_2",
            "opacity", "rot_0", "rot_1", "rot_2", "rot_3",
        ];
        let all = names.map(column);
        let mut rows: Vec<Vec<f32>> = (0..splats.len())
            .map(|i| all.iter().map(|c| c[i]).collect())
            .collect();
        rows.sort_by(|a, b| a[..3].partial_cmp(&b[..3]).unwrap());
        rows
    };
    let (ply, splat) = (
        seen("ours.ply", Format::Ply),
        seen("ours.splat", Format::Splat),
    );
    assert_eq!(ply.len(), splat.len());
    for (a, b) in ply.iter().zip(&splat) {
        for k in 0..6 {
            assert!((a[k] - b[k]).abs() < 1e-5, "column {k}: {a:?}, {b:?}");
        }
        // A step of a colour is 1 / 255 / 0.282; these exceed the range of bytes by up to 0.3.
        for k in 6..9 {
            let byte = |dc: f32| (0.5 + 0.282_094_8 * dc).clamp(0.0, 1.0);
            assert!(
                (byte(a[k]) - byte(b[k])).abs() < 0.51 / 255.0,
                "{k}: {} {}",
                a[k],
                b[k]
            );
        }
        let share = |logit: f32| 1.0 / (1.0 + (-logit).exp());
        assert!((share(a[9]) - share(b[9])).abs() < 0.51 / 255.0);
        // Quaternions that differ by sign are equal rotations.
        let cosine: f32 = (10..14).map(|k| a[k] * b[k]).sum();
        let (la, lb) = [a, b]
            .map(|r| (10..14).map(|k| r[k] * r[k]).sum::<f32>().sqrt())
            .into();
        assert!(cosine.abs() / (la * lb) > 0.9999, "{cosine}");
    }
}
