#!/bin/bash
# Analyses the traces of a large job on several nodes: its iterations, and its collectives.
#
#   sbatch report.sh rsys-output/4711.0           parts: rsys-output/4711.0/parts/*.parquet,
#                                                 answers: rsys-output/4711.0/overlap.txt and collectives.txt
#
# What was made already is kept: hand it in again after a failure or a time limit, and only what is missing is done. More options
# of overlap (--marker train_step, --assign window) stand behind the folder.

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
srun bash -c '
  share=$SLURM_PROCID/$SLURM_NTASKS
  rsys-report overlap "$0" --parts "$1" --share "$share" --jobs 1 "${@:2}" &&
    rsys-report collectives "$0" --parts "$1" --share "$share" --jobs 1
' "$traces" "$parts" "$@"

# One puts them together; whatever is missing, it makes itself. A job without collectives, or without iterations, has no answer to that (exit code 1).
for question in overlap collectives; do
  options=()
  if [ "$question" = overlap ]; then options=("$@"); fi
  rsys-report "$question" "$traces" --parts "$parts" "${options[@]}" > "$traces/$question.txt" || [ -s "$traces/$question.txt" ]
  cat "$traces/$question.txt"
done
