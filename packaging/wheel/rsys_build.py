"""Builds the wheel for pip by `cargo xtask package` (PEP 517)."""

import glob
import os
import shutil
import subprocess
import tempfile


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if shutil.which("cargo") is None:
        raise SystemExit("rsys is built by cargo, which is not there: https://rustup.rs installs it")
    with tempfile.TemporaryDirectory() as folder:
        line = ["cargo", "xtask", "package", "wheel", "--no-trial", "--output", folder]
        subprocess.run(line, check=True)
        (wheel,) = glob.glob(os.path.join(folder, "rsys-*.whl"))
        shutil.copy(wheel, wheel_directory)
    return os.path.basename(wheel)


def build_sdist(sdist_directory, config_settings=None):
    with tempfile.TemporaryDirectory() as folder:
        line = ["cargo", "xtask", "package", "source", "--no-trial", "--output", folder]
        subprocess.run(line, check=True)
        (archive,) = glob.glob(os.path.join(folder, "rsys-*.tar.gz"))
        shutil.copy(archive, sdist_directory)
    return os.path.basename(archive)
