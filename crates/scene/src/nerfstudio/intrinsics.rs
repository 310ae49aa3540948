//! Intrinsics of a transforms file: focal length, principal point, size, lens.
//!
//! 1. A value comes from the frame, else from the top.
//! 2. Other writers' names are read where the usual ones are absent: `fx`, `width`, a matrix `K`.
//! 3. An angle above pi is in degrees.
//! 4. Coefficients of a PINHOLE are used: writers that change the model's name alone leave them, and
//!    Nerfstudio uses them, too.

use super::FORMAT_HINT;
use super::json::{Matrix, flag, number};
use crate::{Camera, Error, Lens, Panorama, Pose, Result};
use serde::Deserialize;
use serde_json::Value;
use std::f64::consts::PI;

/// The numbers that may be at the top level or in a frame.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Intrinsics {
    pub(super) camera_model: Option<String>,
    #[serde(deserialize_with = "number")]
    pub(super) fl_x: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) fl_y: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) camera_angle_x: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) camera_angle_y: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) cx: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) cy: Option<f64>,
    // Some writers give sizes as 1920.0.
    #[serde(deserialize_with = "number")]
    pub(super) w: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) h: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) k1: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) k2: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) k3: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) k4: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) k5: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) k6: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) p1: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) p2: Option<f64>,
    /// Coefficient without a name in Nerfstudio, under COLMAP's name: see [`crate::cameras_file`].
    #[serde(deserialize_with = "number")]
    pub(super) omega: Option<f64>,
    pub(super) alpha: Option<f64>,
    pub(super) beta: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) sx1: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) sy1: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) k0: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) p0: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) s0: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) s1: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) s2: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(super) s3: Option<f64>,
    #[serde(deserialize_with = "flag")]
    pub(super) is_fisheye: Option<bool>,
    /// Values under other writers' names; other types than numbers and matrices are ignored.
    #[serde(flatten)]
    other: Other,
    /// True if `fl_x`, `fl_y`, `cx`, `cy` are fractions of the photo's width and height.
    #[serde(skip)]
    are_fractions: bool,
}

/// Names that other writers use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Other {
    fx: Option<Value>,
    fy: Option<Value>,
    width: Option<Value>,
    height: Option<Value>,
    #[serde(rename = "K")]
    k: Option<Value>,
    intrinsics: Option<Value>,
    intrinsic: Option<Value>,
    intrinsic_matrix: Option<Value>,
    intrinsics_matrix: Option<Value>,
    camera_intrinsics: Option<Value>,
    camera_matrix: Option<Value>,
    #[serde(rename = "cam_K")]
    cam_k: Option<Value>,
}

