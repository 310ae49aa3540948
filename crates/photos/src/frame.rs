//! Frame of the capture: up axis, scale, position.
//!
//! | source | effect |
//! |---|---|
//! | GPS of at least three photos that are not on a line | x east, y down, z north, in metres, with the residual |
//! | `--distance` | scale |
//! | cameras | y down: their x axes are level |
//!
//! y down is the convention of COLMAP and of 3DGS files. The model itself is transformed, so that training, PLY, GLB
//! and meshes have this frame without further data.

use crate::algebra::{fit, spread};
use crate::exif_data::Gps;
use crate::model::project;
use crate::model::{Image, Model};
use crate::photos::Prepared;
use crate::quality::Evidence;
use dapple_base::{Error, Result};
use dapple_scene::edit::{Similarity, up_of_poses};
use dapple_scene::{Camera, Pose};
use glam::{DMat3, DQuat, DVec2, DVec3};
use serde::Serialize;
use std::collections::HashMap;
use std::str::FromStr;

/// A pixel of a photo: `PHOTO:x,y`.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Name of the photo, or its end.
    pub photo: String,
    /// Pixel.
    pub pixel: DVec2,
}

/// Known distance between two points.
#[derive(Debug, Clone, PartialEq)]
pub struct Distance {
    /// Ends: one place each, or two places each that show the same point.
    pub ends: [Vec<Place>; 2],
    /// Metres.
    pub metres: f64,
}

/// Frame of a capture.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Frame {
    /// Directions of the axes.
    pub axes: &'static str,
    /// "metre" if the scale is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// Source of the scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_from: Option<&'static str>,
    /// Root mean square distance between cameras and GPS positions, metres.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gps_residual: Option<f64>,
    /// Latitude, longitude (degrees) and altitude (metres) of the origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<[f64; 3]>,
    /// Notes for the user.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// [`Frame::axes`] of a capture that photos were added to.
pub const KEPT: &str = "those of the capture before";

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not PHOTO:x,y, for example IMG_1.jpg:812,340");
        let (photo, pixel) = text.rsplit_once(':').ok_or_else(wrong)?;
        let (x, y) = pixel.split_once(',').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        let pixel = DVec2::new(number(x).ok_or_else(wrong)?, number(y).ok_or_else(wrong)?);
        match photo.is_empty() {
            true => Err(wrong()),
            false => Ok(Self {
                photo: photo.to_owned(),
                pixel,
            }),
        }
    }
}

impl Distance {
    /// Reads the values of `--distance`: two or four places, then a length such as 2.4m, 80cm, 35mm, 7ft.
    ///
    /// # Errors
    /// Another number of values, a place or a length that cannot be read.
    pub fn parse(values: &[String]) -> Result<Self> {
        let wrong = |what: String| {
            Error::input(what)
                .at("--distance")
                .hint("give PHOTO:x,y PHOTO:x,y LENGTH, for example a.jpg:120,80 a.jpg:900,85 2.4m")
        };
        let (Some((length, places)), true) = (values.split_last(), matches!(values.len(), 3 | 5))
        else {
            return Err(wrong(format!(
                "--distance has {} values, not three or five",
                values.len()
            )));
        };
        let places: Vec<Place> = places
            .iter()
            .map(|text| text.parse())
            .collect::<Result<_, String>>()
            .map_err(wrong)?;
        let (first, second) = places.split_at(places.len() / 2);
        let number = length.trim_end_matches(char::is_alphabetic);
        let unit = match &length[number.len()..] {
            "" | "m" => 1.0,
            "cm" => 0.01,
            "mm" => 0.001,
            "km" => 1000.0,
            "ft" => 0.3048,
            "in" => 0.0254,
            other => {
                return Err(wrong(format!(
                    "\"{other}\" is no unit of length: m, cm, mm, km, ft, in"
                )));
            }
        };
        let metres = number
            .trim()
            .parse::<f64>()
            .ok()
            .map(|n| n * unit)
            .filter(|&n| n > 0.0 && n.is_finite());
        Ok(Self {
            ends: [first.to_vec(), second.to_vec()],
            metres: metres.ok_or_else(|| wrong(format!("\"{length}\" is not a length")))?,
        })
    }

    /// Returns the distance in units of the model.
    fn measured(&self, evidence: &Evidence<'_>) -> Result<f64> {
        let [a, b] = [0, 1].map(|end| position(evidence, &self.ends[end]));
        let length = a?.distance(b?);
        match length > 0.0 {
            true => Ok(length),
            false => Err(Error::input("both ends of the distance are the same point")
                .at("--distance")
                .hint("name two points that are far apart")),
        }
    }
}

