//! Tokens of a Rust file: names, `::` and single characters. Comments and literals are dropped, and so are items under
//! `#[cfg(test)]`.

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A name or keyword.
    Name(String),
    /// `::`.
    Path,
    /// Another character.
    Mark(char),
}

impl Token {
    /// Returns the text of a name.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Returns true if the token is this name.
    pub fn is(&self, name: &str) -> bool {
        self.name() == Some(name)
    }
}

/// Returns the tokens of a file without its tests.
pub fn tokens(text: &str) -> Vec<Token> {
    without_tests(&all_tokens(text))
}

fn all_tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let next = chars.get(at + 1).copied().unwrap_or(' ');
        at = match c {
            '/' if next == '/' => end_of_line(&chars, at),
            '/' if next == '*' => end_of_comment(&chars, at),
            '"' => end_of_string(&chars, at),
            '\'' => end_of_quote(&chars, at),
            ':' if next == ':' => {
                tokens.push(Token::Path);
                at + 2
            }
            _ if c == '_' || c.is_alphanumeric() => {
                let is_part = |c: &&char| **c == '_' || c.is_alphanumeric();
                let name: String = chars[at..].iter().take_while(is_part).collect();
                let end = at + name.chars().count();
                match raw_string_end(&chars, &name, end) {
                    Some(end) => end,
                    None => {
                        if !c.is_numeric() {
                            tokens.push(Token::Name(name));
                        }
                        end
                    }
                }
            }
            _ => {
                if !c.is_whitespace() {
                    tokens.push(Token::Mark(c));
                }
                at + 1
            }
        };
    }
    tokens
}

fn end_of_line(chars: &[char], at: usize) -> usize {
    let rest = chars[at..].iter();
    at + rest.take_while(|c| **c != '\n').count()
}

fn end_of_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn end_of_string(chars: &[char], mut at: usize) -> usize {
    at += 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Returns the end of a character literal, or of the quote of a lifetime.
fn end_of_quote(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            // The escaped character may be a quote.
            let rest = chars.get(at + 3..).unwrap_or_default().iter();
            at + 4 + rest.take_while(|c| **c != '\'').count()
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}

/// Returns the end of a raw string whose prefix is `name` and ends at `at`.
fn raw_string_end(chars: &[char], name: &str, at: usize) -> Option<usize> {
    if !["r", "br", "cr"].contains(&name) {
        return None;
    }
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let mut end = at + hashes + 1;
    while end < chars.len() {
        let closing = chars[end + 1..].iter().take(hashes);
        if chars[end] == '"' && closing.filter(|c| **c == '#').count() == hashes {
            return Some(end + 1 + hashes);
        }
        end += 1;
    }
    Some(end)
}

/// Drops attributes, and items under `#[cfg(test)]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut left = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_attribute = tokens[at] == Token::Mark('#')
            && matches!(
                tokens.get(at + 1),
                Some(Token::Mark('[') | Token::Mark('!'))
            );
        if !is_attribute {
            left.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = end_of_group(tokens, at);
        let attribute = &tokens[at..end];
        let has = |name: &str| attribute.iter().any(|token| token.is(name));
        at = match has("cfg") && has("test") && !has("not") {
            true => end_of_item(tokens, end),
            false => end,
        };
    }
    left
}

/// Returns the place behind the first group in brackets from `at` on.
fn end_of_group(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Mark('[' | '(' | '{') => depth += 1,
            Token::Mark(']' | ')' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return place + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the place behind the item that begins at `at`.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    while at < tokens.len() {
        match tokens[at] {
            Token::Mark(';') => return at + 1,
            Token::Mark('{') => return end_of_group(tokens, at),
            Token::Mark('(' | '[') => at = end_of_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let tokens = tokens(text);
        let names = tokens.iter().filter_map(Token::name);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_literals_are_no_tokens() {
        let text = r##"a /* b /* c */ d */ e // f
            "g \" h" i r#"j " k"# l '\'' m 'n' o 'p q 0x1f r"##;
        assert_eq!(names(text), ["a", "e", "i", "l", "m", "o", "p", "q", "r"]);
    }

    #[test]
    fn tests_and_attributes_are_dropped() {
        let text = "#[derive(A)] struct B; #[cfg(test)] mod tests { use c; } \
            #[cfg(all(test, unix))] #[x] fn d(e: [u8; 2]) -> f { g } use h; #[cfg(not(test))] use i;";
        assert_eq!(names(text), ["struct", "B", "use", "h", "use", "i"]);
    }
}