impl Other {
    fn number(value: Option<&Value>) -> Option<f64> {
        match value? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Returns the matrix's name and its value.
    fn matrix(&self) -> Option<(&'static str, &Value)> {
        let named = [
            ("K", &self.k),
            ("intrinsics", &self.intrinsics),
            ("intrinsic", &self.intrinsic),
            ("intrinsic_matrix", &self.intrinsic_matrix),
            ("intrinsics_matrix", &self.intrinsics_matrix),
            ("camera_intrinsics", &self.camera_intrinsics),
            ("camera_matrix", &self.camera_matrix),
            ("cam_K", &self.cam_k),
        ];
        let mut named = named.into_iter();
        named.find_map(|(name, value)| Some((name, value.as_ref()?)))
    }
}

/// Returns `[fx, fy, cx, cy]` of a matrix of intrinsics, or of those four numbers.
fn of_matrix(value: &Value) -> Option<[f64; 4]> {
    if let Value::Object(named) = value {
        let first = |names: [&str; 2]| {
            let mut found = names.iter().map(|name| Other::number(named.get(*name)));
            found.find_map(|number| number)
        };
        let fx = first(["fx", "fl_x"]);
        if let Some(fx) = fx {
            let fy = first(["fy", "fl_y"]).unwrap_or(fx);
            return Some([fx, fy, first(["cx", "ppx"])?, first(["cy", "ppy"])?]);
        }
    }
    let Matrix(rows) = Matrix::deserialize(value).ok()?;
    if let [row] = rows.as_slice()
        && let &[fx, fy, cx, cy] = row.as_slice()
    {
        return Some([fx, fy, cx, cy]);
    }
    let is_matrix = (3..=4).contains(&rows.len()) && rows.iter().all(|row| row.len() >= 3);
    if !is_matrix {
        return None;
    }
    let at = |row: usize, column: usize| rows[row][column];
    // Some writers store columns: in that case the principal point is in the last row.
    let is_transposed = at(0, 2) == 0.0 && at(1, 2) == 0.0 && at(2, 0) != 0.0;
    let (cx, cy) = match is_transposed {
        true => (at(2, 0), at(2, 1)),
        false => (at(0, 2), at(1, 2)),
    };
    let scale = at(2, 2);
    (scale == 1.0).then(|| [at(0, 0), at(1, 1), cx, cy])
}

/// A camera built from a transforms file.
pub(super) struct Described {
    pub(super) camera: Camera,
    /// Name of the lens model.
    pub(super) model: String,
    /// True if the angle of view was in degrees.
    pub(super) in_degrees: bool,
    /// True if the model is PINHOLE and coefficients of distortion are used.
    pub(super) bent_pinhole: bool,
}

impl Intrinsics {
    /// Fills absent usual names from other writers' names.
    pub(super) fn completed(mut self) -> Self {
        let other = &self.other;
        let own = [&other.fx, &other.fy, &other.width, &other.height];
        let [fx, fy, w, h] = own.map(|value| Other::number(value.as_ref()));
        let named = self.fl_x.or(self.camera_angle_x).or(fx);
        if named.is_none()
            && let Some([fx, fy, cx, cy]) = other.matrix().and_then(|(_, value)| of_matrix(value))
        {
            // No lens has its centre in the first pixel: these are fractions of the photo.
            self.are_fractions = (0.0..=1.0).contains(&cx) && (0.0..=1.0).contains(&cy);
            (self.fl_x, self.fl_y) = (Some(fx), Some(fy));
            self.cx = self.cx.filter(|_| !self.are_fractions).or(Some(cx));
            self.cy = self.cy.filter(|_| !self.are_fractions).or(Some(cy));
        }
        if self.fl_x.is_none() && self.camera_angle_x.is_none() {
            (self.fl_x, self.fl_y) = (fx, self.fl_y.or(fy));
        }
        (self.w, self.h) = (self.w.or(w), self.h.or(h));
        self
    }

    /// Returns this frame's values, with the shared ones as fallback.
    pub(super) fn or(self, shared: &Self) -> Self {
        // Focal length and angle must come from one place.
        let own_focal = self.fl_x.is_some() || self.camera_angle_x.is_some();
        let focal = if own_focal { &self } else { shared };
        let are_fractions = focal.are_fractions;
        Self {
            fl_x: focal.fl_x,
            fl_y: focal.fl_y,
            camera_angle_x: focal.camera_angle_x,
            camera_angle_y: focal.camera_angle_y,
            camera_model: self.camera_model.or_else(|| shared.camera_model.clone()),
            cx: self.cx.or(shared.cx),
            cy: self.cy.or(shared.cy),
            w: self.w.or(shared.w),
            h: self.h.or(shared.h),
            k1: self.k1.or(shared.k1),
            k2: self.k2.or(shared.k2),
            k3: self.k3.or(shared.k3),
            k4: self.k4.or(shared.k4),
            k5: self.k5.or(shared.k5),
            k6: self.k6.or(shared.k6),
            p1: self.p1.or(shared.p1),
            p2: self.p2.or(shared.p2),
            omega: self.omega.or(shared.omega),
            alpha: self.alpha.or(shared.alpha),
            beta: self.beta.or(shared.beta),
            sx1: self.sx1.or(shared.sx1),
            sy1: self.sy1.or(shared.sy1),
            k0: self.k0.or(shared.k0),
            p0: self.p0.or(shared.p0),
            s0: self.s0.or(shared.s0),
            s1: self.s1.or(shared.s1),
            s2: self.s2.or(shared.s2),
            s3: self.s3.or(shared.s3),
            is_fisheye: self.is_fisheye.or(shared.is_fisheye),
            are_fractions,
            other: match self.other.matrix() {
                Some(_) => self.other,
                None => shared.other.clone(),
            },
        }
    }

