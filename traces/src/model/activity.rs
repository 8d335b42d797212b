//! What the time of a GPU operation counts as.

use super::OpKind;
use super::collective_kernels::is_collective;

/// What a GPU did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Activity {
    /// Kernels of the program.
    #[default]
    Compute = 0,
    /// Kernels of collectives.
    Comm = 1,
    /// Copies, and the kernels by which the runtime copies.
    Copy = 2,
    /// Fills, and the kernels by which the runtime fills.
    Fill = 3,
    /// Barriers and the like: the GPU is not busy with them.
    None = 4,
}

/// Names of the kernels by which HIP copies and fills begin like this.
const RUNTIME_KERNELS: &str = "__amd_rocclr_";

/// Classifies an operation by its kind and name.
#[must_use]
pub fn classify(kind: OpKind, name: &str) -> Activity {
    match kind {
        OpKind::Copy => Activity::Copy,
        OpKind::Fill => Activity::Fill,
        OpKind::Other => Activity::None,
        OpKind::Kernel => match name.strip_prefix(RUNTIME_KERNELS) {
            Some(rest) if rest.starts_with("fill") => Activity::Fill,
            Some(rest) if rest.starts_with("copy") => Activity::Copy,
            _ if is_collective(name) => Activity::Comm,
            _ => Activity::Compute,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide_what_kernels_count_as() {
        for (name, activity) in [
            ("Cijk_Ailk_Bljk_SB_MT64", Activity::Compute),
            ("ncclDevKernel_Generic(ncclDevKernelArgs)", Activity::Comm),
            ("void ncclKernel_AllReduce_RING", Activity::Comm),
            ("_Z17rcclGenericKernelv", Activity::Comm),
            ("mscclKernel_Sum_float", Activity::Comm),
            ("mscclppKernel", Activity::Comm),
            ("void vllm::cross_device_reduce_2stage<2>", Activity::Comm),
            ("__amd_rocclr_copyBuffer", Activity::Copy),
            ("__amd_rocclr_fillBufferAligned", Activity::Fill),
            ("__amd_rocclr_gwsInit", Activity::Compute),
            ("occlusion", Activity::Compute),
        ] {
            assert_eq!(classify(OpKind::Kernel, name), activity, "{name}");
        }
        assert_eq!(classify(OpKind::Copy, "ncclKernel"), Activity::Copy);
    }
}
