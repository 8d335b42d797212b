//! What an operator was called with, read from the texts of traces.
//!
//! Two forms: PyTorch's profiler writes four lists of JSON, of one length: types, dimensions, strides and the values of arguments that are no tensors. They come
//! here behind each other, with [`SEPARATOR`] between them. rsys writes the dimensions of tensors alone, as `[64, 3] [3]`.

use serde_json::Value;

use super::count::{Count, product};
use super::{Scalar, Why};

/// Stands between the four lists; JSON cannot contain it.
pub const SEPARATOR: char = '\u{1f}';

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The type of its elements, or the name of one that is not known; empty: it was not recorded.
    pub scalar: Result<Scalar, String>,
    /// Its dimensions, none of a single number.
    pub dimensions: Vec<u64>,
    /// By how many elements one is behind the other in each dimension, if that was recorded.
    pub strides: Option<Vec<i64>>,
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// None was given.
    Nothing,
    /// A tensor.
    Tensor(Tensor),
    /// A list of tensors; none where the trace does not say which.
    Tensors(Option<Vec<Tensor>>),
    /// A number, or a list of numbers, as it was written; none where the trace does not say which.
    Value(Option<String>),
}

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// In the order of the operator's schema; without those that are no tensors where only these were recorded.
    pub list: Vec<Argument>,
    /// Whether only tensors were recorded, and neither types nor values.
    pub only_tensors: bool,
}

impl Tensor {
    /// How many elements it has in memory: what is repeated by a stride of zero is there once.
    pub(super) fn elements_in_memory(&self) -> Count {
        match &self.strides {
            Some(strides) if strides.len() == self.dimensions.len() => {
                let all = self.dimensions.iter().zip(strides);
                all.map(|(&size, &stride)| match (size, stride) {
                    (1.., 0) => Count::ONE,
                    _ => Count::from(size),
                })
                .product()
            }
            _ => product(&self.dimensions),
        }
    }
}

impl Arguments {
    /// Reads either form.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn read(text: &str) -> Result<Self, Why> {
        match text.contains(SEPARATOR) {
            true => Self::of_lists(text),
            false => Self::of_dimensions(text),
        }
    }

    fn of_lists(text: &str) -> Result<Self, Why> {
        let mut parts = text.split(SEPARATOR);
        let mut list = || list_of(parts.next().unwrap_or_default());
        let (types, dimensions, strides, values) = (list()?, list()?, list()?, list()?);
        let Some(dimensions) = dimensions else {
            return Err(Why::NoArguments);
        };
        let count = dimensions.len();
        let lengths = [&types, &strides, &values].map(|list| list.as_ref().map(Vec::len));
        if lengths.iter().flatten().any(|length| *length != count) {
            return Err(Why::contradiction(format!(
                "lists of types, dimensions, strides and values differ in length ({count} dimensions)"
            )));
        }
        let arguments = (0..count).map(|at| {
            let of =
                |list: &Option<Vec<Value>>| list.as_ref().and_then(|list| list.get(at).cloned());
            argument(of(&types), &dimensions[at], of(&strides), of(&values))
        });
        Ok(Self {
            list: arguments.collect::<Result<_, _>>()?,
            only_tensors: false,
        })
    }

    fn of_dimensions(text: &str) -> Result<Self, Why> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(Why::NoArguments);
        }
        let mut list = Vec::new();
        while !rest.is_empty() {
            let end = rest.find(']').ok_or(Why::Unreadable)? + 1;
            let sizes: Value = serde_json::from_str(&rest[..end]).map_err(|_| Why::Unreadable)?;
            list.push(Argument::Tensor(Tensor {
                scalar: Err(String::new()),
                dimensions: sizes_of(&sizes)?,
                strides: None,
            }));
            rest = rest[end..].trim_start();
        }
        Ok(Self {
            list,
            only_tensors: true,
        })
    }

    /// All tensors, those of lists too.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.list.iter().flat_map(|argument| match argument {
            Argument::Tensor(tensor) => std::slice::from_ref(tensor),
            Argument::Tensors(Some(list)) => list,
            _ => &[],
        })
    }

    /// The dimensions of all tensors, as people write them: `[64, 3], [3]`. Of long lists the first few.
    #[must_use]
    pub fn shapes(&self) -> String {
        const MOST: usize = 8;
        let mut shapes: Vec<String> = self
            .tensors()
            .take(MOST)
            .map(|tensor| format!("{:?}", tensor.dimensions))
            .collect();
        let more = self.tensors().count().saturating_sub(MOST);
        if more > 0 {
            shapes.push(format!("and {more} more"));
        }
        shapes.join(", ")
    }

    /// The types of all tensors with dimensions, each once; of all others where no tensor has any.
    #[must_use]
    pub fn types(&self) -> String {
        let mut types: Vec<&str> = Vec::new();
        let has_dimensions = self.tensors().any(|tensor| !tensor.dimensions.is_empty());
        for tensor in self.tensors() {
            let name = match &tensor.scalar {
                Ok(scalar) => scalar.name(),
                Err(name) => name.as_str(),
            };
            let counts = !has_dimensions || !tensor.dimensions.is_empty();
            if counts && !name.is_empty() && !types.contains(&name) {
                types.push(name);
            }
        }
        types.join(", ")
    }
}

/// A list of JSON; none where there is no text.
fn list_of(text: &str) -> Result<Option<Vec<Value>>, Why> {
    match text.trim() {
        "" => Ok(None),
        text => match serde_json::from_str(text) {
            Ok(Value::Array(list)) => Ok(Some(list)),
            _ => Err(Why::Unreadable),
        },
    }
}

