#!/bin/bash
# A job array: each element has a folder of its own.
#
#   sbatch array.sh                  traces: rsys-output/<array job>_<element>.0/perfetto-trace-0.proto

#SBATCH --job-name=rsys-array
#SBATCH --array=0-3                 # CHANGE
#SBATCH --ntasks=1
#SBATCH --time=00:30:00             # CHANGE
#SBATCH --output=%x-%A_%a.out

set -euo pipefail

# CHANGE: the program. To profile one element alone, take the rest out:  (( SLURM_ARRAY_TASK_ID == 0 )) || export RSYS_ENABLED=off
srun rsys-sample -o rsys-output -- ./solver --case "$SLURM_ARRAY_TASK_ID"
