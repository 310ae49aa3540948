//! Identity of the capture of a run, so that the run does not resume with another capture.

use crate::TrainConfig;
use crate::config::Joined;
use crc32fast::Hasher;
use dapple_scene::{Camera, Dataset, Error, Lens, Result, ViewFiles, origin};
use glam::DVec3;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Identity of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureIdentity {
    /// Number of photos.
    pub photos: u64,
    /// CRC-32 of the names and sizes of the photos, in order.
    pub names_and_sizes: u32,
    /// CRC-32 of the poses, intrinsics and lenses as used in training, in order.
    pub cameras: u32,
    /// Identity of each photo, in order. Empty in checkpoints of earlier versions, and for captures that were not read
    /// from files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<ViewIdentity>,
    /// CRC-32 of the positions and colours of the sparse points. `None` in checkpoints of earlier versions, and for
    /// captures that were not read from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<u32>,
    /// The local origin that cameras, points and splats count from, [`Dataset::origin`], where it is not zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// A position, compared by its bits.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Origin(pub [f64; 3]);

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        self.0.map(f64::to_bits) == other.0.map(f64::to_bits)
    }
}

impl Eq for Origin {}

/// Identity of a photo and its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewIdentity {
    /// Name of the photo in the capture.
    pub name: String,
    /// CRC-32 of the pose, intrinsics and lens.
    pub camera: u32,
    /// Checksums of the photo's files.
    #[serde(flatten)]
    pub files: ViewFiles,
}

impl CaptureIdentity {
    /// Computes the identity of a loaded capture.
    pub fn from_dataset(dataset: &Dataset) -> Self {
        let (mut names, mut cameras) = (Hasher::new(), Hasher::new());
        for view in &dataset.views {
            names.update(&(view.name.len() as u64).to_le_bytes());
            names.update(view.name.as_bytes());
            for size in view.photo.size() {
                names.update(&size.to_le_bytes());
            }
            add_camera(&mut cameras, &view.camera);
        }
        let from_files = dataset.files.len() == dataset.views.len();
        let files = dataset.files.iter().filter(|_| from_files);
        let views = dataset.views.iter().zip(files).map(|(view, files)| {
            let mut camera = Hasher::new();
            add_camera(&mut camera, &view.camera);
            ViewIdentity {
                name: view.name.clone(),
                camera: camera.finalize(),
                files: *files,
            }
        });
        Self {
            photos: dataset.views.len() as u64,
            names_and_sizes: names.finalize(),
            cameras: cameras.finalize(),
            views: views.collect(),
            points: from_files.then(|| {
                let mut points = Hasher::new();
                for point in &dataset.points {
                    points.update(bytemuck::bytes_of(&point.position));
                    points.update(&point.rgb);
                }
                points.finalize()
            }),
            origin: (dataset.origin != DVec3::ZERO).then(|| Origin(dataset.origin.to_array())),
        }
    }

    /// Returns the local origin of cameras, points and splats. Zero if they are in the frame of the capture.
    pub fn origin(&self) -> DVec3 {
        self.origin.map_or(DVec3::ZERO, |origin| origin.0.into())
    }

    /// Checks that a run of this capture can resume with `other`.
    ///
    /// # Errors
    /// The captures differ. The message names the first photo, mask, depth image or camera that differs, if both sides
    /// have identities of single photos.
    pub fn check(&self, other: &Self) -> Result<()> {
        let each = match self.views.is_empty() || other.views.is_empty() {
            true => None,
            false => first_difference(&self.views, &other.views),
        };
        let differs = if self.origin != other.origin {
            let shown = |identity: &Self| origin::shown(identity.origin());
            format!(
                "its coordinates count from {}, not {}",
                shown(self),
                shown(other)
            )
        } else if let Some(differs) = each {
            differs
        } else if self.photos != other.photos {
            format!("of {} photos, not {}", self.photos, other.photos)
        } else if self.names_and_sizes != other.names_and_sizes {
            "of photos of other names or sizes".to_owned()
        } else if self.cameras != other.cameras {
            "of other camera poses, focal lengths or lenses".to_owned()
        } else if self.points.is_some() && other.points.is_some() && self.points != other.points {
            "of other sparse points".to_owned()
        } else {
            return Ok(());
        };
        Err(
            Error::input(format!("this run is of another capture: {differs}")).hint(
                "give the capture that the run began with, unchanged: `dapple train SCENE --resume OUT`",
            ),
        )
    }
}

impl CaptureIdentity {
    /// Checks that the next part of a run has the same capture. Photos may have another size, masks and depths another
    /// use: their sums are compared only if `before` and `now` read them in the same way.
    ///
    /// # Errors
    /// See [`Self::check`].
    pub(crate) fn check_content(
        &self,
        other: &Self,
        before: &TrainConfig,
        now: &TrainConfig,
    ) -> Result<()> {
        let comparison = Comparison::new(before, now);
        comparison.bare(self).check(&comparison.bare(other))
    }

