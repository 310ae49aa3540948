//! Masks: the pixels of a photo that are used, or its transparency.
//!
//! 1. A mask is a separate image file ([`crate::PosedImage::mask`]), white where the photo is used; it may be inverted.
//!    Its size may differ from the photo's: larger masks are averaged, and smaller masks give each pixel the nearest
//!    value. A mask of two values, 0 and a dark one, contains labels: its second value counts as white. A mask with
//!    constant colours and varying alpha is read from its alpha.
//! 2. [`MaskMode`] selects the use of the mask and of the photo's alpha channel. To *ignore* a pixel excludes it from
//!    the loss and from all scores; the threshold is half coverage. To *segment* a pixel makes it transparent: the
//!    photo is blended over the background of each step, and greys are fractions.
//!
//! Both happen before the photo is reduced and undistorted, so the results follow masks and alpha.

use crate::resize::{HALF, reduce_grey, threshold};
use crate::{Error, Photo, Result, images};
use image::DynamicImage;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Use of masks and of the photos' alpha channels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskMode {
    /// Masks exclude pixels; alpha is transparency.
    #[default]
    Auto,
    /// Pixels excluded by the mask or by alpha do not count.
    Ignore,
    /// Pixels excluded by the mask or by alpha are transparent.
    Segment,
}

impl MaskMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Ignore, Self::Segment];

    /// Returns the name for options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ignore => "ignore",
            Self::Segment => "segment",
        }
    }

    /// One-line description for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Auto => "masks exclude pixels, alpha is transparency",
            Self::Ignore => {
                "pixels that mask or alpha exclude do not count: for people and passing cars"
            }
            Self::Segment => {
                "pixels that mask or alpha exclude become transparent: for single objects"
            }
        }
    }
}

dapple_base::choice_setting!(MaskMode);

impl fmt::Display for MaskMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MaskMode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| {
            Error::input(format!("there is no mask mode {name:?}")).hint(format!(
                "choose one of {}",
                Self::ALL.map(Self::name).join(", ")
            ))
        })
    }
}

/// Result of masking a photo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Masked {
    /// True if some pixels do not count.
    pub ignored: bool,
    /// True if some pixels are transparent.
    pub transparent: bool,
    /// True if no pixel remains.
    pub nothing_left: bool,
    /// True if there is a mask and it excludes no pixel.
    pub idle: bool,
    /// True if the mask contains labels.
    pub labels: bool,
    /// True if the mask is the alpha of its file.
    pub in_alpha: bool,
    /// Brightest value of the mask's file.
    pub brightest: Option<u8>,
}

/// Steps 1 and 2: masks `photo` in place with the file at `path`, if there is one, and its own alpha.
pub(crate) fn apply(
    photo: &mut Photo,
    path: Option<&Path>,
    mode: MaskMode,
    invert: bool,
) -> Result<Masked> {
    let read = path.map(|path| read(path, photo, invert)).transpose()?;
    let found = read.as_ref().map(|(_, found)| *found).unwrap_or_default();
    let grey = read.map(|(grey, _)| grey);
    let idle = grey.as_ref().is_some_and(|grey| match mode {
        MaskMode::Segment => grey.iter().all(|&v| v == 255),
        _ => grey.iter().all(|&v| v >= HALF),
    });
    match mode {
        MaskMode::Auto => photo.mask = grey.map(hard),
        MaskMode::Ignore => {
            photo.mask = match (grey.map(hard), photo.alpha.take().map(hard)) {
                (Some(mask), Some(alpha)) => {
                    Some(mask.iter().zip(alpha).map(|(m, a)| m & a).collect())
                }
                (mask, alpha) => mask.or(alpha),
            };
        }
        MaskMode::Segment => {
            let shares = |(&a, &b): (&u8, &u8)| ((u16::from(a) * u16::from(b) + 127) / 255) as u8;
            photo.alpha = match (grey, photo.alpha.take()) {
                (Some(grey), Some(alpha)) => Some(grey.iter().zip(&alpha).map(shares).collect()),
                (grey, alpha) => grey.or(alpha),
            };
        }
    }
    let leaves_out = |values: &Vec<u8>| values.iter().any(|&v| v != 255);
    photo.mask = photo.mask.take().filter(leaves_out);
    photo.alpha = photo.alpha.take().filter(leaves_out);
    let empty = |values: &Option<Vec<u8>>| {
        values
            .as_ref()
            .is_some_and(|values| values.iter().all(|&v| v == 0))
    };
    Ok(Masked {
        ignored: photo.mask.is_some(),
        transparent: photo.alpha.is_some(),
        nothing_left: empty(&photo.mask) || empty(&photo.alpha),
        idle,
        ..found
    })
}

