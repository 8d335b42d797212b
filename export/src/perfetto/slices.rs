//! Calls and ranges as slices, on tracks on which they nest.
//!
//! On a track, an end closes what began last: it has room for slices that lie beside or within each other, and shows wrong times for others. A slice that
//! crosses another of its thread stands on a track of its own beside it.

use rsys_analysis::measure::packed_rows::{Finder, PackedRows};

use super::interned::HIP;
use super::message::{Correlation, Packet, TrackDescriptor, TrackEvent};
use super::records::{BEGIN, END, Submitted};
use super::{Trace, process_track, thread_track};
use crate::Failure;
use crate::calls::each_call;
use crate::rows::each;

/// Tracks beside those of processes and threads, numbered from here on.
const BESIDE: u64 = 1 << 62;

/// Slices after which their names are written, so that no packet holds those of a whole run.
const SLICES: u64 = 1 << 12;

/// Titles of tracks.
const CALLS: &str = "calls";
const RANGES: &str = "ranges";

/// Slices that are to be written: the track of its thread, or of its process if no thread is known; begin, and the time from the end to [`u64::MAX`]; how
/// many came before, its number among the names, what it shares with its operations (0: nothing), its place in [`CATEGORIES`].
type Slices = PackedRows<7>;

/// Whose calls they are, and what kind of range.
const CATEGORIES: [&str; 9] = [
    HIP_CALLS, "HSA", "RCCL", "MPI", "SHMEM", "UCX", "range", "operator", "function",
];
const HIP_CALLS: &str = "HIP";

/// The place of a category.
fn category(name: &str) -> u64 {
    let place = CATEGORIES.iter().position(|one| *one == name);
    place.unwrap_or(0) as u64
}

/// What is open on tracks that stand beside each other: ends, the innermost last.
#[derive(Default)]
struct Lanes(Vec<Vec<u64>>);

impl Lanes {
    /// The first of the tracks on which a slice nests. Slices come in the order of their begins, of equal ones the longest first.
    fn place(&mut self, start_ns: u64, end_ns: u64) -> usize {
        let has_room = |open: &mut Vec<u64>| {
            while open.pop_if(|ends_ns| *ends_ns <= start_ns).is_some() {}
            open.last().is_none_or(|ends_ns| *ends_ns >= end_ns)
        };
        let lane = match self.0.iter_mut().position(has_room) {
            Some(lane) => lane,
            None => {
                self.0.push(Vec::new());
                self.0.len() - 1
            }
        };
        self.0[lane].push(end_ns);
        lane
    }
}

/// The track of a thread, or of the process where none is known.
pub(super) fn owner_track(process: u64, thread: Option<u64>) -> u64 {
    thread.map_or(process_track(process), |tid| thread_track(process, tid))
}

