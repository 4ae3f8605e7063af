//! HOCON: JSON with comments, dotted keys, unquoted strings, substitutions and includes.
//!
//! Owns the syntax and the merging of several documents. Does not know which keys exist, nor what they mean. Every value
//! remembers where it was written, so that whoever finds it wrong can say so.
//!
//!     text -> Value with substitutions pending -> merged, later documents over earlier ones -> resolved Value

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use thiserror::Error;

/// Nesting beyond this is a mistake or an attack, not a configuration.
const DEPTH_MAX: usize = 64;
const INCLUDE_DEPTH_MAX: usize = 16;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// A file, or the option of the command line.
    pub source: Rc<str>,
    /// 0 when the source has no lines.
    pub line: usize,
    pub column: usize,
}

impl Origin {
    pub fn named(source: &str) -> Origin {
        Origin { source: source.into(), line: 0, column: 0 }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.source),
            line => write!(f, "{}, line {line}, column {}", self.source, self.column),
        }
    }
}

#[derive(Debug, Error, PartialEq)]
#[error("{origin}: {message}")]
pub struct HoconError {
    pub origin: Origin,
    pub message: String,
}

#[derive(Clone, Debug)]
pub struct Value {
    pub kind: Kind,
    pub origin: Origin,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Null,
    Boolean(bool),
    /// As written, so that `10` and `10.0` stay apart.
    Number(String),
    Text(String),
    Array(Vec<Value>),
    Object(Object),
    /// A concatenation with substitutions in it, and what the key held before: `path = ${path} ["x"]` refers to that.
    Pending {
        pieces: Vec<Piece>,
        previous: Option<Box<Value>>,
    },
}

#[derive(Clone, Debug)]
pub enum Piece {
    Value(Value),
    Space(String),
    Reference { path: Vec<String>, optional: bool, origin: Origin },
}

/// Entries in the order in which they were first written.
#[derive(Clone, Debug, Default)]
pub struct Object(pub Vec<(String, Value)>);

impl Object {
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        match (self.get(first)?, rest) {
            (value, []) => Some(value),
            (Value { kind: Kind::Object(inner), .. }, rest) => inner.at(rest),
            _ => None,
        }
    }

    /// Puts a value at a path. Objects merge with objects; anything else replaces what was there.
    pub fn set(&mut self, path: &[String], value: Value) {
        let Some((first, rest)) = path.split_first() else { return };
        let value = match rest {
            [] => value,
            rest => {
                let origin = value.origin.clone();
                let mut inner = Object::default();
                inner.set(rest, value);
                Value { kind: Kind::Object(inner), origin }
            }
        };
        match self.0.iter_mut().find(|(key, _)| key == first) {
            Some((_, existing)) => {
                let before = std::mem::replace(existing, Value { kind: Kind::Null, origin: value.origin.clone() });
                *existing = layer(before, value);
            }
            // Even a first value may refer to itself (`a = ${?a} x`), so Pending is kept as it is.
            None => self.0.push((first.clone(), value)),
        }
    }

    pub fn merge(&mut self, over: Object) {
        for (key, value) in over.0 {
            self.set(&[key], value);
        }
    }
}

/// `over` laid over `before`.
fn layer(before: Value, over: Value) -> Value {
    let origin = over.origin.clone();
    let kind = match (before.kind, over.kind) {
        (Kind::Object(mut below), Kind::Object(above)) => {
            below.merge(above);
            Kind::Object(below)
        }
        (below, Kind::Pending { pieces, previous: None }) => {
            Kind::Pending { pieces, previous: Some(Box::new(Value { kind: below, origin: before.origin })) }
        }
        (below @ Kind::Pending { .. }, Kind::Object(above)) => Kind::Pending {
            pieces: vec![Piece::Value(Value { kind: Kind::Object(above), origin: origin.clone() })],
            previous: Some(Box::new(Value { kind: below, origin: before.origin })),
        },
        (_, above) => above,
    };
    Value { kind, origin }
}

/// Reads a document. Substitutions are still pending: `resolve` when everything has been merged.
pub fn parse(text: &str, source: &str, directory: Option<&Path>) -> Result<Object, HoconError> {
    Parser::new(text, source, directory, 0).document()
}

