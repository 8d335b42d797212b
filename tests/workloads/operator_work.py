"""Operators of PyTorch with random shapes, and what each has to do by PyTorch's own count.

usage: operator_work.py FILE [COUNT]    COUNT shapes of each operator, 200 by default; FILE is packed if its name ends with .gz

FILE becomes a trace as PyTorch's profiler writes it: its own record of each operator, with a call and a kernel of a GPU that are not in it put inside. What is true is
in the kernel's name, as `case OPERATOR #NUMBER OPERATIONS BYTES`. Operations are those of `torch.utils.flop_counter`; where that has none, the operator's formula is run
with numbers that count what is done with them. Bytes are those of the tensors that went in and came out.
"""

import itertools
import gzip
import json
import math
import os
import random
import sys
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.flop_counter import FlopCounterMode

aten = torch.ops.aten
torch.manual_seed(0)
random.seed(0)
# What the operators were called with.
KEPT = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


class Counting:
    """A number that counts what is done with it."""

    done = 0

    def operation(self, *_):
        Counting.done += 1
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = operation
    exp = log = inverse_root = maximum = operation


def counted(formula):
    """How many operations a formula takes."""
    Counting.done = 0
    formula()
    return Counting.done


x = Counting()


def total(count):
    """A sum of some numbers, from zero on."""
    result = Counting()
    for _ in range(count):
        result = result + x
    return result


def normalised(count, weight, bias):
    """A group of numbers by its mean and deviation."""
    mean = total(count) / count
    squares = Counting()
    for _ in range(count):
        difference = x - mean
        squares = squares + difference * difference
    inverse = (squares / count + 1e-5).inverse_root()
    for _ in range(count):
        # The difference to the mean is there already.
        value = difference * inverse
        value = value * x if weight else value
        value = value + x if bias else value


def by_root(count, weight):
    """A group of numbers by the root of the mean of their squares."""
    squares = Counting()
    for _ in range(count):
        squares = squares + x * x
    inverse = (squares / count + 1e-5).inverse_root()
    for _ in range(count):
        value = x * inverse
        value = value * x if weight else value


def soft(count, is_log):
    """Softmax of a row, or its logarithm."""
    largest = x
    for _ in range(count):
        largest = largest.maximum(x)
    whole = Counting()
    for _ in range(count):
        whole = whole + (x - largest).exp()
    logarithm = whole.log() if is_log else whole
    for _ in range(count):
        _ = x - logarithm if is_log else x / whole


def soft_backward(count):
    inner = Counting()
    for _ in range(count):
        inner = inner + x * x
    for _ in range(count):
        _ = (x - inner) * x


def pairs(queries, keys, is_causal):
    """Pairs of a query and a key that the mask leaves."""
    return sum(1 for q in range(queries) for k in range(keys) if not is_causal or k <= q)


def size(low=1, high=9):
    return random.randint(low, high)


def some(*shape, dtype=None):
    dtype = dtype or random.choice(FLOATS)
    return torch.randn(shape).to(dtype)


def strided(tensor):
    """The same numbers, sometimes with other strides."""
    if tensor.dim() >= 2 and random.random() < 0.3:
        return tensor.transpose(0, 1).contiguous().transpose(0, 1)
    return tensor


def in_memory(tensor):
    """Bytes of a tensor, of which what is repeated is there once."""
    count = math.prod(1 if stride == 0 and length > 1 else length for length, stride in zip(tensor.shape, tensor.stride()))
    return count * tensor.element_size()


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [one for item in value for one in tensors(item)]
    return []


