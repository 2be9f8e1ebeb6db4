//! Reads the events of a turn: a list, or the single event of a journal of an earlier version.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{
        Error, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer},
    },
};

use super::ClusterEvent;

pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ClusterEvent>, D::Error> {
    deserializer.deserialize_any(OneOrSeveral)
}

/// An event with fields is a map, and one without is a string.
struct OneOrSeveral;

impl<'de> Visitor<'de> for OneOrSeveral {
    type Value = Vec<ClusterEvent>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events, or one event")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, events: A) -> Result<Vec<ClusterEvent>, A::Error> {
        let events = Vec::deserialize(SeqAccessDeserializer::new(events))?;
        if events.is_empty() { Err(A::Error::custom("a turn without an event")) } else { Ok(events) }
    }

    fn visit_map<A: MapAccess<'de>>(self, event: A) -> Result<Vec<ClusterEvent>, A::Error> {
        ClusterEvent::deserialize(MapAccessDeserializer::new(event)).map(|event| vec![event])
    }

    fn visit_str<E: Error>(self, event: &str) -> Result<Vec<ClusterEvent>, E> {
        ClusterEvent::deserialize(StrDeserializer::new(event)).map(|event| vec![event])
    }
}
