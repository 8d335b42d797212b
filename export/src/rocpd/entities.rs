//! What records refer to: texts, processes, threads, GPUs, streams, kernels, tracks. Each gets a number when a record needs it, and is written at the end.

use std::collections::{BTreeMap, HashMap};

use rsys_proto::hashing::FastMap;
use rusqlite::{Connection, params};

use crate::Failure;
use crate::rows::each;
use crate::run::{Process, Run};

/// Numbers that begin at 1.
fn next(count: usize) -> i64 {
    count as i64 + 1
}

/// An agent: the host of a process, or one of its GPUs.
type Agent = (u64, Option<u64>);

/// All that has a number.
#[derive(Debug, Default)]
pub(super) struct Entities {
    /// In their order; numbered from 1.
    nodes: Vec<(usize, String)>,
    texts: FastMap<String, i64>,
    threads: FastMap<(u64, u64), i64>,
    agents: FastMap<Agent, i64>,
    streams: BTreeMap<(u64, u64), BTreeMap<String, i64>>,
    stream_count: usize,
    kernels: BTreeMap<u64, BTreeMap<String, i64>>,
    kernel_count: usize,
    /// By process, thread and the number of its name.
    tracks: FastMap<(u64, Option<u64>, i64), i64>,
    /// By their numbers in the tables.
    pub counters: BTreeMap<u64, Counter>,
}

/// A counter or a sensor.
#[derive(Debug)]
pub(super) struct Counter {
    pub node: i64,
    pub process: u64,
    pub agent: i64,
    pub is_of_gpu: bool,
    /// The group that it belongs to.
    pub owner: String,
    pub name: String,
    pub unit: String,
}

impl Entities {
    pub(super) fn of(run: &Run<'_>) -> Self {
        let nodes = run.nodes().into_iter();
        Self {
            nodes: nodes.map(|(nth, host)| (nth, host.to_owned())).collect(),
            ..Self::default()
        }
    }

    /// The number of a process's node.
    pub(super) fn node(&self, process: &Process) -> i64 {
        let of = |(nth, host): &(usize, String)| (*nth, host.as_str()).cmp(&process.node());
        self.nodes.binary_search_by(of).map_or(1, next)
    }

    /// The number of a text.
    pub(super) fn text(&mut self, text: &str) -> i64 {
        if let Some(&id) = self.texts.get(text) {
            return id;
        }
        let id = next(self.texts.len());
        self.texts.insert(text.to_owned(), id);
        id
    }

    /// The number of a thread; the thread 0 of a process stands for those that are not known.
    pub(super) fn thread(&mut self, process: u64, tid: u64) -> i64 {
        let id = next(self.threads.len());
        *self.threads.entry((process, tid)).or_insert(id)
    }

    /// The number of a GPU, or of the host as a process sees it.
    pub(super) fn agent(&mut self, process: u64, gpu: Option<u64>) -> i64 {
        let id = next(self.agents.len());
        *self.agents.entry((process, gpu)).or_insert(id)
    }

    /// The number of a stream, which is that of its queue as well.
    pub(super) fn stream(&mut self, process: u64, gpu: u64, name: &str) -> i64 {
        let of_gpu = self.streams.entry((process, gpu)).or_default();
        if let Some(&id) = of_gpu.get(name) {
            return id;
        }
        let id = next(self.stream_count);
        self.stream_count += 1;
        of_gpu.insert(name.to_owned(), id);
        id
    }

    /// The number of a kernel.
    pub(super) fn kernel(&mut self, process: u64, name: &str) -> i64 {
        let of_process = self.kernels.entry(process).or_default();
        if let Some(&id) = of_process.get(name) {
            return id;
        }
        let id = next(self.kernel_count);
        self.kernel_count += 1;
        of_process.insert(name.to_owned(), id);
        id
    }

    /// The number of a track of samples.
    pub(super) fn track(&mut self, process: u64, tid: Option<u64>, name: &str) -> i64 {
        let name = self.text(name);
        let id = next(self.tracks.len());
        *self.tracks.entry((process, tid, name)).or_insert(id)
    }

