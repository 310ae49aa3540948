//! Temporary files and folders: their names, their locks, and the removal of those that a killed process has left.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::{NamedTempFile, TempDir};

/// Names of temporary files begin and end so.
const PREFIX: &str = ".dapple-";
const SUFFIX: &str = ".part";

/// Attempts to make a file that no other process takes for a leftover before it is locked.
const ATTEMPTS: usize = 8;

/// Folders that this process has looked for leftovers in.
static LOOKED_IN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Temporary files of the names that [`remove_leftovers`] finds.
pub(super) fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    builder
}

/// Returns true for names of temporary files and folders.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// A temporary file with its lock. A file system without locks gives a file without one.
pub(super) fn locked_file(folder: &Path) -> io::Result<NamedTempFile> {
    remove_leftovers_once(folder);
    let mut builder = builder();
    // A temporary file is private by default; a result is an ordinary file, as the umask has it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    untaken(
        || builder.tempfile_in(folder),
        |file| was_taken(file.as_file(), file.path()),
    )
}

/// Makes a temporary file or folder. Repeats this while `was_taken` is true for the result.
fn untaken<T>(make: impl Fn() -> io::Result<T>, was_taken: impl Fn(&T) -> bool) -> io::Result<T> {
    let mut attempt = 1;
    loop {
        let made = make()?;
        if !was_taken(&made) || attempt == ATTEMPTS {
            return Ok(made);
        }
        attempt += 1;
    }
}

/// Locks a new temporary file or folder. Returns true if another process has taken it for a leftover before: that
/// process holds its lock, or has removed it.
fn was_taken(file: &File, path: &Path) -> bool {
    match file.try_lock() {
        Ok(()) => !path.exists(),
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

/// Temporary folder with its lock, removed with the value. The next process that writes next to it removes the folder
/// of a process that was killed.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: TempDir,
    /// Open as long as the folder is in use; none where folders cannot be opened.
    lock: Option<File>,
}

impl TemporaryFolder {
    /// Makes a temporary folder inside `parent`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn new_in(parent: &Path) -> io::Result<Self> {
        remove_leftovers_once(parent);
        let make = || {
            let folder = builder().tempdir_in(parent)?;
            let lock = File::open(folder.path()).ok();
            Ok(Self { folder, lock })
        };
        untaken(make, |made| {
            let lock = made.lock.as_ref();
            lock.is_some_and(|lock| was_taken(lock, made.path()))
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the temporary files and folders inside `folder` of processes that were killed while they wrote. Those that a
/// process holds stay, and those that cannot be removed.
pub fn remove_leftovers(folder: &Path) {
    remove(folder, true);
}

/// [`remove_leftovers`] before the first file that this process writes to the folder. On a file system without locks
/// all temporary files stay: they may be in use.
fn remove_leftovers_once(folder: &Path) {
    let mut looked_in = LOOKED_IN.lock().unwrap_or_else(PoisonError::into_inner);
    // Other threads wait, because they would make files that look like leftovers until they are locked.
    if looked_in.insert(folder.to_owned()) {
        remove(folder, false);
    }
}

fn remove(folder: &Path, also_without_locks: bool) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if !is_temporary(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // The lock is held until the file is gone.
        let file = File::open(&path);
        let is_left = match file.as_ref().map(File::try_lock) {
            Ok(Ok(())) => true,
            Ok(Err(TryLockError::WouldBlock)) => false,
            Ok(Err(TryLockError::Error(_))) | Err(_) => also_without_locks,
        };
        if is_left {
            let _ = match is_folder {
                true => std::fs::remove_dir_all(&path),
                false => std::fs::remove_file(&path),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_outlive_a_process_that_removes_leftovers_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        remove(folder.path(), false);
                    }
                });
            }
            let lost = (0..3000)
                .filter(|_| !locked_file(folder.path()).unwrap().path().exists())
                .count();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(lost, 0);
        });
    }

    #[test]
    fn temporary_files_in_use_stay_and_those_of_a_killed_process_go() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at(".dapple-Ab3.part"), "half").unwrap();
        std::fs::create_dir(at(".dapple-Cd4.part")).unwrap();
        std::fs::write(at(".dapple-Cd4.part/means.webp"), "half").unwrap();
        let used = locked_file(folder.path()).unwrap();
        let used_folder = TemporaryFolder::new_in(folder.path()).unwrap();
        std::fs::write(used_folder.path().join("a"), "a").unwrap();
        assert!(!at(".dapple-Ab3.part").exists());
        assert!(!at(".dapple-Cd4.part").exists());
        remove_leftovers(folder.path());
        assert!(used.path().exists() && used_folder.path().join("a").exists());
        let path = used_folder.path().to_owned();
        drop(used_folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_process_looks_for_leftovers_once_per_folder() {
        let folder = tempfile::tempdir().unwrap();
        let write = || {
            let path = folder.path().join("new.ply");
            super::super::write_atomically(&path, |out| out.write_all(b"new")).unwrap();
        };
        write();
        let left = folder.path().join(".dapple-Ab3.part");
        std::fs::write(&left, "half").unwrap();
        write();
        assert!(left.exists());
    }
}
