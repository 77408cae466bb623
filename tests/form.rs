//! Every key and every choice of a file form, asked of its own `Deserialize`: a deserializer that answers each question
//! with some value and notes what was asked. The unit tests of the crates with file forms hold their pages of keys to it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::value::{BorrowedStrDeserializer, Error};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// What the form knows, each with the dotted table that it stands in.
#[derive(Debug, Default)]
pub(crate) struct Form {
    pub(crate) keys: BTreeSet<(String, &'static str)>,
    pub(crate) words: BTreeSet<(String, &'static str)>,
    /// For each place with a choice, how many variants there are and how often one was taken: they are taken in turn, so
    /// that choices inside a variant get their turns as well.
    choices: BTreeMap<String, (usize, usize)>,
}

impl Form {
    /// Walks through forms, each by [`walk`], until every variant of every choice has been taken.
    pub(crate) fn of(walks: &[fn(Place<'_>)]) -> Self {
        let form = RefCell::new(Self::default());
        loop {
            for walk in walks {
                walk(Place { form: &form, table: String::new() });
            }
            if form.borrow().choices.values().all(|(variants, taken)| taken >= variants) {
                return form.into_inner();
            }
        }
    }
}

/// Reads the form once.
pub(crate) fn walk<File: DeserializeOwned>(top: Place<'_>) {
    File::deserialize(top).map(drop).expect("any answer is one of its type");
}

/// One place of the form.
#[derive(Clone)]
pub(crate) struct Place<'form> {
    form: &'form RefCell<Form>,
    table: String,
}

impl Place<'_> {
    fn below(&self, key: &str) -> Self {
        let table = if self.table.is_empty() { key.to_owned() } else { format!("{}.{key}", self.table) };
        Self { form: self.form, table }
    }
}

impl<'de> Deserializer<'de> for Place<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(1)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("x")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("x")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(1, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Items { place: self, left: length })
    }

    /// A table whose keys are anybody's: one of them, `*`.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { place: self, is_spanned: false, keys: ["*"].iter(), key: "" })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        // A value with its place in the text asks for three fields under a name of its own; it is no table.
        let is_spanned = name.starts_with("$__serde_spanned");
        if !is_spanned {
            self.form.borrow_mut().keys.extend(keys.iter().map(|key| (self.table.clone(), *key)));
        }
        visitor.visit_map(Fields { place: self, is_spanned, keys: keys.iter(), key: "" })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let taken = {
            let mut form = self.form.borrow_mut();
            let (_, turns) = form.choices.entry(self.table.clone()).or_insert((variants.len(), 0));
            *turns += 1;
            variants[(*turns - 1) % variants.len()]
        };
        visitor.visit_enum(Choice { place: self, taken })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple_struct
        identifier ignored_any
    }
}

struct Items<'form> {
    place: Place<'form>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(self.place.clone()).map(Some)
    }
}

struct Fields<'form> {
    place: Place<'form>,
    is_spanned: bool,
    keys: std::slice::Iter<'static, &'static str>,
    key: &'static str,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(key) = self.keys.next() else { return Ok(None) };
        self.key = key;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(if self.is_spanned { self.place.clone() } else { self.place.below(self.key) })
    }
}

struct Choice<'form> {
    place: Place<'form>,
    taken: &'static str,
}

impl<'de> EnumAccess<'de> for Choice<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        Ok((seed.deserialize(BorrowedStrDeserializer::new(self.taken))?, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = Error;

    /// A word.
    fn unit_variant(self) -> Result<(), Error> {
        self.place.form.borrow_mut().words.insert((self.place.table, self.taken));
        Ok(())
    }

    /// One key of a table with exactly one.
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        self.place.form.borrow_mut().keys.insert((self.place.table.clone(), self.taken));
        seed.deserialize(self.place.below(self.taken))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.place.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, keys: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.place.below(self.taken).deserialize_struct("", keys, visitor)
    }
}
