#!/bin/bash
# One program on one node.
#
#   sbatch single-node.sh            traces: rsys-output/<job>.0/perfetto-trace-0.proto

#SBATCH --job-name=rsys-single
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8           # CHANGE
#SBATCH --time=00:30:00             # CHANGE
#SBATCH --output=%x-%j.out
##SBATCH --gpus=1                   # CHANGE: two '#' switch a line off

set -euo pipefail

# CHANGE: the program. -f is samples per second of CPU time and thread; -I switches GPU backends on.
srun rsys-sample -f 300 -o rsys-output -- python3 train.py