/// The kinds of arguments that PyTorch's profiler has names for beside the types of tensors.
fn argument(
    kind: Option<Value>,
    dimensions: &Value,
    strides: Option<Value>,
    value: Option<Value>,
) -> Result<Argument, Why> {
    let kind = kind.as_ref().map(|kind| kind.as_str().unwrap_or_default());
    let is_empty = dimensions.as_array().is_some_and(Vec::is_empty);
    match kind {
        Some("Scalar" | "ScalarList") => {
            let text = value.as_ref().and_then(Value::as_str);
            let text = text.filter(|text| !text.is_empty()).map(str::to_owned);
            Ok(Argument::Value(text))
        }
        Some("TensorList" | "GenericList") => tensors(dimensions, strides.as_ref()),
        Some("") if is_empty => {
            let text = value.as_ref().and_then(Value::as_str).unwrap_or_default();
            Ok(match text {
                "" => Argument::Nothing,
                text => Argument::Value(Some(text.to_owned())),
            })
        }
        // Without types, a number and nothing at all look alike.
        None if is_empty => Ok(Argument::Value(None)),
        None | Some("") if is_nested(dimensions) => tensors(dimensions, strides.as_ref()),
        kind => Ok(Argument::Tensor(Tensor {
            scalar: kind.map_or(Err(String::new()), |kind| {
                Scalar::of(kind).ok_or_else(|| kind.to_owned())
            }),
            dimensions: sizes_of(dimensions)?,
            strides: strides.as_ref().and_then(strides_of),
        })),
    }
}

fn is_nested(value: &Value) -> bool {
    let first = value.as_array().and_then(|list| list.first());
    first.is_some_and(Value::is_array)
}

/// A list of tensors, whose types PyTorch's profiler does not write.
fn tensors(dimensions: &Value, strides: Option<&Value>) -> Result<Argument, Why> {
    let list = dimensions.as_array().ok_or(Why::Unreadable)?;
    if list.is_empty() {
        return Ok(Argument::Tensors(None));
    }
    let tensors = list.iter().enumerate().map(|(at, sizes)| {
        Ok(Tensor {
            scalar: Err(String::new()),
            dimensions: sizes_of(sizes)?,
            strides: strides.and_then(|strides| strides_of(strides.get(at)?)),
        })
    });
    Ok(Argument::Tensors(Some(tensors.collect::<Result<_, _>>()?)))
}

fn sizes_of(value: &Value) -> Result<Vec<u64>, Why> {
    let list = value.as_array().ok_or(Why::Unreadable)?;
    let sizes = list
        .iter()
        .map(|size| match (size.as_u64(), size.as_f64()) {
            (Some(size), _) => Ok(size),
            (None, Some(size)) if size < 0.0 => Err(Why::Negative),
            (None, Some(size)) if size >= u64::MAX as f64 => Err(Why::TooLarge),
            _ => Err(Why::Unreadable),
        });
    sizes.collect()
}

fn strides_of(value: &Value) -> Option<Vec<i64>> {
    let list = value.as_array()?.iter();
    list.map(Value::as_i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(types: &str, dimensions: &str, strides: &str, values: &str) -> String {
        [types, dimensions, strides, values].join("\u{1f}")
    }

    #[test]
    fn four_lists_are_arguments() {
        let text = lists(
            r#"["c10::BFloat16", "", "Scalar", "ScalarList", "TensorList"]"#,
            "[[4, 3], [], [], [], [[2], [5, 1]]]",
            "[[0, 1], [], [], [], [[1], [1, 1]]]",
            r#"["", "", "0.5", "[1, 2]", ""]"#,
        );
        let arguments = Arguments::read(&text).unwrap();
        let [
            Argument::Tensor(tensor),
            Argument::Nothing,
            Argument::Value(Some(number)),
            Argument::Value(Some(list)),
            Argument::Tensors(Some(tensors)),
        ] = &arguments.list[..]
        else {
            panic!("{arguments:?}");
        };
        assert_eq!(tensor.scalar, Ok(Scalar::BF16));
        assert_eq!(tensor.elements_in_memory().get(), Ok(3));
        assert_eq!((number.as_str(), list.as_str()), ("0.5", "[1, 2]"));
        assert_eq!(tensors[1].dimensions, [5, 1]);
        assert_eq!(arguments.shapes(), "[4, 3], [2], [5, 1]");
        assert_eq!(arguments.types(), "bf16");
    }

    #[test]
    fn dimensions_alone_are_tensors_of_no_type() {
        let arguments = Arguments::read("[64, 3] [] [3]").unwrap();
        assert!(arguments.only_tensors);
        assert_eq!(arguments.shapes(), "[64, 3], [], [3]");
        assert_eq!(arguments.types(), "");
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (text, why) in [
            (String::new(), Why::NoArguments),
            ("[64, 3".to_owned(), Why::Unreadable),
            ("float[3]".to_owned(), Why::Unreadable),
            (lists("", "", "", ""), Why::NoArguments),
            (lists(r#"["float"]"#, "[[-3]]", "", ""), Why::Negative),
            (lists(r#"["float"]"#, "[[2.5]]", "", ""), Why::Unreadable),
            (lists(r#"["float"]"#, "[[1e300]]", "", ""), Why::TooLarge),
            (lists(r#"["float"]"#, "[[2]", "", ""), Why::Unreadable),
            (lists(r#"["float"]"#, "7", "", ""), Why::Unreadable),
        ] {
            assert_eq!(Arguments::read(&text), Err(why), "{text}");
        }
        let differ = Arguments::read(&lists(r#"["float"]"#, "[[2], [3]]", "", ""));
        assert!(matches!(differ, Err(Why::Contradiction(_))), "{differ:?}");
    }
}
