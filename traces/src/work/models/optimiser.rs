//! Fused optimisers: all parameters in one operator. Source of the formulas: the algorithms at <https://docs.pytorch.org/docs/stable/optim.html>.
//!
//! Each parameter has its gradient, and one or two moments; all are read, and all but the gradient written. The types of lists are not in the trace, so bytes mostly are
//! not known.

use crate::work::call::{Call, bytes_of_all, done};
use crate::work::count::{Count, product};
use crate::work::{Engine, Tensor, Why, Work};

/// `_fused_adamw_(self[], grads[], exp_avgs[], exp_avg_sqs[], max_exp_avg_sqs[], state_steps[], …)` and `_fused_adam_`: moments (3 and 4), their corrections (2), a root, a
/// sum, a quotient, the step (2), and the decay of weights (2): 16. `_fused_sgd_(self[], grads[], momentum_buffer_list[], …)`: decay (2), momentum (2), step (2).
/// `_fused_adagrad_(self[], grads[], state_sums[], state_steps[], …)`: decay (2), squares and their sum (2), a root, a sum, a quotient, the step (2).
pub(super) fn fused(call: Call<'_>) -> Result<Work, Why> {
    let (each, moments) = match call.name {
        "_fused_adam_" | "_fused_adamw_" => (16, 2),
        "_fused_adagrad_" => (9, 1),
        _ => (6, 1),
    };
    let parameters = call.list(0, "self")?;
    let first = parameters.first().ok_or(Why::Missing("self"))?;
    let count: Count = parameters
        .iter()
        .map(|tensor| product(&tensor.dimensions))
        .sum();
    let list = |place: usize| call.list(place, "exp_avgs").unwrap_or_default();
    let moved: Vec<&Tensor> = (2..2 + moments).flat_map(list).collect();
    let read = || {
        Ok(bytes_of_all(parameters)?
            + bytes_of_all(call.list(1, "grads")?)?
            + bytes_of_all(moved.iter().copied())?)
    };
    let written = || Ok(bytes_of_all(parameters)? + bytes_of_all(moved.iter().copied())?);
    done(Engine::Vector, first, count * each, read(), written())
}
