//! Which call submitted an operation, for the operations of one process.

use super::ids::CorrelationId;
use crate::containers::packed_rows::{PackedRows, Row};
use rsys_traces::model::{HostSlice, TextId, ThreadId};

/// The call that submitted an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Submission {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) thread: ThreadId,
    pub(crate) name: TextId,
    /// See [`HostSlice::stream`].
    pub(crate) stream: u64,
}

/// Calls that may have submitted something, at some ten bytes each; in no order until [`Submissions::sort`].
#[derive(Debug, Default)]
pub(crate) struct Submissions(PackedRows<6>);

impl Submissions {
    /// Takes in a slice, if it is a call of a runtime that operations may name.
    pub(crate) fn take(&mut self, slice: &HostSlice) {
        if let Some(id) = CorrelationId::of_call(slice) {
            let duration_ns = slice.end_ns - slice.start_ns;
            let (thread, name) = (slice.thread.index() as u64, slice.name.index() as u64);
            let (id, start_ns, stream) = (id.number(), slice.start_ns, slice.stream);
            self.0
                .push([id, start_ns, duration_ns, thread, name, stream]);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Puts calls in order. Of several with one id that overlap, as a call and those that it makes itself, the first counts. Ids may begin anew: whatever comes behind a call in its
    /// thread, or in another in a call of that name, is another call.
    pub(crate) fn sort(&mut self) {
        let mut last = [0; 6];
        self.0.settle(|row| {
            let [id, start_ns, _, thread, name, _] = *row;
            let begins_anew =
                start_ns >= last[1] + last[2] && (thread == last[3] || name == last[4]);
            let stays = id != last[0] || begins_anew;
            if stays {
                last = *row;
            }
            stays
        });
    }

    /// Once sorted: keeps those that `keep` is true for, by their ids.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(CorrelationId, &Submission) -> bool) {
        self.0.settle(|row| {
            let id = CorrelationId::new(row[0]);
            id.is_some_and(|id| keep(id, &submission(*row)))
        });
    }

    /// Once sorted: all, by their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Submission> {
        self.0.iter().map(submission)
    }

    /// Once sorted: the call that submitted an operation that began at a time: the last with its id before that. Clocks may be a little apart: where there is none, the first.
    pub(crate) fn find(&self, id: CorrelationId, begin_ns: u64) -> Option<Submission> {
        let id = id.number();
        let behind = self
            .0
            .partition_point(|row| (row[0], row[1]) <= (id, begin_ns));
        let last = behind.checked_sub(1).into_iter();
        let mut rows = last.chain([behind]).filter_map(|at| self.0.get(at));
        rows.find(|row| row[0] == id).map(submission)
    }
}

fn submission([_, start_ns, duration_ns, thread, name, stream]: Row<6>) -> Submission {
    Submission {
        start_ns,
        end_ns: start_ns + duration_ns,
        thread: ThreadId::new(thread as usize),
        name: TextId::at(name as usize),
        stream,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::HostKind;

    #[test]
    fn an_id_that_comes_again_is_that_of_the_last_call_before() {
        let mut submissions = Submissions::default();
        // A call and one within it have one id; then it begins anew. The last one is no call of a runtime.
        for (span, kind) in [
            ((300, 310), HostKind::Runtime),
            ((100, 140), HostKind::Runtime),
            ((110, 120), HostKind::Hsa),
            ((400, 410), HostKind::Range),
        ] {
            submissions.take(&HostSlice {
                start_ns: span.0,
                end_ns: span.1,
                kind,
                link: 7,
                thread: ThreadId::new(1),
                ..HostSlice::default()
            });
        }
        submissions.sort();
        let find = |link, begin_ns| {
            let found = submissions.find(CorrelationId::new(link)?, begin_ns);
            found.map(|call| call.start_ns)
        };
        let found = [50, 115, 299, 300, 999].map(|begin_ns| find(7, begin_ns));
        assert_eq!(found, [100, 100, 100, 300, 300].map(Some));
        assert_eq!([find(0, 999), find(6, 999), find(8, 999)], [None; 3]);
    }
}
