//! Events with times.

use std::collections::HashSet;
use std::io::Write;

use super::collectives::Collectives;
use super::places::IDS_MAX;
use super::{File, Form};
use crate::Failure;
use crate::copies::Direction;
use crate::json::{Measured, Micros, Quoted};
use crate::links::LaunchStacks;
use crate::put::Put;
use crate::rows::each;
use crate::stacks::Stacks;

/// The name of an operation, by which HTA knows what it is.
fn operation_name<'n>(kind: &str, name: &'n str, direction: &str) -> &'n str {
    match (kind, Direction::of_copy(direction, name)) {
        // From a file of PyTorch, with what the memory of the host is: `Memcpy HtoD (Pageable -> Device)`.
        ("copy", Some(_)) if name.starts_with("Memcpy ") => name,
        ("copy", Some(Direction::HostToHost)) => "Memcpy HtoH (Host -> Host)",
        ("copy", Some(Direction::HostToDevice)) => "Memcpy HtoD (Host -> Device)",
        ("copy", Some(Direction::DeviceToHost)) => "Memcpy DtoH (Device -> Host)",
        ("copy", Some(Direction::DeviceToDevice)) => "Memcpy DtoD (Device -> Device)",
        ("copy", None) => "Memcpy",
        ("fill", _) => "Memset (Device)",
        _ => name,
    }
}

/// The begin of a slice, up to its arguments: category, name, process and thread, begin and duration in nanoseconds.
#[inline]
fn slice(
    line: &mut Vec<u8>,
    cat: &str,
    name: &str,
    (pid, tid): (u64, u64),
    (start_ns, duration_ns): (u64, u64),
) {
    line.text("{\"ph\":\"X\",\"cat\":\"").text(cat);
    line.text("\",\"name\":").quoted(name);
    line.text(",\"pid\":").number(pid);
    line.text(",\"tid\":").number(tid);
    line.text(",\"ts\":").micros(start_ns);
    line.text(",\"dur\":").micros(duration_ns);
}

