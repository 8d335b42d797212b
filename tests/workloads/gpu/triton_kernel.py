"""Compiles a kernel of Triton's for AMD, without a GPU. Arguments: the model, the file to write."""
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


def main():
    model, path = sys.argv[1:]
    types = {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(fn=add_kernel, signature=types, constexprs={"BLOCK": 256})
    compiled = triton.compile(source, target=GPUTarget("hip", model, 64))
    with open(path, "wb") as file:
        file.write(compiled.asm["hsaco"])
    print(f"triton={triton.__version__}")


main()
