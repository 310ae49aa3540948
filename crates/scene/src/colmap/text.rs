//! Text COLMAP files: `#` comments, fields separated by spaces; other writers use commas and tabs.
//!
//! 1. Byte order marks are removed, UTF-16 is decoded. Text that is not UTF-8 is read byte by byte, so that names of
//!    photos can be matched with the bytes of files.
//! 2. An image has two lines. Some writers omit the second, with its observations. A line that begins like an image and
//!    ends in a name is the next image.
//! 3. Colours of points are bytes. If some have a decimal point and none exceeds 1, white is 1.

use super::model::{ColmapCamera, by_name, parameter_names};
use super::records::{ColmapImage, ColmapPoints, ImageName, Images, unique};
use crate::{Error, Result, text};
use std::borrow::Cow;
use std::collections::HashSet;
use std::str::FromStr;

/// A line and its number.
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

    /// Parses the next field of an iterator over this line as a number.
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

/// Text of a file.
struct Text<'a> {
    all: Cow<'a, str>,
    /// True if the text is not UTF-8: each character is a byte.
    is_bytes: bool,
}

impl<'a> Text<'a> {
    fn decode(bytes: &'a [u8], file: &str) -> Result<Self> {
        let bytes = text::to_utf8(bytes);
        let at = match std::str::from_utf8(&bytes) {
            Ok(_) => None,
            Err(e) => Some(e.valid_up_to()),
        };
        if let Some(at) = at
            && bytes.contains(&0)
        {
            let number = 1 + bytes[..at].iter().filter(|&&b| b == b'\n').count();
            return Err(Error::input("the file is not text")
                .at(format!("{file}, line {number}"))
                .hint("the file is damaged: copy it again, or export the model again"));
        }
        let all = match (at, bytes) {
            (None, Cow::Borrowed(bytes)) => String::from_utf8_lossy(bytes),
            (None, Cow::Owned(bytes)) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
            (Some(_), bytes) => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
        };
        Ok(Self {
            all,
            is_bytes: at.is_some(),
        })
    }

    /// Iterates over all lines, without their ends.
    fn lines<'b>(&'b self, file: &'b str) -> impl Iterator<Item = Line<'b>> {
        // Line ends of Windows are trimmed; those of the old Mac are only a carriage return.
        let end = if self.all.contains('\n') { '\n' } else { '\r' };
        let lines = self.all.split(end);
        lines.enumerate().map(move |(i, text)| Line {
            text: text.trim(),
            number: i + 1,
            file,
        })
    }
}

/// Returns true if a file holds text. A binary file begins with a count of eight bytes, of which some are zero. If the
/// count is damaged, the name decides: `named_binary` is true for a file with the name of a binary file, whose first
/// records have zero bytes too.
pub(super) fn is_text(bytes: &[u8], named_binary: bool) -> bool {
    if text::is_utf16(bytes) {
        return true;
    }
    let read = if named_binary { RECORDS } else { 8 };
    let head = &bytes[..bytes.len().min(read)];
    !head.is_empty() && !head.contains(&0)
}

/// Bytes of a binary file that hold a zero byte, even if the count is damaged: several records.
const RECORDS: usize = 1 << 12;

/// Splits a line into fields: separated by spaces, tabs, commas and spaces, or, if there is no space, by commas. A
/// comma inside a field remains, because it may be a decimal comma.
fn fields(text: &str) -> impl Iterator<Item = &str> {
    let has_spaces = text.contains(char::is_whitespace);
    let fields = text.split(move |c: char| c.is_whitespace() || (c == ',' && !has_spaces));
    let bare = fields.map(|field| field.strip_suffix(',').unwrap_or(field));
    bare.filter(|field| !field.is_empty())
}

fn is_record(line: &Line<'_>) -> bool {
    !line.text.is_empty() && !line.text.starts_with('#')
}

/// Reads the number in the comment `# Number of images: 16, mean ...` (or cameras, or points).
pub(super) fn announced_count(bytes: &[u8]) -> Option<usize> {
    // The comment is in the first few lines of the file.
    let head = text::to_utf8(&bytes[..bytes.len().min(1024)]);
    let head = String::from_utf8_lossy(&head);
    let rest = head.lines().find_map(|l| l.strip_prefix("# Number of "))?;
    let number = rest.split_once(':')?.1.split(',').next()?;
    number.trim().parse().ok()
}

