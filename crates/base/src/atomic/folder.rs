//! Results of several files, replaced whole.
//!
//! 1. All files go into a new folder next to the old one, and to the disk. After a full disk or a kill, the old result
//!    is unchanged.
//! 2. Files of others in the old folder get a second name in the new one: a hard link.
//! 3. The system exchanges both folders in one step, and the old one is removed, with the files of the older result
//!    that the new one lacks.
//! 4. Where no exchange exists, the old folder is renamed to [`OLD`] and its name, and the new one takes its place.
//!    After a kill between the two, the next call renames the old folder back.
//! 5. Some folders cannot be exchanged: the current folder, a mount point, one with folders of others or with a lock,
//!    one whose parent is read-only. There the new files are renamed into the folder one by one. The file that names
//!    the others goes first and comes last, so that old and new are never read together.

use super::leftovers::{TemporaryFolder, is_temporary};
use crate::{Error, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name of an old folder that waits to be removed begins so.
const OLD: &str = ".dapple-old-";

/// Names of locks and of other files that a process of Dapple has in use begin so.
const IN_USE: &str = ".dapple";

/// Exchanges two paths in one step.
type Exchange = fn(&Path, &Path) -> io::Result<()>;

/// Writes `files` into `folder`, which is made where it is missing: names relative to it, with `/` between folders, and
/// contents. The last file names the others. Afterwards the folder holds them whole, or what it held before. Entries of
/// the folder for which `is_own` is true belong to this kind of result: those of an older result are removed. All
/// others stay.
///
/// # Errors
/// The folder cannot be made or is not writable, or the disk is full. Nothing new is left behind.
pub fn replace_folder(
    folder: &Path,
    files: &[(String, Vec<u8>)],
    is_own: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    let is_new = !folder.as_os_str().is_empty() && folder.symlink_metadata().is_err();
    let replaced = replace_with(folder, files, is_own, exchange);
    if replaced.is_err() && is_new {
        // An empty folder alone is removed.
        let _ = fs::remove_dir(folder);
    }
    replaced
}

fn replace_with(
    folder: &Path,
    files: &[(String, Vec<u8>)],
    is_own: &dyn Fn(&Path) -> bool,
    exchange: Exchange,
) -> Result<()> {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let whole = fs::create_dir_all(folder)
        .and_then(|()| folder.canonicalize())
        .map_err(|e| Error::io("cannot write into the folder", folder, e))?;
    let old = old_name(&whole);
    if let Some(old) = &old {
        recover(&whole, old);
    }
    let Some((parent, old)) = whole.parent().zip(old).filter(|_| !is_current(&whole)) else {
        return in_place(folder, &whole, files, is_own);
    };
    let Ok(new) = TemporaryFolder::new_in(parent) else {
        return in_place(folder, &whole, files, is_own);
    };
    fill(new.path(), folder, files)?;
    let is_ready = fs::metadata(&whole)
        .and_then(|old| fs::set_permissions(new.path(), old.permissions()))
        .and_then(|()| link_others(&whole, new.path(), is_own));
    if !is_ready.is_ok_and(|is_ready| is_ready) {
        drop(new);
        return in_place(folder, &whole, files, is_own);
    }
    if exchange(new.path(), &whole).is_ok() {
        // The old folder has the temporary name now.
        return_others(new.path(), &whole, is_own);
        return Ok(());
    }
    match swap_by_names(new.path(), &whole, &old) {
        Ok(()) => {
            return_others(&old, &whole, is_own);
            let _ = fs::remove_dir_all(&old);
            Ok(())
        }
        Err(_) => in_place(folder, &whole, files, is_own),
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Replaces the folder `target` with its sibling folder `new`, in one step where the system can. The old folder is then
/// at `new`, or removed.
///
/// # Errors
/// I/O errors; the old folder is in its place then.
pub fn put_in_place(new: &Path, target: &Path) -> io::Result<()> {
    let old = old_name(target).ok_or(io::ErrorKind::InvalidInput)?;
    recover(target, &old);
    if target.symlink_metadata().is_err() {
        return fs::rename(new, target);
    }
    exchange(new, target).or_else(|_| {
        swap_by_names(new, target, &old)?;
        let _ = fs::remove_dir_all(&old);
        Ok(())
    })
}

/// Renames the old folder away and the new one in.
fn swap_by_names(new: &Path, target: &Path, old: &Path) -> io::Result<()> {
    fs::rename(target, old)?;
    fs::rename(new, target).or_else(|error| {
        fs::rename(old, target)?;
        Err(error)
    })
}

/// The name of a folder that is about to be removed.
fn old_name(whole: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(OLD);
    name.push(whole.file_name()?);
    Some(whole.with_file_name(name))
}

/// Ends what a killed process has begun: the old folder comes back where no new one has taken its place.
fn recover(whole: &Path, old: &Path) {
    if !old.is_dir() {
        return;
    }
    // An empty folder was made since for the result of now. One with files is the new result.
    let is_missing = whole.symlink_metadata().is_err() || fs::remove_dir(whole).is_ok();
    let _ = match is_missing {
        true => fs::rename(old, whole),
        false => fs::remove_dir_all(old),
    };
}

/// Returns true for the current folder and those above it: a shell in that folder would stay in the old one.
fn is_current(whole: &Path) -> bool {
    let current = std::env::current_dir().and_then(|current| current.canonicalize());
    current.is_ok_and(|current| current.starts_with(whole))
}

/// Writes all files below `to`; errors name them below `folder`.
fn fill(to: &Path, folder: &Path, files: &[(String, Vec<u8>)]) -> Result<()> {
    for (name, bytes) in files {
        let path = to.join(name);
        let above = path.parent().map_or(Ok(()), fs::create_dir_all);
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        above
            .and_then(|()| write())
            .map_err(|e| Error::io("cannot write the file", folder.join(name), e))?;
    }
    Ok(())
}

/// Gives files of others a second name in the new folder; false if some entry cannot have one.
fn link_others(from: &Path, to: &Path, is_own: &dyn Fn(&Path) -> bool) -> io::Result<bool> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if is_temporary(&text) || is_own(&entry.path()) {
            continue;
        }
        if text.starts_with(IN_USE) || entry.file_type()?.is_dir() {
            return Ok(false);
        }
        fs::hard_link(entry.path(), to.join(name))?;
    }
    Ok(true)
}

/// Moves files that other programs put into the old folder during the replacement.
fn return_others(old: &Path, whole: &Path, is_own: &dyn Fn(&Path) -> bool) {
    for entry in fs::read_dir(old).into_iter().flatten().flatten() {
        let to = whole.join(entry.file_name());
        if !is_own(&entry.path()) && to.symlink_metadata().is_err() {
            let _ = fs::rename(entry.path(), to);
        }
    }
}

/// Renames files into the folder one by one.
fn in_place(
    folder: &Path,
    whole: &Path,
    files: &[(String, Vec<u8>)],
    is_own: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    let new = TemporaryFolder::new_in(whole)
        .map_err(|e| Error::io("cannot write into the folder", folder, e))?;
    fill(new.path(), folder, files)?;
    let failed = |e| Error::io("cannot replace the files of the folder", folder, e);
    let last = files.last().map(|(name, _)| OsString::from(name));
    let mut names: Vec<OsString> = fs::read_dir(new.path())
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
        .map_err(failed)?;
    names.sort_by_key(|name| Some(name) == last.as_ref());
    let old = fs::read_dir(whole)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(failed)?;
    let mut old: Vec<PathBuf> = old;
    old.retain(|path| path != new.path() && is_own(path));
    old.sort_by_key(|path| path.file_name() != last.as_deref());
    for path in old {
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.map_err(failed)?;
    }
    for name in names {
        fs::rename(new.path().join(&name), whole.join(&name)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Files = Vec<(String, Vec<u8>)>;

    fn files(version: &str, names: &[&str]) -> Files {
        let file = |name: &&str| (name.to_string(), format!("{version} {name}").into_bytes());
        names.iter().map(file).collect()
    }

    /// Names with a `/` and contents of all files below a folder.
    fn held(folder: &Path) -> Files {
        let mut all = Vec::new();
        let mut open = vec![folder.to_owned()];
        while let Some(inner) = open.pop() {
            for entry in fs::read_dir(inner).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                    all.push((name.to_owned(), fs::read(&path).unwrap()));
                }
            }
        }
        all.sort();
        all
    }

    fn is_own(path: &Path) -> bool {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("level") || name.ends_with(".webp") || name == "meta.json"
    }

    const OLD_NAMES: [&str; 4] = ["a.webp", "b.webp", "level/c.webp", "meta.json"];
    const NEW_NAMES: [&str; 3] = ["a.webp", "level/d.webp", "meta.json"];

    fn no_exchange(_: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Replaces an older result whose folder has `others` in it, and compares what is there then.
    fn replaces(exchange: Exchange, others: &[&str]) {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("sog");
        replace_with(&folder, &files("old", &OLD_NAMES), &is_own, exchange).unwrap();
        assert_eq!(held(&folder), files("old", &OLD_NAMES));
        for other in others {
            let path = folder.join(other);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("mine {other}")).unwrap();
        }
        replace_with(&folder, &files("new", &NEW_NAMES), &is_own, exchange).unwrap();
        let mut expected = [files("new", &NEW_NAMES), files("mine", others)].concat();
        expected.sort();
        assert_eq!(held(&folder), expected);
        // Nothing temporary stays next to it.
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_result_replaces_an_older_one_whole_and_what_others_put_there_stays() {
        for exchange in [exchange, no_exchange] {
            replaces(exchange, &[]);
            replaces(exchange, &["CNAME", "notes.txt"]);
            // Files are renamed one by one: a folder of others cannot be linked.
            replaces(exchange, &["mine/x.png"]);
            replaces(exchange, &[".dapple.lock"]);
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_result_and_nothing_else() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("sog");
        // No file system takes names as long as this.
        let long = "x".repeat(300);
        let names = ["a.webp", &long, "meta.json"];
        replace_folder(&folder, &files("new", &names), &is_own).unwrap_err();
        assert!(!folder.exists());
        replace_folder(&folder, &files("old", &OLD_NAMES), &is_own).unwrap();
        let error = replace_folder(&folder, &files("new", &names), &is_own).unwrap_err();
        assert!(error.place().unwrap().contains("sog"), "{error}");
        assert_eq!(held(above.path()).len(), OLD_NAMES.len());
        assert_eq!(held(&folder), files("old", &OLD_NAMES));
        fs::create_dir(folder.join("mine")).unwrap();
        replace_folder(&folder, &files("new", &names), &is_own).unwrap_err();
        assert_eq!(held(&folder), files("old", &OLD_NAMES));
    }

    #[test]
    fn an_old_folder_that_a_killed_process_renamed_away_comes_back() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("sog");
        fs::create_dir(&folder).unwrap();
        replace_folder(&folder, &files("old", &OLD_NAMES), &is_own).unwrap();
        fs::write(folder.join("notes.txt"), "mine").unwrap();
        let old = old_name(&folder).unwrap();
        fs::rename(&folder, &old).unwrap();
        fs::create_dir(&folder).unwrap();
        // This one fails, so that the old result is what is left.
        let long = ["x".repeat(300)];
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        replace_folder(&folder, &files("new", &long), &is_own).unwrap_err();
        assert_eq!(held(&folder).len(), OLD_NAMES.len() + 1);
        assert!(!old.exists());
        // Where the new folder is in its place, the old one goes.
        fs::create_dir(&old).unwrap();
        fs::write(old.join("a.webp"), "old").unwrap();
        replace_folder(&folder, &files("new", &NEW_NAMES), &is_own).unwrap();
        assert!(!old.exists());
        assert_eq!(held(&folder).len(), NEW_NAMES.len() + 1);
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_keeps_its_permissions_and_a_link_to_it_stays_one() {
        use std::os::unix::fs::PermissionsExt;
        let above = tempfile::tempdir().unwrap();
        let (folder, link) = (above.path().join("sog"), above.path().join("link"));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        replace_folder(&link, &files("new", &NEW_NAMES), &is_own).unwrap();
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        assert!(link.is_symlink());
        assert_eq!(held(&folder), files("new", &NEW_NAMES));
    }
}
