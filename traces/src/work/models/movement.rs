//! What moves data and computes nothing: copies, fills, concatenations, lookups.

use super::elementwise::same;
use crate::work::call::{Bytes, Call, bytes_like, bytes_of, bytes_of_all, done, elements};
use crate::work::count::{Count, product};
use crate::work::{Engine, Tensor, Why, Work};

fn moved(tensor: &Tensor, read: Bytes, written: Bytes) -> Result<Work, Why> {
    done(Engine::Vector, tensor, Count::ZERO, read, written)
}

/// `copy_(self, src)`, where types may differ.
pub(super) fn copy_into(call: Call<'_>) -> Result<Work, Why> {
    let (target, source) = (call.tensor(0, "self")?, call.tensor(1, "src")?);
    super::elementwise::fits(&source.dimensions, &target.dimensions)?;
    moved(target, bytes_of(source), same(target))
}

/// `clone(self)`, `contiguous(self)`, `flip`, `roll`: as much is written as is read.
pub(super) fn copy(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    moved(input, bytes_of(input), same(input))
}

/// `fill_(self, value)`, `zero_(self)`, and random numbers in place.
pub(super) fn fill(call: Call<'_>) -> Result<Work, Why> {
    let target = call.tensor(0, "self")?;
    moved(target, Ok(Count::ZERO), same(target))
}

/// `cat(tensors, dim)`, `stack(tensors, dim)`: all is read and written once. The types of lists are not in the trace.
pub(super) fn concatenate(call: Call<'_>) -> Result<Work, Why> {
    let list = call.list(0, "tensors")?;
    let first = list.first().ok_or(Why::Missing("tensors"))?;
    let written = list.iter().map(same).sum();
    moved(first, bytes_of_all(list), written)
}

/// `embedding(weight, indices)`: a row of the weight for each index.
pub(super) fn embedding(call: Call<'_>) -> Result<Work, Why> {
    let (weight, indices) = (call.dimensions(0, "weight", 2)?, call.tensor(1, "indices")?);
    let table = call.tensor(0, "weight")?;
    let result = [&indices.dimensions[..], &weight[1..]].concat();
    let rows = bytes_like(&result, table);
    let read = rows.clone().and_then(|rows| Ok(rows + bytes_of(indices)?));
    moved(table, read, rows)
}

/// `embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)`: gradients are added to rows of a table of zeros.
pub(super) fn embedding_backward(call: Call<'_>) -> Result<Work, Why> {
    let (gradient, indices) = (call.tensor(0, "grad_output")?, call.tensor(1, "indices")?);
    let width = *gradient
        .dimensions
        .last()
        .ok_or(Why::Missing("grad_output"))?;
    let table = [call.size(2, "num_weights")?, width];
    let read = || Ok(bytes_of(gradient)? + bytes_of(indices)?);
    done(
        Engine::Vector,
        gradient,
        elements(gradient),
        read(),
        bytes_like(&table, gradient),
    )
}

/// `index_select(self, dim, index)`: as many of a dimension as there are indices.
pub(super) fn select(call: Call<'_>) -> Result<Work, Why> {
    let (input, index) = (call.tensor(0, "self")?, call.tensor(2, "index")?);
    let dimension = call.integer(1, "dim")?;
    let count = input.dimensions.len() as i64;
    let at = if dimension < 0 {
        dimension.checked_add(count)
    } else {
        Some(dimension)
    };
    let mut result = input.dimensions.clone();
    let place = at
        .and_then(|at| usize::try_from(at).ok())
        .and_then(|at| result.get_mut(at));
    let Some(place) = place else {
        return Err(Why::contradiction(format!(
            "dimension {dimension} of {:?}",
            input.dimensions
        )));
    };
    *place = *index.dimensions.first().unwrap_or(&1);
    let rows = bytes_like(&result, input);
    let read = rows.clone().and_then(|rows| Ok(rows + bytes_of(index)?));
    moved(input, read, rows)
}

