//! What numbers of planes stand for: names of events and of their properties, which stand behind the events.

use std::collections::HashMap;
use std::io::Read;

use rsys_proto::message::Fields;

use super::field;
use super::stream::{Stream, Value};

/// Everything that has a number.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) planes: Vec<Plane>,
    /// The host's name.
    pub(super) host: String,
}

/// What a plane is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum PlaneKind {
    Gpu(u32),
    /// Calls of the runtime of GPUs.
    Calls,
    Host,
    /// Another processor, which is not read.
    Accelerator,
    #[default]
    Other,
}

/// A plane.
#[derive(Debug, Default)]
pub(super) struct Plane {
    pub(super) kind: PlaneKind,
    pub(super) events: HashMap<u64, EventName>,
    /// Names of properties, and texts that properties have by number.
    pub(super) stats: HashMap<u64, String>,
}

/// The name of an event, and the properties that all events of the name have.
#[derive(Debug, Default)]
pub(super) struct EventName {
    pub(super) name: String,
    pub(super) stats: Vec<u8>,
}

impl PlaneKind {
    fn of(name: &str) -> Self {
        match name {
            "/host:CPU" => Self::Host,
            "/host:CUPTI" | "/host:ROCTRACER" => Self::Calls,
            _ => match name.rsplit_once("/device:GPU:") {
                // Behind the number may stand the name of the model.
                Some((_, rest)) => {
                    let digits = rest.split(|one: char| !one.is_ascii_digit()).next();
                    let ordinal = digits.and_then(|digits| digits.parse().ok());
                    ordinal.map_or(Self::Other, Self::Gpu)
                }
                None if name.contains("/device:") => Self::Accelerator,
                None => Self::Other,
            },
        }
    }
}

/// The number and the text of field 2 of an entry of a map, whose value is a message.
fn entry(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut id, mut value) = (0, None);
    for field in Fields::new(bytes).flatten() {
        match field.number {
            1 => id = field.value.number(),
            2 => value = Some(field.value.bytes()),
            _ => {}
        }
    }
    Some((id, value?))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Plane {
    fn event_name(&mut self, bytes: &[u8]) {
        const NAME: u32 = 2;
        const DISPLAY_NAME: u32 = 4;
        const STATS: u32 = 5;
        let Some((id, about)) = entry(bytes) else {
            return;
        };
        let (mut name, mut shown, mut stats) = (String::new(), String::new(), Vec::new());
        for field in Fields::new(about).flatten() {
            match field.number {
                NAME => name = text(field.value.bytes()),
                DISPLAY_NAME => shown = text(field.value.bytes()),
                // Kept as they are: a field 4, as events have it.
                STATS => rsys_proto::message::put_bytes(&mut stats, 4, field.value.bytes()),
                _ => {}
            }
        }
        if name.is_empty() {
            name = shown;
        }
        self.events.insert(id, EventName { name, stats });
    }

    fn stat_name(&mut self, bytes: &[u8]) {
        const NAME: u32 = 2;
        let Some((id, about)) = entry(bytes) else {
            return;
        };
        let mut fields = Fields::new(about).flatten();
        let name = fields.find(|field| field.number == NAME);
        let name = name.map(|field| text(field.value.bytes()));
        self.stats.insert(id, name.unwrap_or_default());
    }
}

impl Names {
    /// Reads a file, all but its lines.
    pub(super) fn of(mut stream: Stream<impl Read>) -> Self {
        let mut names = Self::default();
        // What is torn ends it; it is told when the events are read.
        while names.step(&mut stream).is_some() {}
        names
    }

    fn step(&mut self, stream: &mut Stream<impl Read>) -> Option<()> {
        match stream.field()? {
            (field::PLANES, Value::Length(length)) => {
                let end = stream.position() + length;
                self.planes.push(Plane::default());
                while stream.position() < end {
                    self.field_of_plane(stream)?;
                }
            }
            (field::HOST_NAMES, Value::Length(length)) => {
                let name = text(stream.take(length)?);
                if self.host.is_empty() {
                    self.host = name;
                }
            }
            (_, Value::Length(length)) => stream.skip(length)?,
            (_, Value::Number(_)) => {}
        }
        Some(())
    }

    fn field_of_plane(&mut self, stream: &mut Stream<impl Read>) -> Option<()> {
        let (number, Value::Length(length)) = stream.field()? else {
            return Some(());
        };
        let plane = self.planes.last_mut()?;
        match number {
            field::PLANE_NAME => plane.kind = PlaneKind::of(&text(stream.take(length)?)),
            field::PLANE_EVENT_NAMES => plane.event_name(stream.take(length)?),
            field::PLANE_STAT_NAMES => plane.stat_name(stream.take(length)?),
            _ => stream.skip(length)?,
        }
        Some(())
    }
}
