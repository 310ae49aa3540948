//! Encodes pictures as a video with an installed ffmpeg.

use dapple::scene::{Error, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// Pictures per second.
pub const FRAMES_PER_SECOND: u32 = 30;

/// Returns true if the path ends in a video extension.
pub fn is_video(path: &Path) -> bool {
    let end = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    matches!(end.as_deref(), Some("mp4" | "mov" | "mkv" | "webm"))
}

/// Checks that ffmpeg is installed, before anything is rendered.
///
/// # Errors
/// ffmpeg is missing.
pub fn check(out: &Path) -> Result<()> {
    let mut version = Command::new("ffmpeg");
    version.arg("-version").stdin(Stdio::null());
    match version.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(
            Error::unsupported("ffmpeg, which encodes videos, is not installed")
                .at_path(out)
                .hint("install ffmpeg, or name a folder for single pictures"),
        ),
    }
}

/// Encodes the pictures `00000.png` and on in a folder as a video. An existing video is replaced when the new one is
/// complete.
///
/// # Errors
/// ffmpeg fails; the error has its last message.
pub fn encode(pictures: &Path, out: &Path) -> Result<()> {
    let name = out
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    // ffmpeg selects the container by the extension. The pictures' folder is removed in any case.
    let part = pictures.join(name.unwrap_or_default());
    let made = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-y", "-framerate"])
        .arg(FRAMES_PER_SECOND.to_string())
        .arg("-i")
        .arg(pictures.join("%05d.png"))
        // Players need even sides and this pixel format.
        .args([
            "-vf",
            "crop=trunc(iw/2)*2:trunc(ih/2)*2",
            "-pix_fmt",
            "yuv420p",
        ])
        .arg(&part)
        .stdin(Stdio::null())
        .output();
    match made {
        Ok(made) if made.status.success() => {
            std::fs::rename(&part, out).map_err(|e| Error::io("cannot write the video", out, e))
        }
        Ok(made) => {
            let said = String::from_utf8_lossy(&made.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            let what = format!(
                "ffmpeg cannot make the video: {}",
                last.unwrap_or("it printed no reason")
            );
            Err(Error::unsupported(what)
                .at_path(out)
                .hint("name another kind of video, such as .mp4, or a folder for single pictures"))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => check(out),
        Err(e) => Err(Error::io("cannot run ffmpeg for", out, e)),
    }
}
