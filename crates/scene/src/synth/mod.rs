//! Synthetic captures with known ground truth, and synthetic splats for benchmarks.
//!
//! A capture shows one of a few fixed scenes: toys on a laid table in a tiled yard, with hills around, or a scene with
//! less or more texture or of larger extent ([`SceneKind`]). Poses, lens and observed pixels are exact by construction.
//!
//! 1. `cameras`: poses around the middle and the lens; one ray for every corner of a pixel.
//! 2. `scene`, `shapes`, `paint`, `noise`, `lightmap`: the hit of a ray and its colour; `setting`, `plain`, `gravel`,
//!    `field`: the differences of scenes.
//! 3. `photos`: a pixel is the mean of up to eight rays, times the photo's gains (`drift`); `light`: the differences of
//!    photos in lamp and sun.
//! 4. `points`: sparse points with the photos that see them, noise on their positions.
//! 5. `perturb`: perturbed poses, on request.
//! 6. `colmap`, `folder`: written as a COLMAP reconstruction, completely or not at all.
//! 7. `mesh`: the exact surface, on request.
//! 8. `object`: only the table, with alpha or an even background, in Blender's layout and without points.
//!
//! `gaussians` is separate: random splats with the statistics of a trained scene.
//!
//! The result depends only on the options, never on the number of threads.

/// Implements display and parsing of a kind by its name; the error names `what`.
macro_rules! shown_by_name {
    ($kind:ty, $what:literal) => {
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $kind {
            type Err = crate::Error;

            fn from_str(name: &str) -> crate::Result<Self> {
                crate::synth::named($what, &Self::ALL, Self::name, name)
            }
        }
    };
}

mod cameras;
mod colmap;
mod drift;
mod field;
mod folder;
mod gaussians;
mod gravel;
mod light;
mod lightmap;
mod mesh;
mod noise;
mod object;
mod paint;
mod perturb;
mod photos;
mod plain;
mod points;
mod random;
mod scene;
mod setting;
mod shapes;

use crate::atomic::write_atomically;
use crate::write_cameras;
use crate::{Dataset, Error, ErrorKind, NoProgress, Photo, Point, Progress, Result, Tracks, View};
use cameras::RayGrid;
use folder::{Note, Staging};
use glam::Vec3A;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use light::Light;
use points::SparsePoint;
use rayon::prelude::*;
use scene::Scene;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

pub use gaussians::{bench_camera, splats};
pub use light::LightKind;
pub use object::ObjectBackground;
pub use perturb::PoseNoise;
pub use setting::SceneKind;

/// Maximum width and height of photos.
const MAX_EDGE: u32 = 16_384;
const MAX_PHOTOS: usize = 100_000;
const MAX_POINTS: usize = 10_000_000;
const MAX_DRIFT: f64 = 4.0;

/// Lens of a synthetic capture; COLMAP's camera models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LensKind {
    /// `PINHOLE`: no distortion.
    #[default]
    #[serde(rename = "pinhole")]
    Pinhole,
    /// `SIMPLE_RADIAL`: one radial coefficient.
    #[serde(rename = "simple-radial")]
    SimpleRadial,
    /// `RADIAL`: two radial coefficients.
    #[serde(rename = "radial")]
    Radial,
    /// `OPENCV`: two radial and two tangential ones.
    #[serde(rename = "opencv")]
    OpenCv,
    /// `OPENCV_FISHEYE`: equidistant with four coefficients, 96 degrees wide.
    #[serde(rename = "opencv-fisheye")]
    OpenCvFisheye,
    /// `EQUIRECTANGULAR`: panoramas of all directions, twice as wide as high.
    #[serde(rename = "equirect")]
    Equirectangular,
}

impl LensKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Pinhole,
        Self::SimpleRadial,
        Self::Radial,
        Self::OpenCv,
        Self::OpenCvFisheye,
        Self::Equirectangular,
    ];

    /// Returns the name that [`FromStr`](std::str::FromStr) accepts: "pinhole", "simple-radial", ...
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pinhole => "pinhole",
            Self::SimpleRadial => "simple-radial",
            Self::Radial => "radial",
            Self::OpenCv => "opencv",
            Self::OpenCvFisheye => "opencv-fisheye",
            Self::Equirectangular => "equirect",
        }
    }
}

