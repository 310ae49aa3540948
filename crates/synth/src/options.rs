//! Options of a synthetic capture, and their ranges.

use crate::kinds::{LensKind, LightKind, ObjectBackground, SceneKind};
use crate::perturb::PoseNoise;
use dapple_scene::{Error, Panorama, Result};
use serde::{Deserialize, Serialize};

/// Maximum width and height of photos.
const MAX_EDGE: u32 = 16_384;
const MAX_PHOTOS: usize = 100_000;
const MAX_POINTS: usize = 100_000_000;

/// Blocks along each side of a city whose surface is written: a quarter of a million faces each.
const MAX_BLOCKS_OF_MESH: u32 = 6;

/// Blocks along each side of a city: two kilometres, where coordinates in `f32` are still exact to a tenth of a
/// millimetre.
const MAX_BLOCKS: u32 = 64;
const MAX_DRIFT: f64 = 4.0;

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
    /// Blocks along each side of [`SceneKind::City`], each 32 metres; other scenes have the default, 2.
    #[serde(skip_serializing_if = "is_usual_city")]
    pub blocks: u32,
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
    /// which training holds out by default, is the mean photo: see [`generate`](crate::generate).
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
            blocks: USUAL_BLOCKS,
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
    pub(super) fn check(&self) -> Result<()> {
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
        let aspect = self.lens.panorama().and_then(Panorama::aspect);
        if aspect.is_some_and(|aspect| self.width != aspect * self.height) {
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
        check_city(self)?;
        check_object(self)
    }
}

/// Blocks along each side of a city by default.
const USUAL_BLOCKS: u32 = 2;

/// Returns true for the default, which notes omit, because older versions had no such key.
fn is_usual_city(blocks: &u32) -> bool {
    *blocks == USUAL_BLOCKS
}

/// Refuses a size of a scene that has none, and options that a city does not support.
fn check_city(options: &SynthOptions) -> Result<()> {
    let (kind, blocks) = (options.scene, options.blocks);
    if kind != SceneKind::City {
        return match is_usual_city(&blocks) {
            true => Ok(()),
            false => Err(Error::input(format!("the scene \"{kind}\" has no blocks"))
                .at("--blocks")
                .hint("remove --blocks, or make a city: --scene city")),
        };
    }
    if !(1..=MAX_BLOCKS).contains(&blocks) {
        return Err(
            Error::input(format!("a city cannot have {blocks} x {blocks} blocks"))
                .at("--blocks")
                .hint(format!("choose 1 to {MAX_BLOCKS}; a block is 32 metres")),
        );
    }
    match options.mesh && blocks > MAX_BLOCKS_OF_MESH {
        false => Ok(()),
        true => Err(Error::unsupported(format!(
            "the exact surface of {blocks} x {blocks} blocks is too large"
        ))
        .at("--mesh")
        .hint(format!(
            "remove --mesh, or choose at most {MAX_BLOCKS_OF_MESH} blocks"
        ))),
    }
}

/// Refuses options that a capture of an object does not support.
fn check_object(options: &SynthOptions) -> Result<()> {
    if options.object.is_none() {
        return Ok(());
    }
    let without = [
        ("a lens that distorts", options.lens != LensKind::Pinhole),
        ("pose noise", !options.pose_noise.is_off()),
        ("drift of exposure", options.drift != 0.0),
        ("changing light", options.light != LightKind::Still),
        ("the scene \"field\"", options.scene == SceneKind::Field),
        ("the scene \"city\"", options.scene == SceneKind::City),
        ("an exact surface", options.mesh),
    ];
    match without.iter().find(|(_, is_named)| *is_named) {
        Some((what, _)) => Err(
            Error::input(format!("a capture of an object cannot have {what}"))
                .hint("remove that option, or make a capture of a whole scene"),
        ),
        None => Ok(()),
    }
}
