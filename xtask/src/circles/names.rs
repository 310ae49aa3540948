//! Resolution of paths to files.

use super::Graph;
use super::lexer::tokens;
use super::parser::{Import, Scope, scopes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names from the root of a crate to a module.
type Place = Vec<String>;

/// A module, with the file that it is in.
struct Module {
    file: String,
    scope: Scope,
}

/// Result of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Module(Place),
    /// An item of the module.
    Item(Place),
}

/// Most re-exports that a path goes through.
const MOST_STEPS: usize = 16;

/// All modules from a root.
struct Names {
    modules: BTreeMap<Place, Module>,
}

/// Returns the dependencies between the files under a crate's `src`.
///
/// # Errors
/// A file that cannot be read.
pub fn graph(src: &Path) -> Result<Graph, String> {
    let mut graph = Graph::new();
    for root in ["lib.rs", "main.rs"] {
        let root = src.join(root);
        if !root.is_file() {
            continue;
        }
        let mut names = Names {
            modules: BTreeMap::new(),
        };
        names.read(src, &root, &Place::new())?;
        for (file, used) in names.links() {
            graph.entry(file).or_default().insert(used);
        }
        for module in names.modules.values() {
            graph.entry(module.file.clone()).or_default();
        }
    }
    Ok(graph)
}

impl Names {
    /// Reads a file and the files of its modules.
    fn read(&mut self, src: &Path, file: &Path, place: &Place) -> Result<(), String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let short = file.strip_prefix(src).unwrap_or(file);
        let short = short.to_string_lossy().replace('\\', "/");
        for scope in scopes(&tokens(&text)) {
            let here: Place = place.iter().chain(&scope.path).cloned().collect();
            let files = scope.files.clone();
            let file = short.clone();
            self.modules.insert(here.clone(), Module { file, scope });
            for name in files {
                let mut child = here.clone();
                child.push(name);
                if let Some(path) = file_of(src, &child) {
                    self.read(src, &path, &child)?;
                }
            }
        }
        Ok(())
    }

    /// Returns every dependency of a file on another.
    fn links(&self) -> Vec<(String, String)> {
        let mut links = Vec::new();
        for (place, module) in &self.modules {
            let scope = &module.scope;
            let imports = scope.imports.iter().filter(|import| {
                // A parent that re-exports what a child defines does not depend on it.
                !(import.is_public && self.is_of_child(place, import))
            });
            let found = imports
                .filter_map(|import| self.import(place, import))
                .chain(
                    scope
                        .paths
                        .iter()
                        .filter_map(|path| self.resolve(place, path, MOST_STEPS)),
                );
            for found in found {
                // An import of a module only names it: its paths are resolved where they are used.
                let Found::Item(used) = found else { continue };
                if let Some(used) = self.modules.get(&used)
                    && used.file != module.file
                {
                    links.push((module.file.clone(), used.file.clone()));
                }
            }
        }
        links
    }

    fn import(&self, place: &Place, import: &Import) -> Option<Found> {
        let found = self.resolve(place, &import.path, MOST_STEPS)?;
        match (import.name.as_str(), found) {
            // All names of a module: an unknown part of it.
            ("*", Found::Module(place)) => Some(Found::Item(place)),
            (_, found) => Some(found),
        }
    }

    fn is_of_child(&self, place: &Place, import: &Import) -> bool {
        let found = self.import(place, import);
        found.is_some_and(|(Found::Item(at) | Found::Module(at))| at.starts_with(place))
    }

    /// Returns the item or module that a path names in the module at `place`; `None` for another crate's.
    fn resolve(&self, place: &Place, path: &[String], steps: usize) -> Option<Found> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Found::Module(Place::new()),
            "self" => Found::Module(place.clone()),
            "super" => Found::Module(place.split_last()?.1.to_vec()),
            name => self.look_up(place, name, steps)?,
        };
        let mut at = start;
        for name in rest {
            at = match at {
                // Behind an item: a variant, an associated function.
                Found::Item(_) => return Some(at),
                Found::Module(module) if name == "super" => {
                    Found::Module(module.split_last()?.1.to_vec())
                }
                Found::Module(module) => self.look_up(&module, name, steps)?,
            };
        }
        Some(at)
    }

    /// Returns what a name is in a module.
    fn look_up(&self, place: &Place, name: &str, steps: usize) -> Option<Found> {
        let mut child = place.clone();
        child.push(name.to_owned());
        if self.modules.contains_key(&child) {
            return Some(Found::Module(child));
        }
        let scope = &self.modules.get(place)?.scope;
        if scope.items.iter().any(|item| item == name) {
            return Some(Found::Item(place.clone()));
        }
        let named = scope.imports.iter().filter(|import| import.name == name);
        // `use name;` resolves to itself in a module that has no such name: another crate.
        let named = named.filter(|import| import.path.len() > 1 || import.path[0] != name);
        let found = named
            .map(|import| self.resolve(place, &import.path, steps))
            .find(Option::is_some);
        if let Some(found) = found {
            return found;
        }
        let all = scope.imports.iter().filter(|import| import.name == "*");
        all.filter_map(|import| match self.resolve(place, &import.path, steps)? {
            Found::Module(module) if module != *place => {
                self.look_up(&module, name, steps.checked_sub(1)?)
            }
            _ => None,
        })
        .next()
    }
}

/// Returns the file of a module.
fn file_of(src: &Path, place: &Place) -> Option<PathBuf> {
    let folder = place
        .iter()
        .fold(src.to_owned(), |path, name| path.join(name));
    let candidates = [folder.with_extension("rs"), folder.join("mod.rs")];
    candidates.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    fn graph_of(files: &[(&str, &str)]) -> Graph {
        let folder = std::env::temp_dir().join(format!(
            "dapple-circles-{}-{}",
            std::process::id(),
            files.len()
        ));
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let graph = graph(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        graph
    }

    #[test]
    fn paths_go_through_modules_and_re_exports_to_the_file_of_the_item() {
        let graph = graph_of(&[
            (
                "lib.rs",
                "mod a; pub mod b; mod e; pub use a::A; pub use b::C;",
            ),
            (
                "a.rs",
                "use crate::b::{self, C}; pub struct A; fn f() { b::make(); }",
            ),
            ("b/mod.rs", "mod c; mod d; pub use c::C; pub use d::*;"),
            (
                "b/c.rs",
                "use super::d; pub struct C; fn f() { std::mem::take(g); d::inner::G; }",
            ),
            (
                "b/d.rs",
                "pub fn make() { crate::A; } pub mod inner { pub struct G; fn h() { super::super::C; } }",
            ),
            (
                "e.rs",
                "use crate::{C, a}; use crate::nothing::else_; #[cfg(test)] mod tests { use super::*; }",
            ),
        ]);
        let used = |file: &str| graph[file].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(used("lib.rs"), Vec::<&str>::new());
        assert_eq!(used("a.rs"), ["b/c.rs", "b/d.rs"]);
        assert_eq!(used("b/mod.rs"), Vec::<&str>::new());
        assert_eq!(used("b/c.rs"), ["b/d.rs"]);
        assert_eq!(used("b/d.rs"), ["a.rs", "b/c.rs"]);
        assert_eq!(used("e.rs"), ["b/c.rs"]);
    }
}
