//! What PyTorch says of the collective that a kernel is of, in the kernel's arguments.
//!
//! A kernel is launched within the call of RCCL that asked for it, or within the end of its group. Kept are 24 bytes for each call of RCCL, and 160 and its
//! texts for each operation.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use crate::Failure;
use crate::json::Quoted;
use crate::rows::each;
use crate::run::Run;

/// The operation of a call.
#[derive(Debug, Clone, Default)]
struct Collective {
    name: String,
    communicator: String,
    data_type: String,
    sequence: Option<u64>,
    bytes: u64,
    member: Option<u64>,
    members: Option<u64>,
    peer: Option<u64>,
}

/// A call of a thread: begin, end, correlation.
type Call = (u64, u64, u64);

/// The operations of a run.
#[derive(Debug, Default)]
pub(super) struct Collectives {
    /// By process and correlation; of a group, the first.
    operations: HashMap<(u64, u64), Collective>,
    /// By process and thread, in the order of their begins.
    calls: HashMap<(u64, u64), Vec<Call>>,
    /// The ranks of each communicator.
    ranks: HashMap<String, Ranks>,
    /// The ranks of each communicator by their places in it, as far as there are traces of them.
    places: HashMap<String, BTreeMap<u64, u64>>,
    /// All ranks of the job.
    of_job: Ranks,
}

/// A list of ranks, as PyTorch writes it.
#[derive(Debug, Default)]
struct Ranks {
    /// How many there are; 0 if some of them are not known.
    count: u64,
    text: String,
}

/// Calls of RCCL stand in each other no deeper.
const CALLS_DEEP: usize = 16;
/// Lists of more ranks are shortened, as PyTorch does.
const LISTED_MAX: u64 = 30;

impl Ranks {
    /// The list of `count` ranks, the last of which is `last`; of long ones only the first are asked for.
    fn listed(count: u64, ranks: impl Iterator<Item = u64>, last: u64) -> Self {
        let is_long = count > LISTED_MAX;
        let shown = if is_long { LISTED_MAX - 1 } else { count };
        let first = ranks.take(shown as usize);
        let mut words: Vec<String> = first.map(|rank| rank.to_string()).collect();
        if is_long {
            words.extend(["...".to_owned(), last.to_string()]);
        }
        let text = format!("[{}]", words.join(", "));
        Self { count, text }
    }

    /// Those of a communicator, by their places in it as far as there are traces of them.
    fn of_places(known: &BTreeMap<u64, u64>) -> Self {
        let count = known.len() as u64;
        match known.last_key_value() {
            Some((place, last)) if *place == count - 1 => {
                Self::listed(count, known.values().copied(), *last)
            }
            _ => Self::default(),
        }
    }
}

/// Names that PyTorch has for functions of RCCL.
fn pytorch_name(function: &str) -> String {
    let name = function.strip_prefix("nccl").unwrap_or(function);
    match name {
        "AllGather" => "_allgather_base".to_owned(),
        "ReduceScatter" => "_reduce_scatter_base".to_owned(),
        "AllToAll" => "all_to_all".to_owned(),
        "AllToAllv" => "all_to_allv".to_owned(),
        "Bcast" => "broadcast".to_owned(),
        name => name.to_lowercase(),
    }
}

/// PyTorch's name of a type, and its bytes.
fn pytorch_type(name: &str) -> (&str, u64) {
    match name {
        "int8" => ("Char", 1),
        "uint8" => ("Byte", 1),
        "int32" => ("Int", 4),
        "uint32" => ("UInt32", 4),
        "int64" => ("Long", 8),
        "uint64" => ("UInt64", 8),
        "float16" | "half" => ("Half", 2),
        "float32" | "float" => ("Float", 4),
        "float64" | "double" => ("Double", 8),
        "bfloat16" => ("BFloat16", 2),
        "float8_e4m3" | "float8e4m3" | "fp8_e4m3" => ("Float8_e4m3fn", 1),
        "float8_e5m2" | "float8e5m2" | "fp8_e5m2" => ("Float8_e5m2", 1),
        name => (name, 1),
    }
}

