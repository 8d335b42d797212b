//! What one call of an operator ran on a GPU, gathered into rows of one kind.
//!
//! An operation belongs to the innermost operator around the call that launched it. If there is no model of that one, it belongs to the next outer operator with a
//! model, as long as nothing in that has a model of its own. Where the work of a call cannot be set against the time of what it ran, its pieces say so ([`Flaw`]): so
//! no work is counted twice, and none without its time.

use std::collections::{HashMap, HashSet};

use super::By;
use super::contexts::Contexts;
use super::gradients::Gradients;
use super::launches::{LaunchRow, Launches, OfThread, What};
use super::sequences::{Sequences, Step};
use super::works::Works;
use crate::containers::packed_rows::PackedRows;
use crate::measure::gpu::copies::direction;
use crate::measure::gpu::launch::contexts::walk_apart;
use crate::program::recorded::Scope;
use rsys_traces::model::{Activity, DeviceId, Model, TextId, entry};
use rsys_traces::work::{Category, category_of_operator, has_model};

/// Of what sort an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Sort {
    /// Kernels, and copies and fills within the GPU's memory.
    Work,
    /// Copies within the GPU's memory that no operator is known of.
    LocalCopy,
    /// Fills likewise.
    Fill,
    /// Copies to or from the host, whichever operator they are of.
    HostCopy,
    /// Copies whose direction is not known.
    OtherCopy,
    /// Collectives.
    Communication,
}

/// What is known of the launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Origin {
    /// It was launched in an operator.
    Operator,
    /// It was launched outside of operators that were recorded.
    NoOperator,
    /// It is of a graph, whose operators ran when it was captured.
    Graph,
    /// No call is known that launched it.
    Unknown,
}

/// Why the work of a call is not that of what it ran here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Flaw {
    /// It is.
    None,
    /// An operation has no duration.
    NoTime,
    /// The call ran on several GPUs.
    SeveralGpus,
    /// An operator within, of the same family, has the work.
    Within,
}

/// What pieces of one kind have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) operator: TextId,
    pub(super) arguments: TextId,
    pub(super) device: DeviceId,
    pub(super) sort: Sort,
    pub(super) origin: Origin,
    pub(super) flaw: Flaw,
    /// Which kernels or copies, by the number of their set.
    pub(super) ran: u32,
    /// Where it was called, by the number of its context.
    pub(super) context: u32,
}

/// Sums over pieces of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// Calls, or operations where no operator is known.
    pub(super) calls: u64,
    pub(super) operations: u64,
    /// Durations of all operations.
    pub(super) ran_ns: u64,
    /// What of the busy time of the GPU is theirs.
    pub(super) busy_ns: u64,
    /// Bytes of copies and fills.
    pub(super) bytes: u64,
    /// Copies and fills that do not say their bytes.
    pub(super) silent: u64,
}

/// All pieces, by kind.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) kinds: Vec<(Key, Sums)>,
    numbers: HashMap<Key, u32>,
    /// Names of what ran, each set once, in the order of their first run.
    pub(super) sets: Vec<Vec<TextId>>,
    set_numbers: HashMap<Vec<TextId>, u32>,
    /// By GPU: begin, end counted from above, and kind of each operation.
    pub(super) devices: Vec<PackedRows<3>>,
    /// What calls do one after the other.
    pub(super) sequences: Sequences,
    pub(super) works: Works,
    /// Modules or functions, where those are asked for.
    pub(super) contexts: Contexts,
}

/// What one call has run so far.
#[derive(Debug, Default)]
struct Piece {
    names: Vec<TextId>,
    /// Begin and duration.
    times: Vec<(u64, u64)>,
    bytes: u64,
    silent: u64,
    is_within: bool,
    context: u32,
}

impl Piece {
    fn add(&mut self, name: TextId, row: &LaunchRow, what: What) {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        self.times.push((row[1], row[2]));
        self.bytes = self.bytes.saturating_add(what.bytes);
        let has_bytes = matches!(what.activity, Activity::Copy | Activity::Fill);
        self.silent += u64::from(has_bytes && what.bytes == 0);
    }
}

/// Which piece an operation is of: the number of the operator's call, the GPU, and the sort.
type PieceKey = (u32, DeviceId, Sort, Origin);

/// The call that a launch belongs to, and whether an operator within it has its work.
type Owner = (u32, bool);

