//! Frames of a video, with an installed ffmpeg.
//!
//! 1. ffmpeg writes three candidates per wanted frame.
//! 2. From each window of three, the sharpest candidate is used.
//! 3. A frame that is blurred compared with its neighbours is dropped, and so is one that shows almost the same as the
//!    last used frame.

use crate::inputs::Source;
use crate::photos::stopped;
use crate::sharpness::{Grey, is_blurred, sharpness, typical};
use crate::tool::Job;
use dapple_base::{Error, Progress, Result, bounded};
use dapple_scene::Photo;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable that names ffmpeg.
pub const VARIABLE: &str = "DAPPLE_FFMPEG";

/// Frames per second by default.
const FPS: f64 = 2.0;

/// Most frames of a video by default: its rate is reduced for them.
const MOST: f64 = 300.0;

/// Candidates of a window.
const WINDOW: usize = 3;

/// Difference below which two frames show the same. A shift by 1 % of the width differs by 0.1 to 0.2.
const SAME: f64 = 0.06;

/// Frames on each side that a frame's sharpness is compared with.
const AROUND: usize = 15;

/// Candidate frame.
struct Candidate {
    path: PathBuf,
    sharpness: f64,
    small: Grey,
}

/// A video, and the program that reads it.
#[derive(Debug, Clone)]
pub struct Video {
    /// File.
    pub path: PathBuf,
    /// Folder of its frames among the photos.
    pub name: String,
    /// Frames per second.
    pub fps: Option<f64>,
    /// Program.
    pub ffmpeg: PathBuf,
}

/// Frames of one video.
#[derive(Debug, Default)]
pub struct Frames {
    /// Used frames.
    pub sources: Vec<Source>,
    /// Number of dropped frames that were blurred.
    pub blurred: usize,
    /// Number of dropped frames that show the same as the frame before.
    pub alike: usize,
}

/// Returns the program: that of `DAPPLE_FFMPEG`, else the one in PATH.
pub fn program() -> PathBuf {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    named.map_or("ffmpeg".into(), PathBuf::from)
}