impl Collectives {
    /// Reads them.
    ///
    /// # Errors
    /// When the store is damaged.
    pub(super) fn read(run: &Run<'_>) -> Result<Self, Failure> {
        const COLUMNS: [&str; 11] = [
            "process_id",
            "correlation",
            "name",
            "communicator",
            "data_type",
            "sequence",
            "bytes",
            "member",
            "members",
            "peer",
            "rank",
        ];
        let rank_count = run.rank_count();
        let mut all = Self {
            of_job: Ranks::listed(rank_count, 0..rank_count, rank_count.saturating_sub(1)),
            ..Self::default()
        };
        let mut places: HashMap<String, BTreeMap<u64, u64>> = HashMap::new();
        each(run.view, "collectives", &COLUMNS, |row| {
            let communicator = row.text(3);
            // Ranks that are not written are in groups of those that are.
            if let Some(member) = row.known(7) {
                let known = places.entry(communicator.to_owned()).or_default();
                known.extend(row.known(10).map(|rank| (member, rank)));
            }
            let key = (row.number(0), row.number(1));
            if run.process(key.0).is_none() {
                return Ok(());
            }
            all.operations.entry(key).or_insert_with(|| Collective {
                name: row.text(2).to_owned(),
                communicator: communicator.to_owned(),
                data_type: row.text(4).to_owned(),
                sequence: row.known(5),
                bytes: row.number(6),
                member: row.known(7),
                members: row.known(8),
                peer: row.known(9),
            });
            Ok(())
        })?;
        if all.operations.is_empty() {
            return Ok(all);
        }
        let ranks = places.iter();
        let ranks =
            ranks.map(|(communicator, known)| (communicator.clone(), Ranks::of_places(known)));
        all.ranks = ranks.collect();
        all.places = places;
        const CALLS: [&str; 6] = [
            "process_id",
            "runtime",
            "thread",
            "start_ns",
            "end_ns",
            "correlation",
        ];
        each(run.view, "calls", &CALLS, |row| {
            let key = (row.number(0), row.number(2));
            if row.text(1) == "RCCL" && run.process(key.0).is_some() {
                let calls = all.calls.entry(key).or_default();
                calls.push((row.number(3), row.number(4), row.number(5)));
            }
            Ok(())
        })?;
        all.calls
            .values_mut()
            .for_each(|calls| calls.sort_unstable());
        Ok(all)
    }

    /// The operation of a kernel of a process, which a thread launched at a time; `correlation` is the kernel's.
    fn of_kernel(
        &self,
        process: u64,
        correlation: u64,
        launch: Option<(u64, u64)>,
    ) -> Option<&Collective> {
        // Files of PyTorch have the operation in the kernel itself.
        if let Some(own) = self.operations.get(&(process, correlation)) {
            return Some(own);
        }
        let (thread, time_ns) = launch?;
        let calls = self.calls.get(&(process, thread))?;
        let behind = calls.partition_point(|(start_ns, ..)| *start_ns <= time_ns);
        // The innermost call that says something, and the calls around it.
        let before = calls[..behind].iter().rev().take(CALLS_DEEP);
        let mut around = before.filter(|(_, end_ns, _)| *end_ns >= time_ns);
        around.find_map(|(.., correlation)| self.operations.get(&(process, *correlation)))
    }

