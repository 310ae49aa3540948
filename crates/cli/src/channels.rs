//! Channels of a render (colours, alpha, depth, normals, counts) and their files.
//!
//! | channel | EXR (32-bit floats) | PNG |
//! |---|---|---|
//! | rgb | R, G, B as they are | 8 bits, clamped |
//! | alpha | A, 0 to 1 | 16 bits, 65535 = opaque |
//! | depth, median-depth, surface-depth | Z, world units along +z, 0 = nothing | colours; or 16 bits, steps of `unit` world units |
//! | normals, surface-normal | X, Y, Z in camera coordinates, zero = nothing | 8 bits: red right, green up, blue towards the camera |
//! | count | N, Gaussians that the pixel blends | colours; or 16 bits, the number itself |
//!
//! Colour maps cover one range for all pictures. A depth PNG of 16 bits saturates at 65535 steps, and [`Unfit`] counts
//! the pixels that do not fit; `dapple train --depths` reads it.

mod unfit;

pub use unfit::Unfit;

use crate::colormap::{Colormap, Colours, range};
use crate::pictures::Picture;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use dapple::contract::channel::{Channel, Values};
use dapple::contract::{Engine, RenderSettings, Rendered, depth};
use dapple::scene::atomic::write_atomically;
use dapple::scene::exr_file::FloatImage;
use dapple::scene::provenance::{PngPixels, png_bytes};
use dapple::scene::{Camera, Result};
use std::path::Path;

/// Returns the parser of a channel's name: those that need no photo.
pub fn parser() -> ValueParser {
    let channels = Channel::ALL.into_iter().filter(|c| !c.needs_photo());
    let value = |channel: Channel| PossibleValue::new(channel.name()).help(channel.about());
    let parser = PossibleValuesParser::new(channels.map(value));
    let found = |name: String| Channel::ALL.into_iter().find(|c| c.name() == name);
    parser
        .map(move |name| found(name).unwrap_or_default())
        .into()
}

/// Returns true if colour maps show the channel's numbers.
pub fn takes_colours(channel: Channel) -> bool {
    !matches!(channel.values(), Values::Colours | Values::Normals)
}

/// Picture formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// 8 or 16 bits per channel
    Png,
    /// OpenEXR, 32-bit floats
    Exr,
}

impl FileFormat {
    /// Returns the extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Exr => "exr",
        }
    }

    /// Returns the format of a file name.
    pub fn from_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?;
        let is = |format: &Self| extension.eq_ignore_ascii_case(format.extension());
        [Self::Png, Self::Exr].into_iter().find(is)
    }
}

/// Output: a channel, its format and its scale.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Channel to write.
    pub channel: Channel,
    /// Format of the file.
    pub format: FileFormat,
    /// World units per step of a 16-bit depth PNG.
    pub unit: f64,
    /// Colour map in a PNG; without one, 16 bits.
    pub colours: Option<Colours>,
}

/// Most cameras to compute a range from.
const SAMPLED: usize = 8;

impl Output {
    /// Returns the pixels whose values a PNG of 16 bits does not hold.
    pub fn unfit(&self, values: &[f32]) -> Unfit {
        if self.format == FileFormat::Exr || self.colours.is_some() {
            return Unfit::default();
        }
        match self.channel.values() {
            Values::Depths => Unfit::of(values, self.unit),
            Values::Counts => Unfit::of(values, 1.0),
            _ => Unfit::default(),
        }
    }