    /// Writes all of them.
    pub(super) fn write(
        mut self,
        run: &Run<'_>,
        database: &Connection,
        suffix: &str,
    ) -> Result<(), Failure> {
        let insert = |table: &str, columns: &str| {
            let marks = vec!["?"; columns.split(',').count()].join(", ");
            database.prepare(&format!(
                "insert into rocpd_{table}{suffix} ({columns}) values ({marks})"
            ))
        };
        let mut add = insert("info_node", "id, hash, machine_id, hostname")?;
        for (at, (nth, host)) in self.nodes.iter().enumerate() {
            let machine = match nth {
                0 => host.clone(),
                nth => format!("{host} ({})", nth + 1),
            };
            add.execute(params![next(at), next(at), machine, host])?;
        }
        let mut add = insert(
            "info_process",
            "id, nid, pid, init, fini, start, end, command, extdata",
        )?;
        let mut nodes = HashMap::new();
        for (id, process) in run.processes() {
            let node = self.node(process);
            nodes.insert(id as u64, node);
            // A process without GPUs has an agent too, and all its kernels have one code object.
            self.agent(id as u64, None);
            let about = serde_json::json!({ "name": process.name, "rank": process.rank });
            let (start_ns, end_ns) = (process.start_ns, process.end_ns);
            add.execute(params![
                id as i64 + 1,
                node,
                process.pid,
                start_ns,
                end_ns,
                start_ns,
                end_ns,
                process.command,
                about.to_string()
            ])?;
        }
        let node = |process: &u64| nodes.get(process).copied().unwrap_or(1);
        let row = |process: &u64| process.cast_signed() + 1;

        let mut names = HashMap::new();
        const THREADS: [&str; 3] = ["process_id", "thread", "name"];
        each(run.view, "threads", &THREADS, |row| {
            if run.process(row.number(0)).is_some() {
                self.thread(row.number(0), row.number(1));
                names.insert((row.number(0), row.number(1)), row.text(2).to_owned());
            }
            Ok(())
        })?;
        let mut add = insert("info_thread", "id, nid, pid, tid, name")?;
        for ((process, tid), id) in in_order(&self.threads) {
            let name = names.get(&(*process, *tid)).map(String::as_str);
            let name = name.or((*tid == 0).then_some("unknown"));
            add.execute(params![id, node(process), row(process), tid, name])?;
        }
        let mut models = HashMap::new();
        const DEVICES: [&str; 3] = ["process_id", "device", "name"];
        each(run.view, "devices", &DEVICES, |row| {
            if run.process(row.number(0)).is_some() {
                self.agent(row.number(0), Some(row.number(1)));
                models.insert((row.number(0), row.number(1)), row.text(2).to_owned());
            }
            Ok(())
        })?;
        let mut add = insert(
            "info_agent",
            "id, nid, pid, type, absolute_index, logical_index, type_index, name, model_name, vendor_name, product_name",
        )?;
        let mut hosts = BTreeMap::new();
        for ((process, gpu), id) in in_order(&self.agents) {
            if gpu.is_none() {
                hosts.insert(*process, id);
            }
            // The host is in front of the GPUs.
            let index = gpu.map_or(0, |gpu| gpu + 1);
            let kind = if gpu.is_some() { "GPU" } else { "CPU" };
            let model = gpu.and_then(|gpu| models.get(&(*process, gpu)));
            let model = model.map_or(kind, String::as_str);
            let vendor = if gpu.is_some() { "AMD" } else { "CPU" };
            add.execute(params![
                id,
                node(process),
                row(process),
                kind,
                index,
                index,
                gpu.unwrap_or(0),
                model,
                model,
                vendor,
                model
            ])?;
        }
        for table in ["info_queue", "info_stream"] {
            let mut add = insert(table, "id, nid, pid, name, extdata")?;
            for ((process, gpu), of_gpu) in &self.streams {
                let about = format!("{{\"device\": {gpu}}}");
                for (name, id) in of_gpu {
                    add.execute(params![id, node(process), row(process), name, about])?;
                }
            }
        }
        let mut add = insert("info_code_object", "id, nid, pid, agent_id, uri")?;
        for (process, agent) in &hosts {
            add.execute(params![
                row(process),
                node(process),
                row(process),
                agent,
                ""
            ])?;
        }
        let mut add = insert(
            "info_kernel_symbol",
            "id, nid, pid, code_object_id, kernel_name, display_name",
        )?;
        for (process, kernels) in &self.kernels {
            for (name, id) in kernels {
                let (node, process) = (node(process), row(process));
                add.execute(params![id, node, process, process, name, name])?;
            }
        }
        let mut add = insert("track", "id, nid, pid, tid, name_id")?;
        for ((process, tid, name), id) in in_order(&self.tracks) {
            let thread = tid.and_then(|tid| self.threads.get(&(*process, tid)));
            add.execute(params![id, node(process), row(process), thread, name])?;
        }
        let mut add = insert(
            "info_pmc",
            "id, nid, pid, agent_id, target_arch, name, symbol, description, component, units, value_type, block",
        )?;
        for (number, counter) in &self.counters {
            let kind = if counter.is_of_gpu { "GPU" } else { "CPU" };
            let (owner, name) = (counter.owner.as_str(), counter.name.as_str());
            add.execute(params![
                number.cast_signed() + 1,
                counter.node,
                row(&counter.process),
                counter.agent,
                kind,
                name,
                name,
                format!("{owner} {name}").trim(),
                "rsys",
                counter.unit,
                "ABS",
                owner
            ])?;
        }
        let mut add = insert("string", "id, string")?;
        for (text, id) in in_order(&self.texts) {
            add.execute(params![id, text])?;
        }
        Ok(())
    }
}

/// Things by their numbers, so that the same run gives the same file.
fn in_order<K>(numbers: &FastMap<K, i64>) -> impl Iterator<Item = (&K, i64)> {
    let mut all: Vec<(&K, i64)> = numbers.iter().map(|(key, id)| (key, *id)).collect();
    all.sort_unstable_by_key(|(_, id)| *id);
    all.into_iter()
}
