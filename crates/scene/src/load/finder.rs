//! Finds the files that a capture names, by one set of rules for photos, masks, models and points.
//!
//! 1. The name as the capture has it.
//! 2. The name in other letters: upper and lower case, composed and decomposed Unicode.
//! 3. The name with another file extension of a photo. An extension is one of [`READ`] or [`FOREIGN`]. A name without
//!    such an extension keeps all its parts.
//! 4. The path below another folder: paths of another machine and paths that begin at the folder of a project lose
//!    their first parts, until a folder of the capture holds the files.
//!
//! A rule applies only if all rules before it find nothing. If a rule finds several files, the finder refuses the
//! capture and names two of them. Each folder is listed once.

mod refusals;

use crate::Result;
use refusals::{ambiguous, check_depth, check_used_once};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use unicode_normalization::UnicodeNormalization;

/// File extensions of photos that Dapple reads, in lower case.
pub(crate) const READ: [&str; 9] = [
    "png", "jpg", "jpeg", "jpe", "jfif", "webp", "tif", "tiff", "bmp",
];

/// File extensions of photos that other programs read, in lower case.
pub(crate) const FOREIGN: [&str; 27] = [
    "heic", "heif", "hif", "avif", "jxl", "jp2", "gif", "exr", "hdr", "tga", "ppm", "pgm", "pnm",
    "psd", "dng", "cr2", "cr3", "nef", "arw", "raf", "orf", "rw2", "pef", "srw", "raw", "insp",
    "icloud",
];

/// Rule by which a file was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    /// By the exact name.
    Exact,
    /// In other letters: case or Unicode form.
    Letters,
    /// With another extension, or with one if the capture gives none.
    Ending,
}

/// A file that was found for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    pub path: PathBuf,
    pub how: How,
    /// True if the file is in another folder than the capture names.
    pub moved: bool,
}

/// Folders that may contain the named files.
pub(crate) struct Places {
    /// The folder that the names are relative to.
    pub first: PathBuf,
    /// Folders that may replace it.
    pub others: Vec<PathBuf>,
    /// The folder whose subfolders are searched last.
    pub below: Option<PathBuf>,
}

/// The result of a search in one folder.
enum Hit {
    Nothing,
    File(OsString, How),
    Several(Vec<OsString>),
}

/// The contents of a folder.
#[derive(Default)]
pub(crate) struct Listing {
    /// Names of files, sorted.
    pub files: Vec<OsString>,
    /// Names of folders, sorted.
    pub folders: Vec<OsString>,
    /// Indices into `files` by normalised name.
    by_name: HashMap<String, Vec<usize>>,
    /// Indices into `files` by normalised name without the extension of a photo that Dapple reads.
    by_stem: HashMap<String, Vec<usize>>,
}

/// Normalises a name: composed Unicode in lower case.
pub(crate) fn fold(name: &str) -> String {
    match name.is_ascii() {
        true => name.to_ascii_lowercase(),
        false => name.nfc().flat_map(char::to_lowercase).nfc().collect(),
    }
}

/// Splits a name into its stem and its extension in lower case, if the extension is of a photo.
pub(crate) fn split_ending(name: &str) -> (&str, Option<String>) {
    let Some((stem, ending)) = name.rsplit_once('.') else {
        return (name, None);
    };
    let ending = ending.to_ascii_lowercase();
    let known = READ.contains(&&*ending) || FOREIGN.contains(&&*ending);
    match known && !stem.is_empty() {
        true => (stem, Some(ending)),
        false => (name, None),
    }
}

/// Decodes the codes of a URL (`%20`) in a name; `None` if it has none.
fn percent_decoded(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    (out.len() < bytes.len())
        .then(|| String::from_utf8(out).ok())
        .flatten()
}

/// Returns true if two extensions belong to one format.
fn is_same_format(a: &str, b: &str) -> bool {
    let kind = |ending: &str| match ending {
        "jpeg" | "jpe" | "jfif" => "jpg".to_owned(),
        "tiff" => "tif".to_owned(),
        other => other.to_owned(),
    };
    kind(a) == kind(b)
}

