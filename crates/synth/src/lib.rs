//! Synthetic captures with known ground truth, and synthetic splats for benchmarks.
//!
//! A capture shows one of a few fixed scenes: toys on a laid table in a tiled yard, with hills around, or a scene with
//! less or more texture or of larger extent ([`SceneKind`]). Poses, lens and observed pixels are exact by construction.
//!
//! 1. `cameras`: poses around the middle and the lens; one ray for every corner of a pixel.
//! 2. `scene`, `shapes`, `paint`, `noise`, `lightmap`: the hit of a ray and its colour; `setting`, `plain`, `gravel`,
//!    `field`, `city`: the differences of scenes; `grid`: the objects near a ray, in a city.
//! 3. `kinds`, `options`: the choices of a capture. `capture`: its parts together.
//! 4. `photos`: a pixel is the mean of up to eight rays, times the photo's gains (`drift`); `light`: the differences of
//!    photos in lamp and sun.
//! 5. `points`: sparse points with the photos that see them, noise on their positions.
//! 6. `perturb`: perturbed poses, on request.
//! 7. `colmap`, `folder`, `writing`: written as a COLMAP reconstruction, completely or not at all.
//! 8. `mesh`: the exact surface, on request.
//! 9. `object`: only the table, with alpha or an even background, in Blender's layout and without points.
//!
//! `gaussians` is separate: random splats with the statistics of a trained scene.
//!
//! The result depends only on the options, never on the number of threads.

mod cameras;
mod capture;
mod city;
mod colmap;
mod drift;
mod field;
mod folder;
mod gaussians;
mod gravel;
mod grid;
mod kinds;
mod light;
mod lightmap;
mod material;
mod mesh;
mod noise;
mod object;
mod observations;
mod options;
mod paint;
mod perturb;
mod photos;
mod plain;
mod points;
mod random;
mod scene;
mod setting;
mod shapes;
mod transforms;
mod writing;

pub use capture::{dataset, depths, generate};
pub use gaussians::{bench_camera, splats};
pub use kinds::{LensKind, LightKind, ObjectBackground, SceneKind};
pub use options::SynthOptions;
pub use perturb::PoseNoise;
pub use writing::SynthSummary;
