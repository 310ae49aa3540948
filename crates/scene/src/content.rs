//! Checksums of a capture's files at the time of reading, so that a later change is detected.

use crate::{Result, bounded};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Length and CRC-32 of a file. They detect another photo of the same name, but not a deliberate forgery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Length in bytes.
    pub bytes: u64,
    /// CRC-32 (ISO-HDLC) of the bytes.
    pub crc: u32,
}

/// Checksums of a view's input files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewFiles {
    /// Checksum of the photo.
    pub photo: Option<FileSum>,
    /// Checksum of the mask, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<FileSum>,
    /// Checksum of the depth image, if the photo has one and [`crate::LoadOptions::depths`] is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<FileSum>,
}

impl FileSum {
    /// Computes the checksum of a file's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            crc: crc32fast::hash(bytes),
        }
    }

    /// Computes the checksum of a file on disk.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_file(path: &Path) -> Result<Self> {
        let bytes = bounded::read("cannot read the file", path, bounded::IMAGE_BYTES)?;
        Ok(Self::from_bytes(&bytes))
    }
}
