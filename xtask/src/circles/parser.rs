//! Modules, items, imports and paths of a file, from its tokens.

use super::lexer::Token;

/// A module of a file: the file itself, or a module in braces.
#[derive(Debug, Default)]
pub struct Scope {
    /// Names from the file's module to this one.
    pub path: Vec<String>,
    /// Names of modules that have a file of their own.
    pub files: Vec<String>,
    /// Names of items.
    pub items: Vec<String>,
    /// Imports.
    pub imports: Vec<Import>,
    /// Paths in expressions and types.
    pub paths: Vec<Vec<String>>,
}

/// A name that a `use` declaration brings in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Name in this module; `*` for all names.
    pub name: String,
    /// Path to the item, or to the module of all names.
    pub path: Vec<String>,
    /// True for `pub use`.
    pub is_public: bool,
}

/// Keywords before the name of an item.
const ITEMS: [&str; 10] = [
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "fn",
    "const",
    "static",
    "macro_rules",
    "mod",
];

/// Returns the modules of a file; the first is the file itself.
pub fn scopes(tokens: &[Token]) -> Vec<Scope> {
    let mut parser = Parser {
        tokens,
        at: 0,
        scopes: vec![Scope::default()],
        open: vec![0],
        depth: 0,
        ends: Vec::new(),
    };
    while parser.at < tokens.len() {
        parser.next();
    }
    parser.scopes
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    scopes: Vec<Scope>,
    /// Modules around the present token, by number.
    open: Vec<usize>,
    /// Braces around the present token.
    depth: usize,
    /// Depth at which each module in braces ends.
    ends: Vec<usize>,
}

