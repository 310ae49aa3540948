//! File names of renders of held-out photos.

use std::collections::HashSet;

/// Flat file names for names of photos, which may hold folders: `left/0001.jpg` becomes `left_0001.png`. Each name is
/// unique.
#[derive(Debug, Clone, Default)]
pub struct RenderNames {
    /// In lower case: on some file systems A.png and a.png are one file.
    used: HashSet<String>,
}

impl RenderNames {
    /// Returns the file name of the render of `photo`.
    pub fn name(&mut self, photo: &str) -> String {
        let (folder, file) = photo.rsplit_once(['/', '\\']).unwrap_or(("", photo));
        let stem = match file.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => file,
        };
        let flat: String = format!("{folder}/{stem}")
            .trim_start_matches(['.', '/', '\\'])
            .chars()
            .map(|c| match c {
                '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '_',
                c if c.is_control() => '_',
                c => c,
            })
            .collect();
        let mut name = format!("{flat}.png");
        let mut n = 2;
        while !self.used.insert(name.to_lowercase()) {
            name = format!("{flat}-{n}.png");
            n += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_get_flat_names_and_no_two_the_same() {
        let mut names = RenderNames::default();
        let given = [
            "left/0001.jpg",
            "left_0001.PNG",
            "../a",
            "cam.1/0001",
            ".jpg",
        ];
        let expected = [
            "left_0001.png",
            "left_0001-2.png",
            "a.png",
            "cam.1_0001.png",
            "jpg.png",
        ];
        for (photo, expected) in given.iter().zip(expected) {
            assert_eq!(names.name(photo), expected, "{photo}");
        }
    }
}
