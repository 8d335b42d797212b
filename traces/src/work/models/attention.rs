//! Attention: `Q·Kᵀ` and the product of its softmax with `V`. Forward these are two products of matrices, backward five: the scores once more, and the
//! gradients of scores, `V`, `Q` and `K`. Softmax, scale and dropout are not counted.
//!
//! Where a mask is causal, pairs of a query and a key that it hides are not counted: with as many queries as keys about half.
//!
//! Source: `sdpa_flop_count` and `sdpa_backward_flop_count` of `torch.utils.flop_counter` (which count hidden pairs too); Dao et al., *FlashAttention-2*
//! (<https://arxiv.org/abs/2307.08691>, section 4.1), halves the count of causal ones. Orders of arguments: `native_functions.yaml` of PyTorch, and
//! `flash_attn_interface.py` of <https://github.com/Dao-AILab/flash-attention>.

use crate::work::call::{Call, bytes_like, bytes_of, bytes_of_all, done, equal};
use crate::work::count::{Count, product};
use crate::work::{Engine, Tensor, Why, Work};

/// Which dimension is which.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// `batch × heads × length × size`
    HeadsFirst,
    /// `batch × length × heads × size`
    LengthFirst,
}

/// Which pairs a mask leaves.
#[derive(Clone, Copy, PartialEq)]
enum Mask {
    All,
    /// A query sees the keys up to its own place.
    FromStart,
    /// The last query sees all keys, and each before it one less.
    FromEnd,
}

struct Attention {
    batch: u64,
    heads: u64,
    queries: u64,
    keys: u64,
    /// Of a query and a key.
    size: u64,
    /// Of a value.
    value_size: u64,
}

