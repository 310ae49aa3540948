//! `report.html`: contact sheet, cameras and points in 3D, findings, in one file without a server.

use crate::frame::{Frame, KEPT};
use crate::quality::connections::Graph;
use crate::quality::{Evidence, Review};
use crate::watch::{bounds, frustum};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dapple_base::atomic::write_atomically;
use dapple_base::{Error, Result};
use dapple_scene::Camera;
use glam::DVec3;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;

const PAGE: &str = include_str!("report.html");

/// Most points on the page.
const POINTS: usize = 15_000;

/// Most links on the page for each photo.
const LINKS: usize = 12;

/// Writes the page.
///
/// # Errors
/// Errors of the operating system.
pub fn write(
    path: &Path,
    evidence: &Evidence<'_>,
    review: &Review,
    frame: &Frame,
    tool: &str,
    notes: &[String],
) -> Result<()> {
    let mut data = data(evidence, review, frame, tool, path);
    data["notes"] = json!(notes);
    let text = serde_json::to_string(&data)
        .map_err(|e| Error::internal(format!("a report cannot be written: {e}")))?;
    // A name of a photo must not end the script.
    let page = PAGE.replace("/*DATA*/", &text.replace('<', "\\u003c"));
    write_atomically(path, |out| out.write_all(page.as_bytes()))
}

fn data(evidence: &Evidence<'_>, review: &Review, frame: &Frame, tool: &str, path: &Path) -> Value {
    let model = evidence.model;
    let step = model.points.len().div_ceil(POINTS).max(1);
    let certain = model
        .points
        .iter()
        .filter(|point| point.track.len() >= 3 || model.points.len() < POINTS);
    let sample: Vec<_> = certain.step_by(step).collect();
    let centres: Vec<DVec3> = model
        .images
        .iter()
        .map(|image| image.pose.centre())
        .collect();
    let (middle, extent) = bounds(
        &centres,
        &sample
            .iter()
            .map(|point| point.position)
            .collect::<Vec<_>>(),
    );
    let positions: Vec<u8> = sample
        .iter()
        .flat_map(|point| point.position.to_array())
        .flat_map(|value| (value as f32).to_le_bytes())
        .collect();
    let colours: Vec<u8> = sample.iter().flat_map(|point| point.rgb).collect();
    let name = path
        .parent()
        .and_then(Path::file_name)
        .map_or("capture".into(), |n| n.to_string_lossy());
    json!({
        "title": format!("{name}: {} of {} photos have a pose", review.registered, review.photos),
        "sub": subtitle(frame, tool),
        "numbers": [
            [format!("{} / {}", review.registered, review.photos), "photos with a pose"],
            [format!("{:.2} px", review.error), "mean reprojection error"],
            [review.points.to_string(), "sparse points"],
            [format!("{:.1}", review.track_length), "photos for each point"],
        ],
        "findings": review.findings,
        "photos": photos(evidence, review, extent),
        "links": links(evidence),
        "positions": STANDARD.encode(positions),
        "colours": STANDARD.encode(colours),
        "middle": middle.to_array(),
        "turn": turn(evidence),
        "extent": extent,
    })
}

fn subtitle(frame: &Frame, tool: &str) -> String {
    let scale = match (frame.scale_from, frame.gps_residual) {
        (Some("gps"), Some(residual)) => format!("metres by GPS, residual {residual:.2} m"),
        (Some(_), _) => "metres by --distance".to_owned(),
        (None, _) if frame.axes == KEPT => "its units".to_owned(),
        (None, _) => "unknown scale".to_owned(),
    };
    match frame.axes {
        "" => format!("{tool} found no poses."),
        axes => format!("Poses by {tool}. Axes: {axes}; {scale}."),
    }
}

/// Returns the angle about the vertical axis from which the page shows the scene: from behind the cameras, and from
/// the side by a third of a right angle.
fn turn(evidence: &Evidence<'_>) -> f64 {
    let forward = |image: &crate::model::Image| image.pose.forward();
    let sum: DVec3 = evidence.model.images.iter().map(forward).sum();
    let angle = if sum.x.hypot(sum.z) > 1e-6 {
        (-sum.x).atan2(sum.z)
    } else {
        0.0
    };
    angle + 0.5
}

fn photos(evidence: &Evidence<'_>, review: &Review, extent: f64) -> Vec<Value> {
    let images: HashMap<&str, Camera> = evidence
        .model
        .images
        .iter()
        .filter_map(|image| Some((image.name.as_str(), evidence.camera(image)?)))
        .collect();
    let one = |(photo, numbers): (&crate::photos::Prepared, &crate::quality::PhotoReview)| {
        let camera = images
            .get(photo.name.as_str())
            .map(|camera| camera_shape(camera, extent));
        let turn = match photo.exif.orientation {
            3 | 4 => 180,
            5 | 6 => 90,
            7 | 8 => -90,
            _ => 0,
        };
        json!({
            "name": photo.name, "thumbnail": STANDARD.encode(&photo.thumbnail), "turn": turn,
            "features": numbers.features, "points": numbers.points, "error": numbers.error,
            "reason": numbers.reason, "camera": camera,
        })
    };
    evidence
        .photos
        .iter()
        .zip(&review.by_photo)
        .map(one)
        .collect()
}

/// Returns the centre and the four corners of a small image plane.
fn camera_shape(camera: &Camera, extent: f64) -> Value {
    let (centre, corners) = frustum(camera, 0.07 * extent);
    json!({"centre": centre.to_array(), "corners": corners.map(|corner| corner.to_array())})
}

/// Returns the strongest links of each photo: indices of both photos, and the points that they share.
fn links(evidence: &Evidence<'_>) -> Vec<(usize, usize, u32)> {
    let index_of: HashMap<&str, usize> = evidence
        .photos
        .iter()
        .enumerate()
        .map(|(index, photo)| (photo.name.as_str(), index))
        .collect();
    let to_photo: Vec<Option<usize>> = evidence
        .model
        .images
        .iter()
        .map(|image| index_of.get(image.name.as_str()).copied())
        .collect();
    let mut all: Vec<(usize, usize, u32)> = Graph::from_evidence(evidence)
        .shared
        .into_iter()
        .filter_map(|((a, b), shared)| Some((to_photo[a]?, to_photo[b]?, shared)))
        .collect();
    all.sort_by_key(|&(a, b, shared)| (std::cmp::Reverse(shared), a, b));
    let mut count = vec![0; evidence.photos.len()];
    all.retain(|&(a, b, _)| {
        let keep = count[a] < LINKS || count[b] < LINKS;
        count[a] += usize::from(keep);
        count[b] += usize::from(keep);
        keep
    });
    all
}
