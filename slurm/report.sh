#!/bin/bash
# Analyses the traces of a large job on several nodes, iteration by iteration.
#
#   sbatch report.sh rsys-output/4711.0           parts: rsys-output/4711.0/parts/*.parquet, answer: rsys-output/4711.0/overlap.txt
#
# What was made already is kept: hand it in again after a failure or a time limit, and only what is missing is done. More options
# (--marker train_step, --assign window) stand behind the folder.

#SBATCH --job-name=rsys-report
#SBATCH --nodes=2                   # CHANGE
#SBATCH --ntasks-per-node=8         # CHANGE: as many as a node has processors to spare
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=2G
#SBATCH --time=00:30:00             # CHANGE
#SBATCH --output=%x-%j.out

set -euo pipefail

traces=${1:?the folder with the traces of a job}
shift
parts=$traces/parts

# Each task makes its share of the parts.
srun bash -c 'exec rsys-report overlap "$0" --parts "$1" --share "$SLURM_PROCID/$SLURM_NTASKS" --jobs 1 "${@:2}"' "$traces" "$parts" "$@"

# One puts them together; whatever is missing, it makes itself.
rsys-report overlap "$traces" --parts "$parts" "$@" > "$traces/overlap.txt"
cat "$traces/overlap.txt"
