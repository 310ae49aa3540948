//! Defines [`Error`], the error type of all crates: what failed, where, and a hint.
//!
//! An error is written for a reader at a terminal. `what` is a sentence about the failure, `place`
//! is its place (a file, an offset, an image name), and `hint` is the next action.

use crate::printable;
use std::fmt;
use std::path::Path;

/// Result with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an [`Error`]. The command line turns it into an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Invalid file, value or option.
    Input,
    /// Error of the operating system: missing file, no permission, full disk.
    Io,
    /// Valid input that this build, device or format does not support.
    Unsupported,
    /// Stop on request; finished work has been saved.
    Interrupted,
    /// Defect of Dapple itself.
    Internal,
}

/// Error with its failure, its place and a hint.
///
/// ```
/// use dapple_base::Error;
/// let error = Error::input("the file ends in the middle of point 17")
///     .at("sparse/0/points3D.bin, byte 4096")
///     .hint("copy the file again: it is shorter than its header says");
/// assert!(error.to_string().contains("hint:"));
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    place: Option<String>,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error of the given kind; `what` is one sentence without a full stop.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            place: None,
            hint: None,
            source: None,
        }
    }

    /// Creates an error about an invalid file, value or option.
    pub fn input(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, what)
    }

    /// Creates an error about valid input that is not supported.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, what)
    }

    /// Creates an error about a defect of Dapple itself, which the user cannot cause.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, what)
            .hint("this is a defect of Dapple: please report it with the command that shows it")
    }

    /// Creates an operating-system error while doing `what` to `path`, with a hint for the usual
    /// causes.
    pub fn io(what: impl Into<String>, path: impl AsRef<Path>, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let what = what.into();
        let what = match source.kind() {
            Io::UnexpectedEof => format!("{what}: it ends too early"),
            Io::WriteZero => format!("{what}: nothing more can be written"),
            _ => format!("{what}: {source}"),
        };
        let hint = match source.kind() {
            _ if is_out_of_files(&source) => Some(
                "raise the limit on open files (`ulimit -n`), or close programs that hold many open",
            ),
            Io::UnexpectedEof => Some("the file is damaged or cut: copy or export it again"),
            Io::FileTooLarge => Some(
                "raise the limit on the size of files (`ulimit -f`), or choose another file system",
            ),
            Io::InvalidFilename => {
                Some("the name is too long, or has characters that the file system refuses")
            }
            Io::NotFound => Some("check the path: nothing is there"),
            Io::PermissionDenied => Some("check the permissions of the file and its folder"),
            Io::StorageFull | Io::QuotaExceeded => {
                Some("the disk is full: free some space or choose another folder")
            }
            Io::ReadOnlyFilesystem => Some("the file system is read-only: choose another folder"),
            Io::IsADirectory => Some("this is a folder: name a file"),
            Io::NotADirectory | Io::AlreadyExists => {
                Some("a part of the path is a file, not a folder: choose another path")
            }
            _ => Some("check the path and the disk, or choose another folder"),
        };
        let mut error = Self::new(ErrorKind::Io, what).at(path.as_ref().display().to_string());
        error.hint = hint.map(str::to_owned);
        error.source = Some(Box::new(source));
        error
    }

    /// Sets the place: a file, an offset, an image name.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Sets the place to a path.
    #[must_use]
    pub fn at_path(self, path: impl AsRef<Path>) -> Self {
        self.at(path.as_ref().display().to_string())
    }

    /// Sets the hint: the next action for the reader.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the cause, for `source()`.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the sentence about the failure.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the place, if known.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// Returns the hint, if there is one.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Returns the text of a decoder's error for the user. Decoders report a file that was cut in the words of their reads.
pub fn decoder_fault(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    let of_reads = ["failed to fill whole buffer", "unexpected end of file"];
    match of_reads.iter().any(|words| text.contains(words)) {
        true => "it ends too early".to_owned(),
        false => text,
    }
}

/// Returns true if the process, or the system, has no file descriptor left: EMFILE, ENFILE, or their codes on Windows.
fn is_out_of_files(error: &std::io::Error) -> bool {
    let codes: &[i32] = if cfg!(windows) {
        &[4, 10024]
    } else {
        &[23, 24]
    };
    error
        .raw_os_error()
        .is_some_and(|code| codes.contains(&code))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names of photos may contain line breaks, which would look like lines of Dapple's message.
        f.write_str(&printable(&self.what))?;
        if let Some(place) = &self.place {
            write!(f, "\n  at: {}", printable(place))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {}", printable(hint))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn errors_of_the_system_have_a_hint_for_their_cause() {
        let told =
            |source: io::Error| Error::io("cannot read the file", "a.ply", source).to_string();
        let short = told(io::ErrorKind::UnexpectedEof.into());
        assert!(
            short.contains("ends too early") && short.contains("copy"),
            "{short}"
        );
        let large = told(io::ErrorKind::FileTooLarge.into());
        assert!(large.contains("ulimit -f"), "{large}");
        let cut = io::Error::other("Io: failed to fill whole buffer");
        assert_eq!(decoder_fault(&cut), "it ends too early");
        assert_eq!(decoder_fault(&"a bad marker"), "a bad marker");
        if cfg!(unix) {
            let many = told(io::Error::from_raw_os_error(24));
            assert!(many.contains("ulimit -n"), "{many}");
        }
    }
}
