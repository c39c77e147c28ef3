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
}

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
