//! Splats as planes: the contents of `geometry`, `sh_rest` and the buffers of moments.
//!
//! Plane p of Gaussian i is at `p * capacity + i`. Sixteen-bit storage packs planes 2p and 2p + 1 into one word; see
//! [`crate::precision`].

use crate::Buffers;
use crate::features::antialias::FILTER_3D;
use crate::layout::plane;
use crate::precision::{Precision, Storage, Values, pack, unpack};
use dapple_engine::{OptimizerState, ViewState};
use dapple_runtime::Gpu;
use dapple_scene::{Result, Splats};
use rayon::prelude::*;

/// Tensors of the optimizer's state. An engine that only renders has none.
const OF_STATE: [&str; 4] = ["geometry_moments", "sh_first", "sh_second", "stats"];

/// Uploads splats and optimizer state (zero if there is none) into the planes' buffers.
///
/// # Errors
/// A buffer is missing: a bug of this crate.
pub fn upload(
    gpu: &Gpu,
    buffers: &Buffers,
    precision: Precision,
    capacity: usize,
    splats: &Splats,
    state: Option<&OptimizerState>,
) -> Result<()> {
    let put = |name: &str, word: u64, storage: Storage, values: Values, planes: &[f32]| {
        let words = pack(storage, values, planes, capacity);
        buffers
            .get(name)
            .map(|buffer| gpu.write(buffer, word * 4, &words))
    };
    let parameters = Values::Parameters;
    put(
        "geometry",
        0,
        Storage::F32,
        parameters,
        &geometry(splats, capacity),
    )?;
    put(
        "sh_rest",
        0,
        precision.sh,
        parameters,
        &sh_rest(splats, capacity),
    )?;
    let Some(state) = state else {
        clear_state(gpu, buffers);
        return Ok(());
    };
    let second = u64::from(precision.moments.words(plane::GEOMETRY as u32)) * capacity as u64;
    let moments = precision.moments;
    for (values, splats, word, sh) in [
        (Values::First, &state.first_moments, 0, "sh_first"),
        (Values::Second, &state.second_moments, second, "sh_second"),
    ] {
        put(
            "geometry_moments",
            word,
            moments,
            values,
            &geometry(splats, capacity),
        )?;
        put(sh, 0, moments, values, &sh_rest(splats, capacity))?;
    }
    let mut stats = vec![0.0f32; 2 * capacity];
    stats[..state.gradient_sums.len()].copy_from_slice(&state.gradient_sums);
    stats[capacity..capacity + state.visible_counts.len()].copy_from_slice(&state.visible_counts);
    put("stats", 0, Storage::F32, parameters, &stats)?;
    if !state.filter_3d.is_empty() {
        gpu.write(buffers.get(FILTER_3D)?, 0, &state.filter_3d);
    }
    Ok(())
}

/// Clears the optimizer's state: fresh buffers are zero, used ones may hold that of other splats.
fn clear_state(gpu: &Gpu, buffers: &Buffers) {
    let mut encoder = gpu.encoder();
    for buffer in OF_STATE.iter().filter_map(|name| buffers.get(name).ok()) {
        encoder.clear_buffer(buffer, 0, None);
    }
    gpu.submit(encoder);
}

/// Waits, and downloads the first `n` Gaussians' 3D filters; empty if there is no such buffer.
///
/// # Errors
/// See [`download`].
pub fn download_filter_3d(gpu: &Gpu, buffers: &Buffers, n: usize) -> Result<Vec<f32>> {
    match buffers.get(FILTER_3D) {
        Ok(buffer) if n > 0 => gpu.read(buffer, n),
        _ => Ok(Vec::new()),
    }
}

/// Waits, and downloads the first `n` Gaussians from the planes' buffers.
///
/// # Errors
/// A lost device, no memory for the copies.
pub fn download(
    gpu: &Gpu,
    buffers: &Buffers,
    precision: Precision,
    capacity: usize,
    n: usize,
    sh_degree: u8,
) -> Result<(Splats, OptimizerState)> {
    let splats = download_splats(gpu, buffers, precision, capacity, n, sh_degree)?;
    if OF_STATE.iter().any(|name| !buffers.has(name)) {
        let state = OptimizerState {
            filter_3d: download_filter_3d(gpu, buffers, n)?,
            ..OptimizerState::untrained(&splats, ViewState::default())
        };
        return Ok((splats, state));
    }
    let source = Source {
        gpu,
        buffers,
        capacity,
    };
    let storage = precision.moments;
    let second = storage.words(plane::GEOMETRY as u32) as usize * capacity;
    let sh_planes = Splats::empty(sh_degree).sh_rest_stride();
    let moments = |values: Values, first: usize, sh: &str| {
        let geometry = source.take("geometry_moments", first, storage, values, plane::GEOMETRY)?;
        let sh = source.take(sh, 0, storage, values, sh_planes)?;
        Ok::<_, dapple_scene::Error>(splats_of(&geometry, &sh, n, capacity, sh_degree))
    };
    let stats = source.take("stats", 0, Storage::F32, Values::Parameters, 2)?;
    let state = OptimizerState {
        first_moments: moments(Values::First, 0, "sh_first")?,
        second_moments: moments(Values::Second, second, "sh_second")?,
        gradient_sums: stats[..n].to_vec(),
        visible_counts: stats[capacity..capacity + n].to_vec(),
        filter_3d: download_filter_3d(gpu, buffers, n)?,
        // The engine adds the state of the views.
        ..OptimizerState::default()
    };
    Ok((splats, state))
}

