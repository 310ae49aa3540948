//! A capture's own split into photos to train on and photos to hold out.
//!
//! 1. Nerfstudio's `train_filenames`, `test_filenames` and `val_filenames` in `transforms.json`; lists of names in
//!    `train.txt`, `test.txt` and `val.txt` in or near a COLMAP model, as descendants of the 3DGS trainer write
//!    them; names that begin with `train/` and `test/`.
//! 2. A name matches the photo's path, else the path without ending, else the base name where only one photo has
//!    it.
//! 3. The test photos are held out, or the validation photos where there are no test photos. A photo that both
//!    lists name is held out. Photos in no list that is used are neither trained on nor held out.
//! 4. A split that leaves nothing to train on or to hold out is not used.

use crate::capture::PosedImage;
use crate::split::OwnSplit;
use crate::{Result, bounded};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Lists of names, and notes on them.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    train: Option<Vec<String>>,
    test: Option<Vec<String>>,
    val: Option<Vec<String>>,
    source: String,
}

/// File names of lists: of training, test and validation photos.
pub(crate) const FILES: [&[&str]; 3] = [
    &["train.txt", "train_list.txt", "train_images.txt"],
    &["test.txt", "test_list.txt", "test_images.txt"],
    &["val.txt", "val_list.txt", "val_images.txt"],
];

impl Lists {
    /// Returns the lists in a transforms file: of training, test and validation photos.
    pub(crate) fn of_transforms(lists: &[Option<Vec<String>>; 3]) -> Option<Self> {
        let [train, test, val] = lists.clone();
        let named = [
            ("train_filenames", train.is_some()),
            ("test_filenames", test.is_some()),
            ("val_filenames", val.is_some()),
        ];
        let named: Vec<&str> = named
            .iter()
            .filter_map(|&(name, is_there)| is_there.then_some(name))
            .collect();
        (!named.is_empty()).then(|| Self {
            train,
            test,
            val,
            source: named.join(" and "),
        })
    }

    /// Reads the list files in the first of `folders` that holds any.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn in_folders(folders: &[&Path]) -> Result<Option<Self>> {
        for folder in folders {
            let found: [Option<PathBuf>; 3] = FILES.map(|names| {
                let mut paths = names.iter().map(|name| folder.join(name));
                paths.find(|path| path.is_file())
            });
            if found.iter().all(Option::is_none) {
                continue;
            }
            let names = found.iter().flatten().filter_map(|path| path.file_name());
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            let source = names.join(" and ");
            let [train, test, val] = found;
            let read = |path: Option<PathBuf>| path.map(|path| lines(&path)).transpose();
            return Ok(Some(Self {
                train: read(train)?,
                test: read(test)?,
                val: read(val)?,
                source,
            }));
        }
        Ok(None)
    }
}

/// Reads the names in a list file: one per line, `#` begins a comment.
fn lines(path: &Path) -> Result<Vec<String>> {
    let what = "cannot read the list of photos";
    let text = bounded::read_text(what, path, bounded::SETTINGS_BYTES)?;
    let lines = text.lines().map(str::trim);
    let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(names.map(str::to_owned).collect())
}

/// Finds the photos that a list names.
struct Matcher<'a> {
    /// Photos by path, by path without extension, by base name, by base name without extension; `None` if several
    /// photos have the key.
    keys: [HashMap<String, Option<&'a str>>; 4],
}

impl<'a> Matcher<'a> {
    fn new(images: &'a [PosedImage]) -> Self {
        let mut keys: [HashMap<String, Option<&'a str>>; 4] = Default::default();
        for image in images {
            let name = image.name.as_str();
            let folder = image.folder.file_name().map(|name| name.to_string_lossy());
            let whole = folder.map_or(name.to_owned(), |folder| format!("{folder}/{name}"));
            let file = image.file.to_string_lossy().replace('\\', "/");
            let mut paths = [normalised(name), normalised(&whole), normalised(&file)].to_vec();
            paths.sort();
            paths.dedup();
            for path in paths {
                for (keys, key) in keys.iter_mut().zip(keys_of(&path)) {
                    let found = keys.entry(key).or_insert(Some(name));
                    if *found != Some(name) {
                        *found = None;
                    }
                }
            }
        }
        Self { keys }
    }

    fn name(&self, entry: &str) -> Option<&'a str> {
        let whole = normalised(entry);
        let first = entry.split([',', ';', '\t', ' ']).next().map(normalised);
        let entries = std::iter::once(whole).chain(first);
        entries
            .flat_map(|entry| {
                let keys = self.keys.iter().zip(keys_of(&entry));
                let found: Vec<_> = keys.map(|(keys, key)| keys.get(&key).copied()).collect();
                found
            })
            .find_map(|found| found.flatten())
    }

