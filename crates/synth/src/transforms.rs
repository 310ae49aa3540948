//! Writes cameras that COLMAP cannot express as `transforms.json`, and the sparse points as `points.ply`.

use super::colmap::Written;
use super::folder::{IMAGES, POINTS, TRANSFORMS};
use super::points::SparsePoint;
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Camera, Result, write_transforms};
use std::path::Path;

/// Writes both files; the tracks of the points have no place in them.
pub(super) fn write(
    root: &Path,
    (cameras, names): (&[Camera], &[String]),
    parts: impl Iterator<Item = Result<Vec<SparsePoint>>>,
) -> Result<Written> {
    let path = |name: &String| format!("{IMAGES}/{name}");
    let named: Vec<_> = names
        .iter()
        .map(path)
        .zip(cameras.iter().copied())
        .collect();
    write_transforms(&root.join(TRANSFORMS), &named, Some(POINTS))?;
    let points: Vec<SparsePoint> = parts.collect::<Result<Vec<_>>>()?.concat();
    write_atomically(&root.join(POINTS), |out| {
        write!(
            out,
            "ply\nformat binary_little_endian 1.0\nelement vertex {}\n",
            points.len()
        )?;
        out.write_all(b"property double x\nproperty double y\nproperty double z\n")?;
        out.write_all(
            b"property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n",
        )?;
        for point in &points {
            for value in point.position.to_array() {
                out.write_all(&value.to_le_bytes())?;
            }
            out.write_all(&point.rgb)?;
        }
        Ok(())
    })?;
    Ok(Written {
        points: points.len(),
        observations: points.iter().map(|point| point.track.len()).sum(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::{LensKind, SynthOptions, cameras};
    use super::*;
    use dapple_scene::{LoadOptions, load};
    use glam::DVec3;

    #[test]
    fn cameras_and_points_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let options = SynthOptions {
            photos: 2,
            width: 8,
            height: 4,
            ..SynthOptions::default()
        };
        for lens in LensKind::ALL {
            let cameras = cameras::cameras(&options, lens);
            let names = ["a.png", "b.png"].map(str::to_owned);
            std::fs::create_dir_all(folder.path().join(IMAGES)).unwrap();
            for name in &names {
                let path = folder.path().join(IMAGES).join(name);
                image::RgbImage::new(8, 4).save(&path).unwrap();
            }
            let point = SparsePoint {
                position: DVec3::new(0.1, -0.2, 3.0),
                rgb: [1, 2, 250],
                error: 0.0,
                track: vec![(0, [1.0, 2.0])],
            };
            let parts = [Ok(vec![point.clone()])].into_iter();
            let written = write(folder.path(), (&cameras, &names), parts).unwrap();
            assert_eq!((written.points, written.observations), (1, 1));
            let found = load::open(folder.path(), &LoadOptions::default()).unwrap();
            assert_eq!(found.points[0].rgb, point.rgb);
            assert_eq!(found.images.len(), 2);
            for (image, camera) in found.images.iter().zip(&cameras) {
                assert_eq!(image.camera.lens, camera.lens);
                let off = |a: f64, b: f64| (a - b).abs();
                assert!(off(image.camera.fy, camera.fy) + off(image.camera.cy, camera.cy) < 1e-9);
            }
        }
    }
}