shown_by_name!(LensKind, "lens");

/// Returns the item of this name; the error names `what`.
fn named<T: Copy>(what: &str, all: &[T], name_of: fn(T) -> &'static str, name: &str) -> Result<T> {
    let found = all.iter().find(|&&one| name_of(one) == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&one| name_of(one)).collect();
        Error::input(format!("there is no {what} {name:?}"))
            .hint(format!("choose one of {}", names.join(", ")))
    })
}

/// Options of a synthetic capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SynthOptions {
    /// Number of photos.
    pub photos: usize,
    /// Width of a photo, pixels.
    pub width: u32,
    /// Height of a photo, pixels.
    pub height: u32,
    /// Number of sparse points.
    pub points: usize,
    /// Scene that the photos show.
    #[serde(skip_serializing_if = "SceneKind::is_table")]
    pub scene: SceneKind,
    /// Lens of the camera.
    pub lens: LensKind,
    /// Seed of cameras and points; the scene does not depend on it.
    pub seed: u64,
    /// Standard deviation of the noise on each coordinate of a sparse point, units (the table is
    /// 4.6 units across).
    pub point_noise: f64,
    /// Perturbation of the written poses; if there is one, the true poses are written too.
    pub pose_noise: PoseNoise,
    /// Range of exposure and white balance between photos, stops in either direction; 0 = none. Every eighth photo,
    /// which training holds out by default, is the mean photo: see [`generate`].
    pub drift: f64,
    /// Change of the light from photo to photo.
    #[serde(skip_serializing_if = "LightKind::is_still")]
    pub light: LightKind,
    /// Shows only the scene's table, over this background: Blender's layout, one held-out photo for four training
    /// photos, no sparse points ([`Self::points`] is not used). `None` = the whole scene.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectBackground>,
    /// Also writes the exact surface, `mesh.ply`, with the number of cameras that see each vertex and face.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mesh: bool,
}

impl Default for SynthOptions {
    fn default() -> Self {
        Self {
            photos: 40,
            width: 320,
            height: 240,
            points: 4000,
            scene: SceneKind::default(),
            lens: LensKind::Pinhole,
            seed: 0,
            point_noise: 0.005,
            pose_noise: PoseNoise::default(),
            drift: 0.0,
            light: LightKind::default(),
            object: None,
            mesh: false,
        }
    }
}

impl SynthOptions {
    /// Refuses numbers out of range.
    fn check(&self) -> Result<()> {
        let refuse = |what: String, hint: String| Err(Error::input(what).hint(hint));
        if !(1..=MAX_PHOTOS).contains(&self.photos) {
            let what = format!("a capture cannot have {} photos", self.photos);
            return refuse(what, format!("choose 1 to {MAX_PHOTOS}"));
        }
        if [self.width, self.height]
            .iter()
            .any(|edge| !(1..=MAX_EDGE).contains(edge))
        {
            let what = format!("photos cannot be {} x {} pixels", self.width, self.height);
            return refuse(what, format!("choose 1 to {MAX_EDGE} for each edge"));
        }
        if self.lens == LensKind::Equirectangular && self.width != 2 * self.height {
            let what = format!(
                "panoramas cannot be {} x {} pixels",
                self.width, self.height
            );
            return refuse(what, "choose twice the height as width".to_owned());
        }
        if self.points > MAX_POINTS {
            let what = format!("{} sparse points are too many", self.points);
            return refuse(what, format!("choose at most {MAX_POINTS}"));
        }
        if !(0.0..=MAX_DRIFT).contains(&self.drift) {
            let what = format!("exposure cannot drift by {} stops", self.drift);
            return refuse(what, format!("choose 0 to {MAX_DRIFT}"));
        }
        if !(self.point_noise.is_finite() && self.point_noise >= 0.0) {
            let what = format!("{} is no standard deviation", self.point_noise);
            return refuse(what, "choose 0 or more, in units of the scene".to_owned());
        }
        let PoseNoise { degrees, fraction } = self.pose_noise;
        if !((0.0..=90.0).contains(&degrees) && (0.0..=1.0).contains(&fraction)) {
            let what = format!("poses cannot be off by {degrees} degrees and {fraction}");
            let hint = "choose at most 90 degrees, and at most 1 for the centres";
            return refuse(what, hint.to_owned());
        }
        object::check(self)
    }
}