/// Rounds a mask to 0 or 255.
fn hard(mut grey: Vec<u8>) -> Vec<u8> {
    threshold(&mut grey);
    grey
}

/// Values of a mask's file, from 0 = exclude to 255 = use, and the kind of its source.
fn values(image: DynamicImage) -> (Vec<u8>, Masked) {
    let mut found = Masked::default();
    let alpha = image.color().has_alpha().then(|| alpha(&image));
    let is_deep = image.color().bytes_per_pixel() / image.color().channel_count() > 1;
    // Labels of 16 bits are small numbers, which rounding to 8 bits would make 0.
    let deep = is_deep.then(|| image.to_luma16());
    let small = deep.filter(|deep| deep.iter().all(|&v| v <= 255));
    let mut grey = match small {
        Some(small) => small.iter().map(|&v| v as u8).collect(),
        None => image.into_luma8().into_raw(),
    };
    let is_binary = |grey: &[u8]| {
        grey.iter().all(|&v| v == 0 || v == 255) && grey.contains(&0) && grey.contains(&255)
    };
    if let Some(alpha) = alpha.filter(|alpha| alpha.iter().any(|&v| v != 255))
        && !is_binary(&grey)
    {
        (grey, found.in_alpha) = (alpha, true);
    }
    let brightest = grey.iter().copied().max().unwrap_or(0);
    found.brightest = Some(brightest);
    let is_dark = (1..HALF).contains(&brightest);
    if is_dark && grey.iter().all(|&v| v == 0 || v == brightest) {
        found.labels = true;
        for value in &mut grey {
            *value = if *value == 0 { 0 } else { 255 };
        }
    }
    (grey, found)
}

fn alpha(image: &DynamicImage) -> Vec<u8> {
    image.to_rgba8().pixels().map(|pixel| pixel[3]).collect()
}

