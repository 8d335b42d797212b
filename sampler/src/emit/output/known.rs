//! The ids of what comes with nearly every event: keys, categories, texts, sizes.

use rsys_config::CategoryNames;
use rsys_proto::StringId;
use rsys_proto::hashing::FastMap;
use rsys_wire::event::{Category, Key, OpKind};

use super::{Output, categories};
use crate::emit::learned::events::{EventTables, size3_text};

/// Sizes of grids and work-groups that are kept: a program has few. Others are written out.
const SIZES_MAX: usize = 1 << 12;

/// Ids that were asked for before, by small numbers.
#[derive(Debug, Default)]
struct Ids(Vec<Option<StringId>>);

impl Ids {
    #[inline]
    fn get(&mut self, number: usize, intern: impl FnOnce() -> StringId) -> StringId {
        if number >= self.0.len() {
            self.0.resize(number + 1, None);
        }
        *self.0[number].get_or_insert_with(intern)
    }
}

/// The ids of what comes with nearly every event.
#[derive(Debug, Default)]
pub(super) struct KnownIds {
    keys: Ids,
    calls: Ids,
    operations: Ids,
    /// By [`TextNumber`](crate::emit::learned::events::TextNumber).
    texts: Ids,
    sizes: FastMap<[u32; 3], StringId>,
}

impl Output {
    /// The id of a text that events refer to by `key`, if it is known.
    pub fn event_text(&mut self, known: &EventTables, key: u64) -> Option<StringId> {
        let (number, text) = known.numbered_text(key)?;
        let out = self.writer.buffer();
        Some(self.known.texts.get(number.0 as usize, || out.intern(text)))
    }

    /// The id of what an argument is called.
    #[inline]
    pub fn key(&mut self, key: Key) -> StringId {
        let out = self.writer.buffer();
        self.known.keys.get(key as usize, || out.intern(key.name()))
    }

    /// The id of the category of calls, ranges and marks.
    #[inline]
    pub fn call_category(&mut self, category: Category) -> StringId {
        let (out, names) = (self.writer.buffer(), self.category_names);
        let intern = || out.intern(categories::of_call(names, category));
        self.known.calls.get(category as usize, intern)
    }

    /// The id of the category of what GPUs do.
    #[inline]
    pub fn operation_category(&mut self, kind: OpKind, names: CategoryNames) -> StringId {
        let out = self.writer.buffer();
        let intern = || out.intern(categories::of_operation(names, kind));
        self.known.operations.get(kind as usize, intern)
    }

    /// The id of a size in three dimensions as text, unless there were very many different ones.
    pub fn size3(&mut self, size: [u32; 3]) -> Option<StringId> {
        if let Some(&id) = self.known.sizes.get(&size) {
            return Some(id);
        }
        let is_full = self.known.sizes.len() >= SIZES_MAX;
        (!is_full).then(|| {
            let id = self.writer.buffer().intern(&size3_text(size));
            self.known.sizes.insert(size, id);
            id
        })
    }
}
