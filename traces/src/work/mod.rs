//! What an operator has to do: floating-point operations and bytes, from its name and what it was called with.
//!
//! | file | holds |
//! |---|---|
//! | `arguments` | what traces say of the arguments of a call |
//! | `scalar` | types of elements, their sizes and promotion |
//! | `call` | the arguments of a call by their places, with a reason where one is missing |
//! | `count` | numbers that cannot overflow unnoticed |
//! | `models` | the operators: a folder of families, each with its formulas |
//! | `category` | the families as people call them, of operators and kernels without a model too |
//! | [`peaks`] | what GPUs could do at most, with the source of each figure |
//! | `why` | the reasons for which there is no figure |
//!
//! **Operations.** A multiplication with an addition is two; so are they in `torch.utils.flop_counter`. Matrix products, convolutions and attention count these
//! alone: no bias, no scale, no softmax. What is element by element counts each arithmetic operation or function as one.
//!
//! **Bytes.** Each input is read once, each result written once, whatever the caches do: the least that has to go over the memory's bus. Where operators read and
//! write one tensor, it counts twice. Of what is repeated by a stride of zero one copy is read.

mod arguments;
mod call;
mod category;
mod count;
mod models;
pub mod peaks;
mod scalar;
mod why;

pub use arguments::{Argument, Arguments, SEPARATOR, Tensor};
pub use category::{Category, category_of_kernel, category_of_operator};
pub use models::{has_model, names, work};
pub use scalar::Scalar;
pub use why::Why;

/// The part of a GPU that does the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// What multiplies matrices.
    Matrix,
    /// What computes element by element.
    Vector,
}

/// What one call has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Operations.
    pub operations: u128,
    /// Bytes read and bytes written, or why they are not known.
    pub bytes: Result<(u128, u128), Why>,
    /// What does the operations.
    pub engine: Engine,
    /// The type that is computed in, if it is known.
    pub scalar: Option<Scalar>,
}

impl Work {
    /// Bytes read and written together.
    ///
    /// # Errors
    /// When they are not known.
    pub fn all_bytes(&self) -> Result<u128, Why> {
        let (read, written) = self.bytes.clone()?;
        read.checked_add(written).ok_or(Why::TooLarge)
    }
}
