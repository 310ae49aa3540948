//! Shared code of the finite-difference tests: small scenes without decisions at a threshold, one
//! list of all parameters, central differences.
//!
//! Functions panic with a description of the failure, as tests do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "code of tests"
)]

use crate::compare::relative_l2;
use crate::scenes::Random;
use crate::{self as reference, Gaussian, PosedLens, Projected};
use dapple_engine::{Gradients, RenderSettings, slope_range};
use dapple_scene::{Camera, Lens, Pose, sh_coefficient_count};
use glam::{DQuat, DVec3};

/// Half step of central differences. Their truncation is of order STEP^2, their rounding of 1e-16 /
/// STEP: both far below [`TOLERANCE`].
pub const STEP: f64 = 1e-6;

/// Maximum relative L2 distance between analytic and numeric gradient of a tensor.
pub const TOLERANCE: f64 = 1e-6;

/// Small scene in `f64`.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Gaussians.
    pub gaussians: Vec<Gaussian>,
    /// Camera of the image.
    pub camera: Camera,
    /// How to render.
    pub settings: RenderSettings,
}

/// Parameters of a random scene.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Degree of spherical harmonics.
    pub sh_degree: u8,
    /// True for a principal point near a corner and fx != fy.
    pub off_centre: bool,
    /// Distance that centres reach outside the image, pixels.
    pub outside: f64,
    /// Largest logit of an opacity; beyond 7, alpha is clamped near the centre.
    pub logit_max: f64,
    /// Factor of all sizes.
    pub size: f64,
    /// Per-tile limit of Gaussians, 0 = none.
    pub cap: u32,
    /// Lens of the camera.
    pub lens: Lens,
    /// True for both filters against aliasing.
    pub antialias: bool,
}

impl Recipe {
    /// A pinhole without a limit.
    pub const PLAIN: Self = Self {
        sh_degree: 1,
        off_centre: false,
        outside: 2.0,
        logit_max: 2.0,
        size: 1.0,
        cap: 0,
        lens: Lens::Pinhole,
        antialias: false,
    };

    /// Returns the first scene from a fixed list of seeds without a value near a threshold. No
    /// alpha is close to a threshold, no colour to its clamp, no centre to the Jacobian's limit,
    /// and no two depths to each other. The image of such a scene is smooth within [`STEP`].
    pub fn draw(self) -> Scene {
        self.draw_where(|_| true)
    }

    /// Returns the first such scene that satisfies `wanted`.
    pub fn draw_where(self, wanted: impl Fn(&Scene) -> bool) -> Scene {
        (0..400)
            .map(|seed| self.draw_seed(seed))
            .find(|scene| scene.is_smooth() && wanted(scene))
            .expect("one of 400 seeds has a margin")
    }

    fn draw_seed(self, seed: u64) -> Scene {
        let mut random = Random::new(0xfd00 + seed);
        let pose = Pose::look_at(
            DVec3::new(0.9, -0.5, -3.0),
            DVec3::new(0.1, 0.0, 0.2),
            DVec3::new(0.1, -1.0, 0.2),
        );
        let mut camera = Camera::pinhole(26, 18, 22.0, pose);
        if self.off_centre {
            (camera.fx, camera.fy, camera.cx, camera.cy) = (31.0, 19.0, 5.3, 13.9);
        }
        camera.lens = self.lens;
        let reach = self.lens.max_radius();
        let count = sh_coefficient_count(self.sh_degree);
        let gaussians = (0..14)
            .map(|_| {
                let z = random.uniform(1.5, 5.0);
                let x = random.uniform(-self.outside, 26.0 + self.outside);
                let y = random.uniform(-self.outside, 18.0 + self.outside);
                // Nearer to the axis if the lens shows nothing there.
                let mut place = ((x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy);
                let slope = loop {
                    match self.lens.undistort_within(place.0, place.1, reach) {
                        Some(slope) => break slope,
                        None => place = (0.8 * place.0, 0.8 * place.1),
                    }
                };
                let point = DVec3::new(slope.0 * z, slope.1 * z, z);
                let widest = 6.0 + 0.3 * self.outside;
                let world_per_pixel = (self.size * z / camera.fx).ln();
                Gaussian {
                    mean: pose.rotation.conjugate() * (point - pose.translation),
                    // Anisotropic up to 1 : 20.
                    scale: [0.3, 1.5, widest]
                        .map(|s: f64| s.ln() + random.uniform(-0.4, 0.4) + world_per_pixel),
                    quat: std::array::from_fn(|_| random.uniform(-1.5, 1.5)),
                    opacity: random.uniform(-2.0, self.logit_max),
                    shown: 1.0,
                    sh: (0..count)
                        .map(|_| DVec3::from(std::array::from_fn(|_| random.uniform(-0.6, 0.6))))
                        .collect(),
                }
            })
            .collect();
        Scene {
            gaussians,
            camera,
            settings: RenderSettings {
                background: [0.3, 0.7, 0.5],
                sh_degree: self.sh_degree,
                max_gaussians_per_tile: self.cap,
                antialias: self.antialias,
                ..RenderSettings::default()
            },
        }
    }
}

impl Scene {
    /// Returns the number of pixels.
    pub fn pixels(&self) -> usize {
        self.camera.width as usize * self.camera.height as usize
    }

