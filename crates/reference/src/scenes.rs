//! Small scenes that every engine is tested on, degenerate ones included.
//!
//! 1. A Gaussian is drawn where it lands: pixel, depth and size in pixels are chosen first and
//!    mapped back to the world, so each scene shows what its name promises.
//! 2. Depths are stratified: two Gaussians are far enough apart in depth that `f32` and `f64`
//!    agree on their order, except where a tie is the point (then it is exact).
//! 3. All numbers come from a seeded generator: the same scene on every machine.
//!
//! Scenes are 72 x 52 pixels, so that tiles at the right and bottom edges are cut.

mod lenses;
mod panoramas;

pub use lenses::lenses;
pub use panoramas::SEAMS;

use dapple_engine::RenderSettings;
use dapple_scene::{Camera, Pose, SH_C0, Splats, sh_coefficient_count};
use glam::DVec3;

/// A scene to render, differentiate and compare.
#[derive(Debug, Clone)]
pub struct TestScene {
    /// Name of the content; unique.
    pub name: &'static str,
    /// The Gaussians.
    pub splats: Splats,
    /// The camera.
    pub camera: Camera,
    /// How to render.
    pub settings: RenderSettings,
}

/// Every scene, in a fixed order.
pub fn all() -> Vec<TestScene> {
    vec![
        random(0),
        random(1),
        random(2),
        random(3),
        active_degree_below_stored(),
        crowd(),
        out_of_sight(),
        needles(),
        huge(),
        opacity_extremes(),
        deep_stack(),
        depth_ties(),
        off_centre(),
        non_finite(),
        empty(),
        quaternions(),
        black(),
        background(),
        tile_cap(),
        tiny_image(),
    ]
    .into_iter()
    .chain(lenses::all())
    .chain(panoramas::all())
    .collect()
}

/// The scene of this name.
///
/// # Panics
/// There is none: a test names one that it knows.
pub fn named(name: &str) -> TestScene {
    let scene = all().into_iter().find(|scene| scene.name == name);
    scene.unwrap_or_else(|| panic!("no scene {name}"))
}

/// SplitMix64 (Steele et al. 2014): two lines, no dependency, the same everywhere. Tests use it
/// for weights as well.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `lo..hi`.
    pub fn uniform(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `0..n` in random order (Fisher-Yates).
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, (self.bits() % (i as u64 + 1)) as usize);
        }
        order
    }
}

const WIDTH: u32 = 72;
const HEIGHT: u32 = 52;

/// A camera in general position: no axis is aligned with the world's.
fn tilted_camera() -> Camera {
    let pose = Pose::look_at(
        DVec3::new(1.1, -0.7, -3.9),
        DVec3::new(0.1, 0.05, 0.0),
        DVec3::new(0.2, -1.0, 0.1),
    );
    Camera::pinhole(WIDTH, HEIGHT, 66.0, pose)
}

/// How a batch of Gaussians is drawn; every range is uniform unless said otherwise.
#[derive(Debug, Clone, Copy)]
struct Batch {
    count: usize,
    /// Where centres land, pixels: `[x_lo, x_hi, y_lo, y_hi]`.
    window: [f64; 4],
    /// Depth, stratified.
    depth: [f64; 2],
    /// Standard deviation of each axis, pixels, log-uniform.
    sigma: [f64; 2],
    /// Logit of the opacity.
    logit: [f64; 2],
}

const BATCH: Batch = Batch {
    count: 300,
    window: [-4.0, WIDTH as f64 + 4.0, -4.0, HEIGHT as f64 + 4.0],
    depth: [2.0, 8.0],
    sigma: [0.4, 6.0],
    logit: [-3.0, 3.0],
};

