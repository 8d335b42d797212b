//! Calls that make memory and give it back.

/// Whether a call makes memory (`Some(true)`), gives it back (`Some(false)`), or does neither.
pub(crate) fn allocates(call: &str) -> Option<bool> {
    const MAKES: [&str; 10] = [
        "hipMalloc",
        "hipHostMalloc",
        "hipHostAlloc",
        "hipExtMalloc",
        "hipMemAlloc",
        "hipMemCreate",
        "hsa_memory_allocate",
        "hsa_amd_memory_pool_allocate",
        "hsa_amd_vmem_handle_create",
        "hipArrayCreate",
    ];
    const GIVES_BACK: [&str; 7] = [
        "hipFree",
        "hipHostFree",
        "hipMemFree",
        "hipMemRelease",
        "hsa_memory_free",
        "hsa_amd_memory_pool_free",
        "hsa_amd_vmem_handle_release",
    ];
    let is_of = |names: &[&str]| names.iter().any(|name| call.starts_with(name));
    if is_of(&MAKES) {
        return Some(true);
    }
    is_of(&GIVES_BACK).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::allocates;

    #[test]
    fn names_tell_what_calls_do() {
        for (call, expected) in [
            ("hipMalloc", Some(true)),
            ("hipMallocAsync", Some(true)),
            ("hipFree", Some(false)),
            ("hipFreeAsync", Some(false)),
            ("hsa_amd_memory_pool_free", Some(false)),
            ("hipMemcpy", None),
            ("hipMemset", None),
        ] {
            assert_eq!(allocates(call), expected, "{call}");
        }
    }
}
