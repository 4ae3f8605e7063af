//! HOCON: JSON with comments, dotted keys, unquoted strings, substitutions and includes.
//!
//! Owns the syntax and the merging of several documents. Does not know which keys exist, nor what they mean. Every value
//! remembers where it was written, so that whoever finds it wrong can say so.
//!
//!     text ─ parse ─> Value with substitutions pending ─ merge, later documents over earlier ones ─ resolve ─> Value

mod parse;
mod resolve;

use std::fmt;
use std::rc::Rc;

use thiserror::Error;

pub use parse::{parse, parse_file, parse_override};
pub use resolve::{resolve, resolve_part};

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

impl Value {
    fn refers_to(&self, path: &[&str]) -> bool {
        match &self.kind {
            Kind::Object(object) => object.refers_to(path),
            Kind::Array(items) => items.iter().any(|item| item.refers_to(path)),
            Kind::Pending { pieces, previous } => {
                let takes = |piece: &Piece| match piece {
                    Piece::Value(value) | Piece::Closed(value) => value.refers_to(path),
                    Piece::Reference(reference) => reference.takes(path),
                    Piece::Space(_) | Piece::Previous => false,
                };
                pieces.iter().any(takes) || previous.as_ref().is_some_and(|previous| previous.refers_to(path))
            }
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => false,
        }
    }
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
    /// What the key held before, as `+=` has it: nothing where it held nothing.
    Previous,
    Reference(Reference),
    /// Part of what a substitution led to. It takes nothing of what it is laid over.
    Closed(Value),
}

/// A substitution.
#[derive(Clone, Debug)]
pub struct Reference {
    /// From the root, with the place before it at which its file is included.
    path: Vec<String>,
    /// How many parts of the path are that place. What is not there is looked for at the rest of the path, too.
    included_at: usize,
    /// How many parts of the path are the key that it is the value of, where they are: then what that held before is meant.
    own: Option<usize>,
    /// The same of the path as it is written.
    own_as_written: Option<usize>,
    optional: bool,
    origin: Origin,
}

impl Reference {
    /// The path as it is written.
    fn written(&self) -> &[String] {
        &self.path[self.included_at..]
    }

    /// Whether it takes this, or something it lies in, or something that lies in it.
    fn takes(&self, path: &[&str]) -> bool {
        [&self.path[..], self.written()].iter().any(|taken| taken.iter().zip(path).all(|(a, b)| a == b))
    }

    /// Whether it stands for all that its key held before.
    fn is_previous(&self) -> bool {
        self.own == Some(self.path.len()) || self.own_as_written == Some(self.written().len())
    }
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

