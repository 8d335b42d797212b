//! Operators of frameworks and entry points of libraries, known by the functions of call stacks.
//!
//! The whole table is `RULES`: a function's name, or the source file of a Python function, says which operator it is.

use std::collections::HashMap;

use rsys_traces::model::{Frame, Model, StackId, TextId};

/// What an operator's function looks like, and what the operator is called.
#[derive(Debug, Clone, Copy)]
enum Pattern {
    /// `PREFIX::NAME::…`: a PyTorch operator, with its overload behind the name.
    Overloaded(&'static str),
    /// A function or class below this namespace: the part that follows it.
    Below(&'static str),
    /// A part of the qualified name with this prefix and this end, digits behind the end left aside.
    Part(&'static str, &'static str),
    /// A C function whose name begins so and goes on with anything but `::`.
    Function(&'static str),
    /// A Python function of a file with this end.
    File(&'static str),
    /// One Python function of a file with this end, and what it is called.
    FileFunction(&'static str, &'static str, &'static str),
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
struct Rule {
    framework: &'static str,
    pattern: Pattern,
    /// What stands in front of the name that was found.
    prefix: &'static str,
    /// Operators of this kind call others of the framework. Where they do not, only the outermost counts.
    nests: bool,
}

const fn nesting(framework: &'static str, pattern: Pattern, prefix: &'static str) -> Rule {
    Rule {
        framework,
        pattern,
        prefix,
        nests: true,
    }
}

const fn entry_point(framework: &'static str, pattern: Pattern, prefix: &'static str) -> Rule {
    Rule {
        framework,
        pattern,
        prefix,
        nests: false,
    }
}

/// The first that fits counts.
const RULES: &[Rule] = &[
    nesting("PyTorch", Pattern::Overloaded("at::_ops::"), "aten::"),
    nesting(
        "PyTorch",
        Pattern::Part("torch::autograd::", "Backward"),
        "",
    ),
    entry_point("PyTorch", Pattern::Below("at::native::"), "aten::"),
    entry_point(
        "PyTorch",
        Pattern::Below("c10d::ProcessGroupNCCL::"),
        "c10d::",
    ),
    entry_point(
        "Triton",
        Pattern::FileFunction("triton/runtime/jit.py", "run", "triton launch"),
        "",
    ),
    entry_point(
        "Triton",
        Pattern::FileFunction(
            "torch/_inductor/runtime/triton_heuristics.py",
            "run",
            "inductor launch",
        ),
        "",
    ),
    entry_point("vLLM", Pattern::File("vllm/_custom_ops.py"), "vllm::"),
    nesting("XLA", Pattern::Part("xla::", "Thunk"), "xla::"),
    entry_point(
        "JAX",
        Pattern::FileFunction("jax/_src/pjit.py", "cache_miss", "jit"),
        "jax::",
    ),
    entry_point(
        "JAX",
        Pattern::FileFunction("jax/_src/interpreters/pxla.py", "__call__", "execute"),
        "jax::",
    ),
    nesting("TensorFlow", Pattern::Part("tensorflow::", "Op"), "tf::"),
    entry_point("hipBLASLt", Pattern::Function("hipblasLt"), ""),
    entry_point("hipBLAS", Pattern::Function("hipblas"), ""),
    entry_point("rocBLAS", Pattern::Function("rocblas_"), ""),
    entry_point("MIOpen", Pattern::Function("miopen"), ""),
    entry_point("rocFFT", Pattern::Function("rocfft_"), ""),
    entry_point("hipFFT", Pattern::Function("hipfft"), ""),
    entry_point("rocSPARSE", Pattern::Function("rocsparse_"), ""),
    entry_point("hipSPARSE", Pattern::Function("hipsparse"), ""),
    entry_point("rocSOLVER", Pattern::Function("rocsolver_"), ""),
    entry_point("RCCL", Pattern::Function("nccl"), ""),
    entry_point("oneDNN", Pattern::Function("dnnl_primitive_execute"), ""),
    entry_point("BLAS", Pattern::Function("cblas_"), ""),
];

/// Words in the names of overloads of PyTorch operators. (What begins with a capital needs no list.)
const OVERLOAD_WORDS: &[&str] = &[
    "all",
    "array",
    "atol",
    "ccol_row",
    "correction",
    "crow_col",
    "data",
    "decimals",
    "default",
    "deprecated",
    "deterministic",
    "device",
    "dim",
    "dim_max",
    "dim_min",
    "dimname",
    "dtype",
    "dx",
    "float",
    "from",
    "generator",
    "grad_input",
    "indices",
    "input",
    "int",
    "intlist",
    "layout",
    "low",
    "memory_format",
    "mode",
    "n_scalar",
    "names",
    "other",
    "other_scalar",
    "out",
    "output",
    "output_mask",
    "padding",
    "periodic",
    "reduce",
    "rtol",
    "scalar",
    "self",
    "self_scalar",
    "size",
    "sizes",
    "source",
    "src",
    "stable",
    "start",
    "step",
    "storage_offset",
    "tensor_qparams",
    "tensors",
    "to",
    "two",
    "using_ints",
    "using_names",
    "value",
    "values",
    "vec",
    "with_names",
    "x",
    "x_scalar",
];

/// Operators whose own names end like an overload.
const WHOLE_NAMES: &[&str] = &[
    "_add_batch_dim",
    "_convolution_mode",
    "_copy_from",
    "_cufft_get_plan_cache_max_size",
    "_cufft_get_plan_cache_size",
    "_cufft_set_plan_cache_max_size",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "_histogramdd_from_bin_tensors",
    "_log_softmax_backward_data",
    "_nested_tensor_size",
    "_remove_batch_dim",
    "_resize_output",
    "_softmax_backward_data",
    "_sparse_broadcast_to",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "_sparse_log_softmax_backward_data",
    "_sparse_softmax_backward_data",
    "_validate_compressed_sparse_indices",
    "affine_grid_generator",
    "align_tensors",
    "align_to",
    "batch_norm_backward_reduce",
    "broadcast_tensors",
    "broadcast_to",
    "ccol_indices",
    "col_indices",
    "crow_indices",
    "cudnn_affine_grid_generator",
    "dense_dim",
    "flatten_dense_tensors",
    "index_reduce",
    "is_same_size",
    "is_set_to",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "mkldnn_linear_backward_input",
    "norm_except_dim",
    "refine_names",
    "row_indices",
    "scatter_reduce",
    "segment_reduce",
    "set_data",
    "sparse_dim",
    "split_with_sizes",
    "sum_to_size",
    "take_along_dim",
    "tril_indices",
    "triu_indices",
    "unflatten_dense_tensors",
    "unique_dim",
    "unsafe_split_with_sizes",
];

/// An operator, or the entry point of a library.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operator {
    /// The framework or library.
    pub framework: &'static str,
    /// Its name, for instance `aten::add`.
    pub name: String,
    /// Types and dimensions of its arguments, if operators are told apart by those.
    pub shapes: String,
    nests: bool,
}

/// The operator that a function stands for, if it does.
#[must_use]
pub fn operator(function: &str, source: &str) -> Option<Operator> {
    let qualified = qualified_name(function);
    RULES.iter().find_map(|rule| {
        let name = rule.pattern.name(qualified, source)?;
        Some(Operator {
            framework: rule.framework,
            name: format!("{}{name}", rule.prefix),
            shapes: String::new(),
            nests: rule.nests,
        })
    })
}

/// A C++ function without its arguments, template arguments and the type of its result.
fn qualified_name(function: &str) -> &str {
    let end = function.find(['(', '<']).unwrap_or(function.len());
    let head = &function[..end];
    head.rsplit(' ').next().unwrap_or(head)
}

impl Pattern {
    fn name<'t>(&self, qualified: &'t str, source: &str) -> Option<&'t str> {
        let name = match *self {
            Self::Overloaded(namespace) => {
                let (name, _) = qualified.strip_prefix(namespace)?.split_once("::")?;
                without_overload(name)
            }
            Self::Below(namespace) => qualified.strip_prefix(namespace)?.split("::").next()?,
            Self::Part(prefix, end) => {
                let parts = qualified.strip_prefix(prefix)?;
                let is_one = |part: &&str| {
                    let letters = part.trim_end_matches(|one: char| one.is_ascii_digit());
                    letters.len() > end.len() && letters.ends_with(end)
                };
                parts.split("::").find(is_one)?
            }
            Self::Function(prefix) => {
                let rest = qualified.strip_prefix(prefix)?;
                (!rest.contains("::")).then_some(qualified)?
            }
            Self::File(end) => source.ends_with(end).then(|| last_part(qualified))?,
            Self::FileFunction(end, function, name) => {
                let fits = source.ends_with(end) && last_part(qualified) == function;
                fits.then_some(name)?
            }
        };
        (!name.is_empty()).then_some(name)
    }
}

/// The last part of a Python function's qualified name.
fn last_part(qualified: &str) -> &str {
    qualified.rsplit('.').next().unwrap_or(qualified)
}

/// `add__Tensor` is the overload `Tensor` of `add_`.
fn without_overload(name: &str) -> &str {
    let bytes = name.as_bytes();
    let capital =
        (2..bytes.len()).find(|&at| bytes[at].is_ascii_uppercase() && bytes[at - 1] == b'_');
    let mut name = capital.map_or(name, |at| &name[..at - 1]);
    loop {
        if WHOLE_NAMES.contains(&name) {
            return name;
        }
        let base = OVERLOAD_WORDS
            .iter()
            .filter_map(|word| name.strip_suffix(word)?.strip_suffix('_'))
            .filter(|base| !base.is_empty() && *base != "_")
            .min_by_key(|base| base.len());
        match base {
            Some(base) => name = base,
            None => return name,
        }
    }
}

/// The operators of call stacks, each function looked up once.
#[derive(Debug, Default)]
pub(crate) struct Operators {
    list: Vec<Operator>,
    numbers: HashMap<Operator, usize>,
    of_functions: HashMap<(TextId, TextId), Option<usize>>,
}

impl Operators {
    /// An operator by its number.
    pub(crate) fn get(&self, number: usize) -> &Operator {
        &self.list[number]
    }

    /// The number of an operator that is named by a slice of the trace.
    pub(crate) fn named(&mut self, framework: &'static str, name: &str, shapes: &str) -> usize {
        self.number(Operator {
            framework,
            name: name.to_owned(),
            shapes: shapes.to_owned(),
            nests: true,
        })
    }

    fn number(&mut self, operator: Operator) -> usize {
        let list = &mut self.list;
        *self.numbers.entry(operator).or_insert_with_key(|operator| {
            list.push(operator.clone());
            list.len() - 1
        })
    }

    fn of_frame(&mut self, frame: &Frame, model: &Model) -> Option<usize> {
        let key = (frame.function, frame.source);
        if let Some(&known) = self.of_functions.get(&key) {
            return known;
        }
        let found = operator(model.text(frame.function), model.text(frame.source));
        let number = found.map(|operator| self.number(operator));
        self.of_functions.insert(key, number);
        number
    }

    /// Puts the operators of a stack into `chain`, the innermost first.
    pub(crate) fn of_stack(&mut self, stack: StackId, model: &Model, chain: &mut Vec<usize>) {
        chain.clear();
        for frame in model.stacks.innermost_first(stack) {
            let Some(number) = self.of_frame(frame, model) else {
                continue;
            };
            // What the framework calls inside of this operator is part of it, unless it is an operator by itself.
            let framework = self.list[number].framework;
            let list = &self.list;
            chain.retain(|&inner| list[inner].nests || list[inner].framework != framework);
            chain.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_name_their_operators() {
        let cases = [
            ("at::_ops::add_Tensor::call(at::Tensor const&)", "aten::add"),
            ("at::_ops::add__Tensor::redispatch(…)", "aten::add_"),
            ("at::_ops::copy_::call", "aten::copy_"),
            ("at::_ops::sum_dim_IntList::call", "aten::sum"),
            ("at::_ops::arange_start_step::call", "aten::arange"),
            ("at::_ops::median_names_dim_values::call", "aten::median"),
            ("at::_ops::split_with_sizes::call", "aten::split_with_sizes"),
            ("at::_ops::_softmax::call", "aten::_softmax"),
            ("at::_ops::_to_copy::call", "aten::_to_copy"),
            ("at::_ops::index_put_::call", "aten::index_put_"),
            ("at::native::addmm_out_cpu(…)", "aten::addmm_out_cpu"),
            (
                "void at::native::vec_kernel<float, (int)4>(…)",
                "aten::vec_kernel",
            ),
            (
                "torch::autograd::generated::AddmmBackward0::apply(…)",
                "AddmmBackward0",
            ),
            (
                "xla::gpu::KernelThunk::ExecuteOnStream(…)",
                "xla::KernelThunk",
            ),
            ("hipblasLtMatmul", "hipblasLtMatmul"),
            ("rocblas_gemm_ex", "rocblas_gemm_ex"),
            ("miopenConvolutionForward", "miopenConvolutionForward"),
        ];
        for (function, name) in cases {
            let found = operator(function, "");
            assert_eq!(
                found.map(|found| found.name).as_deref(),
                Some(name),
                "{function}"
            );
        }
    }

    #[test]
    fn python_functions_are_known_by_their_files() {
        let launch = operator("JITFunction.run", "/env/triton/runtime/jit.py");
        assert_eq!(
            launch.map(|found| found.name).as_deref(),
            Some("triton launch")
        );
        let norm = operator("rms_norm", "/env/vllm/_custom_ops.py");
        assert_eq!(
            norm.map(|found| found.name).as_deref(),
            Some("vllm::rms_norm")
        );
    }

    #[test]
    fn other_functions_are_no_operators() {
        for function in [
            "main",
            "miopen::solver::find",
            "at::Tensor::add",
            "torch::autograd::Backward",
            "my_rocblas_gemm",
            "",
        ] {
            assert_eq!(operator(function, "/env/triton/runtime/build.py"), None);
        }
    }
}
