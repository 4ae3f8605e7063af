//! Values there and back. What a script is given it cannot change; what it answers is copied, within bounds.

use rquickjs::function::{Constructor, This};
use rquickjs::{Array, Coerced, Ctx, Function, Object, String as JsString, TypedArray, Value as Js};
use weir_model::value::{DateTime, MapBuilder};
use weir_model::{Text, Value};

/// A list may stand in itself many times over, and then has no end.
const DEPTH_MAX: u32 = 100;
const VALUES_MAX: u32 = 1 << 20;
const BYTES_MAX: usize = 128 << 20;

/// What a value takes besides its text or bytes, at most: one of a map has a key.
const VALUE_BYTES: usize = size_of::<(Text, Value)>();

/// Larger integers are not told apart by JavaScript's numbers.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Functions of the prelude, and of the language.
pub struct Tools<'js> {
    /// What an object is that is no list.
    look: Function<'js>,
    freeze: Function<'js>,
    date: Constructor<'js>,
    to_text: Function<'js>,
}

/// Why a value cannot be taken.
pub enum Problem {
    Thrown(rquickjs::Error),
    Word(String),
}

impl From<rquickjs::Error> for Problem {
    fn from(error: rquickjs::Error) -> Problem {
        Problem::Thrown(error)
    }
}

impl Problem {
    pub fn told(self, thrown: impl FnOnce(&rquickjs::Error) -> String) -> String {
        match self {
            Problem::Thrown(error) => thrown(&error),
            Problem::Word(word) => word,
        }
    }
}

impl<'js> Tools<'js> {
    pub fn of(prelude: &Object<'js>) -> rquickjs::Result<Tools<'js>> {
        let date = prelude.ctx().globals().get("Date")?;
        let function = Function::prototype(prelude.ctx().clone());
        Ok(Tools { look: prelude.get("look")?, freeze: prelude.get("freeze")?, date, to_text: function.get("toString")? })
    }

    /// The text of a function, as it was written.
    pub fn text_of(&self, function: &Function<'js>) -> rquickjs::Result<String> {
        self.to_text.call((This(function.clone()),))
    }

    /// Makes a function one that cannot be used to remember something.
    pub fn close(&self, function: &Function<'js>) -> rquickjs::Result<()> {
        if let Some(prototype) = function.get::<_, Option<Object<'js>>>("prototype")? {
            self.freeze.call::<_, ()>((prototype,))?;
        }
        self.freeze.call((function.clone(),))
    }
}

/// A record as a script sees it: frozen. Large integers are BigInts, dates with a zone are Dates, other temporal values their
/// texts.
pub fn to_js<'js>(ctx: &Ctx<'js>, tools: &Tools<'js>, value: &Value) -> rquickjs::Result<Js<'js>> {
    Ok(match value {
        Value::Null => Js::new_null(ctx.clone()),
        Value::Boolean(b) => Js::new_bool(ctx.clone(), *b),
        Value::Integer(n) => match i32::try_from(*n) {
            Ok(n) => Js::new_int(ctx.clone(), n),
            Err(_) if n.unsigned_abs() <= SAFE_INTEGER_MAX => Js::new_float(ctx.clone(), *n as f64),
            Err(_) => Js::new_big_int(ctx.clone(), *n)?,
        },
        Value::Float(x) => Js::new_float(ctx.clone(), *x),
        Value::Text(text) => JsString::from_str(ctx.clone(), text)?.into_value(),
        Value::Bytes(bytes) => TypedArray::<u8>::new_copy(ctx.clone(), bytes)?.into_value(),
        Value::List(items) => {
            let array = Array::new(ctx.clone())?;
            for (index, item) in items.iter().enumerate() {
                array.set(index, to_js(ctx, tools, item)?)?;
            }
            tools.freeze.call::<_, ()>((array.clone(),))?;
            array.into_value()
        }
        Value::Map(map) => {
            let object = Object::new(ctx.clone())?;
            for (key, value) in map.iter() {
                object.prop(key.as_str(), rquickjs::object::Property::from(to_js(ctx, tools, value)?).enumerable())?;
            }
            tools.freeze.call::<_, ()>((object.clone(),))?;
            object.into_value()
        }
        Value::DateTime(moment) => tools.date.construct((moment.epoch_millis() as f64,))?,
        other => JsString::from_str(ctx.clone(), &other.to_text())?.into_value(),
    })
}

/// What a script has answered, and the bytes of that, about.
pub fn from_js<'js>(tools: &Tools<'js>, answer: Js<'js>) -> Result<(Value, usize), Problem> {
    let mut reading = Reading { tools, values: 0, bytes: 0 };
    let value = reading.value(answer, 0)?;
    Ok((value, reading.bytes + reading.values as usize * VALUE_BYTES))
}

struct Reading<'t, 'js> {
    tools: &'t Tools<'js>,
    values: u32,
    bytes: usize,
}

