//! Photos of every format, intact and damaged.

use super::*;
use crate::ErrorKind;
use image::{ExtendedColorType, ImageEncoder, codecs::jpeg::JpegEncoder, codecs::png::PngEncoder};

fn png(data: &[u8], width: u32, height: u32, colour: ExtendedColorType) -> Vec<u8> {
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes)
        .write_image(data, width, height, colour)
        .unwrap();
    bytes
}

fn jpeg() -> Vec<u8> {
    let mut bytes = Vec::new();
    let grey: Vec<u8> = (0..32 * 24 * 3).map(|i| (i % 251) as u8).collect();
    JpegEncoder::new(&mut bytes)
        .write_image(&grey, 32, 24, ExtendedColorType::Rgb8)
        .unwrap();
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Decoded> {
    let sum = FileSum::from_bytes(bytes);
    decode_bytes(bytes, |_, _| Ok(())).map(|(image, _)| to_photo(image, sum))
}

#[track_caller]
fn refused(bytes: &[u8], kind: ErrorKind, word: &str) {
    match decoded(bytes) {
        Ok(_) => panic!("accepted"),
        Err(e) => {
            assert_eq!(e.kind(), kind, "{e}");
            assert!(e.to_string().contains(word), "{e}");
            assert!(e.hint_text().is_some(), "{e}");
        }
    }
}

#[test]
fn sixteen_bit_png_is_rounded_to_eight() {
    // 0x0000, 0x8080 (= 128 * 257), 0xffff, and 0x0180: 384/257 = 1.49 -> 1.
    let values: [u16; 6] = [0, 0x8080, 0xffff, 0x0180, 0x0200, 0xfe00];
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    let got = decoded(&png(&raw, 2, 1, ExtendedColorType::Rgb16)).unwrap();
    assert!(got.deep);
    assert_eq!(got.photo.rgb, [0, 128, 255, 1, 2, 253]);
}

#[test]
fn grey_and_alpha_become_rgb_and_alpha() {
    let got = decoded(&png(&[7, 255, 9, 0], 2, 1, ExtendedColorType::La8)).unwrap();
    assert_eq!(got.photo.rgb, [7, 7, 7, 9, 9, 9]);
    assert_eq!(got.photo.alpha, Some(vec![255, 0]));
    // Alpha that is opaque everywhere is dropped.
    let got = decoded(&png(&[7, 8, 9, 255], 1, 1, ExtendedColorType::Rgba8)).unwrap();
    assert_eq!((got.photo.alpha, got.deep), (None, false));
}

#[test]
fn cmyk_and_deep_jpegs_are_refused() {
    assert!(decoded(&jpeg()).is_ok());
    let start_of_frame = jpeg().windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    let mut cmyk = jpeg();
    cmyk[start_of_frame + 9] = 4;
    refused(&cmyk, ErrorKind::Unsupported, "CMYK");
    let mut deep = jpeg();
    deep[start_of_frame + 4] = 12;
    refused(&deep, ErrorKind::Unsupported, "12 bits");
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = jpeg();
    for length in 0..whole.len() - 1 {
        assert!(decoded(&whole[..length]).is_err(), "jpeg cut at {length}");
    }
    let data: Vec<u8> = (0..12 * 9 * 3).map(|i| (i * 37 % 256) as u8).collect();
    let whole = png(&data, 12, 9, ExtendedColorType::Rgb8);
    // The last chunk (IEND, 12 bytes) has no data.
    for length in 0..whole.len() - 12 {
        assert!(decoded(&whole[..length]).is_err(), "png cut at {length}");
    }
}

/// 16x16 pixels in ten scans, by libjpeg.
const PROGRESSIVE: &[u8] = include_bytes!("../../tests/all/data/progressive.jpg");

/// Returns the first bytes with an end of image after them, as written by programs that repair downloads.
fn ended(bytes: &[u8], length: usize) -> Vec<u8> {
    [&bytes[..length], &[0xff, 0xd9]].concat()
}

#[test]
fn a_progressive_jpeg_without_its_last_bytes_is_refused() {
    verify_bytes(PROGRESSIVE).unwrap();
    let whole = decoded(PROGRESSIVE).unwrap().photo.rgb;
    for length in 0..PROGRESSIVE.len() - 1 {
        assert!(decoded(&PROGRESSIVE[..length]).is_err(), "cut at {length}");
    }
    let scans = |bytes: &[u8]| bytes.windows(2).filter(|w| *w == [0xff, 0xda]).count();
    for length in 2..PROGRESSIVE.len() - 2 {
        let cut = ended(PROGRESSIVE, length);
        if scans(&cut) < scans(PROGRESSIVE) {
            assert!(decoded(&cut).is_err(), "cut at {length}");
        }
        // Inside the last scan the check detects it, unless the pixels are unchanged.
        if let (Ok(()), Ok(got)) = (verify_bytes(&cut), decoded(&cut)) {
            assert_eq!(got.photo.rgb, whole, "cut at {length}");
        }
    }
    // The bytes of an end-of-image marker inside a segment are not a marker.
    let mut comment = PROGRESSIVE[..PROGRESSIVE.len() - 2].to_vec();
    comment.extend([0xff, 0xfe, 0, 4, 0xff, 0xd9]);
    refused(&comment, ErrorKind::Input, "ends early");
}

#[test]
fn a_jpeg_that_lacks_some_of_its_pixels_does_not_pass_the_check() {
    let whole = jpeg();
    verify_bytes(&whole).unwrap();
    let pixels = decoded(&whole).unwrap().photo.rgb;
    let mut found = 0;
    for lost in 1..whole.len() / 3 {
        let cut = ended(&whole, whole.len() - 2 - lost);
        match (verify_bytes(&cut), decoded(&cut)) {
            (Ok(()), Ok(got)) => assert_eq!(got.photo.rgb, pixels, "{lost} bytes lost"),
            _ => found += 1,
        }
    }
    assert!(found > whole.len() / 4, "{found}");
}

fn as_format(format: ImageFormat, colour: ColorType) -> Vec<u8> {
    let grey: Vec<u8> = (0..32 * 24 * 16u32).map(|i| (i * 37 % 251) as u8).collect();
    let size = 32 * 24 * usize::from(colour.bytes_per_pixel());
    let mut bytes = Cursor::new(Vec::new());
    image::write_buffer_with_format(&mut bytes, &grey[..size], 32, 24, colour, format).unwrap();
    bytes.into_inner()
}

#[test]
fn webp_tiff_and_bmp_give_the_pixels_of_png() {
    use ColorType::{L8, L16, Rgb8, Rgb16, Rgba8, Rgba16};
    for (format, colours) in [
        (ImageFormat::WebP, &[L8, Rgb8, Rgba8][..]),
        (ImageFormat::Tiff, &[L8, Rgb8, Rgba8, L16, Rgb16, Rgba16]),
        (ImageFormat::Bmp, &[L8, Rgb8]),
    ] {
        for &colour in colours {
            let png = decoded(&as_format(ImageFormat::Png, colour)).unwrap();
            let bytes = as_format(format, colour);
            let got = decoded(&bytes).unwrap();
            assert!(
                got.photo == png.photo && got.deep == png.deep,
                "{format:?} {colour:?}"
            );
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            std::fs::write(&path, &bytes).unwrap();
            let header = header(&path).unwrap();
            assert_eq!((header.width, header.height), (32, 24));
            assert_eq!((header.deep, header.alpha), (png.deep, colour.has_alpha()));
        }
    }
}

#[test]
fn damaged_files_of_the_other_formats_are_refused_and_do_no_harm() {
    for format in [ImageFormat::WebP, ImageFormat::Tiff, ImageFormat::Bmp] {
        let whole = as_format(format, ColorType::Rgb8);
        for length in (0..whole.len() - 4).step_by(7) {
            assert!(
                decoded(&whole[..length]).is_err(),
                "{format:?} cut at {length}"
            );
        }
        // Flipped bits cause an error or other pixels.
        for at in (0..whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let _ = decoded(&bytes);
        }
    }
}

#[test]
fn foreign_content_is_named_with_what_converts_it() {
    for (bytes, word, hint) in [
        (
            &b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"[..],
            "HEIC",
            "magick mogrify -format jpg *.heic",
        ),
        (b"\0\0\0\x18ftypavif", "AVIF", "avif"),
        (b"\0\0\0\x18ftypisom", "video", "ffmpeg"),
        (b"\xff\x0a\0\0", "JPEG XL", "jxl"),
        (b"8BPS\0\x01", "Photoshop", "psd"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "Git LFS",
            "git lfs pull",
        ),
        (b"\n<!DOCTYPE html><html>", "HTML", "download"),
    ] {
        let error = decoded(bytes).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.what().contains(word), "{error}");
        assert!(error.hint_text().unwrap().contains(hint), "{error}");
    }
    refused(&[0; 300], ErrorKind::Input, "zeros");
    let mut animated = b"RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0".to_vec();
    animated.extend([0; 12]);
    refused(&animated, ErrorKind::Unsupported, "animated");
    refused(
        &as_format(ImageFormat::Tiff, ColorType::Rgb32F),
        ErrorKind::Unsupported,
        "32-bit",
    );
}

