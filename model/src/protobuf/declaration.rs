//! Declarations: `.proto` files as people write them, turned into the descriptors that protoc would make of them.
//!
//!     text ─ tokens ─> declarations ─> FileDescriptorProto, names as they are written ─ Schema::read ─> Schema
//!
//! Registries of schemas keep the text. What says nothing about the bytes of a message (services, options of users, extensions,
//! reserved names) is passed over; whether names are used as protoc would let them be is not looked at.

use std::sync::Arc;

use super::descriptor_bytes::{entry_name, put_bytes, put_feature, put_features, put_number, put_type};
use super::schema::{MessageType, Schema};
use super::tokens::{Kind, Token, tokens};
use super::{DEPTH_MAX, ProtobufError};

/// Declarations within each other, of any kind.
const NESTED_MAX: usize = DEPTH_MAX;

/// What files may import without bringing it, by the beginning of its path.
const WELL_KNOWN: [(&str, &str); 3] = [
    ("google/protobuf/", include_str!("well_known/google_protobuf.proto")),
    ("google/type/", include_str!("well_known/google_type.proto")),
    ("confluent/", include_str!("well_known/confluent.proto")),
];

/// The messages of a file, by their places in it.
#[derive(Debug)]
pub struct Declared {
    schema: Arc<Schema>,
    messages: Vec<Place>,
}

/// A message and those within it, in the order in which a descriptor has them.
#[derive(Debug)]
struct Place {
    full_name: String,
    within: Vec<Place>,
}

impl Declared {
    /// Reads a file, and those that it imports: each with the path it is imported by.
    pub fn read(file: &str, imported: &[(String, String)]) -> Result<Declared, ProtobufError> {
        let wrong = |problem: String| ProtobufError(format!("not a declaration of Protobuf: {problem}"));
        let mut set = Vec::new();
        let mut imports = Vec::new();
        let mut add = |text: &str, name: &str| {
            let file = File::parse(text)
                .map_err(|problem| wrong(if name.is_empty() { problem } else { format!("{name}: {problem}") }))?;
            put_bytes(1, &file.descriptor, &mut set);
            imports.extend(file.imports);
            Ok(file.messages)
        };
        let messages = add(file, "")?;
        for (name, text) in imported {
            add(text, name)?;
        }
        let mut added = [false; WELL_KNOWN.len()];
        // What is imported may import in turn.
        for _ in &WELL_KNOWN {
            for (at, (beginning, text)) in WELL_KNOWN.iter().enumerate() {
                let brought = imported.iter().any(|(name, _)| name.starts_with(beginning));
                if !brought && !added[at] && imports.iter().any(|name| name.starts_with(beginning)) {
                    added[at] = true;
                    let file = File::parse(text).map_err(wrong)?;
                    put_bytes(1, &file.descriptor, &mut set);
                    imports.extend(file.imports);
                }
            }
        }
        Ok(Declared { schema: Arc::new(Schema::read(&set)?), messages })
    }

    /// The message at a place: in the file, in the message there, and so on.
    pub fn at(&self, path: &[usize]) -> Result<MessageType, ProtobufError> {
        let mut messages = &self.messages;
        let mut name = None;
        for place in path {
            let Some(found) = messages.get(*place) else {
                return Err(ProtobufError(format!("there is no message at the place {path:?} of the schema")));
            };
            (name, messages) = (Some(&found.full_name), &found.within);
        }
        self.schema.message(name.ok_or_else(|| ProtobufError("no message is named".to_owned()))?)
    }

    /// A message of the file by its name, or the first of it, with its place.
    pub fn named(&self, name: Option<&str>) -> Result<(MessageType, Vec<usize>), ProtobufError> {
        let message = match name {
            Some(name) => self.schema.message(name)?,
            None => self.at(&[0])?,
        };
        let mut path = Vec::new();
        if find(&self.messages, message.full_name(), &mut path) {
            return Ok((message, path));
        }
        Err(ProtobufError(format!("the message {} is not of this schema, but of one that it imports", message.full_name())))
    }
}

fn find(messages: &[Place], name: &str, path: &mut Vec<usize>) -> bool {
    for (at, message) in messages.iter().enumerate() {
        path.push(at);
        if message.full_name == name || find(&message.within, name, path) {
            return true;
        }
        path.pop();
    }
    false
}

