//! Samples and their call stacks, in a table for each time base.

use rsys_proto::{CallstackIid, CpuMode, PacketBuffer, Sample, StringId};

use super::Output;
use super::callstacks::Stacks;
use crate::emit::learned::frames::{FrameId, Frames};
use crate::run::RunContext;

/// What the weights of samples are: the time bases of the clocks.
const CPU_TIME: &str = "cpu-time ns";
const WALL_TIME: &str = "waiting-time ns";
const GPU_TIME: &str = "gpu-time ns";
const CALL_TIME: &str = "call-time ns";

/// The call stacks of a trace by what their weights are.
#[derive(Debug)]
pub(super) struct SampleTables {
    cpu: Stacks,
    waits: Stacks,
    /// Of kernels, once there was one.
    gpu: Option<Stacks>,
    /// Of calls, once there was one.
    calls: Option<Stacks>,
}

impl SampleTables {
    pub(super) fn new(out: &mut PacketBuffer, run: &RunContext) -> Self {
        let cpu = match &run.overflow {
            None => Stacks::new(out, CPU_TIME, Some(run.frequency_hz)),
            Some(overflow) => Stacks::new(out, &overflow.event, None),
        };
        Self {
            cpu,
            waits: Stacks::new(out, WALL_TIME, run.realtime_hz),
            gpu: None,
            calls: None,
        }
    }
}

impl Output {
    /// Begins the tables of call stacks anew.
    pub(super) fn renew_samples(&mut self, run: &RunContext) {
        self.samples = SampleTables::new(self.writer.buffer(), run);
    }

    /// The id of the stack of a kernel's time, for [`Output::gpu_samples`] of the same batch: of the stack with the id `key.0` under the kernel with
    /// the name `key.1`, put together by `frames` if need be.
    pub fn gpu_callstack(
        &mut self,
        tables: &Frames,
        key: (u64, StringId),
        frames: impl FnOnce() -> Vec<FrameId>,
    ) -> CallstackIid {
        let out = self.writer.buffer();
        self.samples
            .gpu
            .get_or_insert_with(|| Stacks::new(out, GPU_TIME, None))
            .callstack_of(tables, (key.0, key.1.get()), frames)
    }

    /// Appends the times of kernels.
    pub fn gpu_samples(&mut self, samples: &mut Vec<Sample>) {
        if let Some(stacks) = &mut self.samples.gpu {
            stacks.append(self.writer.buffer(), samples);
        }
    }

    /// The id of the stack from which a call was made, for [`Output::call_samples`] of the same batch: of the stack with the id `key`, put together by
    /// `frames` if need be.
    pub fn call_callstack(
        &mut self,
        tables: &Frames,
        key: u64,
        frames: impl FnOnce() -> Vec<FrameId>,
    ) -> CallstackIid {
        let out = self.writer.buffer();
        self.samples
            .calls
            .get_or_insert_with(|| Stacks::new(out, CALL_TIME, None))
            .callstack_of(tables, (key, 0), frames)
    }

    /// Appends the times of calls. A sample has the time at which its call's slice begins, and the thread's id.
    pub fn call_samples(&mut self, samples: &mut Vec<Sample>) {
        if let Some(stacks) = &mut self.samples.calls {
            stacks.append(self.writer.buffer(), samples);
        }
    }

    /// The id of a stack, for [`Output::samples`] of the same batch.
    pub fn callstack(&mut self, tables: &Frames, frames: &[FrameId]) -> CallstackIid {
        self.samples.cpu.callstack(tables, frames)
    }

    /// The id of a waiting thread's stack, for [`Output::wait_samples`] of the same batch.
    pub fn wait_callstack(&mut self, tables: &Frames, frames: &[FrameId]) -> CallstackIid {
        self.samples.waits.callstack(tables, frames)
    }

    /// A sample for [`Output::samples`] or [`Output::wait_samples`].
    #[must_use]
    pub fn sample(
        &self,
        time_ns: u64,
        tid: u32,
        callstack: CallstackIid,
        weight_ns: u64,
    ) -> Sample {
        Sample {
            time_ns,
            pid: self.pid,
            tid,
            callstack: Some(callstack),
            weight: weight_ns,
            mode: CpuMode::User,
            cpu: None,
        }
    }

    /// Appends the samples of a batch, of all threads.
    pub fn samples(&mut self, samples: &mut Vec<Sample>) {
        self.samples.cpu.append(self.writer.buffer(), samples);
    }

    /// Appends samples of waiting threads.
    pub fn wait_samples(&mut self, samples: &mut Vec<Sample>) {
        self.samples.waits.append(self.writer.buffer(), samples);
    }
}
