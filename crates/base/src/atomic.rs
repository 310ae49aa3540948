//! Atomic writes: files, and folders of files, that are either complete or absent.
//!
//! 1. Write to a temporary file in the same folder (so that renaming never crosses a file system), through a buffer.
//! 2. Flush and fsync. A full disk is detected here, and the name never refers to data that a power cut could lose. A
//!    large file is sent to the disk while more is written.
//! 3. Rename over the target in one step. Any error before removes the temporary file and does not change the target.
//! 4. A process holds a lock on its temporary files. The next process that writes to a folder removes those without a
//!    lock: their process was killed.
//!
//! [`replace_folder`] does the same for results of several files.

mod folder;
mod leftovers;

pub use folder::{put_in_place, replace_folder};
pub use leftovers::{TemporaryFolder, remove_leftovers};

use crate::{Error, Result};
use leftovers::{builder, locked_file};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Size of the buffer in front of calls of the operating system, bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Bytes that are sent to the disk together, by a second thread.
const SENT_AT_ONCE: usize = 1 << 26;

/// Writes a file through `write`, so that `path` holds either the complete new file or its former content.
///
/// # Errors
/// A folder that is missing or not writable, an error of `write` (a full disk, its own error), or a `path` that cannot
/// be replaced. No temporary file remains.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    write_to(path, write, true)
}

/// [`write_atomically`] for a file that does not exist. Of two processes that write the same file at once, one fails.
///
/// # Errors
/// The errors of [`write_atomically`]; an existing file.
pub fn write_new(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    write_to(path, write, false)
}

/// Returns the error for an output that another process has written since this process looked for it.
pub fn appeared(path: &Path) -> Error {
    Error::input("another program has written the output since this one began")
        .at_path(path)
        .hint("choose another name, or give --overwrite to replace it")
}

fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    replaces: bool,
) -> Result<()> {
    let failed = |source| Error::io("cannot write the file", path, source);
    if path.is_dir() {
        return Err(Error::input("the path of the file to write is a folder")
            .at_path(path)
            .hint("name a file, for example one inside that folder"));
    }
    // The file would take the place of the device for all programs.
    if path.metadata().is_ok_and(|it| !it.is_file()) {
        return Err(
            Error::input("the path of the file to write is a device or a pipe")
                .at_path(path)
                .hint("name a file"),
        );
    }
    let folder = folder_of(path);
    let temporary = locked_file(&folder)
        .map_err(|source| Error::io("cannot write into the folder", &folder, source))?;
    // Writes to the file itself, because errors of the wrapper contain the name of the temporary file, which differs
    // each time.
    fill(temporary.as_file(), write).map_err(failed)?;
    temporary.as_file().sync_all().map_err(failed)?;
    let kept = match replaces {
        true => temporary.persist(path),
        false => temporary.persist_noclobber(path).or_else(|e| {
            // Some file systems have neither hard links nor a rename that replaces nothing.
            let is_there =
                e.error.kind() == io::ErrorKind::AlreadyExists || path.symlink_metadata().is_ok();
            if is_there {
                Err(e)
            } else {
                e.file.persist(path)
            }
        }),
    };
    match kept {
        Ok(_) => Ok(()),
        Err(e) if !replaces && e.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(appeared(path))
        }
        Err(e) => Err(failed(e.error)),
    }
}

/// Writes to a file, and sends the data to the disk during the writing, so that the last fsync has little left.
fn fill(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    std::thread::scope(|scope| {
        let sending = Sending {
            file,
            scope,
            unsent: 0,
            thread: None,
        };
        let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, sending);
        write(&mut buffered)?;
        buffered.into_inner().map_err(|e| e.into_error())?.arrived()
    })
}

/// File with the thread that sends written data to the disk.
struct Sending<'scope, 'env> {
    file: &'scope File,
    scope: &'scope Scope<'scope, 'env>,
    /// Bytes written since the last send.
    unsent: usize,
    thread: Option<ScopedJoinHandle<'scope, io::Result<()>>>,
}

impl Sending<'_, '_> {
    /// Waits for the data in flight. Only this call returns the error of a send; later calls return no error.
    fn arrived(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let sent = thread.join();
        sent.unwrap_or_else(|_| Err(io::Error::other("a thread that writes to the disk failed")))
    }
}