impl Pieces {
    /// Gathers all launches.
    pub(super) fn of(mut launches: Launches, by: By, model: &Model) -> Self {
        launches.settle();
        let mut pieces = Self {
            kinds: Vec::new(),
            numbers: HashMap::new(),
            sets: Vec::new(),
            set_numbers: HashMap::new(),
            devices: Vec::new(),
            sequences: Sequences::default(),
            works: Works::default(),
            contexts: Contexts::new(by),
        };
        let mut models: HashMap<TextId, bool> = HashMap::new();
        let mut has_model = |name: TextId| {
            *models
                .entry(name)
                .or_insert_with(|| has_model(model.text(name)))
        };
        let mut threads = std::mem::take(&mut launches.threads);
        let gradients = Gradients::of(&mut threads, &mut pieces.contexts, model);
        for (&thread, of_thread) in &mut threads {
            of_thread.launches.sort();
            of_thread.operators.sort();
            let mut places = Vec::new();
            let nodes = walk_apart(
                &of_thread.launches,
                of_thread.operators.iter(),
                |_, place| places.push(place),
            );
            let owners = owners(&places, &nodes, &mut has_model, model);
            let rows = of_thread.launches.iter().zip(owners.iter().copied());
            pieces.order(&launches, model, rows, &nodes);
            let process = model.threads.get(thread.index()).map(|one| one.process);
            let contexts = pieces.contexts_of(of_thread, model);
            let contexts = match process {
                Some(process) => gradients.filled(contexts, of_thread, process, model),
                None => contexts,
            };
            let rows = of_thread.launches.iter().zip(owners).zip(contexts);
            pieces.add_thread(&launches, model, rows, &nodes);
        }
        launches.unlinked.sort();
        let unlinked = std::mem::take(&mut launches.unlinked);
        let unlinked = unlinked.iter().map(|row| ((row, (0, false)), 0));
        pieces.add_thread(&launches, model, unlinked, &[]);
        pieces
    }

    /// The context of each launch of a thread.
    fn contexts_of(&mut self, of_thread: &mut OfThread, model: &Model) -> Vec<u32> {
        if of_thread.functions.is_empty() {
            return vec![0; of_thread.launches.len()];
        }
        of_thread.functions.sort();
        let mut places = Vec::new();
        let functions = of_thread.functions.iter();
        let nodes = walk_apart(&of_thread.launches, functions, |_, place| {
            places.push(place)
        });
        let found = self.contexts.of_functions(&nodes, model);
        self.contexts.add_calls(&nodes, &found);
        places.iter().map(|&place| found[place as usize]).collect()
    }

    /// Tells the calls of a thread, in the order of time, to what is found in their order. What is of no operator, or has no work of its own, stands between them.
    fn order(
        &mut self,
        launches: &Launches,
        model: &Model,
        rows: impl Iterator<Item = (LaunchRow, Owner)>,
        nodes: &[(u32, Scope)],
    ) {
        let mut now: Option<(u32, Step)> = None;
        for (row, (owner, is_within)) in rows {
            let what = launches.what(&row);
            let device = DeviceId::new((row[3] & u64::from(u32::MAX)) as usize);
            let name = TextId::at((row[3] >> 32) as usize);
            let is_work = sort(what, name, owner != 0, model) == Sort::Work;
            let is_one = is_work && owner != 0 && !is_within && !what.is_of_graph && row[2] > 0;
            if let Some((number, step)) = &mut now
                && is_one
                && *number == owner
                && step.device == device
            {
                step.ran_ns = step.ran_ns.saturating_add(row[2]);
                continue;
            }
            if let Some((_, step)) = now.take() {
                self.sequences.step(step, &mut self.works, model);
            }
            if !is_one {
                self.sequences.interrupt();
                continue;
            }
            let (_, scope) = nodes[owner as usize];
            let step = Step {
                operator: scope.name,
                arguments: scope.shapes,
                device,
                ran_ns: row[2],
            };
            now = Some((owner, step));
        }
        if let Some((_, step)) = now {
            self.sequences.step(step, &mut self.works, model);
        }
        self.sequences.interrupt();
    }

    /// The operations of a thread with the calls that they belong to, in the order of time.
    fn add_thread(
        &mut self,
        launches: &Launches,
        model: &Model,
        rows: impl Iterator<Item = ((LaunchRow, Owner), u32)>,
        nodes: &[(u32, Scope)],
    ) {
        let mut open: HashMap<PieceKey, Piece> = HashMap::new();
        let mut outermost = 0;
        for ((row, (owner, is_within)), context) in rows {
            let what = launches.what(&row);
            let device = DeviceId::new((row[3] & u64::from(u32::MAX)) as usize);
            let name = TextId::at((row[3] >> 32) as usize);
            let sort = sort(what, name, owner != 0, model);
            let origin = match owner {
                _ if what.is_of_graph => Origin::Graph,
                0 if what.is_linked => Origin::NoOperator,
                0 => Origin::Unknown,
                _ => Origin::Operator,
            };
            let key = (owner, device, sort, origin);
            if origin != Origin::Operator {
                let mut piece = Piece {
                    context,
                    ..Piece::default()
                };
                piece.add(name, &row, what);
                self.add(key, piece, Flaw::None, nodes);
                continue;
            }
            // Calls of operators within another begin and end with it.
            let outer = outermost_of(owner, nodes);
            if std::mem::replace(&mut outermost, outer) != outer {
                self.close(&mut open, nodes);
            }
            // A call is of where its first operation was launched.
            let piece = open.entry(key).or_insert_with(|| Piece {
                context,
                ..Piece::default()
            });
            piece.is_within = is_within;
            piece.add(name, &row, what);
        }
        self.close(&mut open, nodes);
    }

