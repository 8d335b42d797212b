//! What calls of operators do one after the other, in the order in which a thread launched them: chains of elementwise operators, of which each reads what the one before it
//! wrote, and equal products of matrices.
//!
//! Traces do not say which tensor it is. A chain goes on where one of the inputs has the dimensions and the bytes of what was written just before; not where an operator that
//! writes in place is called again with equal arguments: a loop over equal tensors (gradients that are added up, an optimiser's parameters) reads nothing that was written before.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use super::Options;
use super::figures::Figures;
use super::rows::worked;
use super::works::Works;
use rsys_traces::model::{DeviceId, Model, TextId};
use rsys_traces::work::peaks::peaks_of;
use rsys_traces::work::{Argument, Arguments, Category, Work, category_of_operator};

/// One call of an operator, and how long its kernels ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) operator: TextId,
    pub(super) arguments: TextId,
    pub(super) device: DeviceId,
    pub(super) ran_ns: u64,
}

/// Elementwise operators over one tensor, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chain {
    /// Their names, with arrows between them.
    pub(super) operators: String,
    /// Shapes and types of the first.
    pub(super) shapes: String,
    pub(super) types: String,
    pub(super) device: DeviceId,
    /// How often they came in this order.
    pub(super) count: u64,
    /// How many operators they are.
    pub(super) length: u64,
    pub(super) ran_ns: u64,
    pub(super) bytes: u128,
    /// Bytes that a fused kernel would neither write nor read again, and their part of the time.
    pub(super) saved_bytes: u128,
    pub(super) saved_ns: f64,
}

/// Equal products of matrices, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Repeat {
    pub(super) operator: String,
    pub(super) shapes: String,
    pub(super) types: String,
    pub(super) device: DeviceId,
    /// How often there were several in a row, and how many calls in all.
    pub(super) runs: u64,
    pub(super) calls: u64,
    pub(super) ran_ns: u64,
    /// Their share of the roofline, if it is known.
    pub(super) share: Option<f64>,
    /// What would be saved if each run were one call.
    pub(super) saved_ns: Option<f64>,
}

/// So many equal products in a row are worth a row. Projections of one tensor come in threes.
const IN_A_ROW: u64 = 4;
/// Longer chains are cut here.
const LONGEST_CHAIN: usize = 24;
/// So many rows of a GPU are kept: what is smaller is nowhere worth a look, and shapes that change with each batch have no end.
const ROWS_OF_GPU: usize = 200;
/// What well-tuned kernels reach of the roofline.
pub(super) const REACHABLE: f64 = 0.7;

/// What counts of a call, the same for all of its name and arguments.
#[derive(Debug)]
enum Form {
    Elementwise(Elementwise),
    Product,
    Other,
}

/// Dimensions of a tensor, and its bytes.
type Sized = (Vec<u64>, u128);

#[derive(Debug)]
struct Elementwise {
    inputs: Vec<Sized>,
    output: Sized,
    /// It writes the tensor that it reads, as `aten::add_` does.
    is_in_place: bool,
    /// Read and written.
    bytes: u128,
}

/// Sums of chains that are alike.
#[derive(Debug, Clone, Copy, Default)]
struct ChainSums {
    count: u64,
    ran_ns: u64,
    bytes: u128,
    saved_bytes: u128,
    saved_ns: f64,
}

/// Sums of runs of equal products.
#[derive(Debug, Clone, Copy, Default)]
struct RepeatSums {
    runs: u64,
    calls: u64,
    ran_ns: u64,
    /// What one call of each run took.
    one_ns: f64,
}

/// A run of equal products that goes on.
#[derive(Debug, Clone, Copy)]
struct Run {
    step: Step,
    calls: u64,
    ran_ns: u64,
}

/// All that was found so far, and what goes on.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    forms: HashMap<(TextId, TextId), Rc<Form>>,
    chain: Vec<(Step, Rc<Form>)>,
    run: Option<Run>,
    /// By operators, arguments of the first, and GPU.
    chains: HashMap<(Vec<TextId>, TextId, DeviceId), ChainSums>,
    repeats: HashMap<(TextId, TextId, DeviceId), RepeatSums>,
}

impl Sequences {
    /// The next call of a thread.
    pub(super) fn step(&mut self, step: Step, works: &mut Works, model: &Model) {
        let form = self.forms.entry((step.operator, step.arguments));
        let form = Rc::clone(form.or_insert_with(|| Rc::new(form_of(step, works, model))));
        self.step_of_chain(step, &form);
        let is_again = self.run.as_ref().is_some_and(|run| {
            let one = run.step;
            (one.operator, one.arguments, one.device)
                == (step.operator, step.arguments, step.device)
        });
        match &mut self.run {
            Some(run) if is_again => {
                run.calls += 1;
                run.ran_ns = run.ran_ns.saturating_add(step.ran_ns);
            }
            _ => {
                self.end_run();
                self.run = matches!(*form, Form::Product).then_some(Run {
                    step,
                    calls: 1,
                    ran_ns: step.ran_ns,
                });
            }
        }
    }

