//! Converts splats to textures.

use super::codebook::Codebook;
use super::meta::{Asset, Coded, Files, Means, Meta, Rest};
use super::palette::{Palette, Vectors};
use super::picture::{LONGEST_SIDE, Picture};
use super::{ENTRIES_A_ROW, LARGEST_FROM, META, archive};
use crate::order::morton_order;
use crate::splat_file::WriteOptions;
use crate::splat_file::extras::extras;
use crate::splat_file::files::NamedFiles;
use crate::splat_file::packed::{alpha, largest, unit};
use crate::splat_file::watch::Watch;
use crate::{Error, Progress, Result, Splats};
use rayon::prelude::*;
use std::f32::consts::SQRT_2;

/// Maximum number of entries of a palette, by its 16-bit labels, and minimum.
const MOST_ENTRIES: usize = 1 << 16;
const LEAST_ENTRIES: usize = 1024;

/// Gaussians per entry of small scenes. An entry of degree 3 takes 45 bytes, a Gaussian without it 15. With one entry
/// per Gaussian, as in other writers, the palette is two thirds of the file.
const GAUSSIANS_AN_ENTRY: usize = 10;

/// Vectors times rounds from which the palette's progress is reported, and from which the selected search runs instead
/// of the CPU.
const TOLD_WORK: usize = 500_000;

