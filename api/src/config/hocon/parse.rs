//! Text to objects whose substitutions are pending.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::resolve::concatenate;
use super::{HoconError, Kind, Object, Origin, Piece, Reference, Value};

/// Nesting beyond this is a mistake or an attack, not a configuration.
const DEPTH_MAX: usize = 64;
const INCLUDE_DEPTH_MAX: usize = 16;

/// Which an included name may leave out, the weakest first. Properties are read like the others.
const ENDINGS: [&str; 3] = ["properties", "json", "conf"];

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
    /// The keys that what is read is the value of.
    within: Vec<String>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, source: &str, directory: Option<&Path>, includes: usize) -> Parser<'a> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let directory = directory.map(Path::to_owned);
        Parser { text, at: 0, line: 1, line_start: 0, source: source.into(), directory, depth: 0, includes, within: Vec::new() }
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
            self.pass(token.chars().count());
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
        let is_name =
            |rest: &str| rest.starts_with(['"', 'f', 'r']) || rest.starts_with("classpath(") || rest.starts_with("url(");
        if after.is_some_and(|rest| is_name(rest.trim_start()) && rest.starts_with([' ', '\t'])) {
            return self.include(object);
        }
        let origin = self.origin();
        let path = self.path(&['=', ':', '{', '+'])?;
        let after_key = self.origin();
        let outside = self.within.len();
        self.within.extend_from_slice(&path);
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
                let pieces = vec![Piece::Previous, Piece::Value(Value { kind, origin: origin.clone() })];
                Value { kind: Kind::Pending { pieces, previous: None }, origin }
            }
            _ => {
                let message = format!("expected '=', ':' or '{{' after the key '{}'", path.join("."));
                return Err(HoconError { origin: after_key, message });
            }
        };
        self.within.truncate(outside);
        object.set(&path, value);
        Ok(())
    }

    fn include(&mut self, object: &mut Object) -> Result<(), HoconError> {
        self.take("include");
        self.skip_blanks();
        let required = self.take("required(");
        if self.rest().starts_with("url(") {
            return Err(self.error("`include url(…)` is not read; fetch the file, and include it by its name on disk"));
        }
        let class_path = self.take("classpath(");
        let file = class_path || self.take("file(");
        let Some('"') = self.peek() else { return Err(self.error("include needs a file name in quotes")) };
        let name = self.quoted()?;
        for open in [file, required] {
            if open && !self.take(")") {
                return Err(self.error("expected ')' after the file name"));
            }
        }
        if class_path {
            // That is of programs for the JVM, and so nothing is there.
            let problem = format!(
                "there is no class path, and so no {name} on it; put the file beside this one, and include it by its name"
            );
            return if required { Err(self.error(problem)) } else { Ok(()) };
        }
        if self.includes >= INCLUDE_DEPTH_MAX {
            return Err(
                self.error(format!("includes are nested more than {INCLUDE_DEPTH_MAX} deep; does a file include itself?"))
            );
        }
        let path = self.directory.as_deref().unwrap_or(Path::new("")).join(&name);
        match self.included(&path)? {
            Some(mut included) => {
                include_at(&mut included, &self.within);
                object.merge(included);
            }
            None if required => return Err(self.error(format!("the included file {} does not exist", path.display()))),
            // As in the format's own definition: a file that is not there includes nothing, unless it is required.
            None => {}
        }
        Ok(())
    }

    /// What the file says. Where there is none of this name, the name may lack its ending, and those that are there with one are
    /// laid over one another.
    fn included(&self, path: &Path) -> Result<Option<Object>, HoconError> {
        let found = self.look_at(path)?;
        let has_ending = path.extension().is_some_and(|found| ENDINGS.iter().any(|ending| found == OsStr::new(ending)));
        let mut files = Vec::new();
        if !has_ending && found.as_ref().is_none_or(Metadata::is_dir) {
            for ending in ENDINGS {
                let mut name = path.as_os_str().to_owned();
                name.push(".");
                name.push(ending);
                files.extend(self.look_at(Path::new(&name))?.map(|_| PathBuf::from(name)));
            }
        }
        if files.is_empty() && found.is_some() {
            files.push(path.to_owned());
        }
        let mut included: Option<Object> = None;
        for file in files {
            let object = parse_file_nested(&file, self.includes + 1)?;
            match &mut included {
                Some(below) => below.merge(object),
                None => included = Some(object),
            }
        }
        Ok(included)
    }

    /// None where nothing is; what cannot be looked at may well be there.
    fn look_at(&self, path: &Path) -> Result<Option<Metadata>, HoconError> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(self.error(format!("the included file {} cannot be read: {error}", path.display()))),
        }
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
            .any(|piece| matches!(piece, Piece::Reference(_) | Piece::Value(Value { kind: Kind::Pending { .. }, .. })))
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
        Ok(Piece::Reference(Reference { path, included_at: 0, own: None, own_as_written: None, optional, origin }))
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
        let Some(unit) = self.unit(0) else { return Err(self.error("'\\u' needs four hexadecimal digits")) };
        self.pass(4);
        // A character beyond the first 65,536 is written as two.
        let low = if self.rest().starts_with("\\u") { self.unit(2) } else { None };
        let pair = low.and_then(|low| char::decode_utf16([unit, low]).next()?.ok());
        match pair.filter(|c| c.len_utf16() == 2) {
            Some(c) => {
                self.pass(6);
                Ok(c)
            }
            None => Ok(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }

    /// The four hexadecimal digits that begin so many bytes from here.
    fn unit(&self, ahead: usize) -> Option<u16> {
        let digits = self.rest().get(ahead..ahead + 4)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    }

    fn pass(&mut self, characters: usize) {
        (0..characters).for_each(|_| {
            self.next();
        });
    }
}

/// Everything in what is included refers first to what lies at this place.
fn include_at(included: &mut Object, place: &[String]) {
    included.0.iter_mut().for_each(|(_, value)| refer_at(value, place));
}

fn refer_at(value: &mut Value, place: &[String]) {
    match &mut value.kind {
        Kind::Object(object) => include_at(object, place),
        Kind::Array(items) => items.iter_mut().for_each(|item| refer_at(item, place)),
        Kind::Pending { pieces, previous } => {
            for piece in pieces {
                match piece {
                    Piece::Value(value) | Piece::Closed(value) => refer_at(value, place),
                    Piece::Reference(reference) => {
                        reference.path = place.iter().chain(&reference.path).cloned().collect();
                        reference.included_at += place.len();
                    }
                    Piece::Space(_) | Piece::Previous => {}
                }
            }
            if let Some(previous) = previous {
                refer_at(previous, place);
            }
        }
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
}
