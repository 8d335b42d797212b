//! Operators that compute gradients, by the operators whose gradients these are: they run on a thread of their own, without frames of modules or functions.
//!
//! PyTorch's autograd numbers the operators of the forward pass, and its profiler writes the number at these and at what computes their gradients. Operators without a gradient have
//! the number of the next one that has, so the last to begin counts.

use std::collections::{BTreeMap, HashMap};

use super::contexts::Contexts;
use super::launches::OfThread;
use crate::measure::gpu::launch::contexts::walk_apart;
use crate::program::recorded::{Open, Scope};
use rsys_traces::model::{Model, ProcessId, TextId, ThreadId};

/// Begin, `u64::MAX` less the end, number in autograd, and name of an operator.
pub(super) type NumberedRow = [u64; 4];

/// What autograd calls for each operator of the forward pass, in the order of the backward pass.
const BACKWARD: &str = "autograd::engine::evaluate_function";

/// The contexts of operators of the forward pass, by process and number; 0 where several threads have the number.
#[derive(Debug, Default)]
pub(super) struct Gradients {
    known: HashMap<(ProcessId, u64), u32>,
}

impl Gradients {
    /// Finds the contexts of all operators that have a number.
    pub(super) fn of(
        threads: &mut BTreeMap<ThreadId, OfThread>,
        contexts: &mut Contexts,
        model: &Model,
    ) -> Self {
        let mut found = Self::default();
        for (&thread, of_thread) in threads {
            of_thread.numbered.sort();
            if of_thread.functions.is_empty() || of_thread.numbered.is_empty() {
                continue;
            }
            of_thread.functions.sort();
            let mut places = Vec::new();
            let functions = of_thread.functions.iter();
            let nodes = walk_apart(&of_thread.numbered, functions, |row, place| {
                places.push((row, place));
            });
            let of_nodes = contexts.of_functions(&nodes, model);
            let mut own: HashMap<u64, u32> = HashMap::new();
            for (row, place) in places {
                if !is_backward(&row, model) {
                    own.insert(row[2], of_nodes[place as usize]);
                }
            }
            let process = model.threads[thread.index()].process;
            for (number, context) in own {
                let known = found.known.entry((process, number)).or_insert(context);
                if *known != context {
                    *known = 0;
                }
            }
        }
        found
    }

    /// The contexts of the launches of a thread, with those of gradients where the thread itself had none.
    pub(super) fn filled(
        &self,
        mut contexts: Vec<u32>,
        of_thread: &OfThread,
        process: ProcessId,
        model: &Model,
    ) -> Vec<u32> {
        if self.known.is_empty() || of_thread.numbered.is_empty() {
            return contexts;
        }
        let backward = || {
            let numbered = of_thread.numbered.iter();
            numbered.filter(|row| is_backward(row, model))
        };
        let numbers: Vec<u64> = backward().map(|row| row[2]).collect();
        let slices = backward().map(|[start_ns, width, _, name]| Open {
            start_ns,
            end_ns: u64::MAX - width,
            scope: Scope {
                name: TextId::at(name as usize),
                shapes: TextId::EMPTY,
                is_operator: true,
            },
        });
        let mut places = Vec::new();
        walk_apart(&of_thread.launches, slices, |_, place| places.push(place));
        let of_place = |place: u32| {
            // Slices are numbered in their order, from 1 on.
            let number = numbers.get((place as usize).checked_sub(1)?)?;
            self.known.get(&(process, *number)).copied()
        };
        for (context, place) in contexts.iter_mut().zip(places) {
            if *context == 0 {
                *context = of_place(place).unwrap_or(0);
            }
        }
        contexts
    }
}

fn is_backward(row: &NumberedRow, model: &Model) -> bool {
    model
        .text(TextId::at(row[3] as usize))
        .starts_with(BACKWARD)
}