    /// Something else stands between the last call and the next one.
    pub(super) fn interrupt(&mut self) {
        self.end_chain();
        self.end_run();
    }

    fn step_of_chain(&mut self, step: Step, form: &Rc<Form>) {
        let last = self.chain.last();
        let goes_on = last.is_some_and(|(last, of_last)| {
            last.device == step.device
                && self.chain.len() < LONGEST_CHAIN
                && match (&**of_last, &**form) {
                    (Form::Elementwise(before), Form::Elementwise(now)) => {
                        let is_again =
                            (last.operator, last.arguments) == (step.operator, step.arguments);
                        now.inputs.contains(&before.output) && !(before.is_in_place && is_again)
                    }
                    _ => false,
                }
        });
        if !goes_on {
            self.end_chain();
        }
        if matches!(**form, Form::Elementwise(_)) {
            self.chain.push((step, Rc::clone(form)));
        }
    }

    fn end_chain(&mut self) {
        let chain = std::mem::take(&mut self.chain);
        let [(first, _), _, ..] = &chain[..] else {
            return;
        };
        let mut sums = ChainSums {
            count: 1,
            ..ChainSums::default()
        };
        for (number, (step, form)) in chain.iter().enumerate() {
            let Form::Elementwise(form) = &**form else {
                continue;
            };
            sums.ran_ns = sums.ran_ns.saturating_add(step.ran_ns);
            sums.bytes = sums.bytes.saturating_add(form.bytes);
            // What is in between is written once and read once.
            if number + 1 < chain.len() {
                let between = form.output.1.saturating_mul(2);
                sums.saved_bytes = sums.saved_bytes.saturating_add(between);
            }
        }
        sums.saved_bytes = sums.saved_bytes.min(sums.bytes);
        if sums.bytes > 0 {
            sums.saved_ns = sums.ran_ns as f64 * (sums.saved_bytes as f64 / sums.bytes as f64);
        }
        let operators = chain.iter().map(|(step, _)| step.operator).collect();
        let key = (operators, first.arguments, first.device);
        let all = self.chains.entry(key).or_default();
        all.count += 1;
        all.ran_ns = all.ran_ns.saturating_add(sums.ran_ns);
        all.bytes = all.bytes.saturating_add(sums.bytes);
        all.saved_bytes = all.saved_bytes.saturating_add(sums.saved_bytes);
        all.saved_ns += sums.saved_ns;
    }

    fn end_run(&mut self) {
        let Some(Run {
            step,
            calls,
            ran_ns,
        }) = self.run.take()
        else {
            return;
        };
        if calls < IN_A_ROW {
            return;
        }
        let key = (step.operator, step.arguments, step.device);
        let all = self.repeats.entry(key).or_default();
        all.runs += 1;
        all.calls += calls;
        all.ran_ns = all.ran_ns.saturating_add(ran_ns);
        all.one_ns += ran_ns as f64 / calls as f64;
    }

    /// The chains of each GPU that save most, the largest saving first.
    pub(super) fn chains(&self, model: &Model) -> Vec<Chain> {
        let chains = self
            .chains
            .iter()
            .map(|((operators, first, device), sums)| {
                let (shapes, types) = told(*first, model);
                let names: Vec<&str> = operators.iter().map(|&name| model.text(name)).collect();
                Chain {
                    operators: names.join(" \u{2192} "),
                    shapes,
                    types,
                    device: *device,
                    count: sums.count,
                    length: operators.len() as u64,
                    ran_ns: sums.ran_ns,
                    bytes: sums.bytes,
                    saved_bytes: sums.saved_bytes,
                    saved_ns: sums.saved_ns,
                }
            });
        let mut chains: Vec<Chain> = chains.collect();
        let places = places(model);
        chains.sort_by_cached_key(|one| {
            let names = (one.operators.clone(), one.shapes.clone(), one.types.clone());
            (
                Reverse(one.saved_ns as u64),
                names,
                places.get(one.device.index()).copied(),
            )
        });
        keep_largest(&mut chains, |one| one.device);
        chains
    }

