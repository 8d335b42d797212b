//! Normalisation and softmax, counted from their formulas; what is read or written twice by a kernel counts once.
//!
//! A mean is a sum and a division; a variance takes the difference to the mean, its square and a sum; then each element is multiplied with the inverse of the deviation,
//! and with a weight and a bias if there are any: `5 + weight + bias` for each element, and 4 for each group (two divisions, `+ eps`, the inverse root).
//! Source: <https://arxiv.org/abs/1607.06450> (layers), 1502.03167 (batches), 1803.08494 (groups), 1910.07467 (root mean square).

use super::elementwise::same;
use crate::work::call::{Bytes, Call, bytes_like, bytes_of_all, done, elements, scalar};
use crate::work::count::{Count, product};
use crate::work::{Engine, Scalar, Tensor, Why, Work};

/// Operations of a normalisation by mean and deviation.
fn by_deviation(
    count: Count,
    groups: Count,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Count {
    let each = 5 + u64::from(weight.is_some()) + u64::from(bias.is_some());
    count * each + groups * 4
}

/// Statistics are kept as `float`, or in the input's type if that is wider.
fn statistics(input: &Tensor, count: Count) -> Bytes {
    Ok(count * scalar(input)?.max(Scalar::F32).bytes())
}

/// How many elements are normalised together: the last dimensions.
fn last(dimensions: &[u64], normalised: &[u64]) -> Result<Count, Why> {
    match dimensions.strip_suffix(normalised) {
        Some(rows) if !normalised.is_empty() => Ok(product(rows)),
        _ => Err(Why::contradiction(format!(
            "{normalised:?} at the end of {dimensions:?}"
        ))),
    }
}

/// `native_layer_norm(input, normalized_shape, weight, bias, eps)`, `layer_norm` likewise: the result, means and inverse deviations.
pub(super) fn layer(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "input")?;
    let (weight, bias) = (call.maybe(2), call.maybe(3));
    let normalised = match weight.or(bias) {
        Some(tensor) => tensor.dimensions.clone(),
        None => call.sizes(1, "normalized_shape")?,
    };
    let rows = last(&input.dimensions, &normalised)?;
    let read = bytes_of_all([Some(input), weight, bias].into_iter().flatten());
    let written = || Ok(same(input)? + statistics(input, rows * 2)?);
    let operations = by_deviation(elements(input), rows, weight, bias);
    done(Engine::Vector, input, operations, read, written())
}

/// `native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)`.
///
/// With `x̂ = (x - mean)·rstd` (2) and `g = grad·weight` (1): the sums of `g` and of `g·x̂` (3), and `rstd·(g - mean(g) - x̂·mean(g·x̂))` (4): 10 for the gradient of
/// the input, of which 2 are shared with those of weight (`grad·x̂` summed, 2) and bias (summed, 1).
pub(super) fn layer_backward(call: Call<'_>) -> Result<Work, Why> {
    let (gradient, input) = (call.tensor(0, "grad_out")?, call.tensor(1, "input")?);
    let (weight, bias) = (call.maybe(5), call.maybe(6));
    let wanted = call.flags(7, "output_mask")?;
    let parts = [call.maybe(3), call.maybe(4)].into_iter().flatten();
    gradients(gradient, input, weight, bias, &wanted, parts)
}

fn gradients<'t>(
    gradient: &'t Tensor,
    input: &'t Tensor,
    weight: Option<&'t Tensor>,
    bias: Option<&'t Tensor>,
    wanted: &[bool],
    statistics: impl Iterator<Item = &'t Tensor>,
) -> Result<Work, Why> {
    let [of_input, of_weight, of_bias] = wanted[..] else {
        return Err(Why::NoValue("output_mask"));
    };
    if gradient.dimensions != input.dimensions {
        return Err(Why::contradiction(format!(
            "{:?} of {:?}",
            gradient.dimensions, input.dimensions
        )));
    }
    let mut each = 0;
    if of_input || of_weight {
        each += 2;
    }
    if of_input {
        each += 7 + u64::from(weight.is_some());
    }
    each += 2 * u64::from(of_weight) + u64::from(of_bias);
    let read =
        || Ok(bytes_of_all([gradient, input])? + bytes_of_all(weight)? + bytes_of_all(statistics)?);
    let written = [
        (of_input, Some(input)),
        (of_weight, weight),
        (of_bias, bias.or(weight)),
    ];
    let written = written.into_iter().filter(|(is_wanted, _)| *is_wanted);
    let written = written.filter_map(|(_, tensor)| tensor).map(same).sum();
    done(
        Engine::Vector,
        input,
        elements(input) * each,
        read(),
        written,
    )
}

