//! Rows: what tells them apart, and the figures of each.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::busy;
use super::figures::Figures;
use super::modules::{Module, tree};
use super::pieces::{Flaw, Key, Origin, Pieces, Sort, Sums};
use super::sequences::{Chain, Repeat};
use super::works::Works;
use super::{By, Options};
use rsys_traces::model::{DeviceId, Model, TextId};
use rsys_traces::work::peaks::{Peaks, peaks_of};
use rsys_traces::work::{
    Arguments, Category, Engine, Scalar, Why, Work, category_of_kernel, category_of_operator,
};

/// What tells rows apart. What does not is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct RowKey {
    pub(super) operator: String,
    pub(super) category: Option<Category>,
    pub(super) shapes: String,
    pub(super) types: String,
    /// Of what no operator is known, or where kernels tell rows apart.
    pub(super) ran: String,
    /// Where the GPU stands in tables: numbers of GPUs are in the order in which files were read.
    pub(super) place: usize,
    pub(super) device: Option<DeviceId>,
    pub(super) rank: Option<u64>,
    /// Copies over the link to the host are rows of their own.
    pub(super) is_of_link: bool,
    /// The modules, or the function, in which it was called, where those tell rows apart.
    pub(super) context: String,
    /// Why there is no figure, where shapes tell rows apart: those that cannot be read look alike.
    pub(super) why: String,
}

/// A row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) key: RowKey,
    pub(super) figures: Figures,
}

/// All rows, and the same by family and by GPU.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The largest busy time first.
    pub(super) rows: Vec<Row>,
    pub(super) devices: BTreeMap<DeviceId, Figures>,
    /// The best share of the roofline of each family.
    pub(super) best: BTreeMap<Category, f64>,
    /// Shares above 1 were reached.
    pub(super) is_beyond: bool,
    /// Elementwise operators over one tensor, one after the other; the largest saving first.
    pub(super) chains: Vec<Chain>,
    /// Equal products, one after the other; the longest first.
    pub(super) repeats: Vec<Repeat>,
    /// Modules as a tree, where they are asked for.
    pub(super) modules: Vec<Module>,
}

