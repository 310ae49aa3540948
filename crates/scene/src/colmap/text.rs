//! The text files: `#` comments, fields separated by spaces.

use super::model::by_name;
use super::{ColmapCamera, ColmapImage, ColmapPoints, Images, unique};
use crate::{Error, Result};
use std::collections::HashSet;
use std::str::FromStr;

/// A line and where it stands.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    number: usize,
    file: &'a str,
}

impl<'a> Line<'a> {
    fn place(&self) -> String {
        format!("{}, line {}", self.file, self.number)
    }

    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::input(what).at(self.place()).hint(
            "the file is damaged or not from COLMAP: copy it again, or export the model again",
        )
    }

    /// The next field of an iterator over this line as a number.
    fn number<T: FromStr>(
        &self,
        fields: &mut impl Iterator<Item = &'a str>,
        what: &str,
    ) -> Result<T> {
        let Some(field) = fields.next() else {
            return Err(self.wrong(format!("{what} is missing")));
        };
        field
            .parse()
            .map_err(|_| self.wrong(format!("{what} is \"{}\", not a number", shorten(field))))
    }

    fn numbers<const N: usize>(
        &self,
        fields: &mut impl Iterator<Item = &'a str>,
        what: &str,
    ) -> Result<[f64; N]> {
        let mut out = [0.0; N];
        for value in &mut out {
            *value = self.number(fields, what)?;
        }
        Ok(out)
    }
}

fn shorten(field: &str) -> String {
    field.chars().take(40).collect()
}

/// All lines of a file, without their ends.
fn lines<'a>(bytes: &'a [u8], file: &'a str) -> Result<impl Iterator<Item = Line<'a>>> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let number = 1 + bytes[..e.valid_up_to()]
            .iter()
            .filter(|&&b| b == b'\n')
            .count();
        Error::input("the file is not text (UTF-8)")
            .at(format!("{file}, line {number}"))
            .hint("if it is a binary model, name it .bin; else export the model again")
    })?;
    Ok(text.lines().enumerate().map(move |(i, text)| Line {
        text: text.trim(),
        number: i + 1,
        file,
    }))
}

fn is_record(line: &Line<'_>) -> bool {
    !line.text.is_empty() && !line.text.starts_with('#')
}

/// The number in the comment `# Number of images: 16, mean ...` (or cameras, or points).
pub(super) fn announced_count(bytes: &[u8]) -> Option<usize> {
    // The comment stands at the head, in the first few lines.
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]);
    let rest = head.lines().find_map(|l| l.strip_prefix("# Number of "))?;
    let number = rest.split_once(':')?.1.split(',').next()?;
    number.trim().parse().ok()
}

/// Parses `cameras.txt`. `file` is named in errors.
pub fn parse_cameras_txt(bytes: &[u8], file: &str) -> Result<Vec<ColmapCamera>> {
    let mut cameras = Vec::new();
    let mut seen = HashSet::new();
    for line in lines(bytes, file)?.filter(is_record) {
        let mut fields = line.text.split_whitespace();
        let id = line.number(&mut fields, "the camera id")?;
        let name = fields.next().unwrap_or_default();
        let Some(model) = by_name(name) else {
            return Err(Error::unsupported(format!(
                "camera {id} has the unknown camera model \"{}\"",
                shorten(name)
            ))
            .at(line.place())
            .hint("undistort the photos first: `colmap image_undistorter`, then load its output"));
        };
        let width = line.number(&mut fields, "the width")?;
        let height = line.number(&mut fields, "the height")?;
        let parameters: Vec<f64> = (0..model.parameter_count)
            .map(|_| line.number(&mut fields, "a camera parameter"))
            .collect::<Result<_>>()?;
        if fields.next().is_some() {
            return Err(line.wrong(format!(
                "{name} has {} parameters, this line has more",
                model.parameter_count
            )));
        }
        unique(&mut seen, id, &format!("camera id {id}")).map_err(|e| e.at(line.place()))?;
        cameras.push(ColmapCamera {
            id,
            model,
            width,
            height,
            parameters,
        });
    }
    Ok(cameras)
}

/// Parses `images.txt`: two lines an image, the second with its observations (skipped, may be
/// empty). `file` is named in errors.
pub fn parse_images_txt(bytes: &[u8], file: &str) -> Result<Vec<ColmapImage>> {
    let mut images = Images::default();
    let mut lines = lines(bytes, file)?;
    while let Some(line) = lines.find(is_record) {
        let mut fields = line.text.split_whitespace();
        let id: u32 = line.number(&mut fields, "the image id")?;
        let rotation = line.numbers(&mut fields, "the rotation")?;
        let translation = line.numbers(&mut fields, "the translation")?;
        let camera_id = line.number(&mut fields, "the camera id")?;
        // The name is all that remains: it may hold spaces.
        let name = fields
            .next()
            .and_then(|first| {
                let start = first.as_ptr() as usize - line.text.as_ptr() as usize;
                line.text.get(start..)
            })
            .ok_or_else(|| line.wrong(format!("image {id} has no name")))?;
        let observations = lines.next();
        let count = observations.map_or(0, |l| l.text.split_whitespace().count());
        if let Some(observations) = observations.filter(|_| count % 3 != 0) {
            return Err(observations.wrong(format!(
                "the observations of image \"{name}\" are not triples: {count} numbers"
            )));
        }
        images
            .push(id, name, camera_id, (rotation, translation))
            .map_err(|e| e.at(line.place()))?;
    }
    Ok(images.list)
}

/// Parses `points3D.txt`. `file` is named in errors.
pub fn parse_points_txt(bytes: &[u8], file: &str) -> Result<ColmapPoints> {
    let mut out = ColmapPoints::default();
    for line in lines(bytes, file)?.filter(is_record) {
        let mut fields = line.text.split_whitespace();
        line.number::<u64>(&mut fields, "the point id")?;
        let position = line.numbers::<3>(&mut fields, "the position")?;
        let mut rgb = [0; 3];
        for channel in &mut rgb {
            *channel = line.number(&mut fields, "the colour (0 to 255)")?;
        }
        let error = line.number(&mut fields, "the reprojection error")?;
        let mut images = Vec::new();
        // Image, and which of its observations.
        while let Some(image) = fields.next() {
            if fields.next().is_none() {
                return Err(line.wrong("the track is not made of pairs"));
            }
            images.push(line.number(&mut [image].into_iter(), "an image of the track")?);
        }
        out.push(position, rgb, error, images);
    }
    Ok(out)
}
