#!/bin/bash
# mpirun in an allocation, with OpenMPI or MPICH.
#
#   sbatch mpi.sh                    traces: rsys-output/<job>.mpi-<number>/perfetto-trace-<rank>.proto

#SBATCH --job-name=rsys-mpi
#SBATCH --nodes=2                   # CHANGE
#SBATCH --ntasks-per-node=8         # CHANGE
#SBATCH --time=00:30:00             # CHANGE
#SBATCH --output=%x-%j.out

set -euo pipefail

# CHANGE: the program.
mpirun -n "$SLURM_NTASKS" rsys-sample -o rsys-output -- ./solver

# MPI programs that srun starts by itself need the interface that their library speaks:
#
#   srun --mpi=pmix rsys-sample -o rsys-output -- ./solver       # OpenMPI
#   srun --mpi=pmi2 rsys-sample -o rsys-output -- ./solver       # MPICH
