// A Python process that makes and checks models: one question at a time, a line of JSON each way.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export class Python {
  #process;
  #lines;
  #command;
  #said = "";
  ended = false;

  /** @param {string} command */
  constructor(command) {
    this.#command = command;
    this.#process = spawn(command, [fileURLToPath(new URL("models.py", import.meta.url))], { stdio: "pipe" });
    this.#process.on("error", () => this.#process.stdout.destroy());
    this.#process.stdin.on("error", () => {});
    this.#process.stderr.on("data", (data) => {
      this.#said = `${this.#said}${data}`.slice(-2000);
    });
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  /**
   * @param {string} what @param {object} fields @returns {Promise<any>}
   * @throws Error with the reason if Python cannot do it
   */
  async ask(what, fields) {
    this.#process.stdin.write(`${JSON.stringify({ do: what, ...fields })}\n`);
    const { value, done } = await this.#lines.next();
    if (done) {
      this.ended = true;
      throw new Error(
        `${this.#command} does not run the census. Set LAYERGRAFT_PYTHON to a Python with torch and transformers 5. ${this.#said.trim().split("\n").at(-1) ?? ""}`,
      );
    }
    const answer = JSON.parse(value);
    if ("error" in answer) throw new Error(answer.error);
    return answer.ok;
  }

  close() {
    this.#process.stdin.end();
  }
}
