//! What names tell of operations and calls, looked up once for each name.

use crate::model::{Activity, Effect, OpKind, StreamOrder, TextId, Texts, classify};

/// Directions by the words for them: CUPTI's and JAX's in names, ROCm's in names and arguments. Ours
/// are on the right.
const DIRECTIONS: [(&str, &str); 17] = [
    ("HtoD", "host to device"),
    ("DtoH", "device to host"),
    ("DtoD", "device to device"),
    ("PtoP", "device to device"),
    ("HtoH", "host to host"),
    ("MemcpyH2D", "host to device"),
    ("MemcpyD2H", "device to host"),
    ("MemcpyD2D", "device to device"),
    ("MemcpyP2P", "device to device"),
    ("HostToDevice", "host to device"),
    ("DeviceToHost", "device to host"),
    ("DeviceToDevice", "device to device"),
    ("HostToHost", "host to host"),
    ("HOST_TO_DEVICE", "host to device"),
    ("DEVICE_TO_HOST", "device to host"),
    ("DEVICE_TO_DEVICE", "device to device"),
    ("HOST_TO_HOST", "host to host"),
];

/// The direction of a copy; empty if neither name nor argument says it.
pub(in crate::read) fn direction(name: &str, kind: &[u8]) -> &'static str {
    let kind = std::str::from_utf8(kind).unwrap_or_default();
    let mut words = DIRECTIONS.iter();
    let found = words.find(|(word, _)| name.contains(word) || kind.contains(word));
    found.map_or("", |(_, direction)| direction)
}

/// What kernels count as, looked up once for each name.
#[derive(Debug, Default)]
pub(in crate::read) struct Activities(Vec<Option<Activity>>);

impl Activities {
    /// What an operation counts as.
    #[inline]
    pub(in crate::read) fn of(&mut self, kind: OpKind, name: TextId, texts: &Texts) -> Activity {
        if kind != OpKind::Kernel {
            return classify(kind, "");
        }
        if name.index() >= self.0.len() {
            self.0.resize(name.index() + 1, None);
        }
        *self.0[name.index()].get_or_insert_with(|| classify(kind, texts.get(name)))
    }
}

/// What calls do, looked up once for each name.
#[derive(Debug, Default)]
pub(in crate::read) struct Effects(Vec<Option<(StreamOrder, Effect)>>);

impl Effects {
    /// What a call puts into its stream, and what it does else.
    #[inline]
    pub(in crate::read) fn of(&mut self, name: TextId, texts: &Texts) -> (StreamOrder, Effect) {
        if name.index() >= self.0.len() {
            self.0.resize(name.index() + 1, None);
        }
        *self.0[name.index()].get_or_insert_with(|| {
            let name = texts.get(name);
            (StreamOrder::of(name), Effect::of(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::direction;

    #[test]
    fn directions_have_our_names() {
        for (name, kind, expected) in [
            ("Memcpy HtoD (Pageable -> Device)", "", "host to device"),
            ("Memcpy PtoP (Device -> Device)", "", "device to device"),
            ("CopyDeviceToHost", "", "device to host"),
            ("Memcpy", "HostToDevice", "host to device"),
            ("Memcpy", "", ""),
        ] {
            assert_eq!(direction(name, kind.as_bytes()), expected, "{name}");
        }
    }
}
