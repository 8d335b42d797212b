//! Who records the operations of GPUs in a process. The agent decides by this while a program runs; `rsys-avail --for PROGRAM` says
//! beforehand what it will decide.

use crate::handshake::{GpuLevel, GpuSource};

/// The function by which a tracer registers with HIP; HIP has it from 5.3 on.
pub const TAKE_TRACER: &str = "hipRegisterTracerCallback";

/// HIP in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hip {
    /// Not loaded.
    Absent,
    /// Loaded, but it reports to nobody, or to another tool.
    Mute,
    /// Loaded, with its place for a tracer free or ours.
    Ready,
}

/// Who records kernels, copies and fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorder {
    /// The HIP runtime reports them to its tracer.
    Hip,
    /// Queues and copies of the HSA runtime are intercepted.
    Hsa,
    /// They are not recorded.
    Nobody,
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Who records.
    pub recorder: Recorder,
    /// The reason, as `gpu source` in a trace has it.
    pub why: &'static str,
}

/// Decides by the settings and by HIP's state. Operations are recorded by one side only, or each would be there twice.
#[must_use]
pub const fn choose(wish: GpuSource, level: GpuLevel, hip: Hip) -> Choice {
    let (recorder, why) = match (wish, hip) {
        // HIP would give every kernel a signal in order to learn its times, which `lite` forbids.
        (GpuSource::Auto | GpuSource::HipProfiler | GpuSource::Hip, Hip::Ready)
            if !matches!(level, GpuLevel::Lite) =>
        {
            (
                Recorder::Hip,
                "HIP: it tells its tracer of calls and operations",
            )
        }
        (GpuSource::Off, _) => (Recorder::Nobody, "off: chosen"),
        (GpuSource::Hip, _) => (
            Recorder::Nobody,
            "HIP: chosen, but it does not tell of its operations",
        ),
        (GpuSource::Hsa, _) => (Recorder::Hsa, "HSA queues: chosen"),
        (GpuSource::Auto | GpuSource::HipProfiler, Hip::Absent) => {
            (Recorder::Hsa, "HSA queues: the program does not use HIP")
        }
        (GpuSource::Auto | GpuSource::HipProfiler, Hip::Mute | Hip::Ready) => (
            Recorder::Hsa,
            "HSA queues: HIP does not tell of its operations",
        ),
    };
    Choice { recorder, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_one_recorder() {
        use GpuSource::{Auto, Hsa, Off};
        let standard = GpuLevel::Standard;
        for (wish, level, hip, recorder) in [
            (Auto, standard, Hip::Ready, Recorder::Hip),
            (Auto, standard, Hip::Mute, Recorder::Hsa),
            (Auto, standard, Hip::Absent, Recorder::Hsa),
            (Auto, GpuLevel::Lite, Hip::Ready, Recorder::Hsa),
            (GpuSource::Hip, standard, Hip::Ready, Recorder::Hip),
            (GpuSource::Hip, GpuLevel::Lite, Hip::Ready, Recorder::Nobody),
            (GpuSource::Hip, standard, Hip::Absent, Recorder::Nobody),
            (Hsa, GpuLevel::Full, Hip::Ready, Recorder::Hsa),
            (Off, standard, Hip::Ready, Recorder::Nobody),
        ] {
            assert_eq!(
                choose(wish, level, hip).recorder,
                recorder,
                "{wish:?} {level:?} {hip:?}"
            );
        }
    }
}
