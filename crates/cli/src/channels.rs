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
use dapple::contract::{Engine, EngineExt, RenderSettings, Rendered, depth};
use dapple::scene::atomic::write_atomically;
use dapple::scene::exr_file::FloatImage;
use dapple::scene::provenance::{PngPixels, png_bytes};
use dapple::scene::{Camera, Error, Result};
use std::path::Path;

/// Channel of a render.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Channel {
    /// Colours over the background
    #[default]
    Rgb,
    /// Share of a pixel that the splats cover
    Alpha,
    /// Expected depth: mean over the blend weights. 0 if less than half is covered
    Depth,
    /// Depth of the Gaussian where transmittance falls below one half. 0 without one
    MedianDepth,
    /// Normals of the surface of expected depth
    Normals,
    /// Depth inside the Gaussians where half of the light is gone. 0 without one
    SurfaceDepth,
    /// Normals of the Gaussians at the surface depth
    SurfaceNormal,
    /// Number of Gaussians blended in a pixel
    Count,
}

impl Channel {
    /// Returns true if colour maps show its numbers.
    pub fn takes_colours(self) -> bool {
        !matches!(self, Self::Rgb | Self::Normals | Self::SurfaceNormal)
    }

    /// Returns true if the channel needs a render with depths.
    pub fn needs_depth(self) -> bool {
        matches!(self, Self::Depth | Self::MedianDepth | Self::Normals)
    }

    /// Returns true if the channel needs a render with a surface.
    pub fn needs_surface(self) -> bool {
        matches!(self, Self::SurfaceDepth | Self::SurfaceNormal)
    }
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
    /// Renders the view of `camera` and writes it atomically. Returns the pixels whose values do not fit.
    pub fn render(
        &self,
        engine: &mut dyn Engine,
        camera: &Camera,
        settings: &RenderSettings,
        path: &Path,
    ) -> Result<Unfit> {
        let (rendered, values) = self.rendered(engine, camera, settings)?;
        let unfit = self.unfit(&values);
        self.write(&rendered, values, path)?;
        Ok(unfit)
    }

    /// Returns the pixels whose values a PNG of 16 bits does not hold.
    fn unfit(&self, values: &[f32]) -> Unfit {
        if self.format == FileFormat::Exr || self.colours.is_some() {
            return Unfit::default();
        }
        match self.channel {
            Channel::Depth | Channel::MedianDepth | Channel::SurfaceDepth => {
                Unfit::of(values, self.unit)
            }
            Channel::Count => Unfit::of(values, 1.0),
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
            values.extend(self.rendered(engine, camera, settings)?.1);
        }
        let [mut low, mut high] = range(values);
        let unit = match self.channel {
            Channel::Count => " Gaussians in a pixel",
            Channel::Alpha => {
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

    /// Returns a render of the camera's size, and the channel's values.
    fn rendered(
        &self,
        engine: &mut dyn Engine,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<(Rendered, Vec<f32>)> {
        if self.channel != Channel::Count {
            let rendered = engine.render(camera, settings)?;
            let values = self.values(&rendered, camera)?;
            return Ok((rendered, values));
        }
        let found = engine.blend_counts(camera, settings)?;
        let size = Rendered {
            width: found.width,
            height: found.height,
            ..Rendered::default()
        };
        // Exact below 2^24.
        let values = found.blended.iter().map(|&count| count as f32);
        Ok((size, values.collect()))
    }

    /// Writes the values of a picture of this size.
    fn write(&self, rendered: &Rendered, values: Vec<f32>, path: &Path) -> Result<()> {
        let bytes = match self.format {
            FileFormat::Exr => self.exr(rendered, values),
            FileFormat::Png => self.png(rendered, &values),
        };
        let bytes = bytes.map_err(|e| e.at_path(path))?;
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Returns the channel's values, interleaved.
    fn values(&self, rendered: &Rendered, camera: &Camera) -> Result<Vec<f32>> {
        let depths = || {
            let missing = || Error::internal("the render has no depths");
            rendered.depth.as_ref().ok_or_else(missing)
        };
        let surface = || {
            let missing = || Error::internal("the render has no surface");
            rendered.surface.as_ref().ok_or_else(missing)
        };
        let expected = || Ok::<_, Error>(depths()?.covered(&rendered.alpha));
        Ok(match self.channel {
            Channel::Rgb => rendered.rgb.clone(),
            Channel::Alpha => rendered.alpha.clone(),
            Channel::Depth => expected()?,
            Channel::MedianDepth => depths()?.median.clone(),
            Channel::Normals => depth::normals(camera, &expected()?).into_flattened(),
            Channel::SurfaceDepth => surface()?.depth.clone(),
            Channel::SurfaceNormal => surface()?.normal.clone().into_flattened(),
            Channel::Count => return Err(Error::internal("the render has no counts")),
        })
    }

    fn exr(&self, rendered: &Rendered, values: Vec<f32>) -> Result<Vec<u8>> {
        let names: &[&str] = match self.channel {
            Channel::Rgb => &["R", "G", "B"],
            Channel::Alpha => &["A"],
            Channel::Depth | Channel::MedianDepth | Channel::SurfaceDepth => &["Z"],
            Channel::Normals | Channel::SurfaceNormal => &["X", "Y", "Z"],
            Channel::Count => &["N"],
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
        match self.channel {
            Channel::Rgb => Picture::from_floats(width, height, values).into_png(),
            Channel::Alpha => png_bytes(width, height, PngPixels::Grey16(&steps(65535.0))),
            Channel::Depth | Channel::MedianDepth | Channel::SurfaceDepth => {
                png_bytes(width, height, PngPixels::Grey16(&steps(1.0 / self.unit)))
            }
            Channel::Count => png_bytes(width, height, PngPixels::Grey16(&steps(1.0))),
            Channel::Normals | Channel::SurfaceNormal => {
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
        let values = output.values(&rendered, &camera).unwrap();
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
            let values = output.values(&rendered, &camera).unwrap();
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