/// `_fused_rms_norm(input, normalized_shape, weight, eps)`, `rms_norm` likewise: squares and their sum, a product with the inverse root, and one with the weight.
pub(super) fn root_mean_square(call: Call<'_>) -> Result<Work, Why> {
    let (input, weight) = (call.tensor(0, "input")?, call.maybe(2));
    let normalised = match weight {
        Some(tensor) => tensor.dimensions.clone(),
        None => call.sizes(1, "normalized_shape")?,
    };
    let rows = last(&input.dimensions, &normalised)?;
    let operations = root(elements(input), rows, weight);
    let read = bytes_of_all([Some(input), weight].into_iter().flatten());
    let kept = if call.name == "_fused_rms_norm" {
        rows
    } else {
        Count::ZERO
    };
    let written = || Ok(same(input)? + statistics(input, kept)?);
    done(Engine::Vector, input, operations, read, written())
}

fn root(count: Count, rows: Count, weight: Option<&Tensor>) -> Count {
    count * (3 + u64::from(weight.is_some())) + rows * 3
}

/// `rms_norm(result, input, weight, epsilon)` of vLLM and SGLang, which writes into its first argument, and `fused_add_rms_norm(input, residual, weight, epsilon)`,
/// which adds the residual first and keeps the sum. Source: `csrc/layernorm_kernels.cu` of <https://github.com/vllm-project/vllm>.
pub(super) fn root_mean_square_of_servers(call: Call<'_>) -> Result<Work, Why> {
    let is_fused = call.name.contains("fused_add");
    let input = call.tensor(usize::from(!is_fused), "input")?;
    let weight = call.tensor(2, "weight")?;
    let rows = last(&input.dimensions, &weight.dimensions)?;
    let count = elements(input);
    let sums = if is_fused { count } else { Count::ZERO };
    let residual = is_fused.then(|| call.maybe(1)).flatten();
    let read = bytes_of_all([Some(input), residual, Some(weight)].into_iter().flatten());
    let written = || Ok(same(input)? + residual.map_or(Ok(Count::ZERO), same)?);
    let operations = root(count, rows, Some(weight)) + sums;
    done(Engine::Vector, input, operations, read, written())
}

/// `native_batch_norm(input, weight, bias, running_mean, running_var, training, …)` and those of libraries: in training by the batch's own mean and deviation, of
/// which it keeps both and updates the running ones (3 operations each); else by the running ones (2, and their inverse roots).
pub(super) fn batch(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "input")?;
    let [weight, bias, mean, deviation] = [1, 2, 3, 4].map(|place| call.maybe(place));
    let [_, channels, ..] = input.dimensions[..] else {
        return Err(Why::contradiction(format!(
            "{:?} has no channels",
            input.dimensions
        )));
    };
    for tensor in [weight, bias, mean, deviation].into_iter().flatten() {
        if product(&tensor.dimensions) != Count::from(channels) {
            return Err(Why::contradiction(format!(
                "{:?} for {channels} channels",
                tensor.dimensions
            )));
        }
    }
    let is_training = match call.name {
        "_native_batch_norm_legit_no_training" => false,
        _ => call.flag(5, "training")?,
    };
    let (count, channels) = (elements(input), Count::from(channels));
    let parts = || [weight, bias].into_iter().flatten();
    let running = || [mean, deviation].into_iter().flatten();
    let (operations, kept) = match is_training {
        true => {
            let updates = channels * 3 * running().count() as u64;
            (
                by_deviation(count, channels, weight, bias) + updates,
                channels * 2,
            )
        }
        false => {
            let each = 2 + parts().count() as u64;
            (count * each + channels * 2, Count::ZERO)
        }
    };
    let read = || Ok(bytes_of_all([input])? + bytes_of_all(parts().chain(running()))?);
    let written = || {
        let updated = if is_training {
            bytes_of_all(running())?
        } else {
            Count::ZERO
        };
        Ok(same(input)? + statistics(input, kept)? + updated)
    };
    done(Engine::Vector, input, operations, read(), written())
}