impl Write for Sending<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsent += written;
        let is_idle = self
            .thread
            .as_ref()
            .is_none_or(ScopedJoinHandle::is_finished);
        if self.unsent >= SENT_AT_ONCE && is_idle {
            self.arrived()?;
            self.unsent = 0;
            let file = self.file;
            let send = move || file.sync_data();
            // Without a thread, the last fsync sends all data.
            self.thread = Builder::new().spawn_scoped(self.scope, send).ok();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes and removes a file in a folder, to detect before a long run that results cannot be written there. A process
/// that is killed in between does not remove the file, but [`remove_leftovers`] does.
///
/// # Errors
/// Errors of the operating system: no such folder, no permission to write, a full disk.
pub fn try_writing(folder: &Path) -> io::Result<()> {
    take_away(builder().tempfile_in(folder)?)
}

/// Removes a file; a missing one is no error. `what` is the message of an error.
///
/// # Errors
/// Errors of the operating system.
pub fn remove_old(what: &str, path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(what, path, e)),
        _ => Ok(()),
    }
}

/// Removes a written file. The file may already be gone: a process that owns the folder removes temporary files
/// ([`remove_leftovers`]), also those of another process.
fn take_away(file: tempfile::NamedTempFile) -> io::Result<()> {
    match file.close() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        closed => closed,
    }
}

/// Returns the folder that holds `path`; "." for a bare name.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn an_attempt_to_write_that_another_takes_away_was_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = builder().tempfile_in(folder.path()).unwrap();
        remove_leftovers(folder.path());
        assert!(names(folder.path()).is_empty());
        take_away(file).unwrap();
        let missing = try_writing(&folder.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_writer_that_fails_midway_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("splats.ply");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let error = write_atomically(&path, |out| {
            out.write_all(&vec![1; 3 * BUFFER_BYTES])?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.hint_text().unwrap().contains("disk is full"));
        assert!(error.place().unwrap().ends_with("splats.ply"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["splats.ply"]);
        write_atomically(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["splats.ply"]);
    }

    #[test]
    fn of_two_writers_of_a_new_file_the_second_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("splats.ply");
        let error = write_new(&path, |out| {
            write_new(&path, |other| other.write_all(b"first")).unwrap();
            out.write_all(b"second")
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.place().unwrap().ends_with("splats.ply"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(names(folder.path()), ["splats.ply"]);
    }

    #[test]
    fn what_is_large_is_sent_meanwhile_and_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("splats.ply");
        let block: Vec<u8> = (0..=255).cycle().take(3 * BUFFER_BYTES / 2).collect();
        let blocks = 5 * SENT_AT_ONCE / 2 / block.len();
        let write = |out: &mut dyn Write| (0..blocks).try_for_each(|_| out.write_all(&block));
        write_atomically(&path, write).unwrap();
        let found = std::fs::read(&path).unwrap();
        assert_eq!(found.len(), blocks * block.len());
        assert!(found.chunks(block.len()).all(|found| found == block));
        // The disk becomes full after some data was sent.
        let failing = |out: &mut dyn Write| {
            write(out)?;
            Err(io::ErrorKind::StorageFull.into())
        };
        write_atomically(&path, failing).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap().len(), found.len());
        assert_eq!(names(folder.path()), ["splats.ply"]);
    }

    /// Data can be written to `/dev/null` but not sent to a disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_sent_is_told() {
        let file = File::options().write(true).open("/dev/null").unwrap();
        let block = vec![0; BUFFER_BYTES];
        let blocks = SENT_AT_ONCE / block.len();
        let found = fill(&file, |out| {
            (0..blocks).try_for_each(|_| out.write_all(&block))
        });
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn folders_that_cannot_take_the_file_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = write_atomically(&missing.join("a.ply"), |_| Ok(())).unwrap_err();
        assert_eq!(error.place(), Some(missing.to_str().unwrap()));
        assert!(error.hint_text().is_some());
        let error = write_atomically(folder.path(), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".dapple-Ab3.part", "splats.ply", "a.part", ".dapple-b"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        remove_leftovers(folder.path());
        let mut left = names(folder.path());
        left.sort();
        assert_eq!(left, [".dapple-b", "a.part", "splats.ply"]);
        remove_leftovers(&folder.path().join("missing"));
    }

    #[test]
    fn what_a_trial_would_leave_is_removed_too_and_it_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (_, killed) = builder()
            .tempfile_in(folder.path())
            .unwrap()
            .keep()
            .unwrap();
        try_writing(folder.path()).unwrap();
        assert_eq!(names(folder.path()).len(), 1);
        remove_leftovers(folder.path());
        assert!(!killed.exists());
        assert!(try_writing(&folder.path().join("missing")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_result_has_the_permissions_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, ordinary) = (folder.path().join("a"), folder.path().join("b"));
        write_atomically(&ours, |_| Ok(())).unwrap();
        std::fs::write(&ordinary, "").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&ordinary));
    }
}
