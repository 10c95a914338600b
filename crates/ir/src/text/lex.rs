//! Words of the text form, each with its line and column.

use crate::{Error, Result};

/// A word.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token<'a> {
    /// A name or keyword.
    Word(&'a str),
    /// A number as it stands, sign included.
    Number(&'a str),
    /// A quoted string, unescaped.
    Str(String),
    /// `%3` or `%3.1`.
    Slot(u32, u32),
    /// What follows a `#`, trimmed.
    Comment(&'a str),
    /// One of `= , : { } [ ] ( )`.
    Mark(char),
    /// The end of the text.
    End,
}

impl Token<'_> {
    /// As it is named in an error.
    pub(super) fn show(&self) -> String {
        let short = |s: &str| {
            if s.chars().count() > 40 { format!("{}…", s.chars().take(40).collect::<String>()) } else { s.into() }
        };
        match self {
            Token::Word(w) | Token::Number(w) => format!("`{}`", short(w)),
            Token::Str(s) => format!("the string {:?}", short(s)),
            Token::Slot(n, 0) => format!("`%{n}`"),
            Token::Slot(n, o) => format!("`%{n}.{o}`"),
            Token::Comment(_) => "a comment".into(),
            Token::Mark(c) => format!("`{c}`"),
            Token::End => "the end of the text".into(),
        }
    }
}

/// A place in the text, both from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) line: usize,
    column: usize,
}
impl Spot {
    pub(super) fn error(self, message: impl std::fmt::Display) -> Error {
        Error::format(format!("line {}, column {}: {message}", self.line, self.column))
    }
}

/// Reads words one by one.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    spot: Spot,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { rest: text, spot: Spot { line: 1, column: 1 } }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        for c in taken.chars() {
            if c == '\n' {
                self.spot = Spot { line: self.spot.line + 1, column: 1 };
            } else {
                self.spot.column += 1;
            }
        }
        self.rest = rest;
        taken
    }
    fn take_while(&mut self, f: impl Fn(char) -> bool) -> &'a str {
        let n = self.rest.find(|c| !f(c)).unwrap_or(self.rest.len());
        self.take(n)
    }

    /// The next word and where it starts.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, Spot)> {
        self.take_while(char::is_whitespace);
        let at = self.spot;
        let Some(c) = self.rest.chars().next() else { return Ok((Token::End, at)) };
        let token = match c {
            '%' => self.slot(at)?,
            '"' => Token::Str(self.string(at)?),
            '#' => {
                self.take(1);
                Token::Comment(self.take_while(|c| c != '\n').trim())
            }
            '=' | ',' | ':' | '{' | '}' | '[' | ']' | '(' | ')' => {
                self.take(1);
                Token::Mark(c)
            }
            '-' | '+' | '0'..='9' => Token::Number(self.take_while(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))),
            c if c.is_alphabetic() || c == '_' => Token::Word(self.take_while(|c| c.is_alphanumeric() || c == '_')),
            c => return Err(at.error(format!("{c:?} has no meaning here"))),
        };
        Ok((token, at))
    }

    fn slot(&mut self, at: Spot) -> Result<Token<'a>> {
        self.take(1);
        let text = self.take_while(|c| c.is_ascii_digit() || c == '.');
        let (node, out) = text.split_once('.').unwrap_or((text, "0"));
        match (node.parse(), out.parse()) {
            (Ok(n), Ok(o)) => Ok(Token::Slot(n, o)),
            _ => Err(at.error(format!("expected a value such as `%3` or `%3.1`, found `%{text}`"))),
        }
    }

    fn string(&mut self, at: Spot) -> Result<String> {
        self.take(1);
        let mut out = String::new();
        loop {
            out.push_str(self.take_while(|c| !"\"\\\n".contains(c)));
            let here = self.spot;
            match self.rest.chars().next() {
                Some('"') => {
                    self.take(1);
                    return Ok(out);
                }
                Some('\\') => out.push(self.escape(here)?),
                _ => return Err(at.error("the string does not end on its line")),
            }
        }
    }

    fn escape(&mut self, at: Spot) -> Result<char> {
        self.take(1);
        let c = self.rest.chars().next();
        self.take(c.map_or(0, char::len_utf8));
        match c {
            Some('n') => Ok('\n'),
            Some(c @ ('"' | '\\')) => Ok(c),
            Some('u') if self.rest.starts_with('{') => {
                self.take(1);
                let hex = self.take_while(|c| c.is_ascii_hexdigit());
                let c = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
                match (c, self.rest.starts_with('}')) {
                    (Some(c), true) => {
                        self.take(1);
                        Ok(c)
                    }
                    _ => Err(at.error("expected `\\u{…}` with the number of a character")),
                }
            }
            _ => Err(at.error("expected one of \\\" \\\\ \\n \\u{…} after the backslash")),
        }
    }
}
