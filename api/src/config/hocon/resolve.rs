//! Substitutions filled in: from the document itself, then from the environment.
//!
//! What a substitution takes is looked for without filling in what lies beside it, which may refer to where it stands.

use super::{HoconError, Kind, Object, Origin, Piece, Reference, Value, layer};

/// Nobody writes what lies deeper: something holds itself.
const DEPTH_MAX: usize = 200;

/// Nobody writes so many substitutions. What holds itself more than once is twice as large at each depth.
const FINDS_MAX: usize = 10_000;

/// Fills in every substitution: from the document itself, then from `environment`, whose values are text.
pub fn resolve(root: &Object, environment: &dyn Fn(&str) -> Option<String>) -> Result<Object, HoconError> {
    let root = placed(root);
    let mut resolver = Resolver { root: &root, environment, under_way: Vec::new(), finds: 0, is_lenient: false };
    resolver.object(&root, 0)
}

/// As `resolve`, for a part of the document, without what was laid over it. What cannot be filled in is left out: something else
/// may have taken its place in the document, and then nobody misses it.
pub fn resolve_part(part: &Object, root: &Object, environment: &dyn Fn(&str) -> Option<String>) -> Object {
    let (part, root) = (placed(part), placed(root));
    let mut resolver = Resolver { root: &root, environment, under_way: Vec::new(), finds: 0, is_lenient: true };
    resolver.object(&part, 0).unwrap_or_default()
}

/// As it is, with those substitutions marked that refer to what their own key held before. What is their own is known when
/// everything has its place, and stays so when it is taken to another.
fn placed(object: &Object) -> Object {
    let mut object = object.clone();
    mark_object(&mut object, &mut Vec::new());
    object
}

fn mark_object(object: &mut Object, at: &mut Vec<String>) {
    for (key, value) in &mut object.0 {
        at.push(key.clone());
        mark(value, at);
        at.pop();
    }
}

fn mark(value: &mut Value, at: &mut Vec<String>) {
    match &mut value.kind {
        Kind::Object(object) => mark_object(object, at),
        Kind::Pending { pieces, previous } => {
            for piece in pieces {
                match piece {
                    Piece::Value(value) => mark(value, at),
                    Piece::Reference(reference) => {
                        reference.own = reference.path.starts_with(at).then_some(at.len());
                        reference.own_as_written = reference.written().starts_with(at).then_some(at.len());
                    }
                    Piece::Space(_) | Piece::Previous | Piece::Closed(_) => {}
                }
            }
            if let Some(previous) = previous {
                mark(previous, at);
            }
        }
        // What lies in a list has no path.
        Kind::Array(_) | Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
}

struct Resolver<'a> {
    root: &'a Object,
    environment: &'a dyn Fn(&str) -> Option<String>,
    under_way: Vec<Vec<String>>,
    finds: usize,
    is_lenient: bool,
}