pub fn parse_file(path: &Path) -> Result<Object, HoconError> {
    parse_file_nested(path, 0)
}

fn parse_file_nested(path: &Path, includes: usize) -> Result<Object, HoconError> {
    let source = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| HoconError {
        origin: Origin::named(&source),
        message: format!("the configuration file cannot be read: {error}"),
    })?;
    Parser::new(&text, &source, path.parent(), includes).document()
}

/// One value that did not come from a file: an override on the command line. Text that is a value keeps its type.
pub fn parse_override(text: &str, source: &str) -> Result<Value, HoconError> {
    let mut parser = Parser::new(text, source, None, 0);
    let origin = Origin::named(source);
    let value = parser.skip_space_and_comments().and_then(|()| parser.value());
    match value {
        Ok(value) if parser.rest_is_blank() => Ok(Value { origin, ..value }),
        // Not a value in HOCON, such as a Windows path: then it is the text itself.
        _ => Ok(Value { kind: Kind::Text(text.to_owned()), origin }),
    }
}

/// Fills in every substitution: from the document itself, then from `environment`.
pub fn resolve(root: &Object, environment: &dyn Fn(&str) -> Option<String>) -> Result<Object, HoconError> {
    Resolver { root, environment, under_way: Vec::new() }.object(root, &mut Vec::new())
}

struct Resolver<'a> {
    root: &'a Object,
    environment: &'a dyn Fn(&str) -> Option<String>,
    under_way: Vec<Vec<String>>,
}

impl Resolver<'_> {
    fn object(&mut self, object: &Object, at: &mut Vec<String>) -> Result<Object, HoconError> {
        let mut resolved = Object::default();
        for (key, value) in &object.0 {
            at.push(key.clone());
            if let Some(value) = self.value(value, at)? {
                resolved.0.push((key.clone(), value));
            }
            at.pop();
        }
        Ok(resolved)
    }

    /// None when nothing is left: an optional substitution of something that is not there.
    fn value(&mut self, value: &Value, at: &mut Vec<String>) -> Result<Option<Value>, HoconError> {
        let kind = match &value.kind {
            Kind::Object(object) => Kind::Object(self.object(object, at)?),
            Kind::Array(items) => {
                let mut resolved = Vec::new();
                for item in items {
                    resolved.extend(self.value(item, at)?);
                }
                Kind::Array(resolved)
            }
            Kind::Pending { pieces, previous } => return self.pending(pieces, previous.as_deref(), &value.origin, at),
            plain => plain.clone(),
        };
        Ok(Some(Value { kind, origin: value.origin.clone() }))
    }

    fn pending(
        &mut self,
        pieces: &[Piece],
        previous: Option<&Value>,
        origin: &Origin,
        at: &mut Vec<String>,
    ) -> Result<Option<Value>, HoconError> {
        let mut resolved = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Value(value) => resolved.extend(self.value(value, at)?.map(Piece::Value)),
                Piece::Space(space) => resolved.push(Piece::Space(space.clone())),
                Piece::Reference { path, optional, origin } => match self.reference(path, previous, origin, at)? {
                    Some(value) => resolved.push(Piece::Value(value)),
                    None if *optional => {}
                    None => {
                        let name = path.join(".");
                        let message = format!(
                            "${{{name}}} is neither a key of the configuration nor an environment variable; \
                             write ${{?{name}}} if it may be missing"
                        );
                        return Err(HoconError { origin: origin.clone(), message });
                    }
                },
            }
        }
        let value = concatenate(resolved, origin)?;
        match (previous, value) {
            (Some(previous), Some(value @ Value { kind: Kind::Object(_), .. })) => Ok(Some(match self.value(previous, at)? {
                Some(below) => layer(below, value),
                None => value,
            })),
            // An optional substitution that is missing leaves what was there before.
            (Some(previous), None) => self.value(previous, at),
            (_, value) => Ok(value),
        }
    }

    fn reference(
        &mut self,
        path: &[String],
        previous: Option<&Value>,
        origin: &Origin,
        at: &[String],
    ) -> Result<Option<Value>, HoconError> {
        if path == at {
            let Some(previous) = previous else { return Ok((self.environment)(&path.join(".")).map(|text| plain(text, origin))) };
            return self.value(previous, &mut at.to_vec());
        }
        if self.under_way.iter().any(|other| other == path) {
            let message = format!("${{{}}} refers to itself", path.join("."));
            return Err(HoconError { origin: origin.clone(), message });
        }
        self.under_way.push(path.to_vec());
        let found = self.find(path);
        self.under_way.pop();
        Ok(found?.or_else(|| (self.environment)(&path.join(".")).map(|text| plain(text, origin))))
    }

    fn find(&mut self, path: &[String]) -> Result<Option<Value>, HoconError> {
        let mut object = self.root.clone();
        for (depth, key) in path.iter().enumerate() {
            let Some(value) = object.get(key).cloned() else { return Ok(None) };
            let mut at = path[..=depth].to_vec();
            if depth + 1 == path.len() {
                return self.value(&value, &mut at);
            }
            object = match value.kind {
                Kind::Object(inner) => inner,
                Kind::Pending { .. } => match self.value(&value, &mut at)? {
                    Some(Value { kind: Kind::Object(inner), .. }) => inner,
                    _ => return Ok(None),
                },
                _ => return Ok(None),
            };
        }
        Ok(None)
    }
}