/// Parses `cameras.txt`. Errors name `file`.
pub fn parse_cameras_txt(bytes: &[u8], file: &str) -> Result<Vec<ColmapCamera>> {
    let mut cameras = Vec::new();
    let mut seen = HashSet::new();
    let text = Text::decode(bytes, file)?;
    for line in text.lines(file).filter(is_record) {
        let mut fields = fields(line.text);
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
        let mut parameters = Vec::new();
        while parameters.len() < model.parameter_count
            && let Some(field) = fields.next()
        {
            parameters.push(line.number(&mut [field].into_iter(), "a camera parameter")?);
        }
        let names = parameter_names(name);
        // OpenCV omits the last coefficients if they are zero.
        if name == "FULL_OPENCV" && matches!(parameters.len(), 8 | 9) {
            parameters.resize(model.parameter_count, 0.0);
        }
        if parameters.len() < model.parameter_count {
            return Err(Error::input(format!(
                "camera {id} has {} of the {} parameters of {name}, {} missing",
                parameters.len(),
                model.parameter_count,
                missing(&names[parameters.len()..])
            ))
            .at(line.place())
            .hint(format!("{name} has {}", names.join(", "))));
        }
        let further = fields.count();
        if further > 0 {
            return Err(line
                .wrong(format!(
                    "{name} has {} parameters, this line has {further} more",
                    model.parameter_count
                ))
                .hint(format!(
                    "{name} has {}: name the model that the parameters belong to, OPENCV for k1, k2, p1, p2",
                    names.join(", ")
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

/// Joins names with a verb: "k3 is", "k3, k4 are".
fn missing(names: &[&str]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

/// Parsed line of an image.
struct ImageLine<'a> {
    id: u32,
    pose: ([f64; 4], [f64; 3]),
    camera_id: u32,
    name: &'a str,
}

impl<'a> ImageLine<'a> {
    fn read(line: &Line<'a>) -> Result<Self> {
        let mut fields = fields(line.text);
        let id: u32 = line.number(&mut fields, "the image id")?;
        let rotation = line.numbers(&mut fields, "the rotation")?;
        let translation = line.numbers(&mut fields, "the translation")?;
        let camera_id = line.number(&mut fields, "the camera id")?;
        // The remaining text is the name: it may contain spaces.
        let name = fields
            .next()
            .and_then(|first| {
                let start = first.as_ptr() as usize - line.text.as_ptr() as usize;
                line.text.get(start..)
            })
            .ok_or_else(|| line.wrong(format!("image {id} has no name")))?;
        Ok(Self {
            id,
            pose: (rotation, translation),
            camera_id,
            name: unquoted(name),
        })
    }

    /// Parses a line as an image if it cannot hold observations, which consist of numbers in triples. `count` is the
    /// number of its fields.
    fn beyond_doubt(line: &Line<'a>, count: usize) -> Option<Self> {
        let name = fields(line.text).nth(9)?;
        if name.parse::<f64>().is_ok() && count.is_multiple_of(3) {
            return None;
        }
        Self::read(line).ok()
    }
}

/// Removes the quotes that spreadsheets put around a name.
fn unquoted(name: &str) -> &str {
    let inner = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    inner.filter(|inner| !inner.is_empty()).unwrap_or(name)
}

/// Parses `images.txt`: two lines per image, the second with its observations (skipped, may be empty or omitted).
/// Errors name `file`.
pub fn parse_images_txt(bytes: &[u8], file: &str) -> Result<Vec<ColmapImage>> {
    read_images_txt(bytes, file, &mut |_, _| {})
}

/// Parses like [`parse_images_txt`]; `observed` receives each image's index and its line of observations.
pub(super) fn read_images_txt(
    bytes: &[u8],
    file: &str,
    observed: &mut dyn FnMut(usize, &str),
) -> Result<Vec<ColmapImage>> {
    let text = Text::decode(bytes, file)?;
    let mut images = Images::default();
    let mut lines = text.lines(file).filter(|line| !line.text.starts_with('#'));
    let mut next = lines.find(is_record);
    while let Some(line) = next {
        let ImageLine {
            id,
            pose,
            camera_id,
            name,
        } = ImageLine::read(&line)?;
        let raw = text
            .is_bytes
            .then(|| name.chars().map(|c| c as u8).collect());
        images
            .push(
                id,
                ImageName::new(Cow::Borrowed(name), raw),
                camera_id,
                pose,
            )
            .map_err(|e| e.at(line.place()))?;
        let observations = lines.next();
        let count = observations.map_or(0, |l| fields(l.text).count());
        if let Some(after) = observations.filter(|_| count > 0) {
            if ImageLine::beyond_doubt(&after, count).is_some() {
                next = Some(after);
                continue;
            }
            if count % 3 != 0 {
                return Err(after.wrong(format!(
                    "the observations of image \"{name}\" are not triples: {count} numbers"
                )));
            }
            observed(images.list.len() - 1, after.text);
        }
        next = lines.find(is_record);
    }
    Ok(images.list)
}

/// Reads the observations of a line, at most `count`, evenly spread: pixel and point.
pub(super) fn observations(text: &str, count: usize) -> Vec<([f64; 2], u64)> {
    let step = (fields(text).count() / 3).div_ceil(count.max(1)).max(1);
    let mut fields = fields(text);
    let mut next = || Some([fields.next()?, fields.next()?, fields.next()?]);
    let triples = std::iter::from_fn(&mut next).step_by(step);
    let read =
        |[x, y, point]: [&str; 3]| Some(([x.parse().ok()?, y.parse().ok()?], point.parse().ok()?));
    triples.filter_map(read).collect()
}

/// Parses `points3D.txt`. Errors name `file`.
pub fn parse_points_txt(bytes: &[u8], file: &str) -> Result<ColmapPoints> {
    read_points_txt(bytes, file, &mut |_, _| {})
}

/// Parses like [`parse_points_txt`]; `found` receives each point's id and its index among the stored points.
pub(super) fn read_points_txt(
    bytes: &[u8],
    file: &str,
    found: &mut dyn FnMut(u64, usize),
) -> Result<ColmapPoints> {
    let text = Text::decode(bytes, file)?;
    let mut out = ColmapPoints::default();
    let mut colours = Colours::default();
    for line in text.lines(file).filter(is_record) {
        let mut fields = fields(line.text);
        let id = line.number::<u64>(&mut fields, "the point id")?;
        let position = line.numbers::<3>(&mut fields, "the position")?;
        let rgb = colours.read(&line, &mut fields)?;
        let error = line.number(&mut fields, "the reprojection error")?;
        let mut images = Vec::new();
        // Image, and index of its observation.
        while let Some(image) = fields.next() {
            if fields.next().is_none() {
                return Err(line.wrong("the track is not made of pairs"));
            }
            images.push(line.number(&mut [image].into_iter(), "an image of the track")?);
        }
        let index = out.points.len();
        if out.push(position, rgb.map(|c| c.round() as u8), error, images) {
            colours.keep(rgb);
            found(id, index);
        }
    }
    colours.finish(&mut out);
    Ok(out)
}

/// Colours of points during reading; the numbers are stored if some are not bytes.
#[derive(Default)]
struct Colours {
    /// True if some numbers have a decimal point.
    are_floats: bool,
    largest: f64,
    all: Vec<[f32; 3]>,
}

impl Colours {
    fn read<'a>(
        &mut self,
        line: &Line<'a>,
        fields: &mut impl Iterator<Item = &'a str>,
    ) -> Result<[f64; 3]> {
        let mut rgb = [0.0; 3];
        for channel in &mut rgb {
            let field = fields.next().unwrap_or_default();
            let float = || {
                field
                    .parse::<f64>()
                    .ok()
                    .filter(|value| (0.0..=255.0).contains(value))
            };
            *channel = match field.parse::<u8>() {
                Ok(byte) => f64::from(byte),
                Err(_) => match float() {
                    Some(value) if !is_integer(field) => {
                        self.are_floats = true;
                        value
                    }
                    _ => {
                        let field = Some(field).filter(|field| !field.is_empty());
                        line.number::<u8>(&mut field.into_iter(), "the colour (0 to 255)")?
                            .into()
                    }
                },
            };
            self.largest = self.largest.max(*channel);
        }
        Ok(rgb)
    }

    fn keep(&mut self, rgb: [f64; 3]) {
        self.all.push(rgb.map(|c| c as f32));
    }

    fn finish(self, out: &mut ColmapPoints) {
        if self.are_floats && self.largest <= 1.0 {
            for (point, rgb) in out.points.iter_mut().zip(self.all) {
                point.rgb = rgb.map(|c| (c * 255.0).round() as u8);
            }
        }
    }
}

fn is_integer(field: &str) -> bool {
    field.bytes().all(|b| b.is_ascii_digit())
}
