//! What a process has sent to others and received from them, as counters: by MPI and by OpenSHMEM.

use rsys_proto::{CounterValue, TrackSequence};
use rsys_wire::event::{Args, Category, Key};

use crate::counters::{Counter, Unit};
use crate::emit::output::Output;

/// The counters of a process.
#[derive(Debug, Default)]
pub struct Traffic {
    mpi: [Sum; 2],
    shmem: [Sum; 2],
}

/// One counter: bytes so far.
#[derive(Debug, Default)]
struct Sum {
    bytes: u64,
    track: Option<TrackSequence>,
    last_ns: u64,
    /// What is not in the trace yet: when, and how much.
    new: Vec<(u64, u64)>,
}

impl Traffic {
    /// Takes in a call that begins or ends.
    pub fn call(&mut self, time_ns: u64, category: Category, args: Args<'_>) {
        let [sent, received] = match category {
            Category::Mpi => &mut self.mpi,
            Category::Shmem => &mut self.shmem,
            _ => return,
        };
        if !args.has_any(&[Key::Sent, Key::Received]) {
            return;
        }
        for (key, value) in args {
            let sum = match key {
                Key::Sent => &mut *sent,
                Key::Received => &mut *received,
                _ => continue,
            };
            if let rsys_wire::event::Read::Uint(bytes) = value {
                sum.new.push((time_ns, bytes));
            }
        }
    }

    /// Writes the values of a batch.
    pub fn flush(&mut self, output: &mut Output) {
        let about = "Bytes that calls of MPI gave to other ranks, so far";
        self.mpi[0].flush("MPI Comm Send", about, output);
        let about = "Bytes that calls of MPI were to get from other ranks, so far";
        self.mpi[1].flush("MPI Comm Recv", about, output);
        let about =
            "Bytes that puts, atomics and collectives of OpenSHMEM gave to other PEs, so far";
        self.shmem[0].flush("SHMEM Comm Send", about, output);
        let about =
            "Bytes that gets, atomics and collectives of OpenSHMEM got from other PEs, so far";
        self.shmem[1].flush("SHMEM Comm Recv", about, output);
    }
}

impl Sum {
    fn flush(&mut self, name: &str, about: &str, output: &mut Output) {
        if self.new.is_empty() {
            return;
        }
        // The threads of a batch stand one behind the other.
        self.new.sort_unstable();
        let track = self.track.get_or_insert_with(|| {
            output.counter_track(&Counter::new(name, Unit::Bytes, None, about))
        });
        for (time_ns, bytes) in self.new.drain(..) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.last_ns = self.last_ns.max(time_ns);
            let value = CounterValue::Int(self.bytes.cast_signed());
            track.counter(output.buffer(), self.last_ns, value);
        }
    }
}
