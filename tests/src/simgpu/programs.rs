//! Programs for simulated GPUs, compiled from `tests/workloads/gpu` when a test asks for them.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use super::stack::{Stack, in_tree, runtimes_dir};
use crate::invocation::Invocation;
use crate::paths::{target_dir, workspace_dir};

/// The models that programs have code for.
const OLD_MODELS: [&str; 2] = ["gfx90a", "gfx908"];
const NEW_MODELS: [&str; 2] = ["gfx90a", "gfx942"];

/// `name.c`, linked with the HSA runtime. Runs with all stacks.
///
/// # Errors
/// When it cannot be compiled.
pub fn hsa_program(name: &str) -> Result<Invocation> {
    library_program(Stack::Debian12, name, &["hsa-runtime64"])
}

/// `name.c`, linked with libraries of a stack whose programs run on this machine.
///
/// # Errors
/// When it cannot be compiled.
pub fn library_program(stack: Stack, name: &str, libraries: &[&str]) -> Result<Invocation> {
    let source = source(&format!("{name}.c"));
    let compiler = Invocation::new("gcc")
        .args(["-O2", "-g", "-D__HIP_PLATFORM_AMD__", "-idirafter"])
        .arg(stack.folder().join("usr/include"))
        .arg(&source)
        .arg("-idirafter")
        .arg(stack.beside().join("usr/include"))
        .arg("-L")
        .arg(stack.libraries())
        .arg("-L")
        .arg(stack.beside().join("usr/lib/x86_64-linux-gnu"))
        .args(libraries.iter().map(|library| format!("-l{library}")))
        .args(["-pthread", "-Wl,--allow-shlib-undefined", "-o"]);
    compile(&compiler, &source, name).map(Invocation::new)
}

/// `name.c`, as a tool that the HSA runtime loads when `HSA_TOOLS_LIB` names it. For all stacks.
///
/// # Errors
/// When it cannot be compiled.
pub fn hsa_tool(name: &str) -> Result<PathBuf> {
    let source = source(&format!("{name}.c"));
    let compiler = Invocation::new("gcc")
        .args(["-O2", "-g", "-shared", "-fPIC", "-idirafter"])
        .arg(Stack::Debian12.folder().join("usr/include"))
        .arg(&source)
        .arg("-o");
    compile(&compiler, &source, &format!("{name}.so"))
}

/// `name.c`, with these options and no library of a stack's: a library, unless one of the options says otherwise.
///
/// # Errors
/// When it cannot be compiled.
pub fn standin(name: &str, output: &str, options: &[&str]) -> Result<PathBuf> {
    let source = source(&format!("{name}.c"));
    let compiler = Invocation::new("gcc")
        .args(["-O1", "-g", "-fPIC", "-pthread"])
        .args(options)
        .arg(&source)
        .args(["-ldl", "-o"]);
    compile(&compiler, &source, output)
}

/// A stand-in for HIP's library, which reports to a tracer what HIP 7.2 would: `standin_hip.c` says how it is told what to be. For programs
/// of `Stack::Debian12`, whose HSA runtime it uses. With `-DNO_TRACER` among the options it has no place for a tracer.
///
/// # Errors
/// When it cannot be compiled.
pub fn standin_hip(options: &[&str]) -> Result<PathBuf> {
    let source = source("standin_hip.c");
    let compiler = Invocation::new("gcc")
        .args(["-O2", "-g", "-shared", "-fPIC", "-fno-stack-protector"])
        .args(options)
        .arg(&source)
        .arg("-L")
        .arg(Stack::Debian12.libraries())
        .args(["-lhsa-runtime64", "-Wl,--allow-shlib-undefined", "-o"]);
    compile(&compiler, &source, "libamdhip64.so.7")
}

/// A program below a tool of the HSA runtime's that is loaded before the profiler's.
#[must_use]
pub fn below_hsa_tool(tool: &Path, program: Invocation) -> Invocation {
    Invocation::new("sh")
        .args([
            "-c",
            r#"tool=$1; shift; HSA_TOOLS_LIB="$tool $HSA_TOOLS_LIB" exec "$@""#,
            "sh",
        ])
        .arg(tool)
        .program(program)
}

/// `name.cpp`, a HIP program for this stack.
///
/// # Errors
/// When it cannot be compiled.
pub fn hip_program(stack: Stack, name: &str) -> Result<Invocation> {
    let source = source(&format!("{name}.cpp"));
    // HIP 5 programs run with all libraries of that major version.
    let runtime = match stack {
        Stack::Unstable | Stack::Rocm7 => stack,
        _ => Stack::Debian12,
    };
    let tree = match runtime {
        Stack::Unstable | Stack::Rocm7 => Stack::Debian13.folder(),
        _ => Stack::Debian12.folder(),
    };
    let (compiler, bitcode, models) = match runtime {
        Stack::Unstable | Stack::Rocm7 => (
            "/usr/lib/llvm-17/bin/clang++".into(),
            "/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode".into(),
            NEW_MODELS,
        ),
        _ => (
            tree.join("usr/lib/llvm-15/bin/clang++"),
            tree.join("usr/lib/x86_64-linux-gnu/amdgcn/bitcode"),
            OLD_MODELS,
        ),
    };
    let compiler = Invocation::new(compiler)
        .args(["-x", "hip", "-O1", "-g", "-D__HIP_PLATFORM_AMD__"])
        .args(models.map(|model| format!("--offload-arch={model}")))
        .arg(option("--hip-path=", runtime.folder().join("usr")))
        .arg(option("--hip-device-lib-path=", bitcode))
        .arg(&source)
        .arg("-L")
        .arg(runtime.libraries())
        .args([
            "-lamdhip64",
            "-pthread",
            "-Wl,--allow-shlib-undefined",
            "-o",
        ]);
    let compiler = match runtime {
        Stack::Unstable | Stack::Rocm7 => in_tree(&tree, compiler),
        _ => compiler,
    };
    compile(&compiler, &source, name).map(Invocation::new)
}

