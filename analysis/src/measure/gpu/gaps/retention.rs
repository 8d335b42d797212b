//! What need not be kept of the host: what it did while all GPUs of its process worked, and in idle times that were explained.
//!
//! Idle times are explained by what threads did in them, and by the calls that submitted the operations which end them. As long as there are few records
//! all are kept, for operations may be reported long after their calls. When they are many, those go that no idle time so far can ask about: an
//! operation that is reported later makes idle times shorter, never longer. Where that frees little, because the GPU is idle again and again, idle times
//! are explained on the way. The last seconds stay in any case.

use super::explain::{Gpu, HANDOVER_NS, Known};
use super::host::{Host, Thread, end_of};
use super::lock_waits::STILL_NS;
use super::stretches::{Stretch, Stretches};
use super::{Gaps, entry};
use crate::containers::packed_rows::Row;
use crate::containers::sets::{IntervalSet, Union};
use rsys_traces::model::{DeviceId, Model, ProcessId};

/// When what is discarded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    /// So many rows may be kept of a process whatever they say.
    pub(super) rows: usize,
    /// So many of one that has used no GPU.
    pub(super) rows_without_gpu: usize,
    /// So long before the last operation of a process nothing is discarded.
    pub(super) recent_ns: u64,
}

impl Default for Memory {
    /// Some 100 and 200 MB, and longer than operations of a stream commonly wait.
    fn default() -> Self {
        Self {
            rows: 1 << 23,
            rows_without_gpu: 1 << 24,
            recent_ns: 10_000_000_000,
        }
    }
}

/// How a process is discarded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Retention {
    /// Something is discarded when there are this many rows.
    limit: usize,
    /// Idle times are explained on the way.
    explains: bool,
}

impl Gaps {
    /// Processes of which too many rows are kept.
    pub(super) fn full(&self) -> impl Iterator<Item = ProcessId> {
        let processes = (0..self.host.processes()).map(ProcessId::new);
        processes.filter(|&process| {
            let rows = self.host.rows(process);
            let retention = self.retentions.get(process.index());
            let limit = retention.map_or(0, |retention| retention.limit);
            rows >= limit.max(self.memory.rows)
                && (rows >= limit.max(self.memory.rows_without_gpu) || self.has_gpu(process))
        })
    }

    fn has_gpu(&self, process: ProcessId) -> bool {
        let mut devices = self.devices.iter();
        devices.any(|one| one.process() == Some(process))
    }

    /// Forgets what no idle time of a process asks about.
    pub(super) fn discard(&mut self, process: ProcessId, model: &Model) {
        let rows = self.host.rows(process);
        let retention = *entry(&mut self.retentions, process.index());
        let own = self.devices.iter_mut();
        let own = own.filter(|one| one.process() == Some(process));
        let last_ns = own.filter_map(|list| {
            list.sort();
            list.last().map(|last| last.end_ns)
        });
        let (last_ns, has_gpu) = match last_ns.min() {
            Some(last_ns) => (last_ns, true),
            None => (self.host.span(process).map_or(0, |span| span.1), false),
        };
        let until_ns = last_ns.saturating_sub(self.memory.recent_ns);
        if retention.explains && has_gpu {
            self.explain_until(process, until_ns, model);
        }
        let own = self.devices.iter();
        let own: Vec<&Stretches> = own.filter(|one| one.process() == Some(process)).collect();
        let mut busy = Busy {
            list: common(own.iter().map(|list| list.iter()), until_ns),
            until_ns,
        };
        // What launched the first operation may be asked for at its begin and its end.
        let firsts = own.iter().filter_map(|list| list.first());
        let firsts: Vec<Stretch> = firsts.collect();
        firsts.iter().for_each(|first| busy.split(first.end_ns));
        let stretches = own.iter().flat_map(|list| list.iter()).chain(firsts);
        let mut links: Vec<u64> = stretches.map(|one| one.link).collect();
        links.sort_unstable();
        self.host.discard(process, &busy, &links);
        let left = self.host.rows(process);
        *entry(&mut self.retentions, process.index()) = Retention {
            limit: 2 * left,
            explains: retention.explains || left > rows / 2,
        };
    }