/// x/z and y/z of the ray that lands on a pixel. Where no ray does, one half as far again off the
/// axis as the lens shows, in that direction. `reach` is the [`Lens::max_radius`](dapple_scene::Lens::max_radius), which
/// takes long to find.
fn slope_of(camera: &Camera, reach: f64, [x, y]: [f64; 2]) -> [f64; 2] {
    let (a, b) = ((x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy);
    if camera.lens.is_identity() {
        return [a, b];
    }
    match camera.lens.undistort_within(a, b, reach) {
        Some((a, b)) => [a, b],
        None => [a, b].map(|v| 1.5 * reach * v / a.hypot(b)),
    }
}

/// Appends a batch to the splats.
fn scatter(splats: &mut Splats, random: &mut Random, camera: &Camera, batch: Batch) {
    let world_from_camera = camera.camera_from_world.rotation.conjugate();
    let reach = camera.lens.max_radius();
    let strata = random.permutation(batch.count);
    for stratum in strata {
        let [near, far] = batch.depth;
        let t = (stratum as f64 + random.uniform(0.25, 0.75)) / batch.count as f64;
        let z = near + (far - near) * t;
        let x = random.uniform(batch.window[0], batch.window[1]);
        let y = random.uniform(batch.window[2], batch.window[3]);
        let p = panoramas::point_at(camera, reach, [x, y], z);
        let mean = world_from_camera * (p - camera.camera_from_world.translation);
        splats.means.push(mean.as_vec3().to_array());
        let world_per_pixel = z.abs() / camera.fx;
        splats.scales.push(std::array::from_fn(|_| {
            let ln_sigma = random.uniform(batch.sigma[0].ln(), batch.sigma[1].ln());
            (ln_sigma + world_per_pixel.ln()) as f32
        }));
        splats
            .quats
            .push(std::array::from_fn(|_| random.uniform(-1.0, 1.0) as f32));
        splats
            .opacities
            .push(random.uniform(batch.logit[0], batch.logit[1]) as f32);
        // Up to 2: some colours fall below zero and are clamped.
        splats
            .sh0
            .push(std::array::from_fn(|_| random.uniform(-2.0, 2.0) as f32));
        for _ in 0..(sh_coefficient_count(splats.sh_degree) - 1) * 3 {
            splats.sh_rest.push(random.uniform(-0.4, 0.4) as f32);
        }
    }
}

fn scene(name: &'static str, splats: Splats, camera: Camera) -> TestScene {
    let settings = RenderSettings {
        sh_degree: splats.sh_degree,
        ..RenderSettings::default()
    };
    TestScene {
        name,
        splats,
        camera,
        settings,
    }
}

/// One batch in front of the tilted camera.
fn one_batch(name: &'static str, seed: u64, sh_degree: u8, batch: Batch) -> TestScene {
    let camera = tilted_camera();
    let mut splats = Splats::empty(sh_degree);
    scatter(&mut splats, &mut Random::new(seed), &camera, batch);
    scene(name, splats, camera)
}

/// Anisotropic, rotated, every SH degree.
fn random(sh_degree: u8) -> TestScene {
    let name = ["random_sh0", "random_sh1", "random_sh2", "random_sh3"][usize::from(sh_degree)];
    one_batch(name, 100 + u64::from(sh_degree), sh_degree, BATCH)
}

/// As at the start of training: degree 3 stored, degree 1 evaluated.
fn active_degree_below_stored() -> TestScene {
    let mut scene = one_batch("active_degree_below_stored", 110, 3, BATCH);
    scene.settings.sh_degree = 1;
    scene
}

/// Many Gaussians everywhere; most pixels end early.
fn crowd() -> TestScene {
    let batch = Batch {
        count: 2000,
        ..BATCH
    };
    one_batch("crowd", 120, 3, batch)
}

/// Behind the camera, on both sides of the near plane, and far off screen (some large enough to
/// reach into the image, where the Jacobian is clamped).
fn out_of_sight() -> TestScene {
    let camera = tilted_camera();
    let mut splats = Splats::empty(1);
    let random = &mut Random::new(130);
    let with = |count, window, depth, sigma| Batch {
        count,
        window,
        depth,
        sigma,
        ..BATCH
    };
    let seen = BATCH.window;
    let wide = [-900.0, 1000.0, -900.0, 1000.0];
    let around = [-60.0, 130.0, -60.0, 110.0];
    scatter(
        &mut splats,
        random,
        &camera,
        with(80, seen, [2.0, 8.0], [0.4, 6.0]),
    );
    scatter(
        &mut splats,
        random,
        &camera,
        with(60, seen, [-5.0, -0.1], [0.4, 6.0]),
    );
    scatter(
        &mut splats,
        random,
        &camera,
        with(6, seen, [0.0095, 0.0099], [0.4, 6.0]),
    );
    scatter(
        &mut splats,
        random,
        &camera,
        with(6, seen, [0.0101, 0.05], [0.4, 6.0]),
    );
    scatter(
        &mut splats,
        random,
        &camera,
        with(60, wide, [0.5, 9.0], [0.4, 6.0]),
    );
    scatter(
        &mut splats,
        random,
        &camera,
        with(40, around, [1.0, 9.0], [10.0, 40.0]),
    );
    scene("out_of_sight", splats, camera)
}

/// One axis 1e4 times the other two. The long axis stays near 10 pixels: the quadratic form of a
/// needle of L pixels loses about L^2 of `f32`'s precision in any implementation.
fn needles() -> TestScene {
    let batch = Batch {
        count: 150,
        sigma: [5.0, 10.0],
        ..BATCH
    };
    let mut scene = one_batch("needles", 140, 1, batch);
    for scales in &mut scene.splats.scales {
        for thin in [1, 2] {
            scales[thin] = scales[0] - 1e4f32.ln();
        }
    }
    scene
}

/// A dozen Gaussians that each cover the whole image, between small ones.
///
/// Where a pixel's alpha lies within rounding of 1/255, an engine may skip what the reference
/// blends, here for all the huge ones behind as well: not every seed will do.
fn huge() -> TestScene {
    let mut scene = one_batch(
        "huge",
        152,
        1,
        Batch {
            count: 100,
            ..BATCH
        },
    );
    let batch = Batch {
        count: 12,
        depth: [2.5, 7.5],
        sigma: [100.0, 1000.0],
        logit: [-3.0, 0.0],
        ..BATCH
    };
    scatter(
        &mut scene.splats,
        &mut Random::new(151),
        &scene.camera,
        batch,
    );
    scene
}

/// Opacity 0 and 1 to `f32`'s precision, among others.
fn opacity_extremes() -> TestScene {
    let mut scene = one_batch("opacity_extremes", 160, 1, BATCH);
    for (i, logit) in scene.splats.opacities.iter_mut().enumerate() {
        match i % 5 {
            0 => *logit = 20.0,
            1 => *logit = -20.0,
            _ => {}
        }
    }
    scene
}

/// Thousands of faint Gaussians in one tile: many checkpoints, few of them saturated.
fn deep_stack() -> TestScene {
    let batch = Batch {
        count: 2500,
        window: [19.0, 29.0, 19.0, 29.0],
        sigma: [0.4, 1.5],
        logit: [-5.2, -2.5],
        ..BATCH
    };
    one_batch("deep_stack", 170, 0, batch)
}

/// Equal depths, exactly, in `f32` too: the camera's axes are the world's. Also exact copies.
fn depth_ties() -> TestScene {
    let pose = Pose {
        translation: DVec3::new(0.0, 0.0, 4.0),
        ..Pose::IDENTITY
    };
    let camera = Camera::pinhole(WIDTH, HEIGHT, 66.0, pose);
    let mut splats = Splats::empty(1);
    let sigma = [1.0, 8.0];
    scatter(
        &mut splats,
        &mut Random::new(180),
        &camera,
        Batch { sigma, ..BATCH },
    );
    for (i, mean) in splats.means.iter_mut().enumerate() {
        mean[2] = [1.0, -0.5, 0.25][i % 3];
    }
    for i in (30..60).rev() {
        splats.means[i] = splats.means[i - 30];
        splats.scales[i] = splats.scales[i - 30];
        splats.quats[i] = splats.quats[i - 30];
    }
    scene("depth_ties", splats, camera)
}

/// A cropped camera: principal point far from the centre, pixels not square.
fn off_centre() -> TestScene {
    let camera = Camera {
        fx: 85.0,
        fy: 61.0,
        cx: 20.3,
        cy: 35.1,
        ..tilted_camera()
    };
    let mut splats = Splats::empty(2);
    let random = &mut Random::new(190);
    scatter(&mut splats, random, &camera, BATCH);
    let around = Batch {
        count: 60,
        window: [-70.0, 140.0, -50.0, 100.0],
        sigma: [8.0, 30.0],
        ..BATCH
    };
    scatter(&mut splats, random, &camera, around);
    scene("off_centre", splats, camera)
}

/// Every kind of parameter once NaN, once infinite: such a Gaussian is absent.
fn non_finite() -> TestScene {
    let mut scene = one_batch("non_finite", 200, 1, BATCH);
    let stride = scene.splats.sh_rest_stride();
    let splats = &mut scene.splats;
    for (j, bad) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]
        .into_iter()
        .enumerate()
    {
        let i = 10 * j;
        splats.means[i][j] = bad;
        splats.scales[i + 1][j] = bad;
        splats.quats[i + 2][j + 1] = bad;
        splats.opacities[i + 3] = bad;
        splats.sh0[i + 4][j] = bad;
        splats.sh_rest[(i + 5) * stride + 3 * j + j] = bad;
    }
    // Finite, but its size is not.
    splats.scales[40] = [1000.0; 3];
    scene
}

