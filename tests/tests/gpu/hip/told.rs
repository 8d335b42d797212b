//! What the trace of a process says of its GPUs, and how that is judged.

use super::*;

/// A call in the trace.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) start_ns: i64,
    /// Work-groups in the first dimension.
    pub(super) groups: Option<u32>,
    pub(super) stream: Option<i64>,
}

/// An operation in the trace.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) name: String,
    pub(super) category: String,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) device: usize,
    pub(super) correlation: i64,
    pub(super) bytes: Option<i64>,
    pub(super) direction: String,
    pub(super) stream: Option<i64>,
    pub(super) clamped: bool,
}

/// What the trace of a process says.
pub(super) struct Told {
    pub(super) calls: HashMap<i64, Call>,
    pub(super) ops: Vec<Op>,
}

pub(super) fn integer(cell: &Cell) -> Option<i64> {
    cell.as_int()
}

impl Told {
    pub(super) fn read(trace: &Trace) -> anyhow::Result<Self> {
        let arg = |name: &str| format!("extract_arg(s.arg_set_id, 'debug.{name}') as {name}");
        let columns = ["grid", "stream", "device", "bytes", "direction", "clamped"]
            .map(arg)
            .join(", ");
        let rows = trace.query(&format!(
            "with linked as {LINKED}
             select s.id, s.ts, s.dur, s.name, s.category, linked.number as correlation, {columns}
             from slice s left join linked using (id)
             where s.category in ('kernel', 'copy', 'fill', 'gpu', 'hip') order by s.ts"
        ))?;
        let mut told = Told {
            calls: HashMap::new(),
            ops: Vec::new(),
        };
        for row in rows.iter() {
            let (start_ns, name) = (row.int("ts")?, row.text("name")?.to_owned());
            let correlation = integer(row.cell("correlation")?);
            let stream = integer(row.cell("stream")?);
            let category = row.text("category")?.to_owned();
            if category == "hip" {
                let groups = row.text("grid")?.split('×').next().unwrap_or_default();
                let call = Call {
                    name,
                    start_ns,
                    groups: groups.parse().ok(),
                    stream,
                };
                // Calls that caused nothing have no arrow.
                let key = match correlation {
                    Some(number) => number,
                    None => -1 - row.int("id")?,
                };
                let before = told.calls.insert(key, call);
                ensure!(before.is_none(), "two calls with the number {key}");
                continue;
            }
            told.ops.push(Op {
                name,
                category,
                start_ns,
                end_ns: start_ns + row.int("dur")?,
                device: usize::try_from(row.int("device")?)?,
                correlation: correlation.unwrap_or(0),
                bytes: integer(row.cell("bytes")?),
                direction: row.text("direction")?.to_owned(),
                stream,
                clamped: *row.cell("clamped")? != Cell::Null,
            });
        }
        Ok(told)
    }

    pub(super) fn call(&self, op: &Op) -> anyhow::Result<&Call> {
        self.calls
            .get(&op.correlation)
            .with_context(|| format!("nobody called for {op:?}"))
    }

    /// Operations of a category and name.
    pub(super) fn named<'a>(
        &'a self,
        category: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Op> {
        self.ops
            .iter()
            .filter(move |op| op.category == category && op.name.starts_with(name))
    }
}

pub(super) fn is_near(told_ns: i64, true_ns: u64) -> bool {
    told_ns.abs_diff(i64::try_from(true_ns).unwrap_or(i64::MAX)) <= EXACT_NS.unsigned_abs()
}

/// Every kernel that was launched alone is there once: by the grid that no other has, where and when it ran.
pub(super) fn check_single_kernels(told: &Told, truth: &Truth) -> anyhow::Result<usize> {
    const SINGLES: [&str; 3] = ["spin", "touch", "short_kernel"];
    let is_single =
        |dispatch: &&Dispatch| SINGLES.iter().any(|name| dispatch.kernel.contains(name));
    let mut open: BTreeMap<u32, &Dispatch> = BTreeMap::new();
    for dispatch in truth.dispatches().filter(is_single) {
        let before = open.insert(dispatch.grid[0] / 64, dispatch);
        ensure!(
            before.is_none(),
            "two kernels with the grid of {dispatch:?}"
        );
    }
    let count = open.len();
    for op in SINGLES.iter().flat_map(|name| told.named("kernel", name)) {
        let call = told.call(op)?;
        let groups = call.groups.with_context(|| format!("no grid: {call:?}"))?;
        let dispatch = open
            .remove(&groups)
            .with_context(|| format!("{op:?} by {call:?} did not happen, or was told twice"))?;
        let same_name = dispatch
            .kernel
            .contains(op.name.split('(').next().unwrap_or("?"));
        ensure!(
            same_name && op.device == dispatch.gpu && op.stream == call.stream && !op.clamped,
            "{op:?} by {call:?} was {dispatch:?}"
        );
        ensure!(
            is_near(op.start_ns, dispatch.start_ns) && is_near(op.end_ns, dispatch.end_ns),
            "{op:?} ran at another time: {dispatch:?}"
        );
        ensure!(
            call.name.contains("LaunchKernel") && call.start_ns <= op.start_ns,
            "{op:?} is not by {call:?}"
        );
    }
    ensure!(
        open.is_empty(),
        "{} of {count} kernels are not told: {open:?}",
        open.len()
    );
    Ok(count)
}

