//! Names in captures, and the files found for them.

use super::refusals::MOST_PARTS;
use super::*;
use std::fs;

/// Creates a folder with files of these names.
fn folder(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    folder
}

/// Returns the files found for names, as paths below the folder; `None` for a missing file.
fn found(files: &[&str], others: &[&str], names: &[&str]) -> Result<Vec<Option<String>>> {
    let root = folder(files);
    let places = Places {
        first: root.path().to_owned(),
        others: others.iter().map(|other| root.path().join(other)).collect(),
        below: Some(root.path().to_owned()),
    };
    let names: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let located = Finder::default().locate(&places, &names)?;
    let shown = |located: Option<Located>| {
        let path = located?.path;
        Some(
            path.strip_prefix(root.path())
                .unwrap()
                .display()
                .to_string(),
        )
    };
    Ok(located.into_iter().map(shown).collect())
}

#[track_caller]
fn finds(files: &[&str], name: &str, want: Option<&str>) {
    let got = found(files, &[], &[name]).unwrap();
    assert_eq!(got, [want.map(str::to_owned)], "{name} in {files:?}");
}

#[track_caller]
fn refuses(files: &[&str], names: &[&str], words: &[&str]) {
    let error = found(files, &[], names).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "no {word:?} in {error}");
    }
}

#[test]
fn the_name_goes_before_letters_and_letters_before_endings() {
    finds(&["a.jpg", "A.JPG"], "A.JPG", Some("A.JPG"));
    finds(&["a.jpg", "a.png"], "a.JPG", Some("a.jpg"));
    finds(&["a.png", "a.jpg"], "a.jpeg", Some("a.jpg"));
    finds(&["a.tif", "a.png"], "a.TIFF", Some("a.tif"));
    finds(&["a.png"], "a.jpg", Some("a.png"));
    finds(&["a.webp"], "a.heic", Some("a.webp"));
    finds(&["r_0.png", "r_0_depth.png"], "r_0", Some("r_0.png"));
    finds(&["a.jpg.png"], "a.jpg", Some("a.jpg.png"));
    finds(&["a b_1.jpg"], "a%20b%5F1.JPG", Some("a b_1.jpg"));
    finds(&["100%.jpg"], "100%.png", Some("100%.jpg"));
    // A file that cannot be read is not a photo, and neither is a note next to it.
    finds(&["a.heic", "a.json"], "a.jpg", None);
}

#[test]
fn a_dot_in_a_name_is_no_ending() {
    finds(&["scan.png"], "scan.0001", None);
    finds(
        &["scan.0001.png", "scan.png"],
        "scan.0001",
        Some("scan.0001.png"),
    );
    finds(&["v1.jpg"], "v1.5", None);
    finds(&["v1.5.PNG"], "V1.5.jpg", Some("v1.5.PNG"));
}

#[test]
fn both_forms_of_unicode_are_one_name() {
    finds(
        &["Stra\u{df}e_u\u{308}.JPG"],
        "stra\u{df}e_\u{fc}.jpg",
        Some("Stra\u{df}e_u\u{308}.JPG"),
    );
    finds(&["\u{c4}.png"], "A\u{308}.png", Some("\u{c4}.png"));
    // In one file only the letters differ, in the other letters and case.
    finds(
        &["\u{c4}.png", "\u{e4}.png"],
        "A\u{308}.png",
        Some("\u{c4}.png"),
    );
    finds(
        &["Mus\u{e9}e/1.png"],
        "muse\u{301}e/1.png",
        Some("Mus\u{e9}e/1.png"),
    );
}

#[test]
fn several_files_that_fit_are_refused_by_name() {
    refuses(
        &["a.png", "a.webp"],
        &["a.jpg"],
        &["ambiguous", "a.png", "a.webp", "\"a.jpg\""],
    );
    refuses(&["a.png", "a.jpg"], &["a"], &["a.jpg and ", "a.png"]);
    refuses(
        &["DSC.jpg", "dsc.JPG"],
        &["Dsc.jpg"],
        &["DSC.jpg", "dsc.JPG"],
    );
    refuses(&["x/1.png", "y/1.png"], &["z/1.png"], &["ambiguous"]);
    // Two names for one file.
    refuses(&["a.png"], &["a.jpg", "a.tif"], &["both", "a.jpg", "a.tif"]);
    // A file that another name has exactly is not a guess.
    let got = found(&["left/1.png"], &[], &["left/1.png", "right/1.png"]).unwrap();
    assert_eq!(got, [Some("left/1.png".to_owned()), None]);
}

#[test]
fn paths_lose_their_first_folders_until_they_fit() {
    let files = [
        "images/1.jpg",
        "images/2.jpg",
        "images_2/1.jpg",
        "masks/1.jpg",
    ];
    finds(&files, "scans/kitchen/images/1.jpg", Some("images/1.jpg"));
    finds(&files, "scans/kitchen/Images/1.JPG", Some("images/1.jpg"));
    finds(&files, "elsewhere/1.jpg", Some("images/1.jpg"));
    finds(&["1.jpg"], "images/1.jpg", Some("1.jpg"));
    finds(&["a/b/rgb/1.jpg"], "images/1.jpg", Some("a/b/rgb/1.jpg"));
    // The folder of the same name has priority.
    finds(
        &["s/cam0/1.jpg", "s/cam1/1.jpg"],
        "t/cam1/1.jpg",
        Some("s/cam1/1.jpg"),
    );
    // A folder that holds some of the files is the folder of all: the others are missing.
    let some = ["images/1.jpg", "old/2.jpg", "old/1.jpg"];
    let got = found(&some, &[], &["images/1.jpg", "images/2.jpg"]).unwrap();
    assert_eq!(got, [Some("images/1.jpg".to_owned()), None]);
    let got = found(&["in/1.jpg"], &["in"], &["1.jpg"]).unwrap();
    assert_eq!(got, [Some("in/1.jpg".to_owned())]);
}

#[test]
fn a_path_of_endless_folders_is_refused_at_once() {
    let begun = std::time::Instant::now();
    let name = format!("{}1.jpg", "a/".repeat(50_000));
    let error = found(&["images/1.jpg"], &[], &[&name]).unwrap_err();
    assert!(error.what().contains("nested folders"), "{error}");
    assert!(
        error.place().is_some_and(|place| place.len() < 80),
        "{error}"
    );
    assert!(begun.elapsed().as_secs() < 5);
    // A long path of another machine is searched.
    let name = format!("{}images/1.jpg", "a/".repeat(MOST_PARTS - 2));
    let got = found(&["images/1.jpg"], &[], &[&name]).unwrap();
    assert_eq!(got, [Some("images/1.jpg".to_owned())]);
}