struct File {
    descriptor: Vec<u8>,
    imports: Vec<String>,
    messages: Vec<Place>,
}

/// A message while it is read.
#[derive(Default)]
struct Message {
    descriptor: Vec<u8>,
    place: Vec<Place>,
    full_name: String,
    features: Vec<u8>,
    oneof_count: u64,
}

type Parsed<T> = Result<T, String>;

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    is_proto3: bool,
}

impl File {
    fn parse(text: &str) -> Parsed<File> {
        let mut parser = Parser { tokens: tokens(text)?, at: 0, is_proto3: false };
        let mut file = File { descriptor: Vec::new(), imports: Vec::new(), messages: Vec::new() };
        let (mut package, mut features) = (String::new(), Vec::new());
        while let Some(token) = parser.next() {
            match token.text {
                ";" => {}
                "syntax" | "edition" => {
                    parser.sign("=")?;
                    let said = parser.string()?;
                    parser.sign(";")?;
                    parser.is_proto3 = said == "proto3";
                    let syntax = if token.text == "edition" { "editions" } else { &said };
                    put_bytes(12, syntax.as_bytes(), &mut file.descriptor);
                }
                "import" => {
                    if parser.peek().is_some_and(|token| matches!(token.text, "public" | "weak")) {
                        parser.next();
                    }
                    file.imports.push(parser.string()?);
                    parser.sign(";")?;
                }
                "package" => {
                    package = parser.word()?.to_owned();
                    // There may be space around its dots.
                    while let Some(more) = parser.peek().filter(|more| more.kind == Kind::Word) {
                        if !package.ends_with('.') && !more.text.starts_with('.') {
                            break;
                        }
                        package.push_str(more.text);
                        parser.at += 1;
                    }
                    put_bytes(2, package.as_bytes(), &mut file.descriptor);
                    parser.sign(";")?;
                }
                "option" => parser.option(&mut features)?,
                "message" => {
                    let (descriptor, place) = parser.message(&package, 0)?;
                    put_bytes(4, &descriptor, &mut file.descriptor);
                    file.messages.push(place);
                }
                "enum" => put_bytes(5, &parser.enumeration()?, &mut file.descriptor),
                "extend" => {
                    for (descriptor, place) in parser.extension(&package, 0)? {
                        put_bytes(4, &descriptor, &mut file.descriptor);
                        file.messages.push(place);
                    }
                }
                "service" => parser.skip_block()?,
                _ => return Err(wrong(token, "this begins no declaration")),
            }
        }
        put_features(50, &features, 8, &mut file.descriptor);
        Ok(file)
    }
}

/// Of hexadecimal, octal or decimal digits.
fn integer(digits: &str) -> Option<u64> {
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    number.ok()
}

