//! Types of the elements of tensors.

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    /// `bool`.
    Bool,
    /// Unsigned integers of 8 bits; others likewise.
    U8,
    /// Signed ones.
    I8,
    /// Of 16 bits.
    I16,
    /// Of 32 bits.
    I32,
    /// Of 64 bits.
    I64,
    /// Two floating-point numbers of 4 bits in a byte.
    F4,
    /// Floating-point numbers of 8 bits, of any split.
    F8,
    /// IEEE half.
    F16,
    /// The upper half of a single.
    BF16,
    /// IEEE single.
    F32,
    /// IEEE double.
    F64,
    /// Two halves.
    C32,
    /// Two singles.
    C64,
    /// Two doubles.
    C128,
}

/// The names that PyTorch's profiler writes: those of `c10::ScalarType` in C++ (`caffe2::TypeMeta::name`), those of `torch.dtype`, and short ones.
const NAMES: &[(&str, Scalar)] = &[
    ("bool", Scalar::Bool),
    ("unsigned char", Scalar::U8),
    ("uint8", Scalar::U8),
    ("signed char", Scalar::I8),
    ("int8", Scalar::I8),
    ("short", Scalar::I16),
    ("short int", Scalar::I16),
    ("int16", Scalar::I16),
    ("int", Scalar::I32),
    ("int32", Scalar::I32),
    ("unsigned int", Scalar::I32),
    ("uint32", Scalar::I32),
    ("long", Scalar::I64),
    ("long int", Scalar::I64),
    ("int64", Scalar::I64),
    ("unsigned long", Scalar::I64),
    ("uint64", Scalar::I64),
    ("c10::Float4_e2m1fn_x2", Scalar::F4),
    ("float4_e2m1fn_x2", Scalar::F4),
    ("c10::Float8_e4m3fn", Scalar::F8),
    ("c10::Float8_e4m3fnuz", Scalar::F8),
    ("c10::Float8_e5m2", Scalar::F8),
    ("c10::Float8_e5m2fnuz", Scalar::F8),
    ("c10::Float8_e8m0fnu", Scalar::F8),
    ("float8_e4m3fn", Scalar::F8),
    ("float8_e4m3fnuz", Scalar::F8),
    ("float8_e5m2", Scalar::F8),
    ("float8_e5m2fnuz", Scalar::F8),
    ("float8_e8m0fnu", Scalar::F8),
    ("c10::Half", Scalar::F16),
    ("at::Half", Scalar::F16),
    ("float16", Scalar::F16),
    ("c10::BFloat16", Scalar::BF16),
    ("at::BFloat16", Scalar::BF16),
    ("bfloat16", Scalar::BF16),
    ("float", Scalar::F32),
    ("float32", Scalar::F32),
    ("double", Scalar::F64),
    ("float64", Scalar::F64),
    ("c10::complex<c10::Half>", Scalar::C32),
    ("c10::complex<float>", Scalar::C64),
    ("complex64", Scalar::C64),
    ("c10::complex<double>", Scalar::C128),
    ("complex128", Scalar::C128),
];

impl Scalar {
    /// The type of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let name = name.strip_prefix("torch.").unwrap_or(name);
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, scalar)| *scalar)
    }

    /// Bytes of an element, as dimensions count them: two numbers of 4 bits are one.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bool | Self::U8 | Self::I8 | Self::F4 | Self::F8 => 1,
            Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::F32 | Self::C32 => 4,
            Self::I64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    /// A short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F4 => "fp4",
            Self::F8 => "fp8",
            Self::F16 => "fp16",
            Self::BF16 => "bf16",
            Self::F32 => "fp32",
            Self::F64 => "fp64",
            Self::C32 => "c32",
            Self::C64 => "c64",
            Self::C128 => "c128",
        }
    }

    fn is_integer(self) -> bool {
        self <= Self::I64
    }

    /// How many real operations a multiplication and an addition of this type are, against one each of real numbers.
    #[must_use]
    pub(super) fn complexity(self) -> u64 {
        match self {
            Self::C32 | Self::C64 | Self::C128 => 4,
            _ => 1,
        }
    }

    /// The rank of its category in PyTorch's promotion: bool, integers, floating point, complex.
    pub(super) fn category(self) -> u8 {
        match self {
            Self::Bool => 0,
            Self::U8 | Self::I8 | Self::I16 | Self::I32 | Self::I64 => 1,
            Self::C32 | Self::C64 | Self::C128 => 3,
            _ => 2,
        }
    }

    /// The common type of two, as `torch.promote_types` has it.
    pub(super) fn promoted(self, other: Self) -> Self {
        let (small, large) = (self.min(other), self.max(other));
        match (small, large) {
            (Self::U8, Self::I8) => Self::I16,
            (Self::F16, Self::BF16) => Self::F32,
            (Self::F64, Self::C32 | Self::C64) => Self::C128,
            (Self::F32, Self::C32) => Self::C64,
            _ => large,
        }
    }

    /// What functions give that have no whole results: `float` of integers.
    pub(super) fn floating(self) -> Self {
        if self.is_integer() { Self::F32 } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_their_names() {
        for (name, scalar, bytes) in [
            ("c10::BFloat16", Scalar::BF16, 2),
            ("long int", Scalar::I64, 8),
            ("torch.float8_e4m3fnuz", Scalar::F8, 1),
            ("c10::complex<double>", Scalar::C128, 16),
        ] {
            assert_eq!(Scalar::of(name), Some(scalar), "{name}");
            assert_eq!(scalar.bytes(), bytes, "{name}");
        }
        assert_eq!(Scalar::of("c10::Float3"), None);
    }

    #[test]
    fn types_promote_as_pytorch_has_it() {
        for (one, other, common) in [
            (Scalar::U8, Scalar::I8, Scalar::I16),
            (Scalar::I64, Scalar::F16, Scalar::F16),
            (Scalar::F16, Scalar::BF16, Scalar::F32),
            (Scalar::Bool, Scalar::I32, Scalar::I32),
            (Scalar::F64, Scalar::C64, Scalar::C128),
        ] {
            assert_eq!(one.promoted(other), common);
            assert_eq!(other.promoted(one), common);
        }
    }
}
