//! What says whose the events are.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde_json::{Value, json};

use super::File;
use crate::Failure;
use crate::rows::each;

/// Rows of GPUs stand below those of processes.
const BELOW_PROCESSES: u64 = 5_000_000;

impl File<'_> {
    /// The members of the document in front of the events.
    pub(super) fn head(&mut self) -> Result<(), Failure> {
        let mut head = json!({
            "schemaVersion": 1,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 0,
            "traceName": format!("rsys {}", env!("CARGO_PKG_VERSION")),
        });
        let processes = self.run.processes().map(|(_, process)| process);
        let hosts: BTreeSet<&str> = processes.clone().map(|one| one.host.as_str()).collect();
        let ranks: BTreeSet<u64> = processes
            .clone()
            .filter_map(|process| process.rank)
            .collect();
        if let Some(host) = hosts
            .first()
            .filter(|host| hosts.len() == 1 && !host.is_empty())
        {
            // As Kineto calls it since 2026.
            head["host_name"] = json!(host);
        }
        if hosts.len() > 1 {
            // Read again by rsys-report: times of different hosts are not to be compared as those of one.
            let of_ranks = processes.clone().filter_map(|one| {
                let rank = one.rank?.to_string();
                Some((rank, json!(one.host)))
            });
            head["host_names"] = Value::Object(of_ranks.collect());
        }
        if let Some(rank) = ranks.first().filter(|_| ranks.len() == 1) {
            head["distributedInfo"] = json!({
                "backend": "nccl",
                "rank": rank,
                "world_size": self.run.rank_count(),
            });
        }
        let mut devices: BTreeMap<u64, String> = BTreeMap::new();
        each(
            self.run.view,
            "devices",
            &["process_id", "device", "name"],
            |row| {
                if self.run.process(row.number(0)).is_some() {
                    devices.insert(row.number(1), row.text(2).to_owned());
                }
                Ok(())
            },
        )?;
        let devices = devices
            .into_iter()
            .map(|(id, name)| json!({ "id": id, "name": name }));
        head["deviceProperties"] = devices.collect();
        // HTA looks for the rank of a file by a pattern that demands space behind the colon, line by line.
        let head = format!("{head:#}");
        let members = head.trim_end_matches('}').trim_end();
        write!(self.out, "{members},\n  \"traceEvents\": [")?;
        Ok(())
    }

    /// Names of processes, threads and streams.
    pub(super) fn names(&mut self) -> Result<(), Failure> {
        let mut names: Vec<Value> = Vec::new();
        let mut describe = |what: &str, pid: u64, tid: u64, args: Value| {
            names.push(json!({
                "ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args,
            }));
        };
        for (id, process) in self.run.processes() {
            let Some(place) = self.places.get(&(id as u64)) else {
                continue;
            };
            let (pid, title) = (place.pid, process.title());
            let mut args = json!({ "name": title });
            // Counters have no room for it: each of their members is a value.
            if !place.owner.is_empty() {
                args["pid_raw"] = json!(process.pid);
                if let Some(rank) = process.rank {
                    args["rank"] = json!(rank);
                }
            }
            describe("process_name", pid, 0, args);
            let mut name = |what: &str, pid: u64, tid: u64, key: &str, value: Value| {
                describe(what, pid, tid, json!({ key: value }));
            };
            name("process_labels", pid, 0, "labels", json!("CPU"));
            name("process_sort_index", pid, 0, "sort_index", json!(pid));
            let mut last = None;
            for (device, stream, number) in place.streams.all() {
                let gpu = place.gpu(device);
                if last.replace(device) != Some(device) {
                    let label = format!("GPU {device}");
                    name("process_name", gpu, 0, "name", json!(title));
                    name("process_labels", gpu, 0, "labels", json!(label));
                    let order = BELOW_PROCESSES + gpu;
                    name("process_sort_index", gpu, 0, "sort_index", json!(order));
                }
                name("thread_name", gpu, number, "name", json!(stream));
            }
        }
        each(
            self.run.view,
            "threads",
            &["process_id", "thread", "name"],
            |row| {
                if let Some(place) = self.places.get(&row.number(0)) {
                    let args = json!({ "name": row.text(2) });
                    describe("thread_name", place.pid, row.number(1), args);
                }
                Ok(())
            },
        )?;
        for one in names {
            let line = self.event();
            write!(line, "{one}")?;
            self.put()?;
        }
        Ok(())
    }
}
