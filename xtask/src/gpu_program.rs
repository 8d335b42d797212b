//! Programs for GPUs, for the demo and for the pictures of README: real runtimes, on simulated GPUs (`tests/simgpu`) where there is none.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::runtimes;
use crate::steps::{find_program, say, step, target_dir, workspace_dir};

/// The runtimes of `cargo xtask runtimes` that programs of HIP are compiled for.
pub const STACK: &str = "debian12";
/// The package with the simulated GPUs.
pub const PACKAGE: &str = "rsys-simgpu";

/// The smallest runtime: some megabytes, which the demo fetches.
pub const SMALLEST: &str = "hsa";

/// The driver of AMD's GPUs, where there is one.
const DRIVER: &str = "/dev/kfd";

/// The demo's program of the HSA runtime, its kernels, and how long these take.
const TRAIN: [&str; 3] = [
    "tests/workloads/gpu/demo_train.c",
    "packaging/demo/kernels.gfx90a.co",
    "packaging/demo/kernels.toml",
];
/// Steps of a run.
const STEPS: &str = "100";

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
    /// Which GPUs programs are compiled for.
    model: &'static str,
}

impl Hip {
    /// The runtime that `cargo xtask runtimes` has unpacked, or the one that is installed, if there is one. Nothing is fetched.
    pub fn find() -> Option<Self> {
        Self::unpacked().or_else(Self::installed)
    }

    /// The runtime that is installed, where there are GPUs for it.
    pub fn for_gpus() -> Option<Self> {
        let has_driver = Path::new(DRIVER).exists();
        let installed = has_driver.then(Self::installed).flatten()?;
        Some(Self {
            model: "native",
            ..installed
        })
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
            model: MODEL,
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
            model: MODEL,
        })
    }

    /// Compiles the program of the pictures into a folder.
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
                .arg(format!("--offload-arch={}", self.model))
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
        let mut words = launcher(gpus, configuration);
        if let Some(libraries) = &self.libraries {
            let mut setting = OsString::from("LD_LIBRARY_PATH=");
            setting.push(libraries);
            words.extend(["env".into(), setting]);
        }
        words.push(program.into());
        words
    }
}

/// The HSA runtime with its headers, for the demo on simulated GPUs.
#[derive(Debug)]
pub struct Hsa {
    root: PathBuf,
}

impl Hsa {
    /// The runtime that was unpacked before; else fetches it, which takes seconds.
    ///
    /// # Errors
    /// When it cannot be fetched here.
    pub fn find_or_fetch() -> Result<Self> {
        let known = || {
            let found = [SMALLEST, STACK].into_iter().find_map(runtimes::complete);
            found.map(|root| Self { root })
        };
        if let Some(hsa) = known() {
            return Ok(hsa);
        }
        say(
            "fetching the HSA runtime for the part on simulated GPUs (some megabytes of Debian's packages, into a folder of its own; nothing is installed)",
        );
        runtimes::fetch(Some(SMALLEST))?;
        known().context("it could not be fetched")
    }

    fn libraries(&self) -> PathBuf {
        self.root.join("usr/lib/x86_64-linux-gnu")
    }

    /// Compiles the demo's program into a folder, by a C compiler.
    ///
    /// # Errors
    /// When the compiler is not content.
    pub fn compile(&self, compiler: &Path, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let program = folder.join("train");
        step(
            Command::new(compiler)
                .args(["-O1", "-g", "-pthread", "-I"])
                .arg(self.root.join("usr/include"))
                .arg(demo_file(TRAIN[0]))
                .arg("-o")
                .arg(&program)
                .args(["-Wl,--allow-shlib-undefined", "-L"])
                .arg(self.libraries())
                .arg("-lhsa-runtime64"),
        )?;
        Ok(program)
    }

    /// Sees whether the program runs on simulated GPUs, which have been built: the runtime may want a newer C library than there is.
    ///
    /// # Errors
    /// When it does not.
    pub fn try_out(&self, program: &Path) -> Result<()> {
        let output = self.simulated(&[], program, "0").output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        ensure!(output.status.success(), "{}: {last}", output.status);
        Ok(())
    }

    /// The command that profiles it on two simulated GPUs, of which the profiler reads the sensors.
    pub fn profiled(&self, program: &Path, output: &Path) -> Command {
        let mut profiler: Vec<OsString> = vec![target_dir().join("release/rsys-sample").into()];
        profiler.extend(["-I", "rocm", "hsa", "rocm-smi", "-f", "1000"].map(Into::into));
        profiler.extend(["--realtime".into(), "-o".into(), output.into(), "--".into()]);
        self.simulated(&profiler, program, STEPS)
    }

    fn simulated(&self, profiler: &[OsString], program: &Path, steps: &str) -> Command {
        let configuration = demo_file(TRAIN[2]);
        let words = launcher(2, Some(&configuration));
        let mut command = Command::new(&words[0]);
        command
            .env("LD_LIBRARY_PATH", self.libraries())
            .args(&words[1..])
            .args(profiler)
            .arg(program)
            .arg(demo_file(TRAIN[1]))
            .arg(steps);
        command
    }
}

fn demo_file(name: &str) -> PathBuf {
    workspace_dir().join(name)
}

/// The words that run what follows on so many simulated GPUs, which have been built.
fn launcher(gpus: u32, configuration: Option<&Path>) -> Vec<OsString> {
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
    words
}

/// The program of the pictures, or of the demo on a real GPU, compiled.
#[derive(Debug)]
pub struct GpuProgram<'a> {
    hip: &'a Hip,
    program: PathBuf,
    configuration: PathBuf,
}

impl GpuProgram<'_> {
    /// The command that profiles it, on two simulated GPUs. The profiler and they have been built.
    pub fn profiled(&self, output: &Path) -> Command {
        let configuration = Some(&*self.configuration);
        let words = self.hip.simulated(2, configuration, &self.program);
        Self::profile(&words, output)
    }

    /// The command that profiles it on the GPUs that are there.
    pub fn profiled_for_real(&self, output: &Path) -> Command {
        Self::profile(&[self.program.clone().into()], output)
    }

    fn profile(words: &[OsString], output: &Path) -> Command {
        let mut command = Command::new(target_dir().join("release/rsys-sample"));
        command
            .args(["-I", "roctracer", "-f", "1000", "--realtime", "-o"])
            .arg(output)
            .arg("--")
            .args(words)
            .args(ARGUMENTS)
            // What it prints is for tests.
            .stdout(Stdio::null());
        command
    }
}
