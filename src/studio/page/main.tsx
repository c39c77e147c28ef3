import { render } from "preact";
import "./direction.js";
import { start } from "./store.js";
import { App } from "./views/app.js";
import "../../../assets/tokens.css";
import "../../../assets/components.css";
import "./styles/controls.css";
import "./styles/shell.css";
import "./styles/components.css";
import "./styles/explorer.css";
import "./styles/models.css";
import "./styles/recipe.css";
import "./styles/try.css";
import "./styles/experiments.css";

const root = document.getElementById("app");
// What is shown while this script loads.
root?.replaceChildren();
if (root) render(<App />, root);
void start();
