//! OpenEXR files of single float channels: depths, normals and alpha of other programs.
//!
//! Format: <https://openexr.com>. Files are written with 32-bit floats, ZIP-compressed. The reader accepts 16- or
//! 32-bit floats and 32-bit integers, in any compression that the crate `exr` supports.

use crate::provenance::SOFTWARE;
use crate::{Error, Result};
use exr::meta::MetaData;
use exr::prelude::{
    AnyChannel, AnyChannels, Encoding, FlatSamples, Image, Layer, LayerAttributes, ReadChannels,
    ReadLayers, WritableImage,
};
use std::io::Cursor;

/// Memory limit of an image, bytes; photos have the same limit.
const MAX_DECODED_BYTES: usize = 1 << 30;

/// Named channels of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatImage {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Names of the OpenEXR channels ("R", "Y", "Z"), and values, `[height, width]`.
    pub channels: Vec<(String, Vec<f32>)>,
}

impl FloatImage {
    /// Encodes the image as an OpenEXR file.
    ///
    /// # Errors
    /// A channel of another size than the image: a defect of the caller.
    pub fn to_exr(&self) -> Result<Vec<u8>> {
        let size = (self.width as usize, self.height as usize);
        let mut channels = Vec::with_capacity(self.channels.len());
        for (name, values) in &self.channels {
            if values.len() != size.0 * size.1 {
                return Err(Error::internal(format!("channel {name} has another size")));
            }
            let samples = FlatSamples::F32(values.clone());
            channels.push(AnyChannel::new(name.as_str(), samples));
        }
        let layer = Layer::new(
            size,
            LayerAttributes {
                software_name: Some(SOFTWARE.into()),
                ..LayerAttributes::default()
            },
            Encoding::SMALL_LOSSLESS,
            AnyChannels::sort(channels.into_iter().collect()),
        );
        let mut bytes = Cursor::new(Vec::new());
        Image::from_layer(layer)
            .write()
            .to_buffered(&mut bytes)
            .map_err(|e| Error::internal(format!("an OpenEXR file cannot be written: {e}")))?;
        Ok(bytes.into_inner())
    }

    /// Reads an OpenEXR file's first layer.
    ///
    /// # Errors
    /// Damaged or foreign files, deep data.
    pub fn from_exr(bytes: &[u8]) -> Result<Self> {
        let wrong = |e: exr::error::Error| {
            Error::input(format!(
                "the OpenEXR file cannot be read: {}",
                dapple_base::decoder_fault(&e)
            ))
            .hint("files with one flat layer are read; if it is damaged, copy it again")
        };
        // The decoder allocates the size in the header before it detects that the header is wrong.
        let meta = MetaData::read_from_buffered(bytes, false).map_err(wrong)?;
        let decoded = meta.headers.iter().map(|header| {
            let pixels = header
                .layer_size
                .width()
                .checked_mul(header.layer_size.height());
            let channels = 4 * header.channels.list.len();
            pixels.and_then(|pixels| pixels.checked_mul(channels))
        });
        if !{ decoded }.all(|bytes| bytes.is_some_and(|bytes| bytes <= MAX_DECODED_BYTES)) {
            return Err(Error::unsupported(
                "the OpenEXR file says that it takes more than 1 GiB when decoded",
            )
            .hint("if that is right, reduce it first"));
        }
        let image = exr::prelude::read()
            .no_deep_data()
            .largest_resolution_level()
            .all_channels()
            .first_valid_layer()
            .all_attributes()
            .from_buffered(Cursor::new(bytes))
            .map_err(wrong)?;
        let layer = image.layer_data;
        let (width, height) = (layer.size.width(), layer.size.height());
        let side = |edge: usize| u32::try_from(edge).ok().filter(|&edge| edge > 0);
        let (Some(w), Some(h)) = (side(width), side(height)) else {
            return Err(Error::input("the OpenEXR file has no pixels")
                .hint("write it again: nothing of it is there"));
        };
        let mut channels = Vec::new();
        for channel in layer.channel_data.list {
            let values: Vec<f32> = channel.sample_data.values_as_f32().collect();
            if values.len() != width * height {
                return Err(Error::unsupported(
                    "the OpenEXR file has a channel of lower resolution",
                )
                .hint("write all channels at full resolution"));
            }
            channels.push((channel.name.to_string(), values));
        }
        Ok(Self {
            width: w,
            height: h,
            channels,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_survive_and_damage_is_refused() {
        let image = FloatImage {
            width: 3,
            height: 2,
            channels: vec![
                (
                    "X".to_owned(),
                    vec![0.0, -1.5, 1e30, f32::MIN_POSITIVE, 3.0, 4.0],
                ),
                ("Z".to_owned(), (0..6).map(|i| i as f32).collect()),
            ],
        };
        let bytes = image.to_exr().unwrap();
        assert_eq!(FloatImage::from_exr(&bytes).unwrap(), image);
        for length in [0, 4, 40, bytes.len() / 2, bytes.len() - 1] {
            assert!(FloatImage::from_exr(&bytes[..length]).is_err(), "{length}");
        }
        // The data window's right edge, a 32-bit number behind its name: 2^30 pixels wide.
        let mut bomb = bytes.clone();
        let name = b"dataWindow\0box2i\0";
        let at = bomb.windows(name.len()).position(|w| w == name).unwrap() + name.len() + 4;
        bomb[at + 8..at + 12].copy_from_slice(&(1u32 << 30).to_le_bytes());
        assert!(FloatImage::from_exr(&bomb).is_err());
        assert!(FloatImage::from_exr(b"hello, this is no image").is_err());
    }
}
