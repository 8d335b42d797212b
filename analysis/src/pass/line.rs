//! Batches on their way from the threads that read to those that measure.
//!
//! Batches stand in one line, and every question takes all of them in its order. Whichever thread has nothing to do goes on with the question that
//! is furthest behind. A batch leaves the line when all questions have taken it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Input;
use crate::measure::Measure;
use rsys_traces::model::Batch;

/// Batches that stand in the line at most: so far questions may be apart.
const BATCHES: usize = 8;

/// The line.
pub(super) struct Line<'m> {
    state: Mutex<State<'m>>,
    changed: Condvar,
}

struct State<'m> {
    batches: VecDeque<Arc<Batch>>,
    /// The number of the first of them.
    first: u64,
    questions: Vec<Question<'m>>,
    /// Batches without records, whose memory is used again.
    emptied: Vec<Batch>,
    /// Threads that may bring more batches.
    readers: usize,
    /// A thread has panicked: nobody waits any more.
    is_broken: bool,
}

struct Question<'m> {
    /// `None` while a thread is at it.
    measure: Option<&'m mut dyn Measure>,
    /// The number of the batch that it takes next.
    next: u64,
}

impl<'m> Line<'m> {
    pub(super) fn new(measures: &'m mut [Box<dyn Measure>], readers: usize) -> Self {
        let questions = measures.iter_mut().map(|measure| Question {
            measure: Some(measure.as_mut()),
            next: 0,
        });
        let state = State {
            batches: VecDeque::new(),
            first: 0,
            questions: questions.collect(),
            emptied: Vec::new(),
            readers,
            is_broken: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'m>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'l>(&self, state: MutexGuard<'l, State<'m>>) -> MutexGuard<'l, State<'m>> {
        let woken = self.changed.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread brings batches as long as this lives.
    pub(super) fn reading(&self) -> Reading<'_, 'm> {
        Reading(self)
    }

    /// A batch without records.
    pub(super) fn empty(&self) -> Batch {
        self.lock().emptied.pop().unwrap_or_default()
    }

    /// Puts a batch at the end of the line, when there is room. `false` if it will not be taken.
    pub(super) fn push(&self, batch: Batch) -> bool {
        let mut state = self.lock();
        while state.batches.len() >= BATCHES && !state.is_broken {
            state = self.wait(state);
        }
        state.batches.push_back(Arc::new(batch));
        self.changed.notify_all();
        !state.is_broken
    }

    /// Shows batches to questions until all have taken the last one.
    pub(super) fn measure(&self, input: &Input<'_>) {
        let _watch = Watch(self);
        let mut state = self.lock();
        while !state.is_broken {
            if let Some((place, measure, batch)) = state.work() {
                drop(state);
                input.show(&batch, measure);
                // Before the line is told, so that whoever takes the batch out is its only owner.
                drop(batch);
                state = self.lock();
                state.done(place, measure);
                self.changed.notify_all();
            } else if state.is_done() {
                return;
            } else {
                state = self.wait(state);
            }
        }
    }
}

impl<'m> State<'m> {
    /// The next batch for the question that is furthest behind of those that no thread is at.
    fn work(&mut self) -> Option<(usize, &'m mut dyn Measure, Arc<Batch>)> {
        let idle = self.questions.iter().enumerate();
        let idle = idle.filter(|(_, question)| question.measure.is_some());
        let (place, _) = idle.min_by_key(|(_, question)| question.next)?;
        let question = &mut self.questions[place];
        let batch = self.batches.get((question.next - self.first) as usize)?;
        Some((place, question.measure.take()?, Arc::clone(batch)))
    }

    /// A question has taken its batch.
    fn done(&mut self, place: usize, measure: &'m mut dyn Measure) {
        let question = &mut self.questions[place];
        question.measure = Some(measure);
        question.next += 1;
        let behind = self.questions.iter().map(|question| question.next).min();
        while behind.is_some_and(|behind| self.first < behind)
            && let Some(taken) = self.batches.pop_front()
        {
            self.first += 1;
            if let Some(mut batch) = Arc::into_inner(taken) {
                batch.clear();
                self.emptied.push(batch);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.readers == 0 && self.batches.is_empty()
    }
}

/// A thread that brings batches.
pub(super) struct Reading<'l, 'm>(&'l Line<'m>);

impl Drop for Reading<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.readers -= 1;
        state.is_broken |= std::thread::panicking();
        self.0.changed.notify_all();
    }
}

/// Tells others when a thread that measures panics.
struct Watch<'l, 'm>(&'l Line<'m>);

impl Drop for Watch<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.changed.notify_all();
        }
    }
}