/// Builds a TIFF of one strip: bits of each sample, photometric interpretation, samples per pixel.
fn tiff(bits: u16, interpretation: u16, samples: u16, orientation: u16) -> Vec<u8> {
    let pixels = 4 * 4 * usize::from(samples) * usize::from(bits) / 8;
    let mut out = b"II*\0".to_vec();
    out.extend((8 + pixels as u32).to_le_bytes());
    out.resize(8 + pixels, 9);
    let tags: [(u16, u16); 10] = [
        (256, 4),
        (257, 4),
        (258, bits),
        (259, 1),
        (262, interpretation),
        (273, 8),
        (274, orientation),
        (277, samples),
        (278, 4),
        (279, pixels as u16),
    ];
    out.extend((tags.len() as u16).to_le_bytes());
    for (tag, value) in tags {
        // A short; with several samples, `bits` holds for all, which decoders accept.
        out.extend(tag.to_le_bytes());
        out.extend(3u16.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend(u32::from(value).to_le_bytes());
    }
    out.extend([0; 4]);
    out
}

#[test]
fn cmyk_and_palettes_of_tiff_are_refused() {
    assert_eq!(decoded(&tiff(8, 1, 1, 1)).unwrap().photo.rgb, [9; 48]);
    refused(&tiff(8, 5, 4, 1), ErrorKind::Unsupported, "CMYK");
    refused(&tiff(8, 3, 1, 1), ErrorKind::Input, "cannot be decoded");
}

#[test]
fn turns_that_the_size_does_not_show_are_found() {
    let turned = |orientation: u16, width: u32| {
        let mut bytes = Vec::new();
        let mut encoder = JpegEncoder::new(&mut bytes);
        let mut exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
        exif.extend([orientation.to_le_bytes(), [0; 2], [0; 2], [0; 2]].concat());
        encoder.set_exif_metadata(exif).unwrap();
        let grey = vec![7; width as usize * 16];
        encoder
            .write_image(&grey, width, 16, ExtendedColorType::L8)
            .unwrap();
        decode_bytes(&bytes, |_, _| Ok(())).unwrap().1
    };
    for (orientation, oblong, square) in [
        (1, false, false),
        (2, true, true),
        (3, true, true),
        (4, true, true),
        (5, false, true),
        (6, false, true),
        (8, false, true),
    ] {
        let got = (turned(orientation, 24), turned(orientation, 16));
        assert_eq!(got, (oblong, square), "{orientation}");
    }
    let found = |bytes: &[u8]| decode_bytes(bytes, |_, _| Ok(())).unwrap().1;
    assert!(found(&tiff(8, 1, 1, 3)) && !found(&tiff(8, 1, 1, 1)));
}

#[test]
fn foreign_formats_and_bombs_are_refused() {
    refused(b"GIF89a....", ErrorKind::Unsupported, "gif");
    refused(b"hello", ErrorKind::Input, "neither");
    refused(b"", ErrorKind::Input, "empty");
    // A PNG header that declares 60000 x 60000 pixels.
    let mut bomb = png(&[0; 3], 1, 1, ExtendedColorType::Rgb8);
    bomb[16..20].copy_from_slice(&60_000u32.to_be_bytes());
    bomb[20..24].copy_from_slice(&60_000u32.to_be_bytes());
    assert!(decoded(&bomb).is_err());
}
