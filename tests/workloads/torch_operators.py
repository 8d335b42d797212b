# A few steps of training on the processor, between two marks: `torch_operators.py`. With `count`, PyTorch's own profiler counts the operators
# between them, and each is printed with its shapes as a line `told: COUNT NAME|SHAPES`.
import collections
import sys

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
data = torch.randn(16, 64)
target = torch.randint(0, 10, (16,))


def steps(count):
    for _ in range(count):
        model.zero_grad(set_to_none=False)
        loss = torch.nn.functional.cross_entropy(model(data), target)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(parameter.grad, alpha=-0.1)
    return loss.item()


def window():
    with torch.autograd.profiler.record_function("window"):
        steps(5)


def text(shapes):
    return " ".join(str(list(shape)) for shape in shapes if shape)


steps(5)
if "count" in sys.argv:
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        window()
    [outer] = [event.time_range for event in profile.function_events if event.name == "window"]
    events = [
        event
        for event in profile.function_events
        if event.name != "window" and not event.name.startswith("[") and outer.start <= event.time_range.start <= outer.end
    ]
    counts = collections.Counter((event.name, text(event.input_shapes)) for event in events)
    for (name, shapes), count in sorted(counts.items()):
        print(f"told: {count} {name}|{shapes}")
else:
    window()
print("loss is", steps(1) < 3)
