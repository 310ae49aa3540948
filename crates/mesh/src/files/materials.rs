//! Material files of OBJ files.

use super::drawable::Picture;
use dapple_base::{Error, Result, bounded};
use dapple_scene::Photo;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// First bytes and media types of the pictures that browsers show.
const KINDS: [(&[u8], &str); 4] = [
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"RIFF", "image/webp"),
    (b"BM", "image/bmp"),
];

/// Options of a picture in a material file, with the number of values that follow them. Options with three may have
/// fewer.
const OPTIONS: [(&str, usize); 11] = [
    ("-blendu", 1),
    ("-blendv", 1),
    ("-cc", 1),
    ("-clamp", 1),
    ("-bm", 1),
    ("-texres", 1),
    ("-imfchan", 1),
    ("-mm", 2),
    ("-o", 3),
    ("-s", 3),
    ("-t", 3),
];

/// Diffuse colour and picture of a material.
#[derive(Debug, Clone, Default)]
struct Material {
    colour: Option<[u8; 3]>,
    picture: Option<String>,
}

/// Materials of an OBJ file, in the order of its faces.
#[derive(Debug, Default)]
pub(super) struct Materials {
    /// Diffuse colours.
    pub colours: Vec<Option<[u8; 3]>>,
    /// Names of the pictures.
    pictures: Vec<Option<String>>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Materials {
    /// Reads the material files `libraries` in `folder`, for materials of these names.
    ///
    /// # Errors
    /// A file that exists and cannot be read.
    pub fn read(folder: &Path, libraries: &[String], names: &[String]) -> Result<Self> {
        let mut found = HashMap::new();
        let mut notes = Vec::new();
        for library in libraries {
            let files = match beside(folder, library) {
                Some(file) => vec![file],
                // Several names in one line.
                None => {
                    let names = library.split_whitespace();
                    names.filter_map(|name| beside(folder, name)).collect()
                }
            };
            if files.is_empty() {
                notes.push(format!(
                    "the material file {library:?} is not next to the mesh, which has no texture without it"
                ));
            }
            for file in files {
                parse(&file, &mut found)?;
            }
        }
        let mut materials = Self {
            notes,
            ..Self::default()
        };
        for name in names {
            let material: Material = found.get(name.as_str()).cloned().unwrap_or_default();
            materials.colours.push(material.colour);
            materials.pictures.push(material.picture);
        }
        Ok(materials)
    }

    /// Returns true if a material has a colour.
    pub fn have_colours(&self) -> bool {
        self.colours.iter().any(Option::is_some)
    }

    /// Returns the first picture, and the materials that have it. Adds a note about other pictures.
    ///
    /// # Errors
    /// A file that exists and is no picture that browsers show, or is damaged.
    pub fn picture(&mut self, folder: &Path) -> Result<Option<(Picture, Vec<u32>)>> {
        let Some(name) = self.pictures.iter().flatten().next().cloned() else {
            return Ok(None);
        };
        let mut names: Vec<&String> = self.pictures.iter().flatten().collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > 1 {
            self.notes.push(format!(
                "the mesh has {} textures, and only {name:?} is shown",
                names.len()
            ));
        }
        let Some(file) = beside(folder, &name) else {
            self.notes
                .push(format!("the texture {name:?} is not next to the mesh"));
            return Ok(None);
        };
        let has = |other: &Option<String>| other.as_ref() == Some(&name);
        let on = (0..).zip(&self.pictures).filter(|(_, other)| has(other));
        let on = on.map(|(index, _)| index).collect();
        Ok(Some((read_picture(&file)?, on)))
    }
}

fn read_picture(file: &Path) -> Result<Picture> {
    let bytes = bounded::read("cannot read the texture", file, bounded::IMAGE_BYTES)?;
    let kind = KINDS.iter().find(|(first, _)| bytes.starts_with(first));
    let hint = "convert it to PNG or JPEG, and change its name in the material file";
    let Some((_, kind)) = kind else {
        return Err(
            Error::unsupported("browsers do not show a texture of this format")
                .at_path(file)
                .hint(hint),
        );
    };
    Photo::from_bytes(&bytes).map_err(|e| {
        let what = e.what().trim_start_matches("the photo cannot be decoded: ");
        Error::input(format!("the texture cannot be decoded: {what}"))
            .at_path(file)
            .hint("copy it again, or convert it to PNG or JPEG")
    })?;
    Ok(Picture {
        bytes,
        kind: (*kind).to_owned(),
    })
}

/// Returns the file of this name in `folder` or a folder below; without one, the file with the last part of the name.
/// Files elsewhere are not read, because an exported page contains them.
fn beside(folder: &Path, name: &str) -> Option<PathBuf> {
    let name = name.trim_matches('"').replace('\\', "/");
    let is_below =
        !name.starts_with('/') && !name.contains(':') && !name.split('/').any(|p| p == "..");
    let last = name.rsplit('/').next().unwrap_or_default();
    let places = [
        is_below.then(|| folder.join(&name)),
        Some(folder.join(last)),
    ];
    places.into_iter().flatten().find(|file| file.is_file())
}

/// Reads the materials of a file. Lines that are not understood are skipped.
fn parse(file: &Path, found: &mut HashMap<String, Material>) -> Result<()> {
    let bytes = bounded::read("cannot read the materials", file, bounded::SETTINGS_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut current = None;
    for line in text.lines() {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if word == "newmtl" {
            current = Some(rest.trim().to_owned());
        }
        let Some(name) = &current else { continue };
        let material = found.entry(name.clone()).or_default();
        match word {
            "Kd" => material.colour = colour(rest),
            "map_Kd" => material.picture = picture_name(rest),
            _ => {}
        }
    }
    Ok(())
}

/// Returns a colour of three numbers from 0 to 1.
fn colour(rest: &str) -> Option<[u8; 3]> {
    let values = rest.split_whitespace().map_while(|word| word.parse().ok());
    let values: Vec<f32> = values.collect();
    let &[r, g, b, ..] = values.as_slice() else {
        return None;
    };
    Some([r, g, b].map(|v| (255.0 * v).round().clamp(0.0, 255.0) as u8))
}

/// Returns the name of a picture after its options. Names may contain spaces.
fn picture_name(rest: &str) -> Option<String> {
    fn after(rest: &str) -> Option<&str> {
        let (_, after) = rest.split_once(char::is_whitespace)?;
        Some(after.trim_start())
    }
    let mut rest = rest.trim();
    loop {
        let word = rest.split_whitespace().next()?;
        let Some(&(_, count)) = OPTIONS.iter().find(|(name, _)| *name == word) else {
            return Some(rest.to_owned());
        };
        rest = after(rest)?;
        for k in 0..count {
            let value = rest.split_whitespace().next()?;
            if k > 0 && value.parse::<f32>().is_err() {
                break;
            }
            rest = after(rest)?;
        }
    }
}