/// Reads the mask at `path` at the photo's size, 255 = use.
fn read(path: &Path, photo: &Photo, invert: bool) -> Result<(Vec<u8>, Masked)> {
    let image = images::decode_values(path)?;
    let (width, height) = (image.width(), image.height());
    let (mut mask, found) = values(image);
    if invert {
        for value in &mut mask {
            *value = 255 - *value;
        }
    }
    let (from, to) = (
        (width as usize, height as usize),
        (photo.width as usize, photo.height as usize),
    );
    let off = (from.0 * to.1).abs_diff(from.1 * to.0);
    if off > from.0 + from.1 + to.0 + to.1 {
        return Err(Error::input(format!(
            "the mask has {width}x{height} pixels, its photo {}x{}",
            photo.width, photo.height
        ))
        .at_path(path)
        .hint("a mask needs its photo's aspect ratio"));
    }
    if from == to {
        return Ok((mask, found));
    }
    if from.0 >= to.0 && from.1 >= to.1 {
        return Ok((reduce_grey(&mask, from, to), found));
    }
    let nearest = |i: usize, old: usize, new: usize| (i * old / new).min(old - 1);
    let enlarged = (0..to.0 * to.1)
        .map(|i| {
            let (x, y) = (
                nearest(i % to.0, from.0, to.0),
                nearest(i / to.0, from.1, to.1),
            );
            mask[y * from.0 + x]
        })
        .collect();
    Ok((enlarged, found))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Masks a photo of four pixels with alpha by a mask.
    fn case(
        alpha: Option<[u8; 4]>,
        mask: Option<[u8; 4]>,
        mode: MaskMode,
        invert: bool,
    ) -> (Photo, Masked) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mask.png");
        if let Some(mask) = mask {
            image::GrayImage::from_raw(4, 1, mask.to_vec())
                .unwrap()
                .save(&path)
                .unwrap();
        }
        let mut photo = Photo::from_rgb(4, 1, vec![9; 12]);
        photo.alpha = alpha.map(|alpha| alpha.to_vec());
        let masked = apply(&mut photo, mask.map(|_| path.as_path()), mode, invert).unwrap();
        (photo, masked)
    }

    const ALPHA: Option<[u8; 4]> = Some([255, 100, 255, 0]);
    const MASK: Option<[u8; 4]> = Some([255, 255, 51, 0]);

    #[test]
    fn each_mode_does_what_it_says_with_mask_and_alpha() {
        let (photo, masked) = case(ALPHA, MASK, MaskMode::Auto, false);
        assert_eq!(photo.mask, Some(vec![255, 255, 0, 0]));
        assert_eq!(photo.alpha, ALPHA.map(|alpha| alpha.to_vec()));
        assert!(masked.ignored && masked.transparent && !masked.nothing_left);

        let (photo, masked) = case(ALPHA, MASK, MaskMode::Ignore, false);
        assert_eq!(photo.mask, Some(vec![255, 0, 0, 0]));
        assert_eq!(photo.alpha, None);
        assert!(masked.ignored && !masked.transparent);

        // Greys are fractions: 51 / 255 = 0.2.
        let (photo, _) = case(ALPHA, MASK, MaskMode::Segment, false);
        assert_eq!(photo.alpha, Some(vec![255, 100, 51, 0]));
        assert_eq!(photo.mask, None);
        let half = Some([255, 102, 255, 255]);
        let (photo, _) = case(half, Some([255, 128, 0, 255]), MaskMode::Segment, false);
        assert_eq!(photo.alpha, Some(vec![255, 51, 0, 255]));
    }

    #[test]
    fn masks_are_inverted_and_alpha_is_not() {
        let (photo, _) = case(ALPHA, MASK, MaskMode::Auto, true);
        assert_eq!(photo.mask, Some(vec![0, 0, 255, 255]));
        assert_eq!(photo.alpha, ALPHA.map(|alpha| alpha.to_vec()));
        let (photo, _) = case(None, MASK, MaskMode::Segment, true);
        assert_eq!(photo.alpha, Some(vec![0, 0, 204, 255]));
    }

    #[test]
    fn what_leaves_out_nothing_is_none_and_what_leaves_nothing_is_told() {
        let (photo, masked) = case(None, Some([255; 4]), MaskMode::Segment, false);
        assert_eq!((photo.alpha, photo.mask), (None, None));
        assert!(masked.idle && !masked.ignored && !masked.transparent);
        // Greys are fractions in the mode `segment`, and thresholded in the others.
        for (mode, idle) in [(MaskMode::Segment, false), (MaskMode::Auto, true)] {
            let (_, masked) = case(None, Some([200, 255, 255, 255]), mode, false);
            assert_eq!(masked.idle, idle, "{mode}");
        }
        for mode in MaskMode::ALL {
            let (_, masked) = case(None, Some([255; 4]), mode, true);
            assert!(masked.nothing_left, "{mode}");
        }
    }

    /// Computes the mask of four pixels from an image of one row.
    fn of(image: impl Into<DynamicImage>) -> (Vec<u8>, Masked) {
        values(image.into())
    }

    #[test]
    fn labels_are_two_values_of_which_one_is_zero_and_none_is_bright() {
        let grey = |values: [u8; 4]| of(image::GrayImage::from_raw(4, 1, values.to_vec()).unwrap());
        for (values, want, labels) in [
            ([0, 1, 1, 0], [0, 255, 255, 0], true),
            ([0, 27, 0, 0], [0, 255, 0, 0], true),
            ([1; 4], [255; 4], true),
            ([0, 128, 255, 0], [0, 128, 255, 0], false),
            ([0, 200, 0, 0], [0, 200, 0, 0], false),
            ([0, 1, 2, 3], [0, 1, 2, 3], false),
            ([0; 4], [0; 4], false),
        ] {
            let (got, found) = grey(values);
            assert_eq!((&*got, found.labels), (&want[..], labels), "{values:?}");
            assert_eq!(found.brightest, values.iter().copied().max());
        }
        let deep = |values: [u16; 4]| {
            let image = image::ImageBuffer::<image::Luma<u16>, _>::from_raw(4, 1, values.to_vec());
            of(image.unwrap()).0
        };
        assert_eq!(deep([0, 1, 0, 1]), [0, 255, 0, 255]);
        assert_eq!(deep([0, 255, 0, 255]), [0, 255, 0, 255]);
        assert_eq!(deep([0, 65535, 0, 32896]), [0, 255, 0, 128]);
    }

    #[test]
    fn a_mask_is_its_alpha_where_its_colours_are_none() {
        let with_alpha = |grey: [u8; 4], alpha: [u8; 4]| {
            let values = grey.iter().zip(alpha).flat_map(|(g, a)| [*g, a]).collect();
            of(image::GrayAlphaImage::from_raw(4, 1, values).unwrap())
        };
        let cut = [255, 255, 0, 0];
        for (grey, alpha, want, in_alpha) in [
            // All black or all white, or a photo that was cut out.
            ([0; 4], cut, cut, true),
            ([255; 4], cut, cut, true),
            ([90, 120, 0, 0], cut, cut, true),
            // A mask of its own.
            ([0, 0, 255, 255], cut, [0, 0, 255, 255], false),
            ([0, 0, 255, 255], [255; 4], [0, 0, 255, 255], false),
        ] {
            let (got, found) = with_alpha(grey, alpha);
            assert_eq!(
                (&*got, found.in_alpha),
                (&want[..], in_alpha),
                "{grey:?} {alpha:?}"
            );
        }
    }
}
