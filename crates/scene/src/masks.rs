//! Masks: which pixels of a photo count, or which are there at all.
//!
//! 1. A mask is a picture of its own ([`crate::PosedImage::mask`], or one found by its name), white
//!    where the photo is to be used; it may be inverted. Its size may differ from the photo's: larger
//!    ones are averaged, of smaller ones each pixel takes the nearest.
//! 2. [`MaskMode`] says what is done with it and with the photo's alpha channel. To *ignore* a pixel is
//!    to leave it out of the loss and of all scores; half coverage decides. To *segment* makes it
//!    transparent: the photo is seen over the background of each step, and greys are shares.
//!
//! Both happen before the photo is reduced and undistorted, whose results follow masks and alpha.

use crate::resize::reduce_grey;
use crate::{Error, Photo, Result, images};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// What masks, and the photos' own alpha channels, do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskMode {
    /// Masks hide what does not count, alpha is transparency.
    #[default]
    Auto,
    /// What mask or alpha leave out does not count.
    Ignore,
    /// What mask or alpha leave out is transparent.
    Segment,
}

impl MaskMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Ignore, Self::Segment];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ignore => "ignore",
            Self::Segment => "segment",
        }
    }

    /// One line for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Auto => "masks hide what does not count, alpha is transparency",
            Self::Ignore => {
                "what mask or alpha leave out does not count: people and cars that came along"
            }
            Self::Segment => {
                "what mask or alpha leave out becomes transparent: the object alone is learned"
            }
        }
    }
}

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

/// Which pixels of a photo have gone, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Masked {
    /// Some do not count.
    pub ignored: bool,
    /// Some are transparent.
    pub transparent: bool,
    /// None is left.
    pub nothing_left: bool,
}

/// Steps 1 and 2: masks `photo` in place with the file at `path`, if there is one, and its own alpha.
pub(crate) fn apply(
    photo: &mut Photo,
    path: Option<&Path>,
    mode: MaskMode,
    invert: bool,
) -> Result<Masked> {
    let grey = path.map(|path| read(path, photo, invert)).transpose()?;
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
    })
}

/// Either used or not.
fn hard(mut grey: Vec<u8>) -> Vec<u8> {
    images::threshold(&mut grey);
    grey
}

/// The mask at `path` at the photo's size, 255 = use.
fn read(path: &Path, photo: &Photo, invert: bool) -> Result<Vec<u8>> {
    let (width, height, mut mask) = images::decode_mask(path)?;
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
        return Ok(mask);
    }
    if from.0 >= to.0 && from.1 >= to.1 {
        return Ok(reduce_grey(&mask, from, to));
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
    Ok(enlarged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A photo of four pixels with alpha, and a mask beside it.
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

        // Greys are shares: 51 / 255 = 0.2.
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
        assert_eq!(masked, Masked::default());
        for mode in MaskMode::ALL {
            let (_, masked) = case(None, Some([255; 4]), mode, true);
            assert!(masked.nothing_left, "{mode}");
        }
    }
}