fn wrong(token: Token<'_>, problem: &str) -> String {
    format!("line {}, at {:?}: {problem}", token.line, token.text)
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn need(&mut self) -> Parsed<Token<'a>> {
        self.next().ok_or_else(|| "it ends too early".to_owned())
    }

    fn sign(&mut self, sign: &str) -> Parsed<()> {
        match self.need()? {
            token if token.kind == Kind::Sign && token.text == sign => Ok(()),
            token => Err(wrong(token, &format!("`{sign}` was expected"))),
        }
    }

    fn is_sign(&mut self, sign: &str) -> bool {
        let is = self.peek().is_some_and(|token| token.kind == Kind::Sign && token.text == sign);
        self.at += usize::from(is);
        is
    }

    fn word(&mut self) -> Parsed<&'a str> {
        match self.need()? {
            token if token.kind == Kind::Word => Ok(token.text),
            token => Err(wrong(token, "a name was expected")),
        }
    }

    /// Several behind each other are one.
    fn string(&mut self) -> Parsed<String> {
        let first = self.need()?;
        if first.kind != Kind::Text {
            return Err(wrong(first, "a string was expected"));
        }
        let mut text = first.text.to_owned();
        while let Some(token) = self.peek().filter(|token| token.kind == Kind::Text) {
            text.push_str(token.text);
            self.at += 1;
        }
        Ok(text)
    }

    fn number(&mut self) -> Parsed<i64> {
        let minus = self.is_sign("-");
        let token = self.need()?;
        let number = integer(token.text).and_then(|number| i64::try_from(number).ok());
        let number = number.ok_or_else(|| wrong(token, "a number was expected"))?;
        Ok(if minus { -number } else { number })
    }

    /// To the end of a statement, over blocks within it.
    fn skip_statement(&mut self) -> Parsed<()> {
        let mut depth = 0usize;
        loop {
            let token = self.need()?;
            match (token.kind, token.text) {
                (Kind::Sign, "{" | "[" | "(") => depth += 1,
                (Kind::Sign, "}" | "]" | ")") => {
                    depth = depth.checked_sub(1).ok_or_else(|| wrong(token, "nothing was opened that this closes"))?;
                }
                (Kind::Sign, ";") if depth == 0 => return Ok(()),
                _ => {}
            }
        }
    }

    /// A declaration with a block, of which nothing is wanted.
    fn skip_block(&mut self) -> Parsed<()> {
        while !self.is_sign("{") {
            self.need()?;
        }
        let mut depth = 1usize;
        while depth > 0 {
            let token = self.need()?;
            match (token.kind, token.text) {
                (Kind::Sign, "{") => depth += 1,
                (Kind::Sign, "}") => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// `option name = value;`. Features are kept.
    fn option(&mut self, features: &mut Vec<u8>) -> Parsed<()> {
        let begun = self.at;
        if let (Some(name), true) = (self.next().filter(|token| token.kind == Kind::Word), self.is_sign("=")) {
            if name.text == "features" && self.is_sign("{") {
                self.feature_set(features)?;
                return self.sign(";");
            }
            let value = self.need()?;
            if value.kind == Kind::Word && self.is_sign(";") {
                put_feature(name.text, value.text, features);
                return Ok(());
            }
        }
        self.at = begun;
        self.skip_statement()
    }

    /// Several at once, behind the brace, to the one that closes it. Those of languages are passed over.
    fn feature_set(&mut self, features: &mut Vec<u8>) -> Parsed<()> {
        while !self.is_sign("}") {
            if self.is_sign("[") {
                self.skip_block()?;
            } else {
                let name = self.word()?;
                self.sign(":")?;
                put_feature(&format!("features.{name}"), self.word()?, features);
            }
            let _ = self.is_sign(",") || self.is_sign(";");
        }
        Ok(())
    }

    /// Behind `extend`: its groups are messages of where it stands. Nothing else of it is wanted.
    fn extension(&mut self, scope: &str, depth: usize) -> Parsed<Vec<(Vec<u8>, Place)>> {
        let mut groups = Vec::new();
        while !self.is_sign("{") {
            self.need()?;
        }
        while !self.is_sign("}") {
            let first = self.need()?;
            let of = if matches!(first.text, "optional" | "required" | "repeated") { self.need()? } else { first };
            match of.text {
                ";" => {}
                "group" => {
                    let name = self.word()?;
                    self.sign("=")?;
                    self.number()?;
                    if self.is_sign("[") {
                        self.field_options("", &mut Vec::new())?;
                    }
                    self.sign("{")?;
                    groups.push(self.message_of(name, scope, depth)?);
                }
                _ => self.skip_statement()?,
            }
        }
        Ok(groups)
    }

    fn message(&mut self, scope: &str, depth: usize) -> Parsed<(Vec<u8>, Place)> {
        let name = self.word()?;
        self.sign("{")?;
        self.message_of(name, scope, depth)
    }

    /// Behind its opening brace.
    fn message_of(&mut self, name: &str, scope: &str, depth: usize) -> Parsed<(Vec<u8>, Place)> {
        if depth > NESTED_MAX {
            return Err(format!("messages are declared within messages deeper than {NESTED_MAX}"));
        }
        let full_name = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
        let mut message = Message { full_name, ..Message::default() };
        put_bytes(1, name.as_bytes(), &mut message.descriptor);
        loop {
            let token = self.need()?;
            match token.text {
                "}" => break,
                ";" => {}
                "message" if !self.is_field_name() => {
                    let (descriptor, place) = self.message(&message.full_name, depth + 1)?;
                    put_bytes(3, &descriptor, &mut message.descriptor);
                    message.place.push(place);
                }
                "enum" if !self.is_field_name() => put_bytes(4, &self.enumeration()?, &mut message.descriptor),
                "extend" => {
                    for (descriptor, place) in self.extension(&message.full_name, depth + 1)? {
                        put_bytes(3, &descriptor, &mut message.descriptor);
                        message.place.push(place);
                    }
                }
                "reserved" | "extensions" => self.skip_statement()?,
                "option" => self.option(&mut message.features)?,
                "oneof" => {
                    let name = self.word()?;
                    let number = message.oneof(name);
                    self.sign("{")?;
                    while !self.is_sign("}") {
                        let token = self.need()?;
                        match token.text {
                            "option" => self.option(&mut Vec::new())?,
                            _ => self.field(token, Some(number), &mut message, depth)?,
                        }
                    }
                }
                _ => self.field(token, None, &mut message, depth)?,
            }
        }
        put_features(12, &message.features, 7, &mut message.descriptor);
        Ok((message.descriptor, Place { full_name: message.full_name, within: message.place }))
    }

    /// `message = 1` within a statement: the word is the name of a type, not a declaration.
    fn is_field_name(&self) -> bool {
        self.tokens.get(self.at + 1).is_some_and(|token| token.text == "=")
    }

    fn field(&mut self, first: Token<'a>, oneof: Option<u64>, message: &mut Message, depth: usize) -> Parsed<()> {
        let (mut label, mut of, mut explicit) = (1, first, false);
        if matches!(first.text, "optional" | "required" | "repeated") {
            label = match first.text {
                "required" => 2,
                "repeated" => 3,
                _ => 1,
            };
            explicit = first.text == "optional" && self.is_proto3;
            of = self.need()?;
        }
        if of.kind != Kind::Word {
            return Err(wrong(of, "a field was expected"));
        }
        let mut field = Vec::new();
        if of.text == "map" && self.is_sign("<") {
            let key = self.word()?;
            self.sign(",")?;
            let value = self.word()?;
            self.sign(">")?;
            let name = self.word()?;
            let entry = entry_name(name);
            message.entry(&entry, key, value);
            put_bytes(1, name.as_bytes(), &mut field);
            put_number(4, 3, &mut field);
            put_number(5, 11, &mut field);
            put_bytes(6, entry.as_bytes(), &mut field);
            return self.rest_of_field("", field, message);
        }
        if of.text == "group" {
            let name = self.word()?;
            put_bytes(1, name.to_ascii_lowercase().as_bytes(), &mut field);
            put_number(4, label, &mut field);
            put_number(5, 10, &mut field);
            put_bytes(6, name.as_bytes(), &mut field);
            oneof.iter().for_each(|oneof| put_number(9, *oneof, &mut field));
            self.sign("=")?;
            put_number(3, self.number()? as u64, &mut field);
            if self.is_sign("[") {
                self.field_options("", &mut field)?;
            }
            self.sign("{")?;
            let (descriptor, place) = self.message_of(name, &message.full_name, depth + 1)?;
            put_bytes(3, &descriptor, &mut message.descriptor);
            message.place.push(place);
            put_bytes(2, &field, &mut message.descriptor);
            return Ok(());
        }
        let name = self.word()?;
        put_bytes(1, name.as_bytes(), &mut field);
        put_number(4, label, &mut field);
        put_type(of.text, &mut field);
        if let Some(oneof) = oneof {
            put_number(9, oneof, &mut field);
        } else if explicit {
            put_number(9, message.oneof(&format!("_{name}")), &mut field);
            put_number(17, 1, &mut field);
        }
        self.rest_of_field(of.text, field, message)
    }

    /// Behind its name.
    fn rest_of_field(&mut self, of: &str, mut field: Vec<u8>, message: &mut Message) -> Parsed<()> {
        self.sign("=")?;
        let number = self.number()?;
        put_number(3, u64::try_from(number).map_err(|_| format!("{number} is not the number of a field"))?, &mut field);
        if self.is_sign("[") {
            self.field_options(of, &mut field)?;
        }
        self.sign(";")?;
        put_bytes(2, &field, &mut message.descriptor);
        Ok(())
    }

    /// Behind the bracket, to the one that closes it.
    fn field_options(&mut self, of: &str, field: &mut Vec<u8>) -> Parsed<()> {
        let (mut options, mut features) = (Vec::new(), Vec::new());
        loop {
            let mut name = String::new();
            while !self.is_sign("=") {
                let token = self.need()?;
                if matches!(token.text, "]" | ";") {
                    return Err(wrong(token, "an option has a name and a value"));
                }
                name.push_str(token.text);
            }
            if self.is_sign("{") {
                if name == "features" {
                    self.feature_set(&mut features)?;
                } else {
                    self.at -= 1;
                    self.skip_block()?;
                }
            } else {
                let minus = if self.is_sign("-") { "-" } else { "" };
                let token = self.need()?;
                let mut value = format!("{minus}{}", token.text);
                while let Some(more) = self.peek().filter(|more| token.kind == Kind::Text && more.kind == Kind::Text) {
                    value.push_str(more.text);
                    self.at += 1;
                }
                match name.as_str() {
                    "default" if token.kind == Kind::Text && of == "string" => {
                        put_bytes(
                            7,
                            super::literal::text(&value).ok_or_else(|| wrong(token, "a string was expected"))?.as_bytes(),
                            field,
                        );
                    }
                    "default" => {
                        // Descriptors have it in decimal.
                        let integer = integer(token.text).filter(|_| token.kind == Kind::Word);
                        let value = integer.map_or(value, |integer| format!("{minus}{integer}"));
                        put_bytes(7, value.as_bytes(), field);
                    }
                    "packed" => put_number(2, u64::from(value == "true"), &mut options),
                    _ => put_feature(&name, &value, &mut features),
                }
            }
            if self.is_sign("]") {
                break;
            }
            self.sign(",")?;
        }
        if !features.is_empty() {
            put_bytes(21, &features, &mut options);
        }
        if !options.is_empty() {
            put_bytes(8, &options, field);
        }
        Ok(())
    }

    fn enumeration(&mut self) -> Parsed<Vec<u8>> {
        let (mut descriptor, mut features) = (Vec::new(), Vec::new());
        put_bytes(1, self.word()?.as_bytes(), &mut descriptor);
        self.sign("{")?;
        loop {
            let token = self.need()?;
            match token.text {
                "}" => break,
                ";" => {}
                "option" => self.option(&mut features)?,
                "reserved" => self.skip_statement()?,
                name => {
                    self.sign("=")?;
                    let mut value = Vec::new();
                    put_bytes(1, name.as_bytes(), &mut value);
                    put_number(2, self.number()? as u64, &mut value);
                    put_bytes(2, &value, &mut descriptor);
                    if self.is_sign("[") {
                        self.field_options("", &mut Vec::new())?;
                    }
                    self.sign(";")?;
                }
            }
        }
        put_features(7, &features, 3, &mut descriptor);
        Ok(descriptor)
    }
}

impl Message {
    fn oneof(&mut self, name: &str) -> u64 {
        let mut oneof = Vec::new();
        put_bytes(1, name.as_bytes(), &mut oneof);
        put_bytes(8, &oneof, &mut self.descriptor);
        self.oneof_count += 1;
        self.oneof_count - 1
    }

    /// A map is a list of messages of a key and a value.
    fn entry(&mut self, name: &str, key: &str, value: &str) {
        let mut entry = Vec::new();
        put_bytes(1, name.as_bytes(), &mut entry);
        for (number, name, of) in [(1, "key", key), (2, "value", value)] {
            let mut field = Vec::new();
            put_bytes(1, name.as_bytes(), &mut field);
            put_number(3, number, &mut field);
            put_number(4, 1, &mut field);
            put_type(of, &mut field);
            put_bytes(2, &field, &mut entry);
        }
        let mut options = Vec::new();
        put_number(7, 1, &mut options);
        put_bytes(7, &options, &mut entry);
        put_bytes(3, &entry, &mut self.descriptor);
        self.place.push(Place { full_name: format!("{}.{name}", self.full_name), within: Vec::new() });
    }
}
