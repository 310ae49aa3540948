//! Mesh of an exported page, with its distances to the sparse points of the capture.

use super::Args;
use crate::console::Console;
use crate::known_capture;
use crate::shown_mesh;
use dapple::scene::origin::{Frame, middle_of};
use dapple::scene::{Dataset, Result, Splats, load};
use dapple::train::TrainConfig;
use std::path::Path;

/// Reads the mesh into the frame of the splats. `file`: file of the splats.
///
/// # Errors
/// A mesh that cannot be read or drawn.
pub fn read(
    mesh: &Path,
    args: &Args,
    (file, splats, frame): (&Path, &Splats, Frame),
    config: &TrainConfig,
    console: &Console,
) -> Result<Vec<u8>> {
    let dataset = capture(args, file, config, console);
    let frame = match &dataset {
        Some(dataset) => frame.beside(middle_of(splats), dataset.origin),
        None => frame,
    };
    shown_mesh::read(mesh, frame, dataset.as_ref(), console)
}

/// Returns the capture of --capture or of the run, without the pixels of its photos. If there is none, it prints a note.
fn capture(args: &Args, file: &Path, config: &TrainConfig, console: &Console) -> Option<Dataset> {
    let without = "the page does not show the distances of the mesh to the sparse points";
    let scene = match &args.scene {
        Some(scene) => Some(scene.clone()),
        None => known_capture::find_if_there(file, console),
    };
    let Some(scene) = scene else {
        console.note(&format!(
            "note: {without}, because the capture is not at hand: name it with --capture CAPTURE"
        ));
        return None;
    };
    let options = config.load_options();
    let described = load::open(&scene, &options)
        .and_then(|capture| load::describe_all(&capture, &options, &console.progress()));
    match described {
        Ok(dataset) => Some(dataset),
        Err(error) => {
            let place = error.place().unwrap_or_default();
            console.note(&format!("note: {without}: {} ({place})", error.what()));
            None
        }
    }
}