    /// Returns the visible Gaussians by depth.
    pub fn visible(&self) -> Vec<Projected> {
        reference::visible(&self.gaussians, &self.camera, &self.settings).unwrap()
    }

    /// Returns the image.
    pub fn render(&self) -> reference::Image {
        reference::render_gaussians(&self.gaussians, &self.camera, &self.settings).unwrap()
    }

    /// Returns the gradients for derivatives by colours and alpha.
    pub fn gradients(&self, dl_drgb: &[f64], dl_dalpha: Option<&[f64]>) -> Gradients<f64> {
        reference::gradients_of_gaussians(
            &self.gaussians,
            self.sh_rest_stride(),
            &self.camera,
            &self.settings,
            dl_drgb,
            dl_dalpha,
        )
        .unwrap()
    }

    /// Returns the number of SH coefficients of a Gaussian after the first three.
    pub fn sh_rest_stride(&self) -> usize {
        (self.gaussians[0].sh.len() - 1) * 3
    }

    /// Returns true if no value is near a threshold, and all Gaussians are visible.
    pub fn is_smooth(&self) -> bool {
        let visible = self.visible();
        let cap = self.settings.max_gaussians_per_tile;
        let lists = reference::ranges(&visible, &self.camera, cap);
        let (slope_min, slope_max) = slope_range(&self.camera);
        let eye = PosedLens::new(&self.camera).unwrap();
        let away_from_clamps = self.gaussians.iter().all(|g| {
            let p = eye.to_camera(g.mean);
            let slope = p.truncate() / p.z;
            let gap = (slope - slope_min).abs().min((slope - slope_max).abs());
            gap.min_element() > 1e-4
        });
        let colours = visible.iter().flat_map(|v| v.colour.to_array());
        let tile_margin = self.tile_margin(&visible);
        visible.len() == self.gaussians.len()
            && away_from_clamps
            && colours.into_iter().all(|c| c == 0.0 || c > 1e-4)
            && visible.windows(2).all(|w| w[1].depth - w[0].depth > 1e-4)
            && reference::decision_margin(&visible, &lists, &self.camera) > 1e-4
            && (cap == 0 || tile_margin > 1e-4)
    }

    fn tile_margin(&self, visible: &[Projected]) -> f64 {
        let tiles = reference::TileLists::touching(visible, &self.camera);
        let mut margin = f64::INFINITY;
        for y in 0..tiles.tiles_y {
            for x in 0..tiles.tiles_x {
                let rect = reference::PixelRect::of_tile(x, y, &self.camera);
                for projected in visible {
                    let least = reference::least_power_in_rect(projected, rect);
                    let limit = (projected.opacity * 255.0).ln();
                    margin = margin.min((least - limit).abs());
                }
            }
        }
        margin
    }

