//! Which kernels move data between GPUs, by their names: those of libraries of collectives, and those by which frameworks and inference engines do it themselves.

use std::sync::OnceLock;

use regex_lite::Regex;

/// Names as their sources have them, in lower case. Where a part begins with a letter, no letter stands in front of it.
const FAMILIES: [(&str, &[&str]); 14] = [
    // ncclDevKernel_…, ncclKernel_…, rcclGenericKernel, mscclKernel_…, mscclpp::…
    ("NCCL, RCCL, MSCCL and MSCCL++", &["nccl", "rccl", "msccl"]),
    // pytorch/torch/csrc/distributed/c10d/symm_mem/*.cu: multimem_all_reduce_kernel, one_shot_all_reduce_kernel, two_shot_all_reduce_kernel, …; intra_node_comm.cu
    (
        "PyTorch's symmetric memory",
        &["multimem_", "symm_mem", "hybridcubemesh"],
    ),
    ("PyTorch's functional collectives", &["_c10d_functional"]),
    // vllm/csrc/custom_all_reduce.cuh, sgl-kernel/csrc/allreduce, aiter/csrc/include/custom_all_reduce.cuh: cross_device_reduce_1stage
    (
        "custom all-reduce of vLLM, SGLang and AITER",
        &["cross_device_reduce", "reduce_scatter_cross_device"],
    ),
    // vllm/csrc/quickreduce, aiter/csrc/include/quick_all_reduce.h
    (
        "quick all-reduce of vLLM and AITER",
        &["quickreduce", "quick_reduce", "allreduce_prototype"],
    ),
    // tensorrt_llm/kernels/customAllReduceKernels.cu, communicationKernels/*; flashinfer/include/flashinfer/comm
    (
        "TensorRT-LLM and FlashInfer",
        &[
            "oneshotallreduce",
            "twoshotallreduce",
            "allreduce_fusion_kernel",
            "moereduction_allreduce",
            "moefinalize_allreduce",
            "moealltoall",
            "moea2a",
        ],
    ),
    // transformer_engine/common/comm_gemm_overlap/userbuffers
    ("userbuffers of Transformer Engine", &["userbuffers_"]),
    // deep_ep/csrc/kernels: layout.cu of the same library computes on one GPU alone
    (
        "DeepEP",
        &[
            "deep_ep::intranode",
            "deep_ep::internode",
            "deep_ep::hybrid",
        ],
    ),
    // mori/src/ops/dispatch_combine: EpDispatchIntraNodeKernel, EpCombineInterNodeKernel, …
    ("MoRI", &["mori::", "epdispatch", "epcombine"]),
    // pplx-kernels/src/all_to_all
    ("PPLX kernels", &["pplx::", "pplx_"]),
    (
        "NVSHMEM and rocSHMEM",
        &["nvshmem", "rocshmem", "roc_shmem"],
    ),
    ("UCCL", &["uccl::", "uccl_"]),
    ("oneCCL", &["oneccl"]),
    // What further libraries call the same: Iris, Triton-distributed, ByteDance's Flux, users' own
    (
        "names of collectives",
        &[
            "all_reduce",
            "allreduce",
            "all_gather",
            "allgather",
            "reduce_scatter",
            "reducescatter",
            "all_to_all",
            "alltoall",
            "all2all",
        ],
    ),
];

/// In front of those: reductions within one GPU.
const WITHIN_A_GPU: [&str; 6] = ["block", "warp", "wave", "thread", "subgroup", "cluster"];

/// Kernels that TorchInductor generates compute, though their names list the operators that they were made of, collectives before them too.
const GENERATED: [&str; 4] = ["triton_poi_", "triton_red_", "triton_per_", "triton_tem_"];

/// What the user counts as well.
static FURTHER: OnceLock<Regex> = OnceLock::new();

/// Counts kernels as communication whose names a regular expression matches, beside those that are known.
///
/// # Errors
/// When it is not a regular expression, or another one counts already.
pub fn count_as_communication(pattern: &str) -> Result<(), String> {
    let regex = Regex::new(pattern).map_err(|error| error.to_string())?;
    FURTHER
        .set(regex)
        .map_err(|_| "there is another one already".to_owned())
}

/// The regular expression that counts beside what is known; empty if there is none.
#[must_use]
pub fn further_communication() -> String {
    FURTHER.get().map_or_else(String::new, ToString::to_string)
}