    /// Compares with the capture of the next part of a run, as [`Self::check_content`] does. Returns the photos that
    /// joined, changed or left.
    ///
    /// # Errors
    /// Another capture: fewer than half of its photos are the same, or see [`Self::check`].
    pub(crate) fn joined(
        &self,
        other: &Self,
        before: &TrainConfig,
        now: &TrainConfig,
    ) -> Result<Joined> {
        let comparison = Comparison::new(before, now);
        let (then, now) = (comparison.bare(self), comparison.bare(other));
        let checked = then.check(&now);
        if checked.is_ok() || then.views.is_empty() || now.views.is_empty() {
            return checked.map(|()| Joined::default());
        }
        let by_name = |identity: &Self| -> BTreeMap<String, ViewIdentity> {
            let views = identity.views.iter();
            views
                .map(|view| (view.name.clone(), view.clone()))
                .collect()
        };
        let (old, new) = (by_name(&then), by_name(&now));
        let names = |all: &BTreeMap<String, ViewIdentity>, keep: &dyn Fn(&str) -> bool| {
            let names = all.keys().filter(|name| keep(name));
            names.cloned().collect::<Vec<_>>()
        };
        let is_changed = |name: &str| match (old.get(name), new.get(name)) {
            (Some(then), Some(now)) => difference(then, now).is_some(),
            _ => false,
        };
        let joined = Joined {
            new: names(&new, &|name| !old.contains_key(name)),
            changed: names(&new, &is_changed),
            removed: names(&old, &|name| !new.contains_key(name)),
            ..Joined::default()
        };
        let same = old.len() - joined.changed.len() - joined.removed.len();
        match 2 * same >= old.len() && then.origin == now.origin && !joined.is_empty() {
            true => Ok(joined),
            false => checked.map(|()| Joined::default()),
        }
    }
}

/// Kinds of content that two parts of a run read in the same way.
struct Comparison {
    has_size: bool,
    has_masks: bool,
    has_depths: bool,
}

impl Comparison {
    fn new(before: &TrainConfig, now: &TrainConfig) -> Self {
        let (a, b) = (&before.data, &now.data);
        Self {
            has_size: (a.downscale, a.max_resolution) == (b.downscale, b.max_resolution),
            has_masks: (a.mask_mode, a.invert_masks) == (b.mask_mode, b.invert_masks),
            has_depths: before.depth == now.depth,
        }
    }

    /// Returns an identity without content that is read in another way.
    fn bare(&self, identity: &CaptureIdentity) -> CaptureIdentity {
        let mut bare = identity.clone();
        if !self.has_size {
            // Of another size, a photo can come from another file.
            (bare.names_and_sizes, bare.cameras) = (0, 0);
        }
        for view in &mut bare.views {
            if !self.has_size {
                (view.camera, view.files.photo) = (0, None);
            }
            if !self.has_size || !self.has_masks {
                view.files.mask = None;
            }
            if !self.has_size || !self.has_depths {
                view.files.depth = None;
            }
        }
        bare
    }
}

/// Describes the first difference by the names of the photos, and counts the other photos with the same or another
/// difference. Both lists are sorted by name.
fn first_difference(then: &[ViewIdentity], now: &[ViewIdentity]) -> Option<String> {
    let by_name = |views: &[ViewIdentity]| -> BTreeMap<String, ViewIdentity> {
        let named = views.iter().map(|view| (view.name.clone(), view.clone()));
        named.collect()
    };
    let (then, now) = (by_name(then), by_name(now));
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let told = names.into_iter().filter_map(|name| {
        let name = &name[..];
        match (then.get(name), now.get(name)) {
            (Some(then), Some(now)) => difference(then, now),
            (Some(_), None) => Some(format!("its photo {name:?} is missing")),
            _ => Some(format!("the photo {name:?} is new")),
        }
    });
    let mut told: Vec<String> = told.collect();
    let more = told.len().checked_sub(1)?;
    let first = told.swap_remove(0);
    Some(match more {
        0 => first,
        n => format!("{first}, and {n} more photos differ"),
    })
}

/// Describes the difference between two identities of a photo.
fn difference(then: &ViewIdentity, now: &ViewIdentity) -> Option<String> {
    let name = &then.name;
    let files = [
        ("photo", then.files.photo, now.files.photo),
        ("mask of", then.files.mask, now.files.mask),
        ("depth image of", then.files.depth, now.files.depth),
    ];
    for (what, then, now) in files {
        let how = match (then, now) {
            (Some(then), Some(now)) if then != now => "has changed",
            (Some(_), None) => "is missing",
            (None, Some(_)) => "is new",
            _ => continue,
        };
        return Some(format!("the {what} {name:?} {how}"));
    }
    (then.camera != now.camera)
        .then(|| format!("the pose, focal length or lens of {name:?} has changed"))
}

