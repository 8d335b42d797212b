//! The parts of an event that count.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// An event. Times and ids stay text: times are exact to the digit, and ids may be numbers or texts.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'d> {
    #[serde(borrow, default)]
    pub(super) ph: Cow<'d, str>,
    #[serde(borrow, default)]
    pub(super) cat: Cow<'d, str>,
    #[serde(borrow, default)]
    pub(super) name: Cow<'d, str>,
    #[serde(borrow)]
    pub(super) ts: Option<&'d RawValue>,
    #[serde(borrow)]
    pub(super) dur: Option<&'d RawValue>,
    #[serde(borrow)]
    pub(super) pid: Option<&'d RawValue>,
    #[serde(borrow)]
    pub(super) tid: Option<&'d RawValue>,
    #[serde(borrow, default)]
    pub(super) args: Args<'d>,
}

/// The arguments of an event that count.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Args<'d> {
    #[serde(borrow)]
    pub(super) device: Option<&'d RawValue>,
    #[serde(borrow)]
    pub(super) stream: Option<&'d RawValue>,
    #[serde(borrow)]
    pub(super) correlation: Option<&'d RawValue>,
    #[serde(borrow, alias = "Bytes")]
    pub(super) bytes: Option<&'d RawValue>,
    #[serde(borrow)]
    pub(super) grid: Option<&'d RawValue>,
    /// Of kernels of collectives.
    #[serde(borrow, rename = "Collective name")]
    pub(super) collective: Option<&'d RawValue>,
    /// Of metadata events.
    #[serde(borrow)]
    pub(super) name: Option<&'d RawValue>,
}

/// A GPU of `deviceProperties`.
#[derive(Debug, Deserialize)]
pub(super) struct DeviceProperties {
    pub(super) id: u32,
    #[serde(default)]
    pub(super) name: String,
}

/// `distributedInfo`.
#[derive(Debug, Deserialize)]
pub(super) struct DistributedInfo {
    pub(super) rank: Option<u64>,
    pub(super) world_size: Option<u64>,
}

/// A value as text, without quotation marks.
pub(super) fn text(value: Option<&RawValue>) -> &str {
    value.map_or("", |value| value.get().trim_matches('"'))
}

/// A value as a whole number.
pub(super) fn count(value: Option<&RawValue>) -> Option<u64> {
    text(value).parse().ok()
}
