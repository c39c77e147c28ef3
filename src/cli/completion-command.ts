import { Argument, Command } from "commander";
import { SUITES, TASK_FAMILIES } from "../evaluate/tasks/index.js";
import { methodReferences } from "../merge/index.js";
import { COMMANDS } from "./command-table.js";
import { print } from "./shared/output.js";
import { checkpointFolders } from "./shared/sources.js";

/** What each shell asks for every word; a file is completed by the shell itself where layergraft has no word. */
const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_layergraft() {
  mapfile -t COMPREPLY < <(layergraft completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _layergraft layergraft`,
  zsh: `#compdef layergraft
_layergraft() {
  local -a found
  found=("\${(@f)$(layergraft completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -a found
  _files
}
compdef _layergraft layergraft`,
  fish: `complete -c layergraft -a '(layergraft completion words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'`,
};

export function add(program: Command): void {
  program
    .command("completion")
    .description(
      'Print a script that completes commands, flags, methods, tasks and models. bash: eval "$(layergraft completion ' +
        'bash)" in ~/.bashrc; zsh: the same in ~/.zshrc after compinit; fish: layergraft completion fish | source.',
    )
    .addArgument(new Argument("<shell>", "shell").choices([...Object.keys(SCRIPTS), "words"]))
    .argument("[words...]", "words: the words so far, the last one unfinished")
    .action(async (shell: string, words: readonly string[]) => {
      const script = SCRIPTS[shell];
      if (script !== undefined) return print(script);
      const last = words.at(-1) ?? "";
      const found = (await candidates(words)).filter((word) => word.startsWith(last));
      if (found.length > 0) print(found);
    });
}

/** Words that can take the place of the last one. */
async function candidates(words: readonly string[]): Promise<readonly string[]> {
  const [name = "", ...rest] = words;
  if (rest.length === 0) return [...COMMANDS.keys()];
  const program = new Command();
  (await COMMANDS.get(name)?.load())?.add(program as never);
  const { options = [], registeredArguments = [] } = program.commands[0] ?? {};
  const flag = options.find(({ long, short }) => [long, short].includes(rest.at(-2)));
  if (flag?.argChoices) return flag.argChoices;
  if (flag?.attributeName() === "tasks")
    return [...TASK_FAMILIES.flatMap(({ names }) => names), ...Object.keys(SUITES)];
  if (flag?.required && !/<(?:model|source|folder)/.test(flag.flags)) return [];
  if (rest.at(-1)?.startsWith("-")) return options.flatMap(({ long }) => long ?? []);
  if (name === "methods") return methodReferences().map((method) => method.name);
  return registeredArguments.find(({ argChoices }) => argChoices)?.argChoices ?? checkpointFolders(".");
}
