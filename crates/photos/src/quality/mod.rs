//! Checks of a reconstruction before training.
//!
//! | check | file |
//! |---|---|
//! | registered photos, reprojection errors, track lengths | this file |
//! | reason of each photo without a pose | `reasons.rs` |
//! | parts that few points connect, parts of other places | `connections.rs` |
//! | fold: two places at one position of the model; cameras inside points | `fold.rs` |

pub mod connections;
mod fold;
mod reasons;

use crate::database::Database;
use crate::model::{Image, Model, NO_POINT, project};
use crate::photos::{Prepared, counted, listed, longest_edge};
use dapple_base::{Error, Result};
use dapple_scene::Camera;
use serde::Serialize;
use std::collections::HashMap;

/// Share of registered photos below which the capture is refused.
const LEAST_REGISTERED: f64 = 0.5;

/// Uncertainty of a pose at which training refines poses, in pixels of a photo of 1600 pixels.
const UNCERTAIN: f64 = 0.5;

/// Kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Photos without a pose.
    Unregistered,
    /// Photos of different places.
    SeparateParts,
    /// Parts that few points connect.
    WeakLink,
    /// Photos whose points do not fit.
    BadPhotos,
    /// Two places at one position.
    Fold,
    /// Cameras inside points.
    CameraInside,
    /// A focal length far from that of the EXIF data.
    FocalLength,
}

/// A fault of the reconstruction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Kind.
    pub kind: Kind,
    /// One sentence about the fault.
    pub what: String,
    /// Remedy, imperative.
    pub remedy: String,
    /// Photos at fault.
    pub photos: Vec<String>,
}

/// Numbers of one photo.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhotoReview {
    /// Name.
    pub name: String,
    /// True if the photo has a pose.
    pub is_registered: bool,
    /// Features.
    pub features: u64,
    /// Observed points.
    pub points: usize,
    /// Mean reprojection error, pixels.
    pub error: f64,
    /// Reason of a missing pose, or of a doubtful one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of all checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Review {
    /// Photos with a pose.
    pub registered: usize,
    /// All photos.
    pub photos: usize,
    /// Sparse points.
    pub points: usize,
    /// Mean reprojection error of all observations, pixels.
    pub error: f64,
    /// Mean number of photos that observe a point.
    pub track_length: f64,
    /// Findings, the most severe first.
    pub findings: Vec<Finding>,
    /// Numbers of each photo, by name.
    pub by_photo: Vec<PhotoReview>,
    /// True if training should refine poses.
    pub refine_poses: bool,
}

/// Everything that checks read.
pub struct Evidence<'a> {
    /// Model.
    pub model: &'a Model,
    /// Cameras by id, without poses.
    pub lenses: HashMap<u32, Camera>,
    /// Photos of the capture.
    pub photos: &'a [Prepared],
    /// Features and verified pairs.
    pub database: &'a Database,
    /// Positions and tracks of points by their ids.
    pub point_of: HashMap<u64, usize>,
    /// Photos of the smaller models, by model.
    pub other_models: &'a [Vec<String>],
}

impl<'a> Evidence<'a> {
    /// Indexes a model.
    ///
    /// # Errors
    /// Cameras with impossible parameters.
    pub fn new(
        model: &'a Model,
        photos: &'a [Prepared],
        database: &'a Database,
        other_models: &'a [Vec<String>],
    ) -> Result<Self> {
        let indexed = model.points.iter().enumerate();
        Ok(Self {
            lenses: model.lenses()?,
            point_of: indexed.map(|(index, point)| (point.id, index)).collect(),
            model,
            photos,
            database,
            other_models,
        })
    }

    /// Returns the camera of a registered photo.
    pub fn camera(&self, image: &Image) -> Option<Camera> {
        let lens = self.lenses.get(&image.camera)?;
        Some(Camera {
            camera_from_world: image.pose,
            ..*lens
        })
    }

    /// Returns the position and the observed pixel of each point of a photo.
    pub fn observed<'b>(
        &'b self,
        image: &'b Image,
    ) -> impl Iterator<Item = (usize, glam::DVec2)> + 'b {
        let with_point = image.observations.iter().filter(|(_, id)| *id != NO_POINT);
        with_point.filter_map(|(pixel, id)| Some((*self.point_of.get(id)?, *pixel)))
    }
}

