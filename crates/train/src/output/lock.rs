//! Lock of a folder, so that one process at a time writes to it.
//!
//! 1. A writing process locks [`RunLock::FILE`] in the folder with a file lock of the operating system. The lock ends
//!    with its process, however that ends, and works on network folders whose server supports locks.
//! 2. The file names the process that holds the lock, for the error message of the next process.
//! 3. A process that ends removes the file. Another process may have opened the file just before. So a process that has
//!    locked a file checks whether the file still has this name.
//! 4. Processes that only add files with their own names (`dapple render`) share a lock.
//!
//! If a file system does not support locks, the user gets a note, and the run continues.

use dapple_scene::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// First line of the file. A file that begins otherwise belongs to another program.
const HEADER: &str = "A process of Dapple writes into this folder:";

/// Upper limit of the length of a holder's description.
const MOST_BYTES: u64 = 1024;

/// Most times that the file may disappear between opening and locking it, because other processes come and go.
const ATTEMPTS: usize = 100;

/// The lock files of this process, for [`RunLock::abandon_all`].
static HELD: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The right to write into a folder, held until the value is dropped.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    file: File,
    /// Reason why the lock does not lock out other processes.
    note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Shared,
}

impl RunLock {
    /// Name of the lock file.
    pub const FILE: &str = ".dapple.lock";

    /// Locks out every other process from `folder`, which exists.
    ///
    /// # Errors
    /// Another process writes into the folder (the error names it); the folder cannot be written to; a file that Dapple
    /// did not write has the lock's name.
    pub fn exclusive(folder: &Path) -> Result<Self> {
        Self::take(folder, Kind::Exclusive)
    }

    /// Locks out processes that need the folder exclusively.
    ///
    /// # Errors
    /// See [`Self::exclusive`].
    pub fn shared(folder: &Path) -> Result<Self> {
        Self::take(folder, Kind::Shared)
    }

    /// Returns a note for the user if the file system does not support locks.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns true if the lock file is still at its path. False if the folder was removed.
    pub fn is_in_place(&self) -> bool {
        self.note.is_some() || is_at(&self.file, &self.path)
    }

    /// Removes the files of all locks of this process. For a process that ends without dropping them.
    pub fn abandon_all() {
        for path in held().drain(..) {
            let _ = std::fs::remove_file(path);
        }
    }

    fn take(folder: &Path, kind: Kind) -> Result<Self> {
        let path = folder.join(Self::FILE);
        for _ in 0..ATTEMPTS {
            let file = open(&path)?;
            let locked = match kind {
                Kind::Exclusive => file.try_lock(),
                Kind::Shared => file.try_lock_shared(),
            };
            let note = match locked {
                Ok(()) if is_at(&file, &path) => None,
                Ok(()) => continue,
                Err(TryLockError::WouldBlock) => return Err(refusal(folder, &path)),
                Err(TryLockError::Error(e)) => Some(no_locks(folder, &path, &e)),
            };
            let mut lock = Self { path, file, note };
            lock.describe(kind);
            held().push(lock.path.clone());
            return Ok(lock);
        }
        Err(refusal(folder, &path))
    }

    /// Writes the description of the holder. If it fails (a full disk, a file of another user), the next error only
    /// lacks the name.
    fn describe(&mut self, kind: Kind) {
        // Processes that share the lock keep the first description.
        let is_empty = self.file.metadata().is_ok_and(|data| data.len() == 0);
        if self.note.is_some() || kind == Kind::Shared && !is_empty {
            return;
        }
        let since = told(SystemTime::now());
        let text = format!(
            "{HEADER}\nprocess {} on {}, since {since}\n",
            std::process::id(),
            gethostname::gethostname().to_string_lossy()
        );
        let _ = self
            .file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| self.file.write_all(text.as_bytes()));
    }
}

/// Formats a time for the user. A time outside the supported range becomes the nearest one that can be written.
fn told(time: SystemTime) -> String {
    /// The end of the year 9999.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since.min(LAST)).to_string()
}