/// Summary of the files that [`generate`] wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SynthSummary {
    /// Folder of the capture.
    pub folder: PathBuf,
    /// Number of photos written.
    pub photos: usize,
    /// Number of sparse points written; fewer than requested if hardly any place is seen twice.
    pub points: usize,
    /// Number of observations of points in photos.
    pub observations: usize,
}

/// Writes a capture into the folder `out`: `images/*.png`, `sparse/0/*.bin` in COLMAP's format, and `synth.json` with
/// the options. With [`SynthOptions::mesh`] also `mesh.ply`. If poses are perturbed, the true ones are in
/// `true_cameras.json` ([`write_cameras`]). An object ([`SynthOptions::object`]) has `train/*.png`, `test/*.png` and
/// Blender's two transforms files. Missing folders above `out` are created.
///
/// # Errors
/// Options out of range; a folder that holds anything but an earlier synthetic capture; no space or permission to
/// write; a request to stop ([`Progress::should_stop`]). After an error, `out` is unchanged.
pub fn generate(
    options: &SynthOptions,
    out: &Path,
    progress: &dyn Progress,
) -> Result<SynthSummary> {
    options.check()?;
    if let Some(background) = options.object {
        return object::generate(options, background, out, progress);
    }
    let staging = Staging::new(out)?;
    let capture = Capture::new(options, options.lens);
    let names = photo_names(options.photos);
    let images = staging.images();
    progress.start("rendering photos", options.photos as u64);
    let written = capture
        .cameras
        .par_iter()
        .zip(&names)
        .enumerate()
        .try_for_each(|(index, (_, name))| {
            let photo = capture.photo(index, progress);
            go_on(progress, out)?;
            write_png(&images.join(name), &photo)?;
            progress.advance(1);
            Ok::<_, Error>(())
        });
    progress.finish();
    written?;
    let points = capture.points(options);
    go_on(progress, out)?;
    if options.mesh {
        let truth = staging.root().join(folder::MESH);
        let scene = (options.scene, &capture.scene);
        mesh::write(scene, &capture.cameras, &truth, progress)?;
        go_on(progress, out)?;
    }
    let noise = &options.pose_noise;
    let written = perturb::perturbed(&capture.cameras, noise, options.seed);
    if !noise.is_off() {
        let named = names.iter().cloned().zip(capture.cameras.iter().copied());
        let truth = staging.root().join(folder::TRUTH);
        write_cameras(&truth, &named.collect::<Vec<_>>())?;
    }
    let cameras = if noise.is_off() {
        &capture.cameras
    } else {
        &written
    };
    colmap::write(&staging.model(), options.lens, cameras, &names, &points)?;
    write_atomically(&staging.root().join(folder::NOTE), |file| {
        serde_json::to_writer_pretty(&mut *file, &Note::new(options))?;
        file.write_all(b"\n")
    })?;
    staging.finish()?;
    Ok(SynthSummary {
        folder: out.to_owned(),
        photos: options.photos,
        points: points.len(),
        observations: points.iter().map(|point| point.track.len()).sum(),
    })
}

/// Returns an error if the caller requests a stop.
fn go_on(progress: &dyn Progress, out: &Path) -> Result<()> {
    if progress.should_stop() {
        let what = "stopped before the capture was complete; nothing of it is left";
        return Err(Error::new(ErrorKind::Interrupted, what).at_path(out));
    }
    Ok(())
}

