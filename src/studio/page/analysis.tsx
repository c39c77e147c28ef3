// The page of one analysis, with its data inside: what `layergraft analyze --out` writes as report.html.

import { render } from "preact";
import "./direction.js";
import type { Analysis } from "../protocol/index.js";
import { Cautions } from "./components/basics.js";
import { Explorer } from "./explorer/explorer.js";
import "../../../assets/tokens.css";
import "../../../assets/components.css";
import "./styles/controls.css";
import "./styles/components.css";
import "./styles/explorer.css";
import "./styles/analysis.css";

function Page({ data }: { data: Analysis }) {
  const { architecture, layers, base, rowAxis, experts, warnings, next } = data;
  return (
    <main class="alone">
      <header class="stack tight">
        <h1>Where the experts changed</h1>
        <p class="soft">
          {architecture}, {layers} layers; changes from {base}. A row is an {rowAxis} feature of a weight matrix, and
          each cell is the share of a matrix's rows above the threshold.
        </p>
        <Cautions texts={warnings} />
      </header>
      <Explorer data={data} />
      <footer class="card stack tight">
        <h2>Next</h2>
        {experts.length > 1 ? (
          <p>
            Get recipes to try, by depth and by where the experts changed:{" "}
            <code>{next ?? "layergraft suggest --base BASE --task TASK --language LANGUAGE"}</code>
          </p>
        ) : (
          <p>
            Add a second expert to compare where both changed: <code>--expert NAME=FOLDER</code>
          </p>
        )}
        <p>
          See these models in the studio, and choose layers there: <code>layergraft studio</code>
        </p>
        <p class="soft">Tensors outside the layers, norms and biases are in analysis.json.</p>
      </footer>
    </main>
  );
}

const text = document.getElementById("data")?.textContent ?? "";
render(<Page data={JSON.parse(text) as Analysis} />, document.body);