    /// Returns the photos that a list names, and the number of its names without a photo.
    fn names(&self, list: &[String]) -> (BTreeSet<String>, usize) {
        let found = list.iter().filter_map(|entry| self.name(entry));
        let missing = list.iter().filter(|entry| self.name(entry).is_none());
        (found.map(str::to_owned).collect(), missing.count())
    }
}

/// Normalises a path: slashes, no quotes and no leading dots.
fn normalised(path: &str) -> String {
    let path = path.trim().trim_matches(['"', '\'']).replace('\\', "/");
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

fn keys_of(path: &str) -> [String; 4] {
    let stem = |path: &str| match path.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && !ending.contains('/') => stem.to_owned(),
        _ => path.to_owned(),
    };
    let base = path.rsplit('/').next().unwrap_or(path);
    [path.to_owned(), stem(path), base.to_owned(), stem(base)]
}

impl OwnSplit {
    /// Applies lists to `images`: the split, and notes; `None` if the lists are not used.
    pub(crate) fn from_lists(lists: &Lists, images: &[PosedImage]) -> (Option<Self>, Vec<String>) {
        let mut notes = Vec::new();
        let source = &lists.source;
        let matcher = Matcher::new(images);
        let mut missing = 0;
        let mut named = |list: &Option<Vec<String>>| {
            let (names, unknown) = matcher.names(list.as_deref().unwrap_or_default());
            missing += unknown;
            names
        };
        let (train, test, val) = (named(&lists.train), named(&lists.test), named(&lists.val));
        if missing > 0 {
            notes.push(format!(
                "{missing} names in {source} are of no photo of the capture"
            ));
        }
        let all: BTreeSet<String> = images.iter().map(|image| image.name.clone()).collect();
        let held_out = match (test.is_empty(), val.is_empty()) {
            (false, _) => test,
            (true, false) => val.clone(),
            (true, true) if !train.is_empty() => &all - &train,
            (true, true) => BTreeSet::new(),
        };
        if held_out.is_empty() {
            notes.push(format!(
                "{source}: no photo of the capture is named to be held out, so photos are held out by number"
            ));
            return (None, notes);
        }
        let both = train.intersection(&held_out).count();
        let left = match train.is_empty() {
            true => &(&all - &held_out) - &val,
            false => &train - &held_out,
        };
        if left.is_empty() {
            notes.push(format!(
                "{source}: all photos to train on are to be held out too, so photos are held out by number"
            ));
            return (None, notes);
        }
        if both > 0 {
            notes.push(format!(
                "{source}: {both} photos are named both to train on and to hold out: they are held out"
            ));
        }
        let unused = &(&all - &held_out) - &left;
        let own = Self {
            held_out,
            unused,
            source: source.clone(),
        };
        (Some(own), notes)
    }

