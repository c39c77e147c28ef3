// Scripts that start a run for TRL: on one machine, on several GPUs, through Slurm.
import { stringify } from "yaml";

/** Machines and settings of a run for TRL. */
export interface TrlCluster {
  /** Processes per machine, usually one per GPU; default 1. */
  readonly processes?: number | undefined;
  /** Machines; default 1. */
  readonly machines?: number | undefined;
  /** Type of matrix products; weights and moments are float32. Default float32. */
  readonly precision?: "float32" | "bfloat16" | undefined;
  /** Recompute activations instead of keeping them; default false. */
  readonly gradientCheckpointing?: boolean | undefined;
  /** Shell lines to run first, such as `module load cuda` or `source venv/bin/activate`. */
  readonly setup?: readonly string[] | undefined;
  /** Options of sbatch, such as `--partition=gpu` or `--time=24:00:00`. */
  readonly slurm?: readonly string[] | undefined;
}

const PORT = 29_500; // PyTorch's own default

/** The configuration of accelerate: one process, or parameters sharded over all of them (FSDP 2). */
export function accelerateYaml({ processes = 1, machines = 1, precision = "float32" }: TrlCluster): string {
  const total = processes * machines;
  return stringify({
    compute_environment: "LOCAL_MACHINE",
    distributed_type: total > 1 ? "FSDP" : "NO",
    mixed_precision: precision === "bfloat16" ? "bf16" : "no",
    num_machines: machines,
    num_processes: total,
    machine_rank: 0,
    main_training_function: "main",
    ...(total > 1
      ? {
          fsdp_config: {
            fsdp_version: 2,
            fsdp_auto_wrap_policy: "TRANSFORMER_BASED_WRAP",
            fsdp_reshard_after_forward: true,
            fsdp_offload_params: false,
            fsdp_state_dict_type: "FULL_STATE_DICT",
            fsdp_cpu_ram_efficient_loading: false,
          },
        }
      : {}),
  });
}

function lines(...parts: (string | readonly string[])[]): string {
  return `${parts.flat().join("\n")}\n`;
}

/** launch.sh: starts the run on this machine. */
export function launchScript({ processes = 1, machines = 1, setup = [] }: TrlCluster): string {
  const command =
    processes * machines > 1
      ? '"$PYTHON" -m accelerate.commands.launch --config_file accelerate.yaml train.py'
      : '"$PYTHON" train.py';
  return lines(
    "#!/usr/bin/env bash",
    "# Starts or resumes this run on this machine. PYTHON: an interpreter with the packages of requirements.txt.",
    "# With a whole copy of the model per process instead of shards:",
    `#   torchrun --nproc_per_node ${processes} train.py`,
    "set -euo pipefail",
    'cd "$(dirname "$0")"',
    setup,
    'PYTHON="$' + '{PYTHON:-python3}"',
    `exec ${command}`,
  );
}

/** job.slurm: starts the run on all machines of a job, and resumes it in a job that is queued again. */
export function slurmScript({ processes = 1, machines = 1, setup = [], slurm = [] }: TrlCluster): string {
  const isSharded = processes * machines > 1;
  const command = isSharded
    ? [
        'export MASTER="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"',
        "srun --kill-on-bad-exit=1 bash -c '",
        '  exec "$PYTHON" -m accelerate.commands.launch --config_file accelerate.yaml \\',
        `    --num_machines ${machines} --num_processes ${processes * machines} --machine_rank "$SLURM_NODEID" \\`,
        `    --main_process_ip "$MASTER" --main_process_port ${PORT} train.py'`,
      ]
    : ['srun "$PYTHON" train.py'];
  // sbatch has several options for GPUs.
  const hasGpus = slurm.some((option) => /^--(gres|gpus)/.test(option));
  return lines(
    "#!/usr/bin/env bash",
    "#SBATCH --job-name=layergraft-train",
    `#SBATCH --nodes=${machines}`,
    "#SBATCH --ntasks-per-node=1",
    hasGpus ? [] : [`#SBATCH --gres=gpu:${processes}`],
    "#SBATCH --output=slurm-%j.log",
    "#SBATCH --requeue",
    slurm.map((option) => `#SBATCH ${option}`),
    "# Starts or resumes this run. PYTHON: an interpreter with the packages of requirements.txt, on every machine.",
    "set -euo pipefail",
    'cd "$SLURM_SUBMIT_DIR"',
    setup,
    'export PYTHON="$' + '{PYTHON:-python3}"',
    command,
  );
}