/// Returns the point that one place shows, by the sparse points around it, or that two places show.
fn position(evidence: &Evidence<'_>, places: &[Place]) -> Result<DVec3> {
    let rays: Vec<(Camera, &Image, DVec3)> = places
        .iter()
        .map(|place| ray(evidence, place))
        .collect::<Result<_>>()?;
    match (&rays[..], places) {
        ([(camera, image, along)], [place]) => {
            let depth = depth_at(evidence, camera, image, place)?;
            Ok(camera.camera_from_world.centre() + *along * depth)
        }
        ([(a, _, along), (b, _, other)], [first, second]) => {
            let point = nearest(
                a.camera_from_world.centre(),
                *along,
                b.camera_from_world.centre(),
                *other,
            );
            let off = |camera: &Camera, place: &Place| {
                point
                    .and_then(|point| project(camera, point))
                    .map_or(f64::INFINITY, |pixel| pixel.distance(place.pixel))
            };
            let error = off(a, first).max(off(b, second));
            let most = 0.005 * f64::from(a.width.max(a.height));
            match point {
                Some(point) if error <= most => Ok(point),
                _ => Err(Error::input(
                    "the two pixels of an end do not show the same point: their rays do not meet",
                )
                .at(format!(
                    "--distance {}:{},{}",
                    second.photo, second.pixel.x, second.pixel.y
                ))
                .hint("read the pixels again, in the photos of the capture's images folder")),
            }
        }
        _ => Err(Error::internal("a distance has ends without places")),
    }
}

/// Returns the camera and the direction of a pixel, with depth 1 along the optical axis.
fn ray<'a>(evidence: &'a Evidence<'_>, place: &Place) -> Result<(Camera, &'a Image, DVec3)> {
    let at = format!(
        "--distance {}:{},{}",
        place.photo, place.pixel.x, place.pixel.y
    );
    let images = &evidence.model.images;
    let exact = images.iter().find(|image| image.name == place.photo);
    let by_end: Vec<&Image> = images
        .iter()
        .filter(|image| image.name.ends_with(&place.photo))
        .collect();
    let image = exact.or(match by_end[..] {
        [one] => Some(one),
        _ => None,
    });
    let image = image.ok_or_else(|| {
        Error::input("no photo with a pose has this name")
            .at(&at)
            .hint("name a photo of the capture's images folder that has a pose")
    })?;
    let camera = evidence
        .camera(image)
        .ok_or_else(|| Error::internal("a photo of the model has no camera"))?;
    let (x, y) = (
        (place.pixel.x - camera.cx) / camera.fx,
        (place.pixel.y - camera.cy) / camera.fy,
    );
    let inside = (0.0..=f64::from(camera.width)).contains(&place.pixel.x)
        && (0.0..=f64::from(camera.height)).contains(&place.pixel.y);
    let ideal = camera
        .lens
        .undistort(x, y)
        .filter(|_| inside)
        .ok_or_else(|| {
            Error::input(format!(
                "the pixel is outside the photo of {}x{} pixels",
                camera.width, camera.height
            ))
            .at(&at)
            .hint("read the pixel again, in the photo of the capture's images folder")
        })?;
    let along = camera.camera_from_world.rotation.conjugate() * DVec3::new(ideal.0, ideal.1, 1.0);
    Ok((camera, image, along))
}

/// Sparse points whose depths are averaged.
const AROUND: usize = 7;

/// Returns the depth at a pixel: that of an observed point at the pixel, else the median of the nearest.
fn depth_at(evidence: &Evidence<'_>, camera: &Camera, image: &Image, place: &Place) -> Result<f64> {
    let edge = f64::from(camera.width.max(camera.height));
    let mut near: Vec<(f64, f64)> = evidence
        .observed(image)
        .map(|(index, pixel)| {
            let depth = camera
                .camera_from_world
                .transform(evidence.model.points[index].position)
                .z;
            (pixel.distance(place.pixel), depth)
        })
        .filter(|(_, depth)| *depth > 0.0)
        .collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    near.truncate(AROUND);
    match near.first() {
        Some(&(distance, depth)) if distance < edge / 500.0 => Ok(depth),
        Some(&(distance, _)) if distance < edge / 20.0 => {
            let mut depths: Vec<f64> = near.iter().map(|(_, depth)| *depth).collect();
            depths.sort_by(f64::total_cmp);
            Ok(depths[depths.len() / 2])
        }
        _ => Err(Error::input(
            "there are no sparse points near the pixel, so its depth is unknown",
        )
        .at(format!(
            "--distance {}:{},{}",
            place.photo, place.pixel.x, place.pixel.y
        ))
        .hint("give each end in two photos: --distance A:x,y B:x,y A:x,y B:x,y 2.4m")),
    }
}