impl Rows {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Rows with less than this part of their family's time say nothing of what the family can reach, if others have more.
const LEAST_PART: f64 = 0.01;
/// Where more than this share of the roofline was reached, shapes or durations are wrong rather than caches good.
const MOST_SHARE: f64 = 2.0;

/// The rows of all pieces.
pub(super) fn of(mut pieces: Pieces, model: &Model, options: &Options) -> Rows {
    let labels = Labels::of(&pieces, model);
    let mut order: Vec<usize> = (0..pieces.kinds.len()).collect();
    order.sort_by_cached_key(|&at| labels.full(&pieces.kinds[at].0));
    let mut ranks = vec![0_u64; order.len()];
    for (rank, &at) in (0..).zip(&order) {
        ranks[at] = rank;
    }
    let rank = |kind: u64| ranks.get(kind as usize).copied().unwrap_or(u64::MAX);
    for device in &mut pieces.devices {
        busy::charge(device, rank, |kind, own_ns| {
            if let Some((_, sums)) = pieces.kinds.get_mut(kind as usize) {
                sums.busy_ns += own_ns;
            }
        });
    }
    // What is small is told apart first, by all that counts for its figures.
    let mut details: Vec<(RowKey, Figures)> = Vec::with_capacity(order.len());
    let mut works = std::mem::take(&mut pieces.works);
    for &at in &order {
        let (key, sums) = &pieces.kinds[at];
        let figures = figures(&mut works, key, sums, &labels, model, options);
        let mut full = labels.full(key);
        full.why = figures.reason().unwrap_or_default().to_owned();
        details.push((full, figures));
    }
    let best = best(&details);
    let mut rows: BTreeMap<RowKey, Figures> = BTreeMap::new();
    let mut devices: BTreeMap<DeviceId, Figures> = BTreeMap::new();
    let mut of_contexts: BTreeMap<u32, Figures> = BTreeMap::new();
    for (&at, (key, mut figures)) in order.iter().zip(details) {
        let of_family = key.category.and_then(|category| best.get(&category));
        figures.back_at_peak_ns = figures.back_at(1.0);
        figures.back_ns = match (options.target, of_family) {
            (Some(target), _) => figures.back_at(target),
            (None, Some(&best)) => figures.back_at(best),
            (None, None) => 0.0,
        };
        if let Some(device) = key.device {
            devices.entry(device).or_default().add(&figures);
        }
        let context = pieces.kinds[at].0.context;
        of_contexts.entry(context).or_default().add(&figures);
        rows.entry(shortened(key, options.by, model))
            .or_default()
            .add(&figures);
    }
    let mut rows: Vec<Row> = rows
        .into_iter()
        .map(|(key, figures)| Row { key, figures })
        .collect();
    rows.sort_by_key(|row| Reverse(row.figures.busy_ns));
    let is_beyond = rows
        .iter()
        .any(|row| row.figures.share().is_some_and(|share| share > 1.0));
    Rows {
        rows,
        devices,
        best,
        is_beyond,
        chains: pieces.sequences.chains(model),
        repeats: pieces.sequences.repeats(model, &mut works, options),
        modules: match options.by {
            By::Module => tree(&pieces.contexts, of_contexts, model),
            _ => Vec::new(),
        },
    }
}

/// The best share of the roofline in each family, of shapes that have some part of its time; 1 at most.
fn best(details: &[(RowKey, Figures)]) -> BTreeMap<Category, f64> {
    type Shapes<'k> = (Option<Category>, &'k str, &'k str, &'k str, usize, bool);
    let mut by_shapes: BTreeMap<Shapes<'_>, Figures> = BTreeMap::new();
    for (key, figures) in details {
        let link = key.is_of_link;
        let shapes = (
            key.category,
            &*key.operator,
            &*key.shapes,
            &*key.types,
            key.place,
            link,
        );
        by_shapes.entry(shapes).or_default().add(figures);
    }
    // The time of each family, and of the largest row of it.
    let mut whole: BTreeMap<Category, (u64, u64)> = BTreeMap::new();
    for ((category, ..), figures) in &by_shapes {
        if let Some(category) = category {
            let (sum_ns, most_ns) = whole.entry(*category).or_default();
            *sum_ns += figures.least_of_ns;
            *most_ns = figures.least_of_ns.max(*most_ns);
        }
    }
    let mut best: BTreeMap<Category, f64> = BTreeMap::new();
    for ((category, ..), figures) in by_shapes {
        let Some((category, share)) = category.zip(figures.share()) else {
            continue;
        };
        let (sum_ns, most_ns) = whole.get(&category).copied().unwrap_or_default();
        let least_ns = (sum_ns as f64 * LEAST_PART).min(most_ns as f64);
        if figures.least_of_ns as f64 >= least_ns && share <= MOST_SHARE {
            let kept = best.entry(category).or_default();
            *kept = kept.max(share.min(1.0));
        }
    }
    best
}

/// The key of a row, of which as much is kept as tells rows apart.
fn shortened(full: RowKey, by: By, model: &Model) -> RowKey {
    match by {
        By::Shapes => RowKey {
            // Where an operator is known, its kernels are no matter.
            ran: if full.operator.is_empty() {
                full.ran
            } else {
                String::new()
            },
            ..full
        },
        By::Operator => RowKey {
            ran: if full.operator.is_empty() {
                full.ran
            } else {
                String::new()
            },
            operator: full.operator,
            category: full.category,
            is_of_link: full.is_of_link,
            ..RowKey::default()
        },
        By::Category => RowKey {
            category: full.category,
            ..RowKey::default()
        },
        By::Kernel => RowKey {
            ran: full.ran,
            category: full.category,
            is_of_link: full.is_of_link,
            ..RowKey::default()
        },
        By::Rank => RowKey {
            rank: full
                .device
                .and_then(|device| model.process(model.device(device).process).rank),
            ..RowKey::default()
        },
        By::Module | By::Line => RowKey {
            context: full.context,
            ..RowKey::default()
        },
    }
}

/// Texts of keys.
struct Labels<'m> {
    model: &'m Model,
    /// Of each set of kernels.
    sets: Vec<String>,
    /// Whether a set has kernels that round singles.
    are_rounded: Vec<bool>,
    shapes: HashMap<TextId, (String, String)>,
    /// Where each GPU stands in tables.
    places: Vec<usize>,
    contexts: Vec<String>,
}

