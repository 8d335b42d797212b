#!/bin/bash
# Programs in containers. rsys-sample runs inside: agent, sampler and program must see the same files.
#
#   sbatch container.sh              traces: rsys-output/<job>.0/perfetto-trace-<rank>.proto

#SBATCH --job-name=rsys-container
#SBATCH --nodes=1                   # CHANGE
#SBATCH --ntasks-per-node=4         # CHANGE
#SBATCH --time=00:30:00             # CHANGE
#SBATCH --output=%x-%j.out

set -euo pipefail

RSYS=/opt/rsys                      # CHANGE: the folder of `cargo xtask install --prefix`, the same on all nodes
IMAGE=$PWD/pytorch.sif              # CHANGE
OUT=$PWD/rsys-output
mkdir -p "$OUT"

# Apptainer. Bound are rsys itself, and the output, which has to outlive the container.
#   --rocm brings the GPUs in.
srun apptainer exec --rocm \
  --bind "$RSYS:$RSYS:ro" --bind "$OUT:$OUT" \
  "$IMAGE" "$RSYS/bin/rsys-sample" -o "$OUT" -- python3 train.py

# Pyxis (srun's own containers): the same two lines, as mounts.
#
#   srun --container-image="$IMAGE" \
#     --container-mounts="$RSYS:$RSYS:ro,$OUT:$OUT,$PWD:$PWD" --container-workdir="$PWD" \
#     "$RSYS/bin/rsys-sample" -o "$OUT" -- python3 train.py
#
# Ranks in containers keep the variables of srun (SLURM_PROCID and its like), which name the traces. An image whose C library is older than
# the one that rsys was built with cannot load the agent: build rsys in the image then.