/// Returns the point nearest to two lines.
fn nearest(a: DVec3, along: DVec3, b: DVec3, other: DVec3) -> Option<DVec3> {
    let (u, v) = (along.normalize(), other.normalize());
    let (w, c) = (a - b, u.dot(v));
    let determinant = 1.0 - c * c;
    if determinant < 1e-6 {
        return None;
    }
    let s = (c * v.dot(w) - u.dot(w)) / determinant;
    let t = (v.dot(w) - c * u.dot(w)) / determinant;
    Some((a + u * s + b + v * t) / 2.0)
}

/// Finds the frame, and the similarity from the tool's frame to it.
///
/// # Errors
/// A distance whose ends cannot be found.
pub fn find(
    evidence: &Evidence<'_>,
    distance: Option<&Distance>,
    with_gps: bool,
) -> Result<(Frame, Similarity)> {
    let photos: HashMap<&str, &Prepared> = evidence
        .photos
        .iter()
        .map(|photo| (photo.name.as_str(), photo))
        .collect();
    let mut frame = Frame {
        axes: "y down",
        ..Frame::default()
    };
    let by_gps = if with_gps {
        gps(evidence.model, &photos, &mut frame)
    } else {
        None
    };
    let mut moved = by_gps.unwrap_or_else(|| upright(evidence.model, &photos));
    if let Some(distance) = distance {
        let measured = distance.measured(evidence)?;
        let scale = distance.metres / measured;
        if by_gps.is_some() && (moved.scale / scale - 1.0).abs() > 0.05 {
            frame.notes.push(format!(
                "the scale by GPS is {:.1} % larger than by --distance, which is used",
                (moved.scale / scale - 1.0) * 100.0
            ));
        }
        moved = moved.then(&Similarity::scale(scale / moved.scale));
        (frame.unit, frame.scale_from) = (Some("metre"), Some("distance"));
    }
    Ok((frame, moved))
}

/// Turns the model so that y points down.
fn upright(model: &Model, photos: &HashMap<&str, &Prepared>) -> Similarity {
    let poses: Vec<Pose> = model
        .images
        .iter()
        .map(|image| shown(image, photos))
        .collect();
    let mut up = up_of_poses(&poses);
    let axis = |pose: &Pose, row: usize| pose.rotation_matrix().transpose().col(row);
    let count = poses.len().max(1) as f64;
    let upward = -poses.iter().map(|pose| axis(pose, 1)).sum::<DVec3>() / count;
    let forward = poses.iter().map(|pose| axis(pose, 2)).sum::<DVec3>() / count;
    // Straight down, the images' tops do not show which way is up.
    if up.dot(upward).abs() < 0.2 && up.dot(forward) > 0.0 {
        up = -up;
    }
    if !up.is_finite() || up.length() < 0.5 {
        return Similarity::IDENTITY;
    }
    Similarity::rotation(DQuat::from_rotation_arc(up.normalize(), DVec3::NEG_Y))
}

/// Returns the pose of the photo as it is displayed, turned by its EXIF orientation.
fn shown(image: &Image, photos: &HashMap<&str, &Prepared>) -> Pose {
    let orientation = photos
        .get(image.name.as_str())
        .map_or(1, |photo| photo.exif.orientation);
    let turn = match orientation {
        3 | 4 => DMat3::from_diagonal(DVec3::new(-1.0, -1.0, 1.0)),
        // Displayed x is stored -y, displayed y is stored x.
        5 | 6 => DMat3::from_cols(DVec3::Y, DVec3::NEG_X, DVec3::Z),
        7 | 8 => DMat3::from_cols(DVec3::NEG_Y, DVec3::X, DVec3::Z),
        _ => DMat3::IDENTITY,
    };
    let turn = DQuat::from_mat3(&turn);
    Pose {
        rotation: (turn * image.pose.rotation).normalize(),
        translation: turn * image.pose.translation,
    }
}

/// Distance from the photos, in metres, that a GPS position may have in any case.
const GPS_NOISE: f64 = 2.0;

