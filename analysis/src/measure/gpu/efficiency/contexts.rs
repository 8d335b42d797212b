//! Where in a program of PyTorch operations were launched: in which of its modules, or in which function of Python.
//!
//! PyTorch's profiler has a frame for each call of a module, `nn.Module: Linear_3`: the class, and which of its class it is. Modules call others, so each stands in a path.

use std::collections::HashMap;

use super::By;
use crate::program::recorded::{CodeName, Scope};
use rsys_traces::model::{Model, TextId};

/// What frames of modules begin with.
const MODULE: &str = "nn.Module: ";
/// Modules that are further in count for the one at this depth: no model nests deeper, but files may be damaged.
const DEEPEST: u32 = 64;

/// A module in its path, or a function. The first stands for none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    /// What it stands in; 0: nothing.
    pub(super) outer: u32,
    /// The text of the frame.
    pub(super) name: TextId,
    /// How many are around it, with itself.
    pub(super) depth: u32,
    /// How often it was called, as far as operations were launched behind it.
    pub(super) calls: u64,
}

/// All contexts, by number. What one stands in has a smaller number.
#[derive(Debug)]
pub(super) struct Contexts {
    by: By,
    list: Vec<Context>,
    numbers: HashMap<(u32, TextId), u32>,
    /// Whether a frame of this text counts.
    count: HashMap<TextId, bool>,
}

impl Contexts {
    pub(super) fn new(by: By) -> Self {
        let none = Context {
            outer: 0,
            name: TextId::EMPTY,
            depth: 0,
            calls: 0,
        };
        Self {
            by,
            list: vec![none],
            numbers: HashMap::new(),
            count: HashMap::new(),
        }
    }

    /// All of them, the one for none first.
    pub(super) fn list(&self) -> &[Context] {
        &self.list
    }

    /// The contexts of the functions of a thread, by their numbers in `walk_apart`.
    pub(super) fn of_functions(&mut self, nodes: &[(u32, Scope)], model: &Model) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::with_capacity(nodes.len());
        for (number, &(outer, scope)) in nodes.iter().enumerate() {
            let around = match number {
                0 => 0,
                _ => found[outer as usize],
            };
            let by = self.by;
            let counts = *self
                .count
                .entry(scope.name)
                .or_insert_with(|| counts(by, model.text(scope.name)));
            let is_one = number > 0 && counts;
            found.push(if is_one {
                self.within(around, scope.name)
            } else {
                around
            });
        }
        found
    }

    fn within(&mut self, around: u32, name: TextId) -> u32 {
        // Of functions the innermost is all that counts.
        let outer = if self.by == By::Line { 0 } else { around };
        let depth = self.list[outer as usize].depth + 1;
        if depth > DEEPEST {
            return outer;
        }
        let list = &mut self.list;
        *self.numbers.entry((outer, name)).or_insert_with(|| {
            list.push(Context {
                outer,
                name,
                depth,
                calls: 0,
            });
            list.len() as u32 - 1
        })
    }

    /// Counts the calls that a thread made, by what [`Contexts::of_functions`] has found for it.
    pub(super) fn add_calls(&mut self, nodes: &[(u32, Scope)], found: &[u32]) {
        for (&(_, scope), &number) in nodes.iter().zip(found) {
            let context = &mut self.list[number as usize];
            // Others are functions within it.
            if number > 0 && context.name == scope.name {
                context.calls += 1;
            }
        }
    }

    /// What each is called in a row: the classes of the path, `Llama / DecoderLayer / Linear`, or the function, `step (train.py:12)`.
    pub(super) fn texts(&self, model: &Model) -> Vec<String> {
        let mut texts: Vec<String> = Vec::with_capacity(self.list.len());
        for context in &self.list {
            let name = model.text(context.name);
            let outer = texts.get(context.outer as usize);
            texts.push(match (self.by, outer) {
                (By::Line, _) => place(name),
                (_, Some(outer)) if !outer.is_empty() => format!("{outer} / {}", class(name)),
                _ => class(name).to_owned(),
            });
        }
        texts
    }
}

fn counts(by: By, name: &str) -> bool {
    match by {
        By::Module => name.starts_with(MODULE),
        // What is in PyTorch's own files is done for the function that calls it.
        By::Line => {
            let source = CodeName::of(name).source;
            let is_of_torch = source.starts_with("torch/") || source.contains("/torch/");
            !source.is_empty() && !source.starts_with('<') && !is_of_torch
        }
        _ => false,
    }
}

/// A module with its number: `Linear_3`.
pub(super) fn instance(name: &str) -> &str {
    name.strip_prefix(MODULE).unwrap_or(name)
}

/// The class of a module: `Linear`.
pub(super) fn class(name: &str) -> &str {
    let name = instance(name);
    match name.rsplit_once('_') {
        Some((class, number))
            if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            class
        }
        _ => name,
    }
}

/// A function with its file and line.
fn place(name: &str) -> String {
    match CodeName::of(name) {
        CodeName {
            function,
            source,
            line,
        } if line > 0 => format!("{function} ({source}:{line})"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_places_are_read_from_names() {
        for (name, of_class) in [
            ("nn.Module: Linear_12", "Linear"),
            ("nn.Module: My_Block_0", "My_Block"),
            ("nn.Module: Linear", "Linear"),
            ("nn.Module: Odd_", "Odd_"),
        ] {
            assert_eq!(class(name), of_class);
        }
        assert_eq!(place("train.py(12): step"), "step (train.py:12)");
        for (name, counts_as) in [
            ("train.py(12): step", true),
            ("torch/nn/modules/linear.py(5): forward", false),
            ("/venv/site-packages/torch/_tensor.py(5): backward", false),
            ("<frozen importlib>(5): load", false),
            ("<built-in method mm>", false),
        ] {
            assert_eq!(counts(By::Line, name), counts_as, "{name}");
        }
    }
}