    /// Appends the arguments of a kernel. `false`: nothing is known of its operation.
    pub(super) fn put(
        &self,
        process: u64,
        correlation: u64,
        launch: Option<(u64, u64)>,
        line: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        let Some(one) = self.of_kernel(process, correlation, launch) else {
            return Ok(false);
        };
        let name = pytorch_name(&one.name);
        let (data_type, size) = pytorch_type(&one.data_type);
        let (elements, members) = (one.bytes / size, one.members.unwrap_or(1));
        let (given, got) = match name.as_str() {
            "_allgather_base" => (elements, elements.saturating_mul(members)),
            "_reduce_scatter_base" => (elements.saturating_mul(members), elements),
            // What RCCL's call has for each rank PyTorch counts for all.
            "all_to_all" | "alltoall" | "alltoall_base" => {
                let all = elements.saturating_mul(members);
                (all, all)
            }
            _ => (elements, elements),
        };
        write!(
            line,
            ",\"Collective name\":{},\"In msg nelems\":{given},\"Out msg nelems\":{got},\"dtype\":{},\"In split size\":\"[]\",\"Out split size\":\"[]\"",
            Quoted(&name),
            Quoted(data_type),
        )?;
        if let Some(members) = one.members {
            write!(line, ",\"Group size\":{members}")?;
        }
        if !one.communicator.is_empty() {
            let communicator = Quoted(&one.communicator);
            write!(
                line,
                ",\"Process Group Name\":{communicator},\"Process Group Description\":{communicator},\"Comms Id\":{communicator}"
            )?;
            if let Some(ranks) = self.ranks_of(one) {
                write!(line, ",\"Process Group Ranks\":\"{ranks}\"")?;
            }
        }
        for (key, number) in [
            ("Rank", one.member),
            ("Seq", one.sequence),
            ("seq_num", one.sequence),
        ] {
            if let Some(number) = number {
                write!(line, ",\"{key}\":{number}")?;
            }
        }
        if let Some(peer) = one.peer {
            let key = if name.contains("recv") {
                "Src Rank"
            } else {
                "Dst Rank"
            };
            let rank = self.rank_of_job(one, peer);
            write!(line, ",\"{key}\":{rank}")?;
        }
        Ok(true)
    }

    /// The rank of the job that has a place in an operation's communicator, as far as the ranks of that are listed: so PyTorch names the other side of
    /// a message.
    fn rank_of_job(&self, one: &Collective, place: u64) -> u64 {
        let places = self.places.get(&one.communicator);
        let listed = places.filter(|_| self.ranks_of(one).is_some());
        listed
            .and_then(|places| places.get(&place))
            .map_or(place, |rank| *rank)
    }

    /// The ranks of an operation's communicator, if all are known: from the traces, or because they are all of the job.
    fn ranks_of(&self, one: &Collective) -> Option<&str> {
        let members = one.members.filter(|members| *members > 0)?;
        let known = self.ranks.get(&one.communicator)?;
        let lists = [known, &self.of_job].into_iter();
        let mut complete = lists.filter(|ranks| ranks.count == members);
        complete.next().map(|ranks| ranks.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Call, Collective, Collectives, Ranks};

    /// What the head of this file says.
    #[test]
    fn sizes_of_what_is_kept() {
        assert_eq!(size_of::<Call>(), 24);
        assert_eq!(size_of::<((u64, u64), Collective)>(), 160);
    }

    #[test]
    fn ranks_are_listed_as_pytorch_does() {
        let of = |count: u64| {
            let places = (0..count).map(|place| (place, 2 * place));
            Ranks::of_places(&places.collect())
        };
        assert_eq!(of(3).text, "[0, 2, 4]");
        assert!(of(30).text.ends_with(", 56, 58]") && !of(30).text.contains("..."));
        let long = of(1000);
        assert!(long.text.ends_with(", 54, 56, ..., 1998]"), "{}", long.text);
        assert_eq!((long.count, long.text.split(", ").count()), (1000, 31));
    }

    #[test]
    fn a_place_far_behind_the_others_costs_nothing() {
        let known = BTreeMap::from([(0, 7), (u64::MAX, 8)]);
        assert_eq!(Ranks::of_places(&known).count, 0);
        let of_job = Ranks::listed(u64::MAX, 0..u64::MAX, u64::MAX - 1);
        assert!(of_job.text.ends_with(", 28, ..., 18446744073709551614]"));
    }

    #[test]
    fn the_other_side_of_a_message_is_a_rank_of_the_job_where_those_of_its_group_are_listed() {
        let operation = |communicator: &str| Collective {
            name: "ncclSend".to_owned(),
            communicator: communicator.to_owned(),
            members: Some(2),
            peer: Some(1),
            ..Collective::default()
        };
        let mut all = Collectives::default();
        for (communicator, known) in [
            ("stage", BTreeMap::from([(0, 4), (1, 7)])),
            ("cut", BTreeMap::from([(1, 7)])),
        ] {
            let ranks = Ranks::of_places(&known);
            all.ranks.insert(communicator.to_owned(), ranks);
            all.places.insert(communicator.to_owned(), known);
        }
        assert_eq!(all.rank_of_job(&operation("stage"), 1), 7);
        assert_eq!(all.rank_of_job(&operation("cut"), 1), 1);
    }
}
