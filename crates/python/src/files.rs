//! Splat files as arrays.

use crate::array;
use crate::errors::{detached, exception};
use dapple::scene::splat_file::{self, Format, WriteOptions};
use dapple::{Error, Result, Splats};
use glam::DVec3;
use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Reads a splat file: stored parameters, `origin` and `notes`.
#[pyfunction]
pub fn read_splats(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let (splats, metadata) = detached(py, || splat_file::read(&path))?;
    let all = arrays(py, splats)?;
    all.set_item("origin", metadata.origin.to_array())?;
    all.set_item("notes", metadata.notes)?;
    Ok(all)
}

/// Writes stored parameters to a splat file; the name sets the format.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the arrays of splats")]
pub fn write_splats(
    py: Python<'_>,
    path: PathBuf,
    means: PyReadonlyArrayDyn<'_, f32>,
    scales: PyReadonlyArrayDyn<'_, f32>,
    quats: PyReadonlyArrayDyn<'_, f32>,
    opacities: PyReadonlyArrayDyn<'_, f32>,
    sh0: PyReadonlyArrayDyn<'_, f32>,
    sh_rest: PyReadonlyArrayDyn<'_, f32>,
    origin: [f64; 3],
) -> PyResult<()> {
    let rows = |values: &PyReadonlyArrayDyn<'_, f32>, name| -> PyResult<Vec<[f32; 3]>> {
        Ok(array::slice(values, name)?.as_chunks::<3>().0.to_vec())
    };
    let coefficients = match sh_rest.as_array().shape() {
        [_, count, _] => count + 1,
        _ => 1,
    };
    let splats = Splats {
        means: rows(&means, "means")?,
        scales: rows(&scales, "scales")?,
        quats: array::slice(&quats, "quats")?.as_chunks::<4>().0.to_vec(),
        opacities: array::slice(&opacities, "opacities")?.to_vec(),
        sh0: rows(&sh0, "sh0")?,
        sh_rest: array::slice(&sh_rest, "sh_rest")?.to_vec(),
        sh_degree: degree(coefficients).map_err(|e| exception(py, &e))?,
    };
    detached(py, || {
        splats.check_lengths()?;
        let options = WriteOptions {
            origin: DVec3::from_array(origin),
            ..WriteOptions::default()
        };
        splat_file::write_with(&path, &splats, Format::to_write(&path)?, &options)
    })
}

fn degree(coefficients: usize) -> Result<u8> {
    match coefficients {
        1 => Ok(0),
        4 => Ok(1),
        9 => Ok(2),
        16 => Ok(3),
        other => Err(Error::input(format!(
            "{other} coefficients are no whole degree of spherical harmonics"
        ))
        .at("sh_rest")
        .hint("give 0, 3, 8 or 15 coefficients after the first")),
    }
}

/// Returns stored parameters as arrays.
pub fn arrays(py: Python<'_>, splats: Splats) -> PyResult<Bound<'_, PyDict>> {
    let n = splats.len();
    let rest = splats.sh_rest_stride() / 3;
    let all = PyDict::new(py);
    let triple = |values: Vec<[f32; 3]>| array::new(py, values.into_flattened(), &[n, 3]);
    all.set_item("means", triple(splats.means)?)?;
    all.set_item("scales", triple(splats.scales)?)?;
    all.set_item(
        "quats",
        array::new(py, splats.quats.into_flattened(), &[n, 4])?,
    )?;
    all.set_item("opacities", array::new(py, splats.opacities, &[n])?)?;
    all.set_item("sh0", triple(splats.sh0)?)?;
    all.set_item("sh_rest", array::new(py, splats.sh_rest, &[n, rest, 3])?)?;
    Ok(all)
}
