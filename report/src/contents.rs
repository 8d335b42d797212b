//! What is in a trace, by number, and which slices are open at its end.

use std::collections::BTreeMap;

use rsys_proto::message::Torn;
use rsys_traces::perfetto::{Decoder, EventKind, TrackIndex, sample_time_base};

/// The time bases of samples that are counted elsewhere, as `rsys-sample` names them.
const OTHER_TIMES: [&[u8]; 3] = [b"waiting-time ns", b"gpu-time ns", b"call-time ns"];

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Contents {
    decoder: Decoder,
    /// Whether the samples of a sequence stand for other time than that of the CPU.
    is_other_time: Vec<bool>,
    /// Open slices, by track.
    open: Vec<u64>,
    /// Samples of CPU time, or of an event; not those that stand for time that was waited, or spent on GPUs or in calls.
    pub samples: u64,
    /// Slices that were begun.
    pub slices: u64,
}

impl Contents {
    /// Takes in a packet; packets come in file order.
    ///
    /// # Errors
    /// When a field of it is torn.
    pub fn packet(&mut self, encoded: &[u8]) -> Result<(), Torn> {
        let event = self.decoder.packet(encoded)?;
        let sequence = event.sequence.index();
        if let Some(defaults) = event.head.defaults {
            let base = sample_time_base(defaults).unwrap_or_default();
            *entry(&mut self.is_other_time, sequence) = OTHER_TIMES.contains(&base);
        }
        match event.kind {
            EventKind::Begin(track, _) => {
                *self.open(track) += 1;
                self.slices += 1;
            }
            EventKind::End(track, _) => {
                let open = self.open(track);
                *open = open.saturating_sub(1);
            }
            EventKind::Sample(_) => {
                let is_other_time = *entry(&mut self.is_other_time, sequence);
                self.samples += u64::from(!is_other_time);
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, track: TrackIndex) -> &mut u64 {
        entry(&mut self.open, track.index())
    }

    /// How many slices are open on each track that has any, by the uuid of the track.
    #[must_use]
    pub fn open_slices(&self) -> BTreeMap<u64, u64> {
        let tracks = self.decoder.tracks.iter().zip(&self.open);
        tracks
            .filter(|(_, open)| **open > 0)
            .map(|(track, open)| (track.uuid, *open))
            .collect()
    }

    /// The latest time, as BOOTTIME.
    #[must_use]
    pub fn last_ns(&self) -> u64 {
        self.decoder.last_ns
    }

    /// The largest sequence id.
    #[must_use]
    pub fn last_sequence(&self) -> u32 {
        self.decoder.last_sequence
    }
}

fn entry<T: Default>(table: &mut Vec<T>, index: usize) -> &mut T {
    if index >= table.len() {
        table.resize_with(index + 1, T::default);
    }
    &mut table[index]
}
