//! Reductions and scans: an operation for each element that is read, more where the formula has more. Which dimensions are reduced is an argument; where that is not in the
//! trace, bytes are not known, for the size of the result is not.

use super::elementwise::same;
use crate::work::call::{Bytes, Call, bytes_of_all, done, elements, scalar};
use crate::work::count::{Count, product};
use crate::work::{Engine, Scalar, Tensor, Why, Work};

/// A reduction: where the dimensions are, operations for each element and for each result, and the type of the result.
struct Rule {
    dimensions: Option<usize>,
    each: u64,
    at_end: u64,
    gives: Gives,
}

enum Gives {
    Same,
    /// Of integers and truth values: 64 bits.
    Wide,
    Floating,
    Bool,
    Index,
    /// Values and their places.
    WithIndex,
}

fn rule(name: &str) -> Option<Rule> {
    let rule = |dimensions, each, at_end, gives| Rule {
        dimensions,
        each,
        at_end,
        gives,
    };
    Some(match name {
        "sum" | "nansum" => rule(Some(1), 1, 0, Gives::Wide),
        "prod" => rule(Some(1), 1, 0, Gives::Wide),
        "mean" => rule(Some(1), 1, 1, Gives::Floating),
        "amax" | "amin" => rule(Some(1), 1, 0, Gives::Same),
        "max" | "min" => rule(Some(1), 1, 0, Gives::WithIndex),
        "argmax" | "argmin" => rule(Some(1), 1, 0, Gives::Index),
        "any" | "all" => rule(Some(1), 1, 0, Gives::Bool),
        // A sum for the mean; differences, squares and their sum.
        "var" | "std" => rule(Some(1), 4, 2, Gives::Floating),
        // Squares and their sum; a root.
        "norm" | "linalg_vector_norm" => rule(Some(2), 2, 1, Gives::Floating),
        // The largest, differences, exponentials, their sum; a logarithm and a sum.
        "logsumexp" => rule(Some(1), 4, 2, Gives::Floating),
        "count_nonzero" => rule(Some(1), 1, 0, Gives::Index),
        _ => return None,
    })
}

/// How many results there are: all dimensions are reduced where none is named.
fn results(call: Call<'_>, input: &Tensor, place: Option<usize>) -> Result<Count, Why> {
    let Some(place) = place else {
        return Ok(Count::ONE);
    };
    // `sum(self)` has no dimensions, or the type of the result in their place.
    if call.has_values() && !call.is_given(place) {
        return Ok(Count::ONE);
    }
    let named = match call.integers(place, "dim") {
        Ok(list) => list,
        Err(_) => vec![call.integer(place, "dim")?],
    };
    if named.is_empty() {
        return Ok(Count::ONE);
    }
    let count = input.dimensions.len() as i64;
    let mut left = input.dimensions.clone();
    for dimension in named {
        let at = if dimension < 0 {
            dimension.checked_add(count)
        } else {
            Some(dimension)
        };
        let at = at.and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| left.get_mut(at)) {
            Some(size) => *size = 1,
            None if count == 0 => {}
            None => {
                return Err(Why::contradiction(format!(
                    "dimension {dimension} of {:?}",
                    input.dimensions
                )));
            }
        }
    }
    Ok(product(&left))
}

/// `sum(self, dim, keepdim)`, `mean`, `max`, `norm(self, p, dim)` and so on.
pub(super) fn reduction(call: Call<'_>) -> Result<Work, Why> {
    let rule = rule(call.name).ok_or(Why::NoModel)?;
    let input = call.tensor(0, "self")?;
    // `max(self, other)` compares element by element.
    if call
        .maybe(1)
        .is_some_and(|_| matches!(call.name, "max" | "min") && call.has_values())
    {
        return super::elementwise::of_two(call);
    }
    let results = results(call, input, rule.dimensions);
    let end = match &results {
        Ok(results) => *results * rule.at_end,
        Err(_) => Count::ZERO,
    };
    let written = || -> Bytes {
        let (results, own) = (results?, scalar(input)?);
        let whole = own.category() < 2;
        let with_places = matches!(rule.gives, Gives::WithIndex) && call.is_given(1);
        Ok(results
            * match rule.gives {
                Gives::Same => own.bytes(),
                Gives::Wide if whole => 8,
                Gives::Wide => own.bytes(),
                Gives::Floating => own.floating().bytes(),
                Gives::Bool => 1,
                Gives::Index => 8,
                Gives::WithIndex => own.bytes() + if with_places { 8 } else { 0 },
            })
    };
    done(
        Engine::Vector,
        input,
        elements(input) * rule.each + end,
        bytes_of_all([input]),
        written(),
    )
}

/// `cumsum(self, dim)` and others that keep all partial results.
pub(super) fn scan(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    let written = || {
        let own = scalar(input)?;
        let bytes = if own.category() < 2 { 8 } else { own.bytes() };
        Ok(elements(input) * bytes)
    };
    done(
        Engine::Vector,
        input,
        elements(input),
        bytes_of_all([input]),
        written(),
    )
}

/// `mse_loss(self, target, reduction)`: differences, squares, their sum (`reduction` 0 keeps all of them, 1 is their mean).
pub(super) fn mean_square(call: Call<'_>) -> Result<Work, Why> {
    let (input, target) = (call.tensor(0, "self")?, call.tensor(1, "target")?);
    let count = product(&super::elementwise::broadcast([input, target].into_iter())?);
    let (operations, results) = match call.integer(2, "reduction")? {
        0 => (count * 2, count),
        1 => (count * 3 + 1, Count::ONE),
        _ => (count * 3, Count::ONE),
    };
    let written = || Ok(results * scalar(input)?.bytes());
    done(
        Engine::Vector,
        input,
        operations,
        bytes_of_all([input, target]),
        written(),
    )
}

/// `topk(self, k, dim)`: comparisons are not counted; it reads all, and writes `k` values and places of each row.
pub(super) fn top(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    let rows = match input.dimensions.split_last() {
        Some((_, rows)) if matches!(call.integer(2, "dim"), Ok(-1)) => product(rows),
        Some(_) => return Err(Why::NoValue("dim")),
        None => Count::ONE,
    };
    let written = || Ok(rows * call.size(1, "k")? * (scalar(input)?.bytes() + Scalar::I64.bytes()));
    done(
        Engine::Vector,
        input,
        Count::ZERO,
        bytes_of_all([input]),
        written(),
    )
}

/// `sort(self, …)`: comparisons are not counted; it reads all, and writes values and places.
pub(super) fn sort(call: Call<'_>) -> Result<Work, Why> {
    let input = call.tensor(0, "self")?;
    let places = if call.name == "argsort" {
        Ok(Count::ZERO)
    } else {
        same(input)
    };
    let written = || Ok(places? + elements(input) * Scalar::I64.bytes());
    done(
        Engine::Vector,
        input,
        Count::ZERO,
        bytes_of_all([input]),
        written(),
    )
}