/// Nothing but background.
fn empty() -> TestScene {
    let mut scene = scene("empty", Splats::empty(2), tilted_camera());
    scene.settings.background = [0.2, 0.5, 0.9];
    scene
}

/// Gaussians whose red is a hair above zero before clamping, so that its gradient passes the clamp, and whose green is
/// a hair below it.
///
/// The viewing direction is the z axis, where basis function 6 is `2 SH_C2_ZZ`. So its coefficient of -1 cancels
/// 0.5 + SH 0, up to `HAIR`.
fn black() -> TestScene {
    const BASIS_6: f32 = 2.0 * 0.315_391_57;
    /// Far above the rounding of `f32`, which differs between devices.
    const HAIR: f32 = 1e-5;
    let pose = Pose::look_at(DVec3::ZERO, DVec3::Z, DVec3::NEG_Y);
    let camera = Camera::pinhole(WIDTH, HEIGHT, 66.0, pose);
    let mut splats = Splats::empty(2);
    let cancelled = ((f64::from(BASIS_6) - 0.5) / f64::from(SH_C0)) as f32;
    for (distance, pixels) in [(1.0f32, 3.0f32), (2.0, 5.0), (4.0, 8.0), (8.0, 12.0)] {
        splats.means.push([0.0, 0.0, distance]);
        splats
            .scales
            .push([1.0, 1.5, 0.7].map(|f: f32| (f * pixels * distance / 66.0).ln()));
        splats.quats.push([1.0, 0.2, -0.3, 0.4]);
        splats.opacities.push(0.0);
        splats.sh0.push([cancelled + HAIR, cancelled - HAIR, 0.3]);
        splats.sh_rest.extend([0.0; 15]);
        splats.sh_rest.extend([-1.0, -1.0, 0.0]);
        splats.sh_rest.extend([0.0; 6]);
    }
    scene("black", splats, camera)
}

