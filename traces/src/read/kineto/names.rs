//! Names of functions.

use std::borrow::Cow;

/// The name of a function without the address of the object that it was called on, which is another in each process:
/// `<built-in method mean of Tensor object at 0x7f4e99134140>`.
#[inline]
pub(super) fn without_address(name: &[u8]) -> Cow<'_, [u8]> {
    match name.strip_suffix(b">").and_then(before_address) {
        Some(rest) => Cow::Owned([rest, b">"].concat()),
        None => Cow::Borrowed(name),
    }
}

fn before_address(name: &[u8]) -> Option<&[u8]> {
    let digits = name
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_hexdigit());
    name[..name.len() - digits.count()].strip_suffix(b" at 0x")
}
