//! Element by element: an operation for each element of the result, more where the formula of the operator has more; tensors of different dimensions are
//! broadcast. Sources: <https://docs.pytorch.org/docs/stable/notes/broadcasting.html>, and for types of results
//! <https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc>.

use crate::work::call::{Bytes, Call, bytes_of_all, done, scalar};
use crate::work::count::{Count, product};
use crate::work::{Engine, Scalar, Tensor, Why, Work};

/// What type a result has.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gives {
    /// That of the inputs together.
    Common,
    /// The same, but of integers a floating-point one.
    Floating,
    /// `bool`.
    Bool,
    /// That of the tensor at this place.
    Of(usize),
}

/// An operator: the places of its tensors, operations for each element, and the type of its result.
#[derive(Debug, Clone, Copy)]
struct Formula {
    places: &'static [usize],
    each: u64,
    gives: Gives,
}

const fn formula(places: &'static [usize], each: u64, gives: Gives) -> Formula {
    Formula {
        places,
        each,
        gives,
    }
}

/// Operators with one formula for all elements, by name without the underscore of those that work in place.
const FORMULAS: &[(&[&str], Formula)] = &[
    (
        &[
            "abs",
            "neg",
            "sign",
            "ceil",
            "floor",
            "round",
            "trunc",
            "relu",
            "square",
            "bitwise_not",
            "clamp_min",
            "clamp_max",
            "threshold",
            "nan_to_num",
            "relu6",
            "hardtanh",
            "frac",
            "positive",
        ],
        formula(&[0], 1, Gives::Common),
    ),
    // A square is a product, other powers are a function.
    (&["pow"], formula(&[0, 1], 1, Gives::Common)),
    (
        &[
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "rsqrt",
            "reciprocal",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "erf",
            "erfc",
            "erfinv",
            "sigmoid",
            "lgamma",
            "digamma",
            "special_expit",
        ],
        formula(&[0], 1, Gives::Floating),
    ),
    // x·sigmoid(x), x·Φ(x), x·tanh(softplus(x)), log(1 + exp(x)): counted by what they are written with.
    (
        &[
            "silu",
            "elu",
            "leaky_relu",
            "softplus",
            "celu",
            "selu",
            "hardsigmoid",
            "log_sigmoid",
            "logit",
        ],
        formula(&[0], 2, Gives::Common),
    ),
    (
        &["gelu", "mish", "hardswish", "clamp"],
        formula(&[0], 2, Gives::Common),
    ),
    (
        &[
            "add",
            "sub",
            "rsub",
            "mul",
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "remainder",
            "fmod",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "__and__",
            "__or__",
            "__xor__",
            "__lshift__",
            "__rshift__",
            "bitwise_left_shift",
            "bitwise_right_shift",
            "floor_divide",
            "prelu",
        ],
        formula(&[0, 1], 1, Gives::Common),
    ),
    (
        &["div", "true_divide", "atan2", "hypot", "xlogy", "copysign"],
        formula(&[0, 1], 1, Gives::Floating),
    ),
    (
        &[
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "logical_and",
            "logical_or",
            "logical_xor",
            "isclose",
        ],
        formula(&[0, 1], 1, Gives::Bool),
    ),
    (
        &["isnan", "isinf", "isfinite", "logical_not", "signbit"],
        formula(&[0], 1, Gives::Bool),
    ),
    (&["where"], formula(&[0, 1, 2], 1, Gives::Common)),
    (&["lerp"], formula(&[0, 1, 2], 3, Gives::Common)),
    (
        &["addcmul", "addcdiv"],
        formula(&[0, 1, 2], 3, Gives::Common),
    ),
    (&["masked_fill"], formula(&[0, 1], 1, Gives::Of(0))),
    (&["tril", "triu"], formula(&[0], 1, Gives::Of(0))),
    // Gradients: of the result, and of the input or the result.
    (
        &[
            "threshold_backward",
            "hardtanh_backward",
            "leaky_relu_backward",
            "elu_backward",
            "hardsigmoid_backward",
            "softplus_backward",
        ],
        formula(&[0, 1], 1, Gives::Common),
    ),
    (
        &["sigmoid_backward", "tanh_backward"],
        formula(&[0, 1], 3, Gives::Common),
    ),
    (
        &[
            "silu_backward",
            "gelu_backward",
            "mish_backward",
            "hardswish_backward",
            "logit_backward",
        ],
        formula(&[0, 1], 5, Gives::Common),
    ),
    (
        &["native_dropout_backward", "masked_scale", "_masked_scale"],
        formula(&[0, 1], 2, Gives::Of(0)),
    ),
    (&["mse_loss_backward"], formula(&[0, 1, 2], 3, Gives::Of(1))),
    // `silu(gate)·up` over both halves of the last dimension: see `gated`.
];