/// `native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask)`, and
/// `cudnn_batch_norm_backward` and `miopen_batch_norm_backward(input, grad_output, weight, …)`, which give all three gradients.
pub(super) fn batch_backward(call: Call<'_>) -> Result<Work, Why> {
    let is_native = call.name.starts_with("native");
    let (first, second) = (call.tensor(0, "grad_out")?, call.tensor(1, "input")?);
    let (gradient, input) = if is_native {
        (first, second)
    } else {
        (second, first)
    };
    let weight = call.maybe(2);
    let wanted = match is_native {
        true => call.flags(9, "output_mask")?,
        false => vec![true; 3],
    };
    let kept = [5, 6].into_iter().filter_map(|place| call.maybe(place));
    gradients(gradient, input, weight, None, &wanted, kept)
}

/// `native_group_norm(input, weight, bias, N, C, HxW, group, eps)`.
pub(super) fn group(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "input")?;
    let (weight, bias) = (call.maybe(1), call.maybe(2));
    let groups = product(&[call.size(3, "N")?, call.size(6, "group")?]);
    let told = product(&[call.size(3, "N")?, call.size(4, "C")?, call.size(5, "HxW")?]);
    if told != elements(input) {
        return Err(Why::contradiction(format!(
            "N, C and HxW for {:?}",
            input.dimensions
        )));
    }
    let read = bytes_of_all([Some(input), weight, bias].into_iter().flatten());
    let written = || Ok(same(input)? + statistics(input, groups * 2)?);
    let operations = by_deviation(elements(input), groups, weight, bias);
    done(Engine::Vector, input, operations, read, written())
}

/// `native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)`.
pub(super) fn group_backward(call: Call<'_>) -> Result<Work, Why> {
    let (gradient, input) = (call.tensor(0, "grad_out")?, call.tensor(1, "input")?);
    let wanted = call.flags(9, "output_mask")?;
    let parts = [call.maybe(2), call.maybe(3)].into_iter().flatten();
    gradients(gradient, input, call.maybe(4), None, &wanted, parts)
}

/// `_softmax(self, dim, half_to_float)` and `_log_softmax`: the largest, differences, exponentials, their sum, and quotients; or differences to the logarithm of
/// the sum.
pub(super) fn softmax(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    let rows = rows_along(call, input, 1)?;
    let is_log = call.name.contains("log");
    let operations = elements(input) * 5 + if is_log { rows } else { Count::ZERO };
    let to_float = call.flag(2, "half_to_float");
    let written = || match to_float {
        Ok(true) => Ok(elements(input) * Scalar::F32.bytes()),
        _ => same(input),
    };
    done(
        Engine::Vector,
        input,
        operations,
        bytes_of_all([input]),
        written(),
    )
}

fn rows_along(call: Call<'_>, input: &Tensor, place: usize) -> Result<Count, Why> {
    let dimension = call.integer(place, "dim")?;
    let count = input.dimensions.len() as i64;
    let at = if dimension < 0 {
        dimension.checked_add(count)
    } else {
        Some(dimension)
    };
    let at = at.and_then(|at| usize::try_from(at).ok());
    match at.and_then(|at| input.dimensions.get(at)) {
        Some(0) => Ok(Count::ZERO),
        Some(&size) => Ok(elements(input).over(Count::from(size))),
        None if count == 0 => Ok(Count::ONE),
        None => Err(Why::contradiction(format!(
            "dimension {dimension} of {:?}",
            input.dimensions
        ))),
    }
}

/// `_softmax_backward_data(grad_output, output, dim, input_dtype)` and `_log_softmax_backward_data`: products, their sum, differences, products.
pub(super) fn softmax_backward(call: Call<'_>) -> Result<Work, Why> {
    let (gradient, output) = (call.tensor(0, "grad_output")?, call.tensor(1, "output")?);
    if gradient.dimensions != output.dimensions {
        return Err(Why::contradiction(format!(
            "{:?} of {:?}",
            gradient.dimensions, output.dimensions
        )));
    }
    let read = bytes_of_all([gradient, output]);
    done(
        Engine::Vector,
        output,
        elements(output) * 4,
        read,
        bytes_like(&output.dimensions, gradient),
    )
}