/// Builds the capture that [`generate`] would write with a pinhole lens (`options.lens` is not used), in memory: for
/// tests and benchmarks.
///
/// # Errors
/// Options out of range.
pub fn dataset(options: &SynthOptions) -> Result<Dataset> {
    options.check()?;
    if let Some(background) = options.object {
        return Ok(object::dataset(options, background));
    }
    let capture = Capture::new(options, LensKind::Pinhole);
    let views = capture
        .cameras
        .par_iter()
        .zip(photo_names(options.photos))
        .enumerate()
        .map(|(index, (camera, name))| View::new(name, *camera, capture.photo(index, &NoProgress)))
        .collect();
    let found = capture.points(options);
    let mut tracks = Tracks::default();
    for point in &found {
        tracks.push(
            point.error,
            point.track.iter().map(|&(photo, _)| photo as u32),
        );
    }
    let points = found.into_iter().map(|point| Point {
        position: point.position.as_vec3().to_array(),
        rgb: point.rgb,
    });
    Ok(Dataset {
        views,
        points: points.collect(),
        tracks: Some(tracks),
        ..Dataset::default()
    })
}

/// Computes the true depths of the photos of [`dataset`], along +z through the pixels' centres, world units:
/// `[height, width]` each.
///
/// # Errors
/// Options out of range; an object.
pub fn depths(options: &SynthOptions) -> Result<Vec<Vec<f32>>> {
    options.check()?;
    if options.object.is_some() {
        return Err(Error::unsupported("depths of an object are not rendered")
            .hint("render those of the whole scene"));
    }
    let capture = Capture::new(options, LensKind::Pinhole);
    let depths = |camera| photos::depths(&capture.scene, camera, &capture.rays);
    Ok(capture.cameras.par_iter().map(depths).collect())
}

/// Inputs of photos and points.
struct Capture {
    scene: Scene,
    cameras: Vec<crate::Camera>,
    rays: RayGrid,
    /// Factors of each photo's red, green and blue light.
    gains: Vec<Vec3A>,
    kind: SceneKind,
    lights: Vec<Light>,
}

impl Capture {
    fn new(options: &SynthOptions, lens: LensKind) -> Self {
        Self {
            scene: Scene::new(options.scene, Light::default()),
            cameras: cameras::cameras(options, lens),
            rays: RayGrid::new(&cameras::intrinsics(options, lens)),
            gains: drift::gains(options),
            kind: options.scene,
            lights: light::lights(options),
        }
    }

    fn photo(&self, index: usize, progress: &dyn Progress) -> Photo {
        let camera = &self.cameras[index];
        let lit = light::scene(self.kind, self.lights[index]);
        let scene = lit.as_ref().unwrap_or(&self.scene);
        photos::photo(scene, camera, &self.rays, self.gains[index], progress)
    }

    fn points(&self, options: &SynthOptions) -> Vec<SparsePoint> {
        points::find(&self.scene, &self.cameras, &self.rays, options)
    }
}

/// Returns the names "000.png", "001.png", ...: with as many digits as needed to sort by name and by number equally.
fn photo_names(count: usize) -> Vec<String> {
    let digits = count.saturating_sub(1).to_string().len().max(3);
    (0..count).map(|i| format!("{i:0digits$}.png")).collect()
}

/// Writes a PNG, without a synchronisation to the disk: the folder appears only at the end.
fn write_png(path: &Path, photo: &Photo) -> Result<()> {
    let failed = |source| Error::io("cannot write the photo", path, source);
    let file = File::create(path).map_err(failed)?;
    let mut out = BufWriter::new(file);
    let (pixels, colour) = match &photo.alpha {
        None => (Cow::Borrowed(&photo.rgb), ExtendedColorType::Rgb8),
        Some(alpha) => {
            let rgb = photo.rgb.as_chunks::<3>().0.iter();
            let rgba = rgb.zip(alpha).flat_map(|(&[r, g, b], &a)| [r, g, b, a]);
            (Cow::Owned(rgba.collect()), ExtendedColorType::Rgba8)
        }
    };
    PngEncoder::new_with_quality(&mut out, CompressionType::Fast, FilterType::Adaptive)
        .write_image(&pixels, photo.width, photo.height, colour)
        .map_err(|error| match error {
            image::ImageError::IoError(error) => failed(error),
            other => failed(io::Error::other(other)),
        })?;
    out.flush().map_err(failed)
}