impl Drop for RunLock {
    fn drop(&mut self) {
        let mut held = held();
        if let Some(i) = held.iter().position(|path| *path == self.path) {
            held.swap_remove(i);
        }
        // The last process of those that share the lock, or, without locks, the one that made the file.
        let is_last = self.file.try_lock().is_ok() || self.note.is_some();
        if is_last && is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn held() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens or creates the lock file; its content is unchanged.
fn open(path: &Path) -> Result<File> {
    let failed = |e| Error::io("cannot lock the output folder", path, e);
    let foreign = || {
        Error::input(format!(
            "Dapple keeps its lock in a file {}, and what has this name is not Dapple's",
            RunLock::FILE
        ))
        .at_path(path)
        .hint("move it away, or name another folder")
    };
    match std::fs::symlink_metadata(path) {
        // Writing through a link would change its target.
        Ok(data) if !data.is_file() => return Err(foreign()),
        Ok(data) if data.len() > 0 => match text_of(path) {
            // The file may be partial while its holder writes it.
            Ok(text) if !text.starts_with(HEADER) && !HEADER.starts_with(&text) => {
                return Err(foreign());
            }
            // On systems where locked files cannot be read, the file is a lock of Dapple.
            _ => {}
        },
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    match options.open(path) {
        // The file belongs to another user, whose process may have ended: it can be locked anyway.
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            File::open(path).map_err(|_| failed(e))
        }
        opened => opened.map_err(failed),
    }
}

/// Returns the beginning of a lock file.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the holder of a lock, from its file.
fn holder(path: &Path) -> Option<String> {
    let text = text_of(path).ok()?;
    let line = text.strip_prefix(HEADER)?.trim();
    (!line.is_empty()).then(|| line.escape_debug().to_string())
}

fn refusal(folder: &Path, path: &Path) -> Error {
    let who = holder(path).unwrap_or_else(|| "which one is not known".to_owned());
    Error::input(format!(
        "another process of Dapple writes into the output folder: {who}"
    ))
    .at_path(folder)
    .hint("wait until it has ended, or end it, or name another folder with --out")
}

fn no_locks(folder: &Path, path: &Path, error: &std::io::Error) -> String {
    let other = holder(path).map_or(String::new(), |who| {
        format!("; a lock that was left there names {who}")
    });
    format!(
        "the file system of {} keeps no locks ({error}): see that no other run writes there{other}",
        folder.display()
    )
}

/// Returns true if the opened file or folder is still the one of this name. A link to a folder is followed.
#[cfg(unix)]
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |data: std::fs::Metadata| (data.dev(), data.ino());
    let named = match path.is_dir() {
        true => path.metadata(),
        false => path.symlink_metadata(),
    };
    match (file.metadata(), named) {
        (Ok(open), Ok(named)) => of(open) == of(named),
        _ => false,
    }
}

/// Other systems have no file numbers, and an open file keeps its name.
#[cfg(not(unix))]
pub(super) fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn one_holds_a_folder_and_the_next_is_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunLock::exclusive(folder.path()).unwrap();
        assert_eq!(first.note(), None);
        for second in [RunLock::exclusive, RunLock::shared] {
            let error = second(folder.path()).unwrap_err();
            let process = format!("process {} on ", std::process::id());
            assert!(error.what().contains(&process), "{error}");
        }
        drop(first);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        // The file of a killed process locks out no other process.
        let path = folder.path().join(RunLock::FILE);
        for left in [String::new(), format!("{HEADER}\nprocess 1 on x")] {
            std::fs::write(&path, left).unwrap();
            drop(RunLock::exclusive(folder.path()).unwrap());
            assert!(!path.exists());
        }
    }

    #[test]
    fn those_that_share_keep_others_out_until_the_last_has_left() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunLock::shared(folder.path()).unwrap();
        let second = RunLock::shared(folder.path()).unwrap();
        drop(first);
        RunLock::exclusive(folder.path()).unwrap_err();
        drop(second);
        drop(RunLock::exclusive(folder.path()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_of_somebody_else_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RunLock::FILE);
        std::fs::write(&path, "mine").unwrap();
        let error = RunLock::exclusive(folder.path()).unwrap_err();
        assert!(error.what().contains("not Dapple's"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        #[cfg(unix)]
        {
            std::fs::remove_file(&path).unwrap();
            let target = folder.path().join("target");
            std::os::unix::fs::symlink(&target, &path).unwrap();
            RunLock::exclusive(folder.path()).unwrap_err();
            assert!(!target.exists());
        }
    }

    #[test]
    fn a_clock_that_is_far_off_is_told_all_the_same() {
        let far = Duration::from_secs(1 << 40);
        assert_eq!(told(UNIX_EPOCH - far), "1970-01-01T00:00:00Z");
        assert_eq!(told(UNIX_EPOCH), "1970-01-01T00:00:00Z");
        assert_eq!(told(UNIX_EPOCH + far), "9999-12-31T23:59:59Z");
    }

    /// Threads lock and unlock at the same time: never two hold the lock, although each removes the file.
    #[test]
    fn nobody_slips_in_while_another_leaves() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if let Ok(lock) = RunLock::exclusive(folder.path()) {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            entered.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
        assert!(entered.load(Ordering::Relaxed) > 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
