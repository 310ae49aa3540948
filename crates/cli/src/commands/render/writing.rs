//! Writes pictures and videos of renders.

use super::shots::Shot;
use super::{Args, is_file};
use crate::channels::{Output, Unfit};
use crate::console::Console;
use crate::{interrupt, video};
use dapple::contract::{Engine, RenderSettings, Rendered};
use dapple::scene::atomic::TemporaryFolder;
use dapple::scene::{Camera, Error, Result};
use dapple::train::RunLock;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

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
    let mut first = 0;
    while let Some(part) = shots
        .get(first..)
        .map(next_part)
        .filter(|part| !part.is_empty())
    {
        let cameras: Vec<Camera> = part.iter().map(|(_, camera)| *camera).collect();
        let failed = Mutex::new(None);
        let (bar, failed_at) = (&bar, &failed);
        // Files are compressed and written while the next pictures are rendered.
        rayon::in_place_scope(|scope| {
            let mut each = |i: usize, rendered: Rendered, values: Vec<f32>| {
                grace.check(|| stopped(first + i))?;
                unfit = unfit.and(output.unfit(&values));
                let path = path_of(first + i, &part[i].0);
                scope.spawn(move |_| match output.write(&rendered, values, &path) {
                    Ok(()) => bar.inc(1),
                    Err(error) => keep_first(failed_at, (i, error)),
                });
                Ok(())
            };
            let channel = output.channel;
            channel.render_each(engine, &cameras, settings, &mut each)
        })?;
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = failed {
            return Err(error);
        }
        first += part.len();
    }
    bar.finish_and_clear();
    Ok(unfit)
}

/// Most pixels of pictures that wait for their files: a gigabyte.
const MOST_PIXELS: u64 = 32 << 20;

/// Returns the shots that are rendered next, at least one if there is any.
fn next_part(shots: &[Shot]) -> &[Shot] {
    let mut pixels = 0;
    let fits = |(_, camera): &&Shot| {
        pixels += u64::from(camera.width) * u64::from(camera.height);
        pixels <= MOST_PIXELS
    };
    let count = shots.iter().take_while(fits).count();
    &shots[..count.max(1).min(shots.len())]
}

/// Keeps the error of the first picture.
fn keep_first(kept: &Mutex<Option<(usize, Error)>>, found: (usize, Error)) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.as_ref().is_none_or(|(i, _)| found.0 < *i) {
        *kept = Some(found);
    }
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