/// Every kernel of a graph is there, under the launch of the graph.
pub(super) fn check_graph(told: &Told, truth: &Truth, nodes: usize, times: usize) -> TestResult {
    let mut ran: Vec<&Dispatch> = truth.kernels_named("node").collect();
    ran.sort_by_key(|dispatch| dispatch.start_ns);
    let ops: Vec<&Op> = told.named("kernel", "node").collect();
    ensure!(
        ran.len() == nodes * times && ops.len() == ran.len(),
        "{} of {} kernels of graphs are told",
        ops.len(),
        ran.len()
    );
    let mut others = ran.iter();
    for op in ops.iter().filter(|op| !op.clamped) {
        let those = others.by_ref();
        ensure!(
            those.any(|dispatch| {
                is_near(op.start_ns, dispatch.start_ns) && is_near(op.end_ns, dispatch.end_ns)
            }),
            "{op:?} ran at another time"
        );
    }
    let mut by_launch: BTreeMap<i64, usize> = BTreeMap::new();
    for op in ops {
        ensure!(told.call(op)?.name == "hipGraphLaunch", "{op:?}");
        *by_launch.entry(op.correlation).or_default() += 1;
    }
    ensure!(
        by_launch.len() == times && by_launch.values().all(|count| *count == nodes),
        "kernels by launch: {by_launch:?}"
    );
    Ok(())
}

/// Every copy and fill that the program asked for is there once, with its size and direction; what a copy engine did is told at its time.
pub(super) fn check_moves(told: &Told, truth: &Truth, gpus: usize) -> TestResult {
    for device in 0..gpus {
        let mut expected: Vec<(i64, &str)> = Vec::new();
        for i in 0..20 {
            let bytes = 40_000 + 4096 * i;
            expected.push((bytes, "host to device"));
            expected.push((bytes + 4, "device to device"));
            expected.push((bytes + 8, "device to host"));
            expected.push((bytes + 12, ""));
        }
        for i in 0..5 {
            let bytes = 200_000 + 4096 * i;
            expected.push((bytes, "host to device"));
            expected.push((bytes + 4, "device to host"));
        }
        expected.sort_unstable();
        let mine = || {
            told.ops.iter().filter(|op| {
                op.device == device && ["copy", "fill"].contains(&op.category.as_str())
            })
        };
        let mut found: Vec<(i64, &str)> = mine()
            .map(|op| (op.bytes.unwrap_or(0), op.direction.as_str()))
            .collect();
        found.sort_unstable();
        ensure!(found == expected, "GPU {device} moved {found:?}");
        for op in mine() {
            let call = told.call(op)?;
            let is_its = if op.category == "fill" {
                "hipMemset"
            } else {
                "hipMemcpy"
            };
            ensure!(
                call.name.starts_with(is_its) && call.start_ns <= op.start_ns && !op.clamped,
                "{op:?} is not by {call:?}"
            );
            let by_engine = truth
                .copies()
                .filter(|copy| copy.gpu == device && i64::try_from(copy.bytes).ok() == op.bytes);
            // Where kernels are to end first, HIP has them end with a barrier packet, and tells that the copy begins with it.
            for copy in by_engine {
                let by_barrier = |barrier: &Barrier| {
                    barrier.gpu == device
                        && barrier.end_ns <= copy.start_ns
                        && is_near(op.start_ns, barrier.start_ns)
                };
                ensure!(
                    (is_near(op.start_ns, copy.start_ns) || truth.barriers().any(by_barrier))
                        && is_near(op.end_ns, copy.end_ns),
                    "{op:?} went on at another time: {copy:?}"
                );
            }
        }
    }
    Ok(())
}

/// What the process counted agrees with itself, and with the trace.
pub(super) fn check_counts(trace: &Trace, told: &Told) -> anyhow::Result<i64> {
    let metadata = trace.metadata()?;
    let count = |name: &str| metadata.int(name).unwrap_or(0);
    let lost = count("gpu_dropped_at_end");
    ensure!(
        count("gpu_seen") == count("gpu_recorded") + lost,
        "seen {}, recorded {}, lost {lost}",
        count("gpu_seen"),
        count("gpu_recorded"),
    );
    ensure!(count("gpu_recorded") == i64::try_from(told.ops.len())?);
    Ok(lost)
}