    /// Explains the idle times of a process that end by a time.
    fn explain_until(&mut self, process: ProcessId, until_ns: u64, model: &Model) {
        self.host.sort(process, model);
        self.barriers.sort();
        for (index, stretches) in self.devices.iter_mut().enumerate() {
            if stretches.process() != Some(process) {
                continue;
            }
            let id = DeviceId::new(index);
            let known = Known {
                model,
                host: &self.host,
                barriers: &self.barriers,
                id,
                process,
            };
            let mut gpu = Gpu::new(known, entry(&mut self.explained, index));
            stretches.settle(until_ns, |start_ns, next| gpu.idle(start_ns, next));
            self.barriers.discard(id, until_ns, HANDOVER_NS);
        }
        // Operations wait in their streams.
        let until_ns = until_ns.saturating_sub(self.memory.recent_ns);
        self.host.stream_waits.discard(process, until_ns);
    }
}

/// Times in which all GPUs of a process worked, in order.
#[derive(Debug)]
pub(super) struct Busy {
    list: Vec<(u64, u64)>,
    /// Nothing is known of what follows.
    pub(super) until_ns: u64,
}

/// The times that all lists have in common, up to a time.
fn common(
    lists: impl Iterator<Item = impl Iterator<Item = Stretch>>,
    until_ns: u64,
) -> Vec<(u64, u64)> {
    let all: Union = [(0, until_ns)].into_iter().collect();
    let common = lists.fold(all, |common, list| {
        list.flat_map(|one| common.parts((one.start_ns, one.end_ns)))
            .collect()
    });
    common.into_intervals()
}

impl Busy {
    /// Makes a time the end of one and the begin of another.
    fn split(&mut self, at_ns: u64) {
        let place = self.list.partition_point(|one| one.1 <= at_ns);
        if let Some(one) = self.list.get_mut(place)
            && one.0 < at_ns
        {
            let behind = (at_ns, one.1);
            one.1 = at_ns;
            self.list.insert(place + 1, behind);
        }
    }

    /// Says of times in order of their begins whether they lie within one of these, at neither end.
    fn cover(&self) -> impl FnMut(u64, u64) -> bool {
        let mut list = self.list.iter().peekable();
        move |start_ns, end_ns| {
            while list.next_if(|one| one.1 <= start_ns).is_some() {}
            list.peek()
                .is_some_and(|one| one.0 < start_ns && end_ns < one.1)
        }
    }
}

/// Says of numbers in order whether they are in a list that is in order.
fn contains(list: &[u64]) -> impl FnMut(u64) -> bool {
    let mut list = list.iter().peekable();
    move |number| {
        while list.next_if(|one| **one < number).is_some() {}
        list.peek() == Some(&&number)
    }
}

impl Host {
    fn discard(&mut self, process: ProcessId, busy: &Busy, links: &[u64]) {
        // The begins of calls whose stacks may be asked for, by thread.
        let mut starts: Vec<Vec<u64>> = Vec::new();
        let mut seen = entry(&mut self.seen, process.index())
            .intervals()
            .peekable();
        let mut is_first_of_stretch = contains(links);
        // Calls of other names than those that gave work to the GPU wait for no operation.
        let submitting = entry(&mut self.submitting, process.index());
        let (known, has_gpu) = (submitting.clone(), !links.is_empty());
        entry(&mut self.submissions, process.index()).retain(|id, call| {
            let link = id.number();
            while seen.next_if(|one| one.1 <= link).is_some() {}
            let is_seen = seen.peek().is_some_and(|one| one.0 <= link);
            if is_seen {
                submitting.insert(call.name);
            }
            let may_submit = has_gpu && (known.is_empty() || known.contains(&call.name));
            let stays = !is_seen && may_submit
                || is_first_of_stretch(link)
                || call.start_ns >= busy.until_ns;
            if stays {
                entry(&mut starts, call.thread.index()).push(call.start_ns);
            }
            stays
        });
        let mut is_busy = busy.cover();
        entry(&mut self.launches, process.index()).settle(|row| !is_busy(row[0], row[0]));
        let own = |thread: &&mut Thread| thread.process == Some(process);
        // Where a thread waits for a lock, samples say where that is, and where the thread is that holds it.
        let mut asked_for = IntervalSet::default();
        for thread in self.threads.iter_mut().filter(own) {
            let mut is_busy = busy.cover();
            thread
                .lock_waits
                .retain(|start_ns, end_ns| !is_busy(start_ns, end_ns));
            for (start_ns, end_ns) in thread.lock_waits.times() {
                asked_for.add(start_ns, end_ns.saturating_add(STILL_NS));
            }
        }
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if thread.process == Some(process) {
                let starts = std::mem::take(entry(&mut starts, index));
                thread.discard(busy, starts, &mut asked_for);
            }
        }
        *entry(&mut self.discarded_ns, process.index()) = busy.until_ns;
        self.count(process);
    }
}