/// Fits cameras to GPS positions.
fn gps(model: &Model, photos: &HashMap<&str, &Prepared>, frame: &mut Frame) -> Option<Similarity> {
    let known: Vec<(DVec3, Gps)> = model
        .images
        .iter()
        .filter_map(|image| {
            Some((
                image.pose.centre(),
                photos.get(image.name.as_str())?.exif.gps?,
            ))
        })
        .collect();
    if known.len() < 3 || 2 * known.len() < model.images.len() {
        return None;
    }
    let middle = |get: fn(&Gps) -> f64| {
        known.iter().map(|(_, gps)| get(gps)).sum::<f64>() / known.len() as f64
    };
    let origin = Gps {
        latitude: (middle(|gps| gps.latitude) * 1e6).round() / 1e6,
        longitude: (middle(|gps| gps.longitude) * 1e6).round() / 1e6,
        altitude: middle(|gps| gps.altitude).round(),
    };
    let mut pairs: Vec<(DVec3, DVec3)> = known
        .iter()
        .map(|(centre, gps)| (*centre, gps.relative_to(&origin)))
        .collect();
    let (mut fitted, mut residuals) = fitted(&pairs)?;
    let mut sorted = residuals.clone();
    sorted.sort_by(f64::total_cmp);
    let most = (4.0 * sorted[sorted.len() / 2]).max(GPS_NOISE);
    let keep: Vec<bool> = residuals.iter().map(|&residual| residual <= most).collect();
    let dropped = keep.iter().filter(|keep| !**keep).count();
    if dropped > 0 && pairs.len() - dropped >= 3 {
        let mut keep = keep.into_iter();
        pairs.retain(|_| keep.next().unwrap_or(true));
        (fitted, residuals) = self::fitted(&pairs)?;
    }
    let residual = (residuals.iter().map(|r| r * r).sum::<f64>() / residuals.len() as f64).sqrt();
    let [_, across, _] = spread(&pairs.iter().map(|(_, to)| *to).collect::<Vec<_>>());
    if across < 3.0 * residual {
        frame.notes.push(format!(
            "GPS is not used: its positions spread by {across:.1} m across and disagree with the photos by {residual:.1} m"
        ));
        return None;
    }
    frame.axes = "x east, y down, z north";
    (frame.unit, frame.scale_from) = (Some("metre"), Some("gps"));
    frame.gps_residual = Some(residual);
    frame.origin = Some([origin.latitude, origin.longitude, origin.altitude]);
    if dropped > 0 {
        frame.notes.push(format!(
            "GPS positions of {dropped} photos disagree with all others and are not used"
        ));
    }
    Some(fitted)
}

fn fitted(pairs: &[(DVec3, DVec3)]) -> Option<(Similarity, Vec<f64>)> {
    let (from, to): (Vec<DVec3>, Vec<DVec3>) = pairs.iter().copied().unzip();
    let found = fit(&from, &to)?;
    let residuals = pairs
        .iter()
        .map(|(from, to)| found.point(*from).distance(*to))
        .collect();
    Some((found, residuals))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn values(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn distances_are_read_with_their_units() {
        let found = Distance::parse(&values("a.jpg:1,2 C:x.jpg:3.5,4 80cm")).unwrap();
        assert_eq!(found.ends[1][0].photo, "C:x.jpg");
        assert_eq!(found.ends[1][0].pixel, DVec2::new(3.5, 4.0));
        assert!((found.metres - 0.8).abs() < 1e-12);
        assert_eq!(
            Distance::parse(&values("a:1,2 b:1,2 a:3,4 b:3,4 2"))
                .unwrap()
                .ends[0]
                .len(),
            2
        );
        for text in [
            "a:1,2 2m",
            "a:1,2 b:1,2 0m",
            "a:1,2 b:1 2m",
            "a:1,2 b:1,2 2kg",
            "a:1,2 b:1,2 -2m",
            "a:1,2 b:1,2 c:1,2 2m",
        ] {
            let error = Distance::parse(&values(text)).unwrap_err();
            assert!(error.hint_text().is_some(), "{text}");
        }
    }

    #[test]
    fn lines_meet_at_their_nearest_point() {
        let found = nearest(
            DVec3::ZERO,
            DVec3::Z * 2.0,
            DVec3::X,
            DVec3::new(-1.0, 0.0, 4.0),
        )
        .unwrap();
        assert!(found.distance(DVec3::new(0.0, 0.0, 4.0)) < 1e-12);
        assert!(nearest(DVec3::ZERO, DVec3::Z, DVec3::X, DVec3::Z).is_none());
    }
}
