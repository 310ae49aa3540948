//! Channels of a render: each has a name, a line of help, and the numbers that it reads from a render.
//!
//! The command `render` writes them to files and the viewer shows them. A new channel is a variant here, a row in each
//! `match`, and an option in the viewer's page.

use crate::{Engine, EngineExt, RenderSettings, Rendered, depth};
use dapple_scene::{Camera, Error, Result};
use serde::{Deserialize, Serialize};

/// Channel of a render.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    /// Colours over the background.
    #[default]
    Rgb,
    /// Coverage of a pixel by the splats, 0 to 1.
    Alpha,
    /// Expected depth, 0 where less than half of a pixel is covered.
    Depth,
    /// Depth of the Gaussian where transmittance falls below one half.
    MedianDepth,
    /// Normals of the surface of expected depths, camera coordinates.
    Normals,
    /// Depth inside the Gaussians where half of the light is gone.
    SurfaceDepth,
    /// Normals of the Gaussians at the surface depth, camera coordinates.
    SurfaceNormal,
    /// Gaussians blended per pixel.
    Count,
    /// Colour difference from a photo, as in the error maps of scores ([`crate::score`]): needs a photo.
    Error,
}

/// Kind of the values of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Red, green, blue, 0 to 1.
    Colours,
    /// Share of a pixel, 0 to 1.
    Share,
    /// World units along +z; 0 means nothing.
    Depths,
    /// Vectors of length 1; zero means nothing.
    Normals,
    /// Whole numbers.
    Counts,
}

impl Channel {
    /// All channels.
    pub const ALL: [Self; 9] = [
        Self::Rgb,
        Self::Alpha,
        Self::Depth,
        Self::MedianDepth,
        Self::Normals,
        Self::SurfaceDepth,
        Self::SurfaceNormal,
        Self::Count,
        Self::Error,
    ];

    /// Returns the name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rgb => "rgb",
            Self::Alpha => "alpha",
            Self::Depth => "depth",
            Self::MedianDepth => "median-depth",
            Self::Normals => "normals",
            Self::SurfaceDepth => "surface-depth",
            Self::SurfaceNormal => "surface-normal",
            Self::Count => "count",
            Self::Error => "error",
        }
    }

    /// Returns a line of help.
    pub fn about(self) -> &'static str {
        match self {
            Self::Rgb => "Colours over the background",
            Self::Alpha => "Share of a pixel that the splats cover",
            Self::Depth => {
                "Expected depth: mean over the blend weights. 0 if less than half is covered"
            }
            Self::MedianDepth => {
                "Depth of the Gaussian where transmittance falls below one half. 0 without one"
            }
            Self::Normals => "Normals of the surface of expected depth",
            Self::SurfaceDepth => {
                "Depth inside the Gaussians where half of the light is gone. 0 without one"
            }
            Self::SurfaceNormal => "Normals of the Gaussians at the surface depth",
            Self::Count => "Number of Gaussians blended in a pixel",
            Self::Error => "Colour difference from the photo",
        }
    }

    /// Returns the kind of its values.
    pub fn values(self) -> Values {
        match self {
            Self::Rgb | Self::Error => Values::Colours,
            Self::Alpha => Values::Share,
            Self::Depth | Self::MedianDepth | Self::SurfaceDepth => Values::Depths,
            Self::Normals | Self::SurfaceNormal => Values::Normals,
            Self::Count => Values::Counts,
        }
    }

    /// Returns true if the channel is a comparison with a photo.
    pub fn needs_photo(self) -> bool {
        self == Self::Error
    }

    /// Returns `settings` with what a render needs for this channel.
    pub fn asked_of(self, settings: &RenderSettings) -> RenderSettings {
        let has_depth = matches!(self, Self::Depth | Self::MedianDepth | Self::Normals);
        let has_surface = matches!(self, Self::SurfaceDepth | Self::SurfaceNormal);
        RenderSettings {
            depth: settings.depth || has_depth,
            surface: settings.surface || has_surface,
            ..*settings
        }
    }

    /// Returns the channel's values in a render of `camera`, interleaved: 3 a pixel for colours and normals, else 1.
    ///
    /// # Errors
    /// The render has no depths or surface, or the channel is not part of a render: counts come from
    /// [`EngineExt::blend_counts`], errors from a score.
    pub fn of(self, rendered: &Rendered, camera: &Camera) -> Result<Vec<f32>> {
        let missing = || Error::internal(format!("the render has no channel {}", self.name()));
        let depths = || rendered.depth.as_ref().ok_or_else(missing);
        let surface = || rendered.surface.as_ref().ok_or_else(missing);
        let expected = || Ok::<_, Error>(depths()?.covered(&rendered.alpha));
        Ok(match self {
            Self::Rgb => rendered.rgb.clone(),
            Self::Alpha => rendered.alpha.clone(),
            Self::Depth => expected()?,
            Self::MedianDepth => depths()?.median.clone(),
            Self::Normals => depth::normals(camera, &expected()?).into_flattened(),
            Self::SurfaceDepth => surface()?.depth.clone(),
            Self::SurfaceNormal => surface()?.normal.clone().into_flattened(),
            Self::Count | Self::Error => return Err(missing()),
        })
    }

    /// Renders `camera` and returns the render, of which counts have the size only, and the channel's values
    /// ([`Self::of`]).
    ///
    /// # Errors
    /// The engine cannot render the camera, or the channel needs a photo.
    pub fn render(
        self,
        engine: &mut dyn Engine,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<(Rendered, Vec<f32>)> {
        if self != Self::Count {
            let rendered = engine.render(camera, &self.asked_of(settings))?;
            let values = self.of(&rendered, camera)?;
            return Ok((rendered, values));
        }
        Self::counts(engine, camera, settings)
    }

    /// Works like [`Self::render`] for several cameras: calls `each` with the index of the camera, the render and the
    /// values, in order ([`Engine::render_each`]).
    ///
    /// # Errors
    /// See [`Self::render`]; the first error of `each`, after which nothing is rendered.
    pub fn render_each(
        self,
        engine: &mut dyn Engine,
        cameras: &[Camera],
        settings: &RenderSettings,
        each: &mut dyn FnMut(usize, Rendered, Vec<f32>) -> Result<()>,
    ) -> Result<()> {
        if self != Self::Count {
            let mut take = |i: usize, rendered: Rendered| {
                let values = self.of(&rendered, &cameras[i])?;
                each(i, rendered, values)
            };
            return engine.render_each(cameras, &self.asked_of(settings), &mut take);
        }
        cameras.iter().enumerate().try_for_each(|(i, camera)| {
            let (size, values) = Self::counts(engine, camera, settings)?;
            each(i, size, values)
        })
    }

    fn counts(
        engine: &mut dyn Engine,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<(Rendered, Vec<f32>)> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_messages_are_those_of_options() {
        for channel in Channel::ALL {
            let written = serde_json::to_string(&channel).unwrap();
            assert_eq!(written, format!("\"{}\"", channel.name()));
        }
    }
}
