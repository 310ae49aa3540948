//! Formats of several files: access to the files by names relative to the main file, which names all others.

use super::foreign;
use crate::{Error, Result};
use dapple_base::bounded;
use std::borrow::Cow;
use std::path::Path;

/// Maximum size of a JSON file that names the others, bytes: SOG's three codebooks are 15 kB.
pub(super) const META_BYTES: u64 = 1 << 20;

/// Contents of files with their names.
pub(super) type NamedFiles = Vec<(String, Vec<u8>)>;

/// Files by name.
pub(super) trait Files: Sync {
    /// Returns a file's content.
    fn get(&self, name: &str) -> Result<Cow<'_, [u8]>>;
    /// Size of a file in bytes; 0 if the file is missing.
    fn size(&self, name: &str) -> usize;
    /// Returns true if the file is known to be missing before it is read.
    fn is_missing(&self, _name: &str) -> bool {
        false
    }
}

/// Files of a folder.
pub(super) struct Folder<'a>(pub &'a Path);

impl Files for Folder<'_> {
    fn get(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        let path = self.0.join(name);
        let bytes = bounded::read("cannot read the file", &path, bounded::IMAGE_BYTES)?;
        match foreign::by_content(&bytes) {
            Some(error) => Err(error.at_path(&path)),
            None => Ok(Cow::Owned(bytes)),
        }
    }

    fn is_missing(&self, name: &str) -> bool {
        !self.0.join(name).is_file()
    }

    fn size(&self, name: &str) -> usize {
        std::fs::metadata(self.0.join(name)).map_or(0, |file| file.len() as usize)
    }
}

/// Files in memory.
pub(super) struct Memory<'a>(pub &'a [(String, Vec<u8>)]);

impl Memory<'_> {
    fn find(&self, name: &str) -> Option<&[u8]> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, bytes)| &bytes[..])
    }
}

impl Files for Memory<'_> {
    fn get(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        match self.find(name) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => Err(Error::input(format!("there is no file {name:?}"))
                .at(name.to_owned())
                .hint("a file of the folder is missing: copy or export all of it again")),
        }
    }

    fn size(&self, name: &str) -> usize {
        self.find(name).map_or(0, <[u8]>::len)
    }

    fn is_missing(&self, name: &str) -> bool {
        self.find(name).is_none()
    }
}

/// Files next to one that names them; files of other folders are refused.
pub(super) struct SiblingFiles<'a> {
    files: &'a dyn Files,
    /// Prefix of their names, with the slash; empty at the top.
    folder: &'a str,
    meta: &'a str,
}

impl<'a> SiblingFiles<'a> {
    /// Selects the files next to `meta`, which may be in a folder of `files`.
    pub(super) fn new(files: &'a dyn Files, meta: &'a str) -> Self {
        let folder = meta.rfind('/').map_or("", |at| &meta[..=at]);
        Self {
            files,
            folder,
            meta,
        }
    }
}

impl Files for SiblingFiles<'_> {
    fn get(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        if name.contains('/') || !is_inside(name) {
            let what = format!("{} names {name:?}, which is not next to it", self.meta);
            return Err(Error::input(what)
                .at(self.meta.to_owned())
                .hint("the file is damaged or cut: copy or export it again"));
        }
        self.files.get(&format!("{}{name}", self.folder))
    }

    fn size(&self, name: &str) -> usize {
        match name.contains('/') || !is_inside(name) {
            true => 0,
            false => self.files.size(&format!("{}{name}", self.folder)),
        }
    }

    fn is_missing(&self, name: &str) -> bool {
        // A name that leads to another folder is refused at its reading.
        !name.contains('/') && is_inside(name) && {
            self.files.is_missing(&format!("{}{name}", self.folder))
        }
    }
}

/// Returns true if a name is inside the folder, on every system.
pub(super) fn is_inside(name: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    name.split('/').all(is_plain) && !name.contains(['\\', ':', '\0'])
}
