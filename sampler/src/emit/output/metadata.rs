//! What a trace says about itself: two instants on a track named `rsys`.

use rsys_proto::{Annotation, Event, EventKind, Name, PacketBuffer, TrackSequence, Value};

use crate::emit::account::{AgentCounts, COUNTER_NAMES, Coverage, End, Stops, Tally};
use crate::identity::Identity;
use crate::launch::ending::Ending;
use crate::os;
use crate::run::RunContext;

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

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Datum::Text(text.to_owned())
    }
}

impl From<String> for Datum {
    fn from(text: String) -> Self {
        Datum::Text(text)
    }
}

impl From<u64> for Datum {
    fn from(count: u64) -> Self {
        Datum::Count(count)
    }
}

impl From<f64> for Datum {
    fn from(number: f64) -> Self {
        Datum::Number(number)
    }
}

/// Keys and values of one instant.
pub type Data = Vec<(String, Datum)>;

fn put(data: &mut Data, key: impl Into<String>, value: impl Into<Datum>) {
    data.push((key.into(), value.into()));
}

/// What is known when the trace begins.
#[must_use]
pub fn at_start(identity: &Identity, run: &RunContext) -> Data {
    let mut data = Data::new();
    put(&mut data, "version", env!("CARGO_PKG_VERSION"));
    put(&mut data, "command_line", identity.command_line.join(" "));
    put(&mut data, "executable", identity.executable.as_str());
    put(&mut data, "frequency_hz", run.frequency_hz);
    put(&mut data, "clock", identity.clock.as_str());
    if let Some(realtime_hz) = run.realtime_hz {
        put(&mut data, "realtime_hz", realtime_hz);
    }
    if !run.counted.is_empty() {
        put(&mut data, "cpu_events", run.counted.join(","));
    }
    if let Some(overflow) = &run.overflow {
        put(&mut data, "overflow_event", overflow.event.as_str());
        put(&mut data, "overflow_period", overflow.period);
    }
    put(&mut data, "unwinder", run.unwinder.as_str());
    if !run.backends.is_empty() {
        put(&mut data, "backends", run.backends.join(" "));
    }
    if let Some(runtime) = &run.openmp_runtime {
        let path = runtime.display().to_string();
        put(&mut data, "openmp_runtime_in_place_of_libgomp", path);
    }
    put(&mut data, "tick_ns", identity.tick_ns);
    put(&mut data, "boot_id", run.boot_id.as_str());
    put(&mut data, "host", run.host.as_str());
    put(&mut data, "pid", u64::from(identity.pid));
    if let Some(parent) = identity.parent_pid {
        put(&mut data, "parent_pid", u64::from(parent));
    }
    put(&mut data, "start_time_ns", identity.start_time_ns);
    if let Some(when) = run.attached_at.as_ref().filter(|_| identity.is_command) {
        let text = format!("at {when}: the program was running, and what it did before is unknown");
        put(&mut data, "attached", text);
    }
    if let Some(rank) = &identity.rank {
        put(&mut data, "rank", u64::from(rank.rank));
        put(&mut data, "rank_source", rank.source);
        if let Some(local) = rank.local_rank {
            put(&mut data, "local_rank", u64::from(local));
        }
        if let Some(size) = rank.size {
            put(&mut data, "rank_count", u64::from(size));
        }
    }
    let job_ids: Vec<_> = identity.job_ids().collect();
    if !job_ids.is_empty() {
        put(&mut data, "job_ids", job_ids.join(" "));
    }
    if !identity.notes.is_empty() {
        put(&mut data, "notes", identity.notes.join("; "));
    }
    data
}

