//! The footer of a file: what is in it and where. The library reads it, once it is known that it says nothing that takes longer
//! or more room than the bytes that are there: lists, also those of fields that nobody knows, and columns within each other.
//!
//! The library goes by the number of a field and not by its form, so that a field it knows has to have the form it takes for
//! granted: what is walked through here would not be what is read there.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::thrift::{BINARY, BYTE, Broken, DOUBLE, FALSE, I16, I32, I64, LIST, Result, STRUCT, TRUE, Thrift, wrong};
use super::told;
use super::tree::DEPTH_MAX;

/// Ten thousand columns in a hundred groups have some 150 MB.
const FOOTER_BYTES_MAX: u64 = 256 << 20;

/// How long the footer is, and who it belongs to.
const TAIL_BYTES: u64 = 8;

pub fn read(file: &File, file_bytes: u64) -> std::result::Result<ParquetMetaData, String> {
    let at =
        |bytes: &mut [u8], at: u64| file.read_exact_at(bytes, at).map_err(|error| format!("its end cannot be read: {error}"));
    let mut tail = [0; TAIL_BYTES as usize];
    let before = file_bytes.checked_sub(TAIL_BYTES).ok_or_else(|| format!("it has {file_bytes} bytes"))?;
    at(&mut tail, before)?;
    let [a, b, c, d, mark @ ..] = tail;
    match &mark {
        b"PAR1" => {}
        b"PARE" => return Err("it is encrypted".to_owned()),
        _ => return Err("it does not end with PAR1".to_owned()),
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if length > before.min(FOOTER_BYTES_MAX) {
        return Err(format!(
            "its footer says that it has {length} bytes, of a file of {file_bytes} (and no more than {FOOTER_BYTES_MAX})"
        ));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|error| error.to_string())?];
    at(&mut bytes, before - length)?;
    check(&bytes)?;
    ParquetMetaDataReader::decode_metadata(&bytes).map_err(told)
}

/// Whether there is as much as it says, in the forms that the library takes for granted.
fn check(bytes: &[u8]) -> std::result::Result<(), String> {
    let mut thrift = Thrift(bytes);
    file_fields(&mut thrift).map_err(|broken| {
        let problem = match broken {
            Broken::Short => "it has less than it says".to_owned(),
            Broken::Wrong(problem) => problem,
        };
        format!("its footer is damaged about its byte {} of {}: {problem}", bytes.len() - thrift.0.len(), bytes.len())
    })
}

fn file_fields(thrift: &mut Thrift<'_>) -> Result<()> {
    let mut last = 0;
    while let Some((id, form)) = thrift.field(last)? {
        match id {
            SCHEMA => schema(thrift, form)?,
            _ => field(thrift, FILE, id, form)?,
        }
        last = id;
    }
    Ok(())
}

/// Columns, each group before its fields, and how many these are. The library makes room for as many and goes as deep as it says.
fn schema(thrift: &mut Thrift<'_>, form: u8) -> Result<()> {
    let (item, count) = if form == LIST { thrift.items()? } else { return wrong("its columns are no list") };
    if item != STRUCT && count > 0 {
        return wrong("its columns are no structs");
    }
    // How many fields of each group are still to come.
    let mut open: Vec<usize> = Vec::new();
    for left in (0..count).rev() {
        let (mut fields, mut last) = (0, 0);
        while let Some((id, form)) = thrift.field(last)? {
            match (id, form) {
                (CHILDREN, I16 | I32 | I64) => fields = thrift.signed()?,
                _ => field(thrift, SCHEMA_ELEMENT, id, form)?,
            }
            last = id;
        }
        while let Some(0) = open.last() {
            open.pop();
        }
        if let Some(open) = open.last_mut() {
            *open -= 1;
        }
        match usize::try_from(fields) {
            Ok(0) => {}
            Ok(fields) if fields <= left => open.push(fields),
            _ => return wrong(format!("a column has {fields} fields, and {left} follow")),
        }
        if open.len() > DEPTH_MAX + 1 {
            return wrong(format!("its columns lie within each other deeper than {DEPTH_MAX}"));
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    Flag,
    Byte,
    Number,
    Double,
    Bytes,
    List(&'static Kind),
    Struct(Fields),
}

/// By their numbers.
type Fields = &'static [(i16, Kind)];

fn field(thrift: &mut Thrift<'_>, fields: Fields, id: i16, form: u8) -> Result<()> {
    match fields.iter().find(|(known, _)| *known == id) {
        Some((_, kind)) => value(thrift, kind, form),
        None => thrift.pass(form),
    }
}

fn value(thrift: &mut Thrift<'_>, kind: &Kind, form: u8) -> Result<()> {
    match (kind, form) {
        (Kind::Flag, TRUE | FALSE)
        | (Kind::Byte, BYTE)
        | (Kind::Number, I16 | I32 | I64)
        | (Kind::Double, DOUBLE)
        | (Kind::Bytes, BINARY) => thrift.pass(form),
        (Kind::List(kind), LIST) => {
            let (form, count) = thrift.items()?;
            (0..count).try_for_each(|_| value(thrift, kind, form))
        }
        (Kind::Struct(fields), STRUCT) => {
            let mut last = 0;
            while let Some((id, form)) = thrift.field(last)? {
                field(thrift, fields, id, form)?;
                last = id;
            }
            Ok(())
        }
        _ => wrong(format!("a field has the form {form}, which it never has")),
    }
}

use Kind::{Bytes, Double, Flag, List, Number, Struct};

const SCHEMA: i16 = 2;
const CHILDREN: i16 = 5;

/// All fields that the library reads; those that it passes over may be missing.
const FILE: Fields = &[
    (1, Number),
    (3, Number),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Bytes),
    (7, List(&Struct(&[(1, NOTHING), (2, NOTHING), (3, NOTHING)]))),
];

const NOTHING: Kind = Struct(&[]);

const KEY_VALUE: Fields = &[(1, Bytes), (2, Bytes)];

const SCHEMA_ELEMENT: Fields = &[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Bytes),
    (CHILDREN, Number),
    (6, Number),
    (7, Number),
    (8, Number),
    (9, Number),
    (10, Struct(LOGICAL_TYPE)),
];

const LOGICAL_TYPE: Fields = &[
    (1, NOTHING),
    (2, NOTHING),
    (3, NOTHING),
    (4, NOTHING),
    (5, Struct(&[(1, Number), (2, Number)])),
    (6, NOTHING),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, Kind::Byte), (2, Flag)])),
    (11, NOTHING),
    (12, NOTHING),
    (13, NOTHING),
    (14, NOTHING),
    (15, NOTHING),
    (16, Struct(&[(1, Kind::Byte)])),
    (17, Struct(&[(1, Bytes)])),
    (18, Struct(&[(1, Bytes), (2, Number)])),
    (19, NOTHING),
];

