//! Cameras of the tool: those of the model, and those of new photos.
//!
//! A new photo of the same size, camera and focal length (EXIF) as old photos shares their intrinsics, which stay fixed.
//! If those have different intrinsics, as in captures with a camera for each photo, each new photo gets a camera that starts
//! from their median. Others get cameras as in a new capture.

use super::Photos;
use crate::model::Model;
use crate::photos::{CameraKey, Prepared, camera_key, groups};
use crate::tool::Group;
use dapple_base::{Error, Result};
use dapple_scene::colmap::ColmapCamera;
use std::collections::{BTreeMap, HashMap};

/// Relative difference of the focal lengths of cameras that are not the same.
const FOCAL_DIFFERENCE: f64 = 0.01;

/// Cameras of the tool.
pub struct Cameras {
    /// Cameras with their photos.
    pub groups: Vec<Group>,
    /// Id in the old model of the first cameras, in the order of the groups; the others are new.
    pub old: Vec<u32>,
}

/// Returns the cameras of the photos.
///
/// # Errors
/// Old photos of another size than their camera.
pub fn find(photos: &Photos<'_>, model: &Model, chosen: Option<&'static str>) -> Result<Cameras> {
    let camera_of: HashMap<u32, &ColmapCamera> = model
        .cameras
        .iter()
        .map(|camera| (camera.id, camera))
        .collect();
    let mut names: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut by_key: HashMap<CameraKey, BTreeMap<u32, usize>> = HashMap::new();
    for (photo, index) in photos.old() {
        let image = &model.images[index];
        let camera = camera_of.get(&image.camera).copied();
        check_size(photo, camera)?;
        names
            .entry(image.camera)
            .or_default()
            .push(photo.name.clone());
        *by_key
            .entry(key(photo))
            .or_default()
            .entry(image.camera)
            .or_default() += 1;
    }
    let (mut own, mut similar) = (Vec::new(), Vec::new());
    for photo in photos.added() {
        let known = by_key.get(&key(photo));
        let Some(known) = known else {
            own.push(photo.clone());
            continue;
        };
        match shared(known, &camera_of) {
            Some(id) => names.entry(id).or_default().push(photo.name.clone()),
            None => similar.extend(median(known, &camera_of).map(|camera| Group {
                names: vec![photo.name.clone()],
                model: camera.model.name,
                parameters: camera.parameters.clone(),
            })),
        }
    }
    let mut cameras = Cameras {
        groups: Vec::new(),
        old: Vec::new(),
    };
    for (id, names) in names {
        if let Some(camera) = camera_of.get(&id) {
            cameras.old.push(id);
            cameras.groups.push(Group {
                names,
                model: camera.model.name,
                parameters: camera.parameters.clone(),
            });
        }
    }
    cameras.groups.extend(similar);
    cameras.groups.extend(groups(&own, chosen));
    Ok(cameras)
}

/// Returns the key of the camera of a photo, without its folder.
fn key(photo: &Prepared) -> CameraKey {
    let (_, width, height, camera, focal) = camera_key(photo);
    (String::new(), width, height, camera, focal)
}

/// Returns the camera that most photos of a key have; `None` if their cameras differ.
fn shared(known: &BTreeMap<u32, usize>, camera_of: &HashMap<u32, &ColmapCamera>) -> Option<u32> {
    let (&most, _) = known
        .iter()
        .max_by_key(|(id, count)| (**count, std::cmp::Reverse(**id)))?;
    let first = camera_of.get(&most)?;
    let is_same = |id: &u32| {
        camera_of.get(id).is_some_and(|other| {
            let ratio = focal(other) / focal(first);
            other.model == first.model && (ratio - 1.0).abs() < FOCAL_DIFFERENCE
        })
    };
    known.keys().all(is_same).then_some(most)
}

/// Returns the camera with the median focal length.
fn median<'a>(
    known: &BTreeMap<u32, usize>,
    camera_of: &HashMap<u32, &'a ColmapCamera>,
) -> Option<&'a ColmapCamera> {
    let mut cameras: Vec<&ColmapCamera> = known
        .keys()
        .filter_map(|id| camera_of.get(id).copied())
        .collect();
    cameras.sort_by(|a, b| focal(a).total_cmp(&focal(b)).then(a.id.cmp(&b.id)));
    cameras.get(cameras.len() / 2).copied()
}

fn focal(camera: &ColmapCamera) -> f64 {
    camera.parameters.first().copied().unwrap_or(0.0)
}

fn check_size(photo: &Prepared, camera: Option<&ColmapCamera>) -> Result<()> {
    let size = (u64::from(photo.width), u64::from(photo.height));
    match camera {
        Some(camera) if (camera.width, camera.height) != size => Err(Error::input(format!(
            "the photo \"{}\" has {}x{} pixels, and its camera has {}x{}",
            photo.name, size.0, size.1, camera.width, camera.height
        ))
        .at_path(&photo.path)
        .hint("add photos to a capture whose photos have the sizes of its cameras")),
        Some(_) => Ok(()),
        None => Err(Error::input(format!(
            "the photo \"{}\" refers to a camera that does not exist",
            photo.name
        ))
        .at_path(&photo.path)
        .hint("cameras and images must come from the same model")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use dapple_scene::colmap::MODELS;

    #[test]
    fn a_camera_is_shared_only_if_all_cameras_of_the_key_agree() {
        let camera = |id: u32, focal: f64| ColmapCamera {
            id,
            model: &MODELS[0],
            width: 100,
            height: 80,
            parameters: vec![focal, 50.0, 40.0],
        };
        let cameras = [camera(1, 90.0), camera(2, 90.5), camera(3, 99.0)];
        let camera_of = cameras.iter().map(|camera| (camera.id, camera)).collect();
        let known = |counts: &[(u32, usize)]| shared(&counts.iter().copied().collect(), &camera_of);
        assert_eq!(known(&[(1, 2), (2, 5)]), Some(2));
        assert_eq!(known(&[(1, 2), (2, 2)]), Some(1));
        assert_eq!(known(&[(1, 2), (3, 5)]), None);
        assert_eq!(known(&[]), None);
        let all = [(1, 1), (2, 1), (3, 1)].into_iter().collect();
        assert_eq!(median(&all, &camera_of).map(|camera| camera.id), Some(2));
    }
}