    /// Adds the pieces of calls that have returned.
    fn close(&mut self, open: &mut HashMap<PieceKey, Piece>, nodes: &[(u32, Scope)]) {
        let mut gpus: HashMap<u32, u32> = HashMap::new();
        for (owner, _, sort, _) in open.keys() {
            *gpus.entry(*owner).or_default() += u32::from(*sort == Sort::Work);
        }
        for (key, piece) in open.drain() {
            let (owner, _, sort, _) = key;
            let flaw = match sort {
                Sort::Work if piece.is_within => Flaw::Within,
                Sort::Work if gpus.get(&owner).is_some_and(|count| *count > 1) => Flaw::SeveralGpus,
                _ => Flaw::None,
            };
            self.add(key, piece, flaw, nodes);
        }
    }

    fn add(
        &mut self,
        (owner, device, sort, origin): PieceKey,
        piece: Piece,
        flaw: Flaw,
        nodes: &[(u32, Scope)],
    ) {
        let is_timeless = piece.times.iter().any(|(_, duration_ns)| *duration_ns == 0);
        let scope = nodes
            .get(owner as usize)
            .filter(|_| origin == Origin::Operator);
        let mut names = piece.names;
        // Operations of an operator may change their order from call to call.
        names.sort_unstable();
        let sets = &mut self.sets;
        let ran = *self.set_numbers.entry(names).or_insert_with_key(|names| {
            sets.push(names.clone());
            sets.len() as u32 - 1
        });
        let key = Key {
            operator: scope.map_or(TextId::EMPTY, |(_, scope)| scope.name),
            arguments: scope.map_or(TextId::EMPTY, |(_, scope)| scope.shapes),
            device,
            sort,
            origin,
            flaw: match flaw {
                Flaw::None if is_timeless => Flaw::NoTime,
                flaw => flaw,
            },
            ran,
            context: piece.context,
        };
        let kinds = &mut self.kinds;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            kinds.push((key, Sums::default()));
            kinds.len() as u32 - 1
        });
        let sums = &mut self.kinds[number as usize].1;
        sums.calls += 1;
        sums.operations += piece.times.len() as u64;
        sums.bytes = sums.bytes.saturating_add(piece.bytes);
        sums.silent += piece.silent;
        let rows = entry(&mut self.devices, device.index());
        for (start_ns, duration_ns) in piece.times {
            sums.ran_ns = sums.ran_ns.saturating_add(duration_ns);
            let end_ns = start_ns.saturating_add(duration_ns);
            rows.push([start_ns, u64::MAX - end_ns, u64::from(number)]);
        }
    }
}

fn outermost_of(mut owner: u32, nodes: &[(u32, Scope)]) -> u32 {
    while let Some(&(outer @ 1.., _)) = nodes.get(owner as usize).filter(|_| owner != 0) {
        owner = outer;
    }
    owner
}

/// The call that each launch belongs to, of the innermost calls.
fn owners(
    places: &[u32],
    nodes: &[(u32, Scope)],
    has_model: &mut impl FnMut(TextId) -> bool,
    model: &Model,
) -> Vec<Owner> {
    // Calls with an operator inside that has a model and has launched something, and the families of these operators.
    let mut shared: HashSet<u32> = HashSet::new();
    let mut families: HashSet<(u32, Category)> = HashSet::new();
    let family = |place: u32| category_of_operator(model.text(nodes[place as usize].1.name));
    let outer_of = |place: u32| nodes.get(place as usize).map_or(0, |(outer, _)| *outer);
    let mut last = 0;
    for &place in places {
        if place == 0
            || std::mem::replace(&mut last, place) == place
            || !has_model(nodes[place as usize].1.name)
        {
            continue;
        }
        let of_family = family(place);
        let mut outer = outer_of(place);
        while outer != 0 && (families.insert((outer, of_family)) | shared.insert(outer)) {
            outer = outer_of(outer);
        }
    }
    let owner = |&place: &u32| {
        if place == 0 || has_model(nodes[place as usize].1.name) {
            let is_within = place != 0 && families.contains(&(place, family(place)));
            return (place, is_within);
        }
        let mut outer = outer_of(place);
        while outer != 0 {
            if has_model(nodes[outer as usize].1.name) && !shared.contains(&outer) {
                return (outer, false);
            }
            outer = outer_of(outer);
        }
        (place, false)
    };
    places.iter().map(owner).collect()
}

fn sort(what: What, name: TextId, has_operator: bool, model: &Model) -> Sort {
    match what.activity {
        Activity::Comm => Sort::Communication,
        Activity::Copy => match direction(what.direction, name, model).as_str() {
            "host to device" | "device to host" => Sort::HostCopy,
            "device to device" if has_operator => Sort::Work,
            "device to device" => Sort::LocalCopy,
            _ => Sort::OtherCopy,
        },
        Activity::Fill if !has_operator => Sort::Fill,
        _ => Sort::Work,
    }
}
