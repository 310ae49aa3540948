//! Chooses the smallest file within a loss, for --max-loss.

use super::loss::{Judge, Loss};
use super::{Args, Done, read_back, write};
use crate::console::Console;
use crate::interrupt;
use crate::machine::human_bytes;
use crate::options::refuse_existing;
use dapple::scene::splat_file::{self, Format, WriteOptions};
use dapple::scene::{Error, Result, Splats};

/// Formats for --max-loss, likely the smallest first.
const CANDIDATES: [Format; 4] = [Format::Sog, Format::Spz, Format::CompressedPly, Format::Ply];

/// Returns the formats for --max-loss whose files do not exist, or may be replaced.
///
/// # Errors
/// All files exist.
pub(super) fn free_candidates(args: &Args, console: &Console) -> Result<Vec<Format>> {
    let mut free = Vec::new();
    let mut refused = None;
    for format in CANDIDATES {
        let output = args.output.with_extension(format.extension());
        match refuse_existing(&output, args.overwrite) {
            Ok(()) => free.push(format),
            Err(error) => {
                console.note(&format!(
                    "note: .{} is not tried: {} exists",
                    format.extension(),
                    output.display()
                ));
                refused = Some(error);
            }
        }
    }
    match refused.filter(|_| free.is_empty()) {
        Some(error) => Err(error),
        None => Ok(free),
    }
}

/// Writes the smallest file within a loss. Every format and degree is tried in a folder next to the output, and
/// rendered only if smaller than the best so far.
pub(super) fn choose(
    args: &Args,
    formats: &[Format],
    splats: &Splats,
    options: &WriteOptions,
    (judge, most): (&mut Judge, f64),
    console: &Console,
) -> Result<Done> {
    let trial = tempfile::tempdir().map_err(|e| {
        Error::io(
            "cannot make a folder for trials in",
            std::env::temp_dir(),
            e,
        )
    })?;
    let of_trials = WriteOptions {
        refuses_existing: false,
        ..options.clone()
    };
    // The folder of trials is deleted at the end, also after an error.
    let grace = interrupt::grace();
    let mut best: Option<(u64, Format, u8, Loss)> = None;
    let mut nearest = f64::INFINITY;
    for &format in formats {
        for degree in (0..=splats.sh_degree.min(format.max_sh_degree())).rev() {
            grace.check(|| "stopped before a file was chosen; nothing was written".to_owned())?;
            let less = splats.clone().with_sh_degree(degree);
            let path = trial.path().join(format.file_name("trial"));
            write(&path, &less, format, &of_trials, console)?;
            let bytes = splat_file::size_bytes(&path, format);
            if best
                .as_ref()
                .is_some_and(|(smallest, ..)| bytes >= *smallest)
            {
                continue;
            }
            let loss = judge.loss(&read_back(&path, options)?, console)?;
            console.note(&format!(
                "tried .{}, SH degree {degree}: {}, {:.2} dB",
                format.extension(),
                human_bytes(bytes),
                loss.lost_db
            ));
            nearest = nearest.min(loss.lost_db);
            if loss.lost_db > most {
                // A lower degree loses more.
                break;
            }
            best = Some((bytes, format, degree, loss));
        }
    }
    let Some((_, format, degree, loss)) = best else {
        // Two significant digits.
        let digits = (1.0 - nearest.abs().log10().floor()).clamp(2.0, 9.0) as usize;
        return Err(Error::input(format!("no file loses as little as {most} dB: the best of them loses {nearest:.digits$} dB"))
            .at("--max-loss")
            .hint("name another format, or a larger loss; the loss includes --min-opacity and --max-gaussians"));
    };
    let output = match Format::of_name(&args.output) {
        Ok(_) => args.output.clone(),
        Err(_) => args.output.with_extension(format.extension()),
    };
    refuse_existing(&output, args.overwrite)?;
    write(
        &output,
        &splats.clone().with_sh_degree(degree),
        format,
        options,
        console,
    )?;
    Ok(Done {
        output,
        gaussians: splats.len(),
        sh_degree: degree,
        loss: Some(loss),
        levels: Vec::new(),
    })
}