const TIME: Fields = &[(1, Flag), (2, Struct(&[(1, NOTHING), (2, NOTHING), (3, NOTHING)]))];

const ROW_GROUP: Fields = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, Number),
    (3, Number),
    (4, List(&Struct(&[(1, Number), (2, Flag), (3, Flag)]))),
    (5, Number),
    (7, Number),
];

const COLUMN_CHUNK: Fields = &[(1, Bytes), (2, Number), (3, Struct(COLUMN)), (4, Number), (5, Number), (6, Number), (7, Number)];

const COLUMN: Fields = &[
    (1, Number),
    (2, List(&Number)),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (9, Number),
    (10, Number),
    (11, Number),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, Number), (2, Number), (3, Number)]))),
    (14, Number),
    (15, Number),
    (16, Struct(&[(1, Number), (2, List(&Number)), (3, List(&Number))])),
    (17, Struct(&[(1, Struct(BOX)), (2, List(&Number))])),
];

const STATISTICS: Fields =
    &[(1, Bytes), (2, Bytes), (3, Number), (4, Number), (5, Bytes), (6, Bytes), (7, Flag), (8, Flag), (9, Number)];

const BOX: Fields = &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of structs as field 2.
    fn columns(elements: &[&[u8]]) -> Vec<u8> {
        let count = elements.len() as u8;
        [&[0x15, 2, 0x19, 0xfc, count | 0x80, 0][..], &elements.concat(), &[0]].concat()
    }

    #[test]
    fn columns_are_as_many_and_as_deep_as_the_bytes_say() {
        const LEAF: &[u8] = &[0x48, 1, b'a', 0];
        const GROUP_OF_ONE: &[u8] = &[0x48, 1, b'a', 0x15, 2, 0];
        const GROUP_OF_TWO: &[u8] = &[0x48, 1, b'a', 0x15, 4, 0];
        let ok = |elements: &[&[u8]]| check(&columns(elements));
        assert_eq!(ok(&[GROUP_OF_TWO, LEAF, GROUP_OF_ONE, LEAF]), Ok(()));
        assert_eq!(ok(&[]), Ok(()), "what that means is for the library to say");
        assert!(ok(&[GROUP_OF_TWO, LEAF]).unwrap_err().contains("has 2 fields, and 1 follow"));
        // 2^31 - 1 of them, and less than none.
        assert!(ok(&[&[0x48, 1, b'a', 0x15, 0xfe, 0xff, 0xff, 0xff, 0xf, 0], LEAF]).unwrap_err().contains("2147483647"));
        assert!(ok(&[&[0x48, 1, b'a', 0x15, 1, 0], LEAF]).unwrap_err().contains("-1 fields"));
        let deep = |depth: usize| [vec![GROUP_OF_ONE; depth], vec![LEAF]].concat();
        assert_eq!(ok(&deep(DEPTH_MAX + 1)), Ok(()));
        assert!(ok(&deep(DEPTH_MAX + 2)).unwrap_err().contains("deeper"));
    }

    #[test]
    fn fields_have_the_form_that_is_taken_for_granted() {
        for (wrong, why) in [
            (&[0x15, 2, 0x19, 0x2c, 0x48, 1, b'a', 0][..], "ends early"),
            (&[0x18, 1, b'a', 0], "a version of text"),
            (&[0x25, 2, 0], "columns that are a number"),
            (&[0x49, 0x15, 2, 0], "groups that are numbers"),
            (&[0x49, 0xf8, 0xff, 0xff, 0xff, 0xff, 7, 0, 0], "groups without end"),
            (&[0x05, 0x64, 0x29, 0xf2, 0xff, 0xff, 0xff, 0xff, 7], "truths without end in a field nobody knows"),
            (&[0x09, 0x64, 0xf2, 0xff, 0xff, 0xff, 0xff, 7, 0], "the same"),
            (&[0x09, 0x64, 0xf7, 0xff, 0xff, 0xff, 0xff, 7, 0], "numbers without end"),
        ] {
            assert!(check(wrong).unwrap_err().contains("about its byte"), "{why}");
        }
        assert_eq!(check(&[0x15, 2, 0x09, 0x64, 0x25, 2, 4, 0]), Ok(()), "a list that nobody knows");
    }
}