/// `gather(self, dim, index)`: an element for each index.
pub(super) fn gather(call: Call<'_>) -> Result<Work, Why> {
    let (input, index) = (call.tensor(0, "self")?, call.tensor(2, "index")?);
    let taken = bytes_like(&index.dimensions, input);
    let read = taken.clone().and_then(|taken| Ok(taken + bytes_of(index)?));
    moved(input, read, taken)
}

/// `scatter_(self, dim, index, src)`, `scatter_add_`, `index_add_(self, dim, index, source)`: what is put in is read, and so is the place where it is added.
pub(super) fn scatter(call: Call<'_>) -> Result<Work, Why> {
    let (target, index) = (call.tensor(0, "self")?, call.tensor(2, "index")?);
    let source = call.tensor(3, "src")?;
    let adds = call.name.contains("add");
    let put = bytes_like(&source.dimensions, target);
    let read = || {
        let before = if adds { put.clone()? } else { Count::ZERO };
        Ok(bytes_of(source)? + bytes_of(index)? + before)
    };
    let operations = if adds { elements(source) } else { Count::ZERO };
    done(Engine::Vector, target, operations, read(), put.clone())
}

/// `constant_pad_nd(self, pad, value)` and other paddings: pairs of edges, the last dimension first.
pub(super) fn pad(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    let edges = call.integers(1, "pad")?;
    let mut result = input.dimensions.clone();
    if edges.len() % 2 != 0 || edges.len() / 2 > result.len() {
        return Err(Why::contradiction(format!(
            "{edges:?} around {:?}",
            input.dimensions
        )));
    }
    for (size, edge) in result.iter_mut().rev().zip(edges.chunks(2)) {
        let more = edge
            .iter()
            .try_fold(0_i64, |sum, one| sum.checked_add(*one));
        let padded = more.and_then(|more| size.checked_add_signed(more));
        *size = padded.ok_or_else(|| {
            Why::contradiction(format!("{edges:?} around {:?}", input.dimensions))
        })?;
    }
    moved(input, bytes_of(input), bytes_like(&result, input))
}

/// `upsample_nearest2d(self, output_size, …)` and others: the space of the result is an argument. Linear ones interpolate between two neighbours in each
/// dimension, cubic ones between four: a product and a sum each.
pub(super) fn upsample(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    let space = call.sizes(1, "output_size")?;
    let kept = input.dimensions.len().checked_sub(space.len());
    let kept =
        kept.ok_or_else(|| Why::contradiction(format!("{space:?} of {:?}", input.dimensions)))?;
    let result = [&input.dimensions[..kept], &space].concat();
    let neighbours = |each: u64| {
        (0..space.len())
            .map(|_| Count::from(each))
            .product::<Count>()
    };
    let each = match call.name {
        name if name.contains("bicubic") => neighbours(4) * 2,
        name if name.contains("linear") => neighbours(2) * 2,
        _ => Count::ZERO,
    };
    let operations = product(&result) * each;
    done(
        Engine::Vector,
        input,
        operations,
        bytes_of(input),
        bytes_like(&result, input),
    )
}