/// `name.c`, a program of ROCm's OpenCL, for [`Stack::Unstable`].
///
/// # Errors
/// When it cannot be compiled.
pub fn opencl_program(name: &str) -> Result<Invocation> {
    let source = source(&format!("{name}.c"));
    let folder = runtimes_dir().join("opencl/usr");
    let libraries = folder.join("lib/x86_64-linux-gnu");
    let compiler = Invocation::new("gcc")
        .args(["-O1", "-g", "-idirafter"])
        .arg(folder.join("include"))
        .arg(&source)
        .arg("-L")
        .arg(&libraries)
        .arg(option("-Wl,-rpath,", libraries))
        .args(["-lamdocl64", "-Wl,--allow-shlib-undefined", "-o"]);
    compile(&compiler, &source, name).map(Invocation::new)
}

/// `name.c`, a program whose OpenMP regions run on a gfx90a, for [`Stack::Debian13`].
///
/// # Errors
/// When it cannot be compiled.
pub fn openmp_program(name: &str) -> Result<Invocation> {
    let source = source(&format!("{name}.c"));
    let libraries = runtimes_dir().join("openmp/usr/lib/llvm-17/lib");
    let compiler = Invocation::new("/usr/lib/llvm-17/bin/clang")
        .args(["-O2", "-g", "-fopenmp=libomp"])
        .args(["-fopenmp-targets=amdgcn-amd-amdhsa", "-march=x86-64"])
        .args(["-Xopenmp-target=amdgcn-amd-amdhsa", "-march=gfx90a"])
        .arg("-isystem")
        .arg(libraries.join("clang/17/include"))
        .arg(&source)
        .arg("-L")
        .arg(&libraries)
        .arg("-o");
    let compiler = in_tree(&Stack::Debian13.folder(), compiler);
    let program = compile(&compiler, &source, name)?;
    // LLVM's libraries find their plug-ins by the variable alone.
    let line = r#"LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$1" exec "$2""#;
    Ok(Invocation::new("sh")
        .args(["-c", line, "sh"])
        .arg(libraries)
        .arg(program))
}

/// `kernels.cl` for a model, for programs that load code themselves. The path of the code object.
///
/// # Errors
/// When it cannot be compiled.
pub fn code_object(model: &str) -> Result<PathBuf> {
    code_object_of("kernels.cl", model, &[])
}

/// A file of OpenCL kernels for a model, compiled with further options. The path of the code object.
///
/// # Errors
/// When it cannot be compiled.
pub fn code_object_of(name: &str, model: &str, options: &[&str]) -> Result<PathBuf> {
    let source = source(name);
    let clang = Stack::Debian12.folder().join("usr/lib/llvm-15/bin/clang");
    let compiler = Invocation::new(clang)
        .args([
            "-x",
            "cl",
            "-O2",
            "-target",
            "amdgcn-amd-amdhsa",
            "-nogpulib",
        ])
        .arg(format!("-mcpu={model}"))
        .args(options)
        .arg(&source)
        .arg("-o");
    compile(&compiler, &source, "kernels.hsaco")
}

fn source(name: &str) -> PathBuf {
    workspace_dir().join("tests/workloads/gpu").join(name)
}

fn option(name: &str, path: PathBuf) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

/// Runs a compiler whose last argument is to be the output, unless that was done before.
fn compile(compiler: &Invocation, source: &Path, name: &str) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    compiler.words.hash(&mut hasher);
    for input in [source, &self::source("check.h"), &self::source("rccl_id.h")] {
        let text = fs::read(input).with_context(|| format!("cannot read {}", input.display()))?;
        text.hash(&mut hasher);
    }
    let folder = target_dir()
        .join("workloads")
        .join(format!("gpu-{:016x}", hasher.finish()));
    let program = folder.join(name);
    if program.is_file() {
        return Ok(program);
    }
    // Several tests may want the same program: whoever is ready first puts the folder into place.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let draft = folder.with_extension(format!("{}-{number}.draft", process::id()));
    fs::create_dir_all(&draft)?;
    let (tool, arguments) = compiler.words.split_first().context("no compiler")?;
    let done = Command::new(tool)
        .args(arguments)
        .arg(draft.join(name))
        .current_dir(&draft)
        .output()
        .with_context(|| format!("cannot start {}", tool.display()))?;
    if !done.status.success() {
        bail!(
            "{}\n{}",
            source.display(),
            String::from_utf8_lossy(&done.stderr)
        );
    }
    if fs::rename(&draft, &folder).is_err() {
        fs::remove_dir_all(&draft)?;
    }
    if program.is_file() {
        Ok(program)
    } else {
        bail!("{} was not made", program.display())
    }
}
