#!/bin/bash
# One task per GPU on several nodes: one trace per rank, all in one folder.
#
#   sbatch multi-node.sh             traces: rsys-output/<job>.0/perfetto-trace-<rank>.proto, and job.json beside them

#SBATCH --job-name=rsys-multi
#SBATCH --nodes=2                   # CHANGE
#SBATCH --ntasks-per-node=4         # CHANGE: as many as GPUs
#SBATCH --cpus-per-task=8           # CHANGE
#SBATCH --time=00:30:00             # CHANGE
#SBATCH --output=%x-%j.out
##SBATCH --gpus-per-node=4          # CHANGE

# SIGTERM a minute before the limit: programs that end by themselves leave nothing unsaid.
#SBATCH --signal=TERM@60

set -euo pipefail

# Where the ranks of PyTorch meet. RANK and its like come from srun, by the line below.
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))

# CHANGE: the program. rsys-sample is the last before it, so that the rank's own variables are set when it starts.
srun bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
  exec rsys-sample -o rsys-output -- python3 train.py
'

# With torchrun, one task per node starts the ranks of the node. Each rank is profiled; torchrun itself is not.
#
#   srun --ntasks-per-node=1 rsys-sample -o rsys-output -- \
#     torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 4 --rdzv-backend c10d \
#       --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$MASTER_ADDR:$MASTER_PORT" train.py