impl Thread {
    fn discard(&mut self, busy: &Busy, mut starts: Vec<u64>, asked_for: &mut IntervalSet) {
        starts.extend(self.lock_waits.times().map(|(start_ns, _)| start_ns));
        let mut is_busy = busy.cover();
        self.calls.settle(|call| {
            let stays = !is_busy(call[0], end_of(call));
            if stays {
                starts.push(call[0]);
            }
            stays
        });
        let mut is_busy = busy.cover();
        self.waits.settle(|wait| !is_busy(wait[0], end_of(wait)));
        let mut is_busy = busy.cover();
        self.off.settle(|off| !is_busy(off[0], end_of(off)));
        // All samples of a wait say where that was.
        let mut waits = self.waits.iter().peekable();
        let mut wait_ns = None;
        let mut is_busy = busy.cover();
        let mut asked_for = asked_for.intervals().peekable();
        self.samples.settle(|sample: &Row<4>| {
            while asked_for.next_if(|one| one.1 < sample[0]).is_some() {}
            let is_asked_for = asked_for.peek().is_some_and(|one| one.0 <= sample[0]);
            while let Some(wait) = waits.next_if(|wait| wait[0] <= sample[0]) {
                wait_ns = wait_ns.max(Some(end_of(&wait)));
            }
            let is_of_wait = wait_ns.is_some_and(|end_ns| sample[0] <= end_ns);
            !is_busy(sample[0], sample[0]) || is_of_wait || is_asked_for
        });
        starts.sort_unstable();
        let mut is_asked_for = contains(&starts);
        let mut is_busy = busy.cover();
        self.stacks
            .settle(|row| is_asked_for(row[0]) || !is_busy(row[0], row[0]));
        let mut is_busy = busy.cover();
        self.regions
            .retain(|start_ns, end_ns| !is_busy(start_ns, end_ns));
        let mut is_busy = busy.cover();
        match self.is_sampled {
            true => self.scopes = Default::default(),
            false => self
                .scopes
                .retain(|start_ns, end_ns| !is_busy(start_ns, end_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::{QueueId, TextId};

    #[test]
    fn times_are_common_where_all_lists_have_them() {
        let list = |times: &[(u64, u64)]| -> Vec<Stretch> {
            let stretch = |&(start_ns, end_ns)| Stretch {
                start_ns,
                end_ns,
                queue: QueueId::default(),
                name: TextId::EMPTY,
                link: 0,
            };
            times.iter().map(stretch).collect()
        };
        let (one, other) = (
            list(&[(5, 20), (30, 60)]),
            list(&[(0, 10), (15, 40), (50, 99)]),
        );
        assert_eq!(
            common([one.clone()].map(Vec::into_iter).into_iter(), 50),
            [(5, 20), (30, 50)]
        );
        let both = [(5, 10), (15, 20), (30, 40), (50, 55)];
        assert_eq!(
            common(
                [one.clone(), other.clone()].map(Vec::into_iter).into_iter(),
                55
            ),
            both
        );
        assert_eq!(
            common([other, one].map(Vec::into_iter).into_iter(), 55),
            both
        );
        let busy = Busy {
            list: both.to_vec(),
            until_ns: 55,
        };
        let mut is_busy = busy.cover();
        let found = [
            (4, 6),
            (5, 6),
            (6, 9),
            (6, 10),
            (17, 18),
            (32, 51),
            (51, 54),
        ]
        .map(|(start_ns, end_ns)| is_busy(start_ns, end_ns));
        assert_eq!(found, [false, false, true, false, true, false, true]);
    }
}