    /// Returns the scene with a moved camera: `p -> p + omega x p + t` after the pose, as in
    /// `Gradients::pose`.
    pub fn moved_camera(&self, k: usize, by: f64) -> Self {
        let mut scene = self.clone();
        let pose = &mut scene.camera.camera_from_world;
        if k < 3 {
            let turn = DQuat::from_axis_angle(DVec3::AXES[k], by);
            pose.rotation = turn * pose.rotation;
            pose.translation = turn * pose.translation;
        } else {
            pose.translation += DVec3::AXES[k - 3] * by;
        }
        scene
    }
}

/// Kind of parameter: name, numbers per Gaussian, access to one of them.
#[derive(Debug)]
pub struct Parameter {
    /// Name, as in `Gradients::tensors`.
    pub name: &'static str,
    /// Numbers of a Gaussian.
    pub width: usize,
    /// Access to a number.
    pub at: fn(&mut Gaussian, usize) -> &mut f64,
}

/// Returns all kinds, named as in `Gradients::tensors`.
pub fn parameters(sh_degree: u8) -> [Parameter; 6] {
    let parameter = |name, width, at| Parameter { name, width, at };
    let rest = (sh_coefficient_count(sh_degree) - 1) * 3;
    [
        parameter("means", 3, |g, k| &mut g.mean[k]),
        parameter("scales", 3, |g, k| &mut g.scale[k]),
        parameter("quats", 4, |g, k| &mut g.quat[k]),
        parameter("opacities", 1, |g, _| &mut g.opacity),
        parameter("sh0", 3, |g, k| &mut g.sh[0][k]),
        parameter("sh_rest", rest, |g, k| &mut g.sh[1 + k / 3][k % 3]),
    ]
}

/// Returns `(f(x + STEP) - f(x - STEP)) / (2 STEP)`.
pub fn central_difference(f: impl Fn(f64) -> f64) -> f64 {
    (f(STEP) - f(-STEP)) / (2.0 * STEP)
}

/// Returns central differences of a scalar of the scene by every parameter of a kind, flat.
pub fn numeric(scene: &Scene, parameter: &Parameter, scalar: impl Fn(&Scene) -> f64) -> Vec<f64> {
    let mut out = Vec::new();
    for i in 0..scene.gaussians.len() {
        for k in 0..parameter.width {
            out.push(central_difference(|by| {
                let mut moved = scene.clone();
                *(parameter.at)(&mut moved.gaussians[i], k) += by;
                scalar(&moved)
            }));
        }
    }
    out
}

/// Asserts that analytic gradients of `scalar` agree with central differences, tensor by tensor,
/// the pose included.
pub fn assert_agrees(scene: &Scene, analytic: &Gradients<f64>, scalar: impl Fn(&Scene) -> f64) {
    assert_agrees_without(scene, analytic, &[], scalar);
}

/// Compares as [`assert_agrees`], except tensors of these names, which must have no gradient.
pub fn assert_agrees_without(
    scene: &Scene,
    analytic: &Gradients<f64>,
    without: &[&str],
    scalar: impl Fn(&Scene) -> f64,
) {
    let tensors = analytic.tensors();
    for parameter in parameters(scene.settings.sh_degree) {
        let (_, values) = tensors
            .iter()
            .find(|(name, _)| *name == parameter.name)
            .unwrap();
        let numeric = numeric(scene, &parameter, &scalar);
        if without.contains(&parameter.name) {
            assert!(values.iter().all(|v| *v == 0.0), "{}", parameter.name);
            assert!(numeric.iter().all(|v| *v == 0.0), "{}", parameter.name);
            continue;
        }
        assert_close(parameter.name, values, &numeric);
    }
    let numeric: Vec<f64> = (0..6)
        .map(|k| central_difference(|by| scalar(&scene.moved_camera(k, by))))
        .collect();
    assert_close("pose", &analytic.pose, &numeric);
}

/// Asserts that analytic and numeric gradients of a tensor agree, and are not all near zero.
pub fn assert_close(name: &str, analytic: &[f64], numeric: &[f64]) {
    let distance = relative_l2(analytic, numeric);
    assert!(distance <= TOLERANCE, "{name}: relative L2 {distance:e}");
    assert!(
        numeric.is_empty() || numeric.iter().any(|v| v.abs() > 1e-3),
        "{name}: nothing to compare"
    );
}

/// Returns `n` numbers in -1..1.
pub fn weights(seed: u64, n: usize) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.uniform(-1.0, 1.0)).collect()
}

/// Returns the sum of products.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
