//! What was launched within a call between ranks: the kernels of its operations.
//!
//! A call of RCCL returns long before its operations run. Which kernels are theirs is known by the launches that their thread made within the call, or within
//! the end of the group that they were called in.

use std::collections::VecDeque;

use super::ids::{CorrelationId, GroupId};
use rsys_traces::model::entry;
use rsys_traces::model::{HostKind, HostSlice};

/// Launches of a thread that are kept until its call between ranks ends.
const LAUNCHES: usize = 4096;

/// Begins of the launches of each thread since its last call between ranks.
#[derive(Debug, Default)]
pub(crate) struct GroupLaunches(Vec<VecDeque<(u64, CorrelationId)>>);

impl GroupLaunches {
    /// Takes in a slice: a call comes behind those within it. With a call between ranks, `found` gets each launch within it, the last first.
    pub(crate) fn take(
        &mut self,
        slice: &HostSlice,
        mut found: impl FnMut(GroupId, CorrelationId),
    ) {
        let launch = CorrelationId::of_call(slice).filter(|_| slice.kind == HostKind::Runtime);
        if let Some(launch) = launch {
            let launches = entry(&mut self.0, slice.thread.index());
            launches.push_back((slice.start_ns, launch));
            if launches.len() > LAUNCHES {
                launches.pop_front();
            }
        } else if let Some(group) = GroupId::of_call(slice) {
            let launches = entry(&mut self.0, slice.thread.index());
            while let Some((_, launch)) =
                launches.pop_back_if(|(start_ns, _)| *start_ns >= slice.start_ns)
            {
                found(group, launch);
            }
            launches.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::ThreadId;

    #[test]
    fn launches_are_of_the_call_of_their_thread_that_they_are_within() {
        let (one, other) = (ThreadId::new(0), ThreadId::new(1));
        let launch = |thread, start_ns| (HostKind::Runtime, thread, (start_ns, start_ns + 5));
        let call = |thread, span| (HostKind::Collective, thread, span);
        let slices = [
            launch(one, 10),
            launch(one, 110),
            launch(other, 115),
            launch(one, 120),
            call(one, (100, 130)),
            // What was before a call is of none that follows.
            call(one, (0, 140)),
            call(other, (112, 150)),
        ];
        let mut launches = GroupLaunches::default();
        let mut found = Vec::new();
        for (link, (kind, thread, (start_ns, end_ns))) in (1..).zip(slices) {
            let slice = HostSlice {
                kind,
                thread,
                start_ns,
                end_ns,
                link,
                ..HostSlice::default()
            };
            launches.take(&slice, |group, launch| {
                assert_eq!(Some(group), GroupId::of_call(&slice));
                found.push((link, launch.number()));
            });
        }
        assert_eq!(found, [(5, 4), (5, 2), (7, 3)]);
    }
}
