"""Calls of MPI by mpi4py, told as mpi_calls.c does: run with a mpi4py of any library."""

import os

import mpi4py

mpi4py.rc.initialize = False
mpi4py.rc.finalize = False
from mpi4py import MPI  # noqa: E402

MPI.Init()
world = MPI.COMM_WORLD
rank = world.Get_rank()
said = open(os.path.join(os.environ["MPI_CALLS"], str(rank)), "w")


def say(line):
    print(line, file=said)


say("MPI_Comm_size")
size = world.Get_size()
data, room = bytearray(800), bytearray(800)
for number in range(1, 4):
    peer = (rank + 1) % size
    other = (rank + size - 1) % size
    say(f"MPI_Sendrecv peer={peer} tag=4 count={100 * number} bytes={100 * number} received_bytes=800")
    world.Sendrecv([data, 100 * number, MPI.BYTE], peer, 4, [room, 800, MPI.BYTE], other, 4)
say("MPI_Allreduce count=100 bytes=800 sequence=0")
world.Allreduce([data, 100, MPI.DOUBLE], [room, 100, MPI.DOUBLE], MPI.MAX)
say("MPI_Bcast root=0 count=8 bytes=8 sequence=1")
world.Bcast([data, 8, MPI.BYTE], 0)
say("MPI_Barrier sequence=2")
world.Barrier()
say("errors 1 1")
said.close()
MPI.Finalize()
