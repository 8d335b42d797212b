//! Time by call stack, and what the stacks make of it: operators, functions, a tree.

use super::contexts::Launched;
use super::ledger::{Ledger, Time};
use super::tree::{Node, Tree};
use crate::program::operators::Operators;
use crate::program::recorded::Scope;
use rsys_traces::model::entry;
use rsys_traces::model::{Frame, Framework, Model, StackId, TextId};

/// The outermost frame under which rsys puts the time of kernels.
const GPU_FRAME: &str = "[GPU]";

/// Time by call stack.
#[derive(Debug, Default)]
pub(super) struct StackTimes(Vec<Time>);

impl StackTimes {
    #[inline]
    pub(super) fn add(&mut self, stack: StackId, weight_ns: u64) {
        entry(&mut self.0, stack.index()).add(weight_ns);
    }

    /// The stacks that have time.
    pub(super) fn of<'s>(&'s self, model: &'s Model) -> impl Iterator<Item = (StackId, Time)> + 's {
        let stacks = model.stacks.ids().zip(self.0.iter().copied());
        stacks.filter(|(_, time)| *time != Time::default())
    }
}

/// An entry of a table of operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum OperatorKey {
    Operator(usize),
    NoOperator,
    NoStack,
}

/// An entry of a table of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FunctionKey {
    /// A function and the file that it was loaded from.
    Function(TextId, TextId),
    /// A function that was recorded.
    Recorded(TextId),
    NoStack,
}

/// The kernel of a stack of the time of GPUs, and the stack that launched it: [`StackId::ROOT`] if it is unknown.
fn launched(model: &Model, stack: StackId) -> (TextId, StackId) {
    let Some((kernel, caller)) = model.stacks.split(stack) else {
        return (TextId::EMPTY, StackId::ROOT);
    };
    let has_functions = host_frames(model, caller).next().is_some();
    let caller = if has_functions { caller } else { StackId::ROOT };
    (kernel.function, caller)
}

/// The functions of a stack, the innermost first, without the frame that stands for GPUs.
fn host_frames(model: &Model, stack: StackId) -> impl Iterator<Item = &Frame> {
    let frames = model.stacks.innermost_first(stack);
    frames.filter(|frame| model.text(frame.function) != GPU_FRAME)
}

/// The time of operators.
#[derive(Debug, Default)]
pub(super) struct OperatorTimes {
    pub(super) operators: Operators,
    pub(super) ledger: Ledger<OperatorKey>,
    chain: Vec<usize>,
}

impl OperatorTimes {
    /// Charges a time to the operators of a stack.
    pub(super) fn charge_stack(&mut self, model: &Model, stack: StackId, time: Time) {
        if stack == StackId::ROOT {
            return self.charge_none(time);
        }
        self.operators.of_stack(stack, model, &mut self.chain);
        self.charge_chain(time);
    }

    /// Charges a time to the operators among what was recorded, the innermost first.
    pub(super) fn charge_recorded(
        &mut self,
        model: &Model,
        framework: Framework,
        scopes: &[Scope],
        time: Time,
    ) {
        self.chain.clear();
        for scope in scopes.iter().filter(|scope| scope.is_operator) {
            let [name, shapes] = [scope.name, scope.shapes].map(|id| model.text(id));
            let number = self.operators.named(framework.name(), name, shapes);
            self.chain.push(number);
        }
        self.charge_chain(time);
    }

    /// Charges a time of which no stack is known.
    pub(super) fn charge_none(&mut self, time: Time) {
        self.ledger.charge(&[], OperatorKey::NoStack, time);
    }

    fn charge_chain(&mut self, time: Time) {
        let chain: Vec<OperatorKey> = self
            .chain
            .iter()
            .map(|&number| OperatorKey::Operator(number))
            .collect();
        self.ledger.charge(&chain, OperatorKey::NoOperator, time);
    }

    /// Whether any operator was found.
    pub(super) fn has_operators(&self) -> bool {
        let mut parts = self.ledger.parts();
        parts.any(|(key, _)| matches!(key, OperatorKey::Operator(_)))
    }
}

/// What the stacks of kernels say.
#[derive(Debug, Default)]
pub(super) struct HostTimes {
    pub(super) operators: OperatorTimes,
    pub(super) functions: Ledger<FunctionKey>,
    pub(super) tree: Tree,
}

impl HostTimes {
    /// Charges the time of a kernel under the stack that launched it.
    pub(super) fn charge_kernel(&mut self, model: &Model, stack: StackId, time: Time) {
        let (kernel, caller) = launched(model, stack);
        self.operators.charge_stack(model, caller, time);
        let functions: Vec<FunctionKey> = host_frames(model, caller)
            .map(|frame| FunctionKey::Function(frame.function, frame.mapping))
            .collect();
        self.functions
            .charge(&functions, FunctionKey::NoStack, time);
        let mut path: Vec<Node> = host_frames(model, caller)
            .map(|frame| Node::Function(frame.function))
            .collect();
        if path.is_empty() {
            path.push(Node::NoStack);
        }
        let path = path.into_iter().rev().chain([Node::Kernel(kernel)]);
        self.tree.add(path, time);
    }

    /// Charges the time of kernels to the operators and functions that were recorded around their launch.
    pub(super) fn charge_recorded(&mut self, model: &Model, launched: &Launched<'_>) {
        let Launched {
            thread,
            scopes,
            kernel,
            time,
        } = *launched;
        let process = model.threads.get(thread.index()).map(|one| one.process);
        let framework = process.map(|id| model.process(id).framework);
        let framework = framework.unwrap_or_default();
        self.operators
            .charge_recorded(model, framework, scopes, time);
        let functions = scopes.iter().filter(|scope| !scope.is_operator);
        let functions: Vec<FunctionKey> = functions
            .map(|scope| FunctionKey::Recorded(scope.name))
            .collect();
        self.functions
            .charge(&functions, FunctionKey::NoStack, time);
        let path = scopes.iter().rev().map(|scope| match scope.is_operator {
            true => Node::Operator(scope.name, scope.shapes),
            false => Node::Function(scope.name),
        });
        let none = scopes.is_empty().then_some(Node::NoOperator);
        let path = none.into_iter().chain(path);
        self.tree.add(path.chain([Node::Kernel(kernel)]), time);
    }

    /// Charges a kernel's time of which nothing is known.
    pub(super) fn charge_none(&mut self, time: Time) {
        if time != Time::default() {
            self.operators.charge_none(time);
            self.functions.charge(&[], FunctionKey::NoStack, time);
            self.tree.add([Node::NoStack].into_iter(), time);
        }
    }
}
