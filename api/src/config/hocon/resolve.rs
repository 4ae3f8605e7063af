//! Substitutions filled in: from the document itself, then from the environment.

use super::parse::word;
use super::{HoconError, Kind, Object, Origin, Piece, Value, layer};

/// Fills in every substitution: from the document itself, then from `environment`.
pub fn resolve(root: &Object, environment: &dyn Fn(&str) -> Option<String>) -> Result<Object, HoconError> {
    Resolver { root, environment, under_way: Vec::new(), is_lenient: false }.object(root, &mut Vec::new())
}

/// As `resolve`, for a part of the document, without what was laid over it. What cannot be filled in is left out: something else
/// may have taken its place in the document, and then nobody misses it.
pub fn resolve_part(part: &Object, root: &Object, environment: &dyn Fn(&str) -> Option<String>) -> Object {
    let mut resolver = Resolver { root, environment, under_way: Vec::new(), is_lenient: true };
    resolver.object(part, &mut Vec::new()).unwrap_or_default()
}

struct Resolver<'a> {
    root: &'a Object,
    environment: &'a dyn Fn(&str) -> Option<String>,
    under_way: Vec<Vec<String>>,
    is_lenient: bool,
}

impl Resolver<'_> {
    fn object(&mut self, object: &Object, at: &mut Vec<String>) -> Result<Object, HoconError> {
        let mut resolved = Object::default();
        for (key, value) in &object.0 {
            at.push(key.clone());
            match self.value(value, at) {
                Ok(value) => resolved.0.extend(value.map(|value| (key.clone(), value))),
                Err(_) if self.is_lenient => {}
                Err(error) => return Err(error),
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
                Piece::Previous => {
                    if let Some(previous) = previous {
                        resolved.extend(self.value(previous, at)?.map(Piece::Value));
                    }
                }
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
                Piece::Previous | Piece::Reference { .. } => {}
            }
        }
        Kind::Text(text.trim().to_owned())
    };
    Ok(Some(Value { kind, origin: origin.clone() }))
}