def pytorch(call):
    """Operations by PyTorch's own counter."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def whole_space(shape):
    return math.prod(shape)


# Each makes a case: the operator, its arguments, and its operations; then, if bytes are not those of all tensors, the bytes.


def mm():
    m, n, k = size(0, 40), size(1, 40), size(1, 40)
    dtype = random.choice(FLOATS)
    return aten.mm, (strided(some(m, k, dtype=dtype)), strided(some(k, n, dtype=dtype))), pytorch


def bmm():
    b, m, n, k = size(), size(1, 20), size(1, 20), size(1, 20)
    dtype = random.choice(FLOATS)
    return aten.bmm, (some(b, m, k, dtype=dtype), some(b, k, n, dtype=dtype)), pytorch


def addmm():
    m, n, k = size(1, 20), size(1, 20), size(1, 20)
    dtype = random.choice(FLOATS)
    bias = some(*random.choice([(n,), (1, n), (m, n), (m, 1)]), dtype=dtype)
    return aten.addmm, (bias, some(m, k, dtype=dtype), some(k, n, dtype=dtype)), pytorch


def baddbmm():
    b, m, n, k = size(), size(1, 12), size(1, 12), size(1, 12)
    dtype = random.choice(FLOATS[:2])
    return aten.baddbmm, (some(b, m, n, dtype=dtype), some(b, m, k, dtype=dtype), some(b, k, n, dtype=dtype)), pytorch


def mv():
    m, k = size(1, 30), size(1, 30)
    return aten.mv, (some(m, k, dtype=torch.float32), some(k, dtype=torch.float32)), 2 * m * k


def dot():
    k = size(1, 50)
    return aten.dot, (some(k, dtype=torch.float32), some(k, dtype=torch.float32)), 2 * k


def int_mm():
    m, n, k = size(17, 40), 8 * size(), 8 * size()
    left, right = torch.randint(-9, 9, (m, k), dtype=torch.int8), torch.randint(-9, 9, (k, n), dtype=torch.int8)
    return aten._int_mm, (left, right), 2 * m * n * k


def convolution_arguments():
    dimensions = random.choice([1, 2, 3])
    groups = random.choice([1, 1, 2, 3])
    is_transposed = random.random() < 0.3
    kernel = [size(1, 3) for _ in range(dimensions)]
    stride = [size(1, 3) for _ in range(dimensions)]
    dilation = [size(1, 2) for _ in range(dimensions)]
    padding = [size(0, 2) for _ in range(dimensions)]
    more = [random.randint(0, max(s, d) - 1) if is_transposed else 0 for s, d in zip(stride, dilation)]
    space = [size(5, 9) for _ in range(dimensions)]
    inputs, outputs = groups * size(1, 3), groups * size(1, 3)
    weight = [inputs, outputs // groups] if is_transposed else [outputs, inputs // groups]
    image = some(size(1, 3), inputs, *space, dtype=torch.float32)
    bias = some(outputs, dtype=torch.float32) if random.random() < 0.5 else None
    return image, some(*weight, *kernel, dtype=torch.float32), bias, stride, padding, dilation, is_transposed, more, groups


def convolution():
    return aten.convolution, convolution_arguments(), pytorch


def convolution_backward():
    forward = convolution_arguments()
    image, weight, bias = forward[:3]
    gradient = torch.ones_like(aten.convolution(*forward))
    mask = [random.random() < 0.7, random.random() < 0.7, bias is not None]
    arguments = (gradient, image, weight, None if bias is None else list(bias.shape), *forward[3:], mask)
    # PyTorch's counter leaves the groups of the weight's gradient out: it costs as much as the result.
    operations = pytorch(lambda: aten.convolution(*forward)) * sum(mask[:2])
    results = [tensor for wanted, tensor in zip(mask, [image, weight, bias]) if wanted]
    read = [gradient] + [tensor for wanted, tensor in [(mask[1], image), (mask[0], weight)] if wanted]
    return aten.convolution_backward, arguments, operations, sum(map(in_memory, results + read))


def attention():
    b, h, q, k, d = size(1, 3), size(1, 3), size(1, 9), size(1, 9), 8 * size(1, 3)
    is_causal = random.random() < 0.5
    arguments = (some(b, h, q, d, dtype=torch.float32), some(b, h, k, d, dtype=torch.float32), some(b, h, k, d, dtype=torch.float32), 0.0, is_causal)
    counted = pairs(q, k, is_causal) * b * h * d * 4
    results = in_memory(arguments[0])
    return aten._scaled_dot_product_flash_attention_for_cpu, arguments, counted, sum(map(in_memory, arguments[:3])) + results


def attention_backward():
    _, arguments, operations, bytes_ = attention()
    query, key, value, dropout, is_causal = arguments
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(*arguments)
    gradient = torch.ones_like(out)
    read = sum(map(in_memory, [gradient, query, key, value, out]))
    written = sum(map(in_memory, [query, key, value]))
    operator = aten._scaled_dot_product_flash_attention_for_cpu_backward
    return operator, (gradient, query, key, value, out, lse, dropout, is_causal), operations // 2 * 5, read + written


def layer_norm():
    rows, width = size(1, 6), size(1, 12)
    image = some(rows, width, dtype=torch.float32)
    weight, bias = (some(width, dtype=torch.float32) if random.random() < 0.6 else None for _ in range(2))
    operations = counted(lambda: [normalised(width, weight is not None, bias is not None) for _ in range(rows)])
    return aten.native_layer_norm, (image, [width], weight, bias, 1e-5), operations


def group_norm():
    n, groups, each, space = size(1, 3), size(1, 3), size(1, 3), size(1, 6)
    channels = groups * each
    image = some(n, channels, space, dtype=torch.float32)
    weight, bias = (some(channels, dtype=torch.float32) if random.random() < 0.6 else None for _ in range(2))
    formula = lambda: [normalised(each * space, weight is not None, bias is not None) for _ in range(n * groups)]
    return aten.native_group_norm, (image, weight, bias, n, channels, space, groups, 1e-5), counted(formula)


def batch_norm():
    n, channels, space = size(2, 4), size(1, 4), size(2, 6)
    image = some(n, channels, space, dtype=torch.float32)
    weight, bias = (some(channels, dtype=torch.float32) if random.random() < 0.6 else None for _ in range(2))
    mean, variance = some(channels, dtype=torch.float32), torch.ones(channels)

    def formula():
        for _ in range(channels):
            normalised(n * space, weight is not None, bias is not None)
            for _ in range(2):
                # A running value becomes a little of the new one.
                _ = x * 0.9 + x * 0.1

    bytes_ = sum(map(in_memory, filter(lambda one: one is not None, [image, weight, bias, mean, variance])))
    bytes_ += in_memory(image) + 2 * channels * 4 + in_memory(mean) + in_memory(variance)
    return aten.native_batch_norm, (image, weight, bias, mean, variance, True, 0.1, 1e-5), counted(formula), bytes_


def softmax():
    rows, width = size(1, 6), size(1, 12)
    operator, is_log = random.choice([(aten._softmax, False), (aten._log_softmax, True)])
    return operator, (some(rows, width), -1, False), counted(lambda: [soft(width, is_log) for _ in range(rows)])


def softmax_backward():
    rows, width = size(1, 6), size(1, 12)
    dtype = random.choice(FLOATS)
    operator = random.choice([aten._softmax_backward_data, aten._log_softmax_backward_data])
    arguments = (some(rows, width, dtype=dtype), some(rows, width, dtype=dtype), 1, dtype)
    return operator, arguments, counted(lambda: [soft_backward(width) for _ in range(rows)])


def broadcast(*shape):
    """Two shapes that go together."""
    one = [1 if random.random() < 0.2 else length for length in shape]
    other = [1 if random.random() < 0.2 else length for length in shape][random.randint(0, len(shape)) :]
    return one, other


def binary():
    one, other = broadcast(*(size() for _ in range(size(1, 4))))
    operator = random.choice([aten.add, aten.sub, aten.mul, aten.div, aten.maximum, aten.minimum, aten.eq, aten.lt, aten.ge])
    # PyTorch's profiler writes numbers of Python as doubles without dimensions, which are in no memory: no tensor here is like one.
    arguments = [strided(some(*one)), some(*other, dtype=None if other else torch.float32)]
    if random.random() < 0.2:
        arguments[0] = arguments[0].expand(3, *one)
    if random.random() < 0.2 and operator not in (aten.maximum, aten.minimum):
        arguments[1] = random.choice([2, 2.5])
    elif random.random() < 0.2:
        arguments[1] = torch.randint(1, 9, other, dtype=torch.int64 if other else torch.int32)
    return operator, tuple(arguments), lambda call: call().numel()


def unary():
    shape = [size(0 if random.random() < 0.05 else 1) for _ in range(size(1, 4))]
    operator = random.choice([aten.relu, aten.neg, aten.abs, aten.exp, aten.sqrt, aten.rsqrt, aten.sin, aten.tanh, aten.sigmoid, aten.erf])
    wholes = operator in (aten.exp, aten.sqrt, aten.sin, aten.tanh) and random.random() < 0.2
    image = torch.randint(1, 9, shape) if wholes else some(*shape)
    return operator, (image,), image.numel()


def in_place():
    shape = [size() for _ in range(size(1, 4))]
    operator = random.choice([aten.add_, aten.mul_, aten.sub_, aten.relu_, aten.sigmoid_])
    image = some(*shape, dtype=torch.float32)
    if operator in (aten.relu_, aten.sigmoid_):
        return operator, (image,), image.numel()
    _, other = broadcast(*shape)
    return operator, (image, some(*other, dtype=torch.float32)), image.numel()


def ternary():
    shape = [size() for _ in range(size(1, 4))]
    dtype = random.choice(FLOATS)
    operator = random.choice([aten.addcmul, aten.where, aten.lerp])
    three = [some(*shape, dtype=dtype) for _ in range(3)]
    if operator is aten.where:
        three[0] = three[0] > 0
    each = 1 if operator is aten.where else 3
    return operator, tuple(three), each * three[1].numel()


def reduction():
    shape = [size() for _ in range(size(1, 4))]
    operator = random.choice([aten.sum, aten.mean, aten.amax, aten.amin])
    dimensions = random.sample(range(len(shape)), random.randint(1, len(shape)))
    dimensions = [one - len(shape) if random.random() < 0.5 else one for one in dimensions]
    whole = operator is aten.sum and random.random() < 0.3
    image = torch.randint(0, 9, shape) if whole else some(*shape)
    results = operator(image, dimensions, random.random() < 0.5)
    at_end = results.numel() if operator is aten.mean else 0
    return operator, (image, dimensions, random.random() < 0.5), image.numel() + at_end


def copy():
    shape = [size() for _ in range(size(1, 4))]
    _, other = broadcast(*shape)
    target, source = some(*shape), some(*other)
    return aten.copy_, (target, source), 0, in_memory(source) + in_memory(target)


def clone():
    return aten.clone, (some(*(size() for _ in range(size(1, 4)))),), 0


def fill():
    target = some(*(size() for _ in range(size(1, 4))))
    return random.choice([aten.zero_, aten.fill_]), (target, 3.0), 0, in_memory(target)


def embedding():
    weight, indices = some(size(2, 20), size()), torch.randint(0, 2, [size() for _ in range(size(1, 2))])
    rows = indices.numel() * weight.shape[1] * weight.element_size()
    return aten.embedding, (weight, indices), 0, in_memory(indices) + 2 * rows


def index_select():
    image = some(*(size() for _ in range(size(1, 3))))
    dimension = random.randrange(image.dim())
    index = torch.randint(0, image.shape[dimension], (size(),))
    results = in_memory(image) // image.shape[dimension] * index.numel()
    return aten.index_select, (image, dimension, index), 0, in_memory(index) + 2 * results


def gather():
    image = some(size(2, 6), size(2, 6))
    index = torch.randint(0, 2, (size(1, 2), size(1, 2)))
    return aten.gather, (image, 1, index), 0, in_memory(index) + 2 * index.numel() * image.element_size()


def pad():
    image = some(*(size() for _ in range(size(1, 4))))
    edges = [size(0, 2) for _ in range(2 * random.randint(1, image.dim()))]
    return aten.constant_pad_nd, (image, edges, 0.0), 0


def max_pool():
    image = some(size(1, 2), size(1, 3), size(5, 9), size(5, 9), dtype=torch.float32)
    kernel, stride = [size(2, 3), size(2, 3)], [size(1, 3), size(1, 3)]
    padding, dilation = [size(0, 1), size(0, 1)], [size(1, 2), size(1, 2)]
    arguments = (image, kernel, stride, padding, dilation, random.random() < 0.4)
    return aten.max_pool2d_with_indices, arguments, lambda call: call()[0].numel() * math.prod(kernel)


def average_pool():
    image = some(size(1, 2), size(1, 3), size(5, 9), size(5, 9), dtype=torch.float32)
    kernel, stride, padding = [size(2, 3), size(2, 3)], [size(1, 3), size(1, 3)], [size(0, 1), size(0, 1)]
    arguments = (image, kernel, stride, padding, random.random() < 0.4)
    return aten.avg_pool2d, arguments, lambda call: call().numel() * math.prod(kernel)


def upsample():
    image = some(size(1, 2), size(1, 3), size(2, 5), size(2, 5), dtype=torch.float32)
    out = [size(2, 9), size(2, 9)]
    return aten.upsample_nearest2d, (image, out), 0


def cumulative():
    image = some(size(), size())
    return aten.cumsum, (image, 1), image.numel()


def top():
    image, k = some(size(), 9), size(1, 5)
    return aten.topk, (image, k), 0


CASES = [
    mm, bmm, addmm, baddbmm, mv, dot, int_mm, convolution, convolution_backward, attention, attention_backward, layer_norm, group_norm, batch_norm, softmax,
    softmax_backward, binary, unary, in_place, ternary, reduction, copy, clone, fill, embedding, index_select, gather, pad, max_pool, average_pool, upsample,
    cumulative, top,
]  # fmt: skip


def made(case):
    """An operator, its arguments, and what is true of it."""
    operator, arguments, operations, *bytes_ = case()
    if operator is aten.zero_:
        arguments = arguments[:1]
    call = lambda: operator(*arguments)
    inputs = sum(map(in_memory, tensors(arguments)))
    if callable(operations):
        operations = operations(call)
    if not bytes_:
        bytes_ = [inputs + sum(one.numel() * one.element_size() for one in tensors(call()))]
    return operator, arguments, operations, bytes_[0]


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    cases = [made(case) for case in CASES for _ in range(count)]
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for number, (operator, arguments, *_) in enumerate(cases):
            with record_function(f"case {number}"):
                operator(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            trace = json.load(file)
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event.get("cat") in ("cpu_op", "user_annotation")]
    events.sort(key=lambda event: (event["ts"], -event["dur"]))
    added, kept, found = [], [], None
    for event in events:
        if event["name"].startswith("case "):
            found = int(event["name"].removeprefix("case "))
        elif found is not None:
            operator, _, operations, bytes_ = cases[found]
            name = str(operator).replace(".", "::")
            # Making the arguments is none of it, nor is what the operator calls.
            if event["name"] != name:
                continue
            place = {"pid": event["pid"], "tid": event["tid"], "ts": event["ts"], "dur": event["dur"] / 2}
            link = {"correlation": found + 1}
            added.append({"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "args": link, **place})
            kernel = f"case {name} #{found} {operations} {bytes_}"
            where = {"pid": 0, "tid": 7, "ts": event["ts"] + 1e6 + found * 10, "dur": 5}
            event["args"] = {key: value for key, value in event["args"].items() if key in KEPT}
            kept.append(event)
            added.append({"ph": "X", "cat": "kernel", "name": kernel, "args": {"device": 0, "stream": 7, **link}, **where})
            found = None
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}], "traceEvents": kept + added}
    text = json.dumps(trace).encode()
    with open(sys.argv[1], "wb") as file:
        file.write(gzip.compress(text, 9, mtime=0) if sys.argv[1].endswith(".gz") else text)
    print(f"cases={len(added) // 2} torch={torch.__version__}")


main()