impl Listing {
    fn read(folder: &Path) -> Self {
        let mut listing = Self::default();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            // Links are followed.
            let is_folder = match kind.is_symlink() {
                true => entry.path().is_dir(),
                false => kind.is_dir(),
            };
            match is_folder {
                true => listing.folders.push(entry.file_name()),
                false => listing.files.push(entry.file_name()),
            }
        }
        listing.files.sort();
        listing.folders.sort();
        for (index, name) in listing.files.iter().enumerate() {
            let name = name.to_string_lossy();
            // AppleDouble files are not photos.
            if name.starts_with("._") {
                continue;
            }
            let (stem, ending) = split_ending(&name);
            if ending.is_some_and(|ending| READ.contains(&&*ending)) {
                listing.by_stem.entry(fold(stem)).or_default().push(index);
            }
            listing.by_name.entry(fold(&name)).or_default().push(index);
        }
        listing
    }

    /// Returns the files of this name in any letters.
    pub fn named(&self, name: &str) -> Vec<&OsString> {
        let found = self.by_name.get(&fold(name)).into_iter().flatten();
        found.map(|&i| &self.files[i]).collect()
    }

    /// Returns the photos of this name, in any letters, with any extension that Dapple reads.
    pub fn with_stem(&self, stem: &str) -> Vec<&OsString> {
        let found = self.by_stem.get(&fold(stem)).into_iter().flatten();
        found.map(|&i| &self.files[i]).collect()
    }

    /// Applies rules 1 to 3.
    fn find(&self, name: &str) -> Hit {
        let composed = |name: &str| name.nfc().collect::<String>();
        let wanted = composed(name);
        // Among several files, the one that differs only in its Unicode form.
        let one_of = |found: Vec<&OsString>, how: How| {
            let same = |file: &&&OsString| composed(&file.to_string_lossy()) == wanted;
            let mut equal = found.iter().filter(same);
            match (&*found, equal.next(), equal.next()) {
                ([], ..) => Hit::Nothing,
                ([file], ..) | (_, Some(file), None) => Hit::File((*file).clone(), how),
                _ => Hit::Several(found.into_iter().cloned().collect()),
            }
        };
        if let Ok(at) = self
            .files
            .binary_search_by(|file| file.as_os_str().cmp(name.as_ref()))
        {
            return Hit::File(self.files[at].clone(), How::Exact);
        }
        let hit = one_of(self.named(name), How::Letters);
        if !matches!(hit, Hit::Nothing) {
            return hit;
        }
        let (stem, ending) = split_ending(name);
        let found = self.with_stem(stem);
        let Some(ending) = ending else {
            return one_of(found, How::Ending);
        };
        let ending_of = |file: &OsString| split_ending(&file.to_string_lossy()).1;
        let same_format = found.iter().copied().filter(|file| {
            ending_of(file).is_some_and(|of_file| is_same_format(&of_file, &ending))
        });
        let same_format: Vec<&OsString> = same_format.collect();
        let hit = one_of(same_format, How::Ending);
        if !matches!(hit, Hit::Nothing) {
            return hit;
        }
        let hit = one_of(found, How::Ending);
        if !matches!(hit, Hit::Nothing) {
            return hit;
        }
        // `a.jpg` that was converted to `a.jpg.png`.
        let hit = one_of(self.with_stem(name), How::Ending);
        match (&hit, percent_decoded(name)) {
            // Names from URLs. Each decoding is shorter, so the recursion ends.
            (Hit::Nothing, Some(decoded)) => self.find(&decoded),
            _ => hit,
        }
    }
}

/// Limits of the search: number of subfolders, and depth.
const SEARCHED_FOLDERS: usize = 2_000;
const SEARCHED_DEPTH: usize = 4;

