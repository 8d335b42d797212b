//! Products of matrices: `2·m·n·k` operations for `m×k` by `k×n`, each batch by itself.
//!
//! Source: <https://docs.pytorch.org/docs/stable/torch.html#blas-and-lapack-operations> for what the operators do and in which order their arguments are;
//! the count is that of `torch.utils.flop_counter` (`mm_flop`, `addmm_flop`, `bmm_flop`, `baddbmm_flop`, `_scaled_mm_flop`).

use crate::work::call::{
    Bytes, Call, bytes_like, bytes_of, bytes_of_all, done, elements, equal, scalar,
};
use crate::work::count::{Count, product};
use crate::work::{Engine, Scalar, Tensor, Why, Work};

/// The dimensions of a product: how many products, and `m`, `n`, `k` of each.
struct Product {
    batch: Count,
    m: u64,
    n: u64,
    k: u64,
}

impl Product {
    fn of(one: &[u64], other: &[u64]) -> Result<Self, Why> {
        let ([first @ .., m, k], [second @ .., inner, n]) = (one, other) else {
            return Err(Why::contradiction(format!("{one:?} by {other:?}")));
        };
        if first != second {
            return Err(Why::contradiction(format!("{one:?} by {other:?}")));
        }
        Ok(Self {
            batch: product(first),
            m: *m,
            n: *n,
            k: equal(*k, *inner, "inner dimension")?,
        })
    }

    fn results(&self) -> Count {
        self.batch * self.m * self.n
    }

    fn operations(&self, scalar: Option<Scalar>) -> Count {
        let factor = scalar.map_or(1, Scalar::complexity);
        self.results() * self.k * 2 * factor
    }

    /// The work, with what is read beside the factors and with the type of the result.
    fn work(
        &self,
        left: &Tensor,
        right: &Tensor,
        more: Bytes,
        result: &Tensor,
    ) -> Result<Work, Why> {
        let read = || Ok(bytes_of(left)? + bytes_of(right)? + more?);
        let written = || Ok(self.results() * scalar(result)?.bytes());
        let operations = self.operations(scalar(left).ok());
        done(Engine::Matrix, left, operations, read(), written())
    }
}

/// `mm(self, mat2)`, `bmm(self, mat2)`.
pub(super) fn product_of_two(call: Call<'_>) -> Result<Work, Why> {
    let least = if call.name == "bmm" { 3 } else { 2 };
    let (left, right) = (call.tensor(0, "self")?, call.tensor(1, "mat2")?);
    let found = Product::of(call.dimensions(0, "self", least)?, &right.dimensions)?;
    found.work(left, right, Ok(Count::ZERO), left)
}

/// `addmm(self, mat1, mat2)`, `baddbmm(self, batch1, batch2)`: a product is added to what is in `self`, which is read in the size that it has.
pub(super) fn product_and_sum(call: Call<'_>) -> Result<Work, Why> {
    let (added, left, right) = (
        call.tensor(0, "self")?,
        call.tensor(1, "mat1")?,
        call.tensor(2, "mat2")?,
    );
    let found = Product::of(&left.dimensions, &right.dimensions)?;
    let result = [&left.dimensions[..left.dimensions.len() - 1], &[found.n]].concat();
    super::elementwise::fits(&added.dimensions, &result)?;
    found.work(left, right, bytes_of(added), left)
}

/// `mv(self, vec)`.
pub(super) fn matrix_by_vector(call: Call<'_>) -> Result<Work, Why> {
    vector(call, 0, None)
}

/// `addmv(self, mat, vec)`.
pub(super) fn matrix_by_vector_and_sum(call: Call<'_>) -> Result<Work, Why> {
    vector(call, 1, Some(call.tensor(0, "self")?))
}

fn vector(call: Call<'_>, first: usize, added: Option<&Tensor>) -> Result<Work, Why> {
    let (left, right) = (call.tensor(first, "mat")?, call.tensor(first + 1, "vec")?);
    let ([m, k], [inner]) = (&left.dimensions[..], &right.dimensions[..]) else {
        return Err(Why::contradiction(format!(
            "{:?} by {:?}",
            left.dimensions, right.dimensions
        )));
    };
    let found = Product {
        batch: Count::ONE,
        m: *m,
        n: 1,
        k: equal(*k, *inner, "inner dimension")?,
    };
    found.work(left, right, bytes_of_all(added), left)
}

/// `dot(self, tensor)`, `vdot(self, other)`.
pub(super) fn inner_product(call: Call<'_>) -> Result<Work, Why> {
    let (left, right) = (call.tensor(0, "self")?, call.tensor(1, "tensor")?);
    let ([k], [inner]) = (&left.dimensions[..], &right.dimensions[..]) else {
        return Err(Why::contradiction(format!(
            "{:?} by {:?}",
            left.dimensions, right.dimensions
        )));
    };
    let found = Product {
        batch: Count::ONE,
        m: 1,
        n: 1,
        k: equal(*k, *inner, "length")?,
    };
    found.work(left, right, Ok(Count::ZERO), left)
}