/// The name of an operator that works in place, without its underscore, as long as another has that.
pub(super) fn in_place(name: &str) -> Option<&str> {
    let base = name.strip_suffix('_')?;
    (!base.ends_with('_') && is_formula(base)).then_some(base)
}

/// Whether an operator has a formula here.
pub(super) fn is_formula(name: &str) -> bool {
    find(name).is_some()
}

/// The names of all formulas.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMULAS.iter().flat_map(|(names, _)| names.iter().copied())
}

fn find(name: &str) -> Option<Formula> {
    let found = FORMULAS.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, formula)| *formula)
}

/// Whether PyTorch's profiler may have written a number of Python so: it becomes a tensor of the widest type of its category without dimensions, which is in no memory.
fn is_number(tensor: &Tensor) -> bool {
    let widest = matches!(
        tensor.scalar,
        Ok(Scalar::Bool | Scalar::I64 | Scalar::F64 | Scalar::C128)
    );
    tensor.dimensions.is_empty() && widest
}

/// The common dimensions of tensors.
pub(super) fn broadcast<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Result<Vec<u64>, Why> {
    // The last dimension first.
    let mut common: Vec<u64> = Vec::new();
    for tensor in tensors {
        for (at, &size) in tensor.dimensions.iter().rev().enumerate() {
            match common.get_mut(at) {
                None => common.push(size),
                Some(known) if *known == size || size == 1 => {}
                Some(known) if *known == 1 => *known = size,
                Some(known) => {
                    return Err(Why::contradiction(format!(
                        "{known} against {size} elements of a dimension"
                    )));
                }
            }
        }
    }
    common.reverse();
    Ok(common)
}

/// Whether a tensor can be broadcast to these dimensions.
pub(super) fn fits(dimensions: &[u64], to: &[u64]) -> Result<(), Why> {
    let mut pairs = dimensions.iter().rev().zip(to.iter().rev());
    match dimensions.len() <= to.len() && pairs.all(|(one, other)| *one == 1 || one == other) {
        true => Ok(()),
        false => Err(Why::contradiction(format!(
            "{dimensions:?} for a result of {to:?}"
        ))),
    }
}

/// The type of what tensors make together: those with dimensions decide, unless one without is of a higher category.
pub(super) fn common_type<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Result<Scalar, Why> {
    let (mut sized, mut single): (Option<Scalar>, Option<Scalar>) = (None, None);
    for tensor in tensors {
        let scalar = scalar(tensor)?;
        let kept = if tensor.dimensions.is_empty() {
            &mut single
        } else {
            &mut sized
        };
        *kept = Some(kept.map_or(scalar, |kept| kept.promoted(scalar)));
    }
    match (sized, single) {
        (Some(sized), Some(single)) if single.category() > sized.category() => {
            // A number of Python is a double or a long: with tensors of a lower category it becomes the default type of its category.
            Ok(match single {
                Scalar::F64 => Scalar::F32,
                Scalar::C128 => Scalar::C64,
                other => other,
            })
        }
        (Some(scalar), _) | (None, Some(scalar)) => Ok(scalar),
        (None, None) => Err(Why::Missing("self")),
    }
}

