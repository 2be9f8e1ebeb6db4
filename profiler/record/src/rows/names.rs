//! The names of the columns of a type of rows.

use serde::{
    de::{DeserializeOwned, Deserializer, Visitor, value::Error},
    forward_to_deserialize_any,
};

/// The names of the fields of `T` in their order, as derived implementations of serde give them; none for a type that is no
/// struct.
pub(super) fn names_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names = Names(&[]);
    // The struct is not made: its names are known before its first field is asked for.
    let _ = T::deserialize(&mut names);
    names.0
}

struct Names(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut Names {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.0 = fields;
        Err(serde::de::Error::custom("only the names of the fields are asked for"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom("only a struct has names"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
