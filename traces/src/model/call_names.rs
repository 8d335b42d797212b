//! Names of calls without what tells the libraries and versions of them apart.

/// The name of a call of HIP or CUDA by what it does: `StreamSynchronize` of `hipStreamSynchronize`, `cudaStreamSynchronize_ptsz` and
/// `cuStreamSynchronize`. `None` for calls of other libraries.
pub(super) fn plain(call: &str) -> Option<&str> {
    // `cublasCreate` is no call of the driver.
    let mut libraries = ["hip", "cuda", "cu"].into_iter();
    let mut name = libraries.find_map(|library| {
        let name = call.strip_prefix(library)?;
        name.starts_with(|first: char| first.is_ascii_uppercase())
            .then_some(name)
    })?;
    while let Some((before, end)) = name.rsplit_once('_') {
        let version = end.strip_prefix('v').unwrap_or("");
        let is_version = !version.is_empty() && version.bytes().all(|one| one.is_ascii_digit());
        if !is_version && !["spt", "ptsz", "ptds"].contains(&end) {
            break;
        }
        name = before;
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn libraries_and_versions_are_no_part_of_what_a_call_does() {
        for (call, name) in [
            ("hipMemcpy_spt", Some("Memcpy")),
            ("cudaStreamSynchronize_ptsz", Some("StreamSynchronize")),
            ("cudaMemcpy_v3020", Some("Memcpy")),
            ("cuMemcpyDtoH_v2", Some("MemcpyDtoH")),
            ("cuMemcpyDtoH_v2_ptds", Some("MemcpyDtoH")),
            ("cuStreamSynchronize", Some("StreamSynchronize")),
            ("cublasCreate_v2", None),
            ("hipblasCreate", None),
            ("hip_v2", None),
            ("cudaX_v", Some("X_v")),
        ] {
            assert_eq!(plain(call), name, "{call}");
        }
    }
}
