import type { Expert } from "../../protocol/index.js";
import { Select } from "../components/inputs.js";

interface Props {
  readonly experts: readonly Pick<Expert, "name">[];
  /** Positions of the experts with the task and with the language. */
  readonly roles: readonly [number, number];
  readonly onChange: (roles: readonly [number, number]) => void;
}

/** Which experts have the task and the language. The two change places rather than be the same. */
export function Roles({ experts, roles: [task, language], onChange }: Props) {
  const select = (label: string, value: number, choose: (at: number) => void) => (
    <Select
      {...{ label, value: String(value), onChange: (at) => choose(Number(at)) }}
      options={experts.map(({ name }, at): [string, string] => [String(at), name])}
    />
  );
  return (
    <div class="roles">
      {select("Task expert", task, (at) => onChange([at, at === language ? task : language]))}
      {select("Language expert", language, (at) => onChange([at === task ? language : task, at]))}
    </div>
  );
}