/// Quaternions of length 1e-3 to 1e3, and zero (absent).
fn quaternions() -> TestScene {
    let mut scene = one_batch("quaternions", 210, 1, BATCH);
    let random = &mut Random::new(211);
    for (i, quat) in scene.splats.quats.iter_mut().enumerate() {
        let factor = if i % 10 == 3 {
            0.0
        } else {
            10f64.powf(random.uniform(-3.0, 3.0)) as f32
        };
        *quat = quat.map(|v| v * factor);
    }
    scene
}

/// A bright background seen through few Gaussians.
fn background() -> TestScene {
    let mut scene = one_batch("background", 220, 2, Batch { count: 60, ..BATCH });
    scene.settings.background = [0.9, 0.6, 0.3];
    scene
}

/// More Gaussians in every tile than the cap lets through.
fn tile_cap() -> TestScene {
    let sigma = [1.0, 8.0];
    let mut scene = one_batch("tile_cap", 230, 1, Batch { sigma, ..BATCH });
    scene.settings.max_gaussians_per_tile = 24;
    scene.settings.background = [0.1, 0.2, 0.3];
    scene
}

/// An image smaller than a tile and than the SSIM window.
fn tiny_image() -> TestScene {
    let camera = tilted_camera().resized(7, 5);
    let mut splats = Splats::empty(1);
    let batch = Batch {
        count: 20,
        window: [-1.0, 8.0, -1.0, 6.0],
        sigma: [0.3, 2.0],
        ..BATCH
    };
    scatter(&mut splats, &mut Random::new(240), &camera, batch);
    scene("tiny_image", splats, camera)
}
