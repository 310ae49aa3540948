//! Reads and writes splat files with the library: `cargo run --release --example files`.
//!
//! 1. Writes the same splats in every format, with a progress bar, and reads each back.
//! 2. Prints the loss of each conversion: renders before and after, from the capture's cameras.
//! 3. Repairs a file with non-finite numbers by a chain of edits.

use dapple::prelude::*;
use dapple::scene::edit::{Action, Editor, NoCapture, removes_non_finite};
use dapple::scene::splat_file::{self, Format, NonFinite, ReadOptions, SpzVersion, WriteOptions};
use dapple::scene::{Error, Progress};
use std::sync::Mutex;

/// Progress of a file, on one line of stderr. Small files are written before there is any progress to
/// print.
#[derive(Default)]
struct Line(Mutex<(String, u64, u64)>);

impl Progress for Line {
    fn start(&self, what: &str, total: u64) {
        if let Ok(mut state) = self.0.lock() {
            *state = (what.to_owned(), 0, total);
        }
    }

    fn advance(&self, n: u64) {
        if let Ok(mut state) = self.0.lock() {
            state.1 += n;
            let (what, done, total) = &*state;
            eprint!("\r{what}: {} %", 100 * done / total.max(&1));
        }
    }

    fn finish(&self) {
        eprintln!();
    }
}

/// Returns the mean PSNR in dB between renders of two splats, over cameras.
fn psnr(engine: &mut dyn Engine, [a, b]: [&Splats; 2], cameras: &[Camera]) -> dapple::Result<f64> {
    let settings = RenderSettings {
        sh_degree: a.sh_degree,
        ..RenderSettings::default()
    };
    let mut renders = |splats: &Splats| -> dapple::Result<Vec<f32>> {
        engine.upload(splats, None)?;
        let mut all = Vec::new();
        for camera in cameras {
            all.extend(engine.render(camera, &settings)?.rgb);
        }
        Ok(all)
    };
    let (a, b) = (renders(a)?, renders(b)?);
    let squares = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2));
    let mean = squares.sum::<f64>() / a.len() as f64;
    Ok(-10.0 * mean.max(1e-10).log10())
}

fn main() -> dapple::Result<()> {
    let folder = tempfile::tempdir().map_err(|e| Error::io("cannot make a folder", "", e))?;
    let capture = synth::dataset(&SynthOptions {
        photos: 4,
        width: 96,
        height: 72,
        ..SynthOptions::default()
    })?;
    let cameras: Vec<Camera> = capture.views.iter().map(|view| view.camera).collect();
    let extent = capture.extent(&[0, 1, 2]);
    let splats = dapple::train::init::from_points(&capture.points, extent, 2, 0)?;
    let mut engine = dapple::engine(Device::Auto)?;

    // Every format for writing, with its options.
    let options = WriteOptions {
        spz_version: SpzVersion::V4,
        lod_levels: 2,
        ..WriteOptions::default()
    };
    // A plain PLY file has normals of three floats too.
    let plain = (splats.size_bytes() + 12 * splats.len()) as f64;
    for format in Format::ALL.into_iter().filter(|f| f.is_written()) {
        // A format of several files has a folder for them.
        let own = folder.path().join(format!("{format:?}"));
        std::fs::create_dir(&own).map_err(|e| Error::io("cannot make a folder", &own, e))?;
        let path = own.join(format.file_name("scene"));
        splat_file::write_with_progress(&path, &splats, format, &options, &Line::default())?;
        let (read, metadata) = splat_file::read(&path)?;
        assert_eq!(read.len(), splats.len());
        let bytes = splat_file::size_bytes(&path, format);
        println!(
            "{}: {bytes} bytes, 1/{:.1} of plain PLY, renders are {:.1} dB from those before; axes {:?}",
            format.file_name(""),
            plain / bytes as f64,
            psnr(engine.as_mut(), [&splats, &read], &cameras)?,
            metadata.axes,
        );
    }

    // A diverged run has left a Gaussian with a non-finite centre. Writing such splats needs the option, and reading
    // the file is refused with a hint.
    let broken = folder.path().join("broken.ply");
    let mut diverged = splats.clone();
    diverged.means[0] = [f32::NAN; 3];
    assert!(splat_file::write(&broken, &diverged, Format::Ply).is_err());
    let as_it_is = WriteOptions {
        non_finite: NonFinite::Keep,
        ..WriteOptions::default()
    };
    splat_file::write_with(&broken, &diverged, Format::Ply, &as_it_is)?;
    if let Err(error) = splat_file::read(&broken) {
        println!("{error}");
    }
    // A chain that removes such Gaussians can read it.
    let chain = [
        Action::rotate([0.0, 0.0, 90.0]),
        Action::Keep("finite".parse()?),
    ];
    assert!(removes_non_finite(&chain));
    let kept = ReadOptions {
        non_finite: NonFinite::Keep,
        ..ReadOptions::default()
    };
    let (read, metadata) = splat_file::read_with(&broken, &kept)?;
    let mut editor = Editor::new(read);
    for action in &chain {
        editor.apply(action, &mut NoCapture, &NoProgress)?;
    }
    assert_eq!(editor.splats().len(), splats.len() - 1);
    // The file's metadata is written with the splats.
    let options = WriteOptions {
        antialiased: metadata.antialiased,
        ..WriteOptions::default()
    };
    let bytes = splat_file::encode(editor.splats(), Format::Spz, &options)?;
    println!("mended: {} bytes of .spz in memory", bytes.len());
    Ok(())
}
