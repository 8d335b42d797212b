//! What the numbers of a process stand for: kernels, operations by kind, texts of markers, agents.

use std::collections::HashMap;

use serde_json::Value;

use super::places::Agent;
use super::record::natural;
use crate::model::{Model, TextId};
use crate::read::json::syntax::{Fault, Span, members, value};
use crate::read::json::text::intern;
use crate::read::json::whole;

/// A kind of records, and the names of its operations by their numbers.
#[derive(Debug, Clone, Default)]
struct Kind {
    name: String,
    operations: Vec<TextId>,
}

/// The names of a process.
#[derive(Debug, Default)]
pub(super) struct Names {
    agents: HashMap<u64, Agent>,
    gpus: u32,
    kinds: Vec<Kind>,
    kernels: HashMap<u64, TextId>,
    /// Names that ranges of the program give to the kernels within, by the external correlation.
    renamed: HashMap<u64, TextId>,
    /// Texts of markers, by their correlation.
    messages: HashMap<u64, TextId>,
}

impl Names {
    /// Whether neither kernels nor operations have names yet.
    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.kernels.is_empty()
    }

    /// Takes in an agent.
    pub(super) fn agent(&mut self, bytes: &[u8]) {
        let Ok(agent) = serde_json::from_slice::<Value>(bytes) else {
            return;
        };
        let Some(handle) = whole(&agent["id"]["handle"]) else {
            return;
        };
        // ROCPROFILER_AGENT_TYPE_GPU of rocprofiler-sdk's agent.h.
        let is_gpu = whole(&agent["type"]) == Some(2);
        let number = whole(&agent["logical_node_type_id"]);
        let number = number.and_then(|number| u32::try_from(number).ok());
        let texts = ["product_name", "model_name", "name"].map(|key| agent[key].as_str());
        let name = texts.into_iter().flatten().find(|name| !name.is_empty());
        let ordinal = number.unwrap_or(self.gpus);
        self.gpus += u32::from(is_gpu);
        self.agents.insert(
            handle,
            Agent {
                is_gpu,
                ordinal,
                name: name.unwrap_or_default().to_owned(),
            },
        );
    }

    /// Takes in a kind of records. Kinds are numbered in the order in which they come.
    pub(super) fn kind(&mut self, bytes: &[u8], model: &mut Model) {
        let kind = serde_json::from_slice::<Value>(bytes).unwrap_or(Value::Null);
        let operations = kind["operations"].as_array();
        let names = operations.into_iter().flatten().filter_map(Value::as_str);
        self.kinds.push(Kind {
            name: kind["kind"].as_str().unwrap_or_default().to_owned(),
            operations: names.map(|name| model.texts.intern(name)).collect(),
        });
    }

    /// Takes in a kernel.
    pub(super) fn kernel(&mut self, bytes: &[u8], model: &mut Model) {
        let mut id = Span::default();
        let mut names = [Span::default(); 3];
        let end = members(bytes, 0, |key, at| {
            let (span, behind) = value(bytes, at)?;
            match key {
                b"kernel_id" => id = span,
                b"formatted_kernel_name" => names[0] = span,
                b"demangled_kernel_name" => names[1] = span,
                b"kernel_name" => names[2] = span,
                _ => {}
            }
            Ok(behind)
        });
        let name = names.iter().find(|name| !name.is_empty());
        if let (Ok(_), Some(id), Some(name)) = (end, natural(id.of(bytes)), name) {
            let name = intern(name.of(bytes), &mut model.texts);
            self.kernels.insert(id, name);
        }
    }

    /// Takes in the text of a marker.
    pub(super) fn message(&mut self, bytes: &[u8], model: &mut Model) {
        if let Some((key, text)) = pair(bytes) {
            let text = intern(text, &mut model.texts);
            self.messages.insert(key, text);
        }
    }

    /// Takes in a name that a range gives to kernels.
    pub(super) fn renamed(&mut self, bytes: &[u8], model: &mut Model) {
        if let Some((key, text)) = pair(bytes) {
            let text = intern(text, &mut model.texts);
            self.renamed.insert(key, text);
        }
    }

    /// What an agent is; a GPU if the file does not say.
    pub(super) fn agent_of(&self, handle: u64) -> Agent {
        self.agents.get(&handle).cloned().unwrap_or_else(|| Agent {
            is_gpu: true,
            ordinal: u32::try_from(handle).unwrap_or(0),
            name: String::new(),
        })
    }

    /// Whether an agent is known to be a processor of the host.
    pub(super) fn is_host(&self, handle: u64) -> bool {
        self.agents.get(&handle).is_some_and(|agent| !agent.is_gpu)
    }

    /// The name of a kernel.
    #[inline]
    pub(super) fn kernel_of(&self, id: u64, external: u64, model: &mut Model) -> TextId {
        if external != 0
            && let Some(&name) = self.renamed.get(&external)
        {
            return name;
        }
        match self.kernels.get(&id) {
            Some(&name) => name,
            None => model.texts.intern(&format!("kernel {id}")),
        }
    }

    /// The name of an operation.
    #[inline]
    pub(super) fn operation(&self, kind: u64, operation: u64, model: &mut Model) -> TextId {
        let of_kind = usize::try_from(kind).ok().and_then(|at| self.kinds.get(at));
        let names = of_kind.map(|kind| kind.operations.as_slice());
        let at = usize::try_from(operation).unwrap_or(usize::MAX);
        match names.and_then(|names| names.get(at)) {
            Some(&name) => name,
            None => {
                let kind = of_kind.map_or("call", |kind| kind.name.as_str());
                model.texts.intern(&format!("{kind} {operation}"))
            }
        }
    }

    /// The text of a marker.
    #[inline]
    pub(super) fn message_of(&self, correlation: u64) -> Option<TextId> {
        self.messages.get(&correlation).copied()
    }
}

/// The element of a map: `{"key": 1, "value": "text"}`.
fn pair(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut key, mut text) = (Span::default(), Span::default());
    let end: Result<usize, Fault> = members(bytes, 0, |name, at| {
        let (span, behind) = value(bytes, at)?;
        match name {
            b"key" => key = span,
            b"value" => text = span,
            _ => {}
        }
        Ok(behind)
    });
    end.ok()?;
    Some((natural(key.of(bytes))?, text.of(bytes)))
}
