//! What a trace of rsys says about itself: the instants `rsys start` and `rsys end`.

use std::collections::BTreeMap;

use prost::Message;
use rsys_proto::fields::{event, packet};
use rsys_proto::message::{Fields, Value};
use rsys_proto::resolve::Resolver;
use rsys_proto::schema::{self, TracePacket};

/// Name of the instant at the start of a trace.
pub const START: &str = "rsys start";
/// Name of the instant at the end of a finished trace.
pub const END: &str = "rsys end";
/// Name of the instant at the end of a file where the trace goes on in another.
pub const PART_END: &str = "rsys part ends";
/// Name of the instant of a merged trace.
pub const MERGED: &str = "rsys merged";
/// Name of the instant in a trace that was finished afterwards.
pub const RECOVERED: &str = "rsys recovered";

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// Text.
    Text(String),
    /// A number of things.
    Count(u64),
    /// A measured number.
    Number(f64),
}

/// Keys and values of one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts(pub BTreeMap<String, Datum>);

impl Facts {
    /// The text under a key; empty if there is none.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        match self.0.get(key) {
            Some(Datum::Text(text)) => text,
            _ => "",
        }
    }

    /// The number under a key.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u64> {
        match self.0.get(key)? {
            Datum::Count(count) => Some(*count),
            Datum::Number(number) if *number >= 0.0 => Some(*number as u64),
            Datum::Number(_) => None,
            Datum::Text(text) => text.parse().ok(),
        }
    }

    /// The measured number under a key.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.0.get(key)? {
            Datum::Count(count) => Some(*count as f64),
            Datum::Number(number) => Some(*number),
            Datum::Text(_) => None,
        }
    }
}

/// Finds the instants among the packets of a trace.
#[derive(Debug, Default)]
pub struct MetadataReader {
    resolver: Resolver,
    /// Processes that began: several in a trace of short ones.
    pub starts: u64,
    /// Processes that ended.
    pub ends: u64,
    /// At the start.
    pub start: Option<Facts>,
    /// At the end.
    pub end: Option<Facts>,
    /// Where the trace goes on in another file.
    pub part_end: Option<Facts>,
    /// In a trace that was made by merging.
    pub merged: Option<Facts>,
    /// In a trace that was finished afterwards.
    pub recovered: Option<Facts>,
}

impl MetadataReader {
    /// Takes in a packet; whether it held one of the instants.
    pub fn packet(&mut self, encoded: &[u8]) -> bool {
        if !is_metadata(encoded) {
            return false;
        }
        let Ok(mut packet) = TracePacket::decode(encoded) else {
            return false;
        };
        // The names of the keys come with the events that use them first.
        self.resolver.observe(&mut packet);
        let Some(event) = &packet.track_event else {
            return false;
        };
        let facts = self.facts(&packet, event);
        let place = match event.name.as_deref() {
            Some(START) => {
                self.starts += 1;
                &mut self.start
            }
            Some(END) => {
                self.ends += 1;
                &mut self.end
            }
            Some(PART_END) => &mut self.part_end,
            Some(MERGED) => &mut self.merged,
            Some(RECOVERED) => &mut self.recovered,
            _ => return false,
        };
        *place = Some(facts);
        true
    }

    fn facts(&self, packet: &TracePacket, event: &schema::TrackEvent) -> Facts {
        let Some(sequence) = self.resolver.sequence(packet) else {
            return Facts::default();
        };
        let value = |one: &schema::DebugAnnotation| {
            let text = sequence.annotation_text(one).map(str::to_owned);
            let count = one
                .uint_value
                .or_else(|| one.int_value.and_then(|value| u64::try_from(value).ok()));
            text.map(Datum::Text)
                .or(count.map(Datum::Count))
                .or(one.double_value.map(Datum::Number))
        };
        let entries = event.debug_annotations.iter().filter_map(|one| {
            let key = sequence.annotation_name(one).to_owned();
            Some((key, value(one)?))
        });
        Facts(entries.collect())
    }
}

/// Whether the packet is an instant with one of our names, which are always written out.
fn is_metadata(encoded: &[u8]) -> bool {
    Fields::new(encoded).flatten().any(|field| {
        field.number == packet::TRACK_EVENT
            && Fields::new(field.value.bytes()).flatten().any(|field| {
                matches!((field.number, field.value), (event::NAME, Value::Bytes(name)) if name.starts_with(b"rsys "))
            })
    })
}