/// What is known when the trace ends.
#[derive(Debug)]
pub struct AtEnd<'a> {
    /// What was in the records.
    pub tally: &'a Tally,
    /// Where broken stacks stopped.
    pub stops: &'a Stops,
    /// What the agent counted.
    pub counts: &'a AgentCounts,
    /// How the program ended.
    pub end: End,
    /// Modules that it had.
    pub modules: u64,
    /// Addresses without a name.
    pub unresolved: u64,
    /// CPU time between two samples.
    pub period_ns: u64,
    /// What its agent had to say, and what was noted of it.
    pub notes: &'a [String],
    /// Versions of the Python interpreters.
    pub python: &'a [String],
    /// Python code objects that were recorded.
    pub codes: u64,
    /// Python frames whose code object was not recorded.
    pub unknown_codes: u64,
    /// Whether blocked threads were looked at.
    pub realtime: bool,
    /// What was recorded of the process itself.
    pub facts: &'a [(String, String)],
    /// Whether context switches were recorded.
    pub off_cpu: bool,
    /// Whether times off the processor are told as waits, with those in which a thread had been woken and had no processor.
    pub off_cpu_with_delays: bool,
    /// Whether samples are taken by CPU time.
    pub by_time: bool,
}

impl AtEnd<'_> {
    /// The keys and values.
    #[must_use]
    pub fn data(&self) -> Data {
        let tally = self.tally;
        let mut data = Data::new();
        put(&mut data, "samples", tally.samples);
        put(&mut data, "weighted_samples", tally.weight);
        put(&mut data, "slices", tally.slices);
        put(&mut data, "threads", tally.threads);
        put(&mut data, "dropped", self.counts.dropped());
        put(&mut data, "dropped_weight", self.counts.dropped_weight);
        for (cause, count) in self.counts.causes() {
            put(
                &mut data,
                format!("dropped_{}", cause.replace(' ', "_")),
                count,
            );
        }
        if let Some(percent) = tally.complete_percent() {
            put(&mut data, "complete_stacks_percent", percent);
        }
        put(&mut data, "truncated_stacks", tally.truncated_stacks);
        put(&mut data, "broken_stacks", tally.broken_stacks);
        if tally.broken_stacks > 0 {
            put(&mut data, "broken_most", self.stops.most());
        }
        put(&mut data, "scanned_stacks", tally.scanned_stacks);
        put(&mut data, "scanned_frames", tally.scanned_frames);
        put(&mut data, "perf_samples", tally.perf_samples);
        put(&mut data, "unresolved", self.unresolved);
        put(&mut data, "modules", self.modules);
        put(&mut data, "corrupt_records", tally.corrupt);
        if !self.python.is_empty() {
            put(&mut data, "python", self.python.join(", "));
            for (key, count) in [
                ("python_samples", tally.python.samples),
                ("python_truncated_stacks", tally.python.truncated),
                ("python_broken_stacks", tally.python.broken),
                ("python_subinterpreter_samples", tally.python.subinterpreter),
                ("python_unpaired_frames", tally.python.unpaired_frames),
                ("python_code_objects", self.codes),
                ("python_unknown_code_objects", self.unknown_codes),
            ] {
                put(&mut data, key, count);
            }
        }
        put(
            &mut data,
            "counter_values",
            tally.counter_values + tally.events.counters,
        );
        put(&mut data, "scaled_counters", tally.scaled_counters);
        if !self.notes.is_empty() {
            put(&mut data, "notes", self.notes.join("; "));
        }
        if tally.outside_window > 0 {
            put(&mut data, "outside_window", tally.outside_window);
        }
        if tally.other_threads > 0 {
            put(&mut data, "samples_of_other_threads", tally.other_threads);
        }
        for ((_, name), value) in COUNTER_NAMES.iter().zip(self.counts.counters) {
            put(&mut data, *name, value);
        }
        match Coverage::new(tally, self.counts, self.period_ns) {
            Coverage::OfProcess(percent) if self.by_time => {
                put(&mut data, "coverage_percent", percent)
            }
            Coverage::OfEndedThreads(percent) if self.by_time => {
                put(&mut data, "coverage_percent_of_ended_threads", percent);
            }
            _ => {}
        }
        if self.off_cpu {
            let off_cpu = &tally.off_cpu;
            put(&mut data, "off_cpu_intervals", off_cpu.intervals);
            put(&mut data, "off_cpu_ns", off_cpu.wall_ns);
            put(&mut data, "off_cpu_slices", off_cpu.slices);
            if self.off_cpu_with_delays {
                put(&mut data, "off_cpu_with_delays", 1);
            }
            if off_cpu.incomplete_ns > 0 {
                put(&mut data, "off_cpu_incomplete_ns", off_cpu.incomplete_ns);
            }
        }
        if self.realtime {
            let waits = &tally.waits;
            for (key, count) in [
                ("waits", waits.waits),
                ("wait_samples", waits.samples),
                ("wait_ns", waits.wall_ns),
                ("wait_slices", waits.slices),
                ("waits_complete", waits.complete),
                ("waits_truncated", waits.truncated),
                ("waits_broken", waits.broken),
                ("waits_scanned", waits.scanned),
                ("wait_scanned_frames", waits.scanned_frames),
                ("waits_unseen", waits.unseen),
                ("waits_raced", waits.raced),
                ("wait_unreadable_threads", waits.unreadable_threads),
            ] {
                put(&mut data, key, count);
            }
            if !self.python.is_empty() {
                for (key, count) in [
                    ("python_waits", waits.python.samples),
                    ("python_truncated_waits", waits.python.truncated),
                    ("python_broken_waits", waits.python.broken),
                    ("python_unpaired_wait_frames", waits.python.unpaired_frames),
                ] {
                    put(&mut data, key, count);
                }
            }
        }
        if !tally.events.is_empty() || self.counts.dropped_events > 0 {
            let events = &tally.events;
            for (key, count) in [
                ("event_calls", events.calls),
                ("event_marks", events.marks),
                ("event_ranges", events.ranges),
                ("event_locks", events.locks),
                ("event_unmatched_ends", events.unmatched_ends),
                ("gpu_kernels", events.kernels),
                ("gpu_moves", events.moves),
                ("gpu_other_operations", events.other_ops),
                ("gpu_without_call", events.ops_without_call),
                ("gpu_launch_stacks", events.launch_stacks),
                ("call_stacks", events.call_stacks),
                ("gpu_kernel_ns", events.kernel_ns),
                ("events_outside_window", events.outside_window),
                ("events_dropped", self.counts.dropped_events),
            ] {
                put(&mut data, key, count);
            }
        }
        for (key, value) in self.facts {
            put(&mut data, key.as_str(), value.as_str());
        }
        put(&mut data, "end", self.end.to_string());
        match self.end {
            End::Child(Ending::Code(code)) => put(&mut data, "exit_code", u64::from(code)),
            End::Child(Ending::Signal(signal)) => {
                put(&mut data, "exit_signal", signal.unsigned_abs() as u64)
            }
            _ => {}
        }
        let usage = os::own_usage();
        put(&mut data, "sampler_pid", u64::from(std::process::id()));
        put(&mut data, "sampler_cpu_seconds", usage.cpu.as_secs_f64());
        put(
            &mut data,
            "sampler_peak_rss_bytes",
            usage.peak_resident_bytes,
        );
        data
    }
}

/// Writes one instant.
pub fn write(
    out: &mut PacketBuffer,
    track: &mut TrackSequence,
    time_ns: u64,
    name: &str,
    data: &Data,
) {
    let annotations: Vec<_> = data
        .iter()
        .map(|(key, value)| Annotation {
            key: out.intern(key),
            value: match value {
                Datum::Text(text) => Value::Text(text),
                Datum::Count(count) => Value::Uint(*count),
                Datum::Number(number) => Value::Double(*number),
            },
        })
        .collect();
    let event = Event {
        name: Name::Once(name),
        annotations: &annotations,
        ..Event::default()
    };
    track.event(out, time_ns, EventKind::Instant, &event);
}