    /// The runs of equal products that took each GPU longest, the longest time first.
    pub(super) fn repeats(
        &self,
        model: &Model,
        works: &mut Works,
        options: &Options,
    ) -> Vec<Repeat> {
        let repeats = self.repeats.iter();
        let repeats = repeats.map(|(&(operator, arguments, device), sums)| {
            let (shapes, types) = told(arguments, model);
            let mut figures = Figures {
                calls: sums.calls,
                ran_ns: sums.ran_ns,
                ..Figures::default()
            };
            let peaks = peaks_of(&model.device(device).name, &options.peaks);
            let is_known = match works.of(operator, arguments, model) {
                Ok(work) => worked(&mut figures, work, peaks, false).is_ok(),
                Err(_) => false,
            };
            let share = figures.share().filter(|_| is_known);
            Repeat {
                operator: model.text(operator).to_owned(),
                shapes,
                types,
                device,
                runs: sums.runs,
                calls: sums.calls,
                ran_ns: sums.ran_ns,
                share,
                saved_ns: share.map(|_| {
                    // All at once take no less than one of them.
                    let batched_ns = (figures.least_ns / REACHABLE).max(sums.one_ns);
                    (sums.ran_ns as f64 - batched_ns).max(0.0)
                }),
            }
        });
        let mut repeats: Vec<Repeat> = repeats.collect();
        let places = places(model);
        repeats.sort_by_cached_key(|one| {
            let names = (one.operator.clone(), one.shapes.clone(), one.types.clone());
            let place = places.get(one.device.index()).copied();
            (Reverse(one.ran_ns), names, place)
        });
        keep_largest(&mut repeats, |one| one.device);
        repeats
    }
}

/// Keeps the first [`ROWS_OF_GPU`] of each GPU.
fn keep_largest<T>(list: &mut Vec<T>, device: impl Fn(&T) -> DeviceId) {
    let mut kept: HashMap<DeviceId, usize> = HashMap::new();
    list.retain(|one| {
        let count = kept.entry(device(one)).or_default();
        *count += 1;
        *count <= ROWS_OF_GPU
    });
}

/// Where each GPU stands in tables.
fn places(model: &Model) -> Vec<usize> {
    let mut places = vec![usize::MAX; model.devices.len()];
    for (place, id) in model.devices_in_order().into_iter().enumerate() {
        places[id.index()] = place;
    }
    places
}

/// Shapes and types as people write them.
fn told(arguments: TextId, model: &Model) -> (String, String) {
    let read = Arguments::read(model.text(arguments));
    read.map_or_else(|_| Default::default(), |read| (read.shapes(), read.types()))
}

fn form_of(step: Step, works: &mut Works, model: &Model) -> Form {
    let name = model.text(step.operator);
    let category = category_of_operator(name);
    if !matches!(category, Category::Elementwise | Category::Gemm) {
        return Form::Other;
    }
    let Ok(work) = works.of(step.operator, step.arguments, model) else {
        return Form::Other;
    };
    match category {
        Category::Gemm => Form::Product,
        // A compiler has fused what it could.
        _ if name.starts_with("triton_") => Form::Other,
        _ => {
            let found = elementwise(work, name, model.text(step.arguments));
            found.map_or(Form::Other, Form::Elementwise)
        }
    }
}

/// What an elementwise operator reads and writes, if the trace has all of it.
fn elementwise(work: &Work, operator: &str, arguments: &str) -> Option<Elementwise> {
    let (read, written) = work.bytes.clone().ok()?;
    let arguments = Arguments::read(arguments).ok()?;
    let tensors = arguments.list.iter().filter_map(|argument| match argument {
        Argument::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    let mut output: Vec<u64> = Vec::new();
    let mut inputs = Vec::new();
    for tensor in tensors {
        let bytes = u128::from(tensor.scalar.clone().ok()?.bytes());
        let elements = elements(&tensor.dimensions);
        inputs.push((tensor.dimensions.clone(), elements.saturating_mul(bytes)));
        output = broadcast(&output, &tensor.dimensions);
    }
    // Single numbers are no tensor that is worth a kernel.
    (elements(&output) > 1 && written > 0).then_some(Elementwise {
        inputs,
        output: (output, written),
        is_in_place: operator.ends_with('_'),
        bytes: read.saturating_add(written),
    })
}

/// How many elements dimensions are.
fn elements(dimensions: &[u64]) -> u128 {
    let sizes = dimensions.iter().map(|&size| u128::from(size));
    sizes.fold(1, u128::saturating_mul)
}

/// The dimensions of the result of two tensors, the last ones against each other.
fn broadcast(one: &[u64], other: &[u64]) -> Vec<u64> {
    let (long, short) = match one.len() >= other.len() {
        true => (one, other),
        false => (other, one),
    };
    let outside = long.len() - short.len();
    let mut sizes = long.to_vec();
    for (size, &of_short) in sizes[outside..].iter_mut().zip(short) {
        *size = if *size == 1 { of_short } else { *size };
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::broadcast;

    #[test]
    fn results_are_as_wide_as_both() {
        assert_eq!(broadcast(&[4, 1, 3], &[5, 1]), [4, 5, 3]);
        assert_eq!(broadcast(&[], &[2, 3]), [2, 3]);
        assert_eq!(broadcast(&[1], &[0]), [0]);
    }
}
