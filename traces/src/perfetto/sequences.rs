//! The packet sequences of a trace, numbered in the order in which they appear.

use std::collections::HashMap;

/// Sequence ids below this are looked up in pages.
const PAGED_IDS: u32 = 1 << 22;
/// Sequences of one process follow one another.
const PAGE_IDS: usize = 256;

/// Finds the number of a sequence by its id.
#[derive(Debug, Default)]
pub struct SequenceNumbers {
    /// Numbers plus one, by id.
    pages: Vec<Option<Box<[u32; PAGE_IDS]>>>,
    others: HashMap<u32, u32>,
    count: u32,
    /// The sequence that was asked for last, and its number: packets of one sequence follow one another.
    last: Option<(u32, u32)>,
}

impl SequenceNumbers {
    /// The number of the sequence with an id, and whether it appears for the first time.
    #[inline]
    pub fn number(&mut self, id: u32) -> (u32, bool) {
        match self.last {
            Some((last, number)) if last == id => (number, false),
            _ => self.look_up(id),
        }
    }

    fn look_up(&mut self, id: u32) -> (u32, bool) {
        let new = self.count;
        let number = if id < PAGED_IDS {
            let (page, place) = (id as usize / PAGE_IDS, id as usize % PAGE_IDS);
            if page >= self.pages.len() {
                self.pages.resize(page + 1, None);
            }
            let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE_IDS]));
            if page[place] == 0 {
                page[place] = new + 1;
            }
            page[place] - 1
        } else {
            *self.others.entry(id).or_insert(new)
        };
        let is_new = number == new;
        self.count += u32::from(is_new);
        self.last = Some((id, number));
        (number, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_numbered_as_they_appear() {
        let mut numbers = SequenceNumbers::default();
        let ids = [
            0,
            1,
            255,
            256,
            1_000_000,
            PAGED_IDS - 1,
            PAGED_IDS,
            u32::MAX,
        ];
        for is_new in [true, false] {
            for (place, id) in ids.into_iter().enumerate() {
                assert_eq!(numbers.number(id), (place as u32, is_new), "{id}");
            }
        }
    }
}
