//! Makes captures, in a folder or in memory.

use super::cameras::{self, RayGrid};
use super::folder::{self, Note, Staging};
use super::light::{self, Light};
use super::points::{Finder, SparsePoint};
use super::scene::Scene;
use super::setting::Site;
use super::writing::{SynthSummary, go_on, write_png};
use super::{LensKind, SynthOptions, colmap, drift, mesh, object, perturb, photos, transforms};
use dapple_scene::atomic::write_atomically;
use dapple_scene::{
    Camera, Dataset, Error, NoProgress, Photo, Point, Progress, Result, Tracks, View, write_cameras,
};
use glam::Vec3A;
use rayon::prelude::*;
use std::path::Path;

/// Writes a capture into the folder `out`: `images/*.png`, `sparse/0/*.bin` in COLMAP's format, and `synth.json` with
/// the options. A camera model that COLMAP lacks ([`LensKind::colmap`]) is written to `transforms.json`, with the sparse
/// points in `points.ply`. With [`SynthOptions::mesh`] also `mesh.ply`. If poses are perturbed, the true ones are in
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
    if options.mesh {
        let truth = staging.root().join(folder::MESH);
        let scene = (capture.site, &capture.scene);
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
    let parts = capture.parts(options, progress, out);
    let points = if options.lens.colmap().is_some() {
        let folders = colmap::Folders {
            model: &staging.model(),
            temporary: staging.temporary(),
        };
        colmap::write(&folders, options.lens, (cameras, &names), parts)
    } else {
        transforms::write(&staging.root(), (cameras, &names), parts)
    };
    if is_long(options) {
        progress.finish();
    }
    let points = points?;
    write_atomically(&staging.root().join(folder::NOTE), |file| {
        serde_json::to_writer_pretty(&mut *file, &Note::new(options))?;
        file.write_all(b"\n")
    })?;
    staging.finish()?;
    Ok(SynthSummary {
        folder: out.to_owned(),
        photos: options.photos,
        points: points.points,
        observations: points.observations,
    })
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

/// Points that are found and written at a time: tens of megabytes with their observations.
const PART: usize = 1 << 17;

/// Returns true if the points take more than one part, which is worth reporting as progress.
fn is_long(options: &SynthOptions) -> bool {
    options.points > PART
}

/// Inputs of photos and points.
struct Capture {
    scene: Scene,
    cameras: Vec<Camera>,
    rays: RayGrid,
    /// Factors of each photo's red, green and blue light.
    gains: Vec<Vec3A>,
    site: Site,
    lights: Vec<Light>,
}

impl Capture {
    fn new(options: &SynthOptions, lens: LensKind) -> Self {
        Self {
            scene: Scene::new(Site::of(options), Light::default()),
            cameras: cameras::cameras(options, lens),
            rays: RayGrid::new(&cameras::intrinsics(options, lens)),
            gains: drift::gains(options),
            site: Site::of(options),
            lights: light::lights(options),
        }
    }

    fn photo(&self, index: usize, progress: &dyn Progress) -> Photo {
        let camera = &self.cameras[index];
        let lit = relit(self.site, self.lights[index]);
        let scene = lit.as_ref().unwrap_or(&self.scene);
        photos::photo(scene, camera, &self.rays, self.gains[index], progress)
    }

    fn points(&self, options: &SynthOptions) -> Vec<SparsePoint> {
        Finder::new(&self.scene, &self.cameras, &self.rays, options).find(0..options.points)
    }

    /// Returns the points of [`Capture::points`] in parts that fit into memory; an error after a request to stop.
    fn parts<'a>(
        &'a self,
        options: &SynthOptions,
        progress: &'a dyn Progress,
        out: &'a Path,
    ) -> impl Iterator<Item = Result<Vec<SparsePoint>>> + use<'a> {
        let finder = Finder::new(&self.scene, &self.cameras, &self.rays, options);
        let count = options.points;
        let is_long = is_long(options);
        if is_long {
            progress.start("placing points", count as u64);
        }
        (0..count).step_by(PART).map(move |first| {
            go_on(progress, out)?;
            let numbers = first..(first + PART).min(count);
            let done = numbers.len() as u64;
            let found = finder.find(numbers);
            if is_long {
                progress.advance(done);
            }
            Ok(found)
        })
    }
}

/// Returns the names "000.png", "001.png", ...: with as many digits as needed to sort by name and by number equally.
fn photo_names(count: usize) -> Vec<String> {
    let digits = count.saturating_sub(1).to_string().len().max(3);
    (0..count).map(|i| format!("{i:0digits$}.png")).collect()
}

/// Returns the scene in this light, if the light differs from the constant one.
fn relit(site: Site, light: Light) -> Option<Scene> {
    (light != Light::default()).then(|| Scene::new(site, light))
}
