//! COLMAP's camera models: their numbers, names and parameters.

use crate::{Camera, Error, Lens, Panorama, Pose, Result};
use std::path::Path;

/// One of COLMAP's camera models.
#[derive(Debug, PartialEq, Eq)]
pub struct CameraModel {
    /// Number in binary files.
    pub id: i32,
    /// Name in text files.
    pub name: &'static str,
    /// Number of parameters.
    pub parameter_count: usize,
}

/// A camera of the model: intrinsics shared by its images.
#[derive(Debug, Clone, PartialEq)]
pub struct ColmapCamera {
    /// Id of the camera in the model.
    pub id: u32,
    /// Camera model.
    pub model: &'static CameraModel,
    /// Width, pixels.
    pub width: u64,
    /// Height, pixels.
    pub height: u64,
    /// Parameters in the model's order; the length is `model.parameter_count`.
    pub parameters: Vec<f64>,
}

const fn model(id: i32, name: &'static str, parameter_count: usize) -> CameraModel {
    CameraModel {
        id,
        name,
        parameter_count,
    }
}

/// All known models. Source: COLMAP's documentation of camera models.
pub const MODELS: &[CameraModel] = &[
    model(0, "SIMPLE_PINHOLE", 3),
    model(1, "PINHOLE", 4),
    model(2, "SIMPLE_RADIAL", 4),
    model(3, "RADIAL", 5),
    model(4, "OPENCV", 8),
    model(5, "OPENCV_FISHEYE", 8),
    model(6, "FULL_OPENCV", 12),
    model(7, "FOV", 5),
    model(8, "SIMPLE_RADIAL_FISHEYE", 4),
    model(9, "RADIAL_FISHEYE", 5),
    model(10, "THIN_PRISM_FISHEYE", 12),
    model(11, "RAD_TAN_THIN_PRISM_FISHEYE", 16),
    model(12, "SIMPLE_DIVISION", 4),
    model(13, "DIVISION", 5),
    model(14, "SIMPLE_FISHEYE", 3),
    model(15, "FISHEYE", 4),
    model(16, "EUCM", 6),
    model(17, "EQUIRECTANGULAR", 2),
];

/// Returns the model with this number.
pub(super) fn by_id(id: i32) -> Option<&'static CameraModel> {
    MODELS.iter().find(|m| m.id == id)
}

/// Returns the model of this name.
pub(super) fn by_name(name: &str) -> Option<&'static CameraModel> {
    MODELS.iter().find(|m| m.name == name)
}

/// Returns the names of a model's parameters, in the file's order.
pub(super) fn parameter_names(name: &str) -> Vec<&'static str> {
    let all = match name {
        "SIMPLE_PINHOLE" | "SIMPLE_FISHEYE" => "f cx cy",
        "PINHOLE" | "FISHEYE" => "fx fy cx cy",
        "SIMPLE_RADIAL" | "SIMPLE_RADIAL_FISHEYE" | "SIMPLE_DIVISION" => "f cx cy k",
        "RADIAL" | "RADIAL_FISHEYE" => "f cx cy k1 k2",
        "OPENCV" => "fx fy cx cy k1 k2 p1 p2",
        "OPENCV_FISHEYE" => "fx fy cx cy k1 k2 k3 k4",
        "FULL_OPENCV" => "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6",
        "FOV" => "fx fy cx cy omega",
        "DIVISION" => "fx fy cx cy k",
        "EUCM" => "fx fy cx cy alpha beta",
        "EQUIRECTANGULAR" => "width height",
        "THIN_PRISM_FISHEYE" => "fx fy cx cy k1 k2 p1 p2 k3 k4 sx1 sy1",
        "RAD_TAN_THIN_PRISM_FISHEYE" => "fx fy cx cy k0 k1 k2 k3 k4 k5 p0 p1 s0 s1 s2 s3",
        _ => "",
    };
    all.split_whitespace().collect()
}

/// Largest accepted edge of a photo, pixels.
const MAX_EDGE: u64 = 1 << 20;

impl ColmapCamera {
    /// Builds Dapple's camera, at the identity pose, with every number checked. `place` is the file.
    pub fn to_camera(&self, place: &Path) -> Result<Camera> {
        let wrong = |what: String| {
            Error::input(format!("camera {} {what}", self.id))
                .at_path(place)
                .hint("run COLMAP's feature extractor and mapper again, or export the model again")
        };
        let edge = |length: u64| u32::try_from(length).ok().filter(|_| length <= MAX_EDGE);
        let (Some(width @ 1..), Some(height @ 1..)) = (edge(self.width), edge(self.height)) else {
            return Err(wrong(format!(
                "has an impossible size: {}x{} pixels",
                self.width, self.height
            )));
        };
        if let Some(model) = Panorama::named(self.model.name) {
            // Its parameters are the size.
            return model
                .of_capture((width, height), [None; 4])
                .map_err(|error| error.at_path(place));
        }
        let Some(([fx, fy, cx, cy], lens)) = intrinsics(self.model.name, &self.parameters) else {
            return Err(Error::unsupported(format!(
                "camera {} uses the model {}, which is not supported",
                self.id, self.model.name
            ))
            .at_path(place)
            .hint("undistort the photos first: `colmap image_undistorter`, then load its output"));
        };
        if !self.parameters.iter().all(|p| p.is_finite()) {
            return Err(wrong("has a NaN or infinite parameter".to_owned()));
        }
        if fx <= 0.0 || fy <= 0.0 {
            return Err(wrong(format!(
                "has a focal length that is not positive: {fx} x {fy} pixels"
            )));
        }
        Ok(Camera {
            width,
            height,
            fx,
            fy,
            cx,
            cy,
            lens,
            camera_from_world: Pose::IDENTITY,
        })
    }
}