fn plain(text: String, origin: &Origin) -> Value {
    Value { kind: word(&text), origin: origin.clone() }
}

/// Joins the pieces of one value: objects merge, arrays append, the rest is text.
fn concatenate(pieces: Vec<Piece>, origin: &Origin) -> Result<Option<Value>, HoconError> {
    let mut values: Vec<&Value> =
        pieces.iter().filter_map(|piece| if let Piece::Value(value) = piece { Some(value) } else { None }).collect();
    match values.len() {
        0 => return Ok(None),
        1 => return Ok(values.pop().cloned()),
        _ => {}
    }
    let kind = if values.iter().all(|value| matches!(value.kind, Kind::Object(_))) {
        let mut merged = Object::default();
        for value in values {
            if let Kind::Object(object) = &value.kind {
                merged.merge(object.clone());
            }
        }
        Kind::Object(merged)
    } else if values.iter().all(|value| matches!(value.kind, Kind::Array(_))) {
        Kind::Array(
            values
                .iter()
                .flat_map(|value| if let Kind::Array(items) = &value.kind { items.clone() } else { Vec::new() })
                .collect(),
        )
    } else {
        let mut text = String::new();
        for piece in &pieces {
            match piece {
                Piece::Space(space) => text.push_str(space),
                Piece::Value(value) => match &value.kind {
                    Kind::Text(part) | Kind::Number(part) => text.push_str(part),
                    Kind::Boolean(part) => text.push_str(&part.to_string()),
                    Kind::Null => text.push_str("null"),
                    _ => {
                        let message = "an object or a list cannot be joined with text; is a comma missing?".to_owned();
                        return Err(HoconError { origin: origin.clone(), message });
                    }
                },
                Piece::Reference { .. } => {}
            }
        }
        Kind::Text(text.trim().to_owned())
    };
    Ok(Some(Value { kind, origin: origin.clone() }))
}

