//! Binary messages from and to the JSON that stands for them.
//!
//! Owns the encoding of protocol buffers, as far as the messages in `schema` need it: a field that is not
//! known is passed over, one that is wrong is refused. What is read is never deeper than its schema.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::schema::{Field, Kind, Message};

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// What comes before it was a whole message.
pub(crate) struct Broken;

/// The JSON of a message.
pub(crate) fn read(mut bytes: &[u8], message: Message) -> Result<Value, Broken> {
    let mut object = Map::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = u32::try_from(key >> 3).map_err(|_| Broken)?;
        let Some(field) = message.iter().find(|field| field.number == number) else {
            skip(&mut bytes, key & 7)?;
            continue;
        };
        match (key & 7, &field.kind) {
            (LENGTH, Kind::Map) => {
                let (name, value) = pair(taken(&mut bytes)?)?;
                let map = object
                    .entry(field.name)
                    .or_insert_with(|| Map::new().into());
                if let Some(map) = map.as_object_mut() {
                    map.insert(name, value.into());
                }
            }
            (wire, kind) => {
                let value = value(&mut bytes, wire, kind)?;
                if field.many {
                    let list = object
                        .entry(field.name)
                        .or_insert_with(|| Value::Array(Vec::new()));
                    if let Some(list) = list.as_array_mut() {
                        list.push(value);
                    }
                } else {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(Value::Object(object))
}

fn value(bytes: &mut &[u8], wire: u64, kind: &Kind) -> Result<Value, Broken> {
    Ok(match (wire, kind) {
        (LENGTH, Kind::Text) => text(taken(bytes)?)?.into(),
        (LENGTH, Kind::Bytes) => BASE64.encode(taken(bytes)?).into(),
        (LENGTH, Kind::Message(message)) => read(taken(bytes)?, message)?,
        (VARINT, Kind::Number) => varint(bytes)?.into(),
        (VARINT, Kind::Flag) => (varint(bytes)? != 0).into(),
        (VARINT, Kind::Enum(names)) => {
            let number = varint(bytes)?;
            let named = names.iter().find(|(known, _)| *known == number);
            named.map_or_else(|| number.into(), |(_, name)| (*name).into())
        }
        // Requests have no times, and nothing that can be negative.
        _ => return Err(Broken),
    })
}

fn pair(mut bytes: &[u8]) -> Result<(String, String), Broken> {
    let (mut name, mut value) = (String::new(), String::new());
    while !bytes.is_empty() {
        match varint(&mut bytes)? {
            10 => name = text(taken(&mut bytes)?)?,
            18 => value = text(taken(&mut bytes)?)?,
            other => skip(&mut bytes, other & 7)?,
        }
    }
    Ok((name, value))
}

fn text(bytes: &[u8]) -> Result<String, Broken> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Broken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Broken> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Broken)?;
        *bytes = rest;
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Ok(number);
        }
    }
    Err(Broken)
}

fn taken<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Broken> {
    let length = usize::try_from(varint(bytes)?).map_err(|_| Broken)?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Broken)?;
    *bytes = rest;
    Ok(taken)
}

fn skip(bytes: &mut &[u8], wire: u64) -> Result<(), Broken> {
    let fixed = match wire {
        VARINT => return varint(bytes).map(drop),
        LENGTH => return taken(bytes).map(drop),
        FIXED64 => 8,
        FIXED32 => 4,
        _ => return Err(Broken),
    };
    *bytes = bytes.split_at_checked(fixed).ok_or(Broken)?.1;
    Ok(())
}