    pub(super) fn has_size(&self) -> bool {
        self.w.is_some() && self.h.is_some()
    }

    /// Returns the lens, the model's name, and true if a PINHOLE has coefficients.
    fn lens(&self) -> Result<(Lens, String, bool)> {
        let k = [self.k1, self.k2, self.k3, self.k4, self.k5, self.k6].map(|k| k.unwrap_or(0.0));
        let [k1, k2, k3, k4, k5, k6] = k;
        let (p1, p2) = (self.p1.unwrap_or(0.0), self.p2.unwrap_or(0.0));
        let default = if self.is_fisheye == Some(true) {
            "OPENCV_FISHEYE"
        } else if k.iter().chain(&[p1, p2]).any(|&c| c != 0.0) {
            "OPENCV"
        } else {
            "PINHOLE"
        };
        let named = self.camera_model.as_deref().unwrap_or(default);
        let is_bent = k.iter().chain(&[p1, p2]).any(|&c| c != 0.0);
        let bent_pinhole = is_bent && matches!(named, "PINHOLE" | "SIMPLE_PINHOLE");
        let name = if bent_pinhole { "OPENCV" } else { named };
        let lens = match name {
            "PINHOLE" | "SIMPLE_PINHOLE" => Lens::Pinhole,
            "OPENCV_FISHEYE" => Lens::Fisheye([k1, k2, k3, k4]),
            "FULL_OPENCV" => Lens::FullOpenCv([k1, k2, p1, p2, k3, k4, k5, k6]),
            "FOV" => Lens::Fov(self.omega.ok_or_else(|| {
                Error::input("the camera is of model FOV, but has no omega")
                    .hint("give omega in radians, next to camera_model")
            })?),
            "EUCM" => {
                let both = self.alpha.zip(self.beta).ok_or_else(|| {
                    Error::input("the camera is of model EUCM, but has no alpha or no beta")
                        .hint("give alpha and beta next to camera_model")
                })?;
                Lens::Eucm(both.into())
            }
            "SIMPLE_DIVISION" | "DIVISION" => Lens::division(k1),
            "THIN_PRISM_FISHEYE" => {
                let [sx1, sy1] = [self.sx1, self.sy1].map(|k| k.unwrap_or(0.0));
                Lens::ThinPrismFisheye([k1, k2, p1, p2, k3, k4, sx1, sy1])
            }
            "RAD_TAN_THIN_PRISM_FISHEYE" => {
                let prism = [self.s0, self.s1, self.s2, self.s3].map(|k| k.unwrap_or(0.0));
                let [s0, s1, s2, s3] = prism;
                let [k0, p0] = [self.k0, self.p0].map(|k| k.unwrap_or(0.0));
                Lens::RadTanThinPrismFisheye([k0, k1, k2, k3, k4, k5, p0, p1, s0, s1, s2, s3])
            }
            "SIMPLE_RADIAL" | "RADIAL" if [k3, k4, k5, k6, p1, p2].iter().all(|&k| k == 0.0) => {
                Lens::Radial([k1, k2])
            }
            // Nerfstudio's k4 is the coefficient of r^8 here. No lens of Dapple has that term.
            "OPENCV" | "PERSPECTIVE" | "SIMPLE_RADIAL" | "RADIAL"
                if [k4, k5, k6].iter().all(|&k| k == 0.0) =>
            {
                if k3 == 0.0 {
                    Lens::OpenCv([k1, k2, p1, p2])
                } else {
                    Lens::FullOpenCv([k1, k2, p1, p2, k3, 0.0, 0.0, 0.0])
                }
            }
            other => {
                return Err(Error::unsupported(format!(
                    "the camera model {other} with these coefficients is not supported"
                ))
                .hint("undistort the photos first, then use camera_model PINHOLE"));
            }
        };
        Ok((lens, name.to_owned(), bent_pinhole))
    }

