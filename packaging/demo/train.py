"""The program of `rsys-sample --demo`: it trains nothing, as programs do.

Two threads load batches, the main thread trains on them, one after another, and now and then saves what it has. Nothing but the standard
library is needed.

    python3 train.py processor|hip|simulated [STEPS]
"""

import hashlib
import os
import queue
import sys
import tempfile
import threading
import time
import zlib

# Nothing is left beside it when it is uninstalled.
sys.dont_write_bytecode = True

STEPS = 200
LOADERS = 2
BATCH_BYTES = 2 << 20
LAYERS = 6
STEPS_BETWEEN_CHECKPOINTS = 25


class Processor:
    """What trains where there is no GPU."""

    def train(self, batch):
        self.batch = batch
        for _ in range(LAYERS):
            self.forward_layer()
        self.backward()

    def forward_layer(self):
        hashlib.sha256(self.batch).digest()

    def backward(self):
        sum(self.batch[::16])

    def download(self):
        return self.batch


def device(kind):
    if kind == "hip":
        from hip_gpu import HipGpu

        return HipGpu(BATCH_BYTES, LAYERS)
    if kind == "simulated":
        from hsa_gpu import HsaGpu

        return HsaGpu(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.gfx90a.co"), BATCH_BYTES)
    return Processor()


def decode_images(packed):
    return zlib.decompress(packed)


def augment(images):
    seed = 0
    for value in images[::64]:
        seed = (seed * 31 + value) & 0xFFFFFF
    return images


def load_batches(packed, batches, steps):
    for _ in range(steps):
        batches.put(augment(decode_images(packed)))


def save_checkpoint(device):
    packed = zlib.compress(device.download(), 6)
    with tempfile.TemporaryFile() as file:
        file.write(packed)
    # As a file system far away.
    time.sleep(0.05)


def train(device, batches, steps):
    for step in range(1, steps + 1):
        device.train(batches.get())
        if step % STEPS_BETWEEN_CHECKPOINTS == 0:
            save_checkpoint(device)


def main():
    kind = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else STEPS
    trained = device(kind)
    packed = zlib.compress(bytes(range(256)) * (BATCH_BYTES // 512) + os.urandom(BATCH_BYTES // 2), 6)
    batches = queue.Queue(maxsize=LOADERS)
    shares = [steps // LOADERS + (loader < steps % LOADERS) for loader in range(LOADERS)]
    loaders = [threading.Thread(target=load_batches, args=(packed, batches, share), name="loader") for share in shares]
    for loader in loaders:
        loader.start()
    train(trained, batches, steps)
    for loader in loaders:
        loader.join()


main()
