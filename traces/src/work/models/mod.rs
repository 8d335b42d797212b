//! Which operator is counted by which formula: one table of names, and a file for each family of formulas.

mod attention;
mod convolution;
mod elementwise;
mod matrix;
mod movement;
mod normalisation;
mod optimiser;
mod reduction;

use super::call::Call;
use super::{Arguments, Category, Why, Work};

type Formula = fn(Call<'_>) -> Result<Work, Why>;

/// Operators by name; those of PyTorch itself without `aten::`. Elementwise ones are in a table of their own.
const MODELS: &[(&[&str], Category, Formula)] = &[
    (&["mm", "bmm"], Category::Gemm, matrix::product_of_two),
    (
        &[
            "addmm",
            "baddbmm",
            "addmm_",
            "baddbmm_",
            "_addmm_activation",
        ],
        Category::Gemm,
        matrix::product_and_sum,
    ),
    (&["mv"], Category::Gemm, matrix::matrix_by_vector),
    (
        &["addmv", "addmv_"],
        Category::Gemm,
        matrix::matrix_by_vector_and_sum,
    ),
    (&["dot", "vdot"], Category::Gemm, matrix::inner_product),
    (&["linear"], Category::Gemm, matrix::linear),
    (
        &["_scaled_mm", "trtllm::cublas_scaled_mm"],
        Category::Gemm,
        matrix::scaled,
    ),
    (
        &["_int_mm", "bitsandbytes::int8_linear_matmul"],
        Category::Gemm,
        matrix::of_integers,
    ),
    (&["addr", "outer"], Category::Gemm, matrix::outer),
    (&["_grouped_mm"], Category::Gemm, matrix::grouped),
    (
        &[
            "conv1d",
            "conv2d",
            "conv3d",
            "convolution",
            "_convolution",
            "convolution_overrideable",
            "cudnn_convolution",
            "cudnn_convolution_relu",
            "cudnn_convolution_add_relu",
            "cudnn_convolution_transpose",
            "miopen_convolution",
            "miopen_depthwise_convolution",
            "miopen_convolution_relu",
            "miopen_convolution_add_relu",
            "miopen_convolution_transpose",
            "mkldnn_convolution",
            "conv_transpose1d",
            "conv_transpose2d",
            "conv_transpose3d",
            "thnn_conv2d",
            "_slow_conv2d_forward",
            "slow_conv3d",
            "_conv_depthwise2d",
            "conv_depthwise3d",
        ],
        Category::Convolution,
        convolution::forward,
    ),
    (
        &["convolution_backward"],
        Category::Convolution,
        convolution::backward,
    ),
    (
        &["DaoAILab::_causal_conv1d_fwd_cpp"],
        Category::Convolution,
        convolution::causal,
    ),
    (
        &[
            "scaled_dot_product_attention",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_attention_math",
            "_scaled_dot_product_fused_attention_overrideable",
        ],
        Category::Attention,
        attention::scaled_dot_product,
    ),
    (
        &[
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_efficient_attention_backward",
            "_scaled_dot_product_cudnn_attention_backward",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_scaled_dot_product_fused_attention_overrideable_backward",
        ],
        Category::Attention,
        attention::scaled_dot_product_backward,
    ),
    (
        &["_flash_attention_forward"],
        Category::Attention,
        attention::flash,
    ),
    (
        &["_flash_attention_backward"],
        Category::Attention,
        attention::flash_backward,
    ),
    (
        &["_efficient_attention_forward"],
        Category::Attention,
        attention::efficient,
    ),
    (
        &["_efficient_attention_backward"],
        Category::Attention,
        attention::efficient_backward,
    ),
    (
        &[
            "flash_attn::_flash_attn_forward",
            "FlashAttnFunc",
            "aiter::_flash_attn_forward",
            "aiter::mha_fwd",
        ],
        Category::Attention,
        attention::flash_attn,
    ),
    (
        &[
            "flash_attn::_flash_attn_backward",
            "aiter::_flash_attn_backward",
        ],
        Category::Attention,
        attention::flash_attn_backward,
    ),
    (
        &["flash_attn::_flash_attn_varlen_forward"],
        Category::Attention,
        attention::flash_attn_packed,
    ),
    (
        &["flash_attn::_flash_attn_varlen_backward"],
        Category::Attention,
        attention::flash_attn_packed_backward,
    ),
    (
        &[
            "vllm::unified_attention",
            "vllm::unified_attention_with_output",
            "_C::paged_attention_v1",
            "_C::paged_attention_v2",
            "_rocm_C::paged_attention",
            "aiter::paged_attention_rocm",
            "aiter::pa_fwd_asm",
            "aiter::mla_decode_fwd",
            "aiter::mla_prefill_fwd",
            "sgl_kernel::decode_attention",
        ],
        Category::Attention,
        attention::paged,
    ),
    (
        &["native_layer_norm", "layer_norm"],
        Category::Normalisation,
        normalisation::layer,
    ),
    (
        &["native_layer_norm_backward"],
        Category::Normalisation,
        normalisation::layer_backward,
    ),
    (
        &["_fused_rms_norm", "rms_norm"],
        Category::Normalisation,
        normalisation::root_mean_square,
    ),
    (
        &[
            "_C::rms_norm",
            "_C::fused_add_rms_norm",
            "sgl_kernel::rmsnorm",
            "sgl_kernel::fused_add_rmsnorm",
        ],
        Category::Normalisation,
        normalisation::root_mean_square_of_servers,
    ),
    (
        &[
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_no_training",
            "cudnn_batch_norm",
            "miopen_batch_norm",
            "batch_norm",
        ],
        Category::Normalisation,
        normalisation::batch,
    ),
    (
        &[
            "native_batch_norm_backward",
            "cudnn_batch_norm_backward",
            "miopen_batch_norm_backward",
        ],
        Category::Normalisation,
        normalisation::batch_backward,
    ),
    (
        &["native_group_norm"],
        Category::Normalisation,
        normalisation::group,
    ),
    (
        &["native_group_norm_backward"],
        Category::Normalisation,
        normalisation::group_backward,
    ),
    (
        &["_softmax", "_log_softmax", "_safe_softmax"],
        Category::Normalisation,
        normalisation::softmax,
    ),
    (
        &["_softmax_backward_data", "_log_softmax_backward_data"],
        Category::Normalisation,
        normalisation::softmax_backward,
    ),
    (
        &["native_dropout"],
        Category::Elementwise,
        elementwise::dropout,
    ),
    (
        &[
            "_C::silu_and_mul",
            "_C::gelu_and_mul",
            "_C::gelu_tanh_and_mul",
            "_C::mul_and_silu",
            "sgl_kernel::silu_and_mul",
            "aiter::silu_and_mul",
        ],
        Category::Elementwise,
        elementwise::gated,
    ),
    (
        &[
            "_foreach_add_",
            "_foreach_sub_",
            "_foreach_mul_",
            "_foreach_div_",
            "_foreach_sqrt",
            "_foreach_sqrt_",
            "_foreach_neg",
            "_foreach_addcmul_",
            "_foreach_addcdiv_",
            "_foreach_lerp_",
            "_foreach_add",
            "_foreach_mul",
            "_foreach_div",
            "_foreach_copy_",
            "_foreach_zero_",
        ],
        Category::Optimiser,
        elementwise::for_each,
    ),
    (
        &[
            "_fused_adam_",
            "_fused_adamw_",
            "_fused_sgd_",
            "_fused_adagrad_",
        ],
        Category::Optimiser,
        optimiser::fused,
    ),
    (
        &[
            "sum",
            "nansum",
            "prod",
            "mean",
            "amax",
            "amin",
            "max",
            "min",
            "argmax",
            "argmin",
            "any",
            "all",
            "var",
            "std",
            "norm",
            "linalg_vector_norm",
            "logsumexp",
            "count_nonzero",
        ],
        Category::Reduction,
        reduction::reduction,
    ),
    (
        &["cumsum", "cumprod", "_cumsum", "logcumsumexp"],
        Category::Reduction,
        reduction::scan,
    ),
    (&["mse_loss"], Category::Reduction, reduction::mean_square),
    (&["topk"], Category::Reduction, reduction::top),
    (&["sort", "argsort"], Category::Reduction, reduction::sort),
    (
        &["copy_", "_copy_from"],
        Category::Copy,
        movement::copy_into,
    ),
    (
        &["clone", "contiguous", "flip", "roll", "repeat_interleave"],
        Category::Copy,
        movement::copy,
    ),
    (
        &[
            "fill_",
            "zero_",
            "uniform_",
            "normal_",
            "random_",
            "bernoulli_",
            "exponential_",
        ],
        Category::Copy,
        movement::fill,
    ),
    (
        &["cat", "stack", "_cat"],
        Category::Copy,
        movement::concatenate,
    ),
    (&["embedding"], Category::Copy, movement::embedding),
    (
        &["embedding_dense_backward"],
        Category::Copy,
        movement::embedding_backward,
    ),
    (&["index_select"], Category::Copy, movement::select),
    (&["gather"], Category::Copy, movement::gather),
    (
        &[
            "scatter_",
            "scatter",
            "scatter_add_",
            "scatter_add",
            "index_add_",
            "index_add",
            "index_copy_",
        ],
        Category::Copy,
        movement::scatter,
    ),
    (
        &[
            "constant_pad_nd",
            "reflection_pad1d",
            "reflection_pad2d",
            "replication_pad1d",
            "replication_pad2d",
            "replication_pad3d",
        ],
        Category::Copy,
        movement::pad,
    ),
    (
        &[
            "upsample_nearest1d",
            "upsample_nearest2d",
            "upsample_nearest3d",
            "_upsample_nearest_exact1d",
            "_upsample_nearest_exact2d",
            "_upsample_nearest_exact3d",
            "upsample_linear1d",
            "upsample_bilinear2d",
            "upsample_trilinear3d",
            "upsample_bicubic2d",
        ],
        Category::Elementwise,
        movement::upsample,
    ),
    (
        &[
            "max_pool2d_with_indices",
            "max_pool3d_with_indices",
            "avg_pool2d",
            "avg_pool3d",
        ],
        Category::Reduction,
        movement::pool,
    ),
    (
        &["_adaptive_avg_pool2d", "_adaptive_avg_pool3d"],
        Category::Reduction,
        movement::adaptive_pool,
    ),
    (
        &[
            "max_pool2d_with_indices_backward",
            "max_pool3d_with_indices_backward",
            "avg_pool2d_backward",
            "_adaptive_avg_pool2d_backward",
        ],
        Category::Reduction,
        movement::pool_backward,
    ),
];

/// What kernels of `torch.compile` begin with that move and compute element by element, and what of templates, whose operations are those of their products.
const FUSED: &[(&str, Category)] = &[
    ("triton_poi_", Category::Elementwise),
    ("triton_red_", Category::Reduction),
    ("triton_per_", Category::Reduction),
];

fn find(name: &str) -> Option<(&str, Category, Formula)> {
    let name = name.strip_prefix("aten::").unwrap_or(name);
    if let Some((_, category, formula)) = MODELS.iter().find(|(names, ..)| names.contains(&name)) {
        return Some((name, *category, *formula));
    }
    if let Some((_, category)) = FUSED.iter().find(|(begin, _)| name.starts_with(begin)) {
        return Some((name, *category, movement::fused));
    }
    let is_elementwise = elementwise::is_formula(name) || elementwise::in_place(name).is_some();
    is_elementwise.then_some((name, Category::Elementwise, elementwise::element_by_element))
}

/// Whether there is a model of an operator.
#[must_use]
pub fn has_model(name: &str) -> bool {
    find(name).is_some()
}

/// The family of an operator that there is a model of.
pub(super) fn category(name: &str) -> Option<Category> {
    find(name).map(|(_, category, _)| category)
}

/// The names of all operators that there is a model of, but for those in place.
pub fn names() -> impl Iterator<Item = &'static str> {
    let models = MODELS.iter().flat_map(|(names, ..)| names.iter().copied());
    models.chain(elementwise::names())
}

/// What a call of an operator has to do, from its name and from what traces say of its arguments.
///
/// # Errors
/// When there is no model, or the trace says too little, or what it says cannot be.
pub fn work(name: &str, arguments: &str) -> Result<Work, Why> {
    let (name, _, formula) = find(name).ok_or(Why::NoModel)?;
    formula(Call::new(name, &Arguments::read(arguments)?))
}

#[cfg(test)]
mod tests;
