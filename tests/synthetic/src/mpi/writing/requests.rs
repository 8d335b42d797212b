//! Requests: calls that make them, and calls that wait for them.

use rsys_proto::{Annotation, Event, Name, PacketBuffer, Value, shared_flow};

use super::{EXCHANGES, Told, Writer};
use crate::mpi::program::Message;

/// A request that is open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    correlation: u64,
    is_send: bool,
    message: Message,
    number: Option<u64>,
}

impl Writer<'_> {
    /// A call that makes a request.
    pub(super) fn start(
        &mut self,
        out: &mut PacketBuffer,
        message: Message,
        is_send: bool,
        times: (u64, u64),
    ) {
        let (number, arrows, _) = self.side(message, is_send);
        self.correlation += 1;
        let correlation = self.correlation;
        let told = if is_send {
            let sides = (Some(message), None);
            self.told("MPI_Isend", sides, [number, None], arrows, correlation)
        } else {
            // The arrow of what it receives leads to what completes it.
            let sides = (None, Some(message));
            self.told("MPI_Irecv", sides, [None, number], Vec::new(), correlation)
        };
        self.call(out, &told, times);
        self.open.push(Request {
            correlation,
            is_send,
            message,
            number,
        });
    }

    /// A wait for the oldest request.
    pub(super) fn wait(&mut self, out: &mut PacketBuffer, times: (u64, u64)) {
        let request = self.open.remove(0);
        let told = Told {
            name: "MPI_Wait",
            annotations: Vec::new(),
            arrows: Vec::new(),
            correlation: request.correlation,
        };
        self.begin(out, times.0, &told);
        self.within(out, told.name, times, EXCHANGES);
        if !request.is_send && request.number.is_some() {
            self.completed(out, times.1 - 20, request, false);
        }
        self.end_of_wait(out, times.1, 1);
    }

    pub(super) fn waitall(&mut self, out: &mut PacketBuffer, times: (u64, u64)) {
        let requests = std::mem::take(&mut self.open);
        let told = Told {
            name: "MPI_Waitall",
            annotations: Vec::new(),
            arrows: Vec::new(),
            correlation: 0,
        };
        self.begin(out, times.0, &told);
        self.within(out, told.name, times, EXCHANGES);
        let count = requests.len() as u64;
        for request in requests {
            self.completed(out, times.1 - 20, request, true);
        }
        self.end_of_wait(out, times.1, count);
    }

    fn end_of_wait(&mut self, out: &mut PacketBuffer, at_ns: u64, count: u64) {
        let completed = Annotation::new(out.intern("completed"), Value::Uint(count));
        let some = (count > 0).then_some(completed);
        self.pen.end_with(out, at_ns, some.as_slice());
    }

    /// The mark of a request that is done.
    fn completed(
        &mut self,
        out: &mut PacketBuffer,
        at_ns: u64,
        request: Request,
        has_correlation: bool,
    ) {
        let Request {
            message, number, ..
        } = request;
        let name = if request.is_send {
            "MPI_Isend"
        } else {
            "MPI_Irecv"
        };
        let mut annotations = vec![("operation", Value::Text(name))];
        let mut arrows = Vec::new();
        if let Some(number) = number.filter(|_| !request.is_send) {
            let communicator = self.communicator(message.communicator);
            let (own, peer) = (
                communicator.number(self.rank),
                communicator.number(message.peer),
            );
            annotations.extend([
                ("rank", Value::Uint(own)),
                ("peer", Value::Uint(peer)),
                ("received_tag", Value::Uint(message.tag)),
                ("received_message", Value::Uint(number)),
                ("communicator", Value::Uint(message.communicator as u64)),
            ]);
            let text = self.names[message.communicator].as_bytes();
            arrows.push(shared_flow(text, &[peer, own, message.tag, number]));
        }
        let told = Told {
            name: "completed",
            annotations,
            arrows,
            correlation: if has_correlation {
                request.correlation
            } else {
                0
            },
        };
        let annotations = self.annotations(out, &told);
        let flows = self.flows(&told);
        let event = Event {
            name: Name::Interned(out.intern(told.name)),
            category: Some(out.intern("mpi")),
            flows: &flows,
            annotations: &annotations,
            ..Event::default()
        };
        self.pen.mark(out, at_ns, &event);
    }
}