impl Resolver<'_> {
    /// `depth`: in how many others it lies.
    fn object(&mut self, object: &Object, depth: usize) -> Result<Object, HoconError> {
        let mut resolved = Object::default();
        for (key, value) in &object.0 {
            match self.value(value, depth + 1) {
                Ok(value) => resolved.0.extend(value.map(|value| (key.clone(), value))),
                Err(_) if self.is_lenient => {}
                Err(error) => return Err(error),
            }
        }
        Ok(resolved)
    }

    /// None when nothing is left: an optional substitution of something that is not there.
    fn value(&mut self, value: &Value, depth: usize) -> Result<Option<Value>, HoconError> {
        if depth > DEPTH_MAX {
            let message = format!("nested more than {DEPTH_MAX} deep; does a substitution refer to itself?");
            return Err(HoconError { origin: value.origin.clone(), message });
        }
        let Some(Value { kind, origin }) = self.head(value)? else { return Ok(None) };
        let kind = match kind {
            Kind::Object(object) => Kind::Object(self.object(&object, depth)?),
            Kind::Array(items) => {
                let mut resolved = Vec::new();
                for item in &items {
                    resolved.extend(self.value(item, depth + 1)?);
                }
                Kind::Array(resolved)
            }
            plain => plain,
        };
        Ok(Some(Value { kind, origin }))
    }

    /// The value itself, with what lies in it as it was.
    fn head(&mut self, value: &Value) -> Result<Option<Value>, HoconError> {
        match &value.kind {
            Kind::Pending { pieces, previous } => self.pending(pieces, previous.as_deref(), &value.origin),
            _ => Ok(Some(value.clone())),
        }
    }

    fn pending(&mut self, pieces: &[Piece], previous: Option<&Value>, origin: &Origin) -> Result<Option<Value>, HoconError> {
        let mut found = Vec::new();
        let mut has_previous = false;
        for piece in pieces {
            match piece {
                Piece::Value(value) => found.extend(self.head(value)?.map(Piece::Value)),
                Piece::Space(space) => found.push(Piece::Space(space.clone())),
                Piece::Previous => {
                    has_previous = true;
                    if let Some(previous) = previous {
                        found.extend(self.head(previous)?.map(Piece::Value));
                    }
                }
                Piece::Closed(value) => found.extend(self.head(value)?.map(closed).map(Piece::Value)),
                Piece::Reference(reference) => {
                    has_previous |= reference.is_previous();
                    match self.reference(reference, previous)? {
                        Some(value) => found.push(Piece::Value(value)),
                        None if reference.optional => {}
                        None => {
                            let name = reference.written().join(".");
                            let message = format!(
                                "${{{name}}} is neither a key of the configuration nor an environment variable; \
                                 write ${{?{name}}} if it may be missing"
                            );
                            return Err(HoconError { origin: reference.origin.clone(), message });
                        }
                    }
                }
            }
        }
        match (previous, concatenate(found, origin)?) {
            (Some(previous), Some(value @ Value { kind: Kind::Object(_), .. })) if !has_previous => {
                Ok(Some(match self.head(previous)? {
                    Some(below) => layer(below, value),
                    None => value,
                }))
            }
            // An optional substitution that is missing leaves what was there before.
            (Some(previous), None) => self.head(previous),
            (_, value) => Ok(value),
        }
    }

    fn reference(&mut self, reference: &Reference, previous: Option<&Value>) -> Result<Option<Value>, HoconError> {
        let (path, written) = (&reference.path[..], reference.written());
        let mut found = match reference.own {
            Some(own) => self.before(path, own, previous)?,
            None => self.find(path, reference)?,
        };
        if found.is_none() && reference.included_at > 0 {
            found = match reference.own_as_written {
                Some(own) => self.before(written, own, previous)?,
                None => self.find(written, reference)?,
            };
        }
        let text = |text| Value { kind: Kind::Text(text), origin: reference.origin.clone() };
        Ok(found.or_else(|| (self.environment)(&written.join(".")).map(text)))
    }

    /// Of what a key held before, whose path these first parts of `path` are.
    fn before(&mut self, path: &[String], own: usize, previous: Option<&Value>) -> Result<Option<Value>, HoconError> {
        previous.map_or(Ok(None), |previous| self.below(previous, &path[own..]))
    }

    /// What leads back to itself is missing, and a mistake unless it may be.
    fn find(&mut self, path: &[String], reference: &Reference) -> Result<Option<Value>, HoconError> {
        if self.under_way.iter().any(|other| other == path) {
            if reference.optional {
                return Ok(None);
            }
            let message = format!("${{{}}} refers to itself", path.join("."));
            return Err(HoconError { origin: reference.origin.clone(), message });
        }
        self.finds += 1;
        if self.finds > FINDS_MAX {
            let message = format!("substitutions have led to more than {FINDS_MAX} others; does one refer to itself?");
            return Err(HoconError { origin: reference.origin.clone(), message });
        }
        let root = self.root;
        let Some((first, rest)) = path.split_first() else { return Ok(None) };
        let Some(value) = root.get(first) else { return Ok(None) };
        self.under_way.push(path.to_vec());
        let found = self.below(value, rest);
        self.under_way.pop();
        found
    }

    fn below(&mut self, value: &Value, path: &[String]) -> Result<Option<Value>, HoconError> {
        let mut found = self.head(value)?;
        for key in path {
            let Some(Value { kind: Kind::Object(object), .. }) = found else { return Ok(None) };
            let Some(value) = object.get(key) else { return Ok(None) };
            found = self.head(value)?;
        }
        Ok(found.map(closed))
    }
}

/// With all that is pending in it closed, since a substitution led to it.
fn closed(value: Value) -> Value {
    let Value { kind, origin } = value;
    let kind = match kind {
        Kind::Object(Object(entries)) => {
            Kind::Object(Object(entries.into_iter().map(|(key, value)| (key, closed(value))).collect()))
        }
        Kind::Array(items) => Kind::Array(items.into_iter().map(closed).collect()),
        Kind::Pending { pieces, previous } if !matches!((&pieces[..], &previous), ([Piece::Closed(_)], None)) => {
            let value = Value { kind: Kind::Pending { pieces, previous }, origin: origin.clone() };
            Kind::Pending { pieces: vec![Piece::Closed(value)], previous: None }
        }
        plain => plain,
    };
    Value { kind, origin }
}

/// Joins the pieces of one value: objects merge, arrays append, the rest is text.
pub(super) fn concatenate(pieces: Vec<Piece>, origin: &Origin) -> Result<Option<Value>, HoconError> {
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
                Piece::Previous | Piece::Reference(_) | Piece::Closed(_) => {}
            }
        }
        Kind::Text(text.trim().to_owned())
    };
    Ok(Some(Value { kind, origin: origin.clone() }))
}