impl<'js> Reading<'_, 'js> {
    fn value(&mut self, value: Js<'js>, depth: u32) -> Result<Value, Problem> {
        self.values += 1;
        if depth > DEPTH_MAX || self.values > VALUES_MAX {
            return Err(too_many());
        }
        if value.is_null() || value.is_undefined() {
            return Ok(Value::Null);
        }
        if let Some(b) = value.as_bool() {
            return Ok(Value::Boolean(b));
        }
        if let Some(n) = value.as_int() {
            return Ok(Value::Integer(n.into()));
        }
        if let Some(x) = value.as_float() {
            return Ok(number(x));
        }
        if let Some(text) = value.as_string() {
            return Ok(Value::Text(self.text(text)?));
        }
        if value.is_big_int() {
            return big(value);
        }
        if value.is_function() || value.is_symbol() {
            return Err(Problem::Word(format!("it answers with a {}, which is no value of a record", value.type_name())));
        }
        if let Some(array) = value.as_array() {
            return self.list(array, depth);
        }
        let Some(object) = value.as_object() else {
            return Err(Problem::Word(format!("it answers with a {}, which is no value of a record", value.type_name())));
        };
        match self.tools.look.call::<_, Option<Array<'js>>>((object.clone(),))? {
            None => self.map(object, depth),
            Some(seen) => match seen.get::<String>(0)?.as_str() {
                "date" => moment(seen.get(1)?),
                "bytes" => self.byte_string(&seen.get(1)?),
                "list" => self.list(&seen.get(1)?, depth),
                _ => Err(Problem::Word("it answers with a promise, which is not waited for".to_owned())),
            },
        }
    }

    fn list(&mut self, array: &Array<'js>, depth: u32) -> Result<Value, Problem> {
        let mut items = Vec::new();
        for index in 0..self.length(array)? {
            items.push(self.value(array.get(index)?, depth + 1)?);
        }
        Ok(Value::list(items))
    }

    /// Looked at before anything of it: one may be longer than there is memory.
    fn length(&self, array: &Array<'js>) -> Result<usize, Problem> {
        let length: f64 = array.as_object().get("length")?;
        if length <= f64::from(VALUES_MAX) { Ok(length.max(0.0) as usize) } else { Err(too_many()) }
    }

    fn map(&mut self, object: &Object<'js>, depth: u32) -> Result<Value, Problem> {
        let mut map = MapBuilder::default();
        for key in object.keys::<JsString<'js>>() {
            let key = key?;
            let value = object.get(key.clone())?;
            map.insert(self.text(&key)?, self.value(value, depth + 1)?);
        }
        Ok(Value::Map(map.finish().into()))
    }

    fn byte_string(&mut self, array: &TypedArray<'js, u8>) -> Result<Value, Problem> {
        #[expect(unsafe_code, reason = "one by one the bytes would take sixteen times the memory")]
        // SAFETY: they are copied before a script runs that could change the array or take it away.
        let bytes = unsafe { array.as_bytes() };
        let bytes = bytes.ok_or_else(|| Problem::Word("it answers with a buffer that was given away".to_owned()))?;
        self.count(bytes.len())?;
        Ok(Value::Bytes(bytes.into()))
    }

    fn text(&mut self, text: &JsString<'js>) -> Result<Text, Problem> {
        let halves = |_| Problem::Word("it answers with a text that has half of a pair of surrogates in it".to_owned());
        let text = text.to_string().map_err(halves)?;
        self.count(text.len())?;
        Ok(Text::from(text))
    }

    fn count(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes += bytes;
        if self.bytes <= BYTES_MAX { Ok(()) } else { Err(Problem::Word(format!("it answers with more than {BYTES_MAX} bytes"))) }
    }
}

fn too_many() -> Problem {
    Problem::Word(format!("it answers with more than {VALUES_MAX} values, or with lists and maps more than {DEPTH_MAX} deep"))
}

/// An integer where it is one of 64 bits.
fn number(x: f64) -> Value {
    const BOUND: f64 = (1u64 << 63) as f64;
    if x.fract() == 0.0 && (-BOUND..BOUND).contains(&x) { Value::Integer(x as i64) } else { Value::Float(x) }
}

fn big(value: Js<'_>) -> Result<Value, Problem> {
    let text = value.get::<Coerced<String>>()?.0;
    let wide = || Problem::Word("it answers with an integer that does not fit 64 bits".to_owned());
    text.parse().map(Value::Integer).map_err(|_| wide())
}

fn moment(millis: f64) -> Result<Value, Problem> {
    if !millis.is_finite() {
        return Err(Problem::Word("it answers with a Date that is none".to_owned()));
    }
    let millis = millis as i64;
    let nanos = millis.rem_euclid(1000) as i32 * 1_000_000;
    Ok(Value::DateTime(DateTime::utc(millis.div_euclid(1000), nanos).into()))
}
