use std::time::Instant;

use weir_model::value::DateTime;

use super::*;
use crate::decode::{Decoder, JsonDecoder, VALUES_BYTES_MAX};
use crate::frames::Frames;

fn json(text: &str) -> Value {
    let mut frames = Frames::default();
    frames.push(text.as_bytes());
    JsonDecoder::default().record(frames.get(0)).unwrap()
}

fn one(script: &mut Script, record: Value) -> Result<Value, String> {
    script.apply(Arc::new(vec![record]), || false).unwrap().outcomes.pop().unwrap()
}

#[track_caller]
fn gives(text: &str, record: Value, expected: &str) {
    let mut script = Script::start("test", text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    assert_eq!(one(&mut script, record).as_ref().map(Value::shown), Ok(expected.to_owned()), "{text}");
}

#[track_caller]
fn fails(text: &str, record: &str, expected: &str) {
    let mut script = Script::start("test", text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    let failed = one(&mut script, json(record)).map(|value| value.shown()).unwrap_err();
    assert!(failed.contains(expected), "{text}: {failed}");
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let problem = Script::start("test", text).err().unwrap_or_else(|| panic!("{text} should have been refused"));
    assert!(problem.contains(expected), "{text}: {problem}");
}

#[test]
fn values_go_there_and_back() {
    let same = "x => x";
    let record = r#"{"a": [1, -2147483649, 9007199254740993, 1.5, "é𝄞", null, true], "b": {"": {}}, "1": "one"}"#;
    gives(
        "x => ({list: x.a, deep: x.b, one: x[1], keys: Object.keys(x).length})",
        json(record),
        r#"{ list: [ 1, -2147483649, 9007199254740993, 1.5, "\u00E9\uD834\uDD1E", null, true ], deep: { : {  } }, one: "one", keys: 3 }"#,
    );
    gives("x => [typeof x.a[1], typeof x.a[2]]", json(record), r#"[ "number", "bigint" ]"#);
    gives(
        "() => [3.0, 2**62, 2**63, -(2**63), 1e300, -0, 0.1, NaN, 5n, 2n**63n - 1n]",
        Value::Null,
        "[ 3, 4611686018427387904, 9.223372036854776E18, -9223372036854775808, 1.0E300, 0, 0.1, NaN, 5, 9223372036854775807 ]",
    );
    gives("() => undefined", Value::Null, "null");
    gives("() => ({a: undefined, [Symbol('s')]: 1, get b() { return 2 }})", Value::Null, "{ a: null, b: 2 }");
    gives("() => new Map([['a', 1]])", Value::Null, r#"[ [ "a", 1 ] ]"#);
    gives("() => new Set([1, 1, 2])", Value::Null, "[ 1, 2 ]");
    gives("function* () { yield 1; yield 'b' }", Value::Null, r#"[ 1, "b" ]"#);
    gives("x => x.length", Value::Bytes(vec![1, 2, 255].into()), "3");
    let bytes = Value::Bytes(vec![1, 2, 255].into());
    gives(same, bytes.clone(), &bytes.shown());
    gives("() => new Uint16Array([258]).buffer", Value::Null, &Value::Bytes(vec![2, 1].into()).shown());
    gives("() => new Uint8Array([1, 2, 3, 4]).subarray(1, 3)", Value::Null, &Value::Bytes(vec![2, 3].into()).shown());
    gives("() => new DataView(new ArrayBuffer(3), 2)", Value::Null, &Value::Bytes(vec![0].into()).shown());
    gives("() => new Uint8Array(0)", Value::Null, &Value::Bytes(vec![].into()).shown());
    gives("() => [new Uint8Array([1]).map(() => 257)]", Value::Null, &Value::list(vec![Value::Bytes(vec![1].into())]).shown());
    let moment = Value::DateTime(DateTime::utc(-1, 999_000_000).into());
    gives(same, moment.clone(), &moment.shown());
    gives("x => x.getTime()", moment, "-1");
    gives(
        "that => ({ id: that.user.id, day: that.ts.slice(0, 10) })",
        json(r#"{"user": {"id": 7}, "ts": "2026-01-02T03:04:05Z"}"#),
        r#"{ id: 7, day: "2026-01-02" }"#,
    );
}

#[test]
fn the_text_is_one_function_and_nothing_else() {
    gives("  // first\n ( function double(x) { return x * 2 } ) /* last */", json("4"), "8");
    gives("x => { 'use strict'; return x }  // x => x", json("4"), "4");
    for text in [
        "5",
        "Math.abs",
        "x => x, y => y",
        "(() => { let n = 0; return () => n++ })()",
        "class A {}",
        "x => x); (y => y",
        "",
        "[x => x]",
        // A comment ends with its line, whatever ends that.
        "// x => n++ //\n((n) => x => n++)(0)",
        "// x => n++ //\r((n) => x => n++)(0)",
        "// x => n++ //\u{2028}((n) => x => n++)(0)",
        "// x => n++ //\u{2029}((n) => x => n++)(0)",
    ] {
        assert!(Script::start("test", text).is_err(), "{text}");
    }
    refused("Math.abs", "not the text of one function");
    refused("x => {", "SyntaxError");
    refused("nope", "ReferenceError");
    refused("async x => x", "leave out `async`");
    refused("(() => { while (true); })()", "interrupted");
    gives("asynchronous => asynchronous + 1", json("1"), "2");
}

#[test]
fn nothing_is_remembered_and_nothing_is_outside() {
    for text in [
        "x => { x.a = 1 }",
        "x => { x.list.push(1) }",
        "x => { globalThis.n = 1 }",
        "x => { n = 1 }",
        "function f(x) { f.n = 1 }",
        "function f(x) { f.prototype.n = 1 }",
        "x => { Array.prototype.n = 1 }",
        "x => { Object.prototype.n = 1 }",
        "x => { [][Symbol.iterator]().__proto__.n = 1 }",
        "x => { (function* () {})().__proto__.__proto__.n = 1 }",
        "x => { Object.getPrototypeOf(async function () {}).n = 1 }",
        "x => { ''.matchAll(/x/g).__proto__.n = 1 }",
        "x => { Math.n = 1 }",
        "x => { JSON.parse.n = 1 }",
        "x => { new Promise(() => {}).__proto__.n = 1 }",
        "x => { Object.getOwnPropertyDescriptor(Map.prototype, 'size').get.n = 1 }",
    ] {
        let mut script = Script::start("test", text).unwrap();
        let failed = one(&mut script, json(r#"{"list": [], "a": 0}"#)).unwrap_err();
        assert!(failed.contains("Error"), "{text}: {failed}");
    }
    for name in [
        "eval",
        "Function",
        "load",
        "print",
        "console",
        "require",
        "process",
        "std",
        "os",
        "Worker",
        "setTimeout",
        "fetch",
        "Atomics",
        "SharedArrayBuffer",
        "WeakRef",
        "performance",
    ] {
        gives(&format!("() => typeof {name}"), Value::Null, r#""undefined""#);
    }
    for text in [
        "() => (() => 1).constructor('return 1')()",
        "() => (function* () {}).constructor('yield 1')",
        "() => (async () => 1).constructor('return 1')",
    ] {
        fails(text, "1", "text is not run as code");
    }
    fails("() => import('fs')", "1", "promise");
    fails("() => (0, eval)('1')", "1", "ReferenceError");
}

#[test]
fn what_cannot_be_a_record_is_an_error_of_that_record() {
    fails("x => { throw new RangeError('no') }", "1", "RangeError: no");
    fails("x => { throw 'word' }", "1", "word");
    fails("x => { throw {toString() { return 'x' }} }", "1", "no error");
    fails("x => x.a.b", "{}", "TypeError");
    fails("x => (() => 1)", "1", "function");
    fails("x => Symbol()", "1", "symbol");
    fails("x => Promise.resolve(1)", "1", "promise");
    fails("x => 2n ** 64n", "1", "does not fit 64 bits");
    fails("x => new Date('never')", "1", "Date that is none");
    fails("x => '\\ud800'", "1", "surrogates");
    fails("x => { const a = []; a.push(a); return a }", "1", "deep");
    fails("x => { let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; return a }", "1", "values");
    fails("x => { const s = 'x'.repeat(1 << 20); return Array(1000).fill(s) }", "1", "bytes");
    fails("x => Array(2**32 - 1)", "1", "values");
    fails("x => [1, 2, 3].map(() => new Uint8Array(1 << 26))", "1", "out of memory");
    fails("x => ({get a() { throw new Error('mine') }})", "1", "Error: mine");
    fails("function f(x) { return f(x) }", "1", "stack");
}

#[test]
fn time_and_memory_are_bounded_and_the_next_record_is_fine() {
    let text = r"x => {
        if (x === 'loop') for (;;);
        if (x === 'caught') for (;;) try { for (;;); } catch { }
        if (x === 'memory') { const all = []; for (;;) all.push(new Array(1000).fill(x)); }
        if (x === 'string') { let s = 'x'; for (;;) s += s; }
        if (x === 'endless') return { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) };
        if (x === 'regex') return /^(a+)+$/.test('a'.repeat(40) + 'b');
        if (x === 'later') { const more = () => Promise.resolve().then(more); more(); return 1; }
        return x;
    }";
    let mut script = Script::start("test", text).unwrap();
    let words = ["a", "loop", "b", "caught", "memory", "c", "string", "endless", "regex", "later", "d"];
    let begun = Instant::now();
    let records = Arc::new(words.iter().map(|word| Value::text(word)).collect::<Vec<_>>());
    let done = script.apply(records, || false).unwrap().outcomes;
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    for (word, outcome) in words.iter().zip(&done) {
        match (*word, outcome) {
            ("a" | "b" | "c" | "d", Ok(value)) => assert_eq!(value.shown(), Value::text(word).shown()),
            ("later", Ok(value)) => assert_eq!(value.shown(), "1"),
            ("loop" | "caught" | "regex", Err(reason)) => assert!(reason.contains("longer than 1 s"), "{word}: {reason}"),
            ("memory" | "string" | "endless", Err(_)) => {}
            (word, outcome) => panic!("{word}: {:?}", outcome.as_ref().map(Value::shown)),
        }
    }
}

#[test]
fn a_stream_that_is_to_end_does_not_wait_for_its_script() {
    let mut script = Script::start("test", "x => { for (;;); }").unwrap();
    let begun = Instant::now();
    let asked = script.apply(Arc::new(vec![Value::Null; 100]), || begun.elapsed() > Duration::from_millis(100));
    assert!(asked == Err(Stopped::Asked), "{asked:?}");
    // All of its records would take more than a minute and a half.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn after_silence_the_thread_has_time_to_begin() {
    let (records, jobs) = bounded::<Arc<Vec<Value>>>(1);
    let (sender, done) = bounded(1);
    // The last record was long ago.
    let base = Instant::now().checked_sub(2 * (RECORD_TIME_MAX + GRACE)).unwrap();
    let watch = Watch { base, begun: AtomicU64::new(0), cancelled: AtomicBool::new(false) };
    let working = std::thread::spawn(move || {
        let records = jobs.recv().unwrap();
        std::thread::sleep(5 * STOP_LOOK);
        sender.send(Transformed { outcomes: records.iter().cloned().map(Ok).collect(), bytes: 0 }).unwrap();
    });
    let mut script = Script { records: Some(records), done, watch: Arc::new(watch) };
    assert_eq!(one(&mut script, json("7")).map(|value| value.shown()), Ok("7".to_owned()));
    working.join().unwrap();
}

#[test]
fn no_more_values_are_made_at_once_than_may_be_held() {
    let mut script = Script::start("test", "n => n < 0 ? n : 'x'.repeat(n)").unwrap();
    let most = VALUES_BYTES_MAX as i64;
    let records: Vec<Value> = [-1, most / 2, -1, most / 2, most / 4, -1].map(Value::Integer).into();
    let first = script.apply(Arc::new(records.clone()), || false).unwrap();
    assert_eq!(first.outcomes.len(), 4);
    assert!((VALUES_BYTES_MAX..VALUES_BYTES_MAX + 1024).contains(&first.bytes), "{}", first.bytes);
    let rest = script.apply(Arc::new(records[4..].to_vec()), || false).unwrap();
    assert_eq!(rest.outcomes.len(), 2);
    assert_eq!(rest.outcomes[1].as_ref().map(Value::shown), Ok("-1".to_owned()));
    // One by one where each is too large.
    let mut script = Script::start("test", &format!("n => new Uint8Array({VALUES_BYTES_MAX})")).unwrap();
    for _ in 0..2 {
        let one = script.apply(Arc::new(vec![Value::Null; 3]), || false).unwrap();
        assert!(matches!(&one.outcomes[..], [Ok(Value::Bytes(bytes))] if bytes.len() == VALUES_BYTES_MAX));
    }
}

#[test]
fn a_script_that_cannot_be_interrupted_is_given_up() {
    // A builtin that asks nobody, over an array of that length without anything in it; some seconds long.
    let mut script = Script::start("test", "x => Array.prototype.includes.call({length: x}, 1)").unwrap();
    let begun = Instant::now();
    let asked = script.apply(Arc::new(vec![Value::Integer(400_000_000)]), || false);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    match asked {
        Err(Stopped::GivenUp(reason)) => {
            assert!(reason.contains("does not end"), "{reason}");
            assert!(matches!(script.apply(Arc::new(vec![Value::Null]), || false), Err(Stopped::GivenUp(_))));
        }
        // A fast machine, or an engine that asks after all: then it is late like others.
        other => assert!(other.unwrap().outcomes[0].as_ref().is_err_and(|reason| reason.contains("longer than"))),
    }
}