    /// Returns the note on a split of these views.
    pub(crate) fn note(&self, images: &[PosedImage]) -> String {
        let count = |names: &BTreeSet<String>| {
            let named = images.iter().filter(|image| names.contains(&image.name));
            named.count()
        };
        let (held_out, unused) = (count(&self.held_out), count(&self.unused));
        let train = images.len() - held_out - unused;
        let rest = match unused {
            0 => String::new(),
            unused => format!(", {unused} neither"),
        };
        format!(
            "the capture's own split is used ({}): {train} photos to train on, {held_out} held out{rest} \
             (--eval-every N holds out every N-th instead)",
            self.source
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{Camera, Pose};

    fn images(names: &[&str]) -> Vec<PosedImage> {
        let image = |(name, id): (&&str, u32)| PosedImage {
            name: (*name).to_owned(),
            folder: PathBuf::from("capture/images"),
            file: PathBuf::from(name),
            downscaled: false,
            mask: None,
            id,
            depth: None,
            camera: Camera::pinhole(4, 4, 4.0, Pose::IDENTITY),
            source_model: String::new(),
        };
        names.iter().zip(0..).map(image).collect()
    }

    fn lists(train: &[&str], test: &[&str], val: &[&str]) -> Lists {
        let list = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            (!names.is_empty()).then_some(names)
        };
        Lists {
            train: list(train),
            test: list(test),
            val: list(val),
            source: "lists".to_owned(),
        }
    }

    fn split(lists: &Lists) -> Option<([Vec<String>; 2], Vec<String>)> {
        let images = images(&["a.png", "b.png", "c.png", "sub/d.png"]);
        let (own, notes) = OwnSplit::from_lists(lists, &images);
        let list = |names: BTreeSet<String>| names.into_iter().collect();
        own.map(|own| ([list(own.held_out), list(own.unused)], notes))
    }

    #[test]
    fn test_photos_are_held_out_and_photos_in_no_list_are_unused() {
        for (lists, held_out, unused) in [
            (
                lists(&["a.png", "c.png"], &["b.png"], &["b.png"]),
                &["b.png"][..],
                &["sub/d.png"][..],
            ),
            (lists(&[], &["images/b.png"], &[]), &["b.png"], &[]),
            (
                lists(&[], &["./images\\b.jpg"], &["a.png"]),
                &["b.png"],
                &["a.png"],
            ),
            (lists(&[], &[], &["/home/me/x/d"]), &["sub/d.png"], &[]),
            (lists(&["a", "b", "c"], &[], &[]), &["sub/d.png"], &[]),
            (
                lists(&["a", "b", "c", "d"], &["c.png 3"], &[]),
                &["c.png"],
                &[],
            ),
        ] {
            let (got, _) = split(&lists).unwrap();
            assert_eq!(
                got,
                [held_out, unused]
                    .map(|names| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()),
                "{lists:?}"
            );
        }
        let (_, notes) = split(&lists(&["a", "b"], &["b", "gone"], &[])).unwrap();
        assert!(
            notes.iter().any(|note| note.contains("1 names")),
            "{notes:?}"
        );
        assert!(
            notes.iter().any(|note| note.contains("held out")),
            "{notes:?}"
        );
    }

    #[test]
    fn splits_that_leave_nothing_are_not_used() {
        for lists in [
            lists(&["a", "b", "c", "d"], &[], &[]),
            lists(&[], &["gone.png"], &[]),
            lists(&["a", "b"], &["a", "b"], &[]),
            lists(&[], &["a", "b", "c", "d"], &[]),
            lists(&[], &["0", "8"], &[]),
        ] {
            assert_eq!(split(&lists), None, "{lists:?}");
        }
    }

    #[test]
    fn a_base_name_of_two_photos_is_no_name() {
        let images = images(&["a/1.png", "b/1.png", "b/2.png"]);
        let (own, _) = OwnSplit::from_lists(&lists(&[], &["1.png", "2.png"], &[]), &images);
        assert_eq!(
            own.unwrap().held_out,
            BTreeSet::from(["b/2.png".to_owned()])
        );
    }

    #[test]
    fn list_files_are_found_in_the_first_folder_that_has_any() {
        let root = tempfile::tempdir().unwrap();
        let model = root.path().join("sparse/0");
        std::fs::create_dir_all(&model).unwrap();
        let folders = [model.as_path(), root.path()];
        assert!(Lists::in_folders(&folders).unwrap().is_none());
        std::fs::write(
            root.path().join("test.txt"),
            "\u{feff}a.png\r\n\r\n# no\r\nb b.png\r\n",
        )
        .unwrap();
        let found = Lists::in_folders(&folders).unwrap().unwrap();
        assert_eq!(found.test.unwrap(), ["a.png", "b b.png"]);
        std::fs::write(model.join("train.txt"), "c.png").unwrap();
        let found = Lists::in_folders(&folders).unwrap().unwrap();
        assert_eq!(
            (found.train.unwrap(), found.test),
            (vec!["c.png".to_owned()], None)
        );
    }
}
