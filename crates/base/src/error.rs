//! One error type for the whole house: what, where, `hint:`.
//!
//! An error is written for the person who reads it in a terminal. `what` says what was wrong in a
//! sentence, `place` where (a file, an offset, an image name), `hint` what to do next.

use crate::printable;
use std::fmt;
use std::path::Path;

/// A result whose error says what, where and what to do.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The family an [`Error`] belongs to. The command line turns it into an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A file, a value or an option that cannot be used as it is.
    Input,
    /// The operating system refused: missing file, no permission, full disk.
    Io,
    /// Understood, but this build, device or format cannot do it.
    Unsupported,
    /// Stopped on request; what was finished has been saved.
    Interrupted,
    /// A defect of Dapple itself.
    Internal,
}

/// What went wrong, where, and what to do about it.
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
    /// An error of the given kind; `what` is one sentence without a full stop.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            place: None,
            hint: None,
            source: None,
        }
    }

    /// Bad input: a file, a value or an option that cannot be used.
    pub fn input(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, what)
    }

    /// Something that is understood but not possible here.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, what)
    }

    /// A defect of Dapple itself: never the user's fault.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, what)
            .hint("this is a defect of Dapple: please report it with the command that shows it")
    }

    /// An operating-system error while doing `what` to `path`, with a hint for the usual causes.
    pub fn io(what: impl Into<String>, path: impl AsRef<Path>, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let hint = match source.kind() {
            Io::NotFound => Some("check the path: nothing is there"),
            Io::PermissionDenied => Some("check the permissions of the file and its folder"),
            Io::StorageFull | Io::QuotaExceeded => {
                Some("the disk is full: free some space or choose another folder")
            }
            Io::ReadOnlyFilesystem => Some("the file system is read-only: choose another folder"),
            Io::IsADirectory => Some("this is a folder: name a file"),
            Io::NotADirectory | Io::AlreadyExists => {
                Some("a file stands where a folder is needed: choose another path")
            }
            _ => Some("check the path and the disk, or choose another folder"),
        };
        let mut error = Self::new(ErrorKind::Io, format!("{}: {source}", what.into()))
            .at(path.as_ref().display().to_string());
        error.hint = hint.map(str::to_owned);
        error.source = Some(Box::new(source));
        error
    }

    /// Where it happened: a file, an offset, an image name.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Where it happened, when the place is a path.
    #[must_use]
    pub fn at_path(self, path: impl AsRef<Path>) -> Self {
        self.at(path.as_ref().display().to_string())
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error underneath, kept for `source()`.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The family of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// One sentence: what went wrong.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Where it happened, if known.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// What to do about it, if there is something to say.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names of photos may hold line breaks, which would look like lines of ours.
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
