"""For Spack: `spack repo add CHECKOUT/packaging/spack`, then in the checkout `spack dev-build rsys@0.2.0`."""

from spack.package import *


class Rsys(Package):
    """Sampling profiler for CPUs and AMD GPUs: Perfetto timelines, and answers in words."""

    license("MIT OR Apache-2.0")

    version("0.2.0")

    variant("old_names", default=False, description="Links rocprof-sys-sample, omnitrace-sample and the like")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("binutils", type="build")

    conflicts("platform=darwin")
    conflicts("platform=windows")

    def install(self, spec, prefix):
        options = ["--old-names"] if spec.satisfies("+old_names") else []
        cargo = which("cargo", required=True)
        cargo("xtask", "install", "--prefix", prefix, *options)