/// What an unquoted word is.
fn word(text: &str) -> Kind {
    match text {
        "true" => Kind::Boolean(true),
        "false" => Kind::Boolean(false),
        "null" => Kind::Null,
        _ if is_number(text) => Kind::Number(text.to_owned()),
        _ => Kind::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        && text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
        && text.parse::<f64>().is_ok()
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// Byte at which the line begins.
    line_start: usize,
    source: Rc<str>,
    directory: Option<PathBuf>,
    depth: usize,
    includes: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, source: &str, directory: Option<&Path>, includes: usize) -> Parser<'a> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let directory = directory.map(Path::to_owned);
        Parser { text, at: 0, line: 1, line_start: 0, source: source.into(), directory, depth: 0, includes }
    }

    fn document(mut self) -> Result<Object, HoconError> {
        self.skip_space_and_comments()?;
        let object = match self.peek() {
            Some('{') => self.braced()?,
            Some('[') => return Err(self.error("a configuration is an object, not a list")),
            _ => self.entries(None)?,
        };
        self.skip_space_and_comments()?;
        match self.peek() {
            None => Ok(object),
            Some(c) => Err(self.error(format!("'{c}' after the end of the configuration; is a brace missing or too many?"))),
        }
    }

    fn origin(&self) -> Origin {
        let column = self.text[self.line_start..self.at].chars().count() + 1;
        Origin { source: self.source.clone(), line: self.line, column }
    }

    fn error(&self, message: impl Into<String>) -> HoconError {
        HoconError { origin: self.origin(), message: message.into() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        if c == '\n' {
            self.line += 1;
            self.line_start = self.at;
        }
        Some(c)
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            (0..token.chars().count()).for_each(|_| {
                self.next();
            });
        }
        found
    }

    fn rest_is_blank(&self) -> bool {
        self.rest().trim().is_empty()
    }

    fn at_comment(&self) -> bool {
        self.rest().starts_with('#') || self.rest().starts_with("//")
    }

    /// Spaces within a line.
    fn skip_blanks(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(|c| c != '\n' && (c.is_whitespace() || c == '\u{feff}')) {
            self.next();
        }
        &self.text[start..self.at]
    }

    fn skip_space_and_comments(&mut self) -> Result<(), HoconError> {
        loop {
            while self.peek().is_some_and(|c| c.is_whitespace() || c == '\u{feff}') {
                self.next();
            }
            if !self.at_comment() {
                return Ok(());
            }
            while self.peek().is_some_and(|c| c != '\n') {
                self.next();
            }
        }
    }

    fn braced(&mut self) -> Result<Object, HoconError> {
        let opened = self.origin();
        self.deeper()?;
        self.next();
        let object = self.entries(Some(&opened))?;
        self.depth -= 1;
        Ok(object)
    }

    fn deeper(&mut self) -> Result<(), HoconError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.error(format!("nested more than {DEPTH_MAX} deep"))) } else { Ok(()) }
    }

    /// Entries up to the closing brace, or to the end when nothing was `opened`.
    fn entries(&mut self, opened: Option<&Origin>) -> Result<Object, HoconError> {
        let mut object = Object::default();
        loop {
            self.skip_separators()?;
            match (self.peek(), opened) {
                (None, None) => return Ok(object),
                (None, Some(opened)) => return Err(self.error(format!("the brace opened at line {} is not closed", opened.line))),
                (Some('}'), Some(_)) => {
                    self.next();
                    return Ok(object);
                }
                (Some('}'), None) => return Ok(object),
                _ => self.entry(&mut object)?,
            }
            self.skip_blanks();
            if !matches!(self.peek(), None | Some('\n' | ',' | '}')) && !self.at_comment() {
                return Err(self.error("expected a comma, a new line or a closing brace after the value"));
            }
        }
    }

    fn skip_separators(&mut self) -> Result<(), HoconError> {
        self.skip_space_and_comments()?;
        if self.take(",") {
            self.skip_space_and_comments()?;
        }
        Ok(())
    }

    fn entry(&mut self, object: &mut Object) -> Result<(), HoconError> {
        let after = self.rest().strip_prefix("include");
        if after.is_some_and(|rest| rest.trim_start().starts_with(['"', 'f', 'r']) && rest.starts_with([' ', '\t'])) {
            return self.include(object);
        }
        let origin = self.origin();
        let path = self.path(&['=', ':', '{', '+'])?;
        let after_key = self.origin();
        self.skip_space_and_comments()?;
        let value = match self.peek() {
            Some('{') => self.value()?,
            Some('=' | ':') => {
                self.next();
                self.skip_space_and_comments()?;
                self.value()?
            }
            Some('+') if self.take("+=") => {
                self.skip_space_and_comments()?;
                let item = self.value()?;
                let kind = Kind::Array(vec![item]);
                let pieces = vec![
                    Piece::Reference { path: path.clone(), optional: true, origin: origin.clone() },
                    Piece::Value(Value { kind, origin: origin.clone() }),
                ];
                Value { kind: Kind::Pending { pieces, previous: None }, origin: origin.clone() }
            }
            _ => {
                let message = format!("expected '=', ':' or '{{' after the key '{}'", path.join("."));
                return Err(HoconError { origin: after_key, message });
            }
        };
        object.set(&path, value);
        Ok(())
    }

    fn include(&mut self, object: &mut Object) -> Result<(), HoconError> {
        self.take("include");
        self.skip_blanks();
        let required = self.take("required(");
        let file = self.take("file(");
        let Some('"') = self.peek() else { return Err(self.error("include needs a file name in quotes")) };
        let name = self.quoted()?;
        for open in [file, required] {
            if open && !self.take(")") {
                return Err(self.error("expected ')' after the file name"));
            }
        }
        if self.includes >= INCLUDE_DEPTH_MAX {
            return Err(
                self.error(format!("includes are nested more than {INCLUDE_DEPTH_MAX} deep; does a file include itself?"))
            );
        }
        let path = self.directory.as_deref().unwrap_or(Path::new("")).join(&name);
        if !path.exists() {
            // As in the format's own definition: a file that is not there includes nothing, unless it is required.
            return if required {
                Err(self.error(format!("the included file {} does not exist", path.display())))
            } else {
                Ok(())
            };
        }
        object.merge(parse_file_nested(&path, self.includes + 1)?);
        Ok(())
    }

    /// A dotted key, up to one of `ends`.
    fn path(&mut self, ends: &[char]) -> Result<Vec<String>, HoconError> {
        let mut path = Vec::new();
        loop {
            let mut part = String::new();
            let mut quoted = false;
            loop {
                match self.peek() {
                    Some('"') => {
                        part.push_str(&self.quoted()?);
                        quoted = true;
                    }
                    Some(c) if c == '.' || c == '\n' || ends.contains(&c) => break,
                    Some(c) if "$\"{}[],+#`^?!@*&\\:=".contains(c) => {
                        return Err(self.error(format!("'{c}' cannot stand in a key; put the key into quotes")));
                    }
                    Some(c) => {
                        part.push(c);
                        self.next();
                    }
                    None => break,
                }
            }
            let part = if quoted { part } else { part.trim().to_owned() };
            if part.is_empty() && !quoted {
                return Err(self.error("a key, or a part of it between two dots, is empty"));
            }
            path.push(part);
            if !self.take(".") {
                // Spaces between a quoted key and its separator.
                if let Some(last) = path.last_mut() {
                    let trimmed = last.trim_end().len();
                    last.truncate(trimmed);
                }
                return Ok(path);
            }
        }
    }

    /// A value: everything up to the end of the line, a comma or a closing bracket.
    fn value(&mut self) -> Result<Value, HoconError> {
        let origin = self.origin();
        let mut pieces: Vec<Piece> = Vec::new();
        loop {
            let piece_origin = self.origin();
            let kind = match self.peek() {
                None | Some('\n' | ',' | '}' | ']') => break,
                _ if self.at_comment() => break,
                Some('{') => Kind::Object(self.braced()?),
                Some('[') => Kind::Array(self.array()?),
                Some('"') => Kind::Text(self.quoted()?),
                Some('$') => {
                    pieces.push(self.reference()?);
                    continue;
                }
                Some(c) if c.is_whitespace() => {
                    let space = self.skip_blanks().to_owned();
                    pieces.push(Piece::Space(space));
                    continue;
                }
                Some(_) => {
                    let start = self.at;
                    while self.peek().is_some_and(|c| !c.is_whitespace() && !"$\"{}[],:=+#`^?!@*&\\".contains(c))
                        && !self.at_comment()
                    {
                        self.next();
                    }
                    if start == self.at {
                        let c = self.peek().unwrap_or(' ');
                        return Err(self.error(format!("'{c}' cannot stand in a value without quotes")));
                    }
                    word(&self.text[start..self.at])
                }
            };
            pieces.push(Piece::Value(Value { kind, origin: piece_origin }));
        }
        while matches!(pieces.last(), Some(Piece::Space(_))) {
            pieces.pop();
        }
        if pieces.is_empty() {
            return Err(self.error("a value is missing"));
        }
        if pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Reference { .. } | Piece::Value(Value { kind: Kind::Pending { .. }, .. })))
        {
            return Ok(Value { kind: Kind::Pending { pieces, previous: None }, origin });
        }
        concatenate(pieces, &origin)?.ok_or_else(|| self.error("a value is missing"))
    }

    fn array(&mut self) -> Result<Vec<Value>, HoconError> {
        let opened = self.line;
        self.deeper()?;
        self.next();
        let mut items = Vec::new();
        loop {
            self.skip_separators()?;
            match self.peek() {
                None => return Err(self.error(format!("the list opened at line {opened} is not closed"))),
                Some(']') => {
                    self.next();
                    self.depth -= 1;
                    return Ok(items);
                }
                Some('}') => return Err(self.error("'}' inside a list; is ']' missing?")),
                _ => items.push(self.value()?),
            }
        }
    }

    fn reference(&mut self) -> Result<Piece, HoconError> {
        let origin = self.origin();
        if !self.take("${") {
            return Err(self.error("'$' begins a substitution: ${key}; put the text into quotes otherwise"));
        }
        let optional = self.take("?");
        let path = self.path(&['}'])?;
        if !self.take("}") {
            return Err(self.error("the substitution is not closed: '}' is missing"));
        }
        Ok(Piece::Reference { path, optional, origin })
    }

    fn quoted(&mut self) -> Result<String, HoconError> {
        let opened = self.origin();
        let unclosed = || HoconError { origin: opened.clone(), message: "the quoted text is not closed".to_owned() };
        if self.take("\"\"\"") {
            let end = self.rest().find("\"\"\"").ok_or_else(unclosed)?;
            // Quotes that directly precede the closing three belong to the text.
            let extra = self.rest()[end + 3..].chars().take_while(|c| *c == '"').count();
            let text = self.rest()[..end + extra].to_owned();
            let stop = self.at + end + extra + 3;
            while self.at < stop {
                self.next();
            }
            return Ok(text);
        }
        self.next();
        let mut text = String::new();
        loop {
            match self.next().ok_or_else(unclosed)? {
                '"' => return Ok(text),
                '\n' => return Err(unclosed()),
                '\\' => {
                    let escaped = match self.next().ok_or_else(unclosed)? {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'u' => self.unicode()?,
                        c @ ('"' | '\\' | '/') => c,
                        c => return Err(self.error(format!("'\\{c}' is not an escape; a backslash is written '\\\\'"))),
                    };
                    text.push(escaped);
                }
                c => text.push(c),
            }
        }
    }

    fn unicode(&mut self) -> Result<char, HoconError> {
        let digits = self.rest().get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(unit) = digits else { return Err(self.error("'\\u' needs four hexadecimal digits")) };
        (0..4).for_each(|_| {
            self.next();
        });
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<Object, String> {
        let environment = |name: &str| (name == "HOME_OF_WEIR").then(|| "/data".to_owned());
        parse(text, "test", None).and_then(|object| resolve(&object, &environment)).map_err(|error| error.to_string())
    }

    fn show(value: &Value) -> String {
        match &value.kind {
            Kind::Null => "null".to_owned(),
            Kind::Boolean(b) => b.to_string(),
            Kind::Number(n) => n.clone(),
            Kind::Text(t) => format!("{t:?}"),
            Kind::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
            Kind::Object(object) => show_object(object),
            Kind::Pending { .. } => "pending".to_owned(),
        }
    }

    fn show_object(object: &Object) -> String {
        format!("{{{}}}", object.0.iter().map(|(k, v)| format!("{k}: {}", show(v))).collect::<Vec<_>>().join(", "))
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(resolved(text).map(|object| show_object(&object)), Ok(expected.to_owned()));
    }

    #[track_caller]
    fn fails(text: &str, expected: &str) {
        let error = resolved(text).map(|object| show_object(&object)).expect_err("should have been refused");
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn braces_separators_and_comments() {
        check("{\"a\": 1, \"b\": [true, null]}", "{a: 1, b: [true, null]}");
        check(
            "a = 1 # one\n// two\nb : x y  z # three\n c { d = 10 s, e=\"q\" }",
            "{a: 1, b: \"x y  z\", c: {d: \"10 s\", e: \"q\"}}",
        );
        check("list = [\n 1\n 2,\n 3,\n]", "{list: [1, 2, 3]}");
        check("url = \"http://x/y\"\npath = /var/lib/weir", "{url: \"http://x/y\", path: \"/var/lib/weir\"}");
        check("", "{}");
    }

    #[test]
    fn dotted_keys_merge() {
        check("a.b = 1\na { c = 2 }\na.b = 3", "{a: {b: 3, c: 2}}");
        check("\"a.b\".c = 1", "{a.b: {c: 1}}");
        check("a = {x: 1}\na = 5\na = {y: 2}", "{a: {y: 2}}");
    }

    #[test]
    fn strings() {
        check(r#"a = "x\n\u00e9\"" "#, "{a: \"x\\né\\\"\"}");
        check("a = \"\"\"one \"two\" \\n\n\"three\"\"\"\"", "{a: \"one \\\"two\\\" \\\\n\\n\\\"three\\\"\"}");
        check("a = -12, b = 1.5e3, c = 1.2.3", "{a: -12, b: 1.5e3, c: \"1.2.3\"}");
    }

    #[test]
    fn substitutions() {
        check("a = 1\nb = ${a}", "{a: 1, b: 1}");
        check("b = ${a.x} and ${a.x}\na { x = y }", "{b: \"y and y\", a: {x: \"y\"}}");
        check("path = ${HOME_OF_WEIR}/x\nother = ${?MISSING}", "{path: \"/data/x\"}");
        check("a = default\na = ${?MISSING}", "{a: \"default\"}");
        check("a = [1]\na = ${a} [2]\na += 3", "{a: [1, 2, 3]}");
        check("a += 3", "{a: [3]}");
        check("base { x = 1, y = 2 }\nmine = ${base} { y = 3 }", "{base: {x: 1, y: 2}, mine: {x: 1, y: 3}}");
        fails("a = ${nowhere}", "line 1, column 5: ${nowhere} is neither");
        fails("a = ${b}\nb = ${a}", "refers to itself");
    }

    #[test]
    fn mistakes_say_where() {
        fails("a {\n  b = 1\n", "the brace opened at line 1 is not closed");
        fails("a = 1 }\n", "after the end");
        fails("a = [1, 2", "the list opened at line 1 is not closed");
        fails("a\nb = 1", "line 1, column 2: expected '=', ':' or '{' after the key 'a'");
        fails("a = \n", "a value is missing");
        fails("x = \"abc", "test, line 1, column 5: the quoted text is not closed");
        fails(&"a {".repeat(100), "nested more than");
    }

    #[test]
    fn includes_are_merged_and_bounded() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("base.conf"), "a = 1\nb = 2").expect("write");
        fs::write(at("main.conf"), "include \"base.conf\"\ninclude file(\"missing.conf\")\nb = 3").expect("write");
        fs::write(at("loop.conf"), "include \"loop.conf\"").expect("write");
        fs::write(at("required.conf"), "x = 1\ninclude required(file(\"missing.conf\"))").expect("write");
        assert_eq!(show_object(&parse_file(&at("main.conf")).expect("parses")), "{a: 1, b: 3}");
        assert!(parse_file(&at("loop.conf")).expect_err("a loop").message.contains("include itself"));
        assert!(parse_file(&at("required.conf")).expect_err("required").to_string().contains("line 2"));
    }

    #[test]
    fn overrides_keep_their_type() {
        let show_override = |text: &str| show(&parse_override(text, "-D").expect("a value"));
        assert_eq!(show_override("9090"), "9090");
        assert_eq!(show_override("yes please"), "\"yes please\"");
        assert_eq!(show_override("[a, b]"), "[\"a\", \"b\"]");
        assert_eq!(show_override("http://x:1/"), "\"http://x:1/\"");
    }
}
