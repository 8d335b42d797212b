//! What the host sends and receives.

use std::sync::Arc;

use crate::counters::{Gauge, Group, Rate, Reading, Unit};
use crate::monitors::file::KeptFile;
use crate::monitors::numbers::{lines, numbers};

/// Traffic of all interfaces but the one to the host itself.
#[derive(Debug)]
pub(super) struct Network {
    file: KeptFile,
    received: (Rate, Gauge),
    sent: (Rate, Gauge),
}

impl Network {
    pub(super) fn new(file: KeptFile, group: &Arc<Group>) -> Self {
        let gauge = |name, text| {
            let unit = Unit::Named("B/s");
            (Rate::default(), Gauge::new(name, unit, Some(group), text))
        };
        Self {
            file,
            received: gauge(
                "Host Network Received (S)",
                "Bytes per second that all interfaces received",
            ),
            sent: gauge(
                "Host Network Sent (S)",
                "Bytes per second that all interfaces sent",
            ),
        }
    }

    pub(super) fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        let text = self.file.read(scratch).unwrap_or_default();
        let (mut received, mut sent) = (0, 0);
        // Two lines of headings; then name, eight numbers of what was received, eight of what was
        // sent.
        for line in lines(text).skip(2) {
            let mut halves = line.splitn(2, |byte| *byte == b':');
            let (Some(name), Some(fields)) = (halves.next(), halves.next()) else {
                continue;
            };
            if name.trim_ascii() == b"lo" {
                continue;
            }
            let mut fields = numbers(fields);
            received += fields.next().unwrap_or(0);
            sent += fields.nth(7).unwrap_or(0);
        }
        for ((rate, gauge), bytes) in [(&mut self.received, received), (&mut self.sent, sent)] {
            if let Some(value) = rate.per_second(time_ns, bytes) {
                gauge.set(time_ns, value.round(), out);
            }
        }
    }
}
