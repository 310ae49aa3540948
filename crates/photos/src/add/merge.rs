//! The model of the new capture: the old one, with new photos, their cameras and the points that they observe.

use super::register::Found;
use crate::model::{Image, Model, NO_POINT, Point};
use std::collections::{HashMap, HashSet};

/// Appends what the tool found to the old model. Poses, cameras and points of before are unchanged; old photos get the
/// observations of the new points.
///
/// Returns the number of new points.
pub fn append(base: &mut Model, found: &Found) -> usize {
    let new: Vec<&Image> = found
        .model
        .images
        .iter()
        .filter(|image| !found.old.contains_key(&image.id))
        .collect();
    let cameras = append_cameras(base, found, &new);
    let first = base.images.iter().map(|image| image.id).max().unwrap_or(0);
    let images: HashMap<u32, (u32, usize)> = (1..)
        .zip(&new)
        .map(|(number, image)| {
            (
                image.id,
                (first + number, base.images.len() + number as usize - 1),
            )
        })
        .collect();
    for image in &new {
        base.images.push(Image {
            id: images.get(&image.id).map_or(0, |(id, _)| *id),
            name: image.name.clone(),
            camera: cameras.get(&image.camera).copied().unwrap_or(0),
            pose: image.pose,
            observations: image
                .observations
                .iter()
                .map(|(pixel, _)| (*pixel, NO_POINT))
                .collect(),
        });
    }
    let pixels: HashMap<u32, &Image> = found.model.images.iter().map(|i| (i.id, i)).collect();
    let mut last = base.points.iter().map(|point| point.id).max().unwrap_or(0);
    let before = base.points.len();
    for point in &found.model.points {
        let is_new = point
            .track
            .iter()
            .any(|(image, _)| images.contains_key(image));
        if !is_new || point.track.len() < 2 {
            continue;
        }
        last += 1;
        let mut track = Vec::new();
        for (image, feature) in &point.track {
            if let Some(&(id, index)) = images.get(image) {
                if let Some(observation) =
                    base.images[index].observations.get_mut(*feature as usize)
                {
                    observation.1 = last;
                    track.push((id, *feature));
                }
            } else if let (Some(&index), Some(image)) = (found.old.get(image), pixels.get(image))
                && let Some((pixel, _)) = image.observations.get(*feature as usize)
            {
                let old = &mut base.images[index];
                track.push((old.id, old.observations.len() as u32));
                old.observations.push((*pixel, last));
            }
        }
        base.points.push(Point {
            id: last,
            track,
            ..point.clone()
        });
    }
    base.images.sort_by(|a, b| a.name.cmp(&b.name));
    base.points.len() - before
}

/// Appends the cameras of new photos that no old photo has. Returns ids in the new capture by ids of the tool.
fn append_cameras(base: &mut Model, found: &Found, new: &[&Image]) -> HashMap<u32, u32> {
    let mut ids = found.cameras.clone();
    let used: HashSet<u32> = new.iter().map(|image| image.camera).collect();
    let mut last = base
        .cameras
        .iter()
        .map(|camera| camera.id)
        .max()
        .unwrap_or(0);
    let own = found
        .model
        .cameras
        .iter()
        .filter(|camera| used.contains(&camera.id));
    for camera in own {
        ids.entry(camera.id).or_insert_with(|| {
            last += 1;
            let mut camera = camera.clone();
            camera.id = last;
            base.cameras.push(camera);
            last
        });
    }
    ids
}
