//! Objects inside requests, taken from objects only.
//!
//! Serde would take the fields of a struct from an array too, and from an empty one where all of them
//! may be left out: a mistake that would go unnoticed.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// An object or null.
pub(crate) fn or_null<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_any(Only(PhantomData))
}

/// A value that is not null: for a field that may be left out, where null could be taken to clear it.
pub(crate) fn not_null<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    match Option::deserialize(from)? {
        Some(value) => Ok(Some(value)),
        None => Err(Error::invalid_type(Unexpected::Unit, &"a value")),
    }
}

/// An object, not null.
pub(crate) fn only<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    match or_null(from)? {
        Some(object) => Ok(Some(object)),
        None => Err(Error::invalid_type(Unexpected::Unit, &"an object")),
    }
}

struct Only<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Only<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}