    /// Builds the camera of a photo. `actual` returns the size in the photo's header and is called only if the file has
    /// no size.
    pub(super) fn camera(
        &self,
        camera_from_world: Pose,
        actual: impl FnOnce() -> Result<(u32, u32)>,
    ) -> Result<Described> {
        let (width, height) = match (self.w, self.h) {
            (Some(w), Some(h)) => match (edge(w), edge(h)) {
                (Some(w), Some(h)) => (w, h),
                _ => {
                    return Err(Error::input(format!(
                        "the camera has an impossible size: {w} x {h} pixels"
                    ))
                    .hint(FORMAT_HINT));
                }
            },
            _ => actual()?,
        };
        let (w, h) = (f64::from(width), f64::from(height));
        let (x, y) = if self.are_fractions {
            (w, h)
        } else {
            (1.0, 1.0)
        };
        let model = self.camera_model.as_deref().unwrap_or_default();
        if let Some(panorama) = Panorama::named(model) {
            let scaled = |value: Option<f64>, unit: f64| value.map(|value| value * unit);
            let across = [self.fl_x, self.cx].map(|value| scaled(value, x));
            let down = [self.fl_y, self.cy].map(|value| scaled(value, y));
            let given = [across[0], down[0], across[1], down[1]];
            return Ok(Described {
                camera: Camera {
                    camera_from_world,
                    ..panorama.of_capture((width, height), given)?
                },
                model: model.to_owned(),
                in_degrees: false,
                bent_pinhole: false,
            });
        }
        let (unit, in_degrees) = self.angle_unit()?;
        let from_angle = |angle: f64, length: f64| 0.5 * length / (0.5 * angle * unit).tan();
        let Some(fx) = self.fl_x.or(self.camera_angle_x.map(|a| from_angle(a, w))) else {
            return Err(self.no_focal_length());
        };
        let fy = self
            .fl_y
            .or(self.camera_angle_y.map(|a| from_angle(a, h)))
            .unwrap_or(fx);
        let (lens, model, bent_pinhole) = self.lens()?;
        let (fx, fy) = (fx * x, fy * y);
        let camera = Camera {
            width,
            height,
            fx,
            fy,
            cx: self.cx.map_or(w / 2.0, |cx| cx * x),
            cy: self.cy.map_or(h / 2.0, |cy| cy * y),
            lens,
            camera_from_world,
        };
        let numbers = [fx, fy, camera.cx, camera.cy];
        if !numbers.iter().all(|v| v.is_finite()) || !lens.is_finite() || fx <= 0.0 || fy <= 0.0 {
            return Err(Error::input(format!(
                "the camera is impossible: focal length {fx} x {fy}, principal point ({}, {})",
                camera.cx, camera.cy
            ))
            .hint("focal lengths must be positive and every number finite"));
        }
        Ok(Described {
            camera,
            model,
            in_degrees,
            bent_pinhole,
        })
    }

    /// Returns the radians of a unit of the angles of view, and true if they are in degrees: radians are below pi.
    fn angle_unit(&self) -> Result<(f64, bool)> {
        let named = [
            ("camera_angle_x", self.camera_angle_x),
            ("camera_angle_y", self.camera_angle_y),
        ];
        let mut in_degrees = false;
        for (name, angle) in named {
            let Some(angle) = angle.filter(|_| self.fl_x.is_none()) else {
                continue;
            };
            if !(angle > 0.0 && angle < 180.0) {
                return Err(
                    Error::input(format!("{name} is {angle}, which is no angle of view"))
                        .hint("give it in radians, above 0 and below 3.14, or give fl_x in pixels"),
                );
            }
            in_degrees |= angle >= PI;
        }
        Ok((if in_degrees { PI / 180.0 } else { 1.0 }, in_degrees))
    }

    fn no_focal_length(&self) -> Error {
        let error = Error::input(match self.other.matrix() {
            Some((name, _)) => format!(
                "the frame has no focal length, and its {name} is no matrix of intrinsics \
                 (fx 0 cx, 0 fy cy, 0 0 1)"
            ),
            None => "the frame has no focal length".to_owned(),
        });
        error.hint(
            "give fl_x in pixels, camera_angle_x in radians or a 3x3 matrix K, at the top or per frame",
        )
    }
}

fn edge(length: f64) -> Option<u32> {
    (length.fract() == 0.0 && (1.0..=1_048_576.0).contains(&length)).then_some(length as u32)
}