impl<'m> Labels<'m> {
    fn of(pieces: &Pieces, model: &'m Model) -> Self {
        let mut sets = Vec::new();
        let mut are_rounded = Vec::new();
        for set in &pieces.sets {
            let mut names: Vec<&str> = set.iter().map(|&name| model.text(name)).collect();
            names.sort_unstable();
            // Libraries say it in the names of their kernels.
            let is_rounded = |name: &&str| {
                let name = name.to_ascii_lowercase();
                name.contains("tf32") || name.contains("xf32")
            };
            are_rounded.push(names.iter().any(is_rounded));
            sets.push(names.join(" + "));
        }
        let mut shapes = HashMap::new();
        for (key, _) in &pieces.kinds {
            shapes.entry(key.arguments).or_insert_with(|| {
                let read = Arguments::read(model.text(key.arguments));
                read.map_or_else(|_| Default::default(), |read| (read.shapes(), read.types()))
            });
        }
        let mut places = vec![0; model.devices.len()];
        for (place, id) in model.devices_in_order().into_iter().enumerate() {
            places[id.index()] = place;
        }
        Self {
            model,
            places,
            contexts: pieces.contexts.texts(model),
            sets,
            are_rounded,
            shapes,
        }
    }

    fn ran(&self, key: &Key) -> &str {
        self.sets.get(key.ran as usize).map_or("", String::as_str)
    }

    /// All that tells kinds of pieces apart.
    fn full(&self, key: &Key) -> RowKey {
        let operator = self.model.text(key.operator);
        let ran = self.ran(key);
        let (shapes, types) = self.shapes.get(&key.arguments).cloned().unwrap_or_default();
        RowKey {
            operator: operator.to_owned(),
            category: Some(category(key, operator, ran)),
            shapes,
            types,
            ran: ran.to_owned(),
            place: self
                .places
                .get(key.device.index())
                .copied()
                .unwrap_or(usize::MAX),
            device: Some(key.device),
            is_of_link: key.sort == Sort::HostCopy,
            context: self
                .contexts
                .get(key.context as usize)
                .cloned()
                .unwrap_or_default(),
            ..RowKey::default()
        }
    }
}

fn category(key: &Key, operator: &str, ran: &str) -> Category {
    match key.sort {
        Sort::Communication => Category::Communication,
        Sort::HostCopy | Sort::OtherCopy | Sort::LocalCopy | Sort::Fill => Category::Copy,
        Sort::Work if operator.is_empty() => category_of_kernel(ran),
        Sort::Work => match category_of_operator(operator) {
            Category::Other => category_of_kernel(ran),
            known => known,
        },
    }
}

/// The figures of pieces of one kind.
fn figures(
    works: &mut Works,
    key: &Key,
    sums: &Sums,
    labels: &Labels<'_>,
    model: &Model,
    options: &Options,
) -> Figures {
    let mut figures = Figures {
        calls: sums.calls,
        operations: sums.operations,
        busy_ns: sums.busy_ns,
        ran_ns: sums.ran_ns,
        ..Figures::default()
    };
    let device = model.device(key.device);
    let peaks = peaks_of(&device.name, &options.peaks);
    let outcome = match (key.sort, key.origin) {
        _ if key.flaw != Flaw::None => Err(flaw(key.flaw).to_owned()),
        (Sort::Communication, _) => {
            Err("rsys-report collectives says how fast collectives were".to_owned())
        }
        (Sort::OtherCopy, _) => Err("the direction of its copies is not in the trace".to_owned()),
        (Sort::HostCopy | Sort::LocalCopy | Sort::Fill, _) => {
            copied(&mut figures, key, sums, peaks)
        }
        (Sort::Work, Origin::Operator) => {
            let work = works.of(key.operator, key.arguments, model);
            let is_rounded = labels
                .are_rounded
                .get(key.ran as usize)
                .copied()
                .unwrap_or(false);
            match work {
                Ok(work) => worked(&mut figures, work, peaks, is_rounded),
                Err(why) => Err(why.to_string()),
            }
        }
        (Sort::Work, Origin::NoOperator) => {
            Err("it was launched outside of operators that were recorded".to_owned())
        }
        (Sort::Work, Origin::Graph) => {
            Err("it is of a graph, whose operators ran when it was captured".to_owned())
        }
        (Sort::Work, Origin::Unknown) => {
            Err("the call that launched it is not in the trace".to_owned())
        }
    };
    let outcome = outcome.and_then(|()| match peaks {
        Some(_) => Ok(()),
        None => Err(no_peaks(&device.name)),
    });
    if let Err(reason) = outcome {
        figures.reasons.insert(reason, sums.busy_ns);
    }
    figures
}

