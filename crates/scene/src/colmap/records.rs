//! Records of a model's files.

use crate::{Error, Point, Pose, Result, Tracks};
use glam::DVec3;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// A registered image.
#[derive(Debug, Clone, PartialEq)]
pub struct ColmapImage {
    /// Id of the image in the model.
    pub id: u32,
    /// Path of the photo relative to the image folder; one character per byte if it is not UTF-8.
    pub name: String,
    /// Bytes of the name if they are not UTF-8: a file name in another code page.
    pub name_bytes: Option<Vec<u8>>,
    /// Id of the image's camera.
    pub camera_id: u32,
    /// Pose of the image.
    pub camera_from_world: Pose,
}

/// Sparse points with finite positions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColmapPoints {
    /// Points in file order.
    pub points: Vec<Point>,
    /// Rounding remainder of each position, see [`crate::Capture::remainders`].
    pub remainders: Vec<[f32; 3]>,
    /// Images that observe each point, by their ids.
    pub tracks: Tracks,
    /// Number of points dropped because their position is NaN or infinite.
    pub dropped: usize,
}

/// Builds a pose from the file's numbers, checked. `what` names the image.
fn checked_pose(quat: [f64; 4], translation: [f64; 3], what: &str) -> Result<Pose> {
    let finite = quat.iter().chain(&translation).all(|v| v.is_finite());
    if !finite {
        return Err(
            Error::input(format!("the pose of {what} has a NaN or infinite number"))
                .hint("run COLMAP's mapper again, or delete the image from the model"),
        );
    }
    let norm = quat.iter().map(|q| q * q).sum::<f64>().sqrt();
    if !(1e-12..1e12).contains(&norm) {
        return Err(Error::input(format!(
            "the rotation of {what} is a quaternion of length {norm:e}, which is no rotation"
        ))
        .hint("run COLMAP's mapper again, or delete the image from the model"));
    }
    Ok(Pose::from_wxyz(
        quat.map(|q| q / norm),
        DVec3::from(translation),
    ))
}

/// Name of an image in a file.
pub(super) struct ImageName<'a> {
    pub(super) text: Cow<'a, str>,
    /// Bytes of the name if they are not UTF-8.
    pub(super) bytes: Option<Vec<u8>>,
}

impl<'a> ImageName<'a> {
    /// Builds a name. `bytes` are its bytes in a file that is not UTF-8, `text` is these bytes as characters.
    pub(super) fn new(text: Cow<'a, str>, bytes: Option<Vec<u8>>) -> Self {
        match bytes.map(String::from_utf8) {
            None => Self { text, bytes: None },
            Some(Ok(name)) => Self {
                text: Cow::Owned(name),
                bytes: None,
            },
            Some(Err(error)) => Self {
                text,
                bytes: Some(error.into_bytes()),
            },
        }
    }
}

impl fmt::Display for ImageName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Images of a file during reading: poses checked, no id and no name twice.
#[derive(Default)]
pub(super) struct Images<'a> {
    pub(super) list: Vec<ColmapImage>,
    pub(super) ids: HashSet<u32>,
    pub(super) names: HashSet<Cow<'a, str>>,
}

impl<'a> Images<'a> {
    pub(super) fn push(
        &mut self,
        id: u32,
        name: ImageName<'a>,
        camera_id: u32,
        (quat, translation): ([f64; 4], [f64; 3]),
    ) -> Result<()> {
        let what = format!("image \"{name}\"");
        unique(&mut self.ids, id, &format!("image id {id}"))?;
        unique(&mut self.names, name.text.clone(), &what)?;
        self.list.push(ColmapImage {
            id,
            name: name.text.into_owned(),
            name_bytes: name.bytes,
            camera_id,
            camera_from_world: checked_pose(quat, translation, &what)?,
        });
        Ok(())
    }
}

/// Refuses an id or a name that appears twice.
pub(super) fn unique<T: std::hash::Hash + Eq>(
    seen: &mut HashSet<T>,
    key: T,
    what: &str,
) -> Result<()> {
    if seen.insert(key) {
        Ok(())
    } else {
        Err(Error::input(format!("{what} appears twice"))
            .hint("the file is damaged or two models were joined by hand: export it again"))
    }
}