    /// Whether a substitution in it takes this, or something it lies in, or something that lies in it.
    pub fn refers_to(&self, path: &[&str]) -> bool {
        self.0.iter().any(|(_, value)| value.refers_to(path))
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
        (below, Kind::Pending { pieces, previous }) => {
            let below = Value { kind: below, origin: before.origin };
            // What was laid over something already may refer to what is below that.
            let previous = match previous {
                None => below,
                Some(previous) => layer(below, *previous),
            };
            Kind::Pending { pieces, previous: Some(Box::new(previous)) }
        }
        (below @ Kind::Pending { .. }, Kind::Object(above)) => Kind::Pending {
            pieces: vec![Piece::Value(Value { kind: Kind::Object(above), origin: origin.clone() })],
            previous: Some(Box::new(Value { kind: below, origin: before.origin })),
        },
        (_, above) => above,
    };
    Value { kind, origin }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        // Two that are one character, and halves of such.
        check(
            r#"a = "\ud83d\uDE00!", b = "\ud83d", c = "\ud83dx", d = "\ude00""#,
            "{a: \"😀!\", b: \"\u{fffd}\", c: \"\u{fffd}x\", d: \"\u{fffd}\"}",
        );
        check(r#"a = "\ud83d\u0041""#, "{a: \"\u{fffd}A\"}");
        fails(r#"a = "\u+0e9""#, "four hexadecimal digits");
    }

    #[test]
    fn substitutions() {
        check("a = 1\nb = ${a}", "{a: 1, b: 1}");
        check("b = ${a.x} and ${a.x}\na { x = y }", "{b: \"y and y\", a: {x: \"y\"}}");
        check("path = ${HOME_OF_WEIR}/x\nother = ${?MISSING}", "{path: \"/data/x\"}");
        check("a = default\na = ${?MISSING}", "{a: \"default\"}");
        check("a = [1]\na = ${a} [2]\na += 3", "{a: [1, 2, 3]}");
        check("a += 3", "{a: [3]}");
        check("a {\n b.c = [1]\n b.c += 2\n}\na.b { c += 3 }", "{a: {b: {c: [1, 2, 3]}}}");
        check("a { b += 1 }", "{a: {b: [1]}}");
        check("base { x = 1, y = 2 }\nmine = ${base} { y = 3 }", "{base: {x: 1, y: 2}, mine: {x: 1, y: 3}}");
        fails("a = ${nowhere}", "line 1, column 5: ${nowhere} is neither");
        fails("a = ${b}\nb = ${a}", "refers to itself");
        fails("a { b = ${a} }", "line 1, column 9: nested more than 200 deep; does a substitution refer to itself?");
        fails("a = [${b}]\nb = { c = ${a} }", "does a substitution refer to itself?");
        fails("a { b = ${a} ${a} }", "does one refer to itself?");
    }

    #[test]
    fn what_may_be_missing_is_so_where_it_leads_back_to_itself() {
        check("a = ${?b}\nb = ${?a}", "{}");
        check("a = 1\na = ${?b}\nb = ${?a}", "{a: 1, b: 1}");
        check("a = ${?b}x\nb = ${?c}\nc = ${?b}", "{a: \"x\"}");
        fails("a = ${?b}\nb = ${a}", "${a} is neither");
    }

    #[test]
    fn what_a_key_held_before_is_that_of_all_layers() {
        check("a = x\na = ${a}y\na = ${a}z", "{a: \"xyz\"}");
        // The block that is laid over the first refers to itself twice.
        check("w { a = x }\nw { a = ${w.a}y, a = ${w.a}z }", "{w: {a: \"xyz\"}}");
        check("w { a = [1] }\nw { a += 2, a += 3 }\nw { a += 4, a += 5 }", "{w: {a: [1, 2, 3, 4, 5]}}");
        check("w { a = x }\nw { a = y, a = ${w.a}z }", "{w: {a: \"yz\"}}");
        check("w { a { b = 1 } }\nw { a { c = 2 }, a = ${w.a} { d = 3 } }", "{w: {a: {b: 1, c: 2, d: 3}}}");
        // A part of it.
        check("a { b { c = 1 } }\na = ${a.b}\na { b = 2 }", "{a: {b: 2, c: 1}}");
        let mut below = parse("a = x", "below", None).expect("parses");
        below.merge(parse("a = ${a}\":b\"\na = ${a}\":c\"", "above", None).expect("parses"));
        assert_eq!(resolve(&below, &|_| None).map(|object| show_object(&object)), Ok("{a: \"x:b:c\"}".to_owned()));
    }

    /// Who takes one key of an object that is put together needs none of the others.
    #[test]
    fn keys_of_objects_that_are_put_together_refer_to_one_another() {
        check("base { x = 1 }\na = ${base} { y = ${a.x}, z = ${a.y} }", "{base: {x: 1}, a: {x: 1, y: 1, z: 1}}");
        check("base { x = 1 }\na = ${base}\na { y = ${a.x}2 }", "{base: {x: 1}, a: {x: 1, y: \"12\"}}");
        check("base { x = [1] }\na = ${base}\na { x = ${a.x} [2] }", "{base: {x: [1]}, a: {x: [1, 2]}}");
        check("base { x = 1 }\na = ${base} { b = ${base} }", "{base: {x: 1}, a: {x: 1, b: {x: 1}}}");
        check(
            "bar { a = ${foo.d}, b = 1 }\nbar.b = 3\nfoo { c = ${bar.b}, d = 2 }\nfoo.d = 4",
            "{bar: {a: 4, b: 3}, foo: {c: 3, d: 4}}",
        );
        check("base { x = ${a.y}/x }\na = ${base} { y = z }", "{base: {x: \"z/x\"}, a: {x: \"z/x\", y: \"z\"}}");
        check("a { x = 1, y = ${b.x} }\nb = ${a}", "{a: {x: 1, y: 1}, b: {x: 1, y: 1}}");
        // What is taken from elsewhere has found its own before already.
        check("b { l += 2 }\nbase { l = [1] }\na = ${base} ${b}", "{b: {l: [2]}, base: {l: [1]}, a: {l: [2]}}");
        check("a { l += 2 }\na = ${a} ${a}", "{a: {l: [2]}}");
        check("base { x = [1], x = ${base.x} [2] }\na = ${base}", "{base: {x: [1, 2]}, a: {x: [1, 2]}}");
        fails("base { x = 1 }\na = ${base} { y = ${a.z}, z = ${a.y} }", "refers to itself");
    }

    /// `12345678` may be a password, and `1e5` too.
    #[test]
    fn what_the_environment_says_is_text() {
        for text in ["12345678", "1e5", "true", "null", "0x10", "", " a "] {
            let environment = |name: &str| (name == "KEY").then(|| text.to_owned());
            let object = parse("a = ${KEY}\nb = ${?KEY}", "test", None).and_then(|object| resolve(&object, &environment));
            assert_eq!(object.map(|object| show_object(&object)), Ok(format!("{{a: {text:?}, b: {text:?}}}")));
        }
    }

    #[test]
    fn what_is_referred_to_is_known() {
        let object = parse("a = [{ b = ${?x.y} z }]\nc += ${d}", "test", None).expect("parses");
        for (path, expected) in
            [("x.y", true), ("x", true), ("x.y.z", true), ("d", true), ("y", false), ("x.z", false), ("a", false)]
        {
            assert_eq!(object.refers_to(&path.split('.').collect::<Vec<_>>()), expected, "{path}");
        }
    }

    #[test]
    fn a_part_is_resolved_without_what_is_over_it() {
        let part = parse("a { b = ${n}, c = ${MISSING}, d = 1 }", "test", None).expect("parses");
        let mut root = part.clone();
        root.merge(parse("a.c = 2, a.d = 3, n = 4", "over", None).expect("parses"));
        assert_eq!(show_object(&resolve_part(&part, &root, &|_| None)), "{a: {b: 4, d: 1}}");
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
    fn the_ending_of_an_include_may_be_left_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let included = |text: &str| {
            fs::write(at("main.conf"), text).expect("write");
            parse_file(&at("main.conf")).map(|object| show_object(&object)).map_err(|error| error.to_string())
        };
        fs::create_dir(at("site")).expect("a directory");
        assert!(included("include \"site\"").expect_err("it is a directory").contains("cannot be read"));
        fs::write(at("site.properties"), "a = 1\nb = 1\nc = 1").expect("write");
        assert_eq!(included("include required(\"site\")"), Ok("{a: 1, b: 1, c: 1}".to_owned()));
        fs::write(at("site.json"), "{\"b\": 2, \"c\": 2}").expect("write");
        fs::write(at("site.conf"), "c = 3").expect("write");
        assert_eq!(included("include \"site\""), Ok("{a: 1, b: 2, c: 3}".to_owned()));
        assert_eq!(included("include file(\"site.json\")"), Ok("{b: 2, c: 2}".to_owned()));
        fs::write(at("whole"), "d = 4").expect("write");
        fs::write(at("whole.conf"), "d = 5").expect("write");
        assert_eq!(included("include \"whole\""), Ok("{d: 4}".to_owned()), "a name that is there is meant as it is");
        assert!(included("include required(\"other\")").expect_err("required").contains("does not exist"));
    }

    /// What cannot be looked at was taken for missing, and a site without its settings started with the defaults.
    #[test]
    fn an_include_that_cannot_be_looked_at_is_not_missing() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::os::unix::fs::symlink(at("loop.conf"), at("loop.conf")).expect("a link to itself");
        for text in ["a = 1\ninclude \"loop.conf\"", "a = 1\ninclude required(\"loop\")"] {
            fs::write(at("main.conf"), text).expect("write");
            let error = parse_file(&at("main.conf")).expect_err(text).to_string();
            assert!(error.contains("line 2") && error.contains("loop.conf cannot be read"), "{error}");
        }
        fs::write(at("main.conf"), "include \"main.conf/site.conf\"").expect("write");
        assert!(parse_file(&at("main.conf")).expect("nothing can be there").0.is_empty());
    }