impl Review {
    /// Runs all checks.
    pub fn from_evidence(evidence: &Evidence<'_>) -> Self {
        let images: HashMap<&str, &Image> = evidence
            .model
            .images
            .iter()
            .map(|image| (image.name.as_str(), image))
            .collect();
        let mut by_photo: Vec<PhotoReview> = Vec::new();
        let (mut sum, mut count) = (0.0, 0usize);
        for photo in evidence.photos {
            let image = images.get(photo.name.as_str());
            let errors: Vec<f64> = image.map_or(Vec::new(), |image| errors(evidence, image));
            sum += errors.iter().sum::<f64>();
            count += errors.len();
            by_photo.push(PhotoReview {
                name: photo.name.clone(),
                is_registered: image.is_some(),
                features: evidence
                    .database
                    .features
                    .get(&photo.name)
                    .copied()
                    .unwrap_or(0),
                points: errors.len(),
                error: errors.iter().sum::<f64>() / errors.len().max(1) as f64,
                reason: None,
            });
        }
        let graph = connections::Graph::from_evidence(evidence);
        let mut findings = Vec::new();
        findings.extend(fold::fold(evidence));
        findings.extend(fold::inside(evidence));
        findings.extend(connections::separate_parts(evidence));
        findings.extend(reasons::unregistered(evidence, &mut by_photo));
        findings.extend(connections::weak_link(evidence, &graph));
        findings.extend(bad_photos(&mut by_photo));
        findings.extend(focal_lengths(evidence));
        let points = evidence.model.points.len();
        let tracks: usize = evidence
            .model
            .points
            .iter()
            .map(|point| point.track.len())
            .sum();
        let error = sum / count.max(1) as f64;
        let edge = longest_edge(evidence.photos);
        let refine_poses = uncertainty(&by_photo) * 1600.0 / edge > UNCERTAIN;
        Self {
            registered: images.len(),
            photos: evidence.photos.len(),
            points,
            error,
            track_length: tracks as f64 / points.max(1) as f64,
            findings,
            by_photo,
            refine_poses,
        }
    }

    /// Refuses a reconstruction of too few photos.
    ///
    /// # Errors
    /// Fewer than half of the photos have a pose; the hint is the first finding's remedy.
    pub fn check(&self, report: &std::path::Path) -> Result<()> {
        if self.registered as f64 >= LEAST_REGISTERED * self.photos as f64 {
            return Ok(());
        }
        let finding = self
            .findings
            .iter()
            .find(|finding| finding.kind != Kind::FocalLength);
        let remedy = finding.map_or("shoot more photos with more overlap", |finding| {
            &finding.remedy
        });
        let why = finding.map_or(String::new(), |finding| format!(": {}", finding.what));
        Err(Error::input(format!(
            "{} of {} have a pose, fewer than half{why}",
            self.registered,
            counted(self.photos)
        ))
        .at_path(report)
        .hint(format!(
            "{remedy}; --accept writes the capture of these photos"
        )))
    }
}

fn errors(evidence: &Evidence<'_>, image: &Image) -> Vec<f64> {
    let Some(camera) = evidence.camera(image) else {
        return Vec::new();
    };
    let error = |(point, pixel): (usize, glam::DVec2)| {
        let position = evidence.model.points.get(point)?.position;
        Some(project(&camera, position)?.distance(pixel))
    };
    evidence.observed(image).filter_map(error).collect()
}

/// Returns the uncertainty of the median pose, pixels in the photo: the error of a mean over all points of the photo, of
/// which the six numbers of a pose take three.
fn uncertainty(by_photo: &[PhotoReview]) -> f64 {
    let placed = by_photo.iter().filter(|photo| photo.points > 0);
    let mut all: Vec<f64> = placed
        .map(|photo| photo.error * (3.0 / photo.points as f64).sqrt())
        .collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

/// Fewest observed points of a photo whose pose is certain.
const FEW_POINTS: usize = 40;

fn bad_photos(by_photo: &mut [PhotoReview]) -> Option<Finding> {
    let mut errors: Vec<f64> = by_photo
        .iter()
        .filter(|p| p.is_registered)
        .map(|p| p.error)
        .collect();
    errors.sort_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
    let mut photos = Vec::new();
    for photo in by_photo.iter_mut().filter(|photo| photo.is_registered) {
        photo.reason = if photo.points < FEW_POINTS {
            Some(format!("its pose rests on {} points", photo.points))
        } else if photo.error > 2.0 * median && photo.error > 1.0 {
            Some(format!(
                "its error of {:.2} px is {:.1} times the median",
                photo.error,
                photo.error / median
            ))
        } else {
            None
        };
        if photo.reason.is_some() {
            photos.push(photo.name.clone());
        }
    }
    let names = listed(photos.iter().map(String::as_str));
    (!photos.is_empty()).then(|| Finding {
        kind: Kind::BadPhotos,
        what: format!("{} with a doubtful pose: {names}", counted(photos.len())),
        remedy: format!("shoot more photos around {}, or remove these", photos[0]),
        photos,
    })
}

/// Relative difference of focal lengths that is reported.
const FOCAL_DIFFERENCE: f64 = 0.15;

fn focal_lengths(evidence: &Evidence<'_>) -> Option<Finding> {
    let images: HashMap<&str, &Image> = evidence
        .model
        .images
        .iter()
        .map(|image| (image.name.as_str(), image))
        .collect();
    let apart = |photo: &Prepared| {
        let prior = photo.exif.focal_pixels(photo.width, photo.height)?;
        let camera = evidence.camera(images.get(photo.name.as_str())?)?;
        ((camera.fx / prior - 1.0).abs() > FOCAL_DIFFERENCE).then_some((
            prior,
            camera.fx,
            photo.name.clone(),
        ))
    };
    let found: Vec<(f64, f64, String)> = evidence.photos.iter().filter_map(apart).collect();
    let (prior, focal, _) = found.first()?;
    Some(Finding {
        kind: Kind::FocalLength,
        what: format!(
            "the focal length of the photos is {focal:.0} pixels, their EXIF data mean {prior:.0}: the photos were \
             cropped, or the data are wrong"
        ),
        remedy: "use uncropped photos as the camera wrote them, if there are any".to_owned(),
        photos: found.iter().map(|(.., name)| name.clone()).collect(),
    })
}
