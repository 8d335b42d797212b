//! The arguments of a call by their places, with a reason where one is missing.

use super::arguments::{Argument, Arguments, Tensor};
use super::count::{Count, product};
use super::{Engine, Scalar, Why, Work};

/// A call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// The operator's name without the namespace of PyTorch: `mm`, `flash_attn::_flash_attn_forward`.
    pub(super) name: &'a str,
    arguments: &'a Arguments,
}

/// Bytes that are not known, for a reason.
pub(super) type Bytes = Result<Count, Why>;

impl<'a> Call<'a> {
    pub(super) fn new(name: &'a str, arguments: &'a Arguments) -> Self {
        Self { name, arguments }
    }

    fn at(&self, place: usize) -> Option<&'a Argument> {
        self.arguments.list.get(place)
    }

    /// A tensor that has to be there.
    pub(super) fn tensor(&self, place: usize, name: &'static str) -> Result<&'a Tensor, Why> {
        self.maybe(place).ok_or(Why::Missing(name))
    }

    /// A tensor that need not be given.
    pub(super) fn maybe(&self, place: usize) -> Option<&'a Tensor> {
        match self.at(place) {
            Some(Argument::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// The dimensions of a tensor with at least so many.
    pub(super) fn dimensions(
        &self,
        place: usize,
        name: &'static str,
        least: usize,
    ) -> Result<&'a [u64], Why> {
        let dimensions = &self.tensor(place, name)?.dimensions;
        match dimensions.len() >= least {
            true => Ok(dimensions),
            false => Err(Why::contradiction(format!(
                "{name} has {} dimensions, not {least}",
                dimensions.len()
            ))),
        }
    }

    /// The tensors of a list.
    pub(super) fn list(&self, place: usize, name: &'static str) -> Result<&'a [Tensor], Why> {
        match self.at(place) {
            Some(Argument::Tensors(Some(list))) => Ok(list),
            _ => Err(Why::Missing(name)),
        }
    }

    /// All tensors.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &'a Tensor> {
        self.arguments.tensors()
    }

    /// Whether the trace has values of arguments that are no tensors.
    pub(super) fn has_values(&self) -> bool {
        !self.arguments.only_tensors
    }

    fn value(&self, place: usize, name: &'static str) -> Result<&'a str, Why> {
        match self.at(place) {
            Some(Argument::Value(Some(text))) if self.has_values() => Ok(text),
            _ => Err(Why::NoValue(name)),
        }
    }

    /// A whole number.
    pub(super) fn integer(&self, place: usize, name: &'static str) -> Result<i64, Why> {
        self.value(place, name)?
            .trim()
            .parse()
            .map_err(|_| Why::NoValue(name))
    }

    /// A whole number that is not negative.
    pub(super) fn size(&self, place: usize, name: &'static str) -> Result<u64, Why> {
        u64::try_from(self.integer(place, name)?).map_err(|_| Why::Negative)
    }

    /// A truth value.
    pub(super) fn flag(&self, place: usize, name: &'static str) -> Result<bool, Why> {
        match self.value(place, name)?.trim() {
            "True" | "true" => Ok(true),
            "False" | "false" => Ok(false),
            _ => Err(Why::NoValue(name)),
        }
    }

    fn items(&self, place: usize, name: &'static str) -> Result<Vec<&'a str>, Why> {
        let text = self.value(place, name)?.trim();
        let inside = text
            .strip_prefix(['[', '('])
            .and_then(|text| text.strip_suffix([']', ')']));
        let items = inside.ok_or(Why::NoValue(name))?.split(',').map(str::trim);
        Ok(items.filter(|item| !item.is_empty()).collect())
    }

    /// A list of whole numbers.
    pub(super) fn integers(&self, place: usize, name: &'static str) -> Result<Vec<i64>, Why> {
        let items = self.items(place, name)?.into_iter();
        items
            .map(|item| item.parse().map_err(|_| Why::NoValue(name)))
            .collect()
    }

    /// A list of whole numbers that are not negative.
    pub(super) fn sizes(&self, place: usize, name: &'static str) -> Result<Vec<u64>, Why> {
        let list = self.integers(place, name)?.into_iter();
        list.map(|size| u64::try_from(size).map_err(|_| Why::Negative))
            .collect()
    }

    /// A list of truth values.
    pub(super) fn flags(&self, place: usize, name: &'static str) -> Result<Vec<bool>, Why> {
        let items = self.items(place, name)?.into_iter();
        items
            .map(|item| match item {
                "True" | "true" => Ok(true),
                "False" | "false" => Ok(false),
                _ => Err(Why::NoValue(name)),
            })
            .collect()
    }

    /// Whether an argument was given at all, where that can be told.
    pub(super) fn is_given(&self, place: usize) -> bool {
        !matches!(self.at(place), None | Some(Argument::Nothing))
    }
}

/// The type of a tensor.
pub(super) fn scalar(tensor: &Tensor) -> Result<Scalar, Why> {
    match &tensor.scalar {
        Ok(scalar) => Ok(*scalar),
        Err(name) if name.is_empty() => Err(Why::NoTypes),
        Err(name) => Err(Why::UnknownType(name.clone())),
    }
}

/// The bytes of a tensor in memory.
pub(super) fn bytes_of(tensor: &Tensor) -> Bytes {
    Ok(tensor.elements_in_memory() * scalar(tensor)?.bytes())
}

/// The bytes of tensors, of those that are given.
pub(super) fn bytes_of_all<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) -> Bytes {
    tensors.into_iter().map(bytes_of).sum()
}

/// The bytes of a tensor of these dimensions that has the type of another.
pub(super) fn bytes_like(dimensions: &[u64], other: &Tensor) -> Bytes {
    Ok(product(dimensions) * scalar(other)?.bytes())
}

/// How many elements a tensor has.
pub(super) fn elements(tensor: &Tensor) -> Count {
    product(&tensor.dimensions)
}

/// Both dimensions that have to be equal.
pub(super) fn equal(one: u64, other: u64, what: &str) -> Result<u64, Why> {
    match one == other {
        true => Ok(one),
        false => Err(Why::contradiction(format!("{what} {one} against {other}"))),
    }
}

/// The work of a call, once it is known.
pub(super) fn done(
    engine: Engine,
    computed_in: &Tensor,
    operations: Count,
    read: Bytes,
    written: Bytes,
) -> Result<Work, Why> {
    let bytes = || Ok((read?.get()?, written?.get()?));
    Ok(Work {
        operations: operations.get()?,
        bytes: bytes(),
        engine,
        scalar: scalar(computed_in).ok(),
    })
}
