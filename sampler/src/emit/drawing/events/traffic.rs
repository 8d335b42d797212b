//! What a process has sent to others and received from them, as counters: by MPI.

use rsys_proto::{CounterValue, TrackSequence};
use rsys_wire::event::{Args, Key};

use crate::counters::{Counter, Unit};
use crate::emit::output::Output;

/// Both counters of a process.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: Sum,
    received: Sum,
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
    /// Takes in a call that begins.
    pub fn call(&mut self, time_ns: u64, args: Args<'_>) {
        if !args.has_any(&[Key::Sent, Key::Received]) {
            return;
        }
        for (key, value) in args {
            let sum = match key {
                Key::Sent => &mut self.sent,
                Key::Received => &mut self.received,
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
        self.sent.flush("MPI Comm Send", about, output);
        let about = "Bytes that calls of MPI were to get from other ranks, so far";
        self.received.flush("MPI Comm Recv", about, output);
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