/// Whether a kernel moves data between GPUs.
pub(super) fn is_collective(kernel: &str) -> bool {
    if FURTHER.get().is_some_and(|regex| regex.is_match(kernel)) {
        return true;
    }
    let name = kernel.to_ascii_lowercase();
    let is_generated = GENERATED.iter().any(|start| name.starts_with(start));
    let parts = FAMILIES.iter().flat_map(|(_, parts)| *parts);
    !is_generated && parts.into_iter().any(|part| has_part(&name, part))
}

/// What a kernel, call or range between ranks does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectiveName {
    /// A collective, in PyTorch's words.
    Of(&'static str),
    /// A message between two ranks.
    Message,
    /// The name does not tell.
    Untold,
}

impl CollectiveName {
    /// By the name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        const NAMES: [(&str, &str); 8] = [
            ("allreduce", "allreduce"),
            ("reducescatter", "reduce_scatter"),
            ("allgather", "all_gather"),
            ("alltoall", "all_to_all"),
            ("crossdevicereduce", "allreduce"),
            ("broadcast", "broadcast"),
            ("reduce", "reduce"),
            ("barrier", "barrier"),
        ];
        const MESSAGES: [&str; 5] = ["sendrecv", "ncclsend", "ncclrecv", "nccl:send", "nccl:recv"];
        let mut parts = name.split(['<', '(']);
        let Some(start) = parts.find(|part| part.len() > 4) else {
            return Self::Untold;
        };
        let plain = start.replace('_', "").to_ascii_lowercase();
        if let Some((_, function)) = NAMES.iter().find(|(part, _)| plain.contains(part)) {
            return Self::Of(function);
        }
        match MESSAGES.iter().any(|part| plain.contains(part)) {
            true => Self::Message,
            false => Self::Untold,
        }
    }

    /// The collective, if it is one.
    #[must_use]
    pub fn collective(self) -> Option<&'static str> {
        match self {
            Self::Of(function) => Some(function),
            _ => None,
        }
    }
}

fn has_part(name: &str, part: &str) -> bool {
    name.match_indices(part).any(|(at, _)| {
        let before = &name[..at];
        let is_inside = before.ends_with(|one: char| one.is_ascii_alphabetic());
        let word = before.trim_end_matches('_');
        !is_inside && !WITHIN_A_GPU.iter().any(|one| word.ends_with(one))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_many_libraries_move_data() {
        for name in [
            "ncclDevKernel_Generic(ncclDevKernelArgs)",
            "void ncclKernel_AllReduce_RING",
            "_Z17rcclGenericKernelv",
            "mscclKernel_Sum_float",
            "void mscclpp::allreduce<float>",
            "void vllm::cross_device_reduce_2stage<2>",
            "void sglang::cross_device_reduce_1stage<half, 4>",
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>",
            "void one_shot_all_reduce_kernel<float, 16, 8, false>",
            "two_shot_all_reduce_kernel_inplace",
            "void tensorrt_llm::kernels::twoShotAllReduceKernel<__nv_bfloat16, 8>",
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<3>",
            "void aiter::allreduce_prototype_twoshot<Half8>",
            "void aiter::reduce_scatter_cross_device_store<half>",
            "void deep_ep::intranode::dispatch<8>",
            "void deep_ep::internode_ll::combine<true>",
            "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>",
            "nvshmemi_transfer_rma",
            "void rocshmem::put",
            "userbuffers_fp16_sum_inplace_gpu_rr",
            "void tensorrt_llm::kernels::moeAlltoAllKernel",
            "my_allreduce_v2",
            "persistent_all_gather_kernel",
        ] {
            assert!(is_collective(name), "{name}");
        }
    }

    #[test]
    fn kernels_that_compute_do_not() {
        for name in [
            "Cijk_Ailk_Bljk_SB_MT64",
            "occlusion",
            "void deep_ep::layout::get_dispatch_layout",
            "void warpAllReduceSum<float>",
            "block_all_reduce<4>",
            "triton_poi_fused__to_copy_all_reduce_wait_tensor_3",
            "triton_red_fused_add_all_gather_into_tensor_7",
            "void at::native::vectorized_gather_kernel<16>",
            "void at::native::reduce_kernel<512>",
            "memory::broadcast_add",
            "step_combine",
        ] {
            assert!(!is_collective(name), "{name}");
        }
    }
}
