//! `dapple`: trains 3D Gaussian splats from photos with camera poses.
//!
//! 1. Parse the command line ([`args`]); mistakes in it end with code 2.
//! 2. Run the command: one file each under [`commands`].
//! 3. Print its error as three lines on stderr, and return an exit code ([`exit`]).
//!
//! Data goes to stdout, messages go to stderr ([`console`]).

mod args;
mod camera_paths;
mod cameras;
mod channels;
mod colormap;
mod commands;
mod console;
mod exit;
mod flamegraph;
mod help;
mod interrupt;
mod known_capture;
mod opening;
mod options;
mod other_names;
mod outputs;
mod photo_memory;
mod pictures;
mod ranks;
mod settings_args;
mod shown_mesh;
mod sparse_points;
mod training_display;
mod video;
mod viewing;
mod workers;

use dapple_instruments::{ceilings, machine};
use std::process::ExitCode;

/// Mesa's Vulkan drivers include a layer that sorts devices and queries the display for the order. Without a display
/// the layer prints a message on stderr in every command. Dapple sorts devices without the layer.
fn quieten_mesa() {
    const SWITCH: &str = "NODEVICE_SELECT";
    if std::env::var_os(SWITCH).is_none() {
        // SAFETY: this is the first statement of the program; no other thread runs yet.
        unsafe { std::env::set_var(SWITCH, "1") };
    }
}

fn main() -> ExitCode {
    quieten_mesa();
    let mut notes = workers::drop_bad_numbers();
    let (args, about_options) = match args::parse() {
        Ok(parsed) => parsed,
        Err(error) => return exit::usage(&error),
    };
    notes.extend(about_options);
    let console = console::Console::new(args.quiet, args.verbose);
    for note in notes {
        console.note(&note);
    }
    let result = workers::start()
        .and_then(|()| interrupt::listen())
        .and_then(|()| args.command.run(&console));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&console, &error),
    }
}