/// `max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)` and `avg_pool2d(self, kernel_size, stride, padding, ceil_mode, …)`: an operation for
/// each element of a window.
pub(super) fn pool(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    let is_max = call.name.starts_with("max");
    let kernel = call.sizes(1, "kernel_size")?;
    let count = match call.name {
        name if name.contains("1d") => 1,
        name if name.contains("3d") => 3,
        _ => 2,
    };
    let spread = |list: Vec<u64>, default: Vec<u64>| match list.len() {
        0 => default,
        1 => vec![list[0]; count],
        _ => list,
    };
    let kernel = spread(kernel, vec![1; count]);
    let stride = spread(call.sizes(2, "stride")?, kernel.clone());
    let padding = spread(call.sizes(3, "padding")?, vec![0; count]);
    let (dilation, rounds_up) = match is_max {
        true => (
            spread(call.sizes(4, "dilation")?, vec![1; count]),
            call.flag(5, "ceil_mode")?,
        ),
        false => (vec![1; count], call.flag(4, "ceil_mode")?),
    };
    let kept = input.dimensions.len().checked_sub(count);
    let lists = [&kernel, &stride, &padding, &dilation];
    let Some(kept) = kept.filter(|_| lists.iter().all(|list| list.len() == count)) else {
        return Err(Why::contradiction(format!(
            "windows of {kernel:?} over {:?}",
            input.dimensions
        )));
    };
    let mut result = input.dimensions.clone();
    for at in 0..count {
        let size = &mut result[kept + at];
        *size = windows(
            *size,
            [kernel[at], stride[at], padding[at], dilation[at]],
            rounds_up,
        )
        .ok_or_else(|| {
            Why::contradiction(format!("windows of {kernel:?} over {:?}", input.dimensions))
        })?;
    }
    let places = if call.name.ends_with("with_indices") {
        product(&result) * 8
    } else {
        Count::ZERO
    };
    let written = || Ok(bytes_like(&result, input)? + places);
    done(
        Engine::Vector,
        input,
        product(&result) * product(&kernel),
        bytes_of(input),
        written(),
    )
}

/// How many windows there are: `(size + 2·padding - dilation·(kernel - 1) - 1) / stride + 1`; rounded up, the last one has to begin within the input or its left edge.
fn windows(
    size: u64,
    [kernel, stride, padding, dilation]: [u64; 4],
    rounds_up: bool,
) -> Option<u64> {
    let all = size.checked_add(padding.checked_mul(2)?)?;
    let reach = dilation
        .checked_mul(kernel.checked_sub(1)?)?
        .checked_add(1)?;
    let steps = all.checked_sub(reach)?;
    let count = match rounds_up {
        true => steps
            .checked_add(stride.checked_sub(1)?)?
            .checked_div(stride)?
            .checked_add(1)?,
        false => steps.checked_div(stride)?.checked_add(1)?,
    };
    let last_is_outside =
        rounds_up && (count - 1).checked_mul(stride)? >= size.checked_add(padding)?;
    Some(count - u64::from(last_is_outside))
}

/// `_adaptive_avg_pool2d(self, output_size)`: each element at least once.
pub(super) fn adaptive_pool(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    let space = call.sizes(1, "output_size")?;
    let kept = input.dimensions.len().checked_sub(space.len());
    let kept =
        kept.ok_or_else(|| Why::contradiction(format!("{space:?} of {:?}", input.dimensions)))?;
    let result = [&input.dimensions[..kept], &space].concat();
    done(
        Engine::Vector,
        input,
        elements(input),
        bytes_of(input),
        bytes_like(&result, input),
    )
}

/// Gradients of pooling: they are added where the result came from.
pub(super) fn pool_backward(call: Call<'_>) -> Result<Work, Why> {
    let (gradient, input) = (call.tensor(0, "grad_output")?, call.tensor(1, "self")?);
    let places = call
        .name
        .contains("with_indices")
        .then(|| call.maybe(7))
        .flatten();
    let read = || Ok(bytes_of(gradient)? + bytes_of_all(places)?);
    done(
        Engine::Vector,
        gradient,
        elements(gradient),
        read(),
        same(input),
    )
}

/// Kernels of Triton and `torch.compile`, which PyTorch records with their arguments: they read each input once and write each result once, and which is which is not in
/// the trace; all tensors count once. Their operations are not known.
pub(super) fn fused(call: Call<'_>) -> Result<Work, Why> {
    let mut tensors = call.tensors().peekable();
    let first = *tensors.peek().ok_or(Why::Missing("in_ptr0"))?;
    moved(first, bytes_of_all(tensors), Ok(Count::ZERO))
}
