//! Cameras from gsplat's matrices.

use dapple::scene::{Lens, Pose};
use dapple::{Camera, Error, Result};
use glam::{DMat3, DQuat, DVec3};
use pyo3::prelude::*;

/// Largest difference of `R^T R` from the identity that rounding explains.
const ROUNDING: f64 = 1e-3;

/// A camera: matrices of gsplat, and the lens.
#[pyclass(frozen, name = "Camera", module = "dapple_gs._native")]
pub struct PyCamera {
    pub camera: Camera,
}

#[pymethods]
impl PyCamera {
    /// Creates a camera from `viewmat` (camera from world, row by row), `k` (3x3, pixels), a model and its coefficients.
    #[new]
    fn new(
        py: Python<'_>,
        viewmat: [[f64; 4]; 4],
        k: [[f64; 3]; 3],
        width: u32,
        height: u32,
        model: &str,
        coefficients: Vec<f64>,
    ) -> PyResult<Self> {
        let made = lens(model, &coefficients)
            .and_then(|lens| Ok((lens, pose(&viewmat)?)))
            .map(|(lens, camera_from_world)| Camera {
                width,
                height,
                fx: k[0][0],
                fy: k[1][1],
                cx: k[0][2],
                cy: k[1][2],
                lens,
                camera_from_world,
            });
        match made {
            Ok(camera) => Ok(Self { camera }),
            Err(error) => Err(crate::errors::exception(py, &error)),
        }
    }
}

fn lens(model: &str, coefficients: &[f64]) -> Result<Lens> {
    let padded = |name: &str| -> Result<[f64; 8]> {
        let mut all = [0.0; 8];
        let Some(part) = all.get_mut(..coefficients.len()) else {
            return Err(Error::input(format!(
                "{name} has {} coefficients",
                coefficients.len()
            )));
        };
        part.copy_from_slice(coefficients);
        Ok(all)
    };
    match model {
        "pinhole" if coefficients.iter().all(|&c| c == 0.0) => Ok(Lens::Pinhole),
        // k1, k2, p1, p2, k3, k4, k5, k6, as OpenCV has them.
        "pinhole" => Ok(Lens::FullOpenCv(padded("a pinhole camera")?)),
        "fisheye" => {
            let [a, b, c, d, ..] = padded("a fisheye camera")?;
            Ok(Lens::Fisheye([a, b, c, d]))
        }
        _ => Err(
            Error::unsupported(format!("camera_model \"{model}\" is not supported"))
                .at("camera_model")
                .hint("use \"pinhole\" or \"fisheye\""),
        ),
    }
}

fn pose(viewmat: &[[f64; 4]; 4]) -> Result<Pose> {
    let row = |i: usize| DVec3::new(viewmat[i][0], viewmat[i][1], viewmat[i][2]);
    // glam stores columns.
    let rotation = DMat3::from_cols(row(0), row(1), row(2)).transpose();
    let difference = rotation * rotation.transpose() - DMat3::IDENTITY;
    let off = difference
        .to_cols_array()
        .into_iter()
        .fold(
            0.0,
            |most: f64, v| if v.abs() <= most { most } else { v.abs() },
        );
    let is_rigid = off <= ROUNDING && rotation.determinant() > 0.0;
    let last = viewmat[3];
    let is_affine =
        last[..3].iter().all(|v| v.abs() <= ROUNDING) && (last[3] - 1.0).abs() <= ROUNDING;
    if !is_rigid || !is_affine {
        return Err(Error::input(
            "viewmats has a matrix that is no rotation and translation",
        )
        .at("viewmats")
        .hint("give camera-from-world matrices: an orthonormal 3x3 part, a translation, and 0 0 0 1 below"));
    }
    let translation = DVec3::new(viewmat[0][3], viewmat[1][3], viewmat[2][3]);
    if !translation.is_finite() {
        return Err(Error::input("viewmats has a translation that is not finite").at("viewmats"));
    }
    Ok(Pose {
        rotation: DQuat::from_mat3(&rotation).normalize(),
        translation,
    })
}

/// Returns the gradient by the entries of `viewmat` from that by a small motion of the camera, `[omega, t]`. The part by
/// the rotation is the component along rotations.
pub fn by_viewmat(camera: &Camera, pose: [f64; 6]) -> [[f32; 4]; 4] {
    let [a, b, c, x, y, z] = pose;
    let (by_omega, by_t) = (DVec3::new(a, b, c), DVec3::new(x, y, z));
    let world = camera.camera_from_world;
    // The motion turns the translation too: dt = omega x t + tau, dR = [omega] R.
    let turn = by_omega - world.translation.cross(by_t);
    let skew = DMat3::from_cols(
        DVec3::new(0.0, turn.z, -turn.y),
        DVec3::new(-turn.z, 0.0, turn.x),
        DVec3::new(turn.y, -turn.x, 0.0),
    );
    let by_rotation = (skew * world.rotation_matrix() * 0.5).transpose();
    let rows = [by_rotation.x_axis, by_rotation.y_axis, by_rotation.z_axis];
    let mut all = [[0.0; 4]; 4];
    for (i, row) in rows.iter().enumerate() {
        all[i] = [row.x as f32, row.y as f32, row.z as f32, by_t[i] as f32];
    }
    all
}
