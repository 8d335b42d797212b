//! Which files of a trace's frames are not the program: who writes traces and who reads them must agree on that.

/// Runtimes below the program: names of their files begin like this.
const RUNTIMES: [&str; 32] = [
    "_ctypes.",
    "ld-linux",
    "ld-musl",
    "libLLVM",
    "libamdhip64",
    "libamd_comgr",
    "libc++",
    "libc-",
    "libc.so",
    "libclang",
    "libdl",
    "libdrm",
    "libffi",
    "libgcc_s",
    "libhsa-runtime64",
    "libhsakmt",
    "libhiprtc",
    "libm-",
    "libm.so",
    "libpthread",
    "libpython",
    "librccl",
    "librocm",
    "librocprofiler",
    "libroctx",
    "libroctracer",
    "librsys_",
    "librt",
    "libstdc++",
    "linux-vdso",
    "python2",
    "python3",
];

/// Whether a file, by its path or name, is of a runtime below the program: the C and C++ libraries, ROCm, Python's interpreter, or the profiler.
#[must_use]
pub fn is_runtime_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    RUNTIMES.iter().any(|runtime| name.starts_with(runtime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide() {
        for (path, expected) in [
            ("/opt/rocm/lib/libamdhip64.so.6", true),
            ("/usr/bin/python3.11", true),
            ("libc.so.6", true),
            ("/opt/app/libcompute.so", false),
            ("/home/me/python_tool", false),
        ] {
            assert_eq!(is_runtime_file(path), expected, "{path}");
        }
    }
}