impl Trace<'_> {
    /// Writes calls with the operations that they submitted, on tracks beside that of their thread.
    pub(super) fn calls(&mut self, submitted: &Submitted) -> Result<(), Failure> {
        let (mut slices, mut count): (Slices, u64) = (self.run.rows(), 0);
        each_call(self.run, |call| {
            slices.push([
                owner_track(call.process_id, call.thread),
                call.start_ns,
                u64::MAX - call.end_ns,
                count,
                self.interned.name(call.name.text()),
                call.correlation.unwrap_or(0),
                category(call.runtime),
            ]);
            count += 1;
            self.names_of(count)
        })?;
        self.slices(CALLS, slices, submitted)
    }

    /// Writes ranges, operators and recorded functions on the tracks of their threads.
    pub(super) fn ranges(&mut self) -> Result<(), Failure> {
        const COLUMNS: [&str; 6] = ["process_id", "thread", "kind", "name", "start_ns", "end_ns"];
        let run = self.run;
        let (mut slices, mut count): (Slices, u64) = (run.rows(), 0);
        each(run.view, "ranges", &COLUMNS, |row| {
            let (id, start_ns, end_ns) = (row.number(0), row.number(4), row.number(5));
            if run.during(id, start_ns, end_ns).is_none() {
                return Ok(());
            }
            slices.push([
                owner_track(id, row.known(1)),
                start_ns,
                u64::MAX - end_ns,
                count,
                self.interned.name(row.text(3)),
                0,
                category(match row.text(2) {
                    "operator" => "operator",
                    "function" => "function",
                    _ => "range",
                }),
            ]);
            count += 1;
            self.names_of(count)
        })?;
        self.slices(RANGES, slices, &PackedRows::default())
    }

    /// Writes the names of the last slices, now and then.
    fn names_of(&mut self, slices: u64) -> Result<(), Failure> {
        match slices % SLICES {
            0 => self.put(Packet::default()),
            _ => Ok(()),
        }
    }

    /// Writes slices. Viewers sort packets by their times; of equal ones those count first that stand first.
    fn slices(
        &mut self,
        title: &str,
        mut slices: Slices,
        submitted: &Submitted,
    ) -> Result<(), Failure> {
        slices.sort();
        let mut submitted = Finder::new(submitted);
        let (mut owner, mut lanes, mut tracks) = (0, Lanes::default(), Vec::new());
        for [of, start_ns, until_last_ns, _, name, correlation, category] in slices.iter() {
            let (end_ns, category) = (u64::MAX - until_last_ns, CATEGORIES[category as usize]);
            let process = (of >> 32).wrapping_sub(1);
            if of != owner {
                owner = of;
                (lanes, tracks) = (Lanes::default(), Vec::new());
                // Ranges stand on the track of the thread itself. That of a process is for what belongs to it as a whole.
                if title == RANGES && owner != process_track(process) {
                    tracks.push(owner);
                }
            }
            let lane = lanes.place(start_ns, end_ns);
            if lane == tracks.len() {
                self.tracks_beside += 1;
                tracks.push(BESIDE | self.tracks_beside);
                self.describe(TrackDescriptor {
                    uuid: tracks[lane],
                    parent_uuid: Some(owner),
                    name: Some(title.to_owned()),
                    ..TrackDescriptor::default()
                })?;
            }
            let track_uuid = tracks[lane];
            let submissions = operations_of(process, correlation, &mut submitted);
            let begin = TrackEvent {
                kind: BEGIN,
                name_iid: Some(name),
                track_uuid,
                categories: vec![category.to_owned()],
                gpu_api: (category == HIP_CALLS).then_some(HIP),
                gpu_correlation: (!submissions.is_empty()).then_some(Correlation { submissions }),
                ..TrackEvent::default()
            };
            let end = TrackEvent {
                kind: END,
                track_uuid,
                ..TrackEvent::default()
            };
            self.event(start_ns, begin)?;
            self.event(end_ns, end)?;
        }
        Ok(())
    }
}

/// The event ids of the operations that a call submitted.
fn operations_of(process: u64, correlation: u64, submitted: &mut Finder<'_, 3>) -> Vec<u64> {
    if correlation == 0 {
        return Vec::new();
    }
    let of_call = submitted.all([process, correlation]);
    of_call.map(|[.., event_id]| event_id).collect()
}

#[cfg(test)]
mod tests {
    use super::Lanes;

    /// The tracks of slices that come in this order.
    fn placed(slices: &[(u64, u64)]) -> Vec<usize> {
        let mut lanes = Lanes::default();
        let places = slices.iter();
        places
            .map(|&(start, end)| lanes.place(start, end))
            .collect()
    }

    #[test]
    fn slices_that_nest_share_a_track() {
        let nested = [
            (0, 100),
            (0, 100),
            (10, 50),
            (20, 20),
            (50, 100),
            (100, 200),
            (100, 100),
        ];
        assert_eq!(placed(&nested), [0; 7]);
    }

    #[test]
    fn slices_that_cross_stand_beside_each_other() {
        let crossing = [(0, 10), (5, 15), (6, 9), (8, 20), (10, 12), (15, 16)];
        assert_eq!(placed(&crossing), [0, 1, 0, 2, 0, 0]);
    }
}