/// Encodes an archive.
pub(in crate::splat_file) fn encode(
    splats: &Splats,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<Vec<u8>> {
    archive::pack(&encode_files(splats, options, progress)?)
}

/// Encodes the files with their names, `meta.json` last.
pub(in crate::splat_file) fn encode_files(
    splats: &Splats,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<NamedFiles> {
    encode_ordered(splats, &morton_order(&splats.means), options, progress)
}

/// Encodes the files of the Gaussians `order`, texel by texel.
pub(in crate::splat_file) fn encode_ordered(
    splats: &Splats,
    order: &[usize],
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<NamedFiles> {
    let count = order.len();
    if count > (LONGEST_SIDE - 3).pow(2) {
        return Err(
            Error::unsupported(format!("a SOG file cannot hold {count} Gaussians"))
                .hint("a texture has 16 383 texels a side: `--max-gaussians 268000000`"),
        );
    }
    let (means, [low, high]) = means(splats, order);
    let (scale_book, scales) = scales(splats, order);
    let (sh0_book, sh0) = sh0(splats, order);
    let mut pictures = vec![
        ("means_l.webp", low),
        ("means_u.webp", high),
        ("scales.webp", scales),
        ("quats.webp", quats(splats, order)),
        ("sh0.webp", sh0),
    ];
    let mut rest = None;
    if splats.sh_degree > 0 {
        let (found, centroids, labels) = harmonics(splats, order, options, progress)?;
        rest = Some(found);
        pictures.extend([
            ("shN_centroids.webp", centroids),
            ("shN_labels.webp", labels),
        ]);
    }
    let meta = Meta {
        version: 2,
        asset: Asset {
            generator: format!("Dapple {}", env!("CARGO_PKG_VERSION")),
            extras: extras(options).unwrap_or_default(),
        },
        count,
        model: options.antialiased.then(|| "antialiased".to_owned()),
        antialias: None,
        means,
        scales: Coded {
            codebook: scale_book.0,
            files: vec!["scales.webp".to_owned()],
        },
        quats: Files {
            files: vec!["quats.webp".to_owned()],
        },
        sh0: Coded {
            codebook: sh0_book.0,
            files: vec!["sh0.webp".to_owned()],
        },
        sh_rest: rest,
    };
    let mut files: Vec<(String, Vec<u8>)> = pictures
        .par_iter()
        .map(|(name, picture)| ((*name).to_owned(), picture.encode()))
        .collect();
    let meta = serde_json::to_vec(&meta)
        .map_err(|e| Error::internal("meta.json cannot be written").caused_by(e))?;
    files.push((META.to_owned(), meta));
    Ok(files)
}

/// Builds an image of one texel per Gaussian, in order.
fn picture(order: &[usize], texel: impl Fn(usize) -> [u8; 4] + Sync) -> Picture {
    let mut picture = Picture::for_count(order.len());
    picture.texels[..order.len()]
        .par_iter_mut()
        .zip(order)
        .for_each(|(to, &i)| *to = texel(i));
    picture
}

fn means(splats: &Splats, order: &[usize]) -> (Means, [Picture; 2]) {
    let bent = |v: f32| v.abs().ln_1p().copysign(v);
    let (mut mins, mut maxs) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for mean in &splats.means {
        for k in 0..3 {
            mins[k] = mins[k].min(bent(mean[k]));
            maxs[k] = maxs[k].max(bent(mean[k]));
        }
    }
    let words = |i: usize| {
        [0, 1, 2].map(|k| {
            let range = maxs[k] - mins[k];
            let share = if range > 0.0 {
                (bent(splats.means[i][k]) - mins[k]) / range
            } else {
                0.0
            };
            // `as` saturates.
            ((share * 65_535.0).round() as u16).to_le_bytes()
        })
    };
    let byte = |which: usize| {
        picture(order, |i| {
            let [x, y, z] = words(i);
            [x[which], y[which], z[which], 255]
        })
    };
    let files = vec!["means_l.webp".to_owned(), "means_u.webp".to_owned()];
    (Means { mins, maxs, files }, [byte(0), byte(1)])
}

fn quats(splats: &Splats, order: &[usize]) -> Picture {
    picture(order, |i| {
        let quat = unit(splats.quats[i]);
        let largest = largest(&quat);
        let sign = if quat[largest] < 0.0 { -SQRT_2 } else { SQRT_2 };
        let mut texel = [0, 0, 0, LARGEST_FROM + largest as u8];
        let others = (0..4).filter(|&k| k != largest);
        for (to, k) in texel.iter_mut().zip(others) {
            // To the nearest: readers compute (b / 255 * 2 - 1) / sqrt 2.
            *to = (255.0 * (quat[k] * sign * 0.5 + 0.5)).round() as u8;
        }
        texel
    })
}

fn scales(splats: &Splats, order: &[usize]) -> (Codebook, Picture) {
    let book = Codebook::from_values(splats.scales.as_flattened().to_vec());
    let picture = picture(order, |i| {
        let [x, y, z] = splats.scales[i].map(|s| book.nearest(s));
        [x, y, z, 255]
    });
    (book, picture)
}

fn sh0(splats: &Splats, order: &[usize]) -> (Codebook, Picture) {
    let book = Codebook::from_values(splats.sh0.as_flattened().to_vec());
    let picture = picture(order, |i| {
        let [r, g, b] = splats.sh0[i].map(|c| book.nearest(c));
        [r, g, b, (255.0 * alpha(splats.opacities[i])).round() as u8]
    });
    (book, picture)
}

/// Computes the weight of each Gaussian's colours: the root of its screen coverage. It is limited to between a
/// hundredth and a hundred times the mean, so that neither the sky nor dust dominates.
fn weights(splats: &Splats) -> Vec<f32> {
    let covers = (0..splats.len()).map(|i| splats.coverage(i).sqrt());
    let mut weights: Vec<f32> = covers.collect();
    let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
    let mean = (sum / weights.len().max(1) as f64) as f32;
    for weight in &mut weights {
        let share = *weight / mean;
        *weight = if share.is_finite() {
            share.clamp(0.01, 100.0)
        } else {
            1.0
        };
    }
    weights
}

fn harmonics(
    splats: &Splats,
    order: &[usize],
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<(Rest, Picture, Picture)> {
    let rounds = options.sog_iterations;
    let dim = splats.sh_rest_stride();
    let entries = match options.sog_palette {
        Some(entries) => entries.clamp(1, MOST_ENTRIES),
        None => (splats.len() / GAUSSIANS_AN_ENTRY).clamp(LEAST_ENTRIES, MOST_ENTRIES),
    };
    let weights = weights(splats);
    let vectors = Vectors {
        values: &splats.sh_rest,
        dim,
        weights: &weights,
    };
    let work = Palette::work(splats.len(), rounds);
    let watch = Watch::start(progress, "finding a palette of harmonics", work, TOLD_WORK);
    let by = options.nearest.get(work >= TOLD_WORK);
    let mut palette = Palette::fit(vectors, entries, rounds, by, &watch)?;
    watch.check()?;
    let book = Codebook::from_values(palette.entries.clone());
    let places: Vec<u8> = palette
        .entries
        .par_iter()
        .map(|&v| book.nearest(v))
        .collect();
    // Entries as readers decode them. For some vectors, another entry is now nearer.
    for (value, &place) in palette.entries.iter_mut().zip(&places) {
        *value = book.0[usize::from(place)];
    }
    let labels = palette.labels(&watch)?;
    watch.check()?;
    let (coefficients, count) = (dim / 3, places.len() / dim);
    let mut centroids = Picture::new(ENTRIES_A_ROW * coefficients, count.div_ceil(ENTRIES_A_ROW));
    // 64 entries fill a row completely, so texels follow one another like coefficients.
    for (texel, rgb) in centroids.texels.iter_mut().zip(places.as_chunks::<3>().0) {
        texel[..3].copy_from_slice(rgb);
    }
    let labels = picture(order, |i| {
        let [low, high, ..] = labels[i].to_le_bytes();
        [low, high, 0, 255]
    });
    let rest = Rest {
        count,
        bands: splats.sh_degree,
        codebook: book.0,
        files: vec![
            "shN_centroids.webp".to_owned(),
            "shN_labels.webp".to_owned(),
        ],
    };
    Ok((rest, centroids, labels))
}
