//! Whole numbers that cannot overflow unnoticed.

use std::iter::{Product, Sum};
use std::ops::{Add, Mul};

use super::Why;

/// A count of elements, bytes or operations; none once a result no longer fits into 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(Option<u128>);

impl Count {
    pub(super) const ZERO: Self = Self(Some(0));
    pub(super) const ONE: Self = Self(Some(1));

    /// The number.
    ///
    /// # Errors
    /// When it no longer fits: dimensions like these are not those of a tensor.
    pub(super) fn get(self) -> Result<u128, Why> {
        // A count of bytes or elements of real tensors is far below; a product of a few of them as well.
        const MOST: u128 = 1 << 100;
        self.0.filter(|count| *count <= MOST).ok_or(Why::TooLarge)
    }

    /// The quotient, rounded down; of zero parts none.
    pub(super) fn over(self, parts: Self) -> Self {
        Self(
            self.0
                .zip(parts.0)
                .and_then(|(all, by)| all.checked_div(by)),
        )
    }

    /// The difference, zero at least.
    pub(super) fn less(self, other: Self) -> Self {
        Self(
            self.0
                .zip(other.0)
                .map(|(one, other)| one.saturating_sub(other)),
        )
    }

    /// The smaller of both.
    pub(super) fn least(self, other: Self) -> Self {
        Self(self.0.zip(other.0).map(|(one, other)| one.min(other)))
    }
}

impl From<u64> for Count {
    fn from(number: u64) -> Self {
        Self(Some(u128::from(number)))
    }
}

impl Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(
            self.0
                .zip(other.0)
                .and_then(|(one, other)| one.checked_add(other)),
        )
    }
}

impl Mul for Count {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(other)) => Self(one.checked_mul(other)),
            _ => Self(None),
        }
    }
}

impl Add<u64> for Count {
    type Output = Self;

    fn add(self, other: u64) -> Self {
        self + Self::from(other)
    }
}

impl Mul<u64> for Count {
    type Output = Self;

    fn mul(self, other: u64) -> Self {
        self * Self::from(other)
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl Product for Count {
    fn product<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ONE, Mul::mul)
    }
}

/// The product of dimensions: 1 of none.
pub(super) fn product(dimensions: &[u64]) -> Count {
    dimensions.iter().map(|&one| Count::from(one)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_no_number() {
        assert_eq!(product(&[]).get(), Ok(1));
        assert_eq!(product(&[3, 0, u64::MAX]).get(), Ok(0));
        let large = product(&[u64::MAX; 3]);
        assert_eq!(large.get(), Err(Why::TooLarge));
        assert_eq!((large * Count::ZERO).get(), Err(Why::TooLarge));
        assert_eq!((Count::from(5) + large).get(), Err(Why::TooLarge));
        assert_eq!(Count::from(7).over(Count::from(2)).get(), Ok(3));
        assert_eq!(Count::from(7).over(Count::ZERO).get(), Err(Why::TooLarge));
        assert_eq!(Count::from(7).less(Count::from(9)).get(), Ok(0));
    }
}
