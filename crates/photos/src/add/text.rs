//! COLMAP models of either format with all observations, and with the numbers of the file.

use crate::model::{Image, Model, NO_POINT, Point};
use dapple_base::{Result, bounded};
use dapple_scene::Pose;
use dapple_scene::colmap::parse_cameras_txt;
use glam::{DQuat, DVec2, DVec3};
use std::path::Path;
use std::str::FromStr;

/// Reads the model in a folder: the binary files, else the text files. `None` for files in another layout or with
/// records that only `dapple_scene` reads.
pub fn read(folder: &Path) -> Option<Model> {
    let has = |name: &str| folder.join(name).is_file();
    match has("cameras.bin") && has("images.bin") {
        true => Model::read_exact(folder).ok(),
        false => read_text(folder).ok().flatten(),
    }
}

fn read_text(folder: &Path) -> Result<Option<Model>> {
    let place = |name: &str| folder.join(name);
    let text = |name: &str| {
        bounded::read_text("cannot read the model", &place(name), bounded::MODEL_BYTES)
    };
    let cameras = place("cameras.txt");
    let bytes = bounded::read("cannot read the model", &cameras, bounded::MODEL_BYTES)?;
    let cameras = parse_cameras_txt(&bytes, &cameras.display().to_string())?;
    let (images, points) = (images(&text("images.txt")?), points(&text("points3D.txt")?));
    Ok(images.zip(points).map(|(images, points)| Model {
        cameras,
        images,
        points,
    }))
}

/// Words of a line.
struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl Words<'_> {
    fn next<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    fn vector(&mut self) -> Option<DVec3> {
        Some(DVec3::new(self.next()?, self.next()?, self.next()?)).filter(|v| v.is_finite())
    }

    /// Reads the rest of the line as pairs of this many words.
    fn rest<T>(mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut all = Vec::new();
        while self.0.clone().next().is_some() {
            all.push(one(&mut self)?);
        }
        Some(all)
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Parses `images.txt`: two lines for each image, of which the second may be empty.
fn images(text: &str) -> Option<Vec<Image>> {
    let mut lines = text.lines().filter(|line| !is_comment(line));
    let mut images = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        let mut words = Words(line.split_ascii_whitespace());
        let id = words.next()?;
        let [w, x, y, z] = [words.next()?, words.next()?, words.next()?, words.next()?];
        let translation = words.vector()?;
        let camera = words.next()?;
        // A name may have spaces.
        let name = line.trim_start().splitn(10, ' ').nth(9)?.trim_end();
        let rotation = DQuat::from_xyzw(x, y, z, w);
        let observed = Words(lines.next().unwrap_or_default().split_ascii_whitespace());
        let observations = observed.rest(|words| {
            let pixel = DVec2::new(words.next()?, words.next()?);
            let point: i64 = words.next()?;
            Some((pixel, u64::try_from(point).unwrap_or(NO_POINT)))
        })?;
        images.push(Image {
            id,
            name: name.to_owned(),
            camera,
            pose: Pose {
                rotation: Some(rotation).filter(|q| q.is_finite())?,
                translation,
            },
            observations,
        });
    }
    Some(images)
}

fn points(text: &str) -> Option<Vec<Point>> {
    let lines = text
        .lines()
        .filter(|line| !is_comment(line) && !line.trim().is_empty());
    let point = |line: &str| {
        let mut words = Words(line.split_ascii_whitespace());
        Some(Point {
            id: words.next()?,
            position: words.vector()?,
            rgb: [words.next()?, words.next()?, words.next()?],
            error: words.next()?,
            track: words.rest(|words| Some((words.next()?, words.next()?)))?,
        })
    };
    lines.map(point).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn text_models_keep_every_number() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "cameras.txt",
            "# comment\n3 PINHOLE 100 80 90.25 91 50 40\n",
        );
        let first = "7 0.7125 0.1 -0.2 0.6 1.5 -2 3e-1 3 a b.jpg\n10.5 20.25 4 1 2 -1\n";
        write(
            "images.txt",
            &format!("# comment\n{first}8 1 0 0 0 0 0 0 3 c.jpg\n\n"),
        );
        write("points3D.txt", "4 1 2 3.5 10 20 30 0.25 7 0 8 1\n");
        let model = read(folder.path()).unwrap();
        let image = &model.images[0];
        assert_eq!(
            (image.id, image.name.as_str(), image.camera),
            (7, "a b.jpg", 3)
        );
        assert_eq!(
            image.pose.rotation,
            DQuat::from_xyzw(0.1, -0.2, 0.6, 0.7125)
        );
        assert_eq!(image.pose.translation, DVec3::new(1.5, -2.0, 0.3));
        assert_eq!(image.observations[0], (DVec2::new(10.5, 20.25), 4));
        assert_eq!(image.observations[1].1, NO_POINT);
        assert!(model.images[1].observations.is_empty());
        assert_eq!(model.points[0].track, [(7, 0), (8, 1)]);
        assert_eq!(model.cameras[0].parameters[0], 90.25);
        // The binary files hold the same.
        let binary = tempfile::tempdir().unwrap();
        model.write(binary.path()).unwrap();
        assert_eq!(read(binary.path()).unwrap(), model);
        write("images.txt", "7 1 0\n");
        assert!(read(folder.path()).is_none());
    }
}