/// The rest of an end of an arrow from a call to its operation.
#[inline]
fn arrow(line: &mut Vec<u8>, id: u64, (pid, tid): (u64, u64), time_ns: u64) {
    line.text(",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":")
        .number(id);
    line.text(",\"pid\":").number(pid);
    line.text(",\"tid\":").number(tid);
    line.text(",\"ts\":").micros(time_ns).push(b'}');
}

impl File<'_> {
    pub(super) fn operations(&mut self) -> Result<(), Failure> {
        const COLUMNS: [&str; 15] = [
            "process_id",
            "kind",
            "name",
            "start_ns",
            "duration_ns",
            "device",
            "queue",
            "correlation",
            "bytes",
            "grid",
            "direction",
            "call",
            "activity",
            "thread",
            "call_start_ns",
        ];
        let run = self.run;
        let collectives = Collectives::read(run)?;
        each(run.view, "operations", &COLUMNS, |row| {
            let (id, start_ns, duration_ns) = (row.number(0), row.number(3), row.number(4));
            let kind = row.text(1);
            if run.during(id, start_ns, start_ns + duration_ns).is_none() {
                return Ok(());
            }
            let cat = match kind {
                "kernel" => "kernel",
                "copy" => "gpu_memcpy",
                "fill" => "gpu_memset",
                // HTA takes whatever has a stream for a kernel.
                _ if self.form == Form::Kineto => return Ok(()),
                _ => "gpu_other",
            };
            let Some(place) = self.places.get_mut(&id) else {
                return Ok(());
            };
            let device = row.number(5);
            let stream = place.streams.number(0, device, row.text(6));
            let (pid, owner) = (place.gpu(device), place.owner.clone());
            let correlation = row.known(7).map(|id| place.correlation(id));
            let name = operation_name(kind, row.text(2), row.text(10));
            let line = self.event();
            slice(line, cat, name, (pid, stream), (start_ns, duration_ns));
            line.text(",\"args\":{\"device\":").number(device);
            line.text(",\"stream\":").number(stream).text(&owner);
            if let Some(id) = correlation {
                line.text(",\"correlation\":").number(id);
                line.text(",\"External id\":").number(id);
            }
            if let Some(bytes) = row.known(8) {
                line.text(",\"bytes\":").number(bytes);
                if matches!(kind, "copy" | "fill") && duration_ns > 0 {
                    // Bytes in a nanosecond are gigabytes in a second.
                    let gigabytes = Measured(bytes as f64 / duration_ns as f64);
                    write!(line, ",\"memory bandwidth (GB/s)\":{gigabytes}")?;
                }
            }
            let mut sizes = numbers(row.text(9)).peekable();
            if sizes.peek().is_some() {
                line.text(",\"grid\":[");
                for size in sizes {
                    line.text(size).text(",");
                }
                // In place of the last comma.
                line.pop();
                line.push(b']');
            }
            if row.text(12) == "communication" {
                let launch = row.known(13).zip(row.known(14));
                let is_known = collectives.put(id, row.number(7), launch, line)?;
                if let Some(function) = row.text(11).strip_prefix("nccl").filter(|_| !is_known) {
                    let name = function.to_lowercase();
                    write!(line, ",\"Collective name\":{}", Quoted(&name))?;
                }
            }
            line.extend_from_slice(b"}}");
            if let Some(id) = correlation.filter(|_| !row.text(11).is_empty()) {
                line.text(",\n{\"ph\":\"f\",\"bp\":\"e\"");
                arrow(line, id, (pid, stream), start_ns);
            }
            self.put()
        })
    }

    pub(super) fn calls(&mut self) -> Result<(), Failure> {
        const COLUMNS: [&str; 12] = [
            "process_id",
            "runtime",
            "name",
            "start_ns",
            "duration_ns",
            "thread",
            "correlation",
            "bytes",
            "address",
            "place",
            "stack_id",
            "call_id",
        ];
        let run = self.run;
        let stacks = match self.form == Form::Kineto && !self.has_operators()? {
            true => Some((Stacks::read(run.view)?, LaunchStacks::read(run)?)),
            false => None,
        };
        let mut stacks = stacks
            .as_ref()
            .map(|(stacks, launches)| (stacks, launches.finder()));
        each(run.view, "calls", &COLUMNS, |row| {
            let (id, start_ns, duration_ns) = (row.number(0), row.number(3), row.number(4));
            let runtime = row.text(1);
            if run.during(id, start_ns, start_ns + duration_ns).is_none()
                || !run.only.has_calls_of(runtime)
            {
                return Ok(());
            }
            let Some(place) = self.places.get(&id) else {
                return Ok(());
            };
            let cat = match runtime {
                "HIP" => "cuda_runtime",
                "HSA" => "hsa_api",
                _ => "rccl_api",
            };
            let (pid, tid) = (place.pid, row.number(5));
            let correlation = row.known(6).map(|id| place.correlation(id));
            let owner = place.owner.clone();
            // TraceLens and HTA ask for the operator that launched a kernel: here it is a function.
            if let Some((stacks, launches)) = stacks.as_mut().filter(|_| runtime == "HIP")
                && let stack = launches.of(row.number(10), row.number(11)) as usize
                && !stacks.is_empty(stack)
            {
                let function = stacks.frame(stack).function;
                let line = self.event();
                slice(
                    line,
                    "cpu_op",
                    function,
                    (pid, tid),
                    (start_ns, duration_ns),
                );
                line.text(",\"args\":{\"place\":").quoted(row.text(9));
                line.text(&owner);
                if let Some(id) = correlation {
                    line.text(",\"External id\":").number(id);
                }
                line.extend_from_slice(b"}}");
                self.put()?;
            }
            let line = self.event();
            slice(line, cat, row.text(2), (pid, tid), (start_ns, duration_ns));
            line.text(",\"args\":{");
            let members = line.len();
            line.text(&owner);
            if let Some(id) = correlation {
                line.text(",\"correlation\":").number(id);
                line.text(",\"External id\":").number(id);
            }
            for (key, column) in [(",\"bytes\":", 7), (",\"address\":", 8)] {
                if let Some(value) = row.known(column) {
                    line.text(key).number(value);
                }
            }
            if !row.text(9).is_empty() {
                line.text(",\"place\":").quoted(row.text(9));
            }
            // The comma in front of the first member.
            if line.len() > members {
                line.remove(members);
            }
            line.extend_from_slice(b"}}");
            if let Some(id) = correlation.filter(|_| runtime == "HIP") {
                line.text(",\n{\"ph\":\"s\"");
                arrow(line, id, (pid, tid), start_ns);
            }
            self.put()
        })
    }

    /// Whether operators of a framework were recorded.
    fn has_operators(&self) -> Result<bool, Failure> {
        let mut found = HashSet::new();
        each(self.run.view, "ranges", &["process_id", "kind"], |row| {
            if row.text(1) == "operator" && self.run.process(row.number(0)).is_some() {
                found.insert(());
            }
            Ok(())
        })?;
        Ok(!found.is_empty())
    }

    pub(super) fn ranges(&mut self) -> Result<(), Failure> {
        self.slices("ranges", |kind| match kind {
            "operator" => ("cpu_op", 0),
            "function" => ("python_function", 0),
            _ => ("user_annotation", 0),
        })
    }

    pub(super) fn waits(&mut self) -> Result<(), Failure> {
        // On rows of their own: they may begin in one call and end in another.
        self.slices("waits", |kind| match kind {
            "off processor" => ("off_processor", IDS_MAX),
            _ => ("wait", IDS_MAX),
        })
    }

    /// Slices of threads; `of_kind` says their category, and what is added to the id of the thread.
    fn slices(
        &mut self,
        table: &str,
        of_kind: impl Fn(&str) -> (&'static str, u64),
    ) -> Result<(), Failure> {
        const COLUMNS: [&str; 6] = [
            "process_id",
            "kind",
            "name",
            "start_ns",
            "duration_ns",
            "thread",
        ];
        let run = self.run;
        each(run.view, table, &COLUMNS, |row| {
            let (id, start_ns, duration_ns) = (row.number(0), row.number(3), row.number(4));
            let Some(place) = self.places.get(&id) else {
                return Ok(());
            };
            if run.during(id, start_ns, start_ns + duration_ns).is_none() {
                return Ok(());
            }
            let (pid, owner) = (place.pid, place.owner.clone());
            let (cat, more) = of_kind(row.text(1));
            let line = self.event();
            let place = (pid, row.number(5) + more);
            slice(line, cat, row.text(2), place, (start_ns, duration_ns));
            if let Some(members) = owner.strip_prefix(',') {
                write!(line, ",\"args\":{{{members}}}")?;
            }
            line.push(b'}');
            self.put()
        })
    }

    pub(super) fn marks(&mut self) -> Result<(), Failure> {
        let run = self.run;
        const COLUMNS: [&str; 4] = ["process_id", "name", "time_ns", "thread"];
        each(run.view, "markers", &COLUMNS, |row| {
            let (id, time_ns) = (row.number(0), row.number(2));
            let Some(place) = self
                .places
                .get(&id)
                .filter(|_| run.at(id, time_ns).is_some())
            else {
                return Ok(());
            };
            let (pid, owner) = (place.pid, place.owner.clone());
            let line = self.event();
            write!(
                line,
                "{{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"user_annotation\",\"name\":{},\"pid\":{pid},\"tid\":{},\"ts\":{}",
                Quoted(row.text(1)),
                row.number(3),
                Micros(time_ns)
            )?;
            if let Some(members) = owner.strip_prefix(',') {
                write!(line, ",\"args\":{{{members}}}")?;
            }
            line.push(b'}');
            self.put()
        })
    }

    pub(super) fn counters(&mut self) -> Result<(), Failure> {
        let run = self.run;
        const COLUMNS: [&str; 6] = [
            "process_id",
            "belongs_to",
            "name",
            "unit",
            "time_ns",
            "value",
        ];
        each(run.view, "counters", &COLUMNS, |row| {
            let (id, time_ns) = (row.number(0), row.number(4));
            let Some(place) = self
                .places
                .get(&id)
                .filter(|_| run.at(id, time_ns).is_some())
            else {
                return Ok(());
            };
            let pid = place.pid;
            let name = format!("{} {}", row.text(1), row.text(2));
            let unit = if row.text(3).is_empty() {
                "value"
            } else {
                row.text(3)
            };
            let line = self.event();
            write!(
                line,
                "{{\"ph\":\"C\",\"cat\":{},\"name\":{},\"pid\":{pid},\"tid\":0,\"ts\":{},\"args\":{{{}:{}}}}}",
                // Which part of the name is that of the group.
                Quoted(row.text(1)),
                Quoted(name.trim()),
                Micros(time_ns),
                Quoted(unit),
                Measured(row.measured(5))
            )?;
            self.put()
        })
    }
}

/// The numbers in a text such as `4×1×1`.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_digit());
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::operation_name;

    #[test]
    fn copies_have_the_names_of_pytorch() {
        let pageable = "Memcpy HtoD (Pageable -> Device)";
        for (kind, name, direction, expected) in [
            (
                "copy",
                "CopyHostToDevice",
                "host to device",
                "Memcpy HtoD (Host -> Device)",
            ),
            ("copy", pageable, "host to device", pageable),
            ("copy", "Memcpy", "", "Memcpy"),
            ("fill", "FillBuffer", "", "Memset (Device)"),
            ("kernel", "gemm", "", "gemm"),
        ] {
            assert_eq!(operation_name(kind, name, direction), expected, "{name}");
        }
    }
}
