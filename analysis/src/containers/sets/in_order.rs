//! Lists whose entries arrive nearly in order.

/// So many entries are searched for the place of one that is late.
const LATE_MAX: usize = 32;

/// Appends an entry, or puts it where it belongs if that is near the end. Several queues that take turns are in order then, without sorting.
#[inline]
pub(crate) fn push<T: Ord + Copy>(list: &mut Vec<T>, entry: T) {
    let is_late = list.last().is_some_and(|last| entry < *last);
    list.push(entry);
    if is_late {
        move_back(list);
    }
}

/// Moves the last entry in front of those near it that are greater.
fn move_back<T: Ord + Copy>(list: &mut [T]) {
    let first = list.len().saturating_sub(LATE_MAX + 1);
    let near = &mut list[first..];
    let mut place = near.len() - 1;
    while place > 0 && near[place] < near[place - 1] {
        near.swap(place, place - 1);
        place -= 1;
    }
}

/// Sorts such a list: nothing is left to do where no entry was very late.
pub(crate) fn sort<T: Ord>(list: &mut [T]) {
    // Not the unstable sort, which does not profit from parts that are in order.
    if !list.is_sorted() {
        list.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_to_stand_in_order() {
        let mut list = Vec::new();
        for number in 0..1000_u32 {
            push(&mut list, number ^ 7);
        }
        assert!(list.is_sorted());
        push(&mut list, 3);
        assert!(!list.is_sorted());
        sort(&mut list);
        assert!(list.is_sorted());
        assert_eq!(list.len(), 1001);
    }
}