/// The work of an operator with a formula.
pub(super) fn element_by_element(call: Call<'_>) -> Result<Work, Why> {
    let base = in_place(call.name);
    let formula = find(base.unwrap_or(call.name)).ok_or(Why::NoModel)?;
    // What computes in place has its own type, and its own dimensions.
    let gives = match base {
        Some(_) => Gives::Of(0),
        None => formula.gives,
    };
    let tensors: Vec<&Tensor> = formula
        .places
        .iter()
        .filter_map(|&place| call.maybe(place))
        .collect();
    let Some(first) = tensors.first() else {
        return Err(Why::Missing("self"));
    };
    let result = broadcast(tensors.iter().copied())?;
    if base.is_some() && result != first.dimensions {
        return Err(Why::contradiction(format!(
            "{:?} in place of {result:?}",
            first.dimensions
        )));
    }
    let count = product(&result);
    let values = if call.name.starts_with("where") {
        &tensors[1..]
    } else {
        &tensors[..]
    };
    let kind = || match gives {
        Gives::Common => common_type(values.iter().copied()),
        Gives::Floating => common_type(values.iter().copied()).map(Scalar::floating),
        Gives::Bool => Ok(Scalar::Bool),
        Gives::Of(place) => scalar(call.tensor(place, "self")?),
    };
    let written = kind().map(|kind| count * kind.bytes());
    let others = tensors[1..].iter().filter(|tensor| !is_number(tensor));
    let in_memory = std::iter::once(*first).chain(others.copied());
    let widest = tensors
        .iter()
        .max_by_key(|tensor| tensor.dimensions.len())
        .unwrap_or(first);
    done(
        Engine::Vector,
        widest,
        count * formula.each,
        bytes_of_all(in_memory),
        written,
    )
}

/// The result beside a tensor: the same dimensions and type.
pub(super) fn same(tensor: &Tensor) -> Bytes {
    Ok(product(&tensor.dimensions) * scalar(tensor)?.bytes())
}

/// `native_dropout(input, p, train)`, which writes what it kept as well.
pub(super) fn dropout(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "input")?;
    let count = product(&input.dimensions);
    let written = same(input).map(|bytes| bytes + count);
    done(
        Engine::Vector,
        input,
        count * 2,
        bytes_of_all([input]),
        written,
    )
}

/// `silu_and_mul(result, input)`, `gelu_and_mul` and the like of vLLM, SGLang and AITER: the result is half as wide as the input.
/// Source: `csrc/activation_kernels.cu` of <https://github.com/vllm-project/vllm>.
pub(super) fn gated(call: Call<'_>) -> Result<Work, Why> {
    let (result, input) = (call.tensor(0, "out")?, call.tensor(1, "input")?);
    let count = product(&result.dimensions);
    if product(&input.dimensions) != count * 2 {
        return Err(Why::contradiction(format!(
            "{:?} of {:?}",
            result.dimensions, input.dimensions
        )));
    }
    done(
        Engine::Vector,
        input,
        count * 3,
        bytes_of_all([input]),
        same(result),
    )
}

/// Tensors that a list of the same operator works on: `_foreach_add_(self[], other[] or scalar)`. Types of lists are not in the trace.
pub(super) fn for_each(call: Call<'_>) -> Result<Work, Why> {
    let list = call.list(0, "self")?;
    let count: Count = list.iter().map(|tensor| product(&tensor.dimensions)).sum();
    let first = list.first().ok_or(Why::Missing("self"))?;
    let each = match call
        .name
        .trim_start_matches("_foreach_")
        .trim_end_matches('_')
    {
        "copy" | "zero" => 0,
        "addcmul" | "addcdiv" | "lerp" => 3,
        _ => 1,
    };
    let lists = call.tensors();
    done(
        Engine::Vector,
        first,
        count * each,
        bytes_of_all(lists),
        bytes_of_all(list),
    )
}

/// Two tensors, element by element.
pub(super) fn of_two(call: Call<'_>) -> Result<Work, Why> {
    let (one, other) = (call.tensor(0, "self")?, call.tensor(1, "other")?);
    let count = product(&broadcast([one, other].into_iter())?);
    let written = common_type([one, other].into_iter()).map(|kind| count * kind.bytes());
    done(
        Engine::Vector,
        one,
        count,
        bytes_of_all([one, other]),
        written,
    )
}
