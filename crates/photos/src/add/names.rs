//! Names of old and new photos: in the new capture, and for the tool.

use crate::inputs::{CONVERTED, Source, clean, ending};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Returns a name whose key is not taken: this one, or the same with a number. Takes it.
pub fn free(taken: &mut HashSet<String>, name: &str, key: impl Fn(&str) -> String) -> String {
    let (stem, end) = match name.rsplit_once('.') {
        Some((stem, end)) => (stem, format!(".{end}")),
        None => (name, String::new()),
    };
    let numbered = (2..).map(|number| format!("{stem}_{number}{end}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    // The candidates have no end, and the taken names have one.
    let found = candidates.find(|candidate| taken.insert(key(candidate)));
    found.unwrap_or_else(|| name.to_owned())
}

/// Returns the part of a name that stays if a photo is converted to another format.
fn stem(name: &str) -> String {
    let path = Path::new(name).with_extension("");
    path.to_string_lossy().to_lowercase()
}

/// Returns the old photos as sources for the tool, whose names have no spaces and endings of formats that it reads.
pub fn old_sources(
    names: &[String],
    files: &[(PathBuf, Option<PathBuf>)],
    taken: &mut HashSet<String>,
) -> Vec<Source> {
    let one = |(name, (path, mask)): (&String, &(PathBuf, Option<PathBuf>))| {
        let mut name = clean(name);
        if !["jpg", "jpeg", "png"].contains(&ending(Path::new(&name)).as_str()) {
            name.push_str(".png");
        }
        Source {
            path: path.clone(),
            name: free(taken, &name, stem),
            mask: mask.clone(),
            is_frame: false,
        }
    };
    let sources = names.iter().zip(files).map(one).collect();
    taken.extend(names.iter().map(|name| stem(name)));
    sources
}

/// A new photo that got another name: its file, its own name and its name in the new capture.
pub type Renamed = (PathBuf, String, String);

/// Gives the new photos names that no old photo has. Returns those that changed.
pub fn rename_new(sources: &mut [Source], taken: &mut HashSet<String>) -> Vec<Renamed> {
    let mut renamed = Vec::new();
    for source in sources {
        // As the copy is named.
        let end = ending(&source.path);
        let converted = match CONVERTED.contains(&end.as_str()) {
            true => format!("{}.jpg", stem_of(&source.name)),
            false => source.name.clone(),
        };
        let name = free(taken, &converted, stem);
        if name != converted {
            renamed.push((source.path.clone(), source.name.clone(), name.clone()));
        }
        source.name = name;
    }
    renamed
}

fn stem_of(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_photos_get_names_that_no_old_photo_has() {
        let mut taken = HashSet::new();
        let names = ["a b.jpg", "A_b.png", "c.webp"].map(str::to_owned);
        let files = ["1", "2", "3"].map(|path| (PathBuf::from(path), None));
        let old = old_sources(&names, &files, &mut taken);
        let named: Vec<_> = old.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(named, ["a_b.jpg", "A_b_2.png", "c.webp.png"]);
        let source = |path: &str| Source {
            path: path.into(),
            name: path.to_owned(),
            mask: None,
            is_frame: false,
        };
        let mut new = ["a_b.jpg", "d.heic", "d.png", "e.jpg"].map(source);
        let renamed = rename_new(&mut new, &mut taken);
        let named: Vec<_> = new.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(named, ["a_b_3.jpg", "d.jpg", "d_2.png", "e.jpg"]);
        let changed: Vec<_> = renamed.iter().map(|(_, was, _)| was.as_str()).collect();
        assert_eq!(changed, ["a_b.jpg", "d.png"]);
    }
}
