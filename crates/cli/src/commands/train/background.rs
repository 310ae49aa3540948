//! Background of opaque photos that show an object on one plain colour.

use super::Args;
use crate::console::Console;
use dapple::scene::{Dataset, Result};
use dapple::train::{PlainBackground, TrainConfig};

/// Returns true if neither the flags nor the file set a background, so that the photos can set it.
pub(super) fn is_open(args: &Args) -> Result<bool> {
    Ok(args.given()?.background.is_none())
}

/// Sets the run's background to the plain background of the photos, and prints a note.
pub(super) fn follow_photos(
    dataset: &Dataset,
    config: &mut TrainConfig,
    console: &Console,
) -> Result<()> {
    let Some(plain) = PlainBackground::set_in(config, dataset)? else {
        return Ok(());
    };
    let name = plain.name();
    if plain.has_points {
        console.note(&format!(
            "note: the photos have one colour at their borders, {name}, but sparse points are seen on it: the \
             background stays black (--background {name} if it is a plain background)"
        ));
        return Ok(());
    }
    console.note(&format!(
        "note: the photos show a plain background, {name} at all borders: the run takes it as its background \
         (--background black keeps black)"
    ));
    Ok(())
}
