#!/bin/bash
# A large job of which a few ranks are profiled. On all others rsys-sample gives way to the program at once.
#
#   sbatch one-rank.sh               traces: rsys-output/<job>.0/perfetto-trace-{0,8,...,15}.proto

#SBATCH --job-name=rsys-few
#SBATCH --nodes=16                  # CHANGE
#SBATCH --ntasks-per-node=8         # CHANGE
#SBATCH --time=00:30:00             # CHANGE
#SBATCH --output=%x-%j.out

set -euo pipefail

# CHANGE: which ranks. Other ways to say it:
#   --ranks 0                 the first rank
#   --ranks 0-1023:64         every 64th
#   --local-ranks 0           the first rank of each node
#   --nodes 0,3               all ranks of two nodes, by their numbers in the job or by their names
srun rsys-sample --ranks 0,8-15 -o rsys-output -- python3 train.py
