//! PLY files of other programs. Needs the folder of real captures next to the checkout.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dapple_splats::ply;
use std::path::PathBuf;

fn data(name: &str) -> Option<PathBuf> {
    dapple_base::test_requirements::capture(env!("CARGO_MANIFEST_DIR"), name)
}

#[test]
fn a_trained_scene_is_read() {
    let Some(path) = data("guitar/guitar.ply") else {
        return;
    };
    let splats = ply::read(&path).unwrap();
    assert_eq!((splats.len(), splats.sh_degree), (90_854, 0));
    // Known facts of the scene: y runs from -4.29 to 0.09; opacities are clipped to 1/510 from 0 and 1.
    let heights = splats.means.iter().map(|m| m[1]);
    let (low, high) = heights.fold((f32::MAX, f32::MIN), |(l, h), y| (l.min(y), h.max(y)));
    assert!(
        (low + 4.29).abs() < 0.01 && (high - 0.09).abs() < 0.01,
        "{low} {high}"
    );
    let limit = 509.0f32.ln() + 1e-3;
    assert!(splats.opacities.iter().all(|o| o.abs() <= limit));
    for quat in &splats.quats {
        let length = quat.iter().map(|q| q * q).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-3, "{quat:?}");
    }
    // The round trip is exact.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.ply");
    ply::write(&copy, &splats).unwrap();
    assert_eq!(ply::read(&copy).unwrap(), splats);
}

/// Compares a file of SuperSplat with a decoding of it by other code.
#[test]
fn the_compressed_layout_is_read() {
    let (Some(packed), Some(plain)) = (
        data("guitar/guitar.compressed.ply"),
        data("guitar/guitar.ply"),
    ) else {
        return;
    };
    let (found, expected) = (ply::read(&packed).unwrap(), ply::read(&plain).unwrap());
    assert_eq!((found.len(), found.sh_degree), (expected.len(), 0));
    let flat = |rows: &[[f32; 3]]| rows.as_flattened().to_vec();
    // The other decoding reads bytes of 0 and 255 as half a step off 0 and 1.
    let alphas = |logits: &[f32]| -> Vec<f32> {
        let alpha = |logit: &f32| 1.0 / (1.0 + (-logit).exp());
        let inner = |alpha: f32| alpha.clamp(1.0 / 510.0, 1.0 - 1.0 / 510.0);
        logits.iter().map(alpha).map(inner).collect()
    };
    let pairs = [
        (flat(&found.means), flat(&expected.means)),
        (flat(&found.scales), flat(&expected.scales)),
        (flat(&found.sh0), flat(&expected.sh0)),
        (alphas(&found.opacities), alphas(&expected.opacities)),
        (
            found.quats.as_flattened().to_vec(),
            expected.quats.as_flattened().to_vec(),
        ),
    ];
    for (column, (found, expected)) in pairs.into_iter().enumerate() {
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // Both in single precision, from values of up to 10.
            let close = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
            assert!(close, "column {column}, value {i}: {found} {expected}");
        }
    }
}

#[test]
fn a_point_cloud_is_read() {
    let Some(path) = data("garden-points/points.ply") else {
        return;
    };
    let points = ply::read_points(&path).unwrap();
    assert_eq!(points.len(), 138_766);
    let inside = points
        .iter()
        .filter(|p| p.position.iter().all(|c| c.abs() <= 2.0))
        .count();
    assert_eq!(inside, 111_785);
    assert!(ply::read(&path).unwrap_err().what().contains("f_dc_0"));
}
