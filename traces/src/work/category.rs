//! Families of operators and kernels, as people call them. One table: the first rule that fits counts.

use std::fmt;

/// A family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Products of matrices.
    Gemm,
    /// Attention.
    Attention,
    /// Convolutions.
    Convolution,
    /// Normalisation, softmax.
    Normalisation,
    /// Element by element, and fused chains of such.
    Elementwise,
    /// Sums and others over dimensions, scans, sorting.
    Reduction,
    /// Mixtures of experts: sorting, gating and their products.
    Moe,
    /// Steps of optimisers.
    Optimiser,
    /// What moves data: copies, fills, lookups, concatenation.
    Copy,
    /// Collectives and messages.
    Communication,
    /// All else.
    Other,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Gemm,
        Self::Attention,
        Self::Convolution,
        Self::Normalisation,
        Self::Elementwise,
        Self::Reduction,
        Self::Moe,
        Self::Optimiser,
        Self::Copy,
        Self::Communication,
        Self::Other,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "GEMM",
            Self::Attention => "attention",
            Self::Convolution => "convolution",
            Self::Normalisation => "normalisation",
            Self::Elementwise => "elementwise",
            Self::Reduction => "reduction",
            Self::Moe => "MoE",
            Self::Optimiser => "optimiser",
            Self::Copy => "copy",
            Self::Communication => "communication",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Where in a name a word of a rule stands.
#[derive(Clone, Copy)]
enum At {
    /// Anywhere.
    Anywhere,
    /// At the begin.
    Begin,
}

/// Words in the names of operators, in lower case.
const OPERATORS: &[(At, &[&str], Category)] = &[
    (
        At::Begin,
        &[
            "nccl:",
            "rccl",
            "c10d::",
            "record_param_comms",
            "_c10d_functional",
            "gloo:",
            "mori",
        ],
        Category::Communication,
    ),
    (
        At::Anywhere,
        &[
            "allreduce",
            "all_reduce",
            "allgather",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "alltoall",
        ],
        Category::Communication,
    ),
    (
        At::Anywhere,
        &[
            "moe",
            "expert",
            "grouped_topk",
            "topk_softmax",
            "topk_sigmoid",
        ],
        Category::Moe,
    ),
    (
        At::Anywhere,
        &[
            "adam",
            "fused_sgd",
            "adagrad",
            "_amp_",
            "lamb",
            "optimizer.step",
            "multi_tensor",
        ],
        Category::Optimiser,
    ),
    (
        At::Anywhere,
        &["attention", "attn", "fmha", "mha_", "mla_", "sdpa"],
        Category::Attention,
    ),
    (At::Anywhere, &["conv"], Category::Convolution),
    (At::Anywhere, &["norm", "softmax"], Category::Normalisation),
    (
        At::Anywhere,
        &["gemm", "matmul", "_mm", "::mm", "linear", "cublas"],
        Category::Gemm,
    ),
    (
        At::Begin,
        &["triton_red_", "triton_per_"],
        Category::Reduction,
    ),
    (At::Begin, &["triton_poi_"], Category::Elementwise),
    (At::Begin, &["triton_tem_"], Category::Gemm),
    (
        At::Anywhere,
        &[
            "embedding",
            "reshape_and_cache",
            "concat_and_cache",
            "copy",
            "memcpy",
        ],
        Category::Copy,
    ),
];

/// Words in the names of kernels, in lower case. Names of hipBLASLt and Tensile begin with `Cijk_`, those of CK say what they are.
const KERNELS: &[(At, &[&str], Category)] = &[
    (
        At::Anywhere,
        &[
            "nccl",
            "rccl",
            "mscclkernel",
            "cross_device_reduce",
            "all_reduce",
            "allreduce",
        ],
        Category::Communication,
    ),
    (At::Anywhere, &["moe", "topkgating"], Category::Moe),
    (
        At::Anywhere,
        &["multi_tensor_apply", "adam", "fused_sgd"],
        Category::Optimiser,
    ),
    (
        At::Anywhere,
        &[
            "fmha",
            "attention",
            "attn_fwd",
            "attn_bwd",
            "flash_fwd",
            "flash_bwd",
        ],
        Category::Attention,
    ),
    (
        At::Anywhere,
        &["conv", "winograd", "igemm", "im2col", "col2im"],
        Category::Convolution,
    ),
    (At::Anywhere, &["norm", "softmax"], Category::Normalisation),
    (At::Begin, &["cijk_"], Category::Gemm),
    (
        At::Anywhere,
        &["gemm", "matmul", "cutlass", "nvjet", "wvsplitk"],
        Category::Gemm,
    ),
    (
        At::Begin,
        &["triton_red_", "triton_per_"],
        Category::Reduction,
    ),
    (At::Begin, &["triton_poi_"], Category::Elementwise),
    (
        At::Anywhere,
        &[
            "reduce_kernel",
            "reduction",
            "cub::",
            "rocprim",
            "scan",
            "sort",
        ],
        Category::Reduction,
    ),
    (
        At::Anywhere,
        &[
            "copybuffer",
            "fillbuffer",
            "memcpy",
            "memset",
            "catarraybatchedcopy",
            "gather",
            "index",
            "transpose",
        ],
        Category::Copy,
    ),
    (At::Anywhere, &["elementwise"], Category::Elementwise),
];

fn find(rules: &[(At, &[&str], Category)], name: &str) -> Category {
    let name = name.to_ascii_lowercase();
    let fits = |at: At, word: &str| match at {
        At::Anywhere => name.contains(word),
        At::Begin => name.starts_with(word),
    };
    let found = rules
        .iter()
        .find(|(at, words, _)| words.iter().any(|word| fits(*at, word)));
    found.map_or(Category::Other, |(_, _, category)| *category)
}

/// The family of an operator: that of its model, else by its name.
#[must_use]
pub fn category_of_operator(name: &str) -> Category {
    super::models::category(name).unwrap_or_else(|| find(OPERATORS, name))
}

/// The family of a kernel that no operator is known of.
#[must_use]
pub fn category_of_kernel(name: &str) -> Category {
    find(KERNELS, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_families() {
        for (name, category) in [
            ("aten::mm", Category::Gemm),
            ("aten::add_", Category::Elementwise),
            ("aten::convolution_backward", Category::Convolution),
            ("flash_attn::_flash_attn_forward", Category::Attention),
            ("aiter::fmha_v3_varlen_fwd", Category::Attention),
            ("_C_custom_ar::all_reduce", Category::Communication),
            ("nccl:all_reduce", Category::Communication),
            ("_moe_C::moe_align_block_size", Category::Moe),
            ("triton_poi_fused_add_0", Category::Elementwise),
            ("aten::arange", Category::Other),
        ] {
            assert_eq!(category_of_operator(name), category, "{name}");
        }
        for (name, category) in [
            ("Cijk_Ailk_Bljk_SB_MT64", Category::Gemm),
            (
                "ncclDevKernel_Generic(ncclDevKernelArgs)",
                Category::Communication,
            ),
            (
                "void at::native::vectorized_elementwise_kernel<4>",
                Category::Elementwise,
            ),
            ("void at::native::reduce_kernel<512>", Category::Reduction),
            ("my_kernel", Category::Other),
        ] {
            assert_eq!(category_of_kernel(name), category, "{name}");
        }
    }
}