/// Lists folders once, and finds files in them.
#[derive(Default)]
pub(crate) struct Finder {
    listings: HashMap<PathBuf, Listing>,
}

impl Finder {
    /// Returns the contents of a folder; empty if the folder cannot be listed.
    pub fn list(&mut self, folder: &Path) -> &Listing {
        let listing = self.listings.entry(folder.to_owned());
        listing.or_insert_with(|| Listing::read(folder))
    }

    /// Returns the file of this name in a folder, in any letters.
    pub fn named(&mut self, folder: &Path, name: &str) -> Option<PathBuf> {
        let exact = folder.join(name);
        if exact.is_file() {
            return Some(exact);
        }
        match &*self.list(folder).named(name) {
            [one] => Some(folder.join(one)),
            _ => None,
        }
    }

    /// Returns the subfolders of `place` that `path` names, in any letters.
    pub fn folders(&mut self, place: &Path, path: &Path) -> Vec<PathBuf> {
        let mut found = vec![place.to_owned()];
        for part in path.components() {
            let mut next = Vec::new();
            for folder in found {
                let exact = folder.join(part);
                if exact.is_dir() {
                    next.push(exact);
                    continue;
                }
                let wanted = fold(&part.as_os_str().to_string_lossy());
                let named = self.list(&folder).folders.iter();
                let named = named.filter(|name| fold(&name.to_string_lossy()) == wanted);
                next.extend(named.map(|name| folder.join(name)));
            }
            found = next;
        }
        found.retain(|folder| folder.is_dir());
        found
    }

    /// Returns the folders below `folder`, without those of reduced photos, of masks and of depths.
    pub fn below(&mut self, folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut level = vec![folder.to_owned()];
        for _ in 0..SEARCHED_DEPTH {
            let mut next = Vec::new();
            for folder in &level {
                let names = self.list(folder).folders.clone();
                let wanted = names.iter().filter(|name| is_searched(name, &names));
                next.extend(wanted.map(|name| folder.join(name)));
            }
            next.truncate(SEARCHED_FOLDERS - found.len().min(SEARCHED_FOLDERS));
            found.extend(next.iter().cloned());
            level = next;
        }
        found
    }

    /// Finds the files that a capture names by paths relative to `places`, in the order of `files`.
    ///
    /// # Errors
    /// Several files fit a name; one file fits several names; a path has more parts than a file system allows.
    pub fn locate(&mut self, places: &Places, files: &[PathBuf]) -> Result<Vec<Option<Located>>> {
        files.iter().try_for_each(|file| check_depth(file))?;
        let mut located: Vec<Option<Located>> = Vec::with_capacity(files.len());
        // Files of one folder stay together: a folder that holds one of them counts for all.
        let mut groups: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
        let mut settled: HashSet<&Path> = HashSet::new();
        for (index, file) in files.iter().enumerate() {
            let path = places.first.join(file);
            let parent = file.parent().unwrap_or(Path::new(""));
            if path.is_file() {
                settled.insert(parent);
                let (how, moved) = (How::Exact, false);
                located.push(Some(Located { path, how, moved }));
            } else {
                groups.entry(parent).or_default().push(index);
                located.push(None);
            }
        }
        for (parent, members) in groups {
            let names: Vec<String> = members
                .iter()
                .map(|&i| files[i].file_name().unwrap_or_default())
                .map(|name| name.to_string_lossy().into_owned())
                .collect();
            let Some((folder, moved)) =
                self.folder_of(places, parent, &names, settled.contains(parent))?
            else {
                continue;
            };
            for (&index, name) in members.iter().zip(&names) {
                located[index] = match self.list(&folder).find(name) {
                    Hit::Nothing => None,
                    Hit::File(name, how) => {
                        let path = folder.join(name);
                        Some(Located { path, how, moved })
                    }
                    Hit::Several(all) => {
                        let paths: Vec<PathBuf> = all.iter().map(|n| folder.join(n)).collect();
                        return Err(ambiguous(name, &paths));
                    }
                };
            }
        }
        check_used_once(files, &mut located)?;
        Ok(located)
    }