/// Returns the version of the installed ffmpeg.
pub fn installed(ffmpeg: &Path) -> Option<String> {
    let ran = Command::new(ffmpeg)
        .arg("-version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let first = text.lines().next()?;
    let version = first.strip_prefix("ffmpeg version ").unwrap_or(first);
    ran.status.success().then(|| {
        version
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

/// Length of a video in seconds, from ffmpeg's description; `None` if unknown.
fn duration(ffmpeg: &Path, video: &Path) -> Option<f64> {
    let ran = Command::new(ffmpeg)
        .arg("-hide_banner")
        .arg("-i")
        .arg(video)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    let (_, rest) = text.split_once("Duration: ")?;
    let (time, _) = rest.split_once(',')?;
    let parts: Vec<f64> = time
        .trim()
        .split(':')
        .filter_map(|part| part.parse().ok())
        .collect();
    let [hours, minutes, seconds] = parts.try_into().ok()?;
    Some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// Writes the used frames of a video into `folder`.
///
/// # Errors
/// No ffmpeg, a video that it cannot read, a video without motion, a stop by the caller.
pub fn frames(from: &Video, folder: &Path, progress: &dyn Progress) -> Result<Frames> {
    let video = from.path.as_path();
    if installed(&from.ffmpeg).is_none() {
        return Err(Error::unsupported("ffmpeg, which reads videos, is not installed")
            .at_path(video)
            .hint("install ffmpeg (`apt install ffmpeg`, `brew install ffmpeg`), or give a folder of frames"));
    }
    let length = duration(&from.ffmpeg, video);
    let rate = from
        .fps
        .unwrap_or_else(|| length.map_or(FPS, |length| FPS.min(MOST / length.max(1.0))));
    extract(from, folder, rate, length, progress)?;
    let candidates = measure(folder, progress)?;
    if candidates.is_empty() {
        return Err(Error::input("the video has no frames")
            .at_path(video)
            .hint("play it; if it is damaged, copy it again"));
    }
    let chosen = choose(&candidates);
    let mut found = Frames {
        blurred: chosen.blurred,
        alike: chosen.alike,
        ..Frames::default()
    };
    let mut is_used = vec![false; candidates.len()];
    for &index in &chosen.used {
        is_used[index] = true;
        let path = candidates[index].path.clone();
        let file = path
            .file_name()
            .map_or(String::new(), |file| file.to_string_lossy().into_owned());
        found.sources.push(Source {
            name: format!("{}/{file}", from.name),
            path,
            mask: None,
            is_frame: true,
        });
    }
    for (candidate, _) in candidates.iter().zip(&is_used).filter(|(_, used)| !**used) {
        // Frees the disk; a frame that stays is not used.
        let _ = std::fs::remove_file(&candidate.path);
    }
    if found.sources.len() < 3 && found.alike > 0 {
        return Err(Error::input(format!(
            "the video shows no motion: {} of {} frames are alike",
            found.alike,
            found.alike + found.sources.len()
        ))
        .at_path(video)
        .hint("walk around the object or through the place while filming; a camera that stands still shows no depth"));
    }
    Ok(found)
}

fn extract(
    from: &Video,
    folder: &Path,
    rate: f64,
    length: Option<f64>,
    progress: &dyn Progress,
) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io("cannot create the folder of frames", folder, e))?;
    let candidates = rate * WINDOW as f64;
    let mut command = Command::new(&from.ffmpeg);
    command
        .args([
            "-hide_banner",
            "-y",
            "-nostats",
            "-progress",
            "pipe:1",
            "-i",
        ])
        .arg(&from.path);
    command.arg("-vf").arg(format!("fps={candidates:.6}"));
    command
        .args(["-q:v", "2", "-pix_fmt", "yuvj420p"])
        .arg(folder.join("%06d.jpg"));
    let job = Job {
        what: "reading the video",
        tool: "ffmpeg",
        log: &folder.join("ffmpeg.log"),
        total: length.map_or(0, |length| (length * candidates).ceil() as u64),
        count: |line, _| line.strip_prefix("frame=")?.trim().parse().ok(),
    };
    job.run(&mut command, progress)
}

fn measure(folder: &Path, progress: &dyn Progress) -> Result<Vec<Candidate>> {
    let entries =
        std::fs::read_dir(folder).map_err(|e| Error::io("cannot list the frames", folder, e))?;
    let is_frame = |path: &PathBuf| path.extension().is_some_and(|end| end == "jpg");
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_frame)
        .collect();
    paths.sort();
    progress.start("choosing frames", paths.len() as u64);
    let one = |path: PathBuf| {
        if progress.should_stop() {
            return Err(stopped());
        }
        let bytes = bounded::read("cannot read the frame", &path, bounded::IMAGE_BYTES)?;
        let photo = Photo::from_bytes(&bytes).map_err(|e| e.at_path(&path))?;
        progress.advance(1);
        Ok(Candidate {
            sharpness: sharpness(&photo),
            small: Grey::from_photo(&photo, 96),
            path,
        })
    };
    let measured = paths.into_par_iter().map(one).collect();
    progress.finish();
    measured
}

/// Indices of the used candidates, and the numbers of dropped windows.
struct Chosen {
    used: Vec<usize>,
    blurred: usize,
    alike: usize,
}

fn choose(candidates: &[Candidate]) -> Chosen {
    let mut chosen = Chosen {
        used: Vec::new(),
        blurred: 0,
        alike: 0,
    };
    for (window, members) in candidates.chunks(WINDOW).enumerate() {
        let start = window * WINDOW;
        let best = members
            .iter()
            .enumerate()
            .max_by(|a, b| a.1.sharpness.total_cmp(&b.1.sharpness));
        let Some((offset, best)) = best else { continue };
        let near = start.saturating_sub(AROUND)..(start + AROUND).min(candidates.len());
        let usual = typical(candidates[near].iter().map(|candidate| candidate.sharpness));
        if is_blurred(best.sharpness, usual) {
            chosen.blurred += 1;
            continue;
        }
        let last = chosen.used.last().map(|&index: &usize| &candidates[index]);
        if last.is_some_and(|last| last.small.difference(&best.small) < SAME) {
            chosen.alike += 1;
            continue;
        }
        chosen.used.push(start + offset);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(sharpness: f64, shift: usize) -> Candidate {
        let values = (0..96)
            .map(|x| if (x + shift) % 16 < 8 { 1.0 } else { 0.0 })
            .collect();
        Candidate {
            path: PathBuf::new(),
            sharpness,
            small: Grey {
                width: 96,
                height: 1,
                values,
                rounding: 0.0,
            },
        }
    }

    #[test]
    fn the_sharpest_of_a_window_is_used_and_blurred_and_equal_frames_are_counted() {
        let moving: Vec<Candidate> = (0..18)
            .map(|i| {
                let sharp = if (6..9).contains(&i) {
                    0.28
                } else {
                    0.5 + 0.01 * f64::from(i as u32 % 3)
                };
                candidate(sharp, i)
            })
            .collect();
        let chosen = choose(&moving);
        assert_eq!(chosen.used, [2, 5, 11, 14, 17]);
        assert_eq!((chosen.blurred, chosen.alike), (1, 0));
        let still: Vec<Candidate> = (0..18).map(|_| candidate(0.5, 0)).collect();
        let chosen = choose(&still);
        assert_eq!((chosen.used.len(), chosen.alike), (1, 5));
    }
}