    /// Returns the output in these colours, over the range of values in some of the cameras, and a sentence with the
    /// range.
    pub fn coloured<'a>(
        self,
        map: Colormap,
        engine: &mut dyn Engine,
        cameras: impl ExactSizeIterator<Item = &'a Camera>,
        settings: &RenderSettings,
    ) -> Result<(Self, String)> {
        let every = cameras.len().div_ceil(SAMPLED).max(1);
        let mut values = Vec::new();
        for camera in cameras.step_by(every) {
            values.extend(self.channel.render(engine, camera, settings)?.1);
        }
        let [mut low, mut high] = range(values);
        let unit = match self.channel.values() {
            Values::Counts => " Gaussians in a pixel",
            Values::Share => {
                (low, high) = (0.0, 1.0);
                " of a pixel covered"
            }
            _ => " world units away",
        };
        let colours = Some(Colours { map, low, high });
        let name = map.to_possible_value();
        let note = format!(
            "{}: colours from {low:.4} to {high:.4}{unit}, black where there is nothing (--colormap none writes \
             numbers in 16 bits)",
            name.as_ref().map_or("colours", |name| name.get_name())
        );
        Ok((Self { colours, ..self }, note))
    }

    /// Writes the values of a picture of this size, atomically.
    pub fn write(&self, rendered: &Rendered, values: Vec<f32>, path: &Path) -> Result<()> {
        let bytes = match self.format {
            FileFormat::Exr => self.exr(rendered, values),
            FileFormat::Png => self.png(rendered, &values),
        };
        let bytes = bytes.map_err(|e| e.at_path(path))?;
        write_atomically(path, |file| file.write_all(&bytes))
    }

    fn exr(&self, rendered: &Rendered, values: Vec<f32>) -> Result<Vec<u8>> {
        let names: &[&str] = match self.channel.values() {
            Values::Colours => &["R", "G", "B"],
            Values::Share => &["A"],
            Values::Depths => &["Z"],
            Values::Normals => &["X", "Y", "Z"],
            Values::Counts => &["N"],
        };
        let plane = |i: usize| {
            values
                .iter()
                .skip(i)
                .step_by(names.len())
                .copied()
                .collect()
        };
        let named = names.iter().enumerate();
        let image = FloatImage {
            width: rendered.width,
            height: rendered.height,
            channels: named
                .map(|(i, name)| ((*name).to_owned(), plane(i)))
                .collect(),
        };
        image.to_exr()
    }

    fn png(&self, rendered: &Rendered, values: &[f32]) -> Result<Vec<u8>> {
        let (width, height) = (rendered.width, rendered.height);
        // The casts saturate; see `Unfit`.
        let steps = |per: f64| -> Vec<u16> {
            let step = |&v: &f32| (f64::from(v) * per).round() as u16;
            values.iter().map(step).collect()
        };
        if let Some(colours) = self.colours {
            return png_bytes(width, height, PngPixels::Rgb8(&colours.bytes(values)));
        }
        match self.channel.values() {
            Values::Colours => Picture::from_floats(width, height, values).into_png(),
            Values::Share => png_bytes(width, height, PngPixels::Grey16(&steps(65535.0))),
            Values::Depths => png_bytes(width, height, PngPixels::Grey16(&steps(1.0 / self.unit))),
            Values::Counts => png_bytes(width, height, PngPixels::Grey16(&steps(1.0))),
            Values::Normals => {
                let (vectors, _) = values.as_chunks::<3>();
                let shown = vectors.iter().flat_map(|&v| depth::normal_colour(v));
                png_bytes(width, height, PngPixels::Rgb8(&shown.collect::<Vec<u8>>()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple::contract::{DepthImage, SurfaceImage};
    use dapple::scene::Pose;

    fn rendered() -> Rendered {
        Rendered {
            width: 3,
            height: 2,
            rgb: vec![0.5; 18],
            alpha: vec![1.0, 0.5, 0.25, 1.0, 1.0, 1.0],
            depth: Some(DepthImage {
                blended: vec![2.0, 1.0, 0.5, 2.0, 2.0, 2.0],
                median: vec![2.0, 2.0, 0.0, 2.0, 2.0, 100.0],
            }),
            surface: Some(SurfaceImage {
                depth: vec![1.5, 0.0, 2.0, 2.0, 2.0, 2.0],
                normal: vec![[0.0, 0.0, -1.0]; 6],
            }),
            ..Rendered::default()
        }
    }

    fn output(channel: Channel, format: FileFormat) -> Output {
        Output {
            channel,
            format,
            unit: 0.001,
            colours: None,
        }
    }

    fn grey(channel: Channel) -> Vec<u16> {
        let (rendered, camera) = (rendered(), Camera::pinhole(3, 2, 3.0, Pose::IDENTITY));
        let output = output(channel, FileFormat::Png);
        let values = channel.of(&rendered, &camera).unwrap();
        let png = output.png(&rendered, &values).unwrap();
        image::load_from_memory(&png)
            .unwrap()
            .into_luma16()
            .into_raw()
    }

    #[test]
    fn depth_pngs_have_steps_of_their_unit() {
        assert_eq!(grey(Channel::Depth), [2000, 2000, 0, 2000, 2000, 2000]);
        assert_eq!(
            grey(Channel::MedianDepth),
            [2000, 2000, 0, 2000, 2000, 65535]
        );
        assert_eq!(
            grey(Channel::SurfaceDepth),
            [1500, 0, 2000, 2000, 2000, 2000]
        );
        assert_eq!(grey(Channel::Alpha)[..3], [65535, 32768, 16384]);
    }

    #[test]
    fn exr_holds_the_numbers_themselves() {
        let (rendered, camera) = (rendered(), Camera::pinhole(3, 2, 3.0, Pose::IDENTITY));
        for (channel, names) in [
            (Channel::Depth, vec!["Z"]),
            (Channel::SurfaceDepth, vec!["Z"]),
            (Channel::Normals, vec!["X", "Y", "Z"]),
            (Channel::SurfaceNormal, vec!["X", "Y", "Z"]),
            (Channel::Rgb, vec!["B", "G", "R"]),
        ] {
            let output = output(channel, FileFormat::Exr);
            let values = channel.of(&rendered, &camera).unwrap();
            let bytes = output.exr(&rendered, values.clone()).unwrap();
            let image = FloatImage::from_exr(&bytes).unwrap();
            let found: Vec<&str> = image.channels.iter().map(|(n, _)| n.as_str()).collect();
            assert_eq!(found, names);
            if channel == Channel::Depth {
                assert_eq!(image.channels[0].1, values);
            }
            if channel == Channel::SurfaceNormal {
                assert_eq!(image.channels[2].1, [-1.0; 6]);
            }
            if channel == Channel::Normals {
                // A plane facing the camera. The third pixel is nearly transparent, and the last contains only it.
                assert_eq!(image.channels[2].1, [-1.0, -1.0, 0.0, -1.0, -1.0, 0.0]);
            }
        }
    }

    #[test]
    fn names_say_the_format() {
        assert_eq!(
            FileFormat::from_path(Path::new("a.EXR")),
            Some(FileFormat::Exr)
        );
        assert_eq!(
            FileFormat::from_path(Path::new("b/a.png")),
            Some(FileFormat::Png)
        );
        assert_eq!(FileFormat::from_path(Path::new("folder")), None);
    }
}