    #[test]
    fn an_included_file_refers_to_where_it_is_included_first() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let part = "x = 1\ny = ${x}\nz = ${outer}\nl = [${x}]\nx = ${x}2\nh = ${HOME_OF_WEIR}\ninner { include \"more.conf\" }";
        fs::write(at("part.conf"), part).expect("write");
        fs::write(at("more.conf"), "x = 7\nsum = ${x}${outer}").expect("write");
        fs::write(at("main.conf"), "outer = o\nx = wrong\na.b { include \"part.conf\" }").expect("write");
        let environment = |name: &str| (name == "HOME_OF_WEIR").then(|| "/data".to_owned());
        let object = parse_file(&at("main.conf")).expect("parses");
        assert!(object.refers_to(&["outer"]) && object.refers_to(&["a", "b", "x"]));
        let inner = "inner: {x: 7, sum: \"7o\"}";
        let part = format!("{{x: \"12\", y: \"12\", z: \"o\", l: [\"12\"], h: \"/data\", {inner}}}");
        assert_eq!(
            resolve(&object, &environment).map(|object| show_object(&object)),
            Ok(format!("{{outer: \"o\", x: \"wrong\", a: {{b: {part}}}}}"))
        );
    }

    #[test]
    fn an_included_file_may_call_its_own_key_by_the_whole_path() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("part.conf"), "x = ${a.x}2\no = ${a.o} { c = 3 }\np = ${a.o.b}").expect("write");
        fs::write(at("main.conf"), "a { x = 1, o { b = 2 }, include \"part.conf\" }").expect("write");
        let object = parse_file(&at("main.conf")).expect("parses");
        assert_eq!(
            resolve(&object, &|_| None).map(|object| show_object(&object)),
            Ok("{a: {x: \"12\", o: {b: 2, c: 3}, p: 2}}".to_owned())
        );
    }

    #[test]
    fn what_is_included_from_elsewhere_is_nothing_or_refused() {
        check("include classpath(\"application.conf\")\na = 1", "{a: 1}");
        fails("include required(classpath(\"application.conf\"))", "no class path, and so no application.conf");
        fails("a = 1\ninclude url(\"http://127.0.0.1/a.conf\")", "line 2, column 9: `include url(…)` is not read");
        check("include classy = 1", "{include classy: 1}");
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