impl Attention {
    fn of(layout: Layout, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Self, Why> {
        let parts = |tensor: &Tensor| match (layout, &tensor.dimensions[..]) {
            (Layout::HeadsFirst, [batch, heads, length, size])
            | (Layout::LengthFirst, [batch, length, heads, size]) => {
                Ok([*batch, *heads, *length, *size])
            }
            (_, other) => Err(Why::contradiction(format!(
                "{other:?} is no batch of heads"
            ))),
        };
        let ([batch, heads, queries, size], of_k, of_v) = (parts(q)?, parts(k)?, parts(v)?);
        equal(batch, of_k[0], "batch")?;
        equal(batch, of_v[0], "batch")?;
        equal(of_k[1], of_v[1], "heads of keys and values")?;
        equal(of_k[2], of_v[2], "length of keys and values")?;
        equal(size, of_k[3], "size of heads")?;
        if of_k[1] == 0 && heads > 0 || of_k[1] > 0 && heads % of_k[1] != 0 {
            return Err(Why::contradiction(format!(
                "{heads} heads share {} of keys",
                of_k[1]
            )));
        }
        Ok(Self {
            batch,
            heads,
            queries,
            keys: of_k[2],
            size,
            value_size: of_v[3],
        })
    }

    /// Pairs of a query and a key that the mask leaves.
    fn pairs(&self, mask: Mask) -> Count {
        let (queries, keys) = (Count::from(self.queries), Count::from(self.keys));
        let triangle = |rows: Count| (rows * (rows + 1)).over(Count::from(2));
        match mask {
            Mask::All => queries * keys,
            // Row `i` of the first `keys` rows has `i + 1` keys, all others have all.
            Mask::FromStart => triangle(queries.least(keys)) + queries.less(keys) * keys,
            // The last row has all keys, and each before it one less.
            Mask::FromEnd => {
                let rows = queries.least(keys);
                triangle(rows) + rows * keys.less(queries)
            }
        }
    }

    fn forward(&self, mask: Mask) -> Count {
        let each = Count::from(self.size) + self.value_size;
        self.pairs(mask) * self.batch * self.heads * each * 2
    }

    /// Three products with a query's or key's size, two with a value's.
    fn backward(&self, mask: Mask) -> Count {
        let each = Count::from(self.size) * 3 + Count::from(self.value_size) * 2;
        self.pairs(mask) * self.batch * self.heads * each * 2
    }

    fn result(&self) -> [u64; 4] {
        [self.batch, self.heads, self.queries, self.value_size]
    }
}

fn causal(is_causal: bool) -> Mask {
    if is_causal {
        Mask::FromStart
    } else {
        Mask::All
    }
}

fn work_forward(
    call: Call<'_>,
    layout: Layout,
    mask: Mask,
    more: Option<usize>,
) -> Result<Work, Why> {
    let [q, k, v] = [
        call.tensor(0, "query")?,
        call.tensor(1, "key")?,
        call.tensor(2, "value")?,
    ];
    let attention = Attention::of(layout, q, k, v)?;
    let bias = more.and_then(|place| call.maybe(place));
    let read = || Ok(bytes_of_all([q, k, v])? + bytes_of_all(bias)?);
    let written = bytes_like(&attention.result(), q);
    done(Engine::Matrix, q, attention.forward(mask), read(), written)
}

fn work_backward(
    call: Call<'_>,
    layout: Layout,
    mask: Mask,
    out: usize,
    more: Option<usize>,
) -> Result<Work, Why> {
    let [q, k, v] = [
        call.tensor(1, "query")?,
        call.tensor(2, "key")?,
        call.tensor(3, "value")?,
    ];
    let gradient = call.tensor(0, "grad_out")?;
    let attention = Attention::of(layout, q, k, v)?;
    let bias = more.and_then(|place| call.maybe(place));
    let read = || {
        let (all, out) = (bytes_of_all([gradient, q, k, v])?, call.tensor(out, "out")?);
        Ok(all + bytes_of(out)? + bytes_of_all(bias)?)
    };
    let written = || {
        let each = [q, k, v]
            .into_iter()
            .map(|tensor| bytes_like(&tensor.dimensions, tensor));
        each.sum()
    };
    done(
        Engine::Matrix,
        q,
        attention.backward(mask),
        read(),
        written(),
    )
}

/// `_scaled_dot_product_*_attention(query, key, value, …)`, `scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal)`: by the
/// name, where the mask and the flag are.
pub(super) fn scaled_dot_product(call: Call<'_>) -> Result<Work, Why> {
    let (bias, flag) = match call.name {
        "_scaled_dot_product_flash_attention" | "_scaled_dot_product_flash_attention_for_cpu" => {
            (None, 4)
        }
        "_scaled_dot_product_efficient_attention" | "_scaled_dot_product_cudnn_attention" => {
            (Some(3), 6)
        }
        _ => (Some(3), 5),
    };
    let mask = causal(call.flag(flag, "is_causal")?);
    work_forward(call, Layout::HeadsFirst, mask, bias)
}

/// The same backward, which begins with the gradient of the result.
pub(super) fn scaled_dot_product_backward(call: Call<'_>) -> Result<Work, Why> {
    let (bias, out, flag) = match call.name {
        "_scaled_dot_product_efficient_attention_backward" => (Some(4), 5, 10),
        "_scaled_dot_product_cudnn_attention_backward" => (Some(8), 4, 14),
        "_scaled_dot_product_flash_attention_for_cpu_backward" => (None, 4, 7),
        "_scaled_dot_product_fused_attention_overrideable_backward" => (Some(4), 6, 13),
        _ => (None, 4, 11),
    };
    let mask = causal(call.flag(flag, "is_causal")?);
    work_backward(call, Layout::HeadsFirst, mask, out, bias)
}

/// `_flash_attention_forward(query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, …)`, whose mask ends with the last key.
pub(super) fn flash(call: Call<'_>) -> Result<Work, Why> {
    let mask = from_end(call.flag(8, "is_causal")?);
    match call.maybe(3) {
        Some(starts) => packed(call, 0, starts, [5, 6], mask, false),
        None => work_forward(call, Layout::LengthFirst, mask, None),
    }
}

/// `_flash_attention_backward(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, …)`.
pub(super) fn flash_backward(call: Call<'_>) -> Result<Work, Why> {
    let mask = from_end(call.flag(11, "is_causal")?);
    match call
        .maybe(6)
        .filter(|starts| starts.dimensions.first().is_some_and(|count| *count > 0))
    {
        Some(starts) => packed(call, 1, starts, [8, 9], mask, true),
        None => work_backward(call, Layout::LengthFirst, mask, 4, None),
    }
}

fn from_end(is_causal: bool) -> Mask {
    if is_causal { Mask::FromEnd } else { Mask::All }
}

/// `_efficient_attention_forward(query, key, value, bias, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, custom_mask_type, …)`.
pub(super) fn efficient(call: Call<'_>) -> Result<Work, Why> {
    let mask = custom(call.integer(9, "custom_mask_type")?)?;
    match call.maybe(4) {
        Some(_) => Err(Why::Values("the lengths of its sequences")),
        None => work_forward(call, Layout::LengthFirst, mask, Some(3)),
    }
}

/// `_efficient_attention_backward(grad_out, query, key, value, bias, out, cu_seqlens_q, cu_seqlens_k, max_q, max_k, logsumexp, dropout_p, seed, offset,
/// custom_mask_type, …)`.
pub(super) fn efficient_backward(call: Call<'_>) -> Result<Work, Why> {
    let mask = custom(call.integer(14, "custom_mask_type")?)?;
    match call.maybe(6) {
        Some(_) => Err(Why::Values("the lengths of its sequences")),
        None => work_backward(call, Layout::LengthFirst, mask, 5, Some(4)),
    }
}

fn custom(number: i64) -> Result<Mask, Why> {
    match number {
        0 => Ok(Mask::All),
        1 => Ok(Mask::FromStart),
        2 => Ok(Mask::FromEnd),
        _ => Err(Why::NoValue("custom_mask_type")),
    }
}

/// `flash_attn::_flash_attn_forward(q, k, v, dropout_p, softmax_scale, causal, …)`, and AITER's of the same order.
pub(super) fn flash_attn(call: Call<'_>) -> Result<Work, Why> {
    let mask = from_end(call.flag(5, "causal")?);
    work_forward(call, Layout::LengthFirst, mask, None)
}

/// `flash_attn::_flash_attn_backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal, …)`.
pub(super) fn flash_attn_backward(call: Call<'_>) -> Result<Work, Why> {
    let mask = from_end(call.flag(11, "causal")?);
    work_backward(call, Layout::LengthFirst, mask, 4, None)
}

/// `flash_attn::_flash_attn_varlen_forward(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal, …)`.
pub(super) fn flash_attn_packed(call: Call<'_>) -> Result<Work, Why> {
    let mask = from_end(call.flag(9, "causal")?);
    packed(
        call,
        0,
        call.tensor(3, "cu_seqlens_q")?,
        [5, 6],
        mask,
        false,
    )
}

/// `flash_attn::_flash_attn_varlen_backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
/// dropout_p, softmax_scale, causal, …)`.
pub(super) fn flash_attn_packed_backward(call: Call<'_>) -> Result<Work, Why> {
    let mask = from_end(call.flag(15, "causal")?);
    packed(
        call,
        1,
        call.tensor(9, "cu_seqlens_q")?,
        [11, 12],
        mask,
        true,
    )
}

/// Sequences of different lengths behind each other, `total × heads × size`. Where their lengths begin is in the memory of the GPU; known are how many there are,
/// their sum and the longest. If all have to be as long as the longest, the work is known; else it lies between that of equal ones and that of as few long ones
/// as possible.
fn packed(
    call: Call<'_>,
    first: usize,
    starts: &Tensor,
    longest: [usize; 2],
    mask: Mask,
    is_backward: bool,
) -> Result<Work, Why> {
    let [q, k, v] = [
        call.tensor(first, "q")?,
        call.tensor(first + 1, "k")?,
        call.tensor(first + 2, "v")?,
    ];
    let parts = |tensor: &Tensor| match tensor.dimensions[..] {
        [total, heads, size] => Ok([total, heads, size]),
        _ => Err(Why::contradiction(format!(
            "{:?} are no packed sequences",
            tensor.dimensions
        ))),
    };
    let (of_q, of_k, of_v) = (parts(q)?, parts(k)?, parts(v)?);
    let [starts] = starts.dimensions[..] else {
        return Err(Why::contradiction("starts of sequences are no list"));
    };
    let count = starts.checked_sub(1).filter(|count| *count > 0);
    let count = count.ok_or_else(|| Why::contradiction("no sequence"))?;
    let [most_q, most_k] = [
        call.size(longest[0], "max_seqlen_q")?,
        call.size(longest[1], "max_seqlen_k")?,
    ];
    let of_lengths = |queries: u64, keys: u64, batch: u64| {
        let attention = Attention {
            batch,
            heads: of_q[1],
            queries,
            keys,
            size: of_q[2],
            value_size: of_v[2],
        };
        match is_backward {
            true => attention.backward(mask),
            false => attention.forward(mask),
        }
    };
    let is_full = |total: u64, most: u64| most.checked_mul(count) == Some(total);
    if !is_full(of_q[0], most_q) || !is_full(of_k[0], most_k) {
        let least = of_lengths(of_q[0] / count, of_k[0] / count, count).get()?;
        let each = product(&[of_q[0], of_q[1], most_k.min(of_k[0]), 2]);
        let sizes = match is_backward {
            true => Count::from(of_q[2]) * 3 + Count::from(of_v[2]) * 2,
            false => Count::from(of_q[2]) + of_v[2],
        };
        return Err(Why::Lengths(least, (each * sizes).get()?));
    }
    let operations = of_lengths(most_q, most_k, count);
    let result = [of_q[0], of_q[1], of_v[2]];
    let (read, written) = match is_backward {
        true => (
            bytes_of_all([call.tensor(0, "dout")?, q, k, v, call.tensor(4, "out")?]),
            bytes_of_all([q, k, v]),
        ),
        false => (bytes_of_all([q, k, v]), bytes_like(&result, q)),
    };
    done(Engine::Matrix, q, operations, read, written)
}

/// Attention over pages of a cache, whose lengths are in the memory of the GPU.
pub(super) fn paged(_: Call<'_>) -> Result<Work, Why> {
    Err(Why::Values("the lengths of the sequences in its cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_leave_the_pairs_that_counting_finds() {
        for queries in 0..9_u64 {
            for keys in 0..9_u64 {
                let attention = Attention {
                    batch: 1,
                    heads: 1,
                    queries,
                    keys,
                    size: 1,
                    value_size: 1,
                };
                let count = |sees: &dyn Fn(i64, i64) -> bool| {
                    let pairs =
                        (0..queries as i64).flat_map(|q| (0..keys as i64).map(move |k| (q, k)));
                    pairs.filter(|&(q, k)| sees(q, k)).count() as u128
                };
                let behind = keys as i64 - queries as i64;
                for (mask, counted) in [
                    (Mask::All, count(&|_, _| true)),
                    (Mask::FromStart, count(&|q, k| k <= q)),
                    (Mask::FromEnd, count(&|q, k| k <= q + behind)),
                ] {
                    assert_eq!(attention.pairs(mask).get(), Ok(counted), "{queries} {keys}");
                }
            }
        }
    }
}