/// `linear(input, weight, bias)`: the input by the transposed weight.
pub(super) fn linear(call: Call<'_>) -> Result<Work, Why> {
    let (input, weight) = (call.tensor(0, "input")?, call.tensor(1, "weight")?);
    let ([rows @ .., k], [n, inner]) = (&input.dimensions[..], &weight.dimensions[..]) else {
        return Err(Why::contradiction(format!(
            "{:?} by {:?}",
            input.dimensions, weight.dimensions
        )));
    };
    let found = Product {
        batch: product(rows),
        m: 1,
        n: *n,
        k: equal(*k, *inner, "inner dimension")?,
    };
    found.work(input, weight, bytes_of_all(call.maybe(2)), input)
}

/// `_scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)`: of FP8 or FP4, with scales. Two numbers of 4 bits are one
/// of a dimension. The result has the type of `out_dtype`, which is a number of PyTorch's (`c10/core/ScalarType.h`), or that of `self`.
pub(super) fn scaled(call: Call<'_>) -> Result<Work, Why> {
    let (left, right) = (call.tensor(0, "self")?, call.tensor(1, "mat2")?);
    let found = Product::of(&left.dimensions, &right.dimensions)?;
    let packed = match scalar(left) {
        Ok(Scalar::F4) => 2,
        _ => 1,
    };
    let read = bytes_of(left).and_then(|bytes| {
        let more = bytes_of_all((2..=5).filter_map(|place| call.maybe(place)));
        Ok(bytes + bytes_of(right)? + more?)
    });
    let result = match call.integer(6, "out_dtype") {
        Ok(number) => of_number(number).ok_or(Why::NoValue("out_dtype")),
        Err(_) if call.is_given(6) || !call.has_values() => Err(Why::NoValue("out_dtype")),
        Err(_) => scalar(left),
    };
    let written = result.map(|result| found.results() * result.bytes());
    let operations = found.operations(None) * packed;
    done(Engine::Matrix, left, operations, read, written)
}

/// The numbers of types that PyTorch writes where a type is an argument: `c10/core/ScalarType.h`.
fn of_number(number: i64) -> Option<Scalar> {
    Some(match number {
        0 => Scalar::U8,
        1 => Scalar::I8,
        2 => Scalar::I16,
        3 => Scalar::I32,
        4 => Scalar::I64,
        5 => Scalar::F16,
        6 => Scalar::F32,
        7 => Scalar::F64,
        11 => Scalar::Bool,
        15 => Scalar::BF16,
        23..=26 => Scalar::F8,
        _ => return None,
    })
}

/// `_int_mm(self, mat2)`: 8-bit integers, with 32-bit results.
pub(super) fn of_integers(call: Call<'_>) -> Result<Work, Why> {
    let (left, right) = (call.tensor(0, "self")?, call.tensor(1, "mat2")?);
    let found = Product::of(&left.dimensions, &right.dimensions)?;
    let read = || Ok(bytes_of(left)? + bytes_of(right)?);
    let written = Ok(found.results() * Scalar::I32.bytes());
    done(
        Engine::Matrix,
        left,
        found.operations(None),
        read(),
        written,
    )
}

/// `addr(self, vec1, vec2)` and `outer(self, vec2)`: each pair once.
pub(super) fn outer(call: Call<'_>) -> Result<Work, Why> {
    let first = usize::from(call.name == "addr");
    let (left, right) = (call.tensor(first, "vec1")?, call.tensor(first + 1, "vec2")?);
    let result = elements(left) * elements(right);
    let each = if first == 1 { 2 } else { 1 };
    let added = (first == 1).then(|| call.maybe(0)).flatten();
    let read = || Ok(bytes_of(left)? + bytes_of(right)? + bytes_of_all(added)?);
    let written = scalar(left).map(|scalar| result * scalar.bytes());
    done(Engine::Vector, left, result * each, read(), written)
}

/// `_grouped_mm(self, mat2, offs)`: as many products as there are groups. Where `self` is `m×k` and `mat2` is `g×k×n`, the groups share out the rows, and where both
/// have three dimensions each is a product by itself; offsets say only where a group ends. With `k×n`, the groups share out `k`.
pub(super) fn grouped(call: Call<'_>) -> Result<Work, Why> {
    let (left, right) = (call.tensor(0, "self")?, call.tensor(1, "mat2")?);
    let (batch, m, n, k) = match (&left.dimensions[..], &right.dimensions[..]) {
        ([m, k], [_, inner, n]) => (1, *m, *n, equal(*k, *inner, "inner dimension")?),
        ([groups, m, k], [others, inner, n]) => {
            let groups = equal(*groups, *others, "number of groups")?;
            (groups, *m, *n, equal(*k, *inner, "inner dimension")?)
        }
        ([_, m, k], [inner, n]) => (1, *m, *n, equal(*k, *inner, "inner dimension")?),
        ([m, k], [inner, n]) => {
            let groups = call.dimensions(2, "offs", 1)?[0];
            let k = equal(*k, *inner, "inner dimension")?;
            let operations = product(&[*m, *n, k, 2]);
            let read = || Ok(bytes_of(left)? + bytes_of(right)?);
            let written = bytes_like(&[groups, *m, *n], left);
            return done(Engine::Matrix, left, operations, read(), written);
        }
        (one, other) => return Err(Why::contradiction(format!("{one:?} by {other:?}"))),
    };
    let batch = Count::from(batch);
    Product { batch, m, n, k }.work(left, right, Ok(Count::ZERO), left)
}