/// Works like [`download`], without the optimizer's state.
///
/// # Errors
/// See [`download`].
pub fn download_splats(
    gpu: &Gpu,
    buffers: &Buffers,
    precision: Precision,
    capacity: usize,
    n: usize,
    sh_degree: u8,
) -> Result<Splats> {
    let source = Source {
        gpu,
        buffers,
        capacity,
    };
    let parameters = Values::Parameters;
    let sh_planes = Splats::empty(sh_degree).sh_rest_stride();
    let geometry = source.take("geometry", 0, Storage::F32, parameters, plane::GEOMETRY)?;
    let sh = source.take("sh_rest", 0, precision.sh, parameters, sh_planes)?;
    Ok(splats_of(&geometry, &sh, n, capacity, sh_degree))
}

/// Buffers from which planes are read.
struct Source<'a> {
    gpu: &'a Gpu,
    buffers: &'a Buffers,
    capacity: usize,
}

impl Source<'_> {
    /// Reads `planes` planes of a buffer, from word `first` on.
    fn take(
        &self,
        name: &str,
        first: usize,
        storage: Storage,
        values: Values,
        planes: usize,
    ) -> Result<Vec<f32>> {
        let words = storage.words(planes as u32) as usize * self.capacity;
        let buffer = self.buffers.get(name)?;
        if storage == Storage::F32 {
            return self.gpu.read_at(buffer, first as u64 * 4, words);
        }
        let read: Vec<u32> = self.gpu.read_at(buffer, first as u64 * 4, words)?;
        Ok(unpack(storage, values, &read, planes, self.capacity))
    }
}

/// Returns the planes of `geometry`, `[14, capacity]`.
pub fn geometry(splats: &Splats, capacity: usize) -> Vec<f32> {
    let mut planes = vec![0.0; plane::GEOMETRY * capacity];
    let mut fill = |first: usize, rows: &mut dyn Iterator<Item = &[f32]>| {
        for (i, row) in rows.enumerate() {
            for (k, &value) in row.iter().enumerate() {
                planes[(first + k) * capacity + i] = value;
            }
        }
    };
    fill(
        plane::MEAN,
        &mut splats.means.iter().map(<[f32; 3]>::as_slice),
    );
    fill(
        plane::SCALE,
        &mut splats.scales.iter().map(<[f32; 3]>::as_slice),
    );
    fill(
        plane::QUAT,
        &mut splats.quats.iter().map(<[f32; 4]>::as_slice),
    );
    fill(
        plane::OPACITY,
        &mut splats.opacities.iter().map(std::slice::from_ref),
    );
    fill(plane::SH0, &mut splats.sh0.iter().map(<[f32; 3]>::as_slice));
    planes
}

/// Returns the planes of SH rest, `[(K - 1) * 3, capacity]`.
pub fn sh_rest(splats: &Splats, capacity: usize) -> Vec<f32> {
    planes_of(&splats.sh_rest, splats.sh_rest_stride(), capacity)
}

/// Returns rows of `width` numbers as planes, `[width, capacity]`.
pub fn planes_of(rows: &[f32], width: usize, capacity: usize) -> Vec<f32> {
    let mut planes = vec![0.0; width * capacity];
    for (i, row) in rows.chunks_exact(width.max(1)).enumerate() {
        for (k, &value) in row.iter().enumerate() {
            planes[k * capacity + i] = value;
        }
    }
    planes
}

/// Returns the first `n` rows of `width` numbers from their planes.
pub fn rows_of(planes: &[f32], width: usize, n: usize, capacity: usize) -> Vec<f32> {
    let mut rows = vec![0.0; n * width];
    // In blocks, so that the contents of a plane's cache line are used before it is evicted.
    let blocks = rows.par_chunks_mut(width.max(1) * BLOCK).enumerate();
    blocks.for_each(|(block, rows)| {
        for (k, plane) in (0..width).map(|k| (k, &planes[k * capacity + block * BLOCK..])) {
            for (row, &value) in rows.chunks_exact_mut(width).zip(plane) {
                row[k] = value;
            }
        }
    });
    rows
}

/// Returns splats from their planes: the first `n` of each plane of `capacity`.
pub fn splats_of(
    geometry: &[f32],
    sh_rest: &[f32],
    n: usize,
    capacity: usize,
    sh_degree: u8,
) -> Splats {
    let at = |p: usize, i: usize| geometry[p * capacity + i];
    let mut out = Splats::empty(sh_degree);
    let rows = || (0..n).into_par_iter();
    let three = |first: usize| rows().map(move |i| [0, 1, 2].map(|k| at(first + k, i)));
    out.means = three(plane::MEAN).collect();
    out.scales = three(plane::SCALE).collect();
    out.quats = rows()
        .map(|i| [0, 1, 2, 3].map(|k| at(plane::QUAT + k, i)))
        .collect();
    out.opacities = rows().map(|i| at(plane::OPACITY, i)).collect();
    out.sh0 = three(plane::SH0).collect();
    out.sh_rest = rows_of(sh_rest, out.sh_rest_stride(), n, capacity);
    out
}

/// Gaussians that are gathered from their planes together: two kilobytes of each of 45 planes.
const BLOCK: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_reference::scenes;

    #[test]
    fn splats_survive_the_planes() {
        for scene in scenes::all() {
            let n = scene.splats.len();
            let capacity = n + 3;
            let back = splats_of(
                &geometry(&scene.splats, capacity),
                &sh_rest(&scene.splats, capacity),
                n,
                capacity,
                scene.splats.sh_degree,
            );
            // Compared as bits: some scenes hold NaN.
            assert_eq!(
                format!("{back:?}"),
                format!("{:?}", scene.splats),
                "{}",
                scene.name
            );
        }
    }
}
