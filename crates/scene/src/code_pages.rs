//! Names of photos, and whole documents, in other code pages than UTF-8.
//!
//! 1. The bytes of the names may be the bytes of the files' names (Unix file systems allow any bytes).
//! 2. Else each code page decodes the names. The code page under which most files exist is the right one. All names of
//!    a capture must fit, so a wrong code page is unlikely to give names of other files.
//! 3. If no file exists under any code page, the names stay one character per byte, and the photos are missing.

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, Encoding, GB18030, IBM866, ISO_8859_2, KOI8_R, MACINTOSH, SHIFT_JIS,
    WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253, WINDOWS_1254,
};
use std::path::{Path, PathBuf};

/// Code pages of file systems and archives, the most common first. Of equal results the first is used.
static CODE_PAGES: [&Encoding; 15] = [
    WINDOWS_1252,
    WINDOWS_1251,
    SHIFT_JIS,
    GB18030,
    WINDOWS_1250,
    BIG5,
    EUC_KR,
    EUC_JP,
    IBM866,
    KOI8_R,
    MACINTOSH,
    ISO_8859_2,
    WINDOWS_1253,
    WINDOWS_1254,
    encoding_rs::WINDOWS_874,
];

/// A code page, and the names under it; `None` for the bytes of the files' names themselves.
pub(crate) struct Matched {
    code_page: Option<&'static Encoding>,
    found: usize,
}

impl Matched {
    /// Finds the code page under which most of `names` are files below `folder`; `None` if no file is found.
    pub(crate) fn find(folder: &Path, names: &[&[u8]]) -> Option<Self> {
        let pages = CODE_PAGES.iter().copied().map(Some);
        let tried = std::iter::once(None).chain(pages).map(|code_page| {
            let exists = |name: &&&[u8]| {
                let path = path(code_page, name).map(|path| folder.join(path));
                path.is_some_and(|path| path.is_file())
            };
            let found = names.iter().filter(exists).count();
            Self { code_page, found }
        });
        // The first of equal results.
        let best = tried.reduce(|best, next| if next.found > best.found { next } else { best });
        best.filter(|best| best.found > 0)
    }

    /// Returns the name as text, if it has a text form, and the path of its file.
    pub(crate) fn name(&self, name: &[u8]) -> Option<(Option<String>, PathBuf)> {
        let text = match self.code_page {
            Some(page) => Some(decode(page, name)?),
            None => None,
        };
        Some((text, path(self.code_page, name)?))
    }

    /// Returns the note on the code page.
    pub(crate) fn note(&self, names: usize) -> String {
        let by = match self.code_page {
            Some(page) => format!("they are read as {}", page.name()),
            None => "their bytes are those of the files' names".to_owned(),
        };
        format!(
            "the names of {names} photos are not UTF-8: {by}, which finds {}",
            self.found
        )
    }
}

/// Decodes a document under each code page in which all its bytes are characters; returns each page's name too.
pub(crate) fn decoded(bytes: &[u8]) -> impl Iterator<Item = (&'static str, String)> {
    let pages = CODE_PAGES.iter().copied();
    pages.filter_map(|page| Some((page.name(), decode(page, bytes)?)))
}

fn decode(page: &'static Encoding, name: &[u8]) -> Option<String> {
    let text = page.decode_without_bom_handling_and_without_replacement(name)?;
    Some(text.into_owned())
}

fn path(page: Option<&'static Encoding>, name: &[u8]) -> Option<PathBuf> {
    let path = match page {
        Some(page) => PathBuf::from(decode(page, name)?.replace('\\', "/")),
        None => bytes_as_path(name)?,
    };
    // Names have the restrictions of UTF-8 names: no path outside the folder.
    let inside = path.components().all(|part| {
        matches!(
            part,
            std::path::Component::Normal(_) | std::path::Component::CurDir
        )
    });
    inside.then_some(path)
}

#[cfg(unix)]
fn bytes_as_path(name: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name)))
}

#[cfg(not(unix))]
fn bytes_as_path(_: &[u8]) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::fs;

    #[test]
    fn names_are_matched_with_the_files_that_there_are() {
        let cases = [
            (WINDOWS_1252, "Übung Straße.jpg"),
            (WINDOWS_1251, "кадр_01.jpg"),
            (SHIFT_JIS, "写真ソ.jpg"),
            (EUC_KR, "사진.jpg"),
        ];
        for (page, name) in cases {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(name), "").unwrap();
            let (bytes, _, failed) = page.encode(name);
            assert!(!failed);
            let matched = Matched::find(folder.path(), &[&bytes]).unwrap();
            let (text, path) = matched.name(&bytes).unwrap();
            assert_eq!(
                (text.as_deref(), path.as_path()),
                (Some(name), Path::new(name))
            );
            assert!(matched.note(1).contains(page.name()));
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(Matched::find(folder.path(), &[b"\xff.jpg"]).is_none());
        // A name that leads out of the folder has no file.
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("ü.jpg"), "").unwrap();
        assert!(Matched::find(&folder.path().join("inner"), &[b"../\xfc.jpg"]).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn bytes_of_file_names_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = b"\xdcbung.jpg";
        // Some file systems refuse such names.
        if fs::write(folder.path().join(bytes_as_path(bytes).unwrap()), "").is_ok() {
            let matched = Matched::find(folder.path(), &[bytes]).unwrap();
            let (text, path) = matched.name(bytes).unwrap();
            assert_eq!((text, path), (None, bytes_as_path(bytes).unwrap()));
        }
    }
}
