//! The crate's error: what, where, `hint:`.

use std::fmt;
use std::path::Path;

/// A result whose error says what, where and what to do.
pub type Result<T> = std::result::Result<T, Error>;

/// The family an [`Error`] belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A file, a value or a recording that cannot be used as it is.
    Input,
    /// The operating system refused.
    Io,
}

/// What went wrong, where, and what to do about it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    place: Option<String>,
    hint: Option<String>,
    source: Option<std::io::Error>,
}

impl Error {
    /// Something that cannot be used as it is; one sentence without a full stop.
    pub fn input(what: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Input,
            what: what.into(),
            place: None,
            hint: None,
            source: None,
        }
    }

    /// An error of the operating system while doing `what` to `path`.
    pub fn io(what: impl Into<String>, path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let hint = match source.kind() {
            Io::NotFound => "check the path: nothing is there",
            Io::PermissionDenied | Io::ReadOnlyFilesystem => {
                "check the permissions of the file and its folder, or choose another folder"
            }
            Io::StorageFull | Io::QuotaExceeded => {
                "the disk is full: free some space or choose another folder"
            }
            Io::IsADirectory | Io::NotADirectory => "check the path: it is not a file in a folder",
            _ => "check the file and its folder, or choose another folder",
        };
        Self {
            kind: ErrorKind::Io,
            what: what.into(),
            place: Some(path.display().to_string()),
            hint: Some(hint.into()),
            source: Some(source),
        }
    }

    /// Says where: a file, an offset, a step.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The family it belongs to.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was wrong.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Where, if known.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// What to do, if known.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", self.what)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
