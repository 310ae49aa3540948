//! The step `circles`: import circles between the files of a crate.
//!
//! 1. [`lexer`] splits a file into tokens, without comments, literals and `#[cfg(test)]` items.
//! 2. [`parser`] finds modules, names of items, `use` declarations and paths.
//! 3. [`names`] resolves each path to the file that defines the item, through re-exports. A module that is only passed
//!    through is no dependency. A `pub use` of a child by its parent is no dependency either.
//! 4. Files that reach each other through these dependencies form a circle. Method calls are not counted.
//!
//! The step fails if a circle has more than [`LIMIT`] files.

mod lexer;
mod names;
mod parser;

use crate::shell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most files of a circle.
const LIMIT: usize = 4;

/// Dependencies between the files of a crate: each file with the files that it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Prints the circles of every crate.
///
/// # Errors
/// A circle over the limit; a file that cannot be read.
pub fn run() -> Result<(), String> {
    let mut failures = Vec::new();
    for name in crates()? {
        let graph = names::graph(&shell::root().join("crates").join(&name).join("src"))?;
        let found = circles(&graph);
        let largest = found.first().map_or(1, Vec::len);
        for circle in &found {
            println!("{name}: {} files: {}", circle.len(), circle.join(", "));
        }
        if largest > LIMIT {
            print_links(&graph, &found[0]);
            failures.push(format!(
                "{name}: a circle of {largest} files, at most {LIMIT}"
            ));
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("; ")),
    }
}

/// Returns the names of the folders under `crates`.
fn crates() -> Result<Vec<String>, String> {
    let folder = shell::root().join("crates");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let has_source = |path: &Path| path.join("src").is_dir();
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| has_source(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// Prints the dependencies inside a circle.
fn print_links(graph: &Graph, circle: &[String]) {
    for file in circle {
        let used = graph.get(file).into_iter().flatten();
        let inside: Vec<&str> = used
            .filter(|other| circle.contains(other))
            .map(String::as_str)
            .collect();
        println!("  {file} uses {}", inside.join(", "));
    }
}

/// Returns the circles, the largest first, each with its files in order of name.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph
        .keys()
        .map(|file| (file, reached_from(graph, file)))
        .collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (file, others) in &reached {
        if found.iter().any(|circle| circle.contains(file)) {
            continue;
        }
        let is_mutual = |other: &&&String| reached[**other].contains(file);
        let circle: Vec<String> = others
            .iter()
            .filter(is_mutual)
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// Returns the files that `start` uses, directly and through others; `start` itself if it is in a circle.
fn reached_from<'a>(graph: &'a Graph, start: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&String> = graph.get(start).into_iter().flatten().collect();
    while let Some(file) = waiting.pop() {
        if found.insert(file) {
            waiting.extend(graph.get(file).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(links: &[(&str, &[&str])]) -> Graph {
        let links = links.iter();
        links
            .map(|(file, used)| {
                let used = used.iter().map(|file| (*file).to_owned()).collect();
                ((*file).to_owned(), used)
            })
            .collect()
    }

    #[test]
    fn files_that_reach_each_other_form_a_circle() {
        let graph = graph(&[
            ("a", &["b"]),
            ("b", &["c"]),
            ("c", &["a", "d"]),
            ("d", &["e"]),
            ("e", &["d"]),
            ("f", &["a"]),
        ]);
        assert_eq!(circles(&graph), [vec!["a", "b", "c"], vec!["d", "e"]]);
    }
}