/// Returns `[fx, fy, cx, cy]` and the lens; `None` for a model that [`Lens`] does not support.
fn intrinsics(name: &str, p: &[f64]) -> Option<([f64; 4], Lens)> {
    Some(match (name, p) {
        ("SIMPLE_PINHOLE", &[f, cx, cy]) => ([f, f, cx, cy], Lens::Pinhole),
        ("PINHOLE", &[fx, fy, cx, cy]) => ([fx, fy, cx, cy], Lens::Pinhole),
        ("SIMPLE_RADIAL", &[f, cx, cy, k]) => ([f, f, cx, cy], Lens::Radial([k, 0.0])),
        ("RADIAL", &[f, cx, cy, k1, k2]) => ([f, f, cx, cy], Lens::Radial([k1, k2])),
        ("OPENCV", &[fx, fy, cx, cy, k1, k2, p1, p2]) => {
            ([fx, fy, cx, cy], Lens::OpenCv([k1, k2, p1, p2]))
        }
        ("OPENCV_FISHEYE", &[fx, fy, cx, cy, k1, k2, k3, k4]) => {
            ([fx, fy, cx, cy], Lens::Fisheye([k1, k2, k3, k4]))
        }
        ("FULL_OPENCV", &[fx, fy, cx, cy, ref k @ ..]) => {
            ([fx, fy, cx, cy], Lens::FullOpenCv(k.try_into().ok()?))
        }
        ("FOV", &[fx, fy, cx, cy, omega]) => ([fx, fy, cx, cy], Lens::Fov(omega)),
        ("SIMPLE_DIVISION", &[f, cx, cy, k]) => ([f, f, cx, cy], Lens::division(k)),
        ("DIVISION", &[fx, fy, cx, cy, k]) => ([fx, fy, cx, cy], Lens::division(k)),
        ("EUCM", &[fx, fy, cx, cy, alpha, beta]) => ([fx, fy, cx, cy], Lens::Eucm([alpha, beta])),
        ("SIMPLE_FISHEYE", &[f, cx, cy]) => ([f, f, cx, cy], Lens::Fisheye([0.0; 4])),
        ("FISHEYE", &[fx, fy, cx, cy]) => ([fx, fy, cx, cy], Lens::Fisheye([0.0; 4])),
        ("SIMPLE_RADIAL_FISHEYE", &[f, cx, cy, k]) => {
            ([f, f, cx, cy], Lens::Fisheye([k, 0.0, 0.0, 0.0]))
        }
        ("RADIAL_FISHEYE", &[f, cx, cy, k1, k2]) => {
            ([f, f, cx, cy], Lens::Fisheye([k1, k2, 0.0, 0.0]))
        }
        ("THIN_PRISM_FISHEYE", &[fx, fy, cx, cy, ref k @ ..]) => {
            ([fx, fy, cx, cy], Lens::ThinPrismFisheye(k.try_into().ok()?))
        }
        ("RAD_TAN_THIN_PRISM_FISHEYE", &[fx, fy, cx, cy, ref k @ ..]) => (
            [fx, fy, cx, cy],
            Lens::RadTanThinPrismFisheye(k.try_into().ok()?),
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_names_its_parameters() {
        for model in MODELS {
            let names = parameter_names(model.name);
            assert_eq!(names.len(), model.parameter_count, "{}", model.name);
        }
    }

    /// The expected pixels are those of pycolmap 4.2.1's `Camera.img_from_cam` for the point (-0.7, 0.2, 1).
    #[test]
    fn lenses_of_colmap_4_project_as_pycolmap_does() {
        for (name, parameters, [x, y]) in [
            (
                "SIMPLE_DIVISION",
                &[500.0, 320.0, 240.0, -0.2][..],
                [0.848_354_127_7, 331.186_184_535_0],
            ),
            (
                "DIVISION",
                &[500.0, 510.0, 320.0, 240.0, 0.12],
                [-55.641_006_061_9, 349.472_521_766_6],
            ),
            (
                "EUCM",
                &[500.0, 510.0, 320.0, 240.0, 0.62, 1.15],
                [19.975_048_444_4, 327.435_843_024_8],
            ),
        ] {
            let Some(([fx, fy, cx, cy], lens)) = intrinsics(name, parameters) else {
                panic!("{name} has no lens");
            };
            let (u, v) = lens.distort(-0.7, 0.2);
            let distance = (fx * u + cx - x).hypot(fy * v + cy - y);
            assert!(distance < 1e-9, "{name}: {distance} pixels");
        }
    }
}
