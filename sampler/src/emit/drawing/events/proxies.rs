//! What RCCL's proxies did: a group of tracks for each communicator, and in it a track for each channel, direction and peer, with one of the
//! steps beneath. What a step waited for is drawn within it, one after another.

use rsys_proto::hashing::FastMap;
use rsys_proto::{Event as Drawn, EventKind, Name, StringId, TrackSequence};
use rsys_wire::event::{Args, Category, Key, Read};

use super::EventWriter;
use super::args::Annotations;
use super::lanes::Lanes;

/// The parts of a step in their order: of one that sends, and of one that receives.
const SENDS: [(Key, &str); 3] = [
    (Key::GpuWaitNs, "wait for GPU"),
    (Key::PeerWaitNs, "wait for peer"),
    (Key::NetworkNs, "network"),
];
const RECEIVES: [(Key, &str); 3] = [
    (Key::NetworkNs, "wait for data"),
    (Key::FlushNs, "flush"),
    (Key::GpuWaitNs, "wait for GPU"),
];

/// A track's name, and the communicator whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Line {
    communicator: u64,
    rank: u64,
    channel: u64,
    /// Less than 0 where the library names none.
    peer: i64,
    is_send: bool,
    is_step: bool,
}

/// The rows of a line: what overlaps goes to another.
#[derive(Debug)]
struct Rows {
    parent: u64,
    title: String,
    lanes: Lanes,
    tracks: Vec<TrackSequence>,
}

/// All that the proxies of a process did.
#[derive(Debug, Default)]
pub struct Proxies {
    groups: FastMap<(u64, u64), u64>,
    lines: FastMap<Line, Rows>,
    annotations: Annotations,
}

/// The key of a text that was recorded, or 0.
fn known(args: Args<'_>, key: Key) -> u64 {
    match args.get(key) {
        Some(Read::Known(text)) => text,
        _ => 0,
    }
}

fn number(args: Args<'_>, key: Key) -> u64 {
    match args.get(key) {
        Some(Read::Int(number)) => u64::try_from(number).unwrap_or_default(),
        _ => args.number(key).unwrap_or_default(),
    }
}

fn peer(args: Args<'_>) -> i64 {
    match args.get(Key::Peer) {
        Some(Read::Int(peer)) => peer,
        _ => i64::try_from(number(args, Key::Peer)).unwrap_or(-1),
    }
}

impl Line {
    /// What its tracks are called.
    fn title(&self) -> String {
        let (way, to) = match self.is_send {
            true => ("send", "to"),
            false => ("receive", "from"),
        };
        let steps = if self.is_step { " · steps" } else { "" };
        match self.peer {
            0.. => format!("channel {} · {way} {to} {}{steps}", self.channel, self.peer),
            _ => format!("channel {} · {way}{steps}", self.channel),
        }
    }
}

impl Proxies {
    /// Draws an operation or a step.
    pub fn draw(
        &mut self,
        times: [u64; 2],
        (category, name): (Category, u64),
        args: Args<'_>,
        pen: &mut EventWriter<'_>,
    ) {
        let Some((begin_ns, end_ns)) = pen.kept_part(times) else {
            return;
        };
        pen.tally.ranges += 1;
        let is_send = pen.known.text(known(args, Key::Direction)) == Some("send");
        let line = Line {
            communicator: known(args, Key::Communicator),
            rank: number(args, Key::Rank),
            channel: number(args, Key::Channel),
            peer: peer(args),
            is_send,
            is_step: args.get(Key::Index).is_some(),
        };
        let is_step = line.is_step;
        let rows = rows(&mut self.groups, &mut self.lines, line, args, pen);
        let row = rows.lanes.place(begin_ns, end_ns);
        while rows.tracks.len() <= row {
            let track = pen.output.child_track(rows.parent, &rows.title, None);
            rows.tracks.push(track);
        }
        let track = &mut rows.tracks[row];
        self.annotations.clear();
        self.annotations.add(args, pen.known, pen.output);
        let category = pen.output.call_category(category);
        let name = pen
            .output
            .event_text(pen.known, name)
            .map_or(Name::Once("?"), Name::Interned);
        let event = Drawn {
            name,
            category: Some(category),
            annotations: &self.annotations.list(),
            ..Drawn::default()
        };
        track.event(pen.output.buffer(), begin_ns, EventKind::SliceBegin, &event);
        if is_step {
            let parts = if is_send { SENDS } else { RECEIVES };
            draw_parts(track, [begin_ns, end_ns], &parts, category, args, pen);
        }
        track.slice_end(pen.output.buffer(), end_ns);
    }
}

/// Draws what a step waited for, within its slice.
fn draw_parts(
    track: &mut TrackSequence,
    [begin_ns, end_ns]: [u64; 2],
    parts: &[(Key, &str)],
    category: StringId,
    args: Args<'_>,
    pen: &mut EventWriter<'_>,
) {
    let mut from_ns = begin_ns;
    for (key, title) in parts {
        let waited_ns = args.number(*key).unwrap_or_default();
        let until_ns = from_ns.saturating_add(waited_ns).min(end_ns);
        if until_ns <= from_ns {
            continue;
        }
        let out = pen.output.buffer();
        let event = Drawn {
            name: Name::Interned(out.intern(title)),
            category: Some(category),
            ..Drawn::default()
        };
        track.event(out, from_ns, EventKind::SliceBegin, &event);
        track.slice_end(out, until_ns);
        from_ns = until_ns;
    }
}

/// The rows of a line, whose group is made first if it is new.
fn rows<'a>(
    groups: &mut FastMap<(u64, u64), u64>,
    lines: &'a mut FastMap<Line, Rows>,
    line: Line,
    args: Args<'_>,
    pen: &mut EventWriter<'_>,
) -> &'a mut Rows {
    let group = (line.communicator, line.rank);
    let parent = *groups.entry(group).or_insert_with(|| {
        let name = pen.known.text(line.communicator).unwrap_or("?");
        let rank = match (args.get(Key::Rank), args.get(Key::Ranks)) {
            (Some(_), Some(_)) => format!(
                " · rank {} of {}",
                line.rank,
                number(args, Key::Ranks)
            ),
            _ => String::new(),
        };
        let title = format!("RCCL proxies · {name}{rank}");
        let about = "What the library's threads did to move data through the network, by communicator, channel and peer";
        let process = pen.output.process_track();
        pen.output.child_track(process, &title, Some(about)).track()
    });
    lines.entry(line).or_insert_with_key(|line| Rows {
        parent,
        title: line.title(),
        lanes: Lanes::default(),
        tracks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_names_its_peer_if_there_is_one() {
        let title = |peer, is_send, is_step| {
            Line {
                communicator: 0,
                rank: 0,
                channel: 3,
                peer,
                is_send,
                is_step,
            }
            .title()
        };
        assert_eq!(title(0, true, false), "channel 3 · send to 0");
        assert_eq!(title(7, false, true), "channel 3 · receive from 7 · steps");
        assert_eq!(title(-1, true, true), "channel 3 · send · steps");
        assert_eq!(title(-1, false, false), "channel 3 · receive");
    }
}
