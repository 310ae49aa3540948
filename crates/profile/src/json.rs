//! `profile.json`: written whole or not at all, read only if it is what it says.
//!
//! 1. Writing goes to a new file beside the target, which then takes the target's name.
//! 2. Reading looks at `schema` and `version` before anything else, so that a file of another tool
//!    or of another version is named for what it is and not for the first field it lacks.

use crate::error::{Error, Result};
use crate::profile::{Profile, SCHEMA, VERSION};
use serde::Deserialize;
use std::io::Write;
use std::path::Path;

/// What every `profile.json` has.
#[derive(Deserialize)]
struct Head {
    schema: Option<serde_json::Value>,
    version: Option<serde_json::Value>,
}

/// A profile as JSON.
///
/// # Errors
/// None that a profile of [`analyse`](crate::analyse) can cause.
pub fn to_json(profile: &Profile) -> Result<String> {
    serde_json::to_string_pretty(profile)
        .map(|text| text + "\n")
        .map_err(|error| Error::input(format!("the profile cannot be written as JSON: {error}")))
}

/// A profile from JSON; `place` is what errors call it.
///
/// # Errors
/// Not JSON, cut short, of another tool, of another version, with a field missing or wrong.
pub fn from_json(text: &str, place: &str) -> Result<Profile> {
    let head: Head = serde_json::from_str(text).map_err(|error| invalid(text, place, &error))?;
    let schema = head.schema.as_ref().and_then(|value| value.as_str());
    if schema != Some(SCHEMA) {
        let found = head
            .schema
            .map_or("no \"schema\"".into(), |found| format!("schema {found}"));
        return Err(
            Error::input(format!("not a profile: it has {found}, not \"{SCHEMA}\""))
                .at(place)
                .hint("give the profile.json that a profiled run wrote"),
        );
    }
    let version = head.version.as_ref().and_then(serde_json::Value::as_u64);
    if version != Some(u64::from(VERSION)) {
        let found = head
            .version
            .map_or("none".into(), |found| found.to_string());
        return Err(Error::input(format!(
            "a profile of version {found}; this build reads version {VERSION}"
        ))
        .at(place)
        .hint("profile again with this build, or compare with the build that wrote it"));
    }
    serde_json::from_str(text).map_err(|error| invalid(text, place, &error))
}

/// Reads `profile.json`.
///
/// # Errors
/// As [`from_json`], and those of the file system.
pub fn read_profile(path: &Path) -> Result<Profile> {
    let bytes =
        std::fs::read(path).map_err(|error| Error::io("cannot read the profile", path, error))?;
    let place = path.display().to_string();
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Error::input("not a profile: it is not text")
            .at(format!("{place}, byte {offset}"))
            .hint("give the profile.json that a profiled run wrote")
    })?;
    from_json(&text, &place)
}

/// Writes `profile.json`, whole or not at all.
///
/// # Errors
/// Those of the file system.
pub fn write_profile(path: &Path, profile: &Profile) -> Result<()> {
    let text = to_json(profile)?;
    let failed = |error| Error::io("cannot write the profile", path, error);
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let mut file =
        tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    // Temporary files are private; a profile is as open as any other file that is made.
    readable(file.as_file()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(unix)]
fn readable(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

fn invalid(text: &str, place: &str, error: &serde_json::Error) -> Error {
    let before: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let at = format!("{place}, byte {}", before + error.column());
    let (what, hint) = if error.is_eof() {
        (
            "the profile ends in the middle".to_owned(),
            "copy the file again: it was cut short",
        )
    } else if error.is_data() {
        (
            format!("the profile has a field that is wrong: {error}"),
            "profile again with this build: the file was changed or written by another one",
        )
    } else {
        (
            format!("not JSON: {error}"),
            "give the profile.json that a profiled run wrote",
        )
    };
    Error::input(what).at(at).hint(hint)
}
