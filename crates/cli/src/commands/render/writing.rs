//! Writes pictures and videos of renders.

use super::shots::Shot;
use super::{Args, is_file};
use crate::channels::{Output, Unfit};
use crate::console::Console;
use crate::{interrupt, video};
use dapple::contract::{Engine, RenderSettings};
use dapple::scene::atomic::TemporaryFolder;
use dapple::scene::{Error, Result};
use dapple::train::RunLock;
use std::path::{Path, PathBuf};

/// Renders into a folder next to the video, and encodes the video from it. Returns the pixels whose values do not fit.
pub(super) fn film(
    shots: &[Shot],
    engine: &mut dyn Engine,
    settings: &RenderSettings,
    args: &Args,
    output: Output,
    console: &Console,
) -> Result<Unfit> {
    let folder = args
        .out
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io("cannot make the output folder", folder, e))?;
    let pictures = TemporaryFolder::new_in(folder)
        .map_err(|e| Error::io("cannot make a folder for pictures in", folder, e))?;
    let unfit = render_all(
        (shots, output),
        (engine, settings),
        console,
        |done, _| pictures.path().join(format!("{done:05}.png")),
        |done| {
            format!(
                "{done} of {} pictures were rendered; no video is made",
                shots.len()
            )
        },
    )?;
    video::encode(pictures.path(), &args.out)?;
    Ok(unfit)
}

/// Renders and writes every picture. Returns the pixels whose values do not fit.
pub(super) fn save(
    shots: &[Shot],
    engine: &mut dyn Engine,
    settings: &RenderSettings,
    args: &Args,
    output: Output,
    console: &Console,
) -> Result<Unfit> {
    let to_file = is_file(&args.out);
    let folder = if to_file {
        args.out.parent()
    } else {
        Some(args.out.as_path())
    };
    if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io("cannot make the output folder", folder, e))?;
    }
    let locks = lock(folder, to_file)?;
    for note in locks.iter().filter_map(RunLock::note) {
        console.note(&format!("note: {note}"));
    }
    render_all(
        (shots, output),
        (engine, settings),
        console,
        |_, name| args.path_of(name, output),
        |done| format!("{done} of {} pictures are made", shots.len()),
    )
}

/// Renders each shot into the file that `path_of` gives for its number and name, with a progress bar. `stopped`
/// describes a stop after a number of shots. Returns the pixels whose values do not fit.
fn render_all(
    (shots, output): (&[Shot], Output),
    (engine, settings): (&mut dyn Engine, &RenderSettings),
    console: &Console,
    path_of: impl Fn(usize, &str) -> PathBuf,
    stopped: impl Fn(usize) -> String,
) -> Result<Unfit> {
    let grace = interrupt::grace();
    let bar = console.bar(shots.len() as u64, "rendering [{bar:30}] {pos}/{len} {eta}");
    let mut unfit = Unfit::default();
    for (done, (name, camera)) in shots.iter().enumerate() {
        grace.check(|| stopped(done))?;
        unfit = unfit.and(output.render(engine, camera, settings, &path_of(done, name))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(unfit)
}

/// Locks the folder against new runs while pictures are written. A run in the folder, or in the folders above, which
/// may hold its renders, is an error. Other commands may write pictures at the same time.
fn lock(folder: Option<&Path>, to_file: bool) -> Result<Vec<RunLock>> {
    let Some(folder) = folder else {
        return Ok(Vec::new());
    };
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut locked = whole.ancestors().take(3).enumerate();
    locked.try_fold(Vec::new(), |mut locks, (i, folder)| {
        // For a single picture, no lock file is created in a folder without one.
        if i == 0 && !to_file || folder.join(RunLock::FILE).exists() {
            locks.push(RunLock::shared(folder)?);
        }
        Ok(locks)
    })
}
