//! A program for GPUs that do not exist, for the demo and for the pictures of README: the real HIP runtime on simulated GPUs (`tests/simgpu`).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::runtimes;
use crate::steps::{find_program, step, target_dir, workspace_dir};

/// The runtimes of `cargo xtask runtimes` that it is compiled for.
pub const STACK: &str = "debian12";
/// The package with the simulated GPUs.
pub const PACKAGE: &str = "rsys-simgpu";

/// Two GPUs that are idle for reasons that are known.
const SOURCE: &str = "tests/workloads/gpu/hip_causes.cpp";
/// Rounds, and milliseconds of each reason.
const ARGUMENTS: [&str; 2] = ["10", "30"];
/// The model that is simulated.
const MODEL: &str = "gfx90a";
/// What kernels take.
const CONFIGURATION: &str = "[[kernel]]\nname = 'spin'\nmicroseconds = 300\n";

/// A HIP runtime with the compiler for its programs.
#[derive(Debug)]
pub struct Hip {
    compiler: PathBuf,
    options: Vec<OsString>,
    /// Where the runtime's libraries are, if not where the loader looks.
    libraries: Option<PathBuf>,
}

impl Hip {
    /// The runtime that `cargo xtask runtimes` has unpacked, or the one that is installed, if there is one. Nothing is fetched.
    pub fn find() -> Option<Self> {
        Self::unpacked().or_else(Self::installed)
    }

    fn unpacked() -> Option<Self> {
        let root = runtimes::complete(STACK)?;
        let option = |start: &str, path: &str| {
            let mut word = OsString::from(start);
            word.push(root.join(path));
            word
        };
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        let mut options: Vec<OsString> = ["-x", "hip", "-D__HIP_PLATFORM_AMD__"]
            .map(Into::into)
            .into();
        options.push(option("--hip-path=", "usr"));
        options.push(option(
            "--hip-device-lib-path=",
            "usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
        ));
        options.extend(["-Wl,--allow-shlib-undefined".into(), "-L".into()]);
        options.push(libraries.clone().into());
        Some(Self {
            compiler: root.join("usr/lib/llvm-15/bin/clang++"),
            options,
            libraries: Some(libraries),
        })
    }

    fn installed() -> Option<Self> {
        let usual = Path::new("/opt/rocm/bin/hipcc");
        let compiler =
            find_program("hipcc").or_else(|| usual.is_file().then(|| usual.to_owned()))?;
        Some(Self {
            compiler,
            options: Vec::new(),
            libraries: None,
        })
    }

    /// Compiles the program of the demo into a folder.
    ///
    /// # Errors
    /// When the compiler is not content.
    pub fn compile(&self, folder: &Path) -> Result<GpuProgram<'_>> {
        let program = self.build(SOURCE, folder)?;
        let configuration = folder.join("simgpu.toml");
        fs::write(&configuration, CONFIGURATION)?;
        Ok(GpuProgram {
            hip: self,
            program,
            configuration,
        })
    }

    /// Compiles a source of this repository into a folder, and returns the program's path.
    ///
    /// # Errors
    /// When the compiler is not content.
    pub fn build(&self, source: &str, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let source = workspace_dir().join(source);
        let program = folder.join(source.file_stem().unwrap_or_default());
        step(
            Command::new(&self.compiler)
                .args(&self.options)
                .args(["-O1", "-g"])
                .arg(format!("--offload-arch={MODEL}"))
                .arg(&source)
                .args(["-lamdhip64", "-pthread", "-o"])
                .arg(&program),
        )?;
        ensure!(program.is_file(), "{} was not made", program.display());
        Ok(program)
    }

    /// The words of a command that runs a program on so many simulated GPUs, which have been built.
    pub fn simulated(
        &self,
        gpus: u32,
        configuration: Option<&Path>,
        program: &Path,
    ) -> Vec<OsString> {
        let launcher = target_dir().join("release/rsys-simgpu");
        let mut words: Vec<OsString> = vec![launcher.into()];
        words.extend([
            "--gpus".into(),
            gpus.to_string().into(),
            "--model".into(),
            MODEL.into(),
        ]);
        if let Some(file) = configuration {
            words.extend(["--config".into(), file.into()]);
        }
        words.push("--".into());
        if let Some(libraries) = &self.libraries {
            let mut setting = OsString::from("LD_LIBRARY_PATH=");
            setting.push(libraries);
            words.extend(["env".into(), setting]);
        }
        words.push(program.into());
        words
    }
}

/// The program of the demo, compiled.
#[derive(Debug)]
pub struct GpuProgram<'a> {
    hip: &'a Hip,
    program: PathBuf,
    configuration: PathBuf,
}

impl GpuProgram<'_> {
    /// The command that profiles it on two simulated GPUs. The profiler and they have been built.
    pub fn profiled(&self, output: &Path) -> Command {
        let mut command = Command::new(target_dir().join("release/rsys-sample"));
        command
            .args(["-I", "roctracer", "-f", "1000", "--realtime", "-o"])
            .arg(output)
            .arg("--")
            .args(
                self.hip
                    .simulated(2, Some(&self.configuration), &self.program),
            )
            .args(ARGUMENTS)
            // What it prints is for tests.
            .stdout(Stdio::null());
        command
    }
}