fn flaw(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::None => "",
        Flaw::NoTime => "the trace has no duration of some of its operations",
        Flaw::SeveralGpus => "it ran on several GPUs, and what each of them did is not known",
        Flaw::Within => "an operator within it has the work",
    }
}

fn no_peaks(gpu: &str) -> String {
    match gpu {
        "" => {
            "the trace does not name its GPU, so its peaks are not known (--peaks FILE)".to_owned()
        }
        gpu => format!("the peaks of the GPU {gpu} are not known (--peaks FILE)"),
    }
}

/// Figures of copies and fills, from the bytes that they say.
fn copied(
    figures: &mut Figures,
    key: &Key,
    sums: &Sums,
    peaks: Option<&Peaks>,
) -> Result<(), String> {
    if sums.silent > 0 || sums.bytes == 0 {
        return Err("its bytes are not in the trace".to_owned());
    }
    let bytes = u128::from(sums.bytes) * if key.sort == Sort::LocalCopy { 2 } else { 1 };
    figures.bytes = bytes;
    figures.bytes_ns = sums.ran_ns;
    figures.is_of_link = key.sort == Sort::HostCopy;
    figures.is_of_memory = !figures.is_of_link;
    let Some(peaks) = peaks else {
        return Ok(());
    };
    let rate = match key.sort {
        Sort::HostCopy => (peaks.host > 0.0).then_some(peaks.host * 1e12),
        _ => peaks.bytes_per_s(),
    };
    let rate =
        rate.ok_or_else(|| format!("no peak of the link to the host is known of {}", peaks.name))?;
    figures.least_memory_ns = bytes as f64 / rate * 1e9;
    figures.least_ns = figures.least_memory_ns;
    figures.least_of_ns = sums.ran_ns;
    Ok(())
}

/// No call does more: this takes the fastest GPU an hour, and that all memory of a large node.
const MOST_OPERATIONS: u128 = 10_u128.pow(19);
const MOST_BYTES: u128 = 1 << 43;

/// Figures of an operator's work.
pub(super) fn worked(
    figures: &mut Figures,
    work: &Work,
    peaks: Option<&Peaks>,
    is_rounded: bool,
) -> Result<(), String> {
    let calls = u128::from(figures.calls);
    let too_large = || Why::TooLarge.to_string();
    figures.flop = work.operations.checked_mul(calls).ok_or_else(too_large)?;
    figures.flop_ns = figures.ran_ns;
    if work.operations > MOST_OPERATIONS {
        figures.flop = 0;
        figures.flop_ns = 0;
        return Err(too_large());
    }
    let bytes = work.all_bytes().map_err(|why| why.to_string())?;
    if bytes > MOST_BYTES {
        figures.flop = 0;
        figures.flop_ns = 0;
        return Err(too_large());
    }
    figures.is_of_memory = true;
    figures.bytes = bytes.checked_mul(calls).ok_or_else(too_large)?;
    figures.bytes_ns = figures.ran_ns;
    if figures.bytes == 0 && figures.flop == 0 {
        return Err("one of its dimensions is 0, so there is nothing to do".to_owned());
    }
    if let (Engine::Matrix, Some(scalar)) = (work.engine, work.scalar) {
        figures.computed_in.insert(match scalar {
            Scalar::F32 if is_rounded => "tf32",
            scalar => scalar.name(),
        });
    }
    let Some(peaks) = peaks else {
        return Ok(());
    };
    let memory = peaks
        .bytes_per_s()
        .ok_or_else(|| format!("no peak of the memory is known of {}", peaks.name))?;
    let memory_ns = figures.bytes as f64 / memory * 1e9;
    let compute_ns = match (figures.flop, work.scalar) {
        (0, _) => 0.0,
        (_, None) => return Err(Why::NoTypes.to_string()),
        (flop, Some(scalar)) => {
            let rate = peaks.operations_per_s(work.engine, scalar, is_rounded);
            let rate = rate.ok_or_else(|| {
                let name = match scalar {
                    Scalar::F32 if is_rounded => "tf32",
                    scalar => scalar.name(),
                };
                format!("no peak of {name} is known for {}", peaks.name)
            })?;
            flop as f64 / rate * 1e9
        }
    };
    figures.least_compute_ns = compute_ns;
    figures.least_memory_ns = memory_ns;
    figures.least_ns = compute_ns.max(memory_ns);
    figures.least_of_ns = figures.ran_ns;
    Ok(())
}