impl Parser<'_> {
    fn scope(&mut self) -> &mut Scope {
        let last = self.open.last().copied().unwrap_or(0);
        &mut self.scopes[last]
    }

    fn name_at(&self, at: usize) -> Option<&str> {
        self.tokens.get(at).and_then(Token::name)
    }

    fn is_mark(&self, at: usize, mark: char) -> bool {
        self.tokens.get(at) == Some(&Token::Mark(mark))
    }

    /// True if braces are only those of modules.
    fn is_outside_items(&self) -> bool {
        self.depth == self.ends.last().map_or(0, |end| end + 1)
    }

    fn next(&mut self) {
        match &self.tokens[self.at] {
            Token::Mark('{') => {
                self.depth += 1;
                self.at += 1;
            }
            Token::Mark('}') => {
                self.depth = self.depth.saturating_sub(1);
                if self.ends.last() == Some(&self.depth) {
                    self.ends.pop();
                    self.open.pop();
                }
                self.at += 1;
            }
            Token::Name(word) if word == "use" => self.import(),
            Token::Name(word) if ITEMS.contains(&word.as_str()) && self.is_outside_items() => {
                let word = word.clone();
                self.item(&word);
            }
            Token::Name(_) => self.path(),
            _ => self.at += 1,
        }
    }

    fn item(&mut self, word: &str) {
        self.at += 1;
        if word == "macro_rules" {
            self.at += 1;
        }
        while ["mut", "fn", "unsafe", "extern"]
            .iter()
            .any(|more| self.tokens.get(self.at).is_some_and(|token| token.is(more)))
        {
            self.at += 1;
        }
        let Some(name) = self.name_at(self.at).map(str::to_owned) else {
            return;
        };
        self.at += 1;
        if word != "mod" {
            self.scope().items.push(name);
        } else if self.is_mark(self.at, '{') {
            let mut path = self.scope().path.clone();
            path.push(name);
            self.open.push(self.scopes.len());
            self.ends.push(self.depth);
            self.scopes.push(Scope {
                path,
                ..Scope::default()
            });
            self.depth += 1;
            self.at += 1;
        } else {
            self.scope().files.push(name);
        }
    }

    /// Reads a path of two names or more.
    fn path(&mut self) {
        let is_inside =
            self.at > 0 && matches!(self.tokens[self.at - 1], Token::Path | Token::Mark('.'));
        let mut path = Vec::new();
        while let Some(name) = self.name_at(self.at) {
            path.push(name.to_owned());
            self.at += 1;
            if self.tokens.get(self.at) != Some(&Token::Path) {
                break;
            }
            self.at += 1;
        }
        if path.len() > 1 && !is_inside {
            self.scope().paths.push(path);
        }
    }

    fn import(&mut self) {
        let is_public = self.is_after_pub();
        self.at += 1;
        let mut found = Vec::new();
        self.tree(&[], &mut found);
        for (name, path) in found {
            self.scope().imports.push(Import {
                name,
                path,
                is_public,
            });
        }
    }

    /// True behind `pub` or `pub(...)`.
    fn is_after_pub(&self) -> bool {
        let before = &self.tokens[..self.at];
        match before.last() {
            Some(Token::Name(word)) => word == "pub",
            Some(Token::Mark(')')) => {
                let open = before.iter().rposition(|token| *token == Token::Mark('('));
                open.is_some_and(|open| open > 0 && before[open - 1].is("pub"))
            }
            _ => false,
        }
    }

    /// Reads a tree of imports behind `before`: names with their paths.
    fn tree(&mut self, before: &[String], found: &mut Vec<(String, Vec<String>)>) {
        let mut path = before.to_vec();
        loop {
            match self.tokens.get(self.at) {
                Some(Token::Path) => self.at += 1,
                Some(Token::Mark('{')) => {
                    self.at += 1;
                    while !self.is_mark(self.at, '}') && self.at < self.tokens.len() {
                        self.tree(&path, found);
                        if self.is_mark(self.at, ',') {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                Some(Token::Mark('*')) => {
                    self.at += 1;
                    found.push(("*".to_owned(), path));
                    return;
                }
                Some(Token::Name(word)) if word == "as" => {
                    let name = self.name_at(self.at + 1).unwrap_or("_").to_owned();
                    self.at += 2;
                    found.push((name, path));
                    return;
                }
                Some(Token::Name(word)) => {
                    let is_self = word == "self" && !path.is_empty();
                    if !is_self {
                        path.push(word.clone());
                    }
                    self.at += 1;
                    let goes_on = match self.tokens.get(self.at) {
                        Some(Token::Path) => true,
                        Some(token) => token.is("as"),
                        None => false,
                    };
                    if !goes_on {
                        let name = path.last().cloned().unwrap_or_default();
                        found.push((name, path));
                        return;
                    }
                }
                _ => {
                    self.at += 1;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::*;

    fn import(name: &str, path: &str, is_public: bool) -> Import {
        Import {
            name: name.to_owned(),
            path: path.split("::").map(str::to_owned).collect(),
            is_public,
        }
    }

    #[test]
    fn trees_of_imports_are_read() {
        let text = "use a; pub(crate) use b::{self, c as d, e::{f, *}}; pub use g::h;";
        let scopes = scopes(&tokens(text));
        assert_eq!(
            scopes[0].imports,
            [
                import("a", "a", false),
                import("b", "b", true),
                import("d", "b::c", true),
                import("f", "b::e::f", true),
                import("*", "b::e", true),
                import("h", "g::h", true),
            ]
        );
    }

    #[test]
    fn items_belong_to_their_modules() {
        let text = "mod a; pub mod b { pub const fn c() { struct D; super::e::f(); } } \
            static mut G: u8 = h::I; macro_rules! j { () => {} } impl K { fn l() {} const M: u8 = 0; }";
        let scopes = scopes(&tokens(text));
        assert_eq!(scopes[0].files, ["a"]);
        assert_eq!(scopes[0].items, ["G", "j"]);
        assert_eq!(scopes[0].paths, [["h", "I"]]);
        assert_eq!(scopes[1].path, ["b"]);
        assert_eq!(scopes[1].items, ["c"]);
        assert_eq!(scopes[1].paths, [["super", "e", "f"]]);
    }
}
