#!/bin/bash
# A sweep as an array of Slurm: one task a shard, then one job that puts them together.
#
#   sbatch slurm.sh                                            all shards
#   sbatch --array=3,7 slurm.sh                                these again: each goes on where it was ended
#   sbatch --dependency=afterok:JOB --wrap="sim merge shards/* --out results"
#
# The array counts from 0, and SHARDS is its length: with it in --shard, a part of the array still runs its own points.
#SBATCH --job-name=sweep
#SBATCH --array=0-15
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --requeue
set -euo pipefail

SHARDS=${SHARDS:-16}
SCENARIO=${SCENARIO:-scenario.toml}

# Each shard has a folder of its own. A task that was killed or requeued loses only the points that it was at.
exec sim sweep "$SCENARIO" \
    --vary rate=2,3,4,5,6,7,8,9 \
    --vary max_num_seqs=32,64,128,256 \
    --seeds 3 \
    --threads "${SLURM_CPUS_PER_TASK:-1}" \
    --shard "auto/$SHARDS" \
    --out "shards/$SLURM_ARRAY_TASK_ID" \
    --format csv > /dev/null
