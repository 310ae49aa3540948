//! Bounded reads of whole files. A path may be a device, an endless pipe, or another file than
//! intended.

use crate::{Error, Result};
use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read};
use std::path::Path;

/// Maximum size of a configuration, a camera or a plan, bytes: a hundred times the largest known.
pub const SETTINGS_BYTES: u64 = 16 << 20;

/// Maximum size of a list of cameras, bytes: a million frames with their matrices.
pub const CAMERAS_BYTES: u64 = 1 << 30;

/// Maximum size of a photo, a mask or a depth image, bytes.
pub const IMAGE_BYTES: u64 = 4 << 30;

/// Maximum size of a file of a reconstruction, bytes: a billion points with their tracks.
pub const MODEL_BYTES: u64 = 256 << 30;

/// Maximum size of the data from a pipe or a device, bytes.
const STREAM_BYTES: u64 = 256 << 20;

/// Opens the file at `path` for reading. Refuses named pipes and terminals: a read would wait for another process or
/// for the user. Pipes of a shell (`<(...)`, `/dev/stdin`) have a writer, and are opened.
///
/// # Errors
/// An error of the operating system; a named pipe or a terminal.
pub fn open(what: &str, path: &Path) -> Result<File> {
    let failed = |source| Error::io(what, path, source);
    let refused = |kind: &str| {
        Error::input(format!("{what}: it is {kind}, not a file"))
            .at_path(path)
            .hint("name a file; if the path is part of a capture, replace it with the file that is meant")
    };
    // The check precedes the opening, which waits for the writer of a pipe. A shell's pipe has no path of its own.
    // A pipe of a shell has no path on Linux, and one below `/dev/fd` on macOS.
    let is_named = || {
        path.canonicalize()
            .is_ok_and(|whole| !whole.starts_with("/dev/fd"))
    };
    if is_pipe(&path.metadata().map_err(failed)?) && is_named() {
        return Err(refused("a named pipe"));
    }
    let file = File::open(path).map_err(failed)?;
    match file.is_terminal() {
        true => Err(refused("a terminal")),
        false => Ok(file),
    }
}

#[cfg(unix)]
fn is_pipe(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_: &std::fs::Metadata) -> bool {
    false
}

/// Reads the file at `path`, if it has at most `most` bytes. `what` describes the failure: "cannot read
/// the photo".
///
/// # Errors
/// See [`open`]; a larger file, detected before it is read; a pipe or a device with more data.
pub fn read(what: &str, path: &Path, most: u64) -> Result<Vec<u8>> {
    let failed = |source| Error::io(what, path, source);
    let file = open(what, path)?;
    let metadata = file.metadata().map_err(failed)?;
    let most = match metadata.is_file() {
        true => most,
        false => most.min(STREAM_BYTES),
    };
    if metadata.is_file() && metadata.len() > most {
        return Err(too_large(what, path, most));
    }
    // Files of /proc have content despite a length of zero; reading a growing file ends at the limit.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    match bytes.len() as u64 > most {
        true => Err(too_large(what, path, most)),
        false => Ok(bytes),
    }
}

/// Reads a text file as [`read`] does, without a byte order mark; UTF-16 is decoded ([`crate::text`]).
///
/// # Errors
/// See [`read`]; also bytes that are not UTF-8, with the position of the first.
pub fn read_text(what: &str, path: &Path, most: u64) -> Result<String> {
    let bytes = read(what, path, most)?;
    let utf8 = match crate::text::to_utf8(&bytes) {
        Cow::Borrowed(same) if same.len() == bytes.len() => None,
        other => Some(other.into_owned()),
    };
    String::from_utf8(utf8.unwrap_or(bytes)).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::input(format!("{what}: it is not text in UTF-8"))
            .at(format!("{}, byte {at}", path.display()))
            .hint("save it as UTF-8 in an editor, or name another file")
            .caused_by(std::io::Error::new(ErrorKind::InvalidData, e))
    })
}

fn too_large(what: &str, path: &Path, most: u64) -> Error {
    let most = match most >> 30 {
        0 => format!("{} MiB", most >> 20),
        gib => format!("{gib} GiB"),
    };
    Error::input(format!("{what}: it holds more than {most}"))
        .at_path(path)
        .hint("no such file is as large: check that the right one is named")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_file_at_the_limit_is_read_and_one_beyond_it_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read("cannot read it", &path, 100).unwrap(), [7; 100]);
        let error = read("cannot read it", &path, 99).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.hint_text().is_some(), "{error}");
    }

    #[test]
    fn a_sparse_file_of_terabytes_is_refused_unread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // Not every file system supports such files.
        if File::create(&path).unwrap().set_len(1 << 40).is_ok() {
            let error = read("cannot read it", &path, SETTINGS_BYTES).unwrap_err();
            assert!(error.what().contains("more than 16 MiB"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_device_without_end_is_refused() {
        let zero = Path::new("/dev/zero");
        let error = read("cannot read it", zero, SETTINGS_BYTES).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert_eq!(error.place(), Some("/dev/zero"));
        // With the largest limit of all.
        assert!(read("cannot read it", zero, MODEL_BYTES).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_named_pipe_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link] {
            let error = open("cannot read it", path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(error.what().contains("a named pipe"), "{error}");
            assert!(read("cannot read it", path, 10).is_err());
        }
        // The pipe of a shell has a writer.
        let script = format!("cat {}", folder.path().join("file").display());
        std::fs::write(folder.path().join("file"), "text").unwrap();
        let mut child = std::process::Command::new("sh")
            .args(["-c", &script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&out));
        if Path::new(&path).exists() {
            assert_eq!(read("cannot read it", path.as_ref(), 10).unwrap(), b"text");
        }
        child.wait().unwrap();
    }

    #[test]
    fn text_is_read_without_its_byte_order_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bytes in [
            &b"\xef\xbb\xbfsteps = 1"[..],
            b"\xff\xfes\0t\0e\0p\0s\0 \0=\0 \x001\0",
        ] {
            std::fs::write(&path, bytes).unwrap();
            let text = read_text("cannot read it", &path, 100).unwrap();
            assert_eq!(text, "steps = 1");
        }
    }

    #[test]
    fn what_is_no_text_is_input_that_cannot_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"steps = \xff").unwrap();
        let error = read_text("cannot read it", &path, 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.place().is_some_and(|p| p.ends_with("byte 8")));
    }
}
