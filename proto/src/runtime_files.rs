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

/// Headers of libraries: beginnings of paths, and parts of them. Functions of the compiler's standard libraries and of ROCm's headers are
/// compiled into the program, but are not what its authors wrote.
const HEADER_ROOTS: [&str; 4] = ["/usr/include/", "/usr/lib/gcc/", "/usr/lib/llvm", "/rustc/"];
const HEADERS: [&str; 7] = [
    "/include/c++/",
    "/include/hip/",
    "/include/hipcub/",
    "/include/hsa/",
    "/include/rccl/",
    "/include/rocprim/",
    "/include/thrust/",
];

/// Whether a source file is a header of the standard libraries or of ROCm, whose functions stand in the program's own files.
#[must_use]
pub fn is_library_header(source: &str) -> bool {
    HEADER_ROOTS.iter().any(|root| source.starts_with(root))
        || HEADERS.iter().any(|part| source.contains(part))
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
    #[test]
    fn headers_of_libraries_are_not_the_program() {
        for (source, expected) in [
            ("/usr/include/c++/12/bits/stl_algobase.h", true),
            (
                "/usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/thread",
                true,
            ),
            ("/opt/rocm-6.4.3/include/hip/hip_runtime_api.h", true),
            ("/rustc/59807616e/library/core/src/slice/sort.rs", true),
            ("/home/me/solver/include/mesh.h", false),
            ("solver.cpp", false),
            ("", false),
        ] {
            assert_eq!(is_library_header(source), expected, "{source}");
        }
    }
}
