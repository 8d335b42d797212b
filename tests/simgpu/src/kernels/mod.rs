//! Kernels: their names, and the effects of those that only move data.
//!
//! Programs' kernels have no effect. The runtimes' own ones for copies and fills are recognised and executed, because
//! loading code, `hipMemset` and copies on one device depend on them.

mod code_object;
mod hip_moves;
mod moves;
mod rocr_moves;
mod rules;

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::{Unmapped, View};
use crate::packet::Dispatch;
use crate::settings::Machine;
use moves::Recipe;

/// What is known of a kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Its mangled name.
    pub name: String,
    /// Indices of the rules about this name.
    pub rules: Vec<usize>,
    recipe: Option<Recipe>,
}

impl Kernel {
    /// Moves the data that this dispatch moves.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn apply(&self, view: &mut View, dispatch: &Dispatch) -> Result<(), Unmapped> {
        match self.recipe {
            Some(recipe) => recipe(view, dispatch.arguments, dispatch)?.carry_out(view),
            None => Ok(()),
        }
    }

    /// Where this dispatch begins to read and to write and how many bytes it moves, if it is known to move any.
    pub fn extent(&self, view: &mut View, dispatch: &Dispatch) -> Option<(u64, u64, u64)> {
        let recipe = self.recipe?;
        recipe(view, dispatch.arguments, dispatch)
            .ok()
            .map(|what| what.extent())
    }
}

/// Kernels that were looked up.
#[derive(Debug)]
pub struct Kernels {
    machine: &'static Machine,
    by_object: HashMap<u64, Arc<Kernel>>,
    /// Of the memory, when the kernels were looked up: what is freed may hold others later.
    generation: u64,
}

impl Kernels {
    /// Knows nothing yet.
    pub fn new(machine: &'static Machine) -> Self {
        Self {
            machine,
            by_object: HashMap::new(),
            generation: 0,
        }
    }

    /// The kernel with this descriptor.
    ///
    /// # Errors
    /// When there is nothing.
    pub fn find(&mut self, view: &mut View, object: u64) -> Result<Arc<Kernel>, Unmapped> {
        let generation = view.generation();
        if generation != self.generation {
            self.by_object.clear();
            self.generation = generation;
        }
        if let Some(kernel) = self.by_object.get(&object) {
            return Ok(Arc::clone(kernel));
        }
        let kernel = Arc::new(self.look_up(view, object)?);
        self.by_object.insert(object, Arc::clone(&kernel));
        Ok(kernel)
    }

    fn look_up(&self, view: &mut View, object: u64) -> Result<Kernel, Unmapped> {
        let place = view.find(object).ok_or(Unmapped(object))?;
        let (name, recipe): (String, Option<Recipe>) =
            match code_object::kernel_name(&place, object) {
                Some(name) => {
                    let recipe = hip_moves::recipe(&name);
                    (name, recipe)
                }
                None => match rocr_moves::recipe(&place) {
                    Some((name, recipe)) => (name.to_owned(), Some(recipe)),
                    None => (format!("kernel_{object:x}"), None),
                },
            };
        let rules = self.machine.kernels.iter().enumerate();
        let rules = rules.filter(|(_, rule)| rules::matches_name(rule, &name));
        let rules = rules.map(|(index, _)| index).collect();
        Ok(Kernel {
            name,
            rules,
            recipe,
        })
    }
}