/// A message of its JSON.
pub(crate) fn write(value: &Value, message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in message {
        let Some(value) = value.get(field.name) else {
            continue;
        };
        match value.as_array().filter(|_| field.many) {
            Some(items) => {
                for item in items {
                    put(&mut bytes, field, item);
                }
            }
            None => put(&mut bytes, field, value),
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, field: &Field, value: &Value) {
    let string = || value.as_str().unwrap_or_default();
    match &field.kind {
        Kind::Text => put_bytes(bytes, field.number, string().as_bytes()),
        Kind::Bytes => {
            let decoded = BASE64.decode(string()).unwrap_or_default();
            put_bytes(bytes, field.number, &decoded);
        }
        Kind::Message(message) => put_bytes(bytes, field.number, &write(value, message)),
        Kind::Number => {
            // Long numbers are text in JSON.
            let number = value.as_u64().or_else(|| string().parse().ok());
            put_number(bytes, field.number, number.unwrap_or_default());
        }
        Kind::Signed => {
            let number = value.as_i64().unwrap_or_default();
            put_number(
                bytes,
                field.number,
                ((number << 1) ^ (number >> 63)).cast_unsigned(),
            );
        }
        Kind::Flag => put_number(
            bytes,
            field.number,
            value.as_bool().unwrap_or_default().into(),
        ),
        Kind::Enum(names) => {
            let named = names.iter().find(|(_, name)| *name == string());
            put_number(bytes, field.number, named.map_or(0, |(number, _)| *number));
        }
        Kind::Map => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let mut pair = Vec::new();
                put_bytes(&mut pair, 1, name.as_bytes());
                put_bytes(&mut pair, 2, value.as_str().unwrap_or_default().as_bytes());
                put_bytes(bytes, field.number, &pair);
            }
        }
        Kind::Time => {
            let at: Timestamp = string().parse().unwrap_or(Timestamp::UNIX_EPOCH);
            let mut time = Vec::new();
            put_number(&mut time, 1, at.as_second().cast_unsigned());
            let nanos = u64::try_from(at.subsec_nanosecond()).unwrap_or_default();
            put_number(&mut time, 2, nanos);
            put_bytes(bytes, field.number, &time);
        }
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 127 {
        bytes.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_number(bytes: &mut Vec<u8>, field: u32, number: u64) {
    put_varint(bytes, u64::from(field) << 3 | VARINT);
    put_varint(bytes, number);
}

fn put_bytes(bytes: &mut Vec<u8>, field: u32, piece: &[u8]) {
    put_varint(bytes, u64::from(field) << 3 | LENGTH);
    put_varint(bytes, piece.len() as u64);
    bytes.extend_from_slice(piece);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema;

    #[test]
    fn a_message_is_what_its_json_is() {
        let start = json!({
            "process": {"cmd": "/bin/bash", "args": ["-c", "ä"], "envs": {"A": "1", "B": ""}},
            "pty": {"size": {"cols": 80, "rows": 300}},
            "stdin": false,
        });
        let bytes = write(&start, schema::START);
        assert!(read(&bytes, schema::START).is_ok_and(|read| read == start));
        for end in 1..bytes.len() {
            // Whatever is cut off, nothing panics.
            let _ = read(&bytes[..end], schema::START);
        }
    }

    #[test]
    fn numbers_are_as_others_write_them() {
        let end = json!({"event": {"end": {"exitCode": -1, "exited": false, "status": "x"}}});
        let right = [10, 9, 26, 7, 8, 1, 16, 0, 26, 1, b'x'];
        assert_eq!(write(&end, schema::OUTPUT), right);
        let selected = [10, 3, 8, 0xac, 2];
        let read = read(&selected, schema::SELECTED).ok();
        assert_eq!(read, Some(json!({"process": {"pid": 300}})));
    }

    #[test]
    fn what_is_not_known_is_passed_over() {
        let bytes = [0x98, 6, 1, 10, 1, b'a', 0xa5, 6, 0, 0, 0, 0];
        assert_eq!(read(&bytes, schema::PATH).ok(), Some(json!({"path": "a"})));
        assert!(read(&[10, 9, b'a'], schema::PATH).is_err());
        assert!(read(&[10, 1, 0xff], schema::PATH).is_err());
    }
}