fn add_camera(sum: &mut Hasher, camera: &Camera) {
    let pose = &camera.camera_from_world;
    let lens = [camera.fx, camera.fy, camera.cx, camera.cy];
    let (rotation, translation) = (pose.rotation.to_array(), pose.translation.to_array());
    for number in lens.iter().chain(&rotation).chain(&translation) {
        sum.update(&number.to_le_bytes());
    }
    // A pinhole adds no numbers, so that runs from before lenses were supported resume.
    let model = match camera.lens {
        Lens::Pinhole => String::new(),
        Lens::Fisheye(_) => "fisheye".to_owned(),
        lens => lens.model().0.to_lowercase().replace('_', " "),
    };
    sum.update(model.as_bytes());
    for coefficient in camera.lens.coefficients() {
        sum.update(&coefficient.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_scene::{FileSum, Photo, Pose, View};

    fn of(lens: Lens) -> CaptureIdentity {
        let view = View {
            name: "a.png".to_owned(),
            camera: Camera {
                lens,
                ..Camera::pinhole(4, 3, 5.0, Pose::IDENTITY)
            },
            source_model: String::new(),
            photo: Photo::from_rgb(4, 3, vec![0; 36]).into(),
            depth: None,
        };
        CaptureIdentity::from_dataset(&Dataset {
            views: vec![view],
            ..Dataset::default()
        })
    }

    #[test]
    fn another_lens_is_another_capture() {
        let lenses = [
            Lens::Pinhole,
            Lens::OpenCv([0.1, 0.2, 0.0, 0.0]),
            Lens::Fisheye([0.1, 0.2, 0.0, 0.0]),
            Lens::Fisheye([0.1, 0.3, 0.0, 0.0]),
        ];
        for a in lenses {
            for b in lenses {
                assert_eq!(of(a).check(&of(b)).is_ok(), a == b, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn another_origin_is_another_capture() {
        let far = |x: f64| {
            let dataset = Dataset {
                origin: DVec3::new(x, 0.0, 0.0),
                ..Dataset::default()
            };
            CaptureIdentity::from_dataset(&dataset)
        };
        // Checkpoints of earlier versions have no origin, which means zero.
        let json = serde_json::to_string(&far(0.0)).unwrap();
        assert!(!json.contains("origin"), "{json}");
        let again: CaptureIdentity =
            serde_json::from_str(&serde_json::to_string(&far(5e6)).unwrap()).unwrap();
        assert_eq!(again.origin(), DVec3::new(5e6, 0.0, 0.0));
        again.check(&far(5e6)).unwrap();
        let error = far(0.0).check(&far(5e6)).unwrap_err();
        assert!(error.what().contains("5000000"), "{error}");
    }

    #[test]
    fn what_has_changed_is_named() {
        let sum = |crc| Some(FileSum { bytes: 9, crc });
        let mut then = of(Lens::Pinhole);
        then.views = (0..3)
            .map(|i| ViewIdentity {
                name: format!("{i}.png"),
                camera: 1,
                files: ViewFiles {
                    photo: sum(i),
                    mask: (i == 1).then_some(sum(7)).flatten(),
                    depth: None,
                },
            })
            .collect();
        then.points = Some(3);
        then.check(&then.clone()).unwrap();
        let told = |change: fn(&mut CaptureIdentity)| {
            let mut now = then.clone();
            change(&mut now);
            then.check(&now).unwrap_err().what().to_owned()
        };
        let all = |now: &mut CaptureIdentity| now.views.iter_mut().for_each(|v| v.camera = 2);
        for (said, words) in [
            (
                told(|now| now.views[2].files.photo = None),
                "photo \"2.png\" is missing",
            ),
            (
                told(|now| now.views[2].files.photo = now.views[0].files.photo),
                "photo \"2.png\" has changed",
            ),
            (
                told(|now| now.views[1].files.mask = None),
                "mask of \"1.png\" is missing",
            ),
            (
                told(|now| now.views[0].files.depth = now.views[0].files.photo),
                "depth image of \"0.png\" is new",
            ),
            (told(all), "lens of \"0.png\" has changed, and 2 more"),
            (
                told(|now| drop(now.views.pop())),
                "photo \"2.png\" is missing",
            ),
            (told(|now| now.points = Some(4)), "sparse points"),
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        // Checkpoints of earlier versions and captures in memory have nothing to compare.
        let mut bare = then.clone();
        (bare.views, bare.points) = (Vec::new(), None);
        bare.check(&then).unwrap();
        then.check(&bare).unwrap();
    }
}
