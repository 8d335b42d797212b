//! What questions keep of records of the host: nothing that grows with their number, or a few bytes for each.
//!
//! The only test of this program, since it counts all memory.

use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::copies::Copies;
use rsys_analysis::measure::gpu::gaps::Gaps;
use rsys_analysis::measure::gpu::kernels::Kernels;
use rsys_analysis::measure::gpu::memory::Memory;
use rsys_analysis::measure::gpu::timeline::Timeline;
use rsys_analysis::measure::host::calls::Calls;
use rsys_analysis::measure::host::functions::Functions;
use rsys_analysis::measure::host::pauses::Pauses;
use rsys_synthetic::memory::{Counting, live_bytes};
use rsys_traces::model::{
    Batch, Frame, GpuRecord, HostSlice, Model, Sample, StackId, TextId, ThreadId,
};

#[global_allocator]
static COUNTING: Counting = Counting;

/// So many calls, with a sample within each and one behind it.
const CALLS: u64 = 200_000;

/// What the GPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gpu {
    /// There is none.
    None,
    /// Each call launches a kernel, and there is no pause.
    Works,
    /// Each call launches a kernel that ends before the next one begins.
    Pauses,
}

/// Names and stacks for all records.
fn model() -> Model {
    let mut model = Model::default();
    let names: Vec<TextId> = (0..20)
        .map(|number| model.texts.intern(&format!("hipCall{number}")))
        .collect();
    for number in 0..500_u32 {
        let frame = model.stacks.frame_id(Frame {
            function: names[number as usize % names.len()],
            mapping: TextId::EMPTY,
            source: TextId::EMPTY,
            line: number,
        });
        model.stacks.child(StackId::ROOT, frame);
    }
    model
}

/// The memory that a question has kept after so many calls and twice as many samples.
fn kept_bytes(measure: &mut dyn Measure, calls: u64, works: Gpu) -> usize {
    let model = model();
    let mut batch = Batch::default();
    batch.host.reserve(1_000);
    batch.samples.reserve(2_000);
    batch.gpu.reserve(1_000);
    let before = live_bytes();
    for first in (0..calls).step_by(1_000) {
        batch.clear();
        for number in first..first + 1_000 {
            let thread = ThreadId::new((number % 8) as usize);
            let start_ns = 4_000 * number;
            if works != Gpu::None {
                let duration_ns = if works == Gpu::Works { 5_000 } else { 1_000 };
                batch.gpu.push(GpuRecord {
                    start_ns: start_ns + 5_000,
                    end_ns: start_ns + 5_000 + duration_ns,
                    link: number + 1,
                    ..GpuRecord::default()
                });
            }
            batch.host.push(HostSlice {
                start_ns,
                end_ns: start_ns + 3_000 + number % 500,
                link: number + 1,
                thread,
                name: TextId::at((number % 20) as usize),
                ..HostSlice::default()
            });
            batch.samples.extend([1_000, 3_600].map(|at_ns| Sample {
                time_ns: start_ns + at_ns,
                weight: 2_000,
                thread,
                stack: StackId::at((number % 500) as usize),
                ..Sample::default()
            }));
        }
        measure.take(&batch);
        if measure.is_full() {
            measure.settle(&model);
        }
    }
    live_bytes() - before
}

#[test]
fn memory_does_not_grow_with_the_records_of_the_host() {
    type Question = fn() -> Box<dyn Measure>;
    let bounded: [(&str, Question); 7] = [
        ("timeline", || Box::<Timeline>::default()),
        ("kernels", || Box::<Kernels>::default()),
        ("functions", || Box::<Functions>::default()),
        ("calls", || Box::<Calls>::default()),
        ("copies", || Box::<Copies>::default()),
        ("memory", || Box::<Memory>::default()),
        ("pauses", || Box::<Pauses>::default()),
    ];
    for (name, question) in bounded {
        // Exact quantiles end at 65,536 values for each name, so those of 20 names do within ten times as many calls.
        let few = kept_bytes(question().as_mut(), 10 * CALLS, Gpu::None);
        let many = kept_bytes(question().as_mut(), 20 * CALLS, Gpu::None);
        assert!(
            many <= few + few / 10 + 4096,
            "{name}: {few} bytes, then {many}"
        );
    }
    let gaps = kept_bytes(&mut Gaps::default(), 5 * CALLS, Gpu::None) as f64 / (5 * CALLS) as f64;
    // Eight for the call, six for its time, nine for each sample; and what waits to be packed.
    assert!(
        gaps <= 48.0,
        "gaps: {gaps} bytes for each call with two samples"
    );
    // What the host does while the GPU works explains nothing; what it does in pauses is explained on the way, and without a GPU nobody asks.
    let bounded = || Gaps::bounded(CALLS as usize / 4, 100_000_000);
    for works in [Gpu::Works, Gpu::Pauses, Gpu::None] {
        let few = kept_bytes(&mut bounded(), CALLS, works);
        let many = kept_bytes(&mut bounded(), 3 * CALLS, works);
        // It is forgotten now and then. Of each pause three bytes are left.
        let left = 2 * CALLS as usize * 4;
        let most = few + few / 2 + if works == Gpu::Pauses { left } else { 0 };
        assert!(many <= most, "gaps: {works:?}: {few} bytes, then {many}");
    }
}
