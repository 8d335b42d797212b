//! When a GPU was busy, by operations that come nearly in order of time, in bounded memory.

use std::collections::HashMap;

use super::{GpuTime, Operation};

/// The fewest operations that wait for earlier ones, and half of the most: queues are read one after the other.
const WAITING: usize = 1 << 13;
/// Stacks whose idle time is kept apart.
const STACKS_MAX: usize = 1 << 14;

/// The time of a GPU.
#[derive(Debug, Default)]
pub struct Busy {
    waiting: Vec<Operation>,
    first_ns: Option<u64>,
    end_ns: u64,
    busy_ns: u64,
    late_ns: u64,
    submitted_ns: u64,
    /// Of the time in `late_ns`, by the stack of the call that ended it.
    late: HashMap<u64, u64>,
}

impl Busy {
    /// Adds an operation.
    pub fn add(&mut self, operation: Operation) {
        self.waiting.push(operation);
        if self.waiting.len() >= 2 * WAITING {
            self.take_first(WAITING);
        }
    }

    /// Takes so many of those that wait, the earliest.
    fn take_first(&mut self, count: usize) {
        // They consist of a few rising runs, one for each queue: a sort that merges runs costs next to nothing.
        self.waiting.sort();
        let mut waiting = std::mem::take(&mut self.waiting);
        for operation in waiting.drain(..count) {
            self.take(operation);
        }
        self.waiting = waiting;
    }

    /// Takes the earliest operation. What began before the end of those before it adds what is longer.
    fn take(&mut self, operation: Operation) {
        if self.first_ns.is_none() {
            self.first_ns = Some(operation.start_ns);
            self.end_ns = operation.start_ns;
        }
        if operation.start_ns > self.end_ns {
            self.idle(operation);
        }
        let from_ns = operation.start_ns.max(self.end_ns);
        self.busy_ns += operation.end_ns.saturating_sub(from_ns);
        self.end_ns = self.end_ns.max(operation.end_ns);
    }

    /// Divides the idle time before an operation.
    fn idle(&mut self, next: Operation) {
        let Some(submitted_ns) = next.submitted_ns else {
            return;
        };
        let submitted_ns = submitted_ns.clamp(self.end_ns, next.start_ns);
        let late_ns = submitted_ns - self.end_ns;
        self.late_ns += late_ns;
        self.submitted_ns += next.start_ns - submitted_ns;
        if late_ns > 0 && (self.late.len() < STACKS_MAX || self.late.contains_key(&next.stack)) {
            *self.late.entry(next.stack).or_default() += late_ns;
        }
    }

    /// What there is to say; `place` names the place of a stack.
    pub fn finish(mut self, name: String, place: impl Fn(u64) -> Option<String>) -> GpuTime {
        self.take_first(self.waiting.len());
        let mut places: HashMap<String, u64> = HashMap::new();
        for (stack, ns) in self.late {
            if let Some(place) = place(stack) {
                *places.entry(place).or_default() += ns;
            }
        }
        let most = places.into_iter();
        let late_place = most.max_by(|one, other| one.1.cmp(&other.1).then(other.0.cmp(&one.0)));
        GpuTime {
            name,
            total_ns: self.end_ns - self.first_ns.unwrap_or(self.end_ns),
            busy_ns: self.busy_ns,
            late_ns: self.late_ns,
            submitted_ns: self.submitted_ns,
            late_place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(start_ns: u64, end_ns: u64, submitted_ns: u64, stack: u64) -> Operation {
        Operation {
            start_ns,
            end_ns,
            submitted_ns: Some(submitted_ns),
            stack,
        }
    }

    #[test]
    fn idle_time_is_divided_at_the_call_in_any_order() {
        let mut all = [
            operation(100, 200, 50, 1),
            operation(150, 180, 60, 1),
            operation(190, 300, 70, 1),
            operation(500, 600, 450, 2),
            operation(700, 800, 650, 2),
            operation(1000, 1001, 10, 3),
        ];
        for _ in 0..all.len() {
            all.rotate_left(1);
            let mut busy = Busy::default();
            all.iter().for_each(|one| busy.add(*one));
            let told = busy.finish("GPU 0".to_owned(), |stack| Some(format!("at {stack}")));
            let expected = GpuTime {
                name: "GPU 0".to_owned(),
                total_ns: 901,
                busy_ns: 200 + 100 + 100 + 1,
                late_ns: 150 + 50,
                submitted_ns: 50 + 50 + 200,
                late_place: Some(("at 2".to_owned(), 200)),
            };
            assert_eq!(told, expected);
            assert_eq!(told.idle_ns(), 500);
        }
    }

    #[test]
    fn memory_is_bounded_and_sums_stay_exact() {
        let mut busy = Busy::default();
        let count = 6 * WAITING as u64;
        for number in 0..count {
            // Two queues, one read a little later than the other.
            let place = if number % 2 == 0 {
                number + 1000
            } else {
                number
            };
            busy.add(operation(
                10 * place,
                10 * place + 5,
                10 * place - 5 * place.min(1),
                place,
            ));
        }
        assert!(busy.waiting.len() < 2 * WAITING && busy.late.len() <= STACKS_MAX);
        let told = busy.finish(String::new(), |_| None);
        assert_eq!(told.busy_ns, 5 * count);
        assert_eq!(told.idle_ns(), told.late_ns + told.submitted_ns);
    }
}