    /// Finds the folder with files whose names the capture has in `parent`; rule 4 if it is not that folder.
    fn folder_of(
        &mut self,
        places: &Places,
        parent: &Path,
        names: &[String],
        is_settled: bool,
    ) -> Result<Option<(PathBuf, bool)>> {
        let nominal = self.folders(&places.first, parent);
        if let Some(folder) = self.best(&nominal, names)? {
            return Ok(Some((folder, false)));
        }
        if is_settled {
            return Ok(None);
        }
        let parts: Vec<Component<'_>> = parent.components().collect();
        for stripped in 0..=parts.len() {
            let rest: PathBuf = parts[stripped..].iter().collect();
            let mut candidates = Vec::new();
            for place in std::iter::once(&places.first).chain(&places.others) {
                candidates.extend(self.folders(place, &rest));
            }
            if let Some(folder) = self.best(&candidates, names)? {
                return Ok(Some((folder, true)));
            }
        }
        let Some(below) = &places.below else {
            return Ok(None);
        };
        // The folder with the most agreeing last parts of the path.
        let mut ranked: BTreeMap<usize, Vec<PathBuf>> = BTreeMap::new();
        for folder in self.below(below) {
            let agreeing = agreeing_parts(&folder, parent);
            ranked.entry(agreeing).or_default().push(folder);
        }
        for candidates in ranked.into_values().rev() {
            if let Some(folder) = self.best(&candidates, names)? {
                return Ok(Some((folder, true)));
            }
        }
        Ok(None)
    }

    /// Finds the folder with the most files of these names.
    fn best(&mut self, folders: &[PathBuf], names: &[String]) -> Result<Option<PathBuf>> {
        let mut best: Option<(usize, &PathBuf)> = None;
        let mut rival: Option<&PathBuf> = None;
        let mut seen: HashSet<&PathBuf> = HashSet::new();
        for folder in folders.iter().filter(|folder| seen.insert(folder)) {
            let listing = self.list(folder);
            let is_there = |name: &&String| !matches!(listing.find(name), Hit::Nothing);
            let count = names.iter().filter(is_there).count();
            match best {
                _ if count == 0 => {}
                Some((most, _)) if count < most => {}
                Some((most, _)) if count == most => rival = Some(folder),
                _ => (best, rival) = (Some((count, folder)), None),
            }
        }
        let (Some((_, folder)), Some(rival)) = (best, rival) else {
            return Ok(best.map(|(_, folder)| folder.clone()));
        };
        let name = names
            .iter()
            .find(|name| !matches!(self.list(folder).find(name), Hit::Nothing));
        let name = name.map_or("", String::as_str);
        let paths = [folder, rival].map(|folder| folder.join(name));
        Err(ambiguous(name, &paths))
    }
}

/// Returns true if a search includes a folder of this name, which is next to `others`.
fn is_searched(name: &OsString, others: &[OsString]) -> bool {
    let folded = fold(&name.to_string_lossy());
    let reduced = folded.rsplit_once('_').is_some_and(|(whole, number)| {
        let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        digits
            && others
                .iter()
                .any(|other| fold(&other.to_string_lossy()) == whole)
    });
    let other_content = ["mask", "depth", "normal", "thumb", "render", "stereo"];
    !reduced
        && !folded.starts_with(['.', '_'])
        && !other_content.iter().any(|word| folded.contains(word))
}

/// Returns the number of last parts in which two paths agree.
fn agreeing_parts(a: &Path, b: &Path) -> usize {
    let folded = |part: Component<'_>| fold(&part.as_os_str().to_string_lossy());
    let pairs = a.components().rev().zip(b.components().rev());
    pairs.take_while(|(a, b)| folded(*a) == folded(*b)).count()
}

#[cfg(test)]
mod tests;
